"""Tasks: what each says about labels, columns and figures, and that nothing else asks for a task by its name."""

import ast
import operator
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jigsawmil.errors import ConfigError, LabelError
from jigsawmil.tasks import TASKS, BinaryTask, choose_task, get_task, register_task, task_of_table

PACKAGE = Path(__file__).parents[2] / "src" / "jigsawmil"
NAMES = set(TASKS)
OPERATORS: dict[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
MIRRORED: dict[type, type] = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}


def name_of(node: ast.expr) -> str:
    """`task` of `task`, of `part.task` and of `part.task.name`."""
    if isinstance(node, ast.Attribute):
        return name_of(node.value) if node.attr == "name" else node.attr
    return node.id if isinstance(node, ast.Name) else ""


def is_task_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in NAMES


def tells_two_from_three(node: ast.Compare) -> bool:
    """`len(classes) == 2` and the like, in either order; `len(classes) < 2` is the same for all tasks."""
    left, right, compare = node.left, node.comparators[0], OPERATORS.get(type(node.ops[0]))
    if isinstance(left, ast.Constant):
        left, right, compare = right, left, OPERATORS.get(MIRRORED.get(type(node.ops[0]), type(node.ops[0])))
    if compare is None or not isinstance(right, ast.Constant) or not isinstance(left, ast.Call) or not left.args:
        return False
    counts = name_of(left.func) == "len" and name_of(left.args[0]) == "classes"
    return counts and compare(2, right.value) != compare(3, right.value)


def chooses(node: ast.AST) -> bool:
    """Whether a task is told by its name, or by the number of its classes."""
    if isinstance(node, ast.Compare):
        left, right = node.left, node.comparators[0]
        names = [left, right, *getattr(right, "elts", ())]
        known = isinstance(node.ops[0], ast.Eq | ast.NotEq) or isinstance(right, ast.Tuple | ast.List | ast.Set)
        return (
            any(map(is_task_name, names))
            or ("task" in map(name_of, (left, right)) and known)
            or tells_two_from_three(node)
        )
    if isinstance(node, ast.Dict):  # "ordinal" is also an option
        return any(key is not None and is_task_name(key) and key.value != "ordinal" for key in node.keys)  # type: ignore[attr-defined]
    if isinstance(node, ast.Subscript):
        return is_task_name(node.slice) or any(map(is_task_name, getattr(node.slice, "elts", ())))
    return isinstance(node, ast.MatchValue) and is_task_name(node.value)


def choices(source: str) -> list[int]:
    """Lines of the expressions that choose by a task."""
    return sorted({node.lineno for node in ast.walk(ast.parse(source)) if chooses(node)})  # type: ignore[attr-defined]


def test_no_other_part_chooses_by_the_name_of_a_task_or_by_two_classes() -> None:
    found = [
        f"{file.relative_to(PACKAGE)}:{line}"
        for file in sorted(PACKAGE.rglob("*.py"))
        if file.relative_to(PACKAGE).parts[0] not in ("tasks", "synthetic")  # a phantom draws the truth of a task
        for line in choices(file.read_text())
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        'if part.task == "binary": pass', "x = a if task != b else c", 'task in ("binary", "ordinal")',
        '{"binary": 2, "ordinal": 3}[self.task]', 'Task = Literal["binary"]', "if len(part.classes) == 2: pass",
        "if len(classes) > 2 or x: pass", "len(self.classes) != 2", "if 3 > len(\n    classes\n): pass",
        'if (\n    config.task.name\n    == "ordinal"\n): pass', 'kind == "multiclass"', 'Literal["a", "ordinal"]',
        "match task:\n    case 'binary':\n        pass",
    ],
)  # fmt: skip
def test_the_search_sees_a_choice(source: str) -> None:
    assert choices(source)


@pytest.mark.parametrize(
    "source",
    ["if task is None: pass", "task in TASKS", "len(classes) < 2", "len(names) == 2", 'task: str = "binary"'],
)
def test_the_search_sees_no_choice_in_what_every_task_may_do(source: str) -> None:
    assert not choices(source)


def test_tasks_import_neither_torch_nor_scipy_before_they_need_them() -> None:
    for file in (PACKAGE / "tasks").glob("*.py"):
        lines = [line.split() for line in file.read_text().splitlines() if re.match(r"(from|import) ", line)]
        heavy = {words[1].split(".")[0] for words in lines} & {"torch", "scipy", "sklearn", "pandas"}
        assert not heavy or file.name in ("heads.py", "value_heads.py")
        own = ("..statistics.", *([".heads"] if file.name != "value_heads.py" else []))
        assert not [words for words in lines if words[1].startswith(own)]


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
    assert list(TASKS) == ["binary", "multiclass", "multilabel", "ordinal", "regression", "survival"]


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
