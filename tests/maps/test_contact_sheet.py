"""The sheet shows the right tiles in the right order, pixel by pixel."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from jigsawmil.bags.bag import Bag
from jigsawmil.drawing import own_style
from jigsawmil.errors import SlideError
from jigsawmil.graph import GraphConfig
from jigsawmil.maps.contact_sheet import GAP, LINE, TILE, sheet_figure, top_groups, write_contact_sheet
from jigsawmil.maps.patch_maps import PatchMaps, explain
from jigsawmil.nn.model import build_model
from jigsawmil.slides.slide import open_slide
from jigsawmil.train.checkpoint import ModelCard

EDGE, COUNT = 128, 20


@pytest.fixture(scope="module")
def maps() -> PatchMaps:
    """Patch i has attention ~ i and evidence 10 - i, so ranks are known."""
    coords = torch.stack([torch.arange(COUNT) % 5, torch.arange(COUNT) // 5], dim=1).double() * EDGE
    bag = Bag(slide_id="s", features=torch.randn(COUNT, 4), coords=coords, patch_size=EDGE)
    model = build_model("abmil", 4, hidden=4)
    [found] = explain(model, ModelCard(model=model.config, graph=GraphConfig(), classes=("no", "yes")), bag)
    weight = np.arange(1.0, COUNT + 1)
    return dataclasses.replace(found, attention=weight / weight.sum(), evidence=10.0 - np.arange(COUNT)[:, None])


def colour(patch: int) -> tuple[int, int, int]:
    return (10 * patch, 255 - 10 * patch, 90)


@pytest.fixture
def slide(tmp_path: Path):
    """Every patch in a colour of its own."""
    pixels = np.full((4 * EDGE, 5 * EDGE, 3), 255, np.uint8)
    for i in range(COUNT):
        row, column = divmod(i, 5)
        pixels[row * EDGE : (row + 1) * EDGE, column * EDGE : (column + 1) * EDGE] = colour(i)
    Image.fromarray(pixels).save(tmp_path / "s.png")
    with open_slide(tmp_path / "s.png") as opened:
        yield opened


def test_ranks_and_values(maps: PatchMaps) -> None:
    most, least = top_groups(maps, 3)
    assert list(most.patches) == [19, 18, 17]
    assert list(least.patches) == [0, 1, 2]
    assert most.values == pytest.approx(maps.attention[[19, 18, 17]] * 100)
    _, _, speak_for, against = top_groups(maps, 30, evidence=True)
    assert list(speak_for.patches) == list(range(10))  # evidence above 0 only
    assert list(against.patches) == list(range(19, 10, -1))


def test_without_attention_the_evidence_is_shown(maps: PatchMaps) -> None:
    flat = dataclasses.replace(maps, attention=np.full(COUNT, 1 / COUNT))
    assert [group.title.split(":")[0] for group in top_groups(flat, 2)] == [
        "strongest evidence for yes",
        "strongest evidence against yes",
    ]


def test_without_evidence_the_attention_is_shown(maps: PatchMaps) -> None:
    bare = dataclasses.replace(maps, evidence=None)
    flat = dataclasses.replace(bare, attention=np.full(COUNT, 1 / COUNT))
    for one in (bare, flat):
        found = [group.title.split(":")[0] for group in top_groups(one, 2, evidence=True)]
        assert found == ["most attended", "least attended"]


def test_tiles_stand_in_order_with_their_own_pixels(maps: PatchMaps, slide, tmp_path: Path) -> None:
    write_contact_sheet(maps, tmp_path / "sheet.png", slide=slide, k=8)
    sheet = np.asarray(Image.open(tmp_path / "sheet.png").convert("RGB")).astype(int)
    top = 4 * LINE
    for group in top_groups(maps, 8):
        for rank, patch in enumerate(group.patches):
            row, column = divmod(rank, 6)
            x, y = GAP + column * (TILE + GAP), top + row * (TILE + LINE + GAP)
            tile = sheet[y + 3 : y + TILE - 3, x + 3 : x + TILE - 3]
            assert (tile == colour(patch)).all()
        top += 2 * (TILE + LINE + GAP) + 2 * LINE


def test_rank_value_and_number_are_legible(maps: PatchMaps, legible) -> None:
    groups = top_groups(maps, 7)
    tiles = [[np.zeros((TILE, TILE, 3), np.uint8)] * len(group.patches) for group in groups]
    with own_style():
        figure = sheet_figure("a slide", groups, tiles)
        legible(figure)
    assert "1.  9.52   (patch 19)" in [text.get_text() for text in figure.texts]


def test_a_group_without_patches_says_so(maps: PatchMaps) -> None:
    groups = top_groups(dataclasses.replace(maps, evidence=np.ones((COUNT, 1))), 2, evidence=True)
    tiles = [[np.zeros((TILE, TILE, 3), np.uint8)] * len(group.patches) for group in groups]
    words = [text.get_text() for text in sheet_figure("s", groups, tiles).texts]
    assert "strongest evidence against yes: no patch" in words


def test_the_slide_of_other_features_is_refused(maps: PatchMaps, slide, tmp_path: Path) -> None:
    moved = dataclasses.replace(maps, bag=dataclasses.replace(maps.bag, coords=maps.bag.coords * 9))
    with pytest.raises(SlideError, match="patches of s lie outside"):
        write_contact_sheet(moved, tmp_path / "sheet.png", slide=slide)
    assert not (tmp_path / "sheet.png").exists()
