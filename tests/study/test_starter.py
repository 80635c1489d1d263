"""The study file and label table that `init` writes."""

import re
from pathlib import Path

import pytest

from jigsawmil.errors import StudyError
from jigsawmil.nn.options import DEFAULT_METHOD
from jigsawmil.study.starter import write_starter
from jigsawmil.study.study_file import read_study
from jigsawmil.train.settings import Settings


def test_the_file_reads_as_it_stands_and_with_each_remark_put_to_use(tmp_path: Path) -> None:
    study, _ = write_starter(tmp_path, ["abmil", DEFAULT_METHOD])
    found = read_study(study)
    assert found.variants == {name: Settings(method=name) for name in ("abmil", DEFAULT_METHOD)}
    text = study.read_text()
    assert {"shuffle_control", "gated", "k", "lambda", "members"} <= set(re.findall(r"^#(\w+) = ", text, re.M))
    study.write_text(re.sub(r"^#(?=[a-z[])(?!preset|members|task|patient_column)", "", text, flags=re.M))
    used = read_study(study)
    assert used.shuffle_control
    assert used.attention
    assert used.variants["k = 8"] == Settings(method="graph-abmil", k=8)
    del used.variants["k = 8"]  # type: ignore[attr-defined]
    assert used.variants == found.variants  # the values shown are the defaults
    with pytest.raises(StudyError, match=r"study.toml and .*labels.csv: already there"):
        write_starter(tmp_path, ["abmil"])
    assert len(list(tmp_path.iterdir())) == 2
