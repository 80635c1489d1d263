"""A method in words: what is set can be read, and what is not there is not spoken of."""

from types import SimpleNamespace

import pytest

from jigsawmil.nn.model import METHODS
from jigsawmil.nn.options import PAPER_METHODS
from jigsawmil.report.describe import different, known_settings, method_words, training_words
from jigsawmil.report.provenance import _presets, settings_section
from jigsawmil.train.settings import Settings

FULL = "graph-abmil+jigsaw"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"k": 25}, "25 nearest neighbours"),
        ({"graph": "radius", "radius": 300.0}, "300 microns"),
        ({"sigma": 0.2}, "sigma = 0.2"),
        ({"sigma": "max-nearest"}, "a nearest neighbour"),
        ({"conv": "sage"}, "GraphSAGE"),
        ({"layers": 1}, "1 layer of"),
        ({"heads": 4}, "4 heads"),
        ({"kinds": 6}, "how often 6 kinds of patches are neighbours"),
        ({"gated": True}, "Gated attention pooling"),
        ({"grid": 7}, "7 x 7 cells"),
        ({"jigsaw": "consistency"}, "discriminator"),
        ({"jigsaw": "equivariance"}, "permuting"),
        ({"lambda_": 0.25}, "lambda = 0.25"),
        ({"lambda_": "em-per-slide"}, "one lambda per slide"),
        ({"lambda_": "balanced"}, "both terms have equal weight"),
        ({"lambda_a": 3.0, "lambda_every": 5}, "a = 3, b = 1, updated every 5 epochs"),
        ({"level": "patient"}, "slides of a patient"),
    ],
)
def test_a_setting_can_be_read(changed: dict[str, object], said: str) -> None:
    words = method_words(Settings(method=FULL, **changed).flat())
    assert said in words
    assert said not in method_words(Settings(method=FULL).flat())


@pytest.mark.parametrize("method", PAPER_METHODS)
def test_only_what_a_method_has_is_spoken_of(method: str) -> None:
    words, has = method_words(Settings(method=method).flat()), METHODS[method]
    assert ("nearest neighbours" in words) == has.graph
    assert ("ttention pooling" in words) == (has.pooling == "attention")
    assert ("lambda" in words) == ("cells" in words) == has.jigsaw == ("No jigsaw" not in words)


def test_training_in_words() -> None:
    assert "stops when their loss has not fallen by 0.01 for 10 epochs" in training_words(Settings().flat())
    all_of_them = training_words(Settings(patience=0, epochs=7, batch_size=4, class_weights=True).flat())
    assert "7 epochs on all training slides" in all_of_them
    assert "4 slides per step, classes weighted" in all_of_them


def test_marks_of_a_job_are_no_settings_and_differences_are_found() -> None:
    spec = {"cohort": "f00", "folds": "ba2", "seed": 3, "shuffled": False, **Settings(method="graph-abmil", k=9).flat()}
    nine = Settings(method="graph-abmil", k=9)
    assert known_settings(spec) == nine
    differ, shared = different({"a": nine, "b": nine.replace(k=8, lr=1e-3)})
    assert differ == ["k", "lr"]
    assert set(differ) | set(shared) == set(Settings().flat())


def test_the_settings_name_their_preset() -> None:
    assert _presets([Settings(), Settings(method="abmil")]) == "Preset default."
    few = [Settings.preset("paper", epochs=3, k=8), Settings.preset("paper", epochs=3, lambda_=0.5)]
    assert _presets(few) == "Preset paper, but epochs = 3."
    assert _presets([Settings(), Settings.preset("paper")]) == "The variants use different presets."


def test_settings_that_nobody_uses_are_not_listed() -> None:
    """Every member of a committee has a k of its own: that of the settings says nothing."""
    shown = {}
    for method in ("committee", "graph-abmil"):
        run = SimpleNamespace(variants=["one"], settings={"one": Settings(method=method).flat()})
        shown[method] = str(settings_section(run))
    assert "k = 50" in shown["graph-abmil"]
    assert "k = 50" not in shown["committee"]
    assert "hidden = 256" in shown["committee"]
