"""`study`: on data, on stand-ins, and where neither is there. Published figures here are made up."""

from pathlib import Path

import pytest

from jigsawmil.study.study_file import read_study

TINY = """
folds = 2
[cohorts.BRCA]
labels = "data/brca/labels.csv"
features = "data/brca/features_uni"
positive = "ILC"
label_column = "subtype"

[cohorts.BRCA.standin]
n = 12
patches = { fewest = 12, mean = 20, most = 40 }
dim = 16
classes = ["IDC", "ILC"]
balance = 0.5

[defaults]
epochs = 1
patience = 0
hidden = 16
attention_dim = 8
grid = 3
k = 4

[variants.abmil]
[variants."k 4"]
method = "graph-abmil+jigsaw"

[published]
source = "A paper, Table 9"
folds = 2
corner = "Method"
rows.abmil = "ABMIL"
[published.BRCA]
abmil = "0.12 ± 0.34"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "tiny.toml").write_text(TINY)
    return tmp_path / "tiny.toml"


def said(ran) -> str:
    return " ".join((ran.out + ran.err).split())


def test_data_that_are_not_there_are_named_and_so_is_the_way_without_them(jigsawmil, file: Path) -> None:
    ran = jigsawmil("study", file, "--out", file.parent / "run")
    assert ran.code == 1
    assert f"BRCA: no {file.parent / 'data/brca/labels.csv'} and no {file.parent / 'data/brca/features_uni'}" in said(
        ran
    )
    assert f"jigsawmil study {file} --phantom" in said(ran)
    assert not (file.parent / "run").exists()


def test_a_study_runs_on_standins_and_goes_on_with_them(jigsawmil, file: Path, table, monkeypatch) -> None:
    monkeypatch.chdir(file.parent)
    ran = jigsawmil("study", file.name, "--phantom")
    assert ran.code == 0, ran.err
    out = file.parent / "runs" / "tiny-phantom"
    drawn, positive, note, *_ = ran.out.splitlines()  # before anything runs
    assert positive == "Positive class: ILC."
    assert "SYNTHETIC STAND-INS (PHANTOMS)" in note
    assert ran.out.count("NO EVIDENCE") == 2  # and under the table
    assert "Drawing 12 phantom slides in place of BRCA" in drawn
    ours, paper = ran.out.split("A paper, Table 9, run on SYNTHETIC STAND-INS (PHANTOMS)")[1].split(
        "A paper, Table 9, as published"
    )
    assert "0.12" not in ours  # no published figure beside phantoms
    assert "0.12 ± 0.34" in paper
    assert set(table(out / "summary.csv")["cohort"]) == {"phantom BRCA"}
    assert len(table(out / "standins" / "BRCA" / "labels.csv")) == 12
    ours, paper = (out / "table.md").read_text(encoding="utf-8").split("A paper, Table 9, as published")
    assert "NO EVIDENCE" in ours
    assert "0.12" not in ours
    assert "| ABMIL | 0.12 ± 0.34 |" in paper
    before = {p: p.stat().st_mtime_ns for p in (out / "standins").rglob("*")}
    again = jigsawmil("study", file.name, "--phantom")
    assert "4 of 4 jobs are done already" in again.out
    assert "Drawing" not in again.out
    assert {p: p.stat().st_mtime_ns for p in (out / "standins").rglob("*")} == before
    file.write_text(TINY.replace("n = 12", "n = 14"))
    other = jigsawmil("study", file.name, "--phantom")
    assert other.code == 1
    assert "holds another stand-in than the study asks for" in said(other)


def test_on_data_the_published_figures_stand_beside_ours(jigsawmil, file: Path, cohort: Path) -> None:
    text = TINY.replace("data/brca/labels.csv", str(cohort / "labels.csv")).replace('label_column = "subtype"\n', "")
    text = text.replace("data/brca/features_uni", str(cohort / "features")).replace("ILC", "tumour")
    file.write_text(text)
    ran = jigsawmil("study", file, "--out", file.parent / "run")
    assert ran.code == 0, ran.err
    assert "PHANTOM" not in said(ran)
    assert "A paper, Table 9" in ran.out
    (line,) = [line for line in ran.out.splitlines() if line.startswith("abmil") and "0.12 ± 0.34" in line]
    assert line.split()[-3:] == ["0.12", "±", "0.34"]
    file.write_text(text.split("[published.BRCA]")[0])
    bare = jigsawmil("study", file, "--out", file.parent / "run")
    assert "The study file does not give the paper's figures; add them under [published] in" in said(bare)


def test_a_study_without_standins_is_told_what_to_write(jigsawmil, file: Path) -> None:
    head, tail = TINY.split("[cohorts.BRCA.standin]")
    file.write_text(head + "[defaults]" + tail.split("[defaults]")[1])
    ran = jigsawmil("study", file, "--phantom", "--out", file.parent / "run")
    assert ran.code == 1
    assert "No stand-in for BRCA; expected [cohorts.BRCA.standin] with n, patches" in said(ran)
    assert not (file.parent / "run").exists()
    plain = jigsawmil("study", file, "--out", file.parent / "run")
    assert plain.code == 1
    assert "--phantom" not in said(plain)  # there is no such way


def test_settings_may_be_given_beside_the_file(jigsawmil, file: Path, tmp_path: Path) -> None:
    """Of all variants that use them; one that none uses, or that makes the variants what they are, is refused."""
    study = read_study(file, {"epochs": 2, "hidden": 8})
    assert {(own.train.epochs, own.model.hidden, own.graph.k) for own in study.variants.values()} == {(2, 8, 4)}
    hours = [
        float(jigsawmil("study", file, "--phantom", "--dry-run", *typed).out.split("about ")[1].split()[0])
        for typed in ([], ["--epochs", "500", "--set", "members=50"])
    ]
    assert hours[1] > hours[0]
    for typed, words in (
        ("k3", "expected KEY=VALUE"),
        ("kk=3", "Did you mean 'k'?"),
        ("method=abmil", "--set method: variants differ in this setting"),
        ("options=x", "none of abmil, graph-abmil+jigsaw uses this setting"),
    ):
        ran = jigsawmil("study", file, "--set", typed, "--out", tmp_path / "run")
        assert (ran.code, words in ran.err) == (1, True), ran.err
    twice = jigsawmil("study", file, "--set", "epochs=3", "--epochs", "2")
    assert "expected one of them" in twice.err


def test_the_papers_figures_are_printed_without_data(jigsawmil, file: Path) -> None:
    ran = jigsawmil("study", file, "--published")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("A paper, Table 9, as published\n")
    lines = [line.split() for line in ran.out.splitlines()]
    assert lines[1] == ["Method", "BRCA"]
    assert ["ABMIL", "0.12", "±", "0.34"] in lines
    assert "2-fold cross-validation" in ran.out
    assert list(file.parent.iterdir()) == [file]
    file.write_text(TINY.split("[published]")[0])
    ran = jigsawmil("study", file, "--published")
    assert ran.code == 1
    assert f"{file}: found no figures of a paper, expected a table [published]" in said(ran)


def test_what_init_writes_can_be_run(jigsawmil, cohort: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = jigsawmil("init", "mine")
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[-1] == "Next: jigsawmil check --labels mine/labels.csv --features mine/features"
    missing = jigsawmil("check", "--labels", "mine/labels.csv", "--features", cohort / "features")
    assert "3 labelled slides without a feature file: slide-1, slide-2, slide-3" in said(missing)
    (tried,) = [line.split("jigsawmil ")[1] for line in ran.out.splitlines() if "--phantom" in line]
    assert "phantom mine 40" in said(jigsawmil(*tried.split()))
    again = jigsawmil("init", "mine")
    assert again.code == 1
    assert "study.toml and mine/labels.csv: already there" in again.err
    (tmp_path / "mine" / "labels.csv").write_bytes((cohort / "labels.csv").read_bytes())
    (tmp_path / "mine" / "features").symlink_to(cohort / "features")
    dry = jigsawmil("study", "mine/study.toml", "--dry-run")
    assert dry.code == 0, dry.err
    assert "mine 18" in said(dry)


def test_a_dry_run_says_what_a_study_costs_and_writes_nothing(jigsawmil, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path(__file__).parents[2] / "studies" / "table1-cancers.toml"
    ran = jigsawmil("study", file, "--phantom", "--dry-run", "--jobs", "2")
    assert ran.code == 0, ran.err
    study = read_study(file)
    trainings = len(study.variants) * study.folds * len(study.seeds)
    assert all(f"{trainings}" in line.split() for line in ran.out.splitlines() if line.startswith("phantom "))
    assert "Features to draw: 1.9 GB." in " ".join(ran.out.split())
    assert not list(tmp_path.iterdir())
