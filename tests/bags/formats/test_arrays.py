import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from jigsawmil.bags.formats import peek_bag, read_bag
from jigsawmil.errors import FeatureError


class Bomb:
    """Touches a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


@pytest.fixture
def read(tools, tmp_path):
    """Read a .pt as CLAM's, with coordinates beside it."""
    np.save(tmp_path / "xy.npy", tools.lattice())
    return lambda name, function=read_bag: function(tmp_path / name, coords=tmp_path / "xy.npy")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("zipped", [True, False])  # False: the format before torch 1.6
def test_tensors_of_any_precision(tools, tmp_path, read, dtype, zipped):
    x = torch.from_numpy(tools.features()).to(dtype)
    torch.save(x, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
    bag = read("a.pt")
    assert bag.features.dtype == torch.float32
    assert torch.equal(bag.features, x.float())
    assert read("a.pt", peek_bag).dtype == str(dtype).removeprefix("torch.")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_numpy_arrays_in_a_pt(tools, tmp_path, read, dtype):
    x = tools.features().astype(dtype)
    torch.save(x, tmp_path / "a.pt")
    assert torch.equal(read("a.pt").features, torch.from_numpy(x).float())


def test_numpy_arrays_saved_under_numpy_1(tools, tmp_path, read):
    torch.save(tools.features(), tmp_path / "a.pt", _use_new_zipfile_serialization=False)
    raw = (tmp_path / "a.pt").read_bytes()
    (tmp_path / "a.pt").write_bytes(raw.replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    assert torch.equal(read("a.pt").features, torch.from_numpy(tools.features()))


def test_numpy_arrays_are_read_from_many_threads(tools, tmp_path, read):
    torch.save(tools.features(), tmp_path / "a.pt")
    allowed = set(torch.serialization.get_safe_globals())
    with ThreadPoolExecutor(8) as pool:
        bags = list(pool.map(lambda _: read("a.pt"), range(64)))
    assert all(torch.equal(bag.features, bags[0].features) for bag in bags)
    assert set(torch.serialization.get_safe_globals()) == allowed  # nothing stays allowed for the rest of the program


def test_an_allowance_of_another_thread_that_ends_meanwhile_is_no_damage(tools, tmp_path, read, monkeypatch):
    """torch asks whether a name is allowed, and then what it stands for."""
    torch.save(tools.features(), tmp_path / "a.pt")
    names = torch._weights_only_unpickler._get_user_allowed_globals

    class Ending(dict):
        def __contains__(self, name):
            return name.startswith("numpy") or super().__contains__(name)

    monkeypatch.setattr(torch._weights_only_unpickler, "_get_user_allowed_globals", lambda: Ending(names()))
    assert torch.equal(read("a.pt").features, torch.from_numpy(tools.features()))


@pytest.mark.parametrize("wrap", ["bare", "in a list", "in an array", "pickle"])
def test_a_hostile_pickle_is_refused_and_does_not_run(tools, tmp_path, read, wrap):
    bomb, path = Bomb(tmp_path / "ran"), tmp_path / "a.pt"
    if wrap == "pickle":
        path.write_bytes(pickle.dumps(bomb, protocol=2))
    else:
        torch.save({"bare": bomb, "in a list": [bomb], "in an array": np.array([bomb, bomb])}[wrap], path)
    for function in (peek_bag, read_bag):
        with pytest.raises(FeatureError, match=r"a\.pt: .*was not opened"):
            read("a.pt", function)
    assert not bomb.marker.exists()
    torch.load(path, weights_only=False) if wrap != "pickle" else pickle.loads(path.read_bytes())
    assert bomb.marker.exists()  # it would have run


@pytest.mark.parametrize("value", [{"features": [0.5]}, [torch.zeros(2, 3)], "text", 3])
def test_other_objects_are_refused_by_name(tmp_path, read, value):
    torch.save(value, tmp_path / "a.pt")
    with pytest.raises(FeatureError, match=f"holds a {type(value).__name__}, expected one tensor"):
        read("a.pt")


@pytest.mark.parametrize("content", [b"", b"not a tensor", None])
def test_damaged_files_are_named(tools, tmp_path, read, content):
    path = tmp_path / "a.pt"
    torch.save(torch.from_numpy(tools.features()), path)
    path.write_bytes(path.read_bytes()[:300] if content is None else content)
    with pytest.raises(FeatureError, match=r"a\.pt: "):
        read("a.pt")


def test_peek_maps_a_pt_instead_of_reading_it(tools, tmp_path, read, monkeypatch):
    torch.save(torch.from_numpy(tools.features()), tmp_path / "a.pt")
    load, mapped = torch.load, []
    monkeypatch.setattr(torch, "load", lambda *args, **kwargs: mapped.append(kwargs["mmap"]) or load(*args, **kwargs))
    assert read("a.pt", peek_bag).n == len(tools.features())
    assert set(mapped) == {True}


def test_an_empty_archive_of_coordinates_is_named(tools, tmp_path):
    torch.save(torch.from_numpy(tools.features()), tmp_path / "a.pt")
    np.savez(tmp_path / "a.index.npz")
    with pytest.raises(FeatureError, match=r"a\.index\.npz: cannot be read"):
        read_bag(tmp_path / "a.pt", patch_size=512)
