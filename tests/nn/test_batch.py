"""Patches in the cells of a grid."""

import torch

from jigsawmil.graph_config import Raster
from jigsawmil.nn.batch import position_bins


def test_bins_fill_the_grid_and_the_last_edge_belongs_to_the_last_bin() -> None:
    corners = torch.tensor([[100.0, 50.0], [300.0, 50.0], [100.0, 1050.0], [300.0, 1050.0]])
    assert position_bins(corners, Raster(10)).tolist() == [0, 9, 90, 99]  # x is the column, y the row
    inner = torch.cat([corners, torch.tensor([[219.9, 50.0], [220.1, 50.0]])])
    assert position_bins(inner, Raster(10))[-2:].tolist() == [5, 6]
    assert position_bins(torch.tensor([[5.0, 5.0]]), Raster(10)).tolist() == [0]
    assert position_bins(torch.tensor([[0.0, 5.0], [9.0, 5.0]]), Raster(3)).tolist() == [0, 2]


def test_square_cells_leave_a_narrow_slide_part_of_the_grid() -> None:
    x, y = torch.meshgrid(torch.arange(50.0), torch.arange(10.0), indexing="ij")
    coords = torch.stack([x.flatten(), y.flatten()], dim=1).double()
    full, square = (position_bins(coords, Raster(10, axes)) for axes in ("per-axis", "aspect"))
    assert set(full.tolist()) == set(range(100))
    assert set(square.tolist()) == set(range(20))  # two rows of ten
