"""Tensors on disk: what comes back is what was kept or nothing, within the bound, whoever dies or removes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from jigsawmil.bags.disk_cache import FOLDER, SIZE, DiskCache, machine_cache
from jigsawmil.errors import ConfigError

BYTES = 4096 + 300  # of a file of 4096 bytes of numbers, about


def numbers(seed: int) -> dict[str, torch.Tensor]:
    return {"x": torch.randint(0, 1 << 60, (512,), generator=torch.Generator().manual_seed(seed))}


def has(cache: DiskCache, name: str) -> bool:
    found = cache.read(name)
    return found is not None and torch.equal(found[0]["x"], numbers(int(name))["x"])


def age(folder: Path) -> None:
    """As if the files had been used long ago, the smaller names first."""
    for place, file in enumerate(sorted(folder.glob("*.safetensors"))):
        os.utime(file, (1e9 + place, 1e9 + place))


def test_what_comes_back_is_what_was_kept(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "new", 1e6)
    kept = {"half": torch.randn(7, 3).half(), "brain": torch.randn(4).bfloat16(), "none": torch.zeros(0, 2)}
    assert cache.read("a") is None
    cache.keep("a", kept | {"turned": torch.arange(6).reshape(2, 3).T}, {"note": "1"})
    for reader in (cache, cache, DiskCache(tmp_path / "new", 1e6)):  # checked, fetched, and in another process
        tensors, notes = reader.read("a") or pytest.fail("nothing there")
        assert notes["note"] == "1"
        assert torch.equal(tensors["turned"], torch.arange(6).reshape(2, 3).T)
        assert all(torch.equal(tensors[k], v) and tensors[k].dtype == v.dtype for k, v in kept.items())


def test_the_bound_holds_and_what_is_in_use_stays(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 4 * BYTES)
    for seed in range(6):
        cache.keep(str(seed), numbers(seed), {})
    assert [has(cache, str(seed)) for seed in range(6)] == [True] * 4 + [False] * 2
    age(tmp_path)
    assert has(cache, "0")  # now in use
    later = DiskCache(tmp_path, 4 * BYTES)
    assert has(later, "1")
    for seed in (6, 7, 8):
        later.keep(str(seed), numbers(seed), {})
    left = [seed for seed in range(9) if has(later, str(seed))]
    assert left in ([0, 1, 6, 7], [1, 6, 7, 8])  # 2 and 3 went; 0 only if it was used before `later` began
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 4 * BYTES


def test_what_was_removed_can_be_read_to_its_end(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 1e6)
    cache.keep("0", numbers(0), {})
    found = cache.read("0")
    (tmp_path / "0.safetensors").unlink()
    assert found is not None
    assert torch.equal(found[0]["x"], numbers(0)["x"])
    assert cache.read("0") is None


@pytest.mark.parametrize("harm", ["flip", "cut", "empty"])
def test_a_damaged_file_is_nothing_and_is_removed(tmp_path: Path, harm: str) -> None:
    DiskCache(tmp_path, 1e6).keep("0", numbers(0), {})
    file = tmp_path / "0.safetensors"
    whole = file.read_bytes()
    file.write_bytes(
        {"flip": whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:], "cut": whole[:-100], "empty": b""}[harm]
    )
    cache = DiskCache(tmp_path, 1e6)
    assert cache.read("0") is None
    assert not file.exists()
    cache.keep("0", numbers(0), {})
    assert has(cache, "0")


def test_a_folder_that_cannot_be_written_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = DiskCache(tmp_path / "file" / "folder", 1e6)
    with pytest.warns(UserWarning, match="cannot be kept there.*Name another folder in JIGSAWMIL_CACHE"):
        cache.keep("0", numbers(0), {})
    cache.keep("0", numbers(0), {})
    assert cache.read("0") is None


def test_killed_while_writing(tmp_path: Path) -> None:
    """Beside a reader; what is there afterwards is whole, and the rest can be written."""
    code = """
import sys; from pathlib import Path; from tests.bags.test_disk_cache import *
cache = DiskCache(Path(sys.argv[1]), 1e9)
print(flush=True)
for seed in range(10 ** 6): cache.keep(str(seed), numbers(seed), {})
"""
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    reader = DiskCache(tmp_path, 1e9)
    while not (tmp_path / "20.safetensors").exists():
        assert process.poll() is None
        assert reader.read("10") is None or has(reader, "10")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    after, names = DiskCache(tmp_path, 1e9), {file.stem for file in tmp_path.glob("*.safetensors")}
    assert {"0", "20"} <= names
    assert all(has(after, name) for name in names)
    after.keep("-1", numbers(-1), {})
    assert has(after, "-1")


def test_the_environment_says_where_and_how_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path / "here"))
    for size, kept in (("0", False), ("", True)):
        monkeypatch.setenv(SIZE, size)
        machine_cache().keep("0", numbers(0), {})
        assert (tmp_path / "here").exists() is kept
    monkeypatch.setenv(SIZE, "much")
    with pytest.raises(ConfigError, match="JIGSAWMIL_CACHE_GB"):
        machine_cache()
