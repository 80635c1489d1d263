import h5py
import numpy as np
import pytest
import torch

from jigsawmil.bags.formats import peek_bag, read_bag
from jigsawmil.errors import FeatureError


def bfloat16_type():
    """HDF5's own description of bfloat16: one sign bit, eight of exponent, seven of mantissa."""
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_ebias(127)
    kind.set_precision(16)
    kind.set_size(2)
    return kind


@pytest.mark.parametrize("how", ["opaque", "described"])
def test_bfloat16_keeps_its_values(tools, tmp_path, how):
    x = torch.from_numpy(tools.features()).bfloat16()
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["coords"] = tools.lattice()
        if how == "opaque":  # what h5py makes of the bfloat16 of ml_dtypes
            file["features"] = x.view(torch.int16).numpy().view("V2")
        else:
            space = h5py.h5s.create_simple(tuple(x.shape))
            dataset = h5py.h5d.create(file.id, b"features", bfloat16_type(), space)
            dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(x.float().numpy()))
    assert torch.equal(read_bag(tmp_path / "a.h5").features, x.float())


def test_bit_patterns_are_not_taken_for_numbers(tools, tmp_path):
    x = torch.from_numpy(tools.features()).bfloat16()
    path = tools.trident(tmp_path / "a.h5", x.view(torch.int16).numpy().view(np.uint16), tools.lattice())
    with pytest.raises(FeatureError, match=r"uint16.*bfloat16"):
        peek_bag(path)


@pytest.mark.parametrize("dtype", ["<f2", ">f4", "<f8"])
def test_any_precision_and_byte_order_becomes_float32(tools, tmp_path, dtype):
    x = tools.features().astype(dtype)
    bag = read_bag(tools.trident(tmp_path / "a.h5", x, tools.lattice()))
    assert bag.features.dtype == torch.float32
    assert np.array_equal(bag.features.numpy(), x.astype(np.float32))


@pytest.mark.parametrize("keep", [0, 100, 3000])
def test_a_truncated_file_is_named_with_its_remedy(tools, tmp_path, keep):
    path = tools.trident(tmp_path / "a.h5", tools.features(), tools.lattice())
    path.write_bytes(path.read_bytes()[:keep])
    for function in (peek_bag, read_bag):
        with pytest.raises(FeatureError, match=r"a\.h5: cannot be read as HDF5 .*extract it again"):
            function(path)


def test_another_kind_of_file_is_named(tmp_path):
    (tmp_path / "a.h5").write_text("x,y\n1,2\n")
    with pytest.raises(FeatureError, match=r"a\.h5: cannot be read as HDF5"):
        peek_bag(tmp_path / "a.h5")


def test_damage_inside_the_data_is_named(tools, tmp_path):
    path, n = tmp_path / "a.h5", 40
    with h5py.File(path, "w") as file:
        file.create_dataset("features", data=tools.features(n), chunks=(n, 5), compression="gzip")
        file["coords"] = tools.lattice(n)
        start = file["features"].id.get_chunk_info(0).byte_offset
    raw = bytearray(path.read_bytes())
    raw[start : start + 50] = bytes(50)
    path.write_bytes(raw)
    assert peek_bag(path).n == n
    with pytest.raises(FeatureError, match="dataset 'features' is damaged"):
        read_bag(path)
