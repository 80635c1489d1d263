"""What is damaged, missing or made to harm is refused in a sentence with the file's name, and never read as zeros."""

import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from tools.fuzz.__main__ import run

from jigsawmil.bags.formats import FORMATS, find_bags, guard, hdf5, peek_bag, read_bag, write_bag
from jigsawmil.bags.formats.guard import reading
from jigsawmil.errors import FeatureError


def test_of_files_damaged_at_random_none_does_harm() -> None:
    """`make fuzz` is the long form. Every format of the registry is among the readers, and all else that is read."""
    table = run(500, seed=20)
    assert not table.failures, table.failures
    documents = {"label", "splits", "study", "mask", "our"}
    assert {name.split()[0] for name in table.counts} > {*FORMATS} | documents
    assert sum(one["clear error"] for one in table.counts.values()) > 200


def test_what_was_declared_and_never_written_is_not_zeros(tools, tmp_path):
    path = tools.trident(tmp_path / "a.h5", tools.features(), tools.lattice())
    with h5py.File(path, "a") as file:
        del file["features"]
        file.create_dataset("features", shape=(7, 5), dtype="f4")
    for look in (peek_bag, read_bag):
        with pytest.raises(FeatureError, match=r"a\.h5: dataset 'features' was declared, and never written"):
            look(path)


def test_rows_that_were_added_and_not_written_are_not_zeros(tools, tmp_path):
    path = tools.trident(tmp_path / "a.h5", tools.features(), tools.lattice())
    with h5py.File(path, "a") as file:
        for key in ("features", "coords"):
            file[key].resize(9, axis=0)
    with pytest.raises(FeatureError, match=r"only in part \(140 of 180 bytes\)"):
        peek_bag(path)


@pytest.mark.parametrize("zeros", [True, False])
def test_of_compressed_chunks_only_those_of_zeros_that_are_there_are_read(tools, tmp_path, zeros):
    """The index of compressed chunks says nothing of how many there should be."""
    path, x = tmp_path / "a.h5", tools.features(40)
    with h5py.File(path, "w") as file:
        file["coords"] = tools.lattice(40)
        features = file.create_dataset("features", shape=x.shape, dtype="f4", chunks=(10, 5), compression="gzip")
        features[:20] = x[:20]
        if zeros:
            features[20:] = 0
    if zeros:
        assert torch.equal(read_bag(path).features[:20], torch.from_numpy(x[:20]))
    else:
        with pytest.raises(FeatureError, match="dataset 'features' is damaged"):
            read_bag(path)


def test_a_dataset_that_cannot_be_opened_is_not_absent(tools, tmp_path):
    """Coordinates of the patches file beside it would be taken instead."""
    path = tools.clam_h5(tmp_path / "h5_files/a.h5", tools.features(), tools.lattice())
    tools.clam_patches(tmp_path / "patches/a.h5", tools.lattice(origin=(0, 0)))
    with h5py.File(path) as file:
        place = h5py.h5o.get_info(file["coords"].id).addr
    raw = bytearray(path.read_bytes())
    raw[place] ^= 0xFF  # the version of its header
    path.write_bytes(raw)
    for look in (peek_bag, read_bag):
        with pytest.raises(FeatureError, match=r"a\.h5: cannot be read as HDF5"):
            look(path)
    assert find_bags(tmp_path / "h5_files") == {"a": path}  # it is listed, and whoever looks at it hears why


def test_values_in_other_files_are_not_read(tools, tmp_path):
    path = tools.trident(tmp_path / "a.h5", tools.features(), tools.lattice())
    with h5py.File(path, "a") as file:
        del file["features"]
        file.create_dataset("features", shape=(7, 5), dtype="f4", external=[("/etc/passwd", 0, 140)])
    with pytest.raises(FeatureError, match="'features' is stored in another file"):
        read_bag(path)


def test_a_chunk_that_is_missing_or_cut_off_is_named(tools, tmp_path):
    for version, chunk in ((2, "0.0"), (3, "c/0/0")):
        path = tmp_path / f"{version}.zarr"
        tools.lazyslide(path, tools.features(300, 16), tools.lattice(300), shapes="ragged", zarr_format=version)
        file = path / "tables/uni_tiles/X" / chunk
        whole = file.read_bytes()
        for size in (0, 5, 16, 100, len(whole) - 1):
            file.write_bytes(whole[:size])
            with pytest.raises(FeatureError, match=r"zarr"):
                read_bag(path)
        file.unlink()
        with pytest.raises(FeatureError, match="chunks are missing, and would read as zeros"):
            read_bag(path)


def test_tile_ids_that_are_missing_are_not_all_zero(tools, tmp_path):
    path = tools.lazyslide(tmp_path / "a.zarr", tools.features(), tools.lattice(), shapes="ragged")
    (path / "tables/uni_tiles/obs/tile_id/0").unlink()
    with pytest.raises(FeatureError, match="6 feature rows share their tile id with another one"):
        read_bag(path)
    one = tools.lazyslide(tmp_path / "b.zarr", tools.features(1), tools.lattice(1), shapes="ragged")
    assert not (one / "tables/uni_tiles/obs/tile_id/0").exists()  # Zarr leaves it out: the only id is 0
    assert len(read_bag(one)) == 1


def test_bombs_are_refused_before_they_are_unpacked(tools, tmp_path, monkeypatch):
    monkeypatch.setattr(guard, "LARGE", 1 << 20)
    x = np.zeros((4000, 200), np.float32)
    h5 = tmp_path / "a.h5"
    with h5py.File(h5, "w") as file:
        file.create_dataset("features", data=x, compression="gzip", chunks=x.shape)
        file["coords"] = tools.lattice(4000)
    pt = tmp_path / "b.pt"
    torch.save(torch.from_numpy(x), pt)
    with zipfile.ZipFile(pt) as whole, zipfile.ZipFile(tmp_path / "c.pt", "w", zipfile.ZIP_DEFLATED) as packed:
        for entry in whole.namelist():
            packed.writestr(entry, whole.read(entry))
    torch.save(torch.zeros(1, 1).expand(4000, 200), tmp_path / "d.pt")
    store = tools.lazyslide(tmp_path / "e.zarr", x, tools.lattice(4000), shapes="ragged", zarr_format=3)
    assert not list(store.glob("tables/*/X/c/**/*"))  # zeros are left out
    with pytest.raises(FeatureError, match="chunks are missing"):
        read_bag(store)
    assert read_bag(pt).dim == 200
    for bomb in (h5, tmp_path / "c.pt", tmp_path / "d.pt"):
        with pytest.raises(FeatureError, match=rf"{bomb.name}.*bytes that unpack to 3,2"):
            read_bag(bomb)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limits of processor time")
def test_a_reader_that_loops_is_ended_and_the_next_file_is_read(tools, tmp_path, monkeypatch):
    good = tools.trident(tmp_path / "a.h5", tools.features(), tools.lattice())
    code = "from jigsawmil.bags.formats.hdf5_child import limit_time\nlimit_time(0)\nwhile True: pass"
    assert subprocess.run([sys.executable, "-c", code], timeout=100).returncode == -signal.SIGXCPU
    assert read_bag(good).dim == 5
    os.kill(hdf5._CHILD._process.pid, signal.SIGKILL)
    hdf5._CHILD._process.wait()
    assert read_bag(good).dim == 5


def test_faults_of_any_kind_become_a_sentence() -> None:
    path = Path("slides/a.xyz")
    for fault in (RuntimeError("bad\nworse"), RecursionError(), ZeroDivisionError("x"), MemoryError(), EOFError()):
        with pytest.raises(FeatureError, match=r"^a\.xyz: [^\n]+\.$"), reading(path):
            raise fault
    with pytest.raises(FeatureError, match=r"slides/a\.xyz: may not be read \(permission denied\)"), reading(path):
        raise PermissionError(13, "Permission denied")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes there")
def test_a_pipe_is_not_waited_for(tmp_path):
    for name in ("a.h5", "b.pt", "c.npy"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(FeatureError, match=f"{name}: neither a file nor a folder"):
            read_bag(tmp_path / name)
    assert len(find_bags(tmp_path)) == 3


def test_our_own_files_say_when_they_were_changed(tools, tmp_path):
    """Whatever of values, attributes or names was changed after writing, and however: `make fuzz` damages them too."""
    bag = read_bag(tools.trident(tmp_path / "of_trident.h5", tools.features(), tools.lattice()))
    path = tmp_path / "a.h5"

    def value(file):
        file["features"][3, 2] += 1

    def attribute(file):
        file["coords"].attrs["mpp"] = 0.5

    def name(file):
        file.move("coords", "corners")

    def sums(file):
        del file.attrs["checksums"]

    for change in (value, attribute, name, sums):
        write_bag(bag, path)
        assert torch.equal(read_bag(path).features, bag.features)
        with h5py.File(path, "a") as file:
            change(file)
        with pytest.raises(FeatureError, match=r"a\.h5: .*checksum"):
            read_bag(path)
    with h5py.File(path, "a") as file:
        hdf5.unseal(file)
    assert len(read_bag(path)) == len(bag)
