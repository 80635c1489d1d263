"""Tasks: what each says about labels, columns and figures, and that nothing else asks for a task by its name."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from jigsawmil.errors import ConfigError
from jigsawmil.tasks import TASKS, BinaryTask, choose_task, get_task, register_task, task_of_table

PACKAGE = Path(__file__).parents[2] / "src" / "jigsawmil"


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
