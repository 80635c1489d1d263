"""Tasks: what each says about labels, columns and figures, and that nothing else asks for a task by its name."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from jigsawmil.errors import ConfigError, LabelError
from jigsawmil.tasks import TASKS, BinaryTask, choose_task, get_task, register_task, task_of_table

PACKAGE = Path(__file__).parents[2] / "src" / "jigsawmil"
CHOICES = re.compile(
    r"""\btask\s*(==|!=)|\btask\s+(not\s+)?in\s*[(\[{]|["'](binary|multiclass)["']\s*[:\]]"""
    r"""|Literal\[["']binary|len\([\w.]*classes\)\s*((==|!=|>|<=)\s*2|(==|>=|<)\s*3)\b"""
)


def test_no_other_part_chooses_by_the_name_of_a_task_or_by_two_classes() -> None:
    found = [
        f"{file.relative_to(PACKAGE)}:{number}: {line.strip()}"
        for file in sorted(PACKAGE.rglob("*.py"))
        if file.relative_to(PACKAGE).parts[0] != "tasks"
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if CHOICES.search(line)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        'if part.task == "binary":', "x = a if task != b else c", 'task in ("binary", "ordinal")',
        '{"binary": 2, "ordinal": 3}[self.task]', 'Task = Literal["binary"]', "if len(part.classes) == 2:",
        "if len(classes) > 2 or x:", "len(self.classes) != 2",
    ],
)  # fmt: skip
def test_the_search_sees_a_choice(line: str) -> None:
    assert CHOICES.search(line)


def test_tasks_import_neither_torch_nor_scipy_before_they_need_them() -> None:
    for file in (PACKAGE / "tasks").glob("*.py"):
        lines = [line.split() for line in file.read_text().splitlines() if re.match(r"(from|import) ", line)]
        heavy = {words[1].split(".")[0] for words in lines} & {"torch", "scipy", "sklearn", "pandas"}
        assert not heavy or file.name == "heads.py"
        assert not [words for words in lines if words[1].startswith(("..statistics.", ".heads"))]


def test_columns_are_named_after_their_classes_and_read_back() -> None:
    two, three = np.array([0.25, 0.75]), np.array([0.2, 0.3, 0.5])
    assert get_task("binary").row(two, ("a", "b")) == {"probability": 0.75}
    for task in ("multiclass", "ordinal"):
        row = get_task(task).row(three, ("a", "b", "c"))
        assert row == {"probability_a": 0.2, "probability_b": 0.3, "probability_c": 0.5}
        np.testing.assert_array_equal(get_task(task).matrix(pd.DataFrame([row]), ("a", "b", "c")), [three])
    np.testing.assert_array_equal(get_task("binary").matrix(pd.DataFrame({"probability": [0.75]}), ("a", "b")), [two])
    elsewhere = pd.DataFrame({"probability_b": [0.75], "probability_a": [0.25]})
    np.testing.assert_array_equal(get_task("binary").matrix(elsewhere, ("a", "b")), [two])


def test_a_table_tells_its_task() -> None:
    assert task_of_table(["slide_id", "probability"]).name == "binary"
    assert task_of_table(["probability_a", "probability_b"]).name == "binary"
    assert task_of_table(["probability_a", "probability_b", "probability_c"]).name == "multiclass"
    assert task_of_table(["probability_0", "probability_1", "probability_2"], "ordinal").name == "ordinal"


def test_a_task_is_chosen_by_labels_or_by_name() -> None:
    assert choose_task(["a", "b", "a"]).name == "binary"
    assert choose_task(["a", "b", "c"]).name == "multiclass"
    assert choose_task(["a", "b"], task="multiclass").name == "multiclass"
    assert choose_task(["0", "1", "2"], ordinal=True) is choose_task(["0", "1", "2"], task="ordinal")
    with pytest.raises(ConfigError, match="found 'binary' and ordinal"):
        choose_task(["a", "b"], task="binary", ordinal=True)
    with pytest.raises(ConfigError, match=r"found 'ordnal', expected one of binary.* Did you mean 'ordinal'"):
        choose_task(["a", "b"], task="ordnal")


@pytest.mark.parametrize(("task", "fit", "wrong"), [("binary", 2, 3), ("multiclass", 2, 1), ("ordinal", 3, 2)])
def test_numbers_of_classes_are_checked(task: str, fit: int, wrong: int) -> None:
    get_task(task).check_classes(fit)
    with pytest.raises(ConfigError, match=f"classes: found {wrong}"):
        get_task(task).check_classes(wrong)


def test_a_name_is_given_once() -> None:
    with pytest.raises(ConfigError, match="found 'binary', expected a name that is not one of"):
        register_task(BinaryTask())
    assert list(TASKS) == ["binary", "multiclass", "ordinal"]


@pytest.mark.parametrize(
    ("names", "positive", "ordinal", "expected"),
    [
        (["IDC", "ILC"], None, False, (("IDC", "ILC"), "binary")),
        (["IDC", "ILC"], "IDC", False, (("ILC", "IDC"), "binary")),
        (["10", "9"], None, False, (("9", "10"), "binary")),
        (["c", "a", "b"], None, False, (("a", "b", "c"), "multiclass")),
        (["5", "0", "10", "1"], None, True, (("0", "1", "5", "10"), "ordinal")),
    ],
)
def test_classes_have_an_order(names: list[str], positive: str | None, ordinal: bool, expected: object) -> None:
    task = choose_task(names, ordinal=ordinal)
    found = task.targets(names, positive)
    assert (found.classes, task.name) == expected
    assert [found.classes[value] for value in found.values] == names


@pytest.mark.parametrize(
    ("names", "positive", "ordinal", "message"),
    [
        (["IDC", "ILC"], "ILD", False, r"'ILD' is not a label. Found 'IDC', 'ILC'. Did you mean"),
        (["a", "b", "c"], "a", False, "needs two classes"),
        (["low", "mid", "top"], None, True, "whole numbers"),
        (["0.5", "1.5", "2.5"], None, True, "whole numbers"),
        (["0", "1"], None, True, "three or more"),
        (["0", "1", "2"], "1", True, "positive='1'"),
    ],
)
def test_impossible_classes_are_refused(names: list[str], positive: str | None, ordinal: bool, message: str) -> None:
    with pytest.raises(LabelError, match=message):
        choose_task(names, ordinal=ordinal).targets(names, positive)
