"""Maps as CSV and AnnData: read back, they are the maps."""

import builtins
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from jigsawmil.bags.bag import Bag
from jigsawmil.bags.formats import read_bag
from jigsawmil.errors import ConfigError
from jigsawmil.graph import GraphConfig
from jigsawmil.maps.geometry import level0_squares
from jigsawmil.maps.patch_maps import PatchMaps, explain
from jigsawmil.maps.qupath import measurements
from jigsawmil.maps.tables import maps_table, write_h5ad, write_maps_csv
from jigsawmil.maps.values import percentiles
from jigsawmil.nn.model import build_model
from jigsawmil.train.checkpoint import ModelCard


def some_maps(
    method: str = "graph-abmil+jigsaw", classes=("normal", "tumour"), bag=None, attribution=False, **options
) -> PatchMaps:
    g = torch.Generator().manual_seed(1)
    coords = torch.randint(0, 60, (40, 2), generator=g).double() * 256
    features = torch.randn(40, 8, generator=g)
    plain = {"slide_id": "007", "features": features, "coords": coords, "patch_size": 256.0, "encoder": "uni"}
    options = {"hidden": 8, "attention_dim": 4, "grid": 3, **options}
    model = build_model(method, 8, seed=3, classes=len(classes), **options)
    card = ModelCard(model=model.config, graph=GraphConfig(k=6), classes=classes)
    [maps] = explain(model, card, Bag(**{**plain, **(bag or {})}), attribution=attribution)
    return maps


def test_csv_holds_the_maps(tmp_path: Path) -> None:
    maps = some_maps()
    write_maps_csv(maps, level0_squares(maps.bag), tmp_path / "a.csv")
    table = pd.read_csv(tmp_path / "a.csv")
    assert list(table) == ["x", "y", "size", "attention", "evidence", "jigsaw_x", "jigsaw_y"]
    assert (table[["x", "y"]].to_numpy() == maps.coords).all()
    assert (table["size"] == 256).all()
    assert table["attention"].to_numpy() == pytest.approx(maps.attention, rel=1e-12)
    assert table["evidence"].to_numpy() == pytest.approx(maps.evidence[:, 0], rel=1e-12)
    assert table[["jigsaw_x", "jigsaw_y"]].to_numpy() == pytest.approx(maps.jigsaw)


def test_columns_follow_classes_and_jigsaw(tmp_path: Path) -> None:
    maps = some_maps("abmil", ("a", "b", "c"), task="multiclass")
    write_maps_csv(maps, level0_squares(maps.bag), tmp_path / "a.csv")
    table = pd.read_csv(tmp_path / "a.csv")
    assert list(table) == ["x", "y", "size", "attention", "evidence_a", "evidence_b", "evidence_c"]
    assert table["evidence_b"].to_numpy() == pytest.approx(maps.evidence_for("b"))


def test_attribution_has_a_column_like_evidence(tmp_path: Path) -> None:
    maps = some_maps("abmil", attribution=True)
    write_maps_csv(maps, level0_squares(maps.bag), tmp_path / "a.csv")
    table = pd.read_csv(tmp_path / "a.csv")
    assert list(table) == ["x", "y", "size", "attention", "evidence", "attribution"]
    assert table["attribution"].to_numpy() == pytest.approx(maps.attribution[:, 0], rel=1e-9)
    measured = measurements(maps)
    assert (measured["attribution for tumour"] == maps.attribution_for("tumour")).all()
    several = some_maps("abmil", ("a", "b", "c"), task="multiclass", attribution=True)
    table = maps_table(several, level0_squares(several.bag))
    assert table["attribution_b"].to_numpy() == pytest.approx(several.attribution_for("b"))


def test_microns_become_level_0_pixels_in_every_column(tmp_path: Path) -> None:
    """The jigsaw's places move along with the patches'."""
    maps = some_maps()
    microns = some_maps(bag={"coords": maps.bag.coords * 0.5, "patch_size": 128.0, "unit": "um"})
    write_maps_csv(maps, level0_squares(maps.bag), tmp_path / "px.csv")
    write_maps_csv(microns, level0_squares(microns.bag, 0.5), tmp_path / "um.csv")
    one, two = (pd.read_csv(tmp_path / name) for name in ("px.csv", "um.csv"))
    assert two.to_numpy() == pytest.approx(one.to_numpy(), rel=1e-5)


def test_anndata_reads_back_what_scverse_needs(tmp_path: Path) -> None:
    import anndata

    maps = some_maps()
    write_h5ad(maps, level0_squares(maps.bag), tmp_path / "a.h5ad", model="graph-abmil+jigsaw")
    data = anndata.read_h5ad(tmp_path / "a.h5ad")
    assert (maps.bag.features.numpy() == data.X).all()
    assert list(data.obs_names[:2]) == ["007-0", "007-1"]
    assert data.var_names[0] == "uni_0"
    assert (data.obsm["spatial"] == maps.coords + 128).all()
    assert data.obs["evidence"].to_numpy() == pytest.approx(maps.evidence[:, 0])
    assert data.obs["attention_percentile"].to_numpy() == pytest.approx(percentiles(maps.attention))
    assert data.obs[["jigsaw_x", "jigsaw_y"]].to_numpy() == pytest.approx(maps.jigsaw)
    assert (data.uns["slide"], data.uns["model"]) == ("007", "graph-abmil+jigsaw")
    assert list(data.uns["classes"]) == ["normal", "tumour"]
    assert data.uns["probabilities"] == pytest.approx(maps.probabilities)
    places = data.uns["spatial"]["007"]
    assert places["scalefactors"]["spot_diameter_fullres"] == 256
    reach = (maps.coords.max(axis=0) + 256) * places["scalefactors"]["tissue_hires_scalef"]
    again = read_bag(tmp_path / "a.h5ad")
    assert (again.source, again.slide_id, again.patch_size, again.encoder) == ("h5ad", "a", 256, "uni")
    assert torch.equal(again.features, maps.bag.features)
    assert torch.equal(again.coords, maps.bag.coords)
    assert places["images"]["hires"].shape[:2] == tuple(np.round(reach[::-1]))  # rows, columns: below every spot


def test_without_anndata_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest):
        if name == "anndata":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    maps = some_maps()
    with pytest.raises(ConfigError, match=r"pip install 'jigsawmil\[anndata\]'"):
        write_h5ad(maps, level0_squares(maps.bag), tmp_path / "a.h5ad")
    assert not np.any([path.suffix == ".h5ad" for path in tmp_path.iterdir()])
