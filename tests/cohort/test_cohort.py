"""Cohorts from files and from memory: the join, the classes, what is kept in memory, reading ahead."""

import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from jigsawmil.bags.bag import Bag
from jigsawmil.cohort import cohort as module
from jigsawmil.cohort.cohort import Cohort, check
from jigsawmil.cohort.labels import read_labels
from jigsawmil.errors import FeatureError, LabelError

CLINICAL = Path(__file__).resolve().parents[2] / "../shared/data/clinical"


def write_features(folder: Path, slide_id: str, n: int = 6, dim: int = 4, value: float | None = None) -> Path:
    """As TRIDENT writes them, a 40x slide tiled at 20x. Features lie from `value` (its own if None) up to 1 above."""
    value = float(zlib.crc32(slide_id.encode()) % 1000) if value is None else value
    path = folder / f"{slide_id}.h5"
    path.parent.mkdir(exist_ok=True, parents=True)
    with h5py.File(path, "w") as file:
        file["features"] = (value + np.arange(n * dim).reshape(n, dim) / max(1, n * dim)).astype(np.float32)
        file["coords"] = (512 * np.stack([np.arange(n), np.arange(n)], axis=1)).astype(np.int64)
        file["coords"].attrs.update(
            patch_size=256, patch_size_level0=512, level0_magnification=40, target_magnification=20, overlap=0,
            name=slide_id,
        )  # fmt: skip
    return path


def write_cohort(folder: Path, slides: dict[str, tuple[str, str]], **shape: int) -> tuple[Path, Path]:
    """slides: slide id -> (patient, label). The value of a slide's features is its place in the dict."""
    for i, slide_id in enumerate(slides):
        write_features(folder / "features", slide_id, value=float(i), **shape)
    lines = [f"{patient},{slide_id},{label}" for slide_id, (patient, label) in slides.items()]
    (folder / "labels.csv").write_text("\n".join(["case_id,slide_id,label", *lines]))
    return folder / "labels.csv", folder / "features"


SLIDES = {"007": ("P1", "ILC"), "b": ("P1", "ILC"), "c": ("02", "IDC"), "d": ("P4", "IDC")}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return write_cohort(tmp_path, SLIDES)


def test_slides_patients_and_labels_are_joined(files: tuple[Path, Path]) -> None:
    cohort = Cohort.read(*files)
    assert (cohort.classes, cohort.task, cohort.dim, len(cohort)) == (("IDC", "ILC"), "binary", 4, 4)
    assert cohort.slide_ids.tolist() == ["007", "b", "c", "d"]
    assert cohort.patients.tolist() == ["P1", "P1", "02", "P4"]
    assert cohort.labels.tolist() == [1, 1, 0, 0]
    assert [slide.patches for slide in cohort.slides] == [6] * 4
    for i in range(len(cohort)):
        assert cohort.bag(i).slide_id == cohort.slides[i].slide_id
        assert (cohort.bag(i).features.floor() == i).all()


def test_the_order_of_rows_in_the_table_changes_nothing(files: tuple[Path, Path]) -> None:
    before = Cohort.read(*files).slides
    header, *rows = files[0].read_text().splitlines()
    files[0].write_text("\n".join([header, *reversed(rows)]))
    assert Cohort.read(*files).slides == before


def test_names_with_an_image_extension_on_either_side_meet(tmp_path: Path) -> None:
    write_features(tmp_path / "f", "a.svs")
    write_features(tmp_path / "f", "b")
    (tmp_path / "t.csv").write_text("slide_id,label\na,0\nb.svs,1\n")
    cohort = Cohort.read(tmp_path / "t.csv", tmp_path / "f")
    assert cohort.slide_ids.tolist() == ["a", "b"]
    assert cohort.bag(0).slide_id == "a"
    write_features(tmp_path / "f", "a")
    with pytest.raises(FeatureError, match=r"a\.svs\.h5.*both features of a"):
        Cohort.read(tmp_path / "t.csv", tmp_path / "f")


def test_a_table_of_tcga_patients_labels_their_slides(tmp_path: Path) -> None:
    names = ["TCGA-AA-0001-01Z-00-DX1.X", "TCGA-AA-0001-01Z-00-DX2.Y", "TCGA-BB-0002-01Z-00-DX1.Z", "TCGA-CC-0003-01Z"]
    for name in names:
        write_features(tmp_path / "f", name)
    (tmp_path / "t.csv").write_text("PATIENT,HPV\nTCGA-AA-0001,pos\nTCGA-BB-0002,neg\nTCGA-DD-0004,neg\n")
    cohort = Cohort.read(tmp_path / "t.csv", tmp_path / "f")
    assert cohort.patients.tolist() == ["TCGA-AA-0001"] * 2 + ["TCGA-BB-0002"]
    assert cohort.labels.tolist() == [1, 1, 0]
    assert cohort.sites.tolist() == ["AA", "AA", "BB"]
    assert dict(cohort.left_out) == {names[3]: "not in the table"}
    assert any("TCGA-DD-0004" in note for note in cohort.notes)


def test_every_error_is_in_one_message(files: tuple[Path, Path]) -> None:
    files[0].write_text(files[0].read_text() + "\nP5,lost,IDC\nP1,b,IDC\n")
    write_features(files[1], "empty", n=0)
    files[0].write_text(files[0].read_text() + "P6,empty,ILC\nP7,torn,ILC\n")
    (files[1] / "torn.h5").write_bytes((files[1] / "b.h5").read_bytes()[:900])
    with pytest.raises(LabelError, match=r"(?s)4 errors:.*b \(ILC / IDC\).*: lost\..*torn\.h5.*: empty\."):
        Cohort.read(*files)
    files[0].write_text(files[0].read_text().replace("P1,b,IDC\n", ""))
    cohort = Cohort.read(*files, skip_missing=True)
    assert len(cohort) == 4
    assert [item.name for item in cohort.left_out] == ["lost", "torn", "empty"]


def test_one_cohort_has_one_dimension(files: tuple[Path, Path]) -> None:
    write_features(files[1], "d", dim=9)
    with pytest.raises(FeatureError, match=r"4 in 3 files \(007, b, c\); 9 in 1 file \(d\)"):
        Cohort.read(*files)


def test_check_reports_what_read_would_raise(files: tuple[Path, Path]) -> None:
    (files[1] / "d.h5").unlink()
    report = check(*files)
    assert [problem.kind for problem in report.errors] == ["no-features"]
    with pytest.raises(FeatureError) as raised:
        Cohort.read(*files)
    assert str(raised.value) == report.summary(overview=False, usable=False)
    assert "labels.csv: cannot be used as given" in str(raised.value)


def test_a_table_read_before_is_taken_as_it_is(files: tuple[Path, Path]) -> None:
    table = read_labels(files[0])
    assert Cohort.read(table, files[1]).slides == Cohort.read(*files).slides
    with pytest.raises(LabelError, match="label_column"):
        Cohort.read(table, files[1], label_column="label")


def test_real_panda_is_ordinal_with_six_grades(tmp_path: Path) -> None:
    if not CLINICAL.is_dir():
        pytest.skip("the real clinical tables are not beside the project (../shared/data/clinical)")
    table = read_labels(CLINICAL / "panda.csv", site_column="data_provider")
    for slide_id in table.rows.groupby("label")["slide_id"].first():
        write_features(tmp_path, slide_id)
    cohort = Cohort.read(table, tmp_path, ordinal=True, skip_missing=True)
    assert (cohort.classes, cohort.task) == (tuple("012345"), "ordinal")
    assert sorted(cohort.labels.tolist()) == list(range(6))
    assert len(cohort.left_out) == 9555 - 6


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were read, in order."""
    seen: list[str] = []
    real = module.read_bag

    def counted(path: Path, **options: object) -> Bag:
        seen.append(path.stem)
        return real(path, **options)

    monkeypatch.setattr(module, "read_bag", counted)
    return seen


def test_nothing_is_read_before_it_is_needed(files: tuple[Path, Path], reads: list[str]) -> None:
    cohort = Cohort.read(*files)
    assert reads == []
    assert cohort.subset([3, 1]).bag(0).slide_id == "d"
    assert cohort.bag(1).slide_id == "b"
    assert reads == ["d", "b"]


def test_subsets_keep_classes_order_and_take_masks(files: tuple[Path, Path]) -> None:
    cohort = Cohort.read(*files)
    part = cohort.subset([3, 2])
    assert part.slide_ids.tolist() == ["d", "c"]
    assert part.classes == cohort.classes  # although one of them is not in it
    assert cohort.subset(cohort.labels == 1).slide_ids.tolist() == ["007", "b"]
    assert cohort.subset(cohort.labels == 1).subset([1]).slide_ids.tolist() == ["b"]
    assert len(cohort.subset([])) == 0


def make_bag(slide_id: str, n: int = 3, dim: int = 4) -> Bag:
    return Bag(slide_id=slide_id, features=torch.rand(n, dim), coords=torch.rand(n, 2).double())


def test_bags_in_memory_stay_in_their_order() -> None:
    bags = [make_bag(name) for name in ("z", "a", "m")]
    cohort = Cohort.from_bags(bags, np.array([1.0, 0.0, 1.0]), ["P1", "P2", "P1"])
    assert all(cohort.bag(i) is bag for i, bag in enumerate(bags))
    assert (cohort.classes, cohort.labels.tolist()) == (("0", "1"), [1, 0, 1])
    assert cohort.patients.tolist() == ["P1", "P2", "P1"]


@pytest.mark.parametrize(
    ("bags", "labels", "patients", "error", "message"),
    [
        (["a", "b"], [0], None, LabelError, "2 bags and 1 labels"),
        (["a", "b"], [0, 1], ["P"], LabelError, "2 bags and 1 patients"),
        (["a", "a"], [0, 1], None, LabelError, "1 different slide ids"),
        (["a", "b", "c"], [0, 1, None], None, LabelError, "1 of 3 bags have no label: c"),
        (["a", "b", "c"], [0, 1, float("nan")], None, LabelError, "1 of 3 bags have no label: c"),
        (["a", "b"], ["x", "x"], None, LabelError, "All slides are 'x'"),
        (["a", "b", "wide"], [0, 1, 1], None, FeatureError, "more than one dimension"),
        (["a", "b", "empty"], [0, 1, 1], None, FeatureError, "without a single patch: empty"),
    ],
)
def test_bags_that_make_no_cohort_are_refused(
    bags: list[str], labels: list[object], patients: list[str] | None, error: type[Exception], message: str
) -> None:
    made = [make_bag(name, n=0 if name == "empty" else 3, dim=9 if name == "wide" else 4) for name in bags]
    with pytest.raises(error, match=message):
        Cohort.from_bags(made, labels, patients)


def test_labels_that_nobody_knows_are_left_out_with_the_word(tmp_path: Path) -> None:
    slides = {**SLIDES, "e": ("P5", "[Not Available]"), "f": ("P6", ""), "g": ("P7", "Unknown")}
    cohort = Cohort.read(*write_cohort(tmp_path, slides))
    assert cohort.classes == ("IDC", "ILC")
    assert dict(cohort.left_out) == {
        "e": "no label in the table ('[Not Available]')",
        "f": "no label in the table (an empty cell)",
        "g": "no label in the table ('Unknown')",
    }
    assert any("e ('[Not Available]')" in note for note in cohort.notes)
