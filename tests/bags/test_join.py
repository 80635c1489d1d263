"""Features of several encoders on the same patches: joined patch by patch, refused if the patches differ."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from jigsawmil.bags.bag import Bag
from jigsawmil.bags.formats import peek_bag, read_bag, write_bag
from jigsawmil.bags.join import join_features, one_folder
from jigsawmil.bags.survey import survey_bag
from jigsawmil.errors import ConfigError, FeatureError

PLACES = torch.tensor([[0, 0], [256, 0], [0, 256], [256, 256], [512, 0]], dtype=torch.float64)


def bag(columns: int, encoder: str, seed: int) -> Bag:
    features = torch.randn(5, columns, generator=torch.Generator().manual_seed(seed))
    return Bag(slide_id="a", features=features, coords=PLACES, patch_size=256.0, mpp=0.5, encoder=encoder)


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """The second encoder wrote the patches in another order."""
    one, other = bag(3, "uni", 1), bag(2, "virchow", 2)
    turned = replace(other, features=other.features.flip(0), coords=other.coords.flip(0))
    write_bag(one, tmp_path / "uni" / "a.h5")
    write_bag(turned, tmp_path / "virchow" / "a.h5")
    return tmp_path / "uni", tmp_path / "virchow"


def test_columns_stand_side_by_side_whatever_the_order_of_rows(two: tuple[Path, Path]) -> None:
    folder = join_features(two)
    assert folder.name == "uni+virchow"
    found, info = read_bag(folder / "a.joined"), peek_bag(folder / "a.joined")
    expected = torch.cat([bag(3, "uni", 1).features, bag(2, "virchow", 2).features], dim=1)
    assert torch.equal(found.features, expected)
    assert torch.equal(found.coords, PLACES)
    assert (found.encoder, found.patch_size, found.mpp, info.dim, info.n) == ("uni+virchow", 256.0, 0.5, 5, 5)
    assert one_folder(two) == join_features(two) == folder  # again: the same files
    assert one_folder([two[0]]) == two[0]


def test_a_change_of_any_file_is_seen(two: tuple[Path, Path]) -> None:
    folder = join_features(two)
    before = survey_bag(folder / "a.joined").content
    write_bag(bag(2, "virchow", 9), two[1] / "a.h5")
    assert survey_bag(folder / "a.joined").content != before


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"coords": PLACES + 7.0}, "the coordinates in .* differ; expected the same patches"),
        ({"coords": PLACES[:4], "features": torch.ones(4, 2)}, "patches 5 in .*, 4 in "),
        ({"patch_size": 512.0}, "patch_size 256.0 in .*, 512.0 in "),
        ({"mpp": 0.25}, "mpp 0.5 in .*, 0.25 in "),
    ],
)
def test_other_patches_are_refused(two: tuple[Path, Path], change: dict[str, object], told: str) -> None:
    write_bag(replace(bag(2, "virchow", 2), **change), two[1] / "a.h5")
    with pytest.raises(FeatureError, match=told):
        read_bag(join_features(two) / "a.joined")


def test_a_slide_that_one_folder_lacks_is_named(two: tuple[Path, Path]) -> None:
    write_bag(replace(bag(3, "uni", 1), slide_id="b"), two[0] / "b.h5")
    folder = join_features(two)
    with pytest.raises(FeatureError, match=r"b\.joined: no features in .*virchow; expected them in each"):
        peek_bag(folder / "b.joined")


def test_what_cannot_be_joined(two: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected two different folders or more"):
        join_features([two[0], two[0]])
    with pytest.raises(FeatureError, match=r"holds a\.h5, which the joined folder would not"):
        join_features(two, two[0])
