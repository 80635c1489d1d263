"""The resolution of each slide from the label table: slides of several scanners in one folder are read as they are."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from jigsawmil.cohort.cohort import Cohort
from jigsawmil.cohort.labels import read_labels
from jigsawmil.errors import FeatureError, LabelError

MPP = {"a": 0.25, "b": 0.25, "c": 0.5, "d": 0.5}


@pytest.fixture
def bags(tmp_path: Path) -> Path:
    """Bags of slideflow: tiles of 128 microns, as centres in level-0 pixels, side by side."""
    folder = tmp_path / "bags"
    folder.mkdir()
    (folder / "bags_config.json").write_text(json.dumps({"tile_px": 256, "tile_um": 128}))
    for slide, mpp in MPP.items():
        edge, index = int(128 / mpp), np.arange(20)
        centres = edge * np.stack([index % 5, index // 5], axis=1) + edge // 2
        torch.save(torch.randn(20, 4, generator=torch.Generator().manual_seed(ord(slide))), folder / f"{slide}.pt")
        np.savez(folder / f"{slide}.index.npz", centres)
    return folder


def table(folder: Path, mpp: dict[str, object], name: str = "slide_mpp") -> Path:
    rows = [f"{slide},{'xy'[i % 2]},{mpp.get(slide, '')}" for i, slide in enumerate(MPP)]
    path = folder / "labels.csv"
    path.write_text("\n".join([f"slide,label,{name}", *rows]) + "\n")
    return path


def test_each_slide_has_its_own(tmp_path: Path, bags: Path) -> None:
    cohort = Cohort.read(table(tmp_path, MPP), bags)
    for index, slide in enumerate(cohort.slides):
        bag = cohort.bag(index)
        assert (bag.mpp, bag.patch_size) == (MPP[slide.slide_id], 128 / MPP[slide.slide_id])
        assert bag.coords[0].tolist() == [0, 0]
    assert any("column 'slide_mpp'" in note for note in cohort.notes)
    other = Cohort.read(table(tmp_path, MPP, "resolution"), bags, mpp_column="resolution", label_column="label")
    assert other.bag(2).mpp == 0.5


def test_one_resolution_for_all_contradicts_the_grid_of_some(tmp_path: Path, bags: Path) -> None:
    with pytest.raises(FeatureError, match=r"(?s)2 slides whose grid contradicts.*--mpp-column"):
        Cohort.read(table(tmp_path, {}, "remark"), bags, mpp=0.25, label_column="label")
    with pytest.raises(FeatureError, match=r"1 slide whose grid contradicts .*: d \(patches 0.6"):
        Cohort.read(table(tmp_path, MPP | {"d": 0.3}), bags)


def test_what_is_no_resolution(tmp_path: Path, bags: Path) -> None:
    for value in ("0", "-1", "nan%", "20x"):
        with pytest.raises(LabelError, match=rf"'slide_mpp': line 3: b {value}; expected one number above 0"):
            read_labels(table(tmp_path, MPP | {"b": value}))
    with pytest.raises(LabelError, match=r"another resolution than mpp=0\.25 for 2 slides: c 0\.5, d 0\.5"):
        Cohort.read(table(tmp_path, MPP), bags, mpp=0.25)
