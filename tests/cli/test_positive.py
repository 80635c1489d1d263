"""The positive class: every result begins with it, says that it is a guess, and a terminal asks for it."""

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jigsawmil.cli import asking
from jigsawmil.cli.screen import console
from jigsawmil.study.study import Study, cohort_spec
from jigsawmil.train.checkpoint import load_model
from jigsawmil.train.settings import Settings

GUESS = "Positive class: tumour (guessed: last in sorted order; state it with --positive NAME)."
TRAINED = "Positive class: tumour (guessed in training: last in sorted order; state it there with --positive NAME)."


def first(ran) -> str:
    assert ran.code == 0, ran.err
    return ran.out.splitlines()[0]


def test_every_result_begins_with_the_class_that_was_guessed(
    jigsawmil, finished, model, given, cohort: Path, quick, tmp_path: Path
) -> None:
    run, compared = finished
    assert first(compared) == GUESS
    assert compared.out.count("guessed") == 1
    for words in (
        ("train", *given, *quick, "--method", "abmil", "--quiet", "--out", tmp_path / "model"),
        ("compare-runs", run, run, "--variant-a", "abmil", "--variant-b", "graph-abmil+jigsaw"),
        ("report", run, "--out", tmp_path / "report.html"),
    ):
        assert first(jigsawmil(*words)) == GUESS, words[0]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.index(GUESS) < page.index("<h1>")
    new = ("--allow-overlap", "--out", tmp_path / "validation")
    assert first(jigsawmil("validate", model, *given, *new)) == TRAINED
    assert TRAINED in (tmp_path / "validation" / "report.html").read_text(encoding="utf-8")
    assert first(jigsawmil("predict", model, cohort / "features", "--out", tmp_path / "p.csv")) == TRAINED


def test_a_class_that_was_named_is_no_guess(jigsawmil, compare, given, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert first(compare(*given, "--positive", "normal", "--out", run)) == "Positive class: normal."
    assert first(jigsawmil("report", run)) == "Positive class: normal."
    model = next(run.glob("**/model.json")).parent
    assert not load_model(model)[1].guessed


def test_a_study_file_names_the_cohorts_that_differ(jigsawmil, cohort: Path, quick, tmp_path: Path) -> None:
    where = f'labels = "{cohort / "labels.csv"}"\nfeatures = "{cohort / "features"}"\n'
    variant = "[variants.a]\nmethod = 'abmil'\nhidden = 16\nepochs = 1\npatience = 0\n"
    file = tmp_path / "study.toml"
    file.write_text(f"folds = 2\n[cohorts.A]\n{where}[cohorts.B]\n{where}positive = 'normal'\n{variant}")
    ran = jigsawmil("study", file, "--out", tmp_path / "run", "--quiet")
    assert ran.code == 0, ran.err
    guess = f'Positive class of A: tumour (guessed: last in sorted order; state it with positive = "NAME" in {file}).'
    assert ran.out.splitlines()[:2] == [guess, "Positive class of B: normal."]


def test_other_tasks_have_none(jigsawmil, tmp_path: Path, quick) -> None:
    small = ["--slides", "18", "--patches", "20", "--dim", "16", "--task", "regression"]
    assert jigsawmil("phantom", "composition", *small, "--out", tmp_path / "c").code == 0
    cohort = ["--labels", tmp_path / "c" / "labels.csv", "--features", tmp_path / "c" / "features"]
    values = ["--task", "regression", "--label-column", "value", "--method", "abmil"]
    ran = jigsawmil("train", *cohort, *values, *quick, "--out", tmp_path / "model")
    assert ran.code == 0, ran.err
    assert "ositive class" not in ran.out


@pytest.mark.parametrize(
    ("typed", "taken"), [([""], "b c"), (["a"], "a"), (["x", "b c"], "b c"), ([], "b c")], ids=repr
)
def test_enter_takes_the_guess_and_a_wrong_name_is_asked_again(monkeypatch, capsys, typed, taken) -> None:
    answers = iter(typed)

    def answer() -> str:
        if (line := next(answers, None)) is None:
            raise EOFError
        return line

    monkeypatch.setattr("builtins.input", answer)
    assert asking.ask_class(("a", "b c"), console()) == taken
    said = capsys.readouterr().out
    assert said.count("Which class is positive, a or b c?") == max(1, len(typed))
    assert ("Found 'x', expected a or b c." in said) == ("x" in typed)


def test_only_a_terminal_is_asked(monkeypatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    assert asking.can_ask(yes=False)
    assert not asking.can_ask(yes=True)
    monkeypatch.setenv("CI", "true")
    assert not asking.can_ask(yes=False)
    monkeypatch.delenv("CI")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False)
    assert not asking.can_ask(yes=False)


def test_a_study_asks_for_each_cohort_whose_class_is_a_guess(monkeypatch, cohort: Path, tmp_path: Path) -> None:
    labels, features = cohort / "labels.csv", cohort / "features"
    numbers = tmp_path / "numbers.csv"
    numbers.write_text(labels.read_text().replace("tumour", "1").replace("normal", "0"))
    broken = {"labels": tmp_path / "none.csv", "features": features}
    sources = {
        "asked": {"labels": labels, "features": features},
        "stated": {"labels": labels, "features": features, "positive": "tumour"},
        "numbers": {"labels": numbers, "features": features},
        "broken": broken,  # reading the cohort will say so
    }
    asked: list[str] = []
    monkeypatch.setattr(asking, "can_ask", lambda yes: True)
    monkeypatch.setattr(asking, "ask_class", lambda classes, screen, of: asked.append(of) or classes[0])
    study = Study(
        cohorts={name: cohort_spec(values) for name, values in sources.items()},
        variants={"a": Settings(method="abmil")},
    )
    found = asking.with_positives(study, console(), yes=False).cohorts
    assert asked == [" of asked"]
    assert [own.options.positive for own in found.values()] == ["normal", "tumour", None, None]


def test_a_terminal_asks_and_the_answer_counts(cohort: Path, quick, tmp_path: Path) -> None:
    """In a process of its own, at a pseudo-terminal."""
    words = ["train", "--labels", cohort / "labels.csv", "--features", cohort / "features", "--method", "abmil"]
    command = [sys.executable, "-m", "jigsawmil", *words, *quick, "--quiet", "--out", tmp_path / "model"]
    screen, terminal = pty.openpty()
    known = {name: value for name, value in os.environ.items() if name != "CI"}
    process = subprocess.Popen(
        [str(word) for word in command], stdin=terminal, stdout=terminal, stderr=terminal, env=known | {"TERM": "dumb"}
    )
    os.close(terminal)
    said, until = "", time.monotonic() + 240
    answered = False
    while time.monotonic() < until:
        if not select.select([screen], [], [], 1)[0]:
            continue
        try:
            said += os.read(screen, 4096).decode()
        except OSError:  # the other end is closed
            break
        if not answered and "[Enter: tumour]" in said:
            os.write(screen, b"normal\n")
            answered = True
    os.close(screen)
    assert process.wait(60) == 0, said
    asked, _, result = said.partition("To state it: --positive normal")
    assert "Which class is positive, normal or tumour?" in asked
    assert result.split("\r\n")[1] == "Positive class: normal."
    card = load_model(tmp_path / "model")[1]
    assert (card.classes, card.guessed) == (("tumour", "normal"), False)
