"""A study file becomes a study, and its mistakes are named."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from jigsawmil.cohort.options import CohortOptions
from jigsawmil.errors import ConfigError
from jigsawmil.study.published import Published
from jigsawmil.study.runner import cross_validate
from jigsawmil.study.study import on_standins
from jigsawmil.study.study_file import read_study
from jigsawmil.synthetic.standins import write_standin
from jigsawmil.train.settings import Settings

TOML = """
folds = 4
seeds = [3, 1]
shuffle_control = true
memory_gb = 1

[cohorts.one]
labels = "data/labels.csv"
features = "data/features"
splits = "data/folds.json"

[cohorts.two]
labels = "/abs/labels.tsv"
features = "../features"
label_column = "subtype"
mpp = 1

[defaults]
epochs = 7
lambda = "balanced"

[variants.abmil]
[variants."k 20"]
method = "graph-abmil+jigsaw"
k = 20
lambda = 0.5
"""


def write(folder: Path, text: str) -> Path:
    (folder / "s.toml").write_text(text)
    return folder / "s.toml"


def test_a_file_becomes_a_study_with_paths_relative_to_it(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir("/")
    study = read_study(write(tmp_path, TOML))
    one, two = study.cohorts["one"], study.cohorts["two"]
    assert (one.labels, one.features) == (str(tmp_path / "data/labels.csv"), str(tmp_path / "data/features"))
    assert (two.labels, Path(two.features).resolve()) == ("/abs/labels.tsv", tmp_path.parent / "features")
    assert two.options.given() == {"label_column": "subtype", "mpp": 1}
    assert study.splits == {"one": str(tmp_path / "data/folds.json")}
    assert (study.folds, study.seeds, study.shuffle_control, study.memory_gb) == (4, (3, 1), True, 1)
    assert study.variants == {
        "abmil": Settings.from_flat({"method": "abmil", "epochs": 7, "lambda": "balanced"}),
        "k 20": Settings.from_flat({"method": "graph-abmil+jigsaw", "epochs": 7, "k": 20, "lambda": 0.5}),
    }


STANDIN = """
[cohorts.one.standin]
n = 12
patches = { fewest = 12, mean = 20, most = 40 }
dim = 16
classes = ["IDC", "ILC"]
balance = 0.5

[cohorts.two.standin]
n = 9
patches = { fewest = 12, mean = 20, most = 40 }
dim = 16
classes = ["b", "a"]
balance = 0.4
seed = 7

[published]
source = "made up"
[published.two]
abmil = "0.50 ± 0.10"
"""


def test_on_standins_nothing_of_the_real_cohorts_is_left(tmp_path: Path) -> None:
    text = TOML.replace("mpp = 1\n", 'mpp = 1\npositive = "a"\n') + STANDIN
    study = read_study(write(tmp_path, text))
    assert (study.standins["one"].n, study.standins["two"].seed) == (12, 7)
    assert study.published == Published("made up", {"two": {"abmil": "0.50 ± 0.10"}})
    assert not study.phantom
    phantom = on_standins(study, tmp_path / "standins")
    assert phantom.phantom
    assert list(phantom.cohorts) == ["phantom one", "phantom two"]  # every table and plot will say so
    two = phantom.cohorts["phantom two"]
    assert two.labels == str(tmp_path / "standins" / "two" / "labels.csv")
    assert two.options == CohortOptions(positive="a")  # its files have the phantom's columns and units
    assert phantom.splits == {}
    assert phantom.published == study.published  # under the names of the real cohorts: no phantom has a figure
    assert not set(phantom.published.figures) & set(phantom.cohorts)
    assert (phantom.variants, phantom.folds, phantom.seeds) == (study.variants, study.folds, study.seeds)


def test_reference_images_are_relative_to_the_file_and_there(tmp_path: Path) -> None:
    text = TOML.replace("[cohorts.two]", '[cohorts.one.reference]\na = "reference/a.png"\n\n[cohorts.two]') + STANDIN
    file, image = write(tmp_path, text), tmp_path / "reference" / "a.png"
    with pytest.raises(ConfigError, match=r"cohorts.one.reference: a: .*reference/a.png: no such file"):
        read_study(file)
    image.parent.mkdir()
    image.write_text("no image")
    with pytest.raises(ConfigError, match=r"a.png: not an image that can be read"):
        read_study(file)
    Image.new("RGB", (4, 3)).save(image)
    study = read_study(file)
    assert study.references == {"one": {"a": str(image.resolve())}}
    assert on_standins(study, tmp_path / "standins").references == {}  # they show real tissue


def test_a_study_on_standins_says_so_in_its_folder(tmp_path: Path) -> None:
    small = "hidden = 16\nattention_dim = 8\nepochs = 1\nk = 4\npatience = 0\n"
    text = TOML.replace("epochs = 7\n", small).replace("folds = 4", "folds = 2").replace("[3, 1]", "[3]")
    study = on_standins(read_study(write(tmp_path, text.split('[variants."k')[0] + STANDIN)), tmp_path / "standins")
    for name, standin in study.standins.items():
        write_standin(standin, tmp_path / "standins" / name)
    result = cross_validate(replace(study, shuffle_control=False), tmp_path / "run")
    assert set(result.predictions["cohort"]) == {"phantom one", "phantom two"}
    about = json.loads((tmp_path / "run" / "study.json").read_text())
    assert about["phantom"] is True
    assert Published(**about["published"]) == study.published
    assert about["cohorts"]["phantom one"]["dim"] == 16


def test_standins_that_cannot_be(tmp_path: Path) -> None:
    one = STANDIN.split("[cohorts.two")[0]
    with pytest.raises(ConfigError, match=r"No stand-in for two; expected \[cohorts.two.standin\] with n, patches"):
        on_standins(read_study(write(tmp_path, TOML + one)), tmp_path)
    with pytest.raises(ConfigError, match="by_site: synthetic stand-ins have no sites"):
        on_standins(read_study(write(tmp_path, "by_site = true\n" + TOML + STANDIN)), tmp_path)


def test_a_study_from_a_file_runs(tmp_path: Path, own: Path) -> None:
    small = "hidden = 16\nattention_dim = 8\nepochs = 1\nk = 4\n"
    text = f'[cohorts.c]\nlabels = "own/labels.csv"\nfeatures = "own/features"\n[defaults]\n{small}[variants.abmil]\n'
    assert len(cross_validate(read_study(write(tmp_path, text)), tmp_path / "run").predictions) == 12


GOOD = '[cohorts.c]\nlabels = "l.csv"\nfeatures = "f"\n[variants.abmil]\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("fold = 3\n" + GOOD, "s.toml: key: found 'fold', .*Did you mean 'folds'"),
        (GOOD.replace("labels =", "label ="), "s.toml: cohorts.c: key: found 'label', .*Did you mean 'labels'"),
        (GOOD + "hiden = 3", "s.toml: variants.abmil: key: found 'hiden', .*Did you mean 'hidden'"),
        (GOOD + "lamda = 3", "variants.abmil: key: found 'lamda', .*Did you mean 'lambda'"),
        (GOOD + "k_ = 3", "variants.abmil: key: found 'k_', .*Did you mean 'k'"),
        (GOOD + "[defaults]\nepoch = 3", "s.toml: defaults: key: found 'epoch', .*Did you mean 'epochs'"),
        (GOOD.replace("abmil", "abml"), "s.toml: variants.abml: method: found 'abml', .*Did you mean 'abmil'"),
        (GOOD + 'k = "5"', "s.toml: variants.abmil: k: found '5', expected a whole number"),
        (GOOD + "k = 5.5", "variants.abmil: k: found 5.5, expected a whole number"),
        (GOOD + "lr = true", "variants.abmil: lr: found True, expected a number"),
        (GOOD + "lambda = true", "variants.abmil: lambda: found True, expected text or a number"),
        (GOOD + "lambda = 'emm'", "variants.abmil: lambda: found 'emm', .*Did you mean 'em'"),
        (GOOD + "gated = 1", "variants.abmil: gated: found 1, expected true or false"),
        ('folds = "3"\n' + GOOD, "s.toml: folds: found '3', expected a whole number"),
        ("folds = 1\n" + GOOD, "s.toml: folds: found 1, expected a whole number of at least 2"),
        ("seeds = 3\n" + GOOD, r"s.toml: seeds: found 3, expected a list such as \[0, 1\]"),
        ("seeds = []\n" + GOOD, "seeds: found .*expected distinct whole numbers"),
        ("seeds = [1, 1]\n" + GOOD, "seeds: found .*expected distinct whole numbers"),
        ("seeds = [-1]\n" + GOOD, "seeds: found .*of at least 0"),
        ('seeds = ["a"]\n' + GOOD, "seeds: found .*expected distinct whole numbers"),
        ("seeds = [true]\n" + GOOD, "seeds: found .*expected distinct whole numbers"),
        ("seeds = [0, [1]]\n" + GOOD, "seeds: found .*expected distinct whole numbers"),
        (GOOD.replace('"f"', "[]"), "s.toml: cohorts.c: no features; expected"),
        (GOOD.replace('"f"', '["a", "a"]'), "s.toml: cohorts.c: features: join: found .*two different"),
        ('by_site = "yes"\n' + GOOD, "by_site: found 'yes', expected true or false"),
        ('memory_gb = "4"\n' + GOOD, "memory_gb: found '4', expected a number"),
        ("memory_gb = -1\n" + GOOD, "memory_gb: found -1, expected a number of at least 0"),
        (GOOD.replace('"l.csv"', "3"), "cohorts.c: labels: found 3, expected text"),
        (GOOD.replace('"f"', '"f"\nmpp = "0.5"'), "cohorts.c: mpp: found '0.5', expected a number"),
        (GOOD.replace('"f"', '"f"\nordinal = 1'), "cohorts.c: ordinal: found 1, expected true or false"),
        (GOOD.replace('"f"', '"f"\npositive = 1'), "cohorts.c: positive: found 1, expected text"),
        (GOOD.replace('labels = "l.csv"\n', ""), "cohorts.c: no labels; expected a label table and a folder"),
        ("cohorts = 3\n[variants.abmil]", "s.toml: cohorts: found 3, expected a table"),
        ('variants = "abmil"\n' + GOOD.split("[variants")[0], "variants: found 'abmil', expected a table"),
        ("[cohorts]\nc = 3\n[variants.abmil]", "cohorts.c: found 3, expected a table"),
        ("[variants.abmil]", r"cohorts: found \[\], expected at least one"),
        (GOOD.split("[variants")[0], r"variants: found \[\], expected at least one"),
        (GOOD.replace("cohorts.c", 'cohorts."../c"'), "name: found '../c', expected one that can be a folder's"),
        (GOOD + '[variants."a/b"]\nmethod = "abmil"', "name: found 'a/b'"),
        ("folds = ", "s.toml: not a TOML file"),
        (GOOD + "[published]\nabmil = 3", "s.toml: published: found source = None"),
        (GOOD + "[published]\nsource = 'T'\nd.abmil = 0.5", "published: cohort: found 'd', expected one of c"),
        (
            GOOD + "[published_patches]\nsource = 'T'\nd.dim = 3",
            "published_patches: cohort: found 'd', expected one of c",
        ),
        (GOOD + "[cohorts.c.standin]\nm = 3", "s.toml: cohorts.c.standin: key: found 'm'"),
        (GOOD + "[cohorts.c.stand]\nm = 3", "cohorts.c: key: found 'stand', .*Did you mean 'standin'"),
        ("phantom = true\n" + GOOD, "s.toml: key: found 'phantom'"),
    ],
)
def test_mistakes_in_a_file_are_named(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_study(write(tmp_path, text))


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml: cannot be read \(No such file"):
        read_study(tmp_path / "nowhere.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_study(tmp_path)
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not a TOML file"):
        read_study(tmp_path / "b.toml")


YAML = """
folds: 4
seeds: [3, 1]
shuffle_control: true
memory_gb: 1
cohorts:
  one: {labels: data/labels.csv, features: data/features, splits: data/folds.json}
  two:
    labels: /abs/labels.tsv
    features: ../features
    label_column: subtype
    mpp: 1
defaults: {epochs: 7, lambda: balanced}
variants:
  abmil:
  k 20:
    method: graph-abmil+jigsaw
    k: 20
    lambda: 0.5
"""


def test_yaml_says_the_same_as_toml(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(YAML)
    assert read_study(tmp_path / "s.yaml") == read_study(write(tmp_path, TOML))
    (tmp_path / "s.yml").write_text(YAML.replace("epochs: 7", "lr: 1e-3").replace("subtype", "no"))
    study = read_study(tmp_path / "s.yml")
    assert study.variants["abmil"].train.lr == 1e-3  # in YAML 1.1 it would be text,
    assert study.cohorts["two"].options.label_column == "no"  # and this would not


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("seeds: [3, 1]", "seeds: [3, 1", r"s.yaml: not a YAML file \(.*at line 4, column"),
        ("seeds: [3, 1]", "folds: 3", r"s.yaml: not a YAML file \('folds' stands twice \(at line 3, column 1\)\)"),
        ("folds: 4", "folds: !!python/name:os.system", r"not a YAML file \(could not .*at line 2, column 8"),
        (YAML, "- 3", "s.yaml: not a YAML file .expected tables such as cohorts: and variants:"),
        ("folds: 4", "fold: 4", "s.yaml: key: found 'fold', .*Did you mean 'folds'"),
        ("k: 20", "k: twenty", "s.yaml: variants.k 20: k: found 'twenty', expected a whole number"),
        ("memory_gb: 1", "memory_gb:", "memory_gb: found {}, expected a number"),
    ],
)
def test_mistakes_in_yaml_are_named_with_their_line(tmp_path: Path, old: str, new: str, told: str) -> None:
    (tmp_path / "s.yaml").write_text(YAML.replace(old, new))
    with pytest.raises(ConfigError, match=told):
        read_study(tmp_path / "s.yaml")


def test_a_study_that_says_no_folds_has_five_and_the_papers_three(tmp_path: Path) -> None:
    assert read_study(write(tmp_path, GOOD)).folds == 5
    assert read_study(write(tmp_path, GOOD + '[defaults]\npreset = "paper"')).folds == 3
    assert read_study(write(tmp_path, "folds = 4\n" + GOOD + '[defaults]\npreset = "paper"')).folds == 4


def test_a_preset_holds_for_all_variants_or_for_one(tmp_path: Path) -> None:
    found = read_study(write(tmp_path, TOML.replace("epochs = 7", 'epochs = 7\npreset = "paper"'))).variants
    assert found["k 20"] == Settings.preset("paper", method="graph-abmil+jigsaw", epochs=7, k=20, lambda_=0.5)
    one = read_study(write(tmp_path, TOML.replace("k = 20", 'k = 20\npreset = "paper"'))).variants
    assert one["k 20"] == found["k 20"]
    assert one["abmil"] == Settings(method="abmil", epochs=7, lambda_="balanced")


CHOOSING = """
choose_folds = 4
[cohorts.c]
labels = "labels.csv"
features = "features"
[defaults]
choose = { k = [8, 24], lambda = ["em", 0.5] }
[variants.abmil]
[variants.graph-abmil]
[variants."graph-abmil+jigsaw"]
choose = { conv = ["gat", "sage"] }
[variants.graph-mil]
choose = {}
"""


def test_a_file_says_what_variants_choose(tmp_path: Path) -> None:
    """In [defaults] for all that can use it; a variant may say otherwise, or choose nothing."""
    (tmp_path / "s.toml").write_text(CHOOSING)
    study = read_study(tmp_path / "s.toml")
    ours = ["abmil", "graph-abmil", "graph-abmil, chosen", "graph-abmil+jigsaw", "graph-abmil+jigsaw, chosen"]
    assert list(study.variants) == [*ours, "graph-mil"]
    found = {name: dict(choice.options) for name, choice in study.choices.items()}
    assert found == {
        "graph-abmil, chosen": {"k": (8, 24), "lambda": ("em", 0.5)},
        "graph-abmil+jigsaw, chosen": {"conv": ("gat", "sage")},
    }
    assert {choice.folds for choice in study.choices.values()} == {4}
    (tmp_path / "s.toml").write_text("choose_only = true\n" + CHOOSING)
    assert list(read_study(tmp_path / "s.toml").variants) == ["abmil", "graph-abmil", "graph-abmil+jigsaw", "graph-mil"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("k = [8, 24]", "kk = [8, 24]", "s.toml: variants.abmil: choose: setting: found 'kk'"),
        ('"sage"]', '"saga"]', "choose: conv: found 'saga'.*Did you mean 'sage'"),
        ("choose_folds = 4", "choose_folds = 1", "choose_folds: found 1, expected a whole number of at least 2"),
        ("choose_folds = 4", 'choose_folds = "4"', "choose_folds: found '4', expected a whole number"),
        ("choose = {}", "choose = 8", r"variants.graph-mil.choose: found 8, expected a table"),
    ],
)
def test_what_a_file_cannot_choose_is_refused_by_name(tmp_path: Path, old: str, new: str, words: str) -> None:
    (tmp_path / "s.toml").write_text(CHOOSING.replace(old, new))
    with pytest.raises(ConfigError, match=words):
        read_study(tmp_path / "s.toml")
