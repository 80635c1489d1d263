"""Pictures show the figures they state, in the same colours everywhere, with nothing overlapping."""

from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib._pylab_helpers import Gcf
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.legend import Legend

from jigsawmil.drawing import own_style
from jigsawmil.errors import StudyError
from jigsawmil.maps.pictures import small_map
from jigsawmil.maps.values import percentiles
from jigsawmil.nn.model import METHODS
from jigsawmil.report.plots.curves import roc_figure, roc_plot
from jigsawmil.report.plots.forest import forest_figure, forest_plot
from jigsawmil.report.plots.styles import COLOURS, method_styles
from jigsawmil.report.plots.training import read_traces, trace_figure, trace_plot
from jigsawmil.statistics.metrics import auc
from jigsawmil.study.compare import summarise

CLASSES = ["mixed", "segregated"]
GRADES = ["low", "middle", "high"]
FIVE = ["abmil", "abmil+jigsaw", "graph-mil", "graph-abmil", "graph-abmil+jigsaw"]
LONG = " k=25 lambda=em-per-slide"
Make = Callable[..., pd.DataFrame]
Legible = Callable[[Figure], None]


def curves(figure: Figure) -> list[dict[str, tuple[np.ndarray, str]]]:
    """Of each panel: method -> (points, what the legend states)."""
    panels = []
    for ax in figure.axes:
        lines = [line for line in ax.get_lines() if not line.get_label().startswith("_")]
        if lines:
            split = [(line, *line.get_label().split(maxsplit=1)) for line in lines]
            panels.append({method: (line.get_xydata(), stated) for line, method, stated in split})
    return panels


def trapezoid(points: np.ndarray) -> float:
    x, y = points.T
    return float((np.diff(x) * (y[1:] + y[:-1]) / 2).sum())


def legend_texts(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.findobj(Legend) for text in legend.get_texts()]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Traces of five methods and three folds; jigsaw losses are 0 without a jigsaw, lambda is recorded all the same."""
    rng = np.random.default_rng(0)
    for method in FIVE:
        for fold in range(3):
            folder = tmp_path / "run" / "jobs" / "phantom" / method / f"seed0-fold{fold}"
            folder.mkdir(parents=True)
            epochs = np.arange(1, rng.integers(8, 14))
            noise = rng.normal(0, 0.02, (3, len(epochs)))
            jigsaw = 4.6 - 0.1 * epochs + noise[0] if "jigsaw" in method else np.zeros(len(epochs))
            columns = {"epoch": epochs, "mil": 0.7 - 0.02 * epochs, "jigsaw": jigsaw, "lambda_": 1 / (1 + jigsaw)}
            columns |= {"val_loss": 0.7 + noise[1], "val_auc": 0.6 + noise[2], "seconds": 0.1}
            columns["kept"] = epochs == rng.integers(1, len(epochs) + 1)
            pd.DataFrame(columns).to_csv(folder / "trace.csv", index=False)
    return tmp_path / "run"


def lattice(columns: int = 12, rows: int = 8, step: float = 512.0) -> np.ndarray:
    x, y = np.meshgrid(np.arange(columns), np.arange(rows))
    return np.stack([x.ravel(), y.ravel()], 1) * step + [9000.0, 3000.0]


@pytest.mark.parametrize("seeds", [1, 2])
def test_the_area_under_a_drawn_curve_is_the_auc_its_legend_states(predictions: Make, seeds: int) -> None:
    table = predictions(seeds=seeds)
    (panel,) = curves(roc_figure(table, CLASSES))
    summary = summarise(table, CLASSES, resamples=2).set_index("variant")
    assert list(panel) == FIVE
    for method, (points, stated) in panel.items():
        row = summary.loc[method]
        assert trapezoid(points) == pytest.approx(row["auc_oof"])
        assert stated == f"{row['auc_oof']:.3f} [{row['auc_low']:.3f}, {row['auc_high']:.3f}]"


def test_the_positive_class_is_the_last_of_the_classes(predictions: Make) -> None:
    table = predictions({"graph-abmil": 2.0})
    for label in (table["label"], (table["label"] == "segregated").astype(int)):  # a csv may hold numbers
        names = sorted(map(str, label.unique()))
        (panel,) = curves(roc_figure(table.assign(label=label), names))
        assert trapezoid(panel["graph-abmil"][0]) > 0.8
        (turned,) = curves(roc_figure(table.assign(label=label), names[::-1]))
        assert trapezoid(turned["graph-abmil"][0]) == pytest.approx(1 - trapezoid(panel["graph-abmil"][0]))


def test_beyond_two_classes_each_has_a_panel_against_the_rest(graded: pd.DataFrame) -> None:
    figure = roc_figure(graded, GRADES)
    panels = curves(figure)
    assert [ax.get_title(loc="left") or ax.get_title() for ax in figure.axes if ax.get_lines()] == [
        f"{name} against the rest" for name in GRADES
    ]
    for name, panel in zip(GRADES, panels, strict=True):
        for method, (points, _) in panel.items():
            rows = graded[graded["variant"] == method]
            assert trapezoid(points) == pytest.approx(auc(rows["label"] == name, rows[f"probability_{name}"]))


def test_a_missing_class_is_said_and_an_unknown_one_refused(graded: pd.DataFrame) -> None:
    panels = curves(roc_figure(graded[graded["label"] != "high"], GRADES))
    assert all(stated == "a class is missing" for _, stated in panels[2].values())
    with pytest.raises(StudyError, match="high"):
        roc_figure(graded, GRADES[:2])
    with pytest.raises(StudyError, match="the classes are low, middle, high, other"):
        roc_figure(graded, [*GRADES, "other"])


def test_a_method_judged_on_fewer_slides_says_so(predictions: Make) -> None:
    table = predictions({"abmil": 0.1, "graph-mil": 1.0})
    failed = table[(table["variant"] != "abmil") | (table["fold"] != 1)]
    left = failed[failed["variant"] == "abmil"]["slide_id"].nunique()
    labels = [line.get_label() for line in roc_figure(failed, CLASSES).axes[0].get_lines()[:2]]
    assert labels[0].startswith(f"abmil ({left} of 100 slides)  0.")
    assert labels[1].split()[0] == "graph-mil"
    assert "slides" not in labels[1]


def test_cohorts_are_never_pooled_and_nothing_is_not_drawn(predictions: Make) -> None:
    table = predictions({"abmil": 0.1})
    two = pd.concat([table.assign(cohort="a"), table.assign(cohort="b", slide_id="b" + table["slide_id"])])
    with pytest.raises(StudyError, match="a, b"):
        roc_figure(two, CLASSES)
    with pytest.raises(StudyError, match="no rows"):
        roc_figure(pd.DataFrame(), CLASSES)


def test_a_line_a_job_and_a_dot_where_the_weights_were_kept(run: Path) -> None:
    figure = trace_figure(read_traces(run))
    by_title = {ax.get_title(loc="left") or ax.get_title(): ax for ax in figure.axes}
    assert list(by_title) == ["MIL loss", "jigsaw loss", "lambda", "validation AUROC"]
    for title, column, methods in (("validation AUROC", "val_auc", FIVE), ("lambda", "lambda_", FIVE[1::3])):
        drawn = [line for line in by_title[title].get_lines() if np.isfinite(line.get_ydata()).any()]
        lines = [line.get_xydata() for line in drawn if line.get_marker() == "None"]
        dots = [tuple(line.get_xydata()[0]) for line in drawn if line.get_marker() == "o"]
        assert len(lines) == len(dots) == 3 * len(methods)
        for file in run.glob("jobs/phantom/*/*/trace.csv"):
            trace = pd.read_csv(file)
            shown = any(np.array_equal(line, trace[["epoch", column]]) for line in lines)
            assert shown == (file.parent.parent.name in methods)
            kept = trace[trace["kept"]].iloc[0]
            assert ((kept["epoch"], kept[column]) in dots) == shown
    assert legend_texts(figure) == [*FIVE, "weights kept"]


def test_a_job_that_is_being_written_is_not_read(run: Path) -> None:
    whole = len(read_traces(run))
    (run / "jobs/phantom/abmil/seed0-fold0").rename(run / "jobs/phantom/abmil/.seed0-fold0.1.partial")
    assert 0 < len(read_traces(run)) < whole


def test_without_jigsaw_and_validation_only_what_there_is_is_drawn(run: Path) -> None:
    traces = read_traces(run)
    plain = traces[traces["variant"] == "abmil"].assign(val_loss=np.nan, val_auc=np.nan)
    figure = trace_figure(plain)
    assert [ax.get_title(loc="left") or ax.get_title() for ax in figure.axes] == ["MIL loss"]
    assert legend_texts(figure) == ["abmil"]


def test_a_folder_without_traces_or_with_a_damaged_one_is_named(run: Path, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"nowhere.*Run the study"):
        trace_plot(tmp_path / "nowhere", tmp_path / "trace.png")
    file = run / "jobs/phantom/abmil/seed0-fold1/trace.csv"
    file.write_text("epoch,mil\n1,0.5\n")
    with pytest.raises(StudyError, match=r"seed0-fold1.*val_loss"):
        read_traces(run)
    file.write_text("")
    with pytest.raises(StudyError, match=r"seed0-fold1.*cannot be read"):
        read_traces(run)


def test_a_forest_shows_point_and_interval_of_each_method(
    predictions: Make, graded: pd.DataFrame, legible: Legible
) -> None:
    binary = summarise(predictions(), resamples=50).assign(cohort="phantom")
    ordinal = summarise(graded, GRADES, "ordinal", resamples=50).assign(cohort="PANDA")
    figure = forest_figure(pd.concat([binary, ordinal]))
    for ax, summary, bounds in zip(figure.axes, (binary, ordinal), ("auc", "boot"), strict=True):
        bars = [
            line.get_xdata() for line in ax.get_lines() if len(line.get_xdata()) == 2 and line.get_marker() == "None"
        ][1:]
        points = [line.get_xdata()[0] for line in ax.get_lines() if line.get_marker() == "s"]
        np.testing.assert_array_equal(bars, summary[[f"{bounds}_low", f"{bounds}_high"]])
        np.testing.assert_array_equal(points, summary["auc_oof"])
        assert [label.get_text() for label in ax.get_yticklabels()] == FIVE
        low, high = ax.get_xlim()
        assert low < summary[f"{bounds}_low"].min()
        assert high >= 1
    assert "positive class segregated; 100 slides of 80 patients" in figure.axes[0].get_title()
    undefined = forest_figure(binary.assign(auc_mean=np.nan, auc_std=np.nan))  # every fold lacks a class
    legible(undefined)


def test_the_highest_colour_lies_on_the_planted_patch(tmp_path: Path) -> None:
    coords = lattice()
    attention = np.linspace(1, 2, len(coords))
    planted, lowest = 20, 0
    attention[planted] = 50
    order = np.random.default_rng(0).permutation(len(coords))
    figure = small_map("slide", coords[order], attention[order], 512.0)
    figure.savefig(tmp_path / "map.png", dpi=figure.dpi)
    picture = imread(tmp_path / "map.png")
    ax = figure.axes[0]

    def pixel(patch: int) -> tuple[int, int]:
        x, y = ax.transData.transform(coords[patch] + 256)
        return int(len(picture) - y), int(x)

    colour = matplotlib.colormaps["viridis"]
    share = np.array([percentiles(attention)[i] / 100 for i in (planted, lowest)])
    np.testing.assert_allclose([picture[pixel(i)][:3] for i in (planted, lowest)], colour(share)[:, :3], atol=0.01)
    assert percentiles(attention).argmax() == planted
    assert pixel(90)[0] > pixel(5)[0]  # y runs down the slide
    edge = np.diff([ax.transData.transform(coords[i]) for i in (0, 1)], axis=0)[0, 0]
    assert edge == pytest.approx(-np.diff([ax.transData.transform(coords[i]) for i in (0, 12)], axis=0)[0, 1])


def test_squares_cover_the_patches_and_nothing_else() -> None:
    coords = lattice()
    for patch_size in (512.0, None):  # unknown: the lattice tells
        ax = small_map("slide", coords, np.arange(96.0), patch_size).axes[0]
        (squares,) = ax.findobj(PolyCollection)
        corners = np.array([path.vertices[:4] for path in squares.get_paths()])
        np.testing.assert_array_equal(corners.min(1), coords)
        np.testing.assert_array_equal(corners.max(1), coords + 512)


def test_the_patch_looked_at_lies_on_top_where_patches_overlap() -> None:
    coords, attention = lattice(step=128.0), np.random.default_rng(0).random(96)
    (squares,) = small_map("slide", coords, attention, 512.0).axes[0].findobj(PolyCollection)
    assert (np.diff(squares.get_array()) > 0).all()  # drawn in this order


def test_percentiles_keep_ranks_and_share_ties() -> None:
    attention = np.array([1e-9, 0.5, 1e-3, 1e-3])
    assert percentiles(attention).tolist() == [12.5, 87.5, 50.0, 50.0]
    assert percentiles(np.full(7, 0.2)).tolist() == [50.0] * 7


def test_a_map_of_one_patch_works_and_a_wrong_one_is_refused() -> None:
    one = small_map("one", np.array([[5.0, 7.0]]), np.ones(1))
    assert len(one.axes[0].findobj(PolyCollection)[0].get_paths()) == 1
    for coords, attention, match in (
        (lattice(), np.ones(95), "same slide"),
        (np.zeros((0, 2)), np.zeros(0), "at least one patch"),
        (lattice(), np.full(96, np.nan), "diverged"),
    ):
        with pytest.raises(StudyError, match=f"S7.*{match}"):
            small_map("S7", coords, attention, 512.0)


def test_every_text_is_legible(predictions: Make, graded: pd.DataFrame, run: Path, legible: Legible) -> None:
    many = predictions(
        {f"graph-abmil k={k} lambda={v}": 0.3 for k in (8, 25, 50) for v in ("em", "em-per-slide", "0.5")}
    )
    summary = summarise(many, resamples=2).assign(cohort="TCGA-BRCA diagnostic", positive="invasive lobular carcinoma")
    traces = read_traces(run)
    other = traces.assign(variant=traces["variant"] + LONG, cohort="TCGA-BRCA diagnostic")
    with own_style():
        legible(roc_figure(predictions(), CLASSES))
        legible(roc_figure(graded, GRADES))
        legible(roc_figure(many, CLASSES))
        legible(trace_figure(traces))
        legible(trace_figure(pd.concat([traces, other])))
        legible(forest_figure(summary))
        legible(forest_figure(pd.concat([summary, summarise(predictions(), resamples=2).assign(cohort="phantom")])))


def test_a_method_has_one_colour_in_every_picture(predictions: Make, run: Path) -> None:
    roc = roc_figure(predictions(), CLASSES)
    in_roc = {line.get_label().split()[0]: to_hex(line.get_color()).upper() for line in roc.axes[0].get_lines()[:5]}
    trace = trace_figure(read_traces(run))
    (legend,) = trace.findobj(Legend)
    in_trace = {h.get_label(): to_hex(h.get_color()).upper() for h in legend.legend_handles[:5]}
    forest = forest_figure(summarise(predictions(), resamples=2).assign(cohort="phantom"))
    in_forest = [to_hex(line.get_color()).upper() for line in forest.axes[0].get_lines() if line.get_marker() == "s"]
    assert in_roc == in_trace == dict(zip(FIVE, in_forest, strict=True)) == {name: COLOURS[name] for name in FIVE}


def test_styles_follow_names_not_their_order_and_tell_methods_apart() -> None:
    assert set(COLOURS) == set(METHODS)
    variants = ["graph-mil", *(f"k={k}" for k in range(20)), "abmil"]
    styles = method_styles(variants)
    assert list(styles) == variants
    assert styles == method_styles(variants[::-1])
    assert len(set(styles.values())) == len(variants)
    light = [sum(to_rgb(colour)) for colour, _ in styles.values()]
    assert max(light) < 2.4  # on white


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_the_same_input_gives_the_same_bytes_whatever_the_users_settings(
    predictions: Make, run: Path, tmp_path: Path, suffix: str
) -> None:
    table = predictions({"abmil": 0.1, "graph-abmil": 2.0})
    before = dict(matplotlib.rcParams)
    for folder, rows, settings in (
        ("one", table, {}),
        (
            "two",
            table.iloc[::-1].sort_values("variant", kind="stable"),
            {"lines.linewidth": 9, "font.size": 30},
        ),
    ):
        with matplotlib.rc_context(settings):
            roc_plot(rows, CLASSES, tmp_path / folder / f"roc{suffix}")
            if suffix == ".png":
                trace_plot(run, tmp_path / folder / "trace.png")
                forest_plot(summarise(rows, resamples=2).assign(cohort="phantom"), tmp_path / folder / "forest.png")
    assert dict(matplotlib.rcParams) == before
    assert not Gcf.figs  # pyplot never heard of them
    files = sorted((tmp_path / "one").iterdir())
    assert len(files) == (3 if suffix == ".png" else 1)
    for file in files:
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes(), file.name
        assert b"Matplotlib v" not in file.read_bytes()


def test_a_picture_appears_whole_or_not_at_all(
    predictions: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, path = predictions({"abmil": 0.1}), tmp_path / "roc.png"
    path.write_bytes(b"old")

    def full_disk(figure: Figure, file: Path, **_: object) -> None:
        Path(file).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Figure, "savefig", full_disk)
        with pytest.raises(StudyError, match="No space left"):
            roc_plot(table, CLASSES, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    roc_plot(table, CLASSES, path)
    assert imread(path).ndim == 3
    with pytest.raises(StudyError, match=r"roc.txt.*\.png"):
        roc_plot(table, CLASSES, tmp_path / "roc.txt")
    with pytest.raises(StudyError, match="cannot be written"):
        roc_plot(table, CLASSES, path / "below" / "roc.png")
