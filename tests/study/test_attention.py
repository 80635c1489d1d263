"""Attention is kept with checksums: what comes back is what was written, or an error that names the file."""

import os
from pathlib import Path

import numpy as np
import pytest

from jigsawmil.errors import StudyError
from jigsawmil.study.attention import read_attention, write_attention


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    write_attention(tmp_path / "a.safetensors", {"s": rng.random(9), "s/coords": rng.random((9, 2))})
    return tmp_path / "a.safetensors"


def test_the_first_slide_that_is_there_comes_back(kept: Path) -> None:
    found = read_attention(kept, ["patient", "s"])
    assert found is not None
    assert (found[0], found[1].shape, found[2].shape) == ("s", (9, 2), (9,))
    assert read_attention(kept, ["t"]) is None
    assert read_attention(kept.with_name("gone"), ["s"]) is None


def test_no_damage_goes_unnoticed(kept: Path) -> None:
    raw = kept.read_bytes()
    whole = read_attention(kept, ["s"])
    assert whole is not None
    for place in range(0, len(raw), 3):
        damaged = bytearray(raw)
        damaged[place] ^= 4
        kept.write_bytes(damaged)
        try:
            found = read_attention(kept, ["s"])
        except StudyError as error:
            assert kept.name in str(error)  # noqa: PT017
        else:  # a name that is no longer there, or what was written
            assert found is None or all(np.array_equal(a, b) for a, b in zip(found, whole, strict=True))


def test_a_file_that_may_not_be_read_is_not_absent(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *given: False)  # root may read anything
    with pytest.raises(StudyError, match=r"a\.safetensors: may not be read \(permission denied\)"):
        read_attention(kept, ["s"])
