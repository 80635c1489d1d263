"""The CODEX benchmark on tiny made-up patients: it reads, never leaks, resumes, and says what it found."""

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

data: Any = importlib.import_module("benchmarks.evidence.codex_data")
fits: Any = importlib.import_module("benchmarks.evidence.codex_fits")
crc: Any = importlib.import_module("benchmarks.evidence.crc_codex")


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 patients of two images with 60 cells of three types; DII: types lie in bands, CLR: at random."""
    rng, rows = np.random.default_rng(0), []
    for patient in range(12):
        label = "DII" if patient % 2 else "CLR"
        for image in range(2):
            xy = rng.uniform(0, 300, (60, 2)).round(2)
            kind = (xy[:, 0] // 100).astype(int) if label == "DII" else rng.integers(0, 3, 60)
            for (x, y), k in zip(xy, kind, strict=True):
                rows.append((f"P{patient:02d}", f"P{patient:02d}_{image}", label, x, y, "abc"[k]))
    path = tmp_path_factory.mktemp("codex") / "cells.csv.gz"
    pd.DataFrame(rows, columns=data.COLUMNS).to_csv(path, index=False)
    return path


def test_cells_become_one_hot_patches_of_images_of_patients(cells: Path) -> None:
    cohort = data.read_cells(cells)
    table = pd.read_csv(cells)
    assert cohort.classes == ("CLR", "DII")
    assert (len(cohort), cohort.dim, len(set(cohort.patients))) == (24, 3, 12)
    first = table[table["image"] == cohort.slide_ids[0]]
    bag = cohort.bag(0)
    assert ["abc"[i] for i in bag.features.argmax(1)] == first["cell_type"].tolist()
    np.testing.assert_array_equal(bag.coords.numpy(), first[["x", "y"]])


def test_a_file_without_a_column_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cells.csv").write_text("patient,image,x,y,cell_type\nP1,a,0,0,b\n")
    with pytest.raises(data.LabelError, match="no column label"):
        data.read_cells(tmp_path / "cells.csv")


def test_enrichment_is_observed_over_expected_by_hand(cells: Path) -> None:
    cohort = data.read_cells(cells)
    found = data.enrichment(cohort, k=4).loc["P01"].to_numpy().reshape(3, 3)
    table = pd.read_csv(cells).query("patient == 'P01'")
    observed, share = np.zeros((3, 3)), np.zeros(3)
    for _, image in table.groupby("image"):
        kind = image["cell_type"].map({"a": 0, "b": 1, "c": 2}).to_numpy()
        xy = image[["x", "y"]].to_numpy()
        for j in range(len(xy)):
            share[kind[j]] += 1
            for other in np.argsort(np.linalg.norm(xy - xy[j], axis=1))[1:5]:
                observed[kind[j], kind[other]] += 1
    share, observed = share / share.sum(), observed / observed.sum()
    np.testing.assert_allclose(found, np.log((observed + 1e-4) / (np.outer(share, share) + 1e-4)), rtol=1e-6)


def test_references_tell_arrangement_from_composition(cells: Path) -> None:
    cohort = data.read_cells(cells)
    auc = {
        name: crc.aucs(data.reference(table, cohort, 100, 3, None).assign(seed=100)).item()
        for name, table in (("composition", data.composition(cohort)), ("enrichment", data.enrichment(cohort, k=4)))
    }
    assert auc["enrichment"] == 1
    assert auc["composition"] < 0.9


def test_the_choice_never_sees_the_test_patients(cells: Path, tmp_path: Path, monkeypatch) -> None:
    cohort = data.read_cells(cells)
    bench = fits.Bench(cohort, tmp_path)
    fold = data.patient_folds(cohort, 100, 3)[0]
    seen: list[Any] = []
    plain = fits.Bench.fit
    monkeypatch.setattr(
        fits.Bench, "fit", lambda self, settings, one, *rest: seen.append(one) or plain(self, settings, one, *rest)
    )
    quick = {name: crc.Settings(**{**s.flat(), "epochs": 1}) for name, s in crc.rows(3)[0].candidates.items()}
    assert bench.choose(quick, fold, 100) in quick
    assert len(seen) == len(quick) * fits.INNER
    for one in seen:
        assert not {*one.train, *one.test} & {*fold.test}
        assert {*one.train, *one.test} == {*fold.train}


def test_kinds_see_the_bands_and_shuffled_places_hide_them(cells: Path, tmp_path: Path) -> None:
    cohort = data.read_cells(cells)
    bench = fits.Bench(cohort, tmp_path)
    settings = crc.Settings(**{**crc.rows(3)[2].candidates[""].flat(), "k": 4, "epochs": 8})
    auc = {s: crc.aucs(bench.repeat({"": settings}, 100, 3, s).assign(seed=100)).item() for s in (None, 1)}
    assert auc[None] == 1
    assert auc[1] < 0.9


def test_a_run_from_end_to_end_resumes(cells: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(crc, "PHANTOMS", ())
    small = [
        crc.Row(row.name, row.how, {n: crc.Settings(**{**s.flat(), "epochs": 1}) for n, s in row.candidates.items()})
        for row in crc.rows(3)[:3]
    ]
    monkeypatch.setattr(crc, "rows", lambda kinds: small)
    monkeypatch.setattr(crc, "references", lambda cohort, repeats, folds: {})
    out = tmp_path / "figures.json"
    run = ["--cells", str(cells), "--repeats", "2", "--folds", "3", "--work", str(tmp_path / "work"), "--out", str(out)]
    crc.main(run)
    first = json.loads(out.read_text())
    said = capsys.readouterr().out
    assert first["fits_made"] > 0
    assert [line["name"] for line in first["rows"]] == [row.name for row in small]
    assert len(first["rows"][0]["auc_each"]) == 2
    assert sum(first["rows"][0]["chosen"].values()) == 2 * 3
    assert first["comparisons"][0]["resamples"] == 2 * 3
    assert {"commit", "machine", "tried"} <= first.keys()
    assert f"| {crc.HEADLINE} | nested |" in said
    crc.main(run)
    again = json.loads(out.read_text())
    assert again["fits_made"] == 0
    assert (again["rows"], again["comparisons"]) == (first["rows"], first["comparisons"])


def test_fits_of_other_contents_are_never_taken_for_these(cells: Path, tmp_path: Path) -> None:
    """The same patients, images and counts, but other places."""
    moved = pd.read_csv(cells).assign(x=lambda t: t["x"][::-1].to_numpy())
    moved.to_csv(tmp_path / "moved.csv", index=False)
    one, other = (fits.Bench(data.read_cells(path), tmp_path) for path in (cells, tmp_path / "moved.csv"))
    assert one.name == other.name
    assert one.folder != other.folder


def test_absent_cells_are_said_and_skipped(tmp_path: Path, capsys) -> None:
    crc.main(["--cells", str(tmp_path / "none.csv"), "--out", str(tmp_path / "out.json")])
    assert "skipped" in capsys.readouterr().out
    assert not (tmp_path / "out.json").exists()
