"""Split files: ours and those of CLAM, STAMP and Patho-Bench, written here as those tools write them."""

import json
from pathlib import Path

import pandas as pd
import pytest

from jigsawmil.cohort.split_files import (
    read_folds,
    read_splits,
    write_clam,
    write_folds,
    write_patho_bench,
    write_stamp,
)
from jigsawmil.cohort.splits import Fold, check_folds, make_folds
from jigsawmil.errors import SplitError

# Two slides of patient 007, ids with leading zeros, and the dots of TCGA names.
SLIDES = ["007-1", "007-2", "008-1", "0090", "010", "TCGA-AR-A0TT-01Z-00-DX1.F6E9A5DF-D8FB-45CF-B4BD-C6B76294C291"]
PATIENTS = ["007", "007", "008", "009", "010", "TCGA-AR-A0TT"]
TCGA = SLIDES[-1]
FOLDS = [
    Fold(train=("008-1", "0090"), val=("010",), test=("007-1", "007-2", TCGA)),
    Fold(train=("007-1", "007-2", TCGA), val=("0090",), test=("008-1", "010")),
    Fold(train=("008-1", "010", TCGA), val=("007-1", "007-2"), test=("0090",)),
]
NO_VAL = [Fold(train=fold.train + fold.val, test=fold.test) for fold in FOLDS]

CLAM = f"""\
,train,val,test
0,008-1,010,007-1
1,0090,,007-2
2,,,{TCGA}
"""
CLAM_BOOL = f"""\
,train,val,test
008-1,True,False,False
0090,True,False,False
010,False,True,False
007-1,False,False,True
007-2,False,False,True
{TCGA},False,False,True
"""
STAMP = """\
{
    "splits": [
        {
            "train_patients": [
                "010",
                "008",
                "009"
            ],
            "test_patients": [
                "TCGA-AR-A0TT",
                "007"
            ]
        }
    ]
}"""
PATHO_BENCH = f"""\
case_id\tslide_id\tBAP1_mutation\tfold_0\tfold_1\tfold_2
007\t007-1\t0\ttest\ttrain\tval
007\t007-2\t0\ttest\ttrain\tval
008\t008-1\t1\ttrain\ttest\ttrain
009\t0090\t1\ttrain\tval\ttest
010\t010\t0\tval\ttest\ttrain
TCGA-AR-A0TT\t{TCGA}\t1\ttest\ttrain\ttrain
"""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("splits_0.csv", CLAM, FOLDS[:1]),
        ("splits_0_bool.csv", CLAM_BOOL, FOLDS[:1]),
        ("splits.json", STAMP, NO_VAL[:1]),
        ("k=all.tsv", PATHO_BENCH, FOLDS),
    ],
)
def test_foreign_files_are_read_from_the_file_or_its_folder_under_any_name(tmp_path, name, text, expected):
    (tmp_path / name).write_text(text)
    assert read_splits(tmp_path / name, SLIDES, PATIENTS) == expected
    assert read_splits(tmp_path, SLIDES, PATIENTS) == expected
    renamed = tmp_path / ("mine" + (tmp_path / name).suffix)
    renamed.write_text(text)
    assert read_splits(renamed, SLIDES, PATIENTS) == expected


def test_what_we_write_is_what_the_tools_write(tmp_path):
    labels = [0, 0, 1, 1, 0, 1]
    write_clam(FOLDS, tmp_path, SLIDES, PATIENTS)
    assert (tmp_path / "splits_0.csv").read_text() == CLAM
    assert (tmp_path / "splits_0_bool.csv").read_text() == CLAM_BOOL
    write_patho_bench(FOLDS, tmp_path / "k=all.tsv", SLIDES, PATIENTS, labels, task="BAP1_mutation")
    assert (tmp_path / "k=all.tsv").read_text() == PATHO_BENCH
    write_stamp(FOLDS[:1], tmp_path / "splits.json", SLIDES, PATIENTS)
    ours, theirs = (tmp_path / "splits.json").read_text(), STAMP
    assert sorted(ours.replace(",", "").splitlines()) == sorted(theirs.replace(",", "").splitlines())  # theirs are sets


def test_pandas_reads_our_clam_files_as_clam_does(tmp_path):
    write_clam(FOLDS, tmp_path, SLIDES, PATIENTS)
    for k, fold in enumerate(FOLDS):
        table = pd.read_csv(tmp_path / f"splits_{k}.csv", dtype=str)
        for part in ("train", "val", "test"):
            assert tuple(table[part].dropna()) == getattr(fold, part)
        flags = pd.read_csv(tmp_path / f"splits_{k}_bool.csv", index_col=0)
        assert flags.to_numpy().sum(axis=1).tolist() == [1] * len(SLIDES)


@pytest.mark.parametrize("folds", [FOLDS, NO_VAL], ids=["val", "no-val"])
def test_round_trips(tmp_path, folds):
    write_clam(folds, tmp_path / "clam", SLIDES, PATIENTS)
    assert read_splits(tmp_path / "clam", SLIDES, PATIENTS) == folds
    for k in range(len(folds)):
        (tmp_path / "clam" / f"splits_{k}.csv").unlink()
    assert read_splits(tmp_path / "clam", SLIDES, PATIENTS) == folds  # from the flags alone
    write_patho_bench(folds, tmp_path / "k=all.tsv", SLIDES, PATIENTS, list("abcabc"), task="grade")
    assert read_splits(tmp_path / "k=all.tsv", SLIDES, PATIENTS) == folds
    write_stamp(folds, tmp_path / "splits.json", SLIDES, PATIENTS)
    assert read_splits(tmp_path / "splits.json", SLIDES, PATIENTS) == NO_VAL  # STAMP draws its own validation
    write_folds(folds, tmp_path / "folds.json", SLIDES, PATIENTS, seed=7)
    assert read_splits(tmp_path / "folds.json", SLIDES, PATIENTS) == folds
    assert read_folds(tmp_path / "folds.json") == folds
    assert not list(tmp_path.glob("**/*.tmp"))


def test_round_trips_of_made_folds_in_their_order(tmp_path):
    """Twelve folds, so that splits_10 must not come before splits_2."""
    slides = [f"{i:03d}" for i in range(60)]
    patients = [f"p{i // 2:02d}" for i in range(60)]
    labels = [i // 2 % 2 for i in range(60)]
    folds = make_folds(slides, patients, labels, folds=12)
    write_clam(folds, tmp_path, slides, patients)
    assert read_splits(tmp_path, slides, patients) == folds
    write_patho_bench(folds, tmp_path / "table.tsv", slides, patients, labels, task="t")
    assert read_splits(tmp_path / "table.tsv", slides, patients) == folds


def test_folds_json_can_be_read_by_eye(tmp_path):
    write_folds(FOLDS, tmp_path / "folds.json", SLIDES, PATIENTS, seed=7)
    content = json.loads((tmp_path / "folds.json").read_text())
    assert content["version"] == 1
    assert content["seed"] == 7
    assert content["folds"][0] == {
        "train": {"008": ["008-1"], "009": ["0090"]},
        "val": {"010": ["010"]},
        "test": {"007": ["007-1", "007-2"], "TCGA-AR-A0TT": [TCGA]},
    }


def test_ids_match_with_or_without_a_file_ending_but_keep_their_own_dots(tmp_path):
    (tmp_path / "splits_0.csv").write_text(CLAM.replace("0090", "0090.svs").replace(TCGA, TCGA + ".svs"))
    assert read_splits(tmp_path, SLIDES, PATIENTS) == FOLDS[:1]
    with_endings = [slide + ".h5" for slide in SLIDES]
    read = read_splits(tmp_path, with_endings, PATIENTS)
    assert read[0].test == ("007-1.h5", "007-2.h5", TCGA + ".h5")
    (tmp_path / "splits_0.csv").write_text(CLAM.replace(TCGA, TCGA.split(".")[0]))
    with pytest.raises(SplitError, match=r"not in the cohort: TCGA-AR-A0TT-01Z-00-DX1$"):
        read_splits(tmp_path, SLIDES, PATIENTS)


def test_two_slides_that_differ_only_by_their_ending_are_not_confused(tmp_path):
    slides, patients = ["a.svs", "a.tif", "b", "c"], ["p", "q", "r", "s"]
    (tmp_path / "splits_0.csv").write_text(",train,val,test\n0,a.svs,,b\n1,a.tif,,c\n")
    assert read_splits(tmp_path, slides, patients) == [Fold(train=("a.svs", "a.tif"), test=("b", "c"))]
    (tmp_path / "splits_0.csv").write_text(",train,val,test\n0,a,,b\n1,a.tif,,c\n")
    with pytest.raises(SplitError, match=r"not in the cohort: a$"):
        read_splits(tmp_path, slides, patients)


def test_leading_zeros_and_ids_that_look_missing_survive(tmp_path):
    slides = ["01", "1", "NA", "nan", "1e5", "None"]
    folds = [Fold(train=("01", "1", "NA"), test=("nan", "1e5", "None"))]
    write_clam(folds, tmp_path / "clam", slides, slides)
    write_patho_bench(folds, tmp_path / "k=all.tsv", slides, slides, [0] * 6, task="t")
    assert read_splits(tmp_path / "clam", slides, slides) == folds
    assert read_splits(tmp_path / "k=all.tsv", slides, slides) == folds


def test_clams_repeated_hold_out_is_read_but_is_no_cross_validation(tmp_path):
    """CLAM draws each split anew: slides are tested twice or never, and with a label fraction not even trained on."""
    for k, text in enumerate([CLAM, CLAM, ",train,val,test\n0,010,0090,008-1\n"]):
        (tmp_path / f"splits_{k}.csv").write_text(text)
    folds = read_splits(tmp_path, SLIDES, PATIENTS)
    assert len(folds) == 3
    with pytest.raises(SplitError, match=r"never tested: 0090, 010\n- tested in more than one fold: 007-1"):
        check_folds(folds, SLIDES, PATIENTS)


def test_few_shot_splits_of_patho_bench_and_slides_that_the_cohort_left_out(tmp_path):
    """Patho-Bench writes -1 for a slide that a fold does not use. A slide without features is passed over if it was
    left out, and an error else."""
    (tmp_path / "k=1.tsv").write_text(PATHO_BENCH.replace("008-1\t1\ttrain", "008-1\t1\t-1"))
    (fold, *_) = read_splits(tmp_path / "k=1.tsv", SLIDES, PATIENTS)
    assert fold == Fold(train=("0090",), val=("010",), test=("007-1", "007-2", TCGA))
    ids, patients = SLIDES[:2] + SLIDES[3:], PATIENTS[:2] + PATIENTS[3:]
    with pytest.raises(SplitError, match=r"not in the cohort: 008-1"):
        read_splits(tmp_path / "k=1.tsv", ids, patients)
    left = read_splits(tmp_path / "k=1.tsv", ids, patients, left_out=["008-1", "never-heard-of"])
    assert left[1] == Fold(train=("007-1", "007-2", TCGA), val=("0090",), test=("010",))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("splits_0.csv", CLAM.replace("2,,,", "2,007-2,,").replace("1,0090,,007-2", "1,0090,,")),
        ("splits_0_bool.csv", CLAM_BOOL.replace("007-2,False,False,True", "007-2,True,False,False")),
        ("splits.json", STAMP.replace('"009"', '"009", "007"')),
        ("k=all.tsv", PATHO_BENCH.replace("007-2\t0\ttest", "007-2\t0\ttrain")),
    ],
)
def test_a_patient_on_both_sides_is_refused_by_name_in_every_format(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(SplitError) as caught:
        read_splits(tmp_path / name, SLIDES, PATIENTS)
    assert str(caught.value).startswith(name)
    assert "fold 0: patient 007 is in train (" in str(caught.value)
    assert "007-2" in str(caught.value)


def test_a_leak_that_only_the_files_own_patients_show_is_refused(tmp_path):
    """The labels name no patients, so each slide is its own; Patho-Bench's case_id still tells."""
    (tmp_path / "k=all.tsv").write_text(PATHO_BENCH.replace("007-2\t0\ttest", "007-2\t0\ttrain"))
    with pytest.raises(SplitError, match=r"patient 007 is in train \(007-2\) and in test \(007-1\)"):
        read_splits(tmp_path, SLIDES, SLIDES)


def slideflow(**change: object) -> str:
    """As slideflow 3.0 logs a split: a list, each with patients and parts of slide names."""
    patients = {}
    for slide, patient in zip(SLIDES, PATIENTS, strict=True):
        patients.setdefault(patient, {"outcome_label": 0, "slides": []})["slides"].append(slide)
    parts = {"k-fold-1": SLIDES[:2], "k-fold-2": SLIDES[2:4], "k-fold-3": SLIDES[4:]}
    return json.dumps([{"strategy": "k-fold", "patients": patients, "tfrecords": parts, **change}])


def test_slideflows_splits_are_read(tmp_path: Path) -> None:
    path = tmp_path / "splits.json"
    path.write_text(slideflow())
    folds = read_splits(tmp_path, SLIDES, PATIENTS)
    check_folds(folds, SLIDES, PATIENTS)
    assert [fold.test for fold in folds] == [tuple(SLIDES[:2]), tuple(SLIDES[2:4]), tuple(SLIDES[4:])]
    assert {*folds[0].train} == {*SLIDES[2:]}
    assert folds[0].val == ()
    path.write_text(slideflow(strategy="fixed", tfrecords={"validation": SLIDES[:2], "training": SLIDES[2:]}))
    assert read_splits(path, SLIDES, PATIENTS) == [Fold(train=tuple(SLIDES[2:]), test=tuple(SLIDES[:2]))]
    endings = [f"{name}.svs" for name in SLIDES]
    assert read_splits(path, endings, PATIENTS)[0].test == tuple(endings[:2])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[]", "0 splits"),
        (json.dumps(json.loads(slideflow()) * 2), "2 splits, of which slideflow takes .* Keep one"),
        ("[3]", "not a split of slideflow"),
        (slideflow(tfrecords={"k-fold-1": [1], "k-fold-2": []}), "not a split of slideflow"),
        (slideflow(tfrecords={"k-fold-1": SLIDES, "k-fold-3": []}), "parts k-fold-1, k-fold-3; expected"),
        (slideflow(tfrecords={}), "parts none"),
        (slideflow(tfrecords={"k-fold-1": SLIDES[:1], "k-fold-2": SLIDES[1:]}), "007"),  # a leak
        (slideflow(tfrecords={"k-fold-1": SLIDES[:2], "k-fold-2": ["unknown"]}), "unknown"),
    ],
)
def test_splits_of_slideflow_that_are_none_are_refused(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "splits.json").write_text(content)
    with pytest.raises(SplitError, match=rf"(?s)splits\.json: .*{words}"):
        read_splits(tmp_path / "splits.json", SLIDES, PATIENTS)
    with pytest.raises(SplitError, match=rf"(?s)splits\.json: .*{words}"):  # also where the labels name no patients
        read_splits(tmp_path / "splits.json", SLIDES, SLIDES)


def test_every_writer_makes_its_folder(tmp_path: Path) -> None:
    write_clam(NO_VAL, tmp_path / "a" / "clam", SLIDES, PATIENTS)
    write_stamp(NO_VAL, tmp_path / "b" / "stamp" / "splits.json", SLIDES, PATIENTS)
    write_patho_bench(NO_VAL, tmp_path / "c" / "bench" / "k=all.tsv", SLIDES, PATIENTS, [0] * 6, task="t")
    write_folds(NO_VAL, tmp_path / "d" / "ours" / "folds.json", SLIDES, PATIENTS)
    for folder in ("a/clam", "b/stamp", "c/bench", "d/ours"):
        found = read_splits(tmp_path / folder, SLIDES, PATIENTS)
        assert [{*fold.train} for fold in found] == [{*fold.train} for fold in NO_VAL]


def test_no_writer_writes_a_leak(tmp_path):
    leak = [Fold(train=("007-1", "008-1", "010"), test=("007-2", "0090", TCGA))]
    for write in (write_clam, write_stamp, write_folds):
        with pytest.raises(SplitError, match=r"patient 007 is in train \(007-1\) and in test \(007-2\)"):
            write(leak, tmp_path / "out", SLIDES, PATIENTS)
    with pytest.raises(SplitError, match="patient 007"):
        write_patho_bench(leak, tmp_path / "out", SLIDES, PATIENTS, [0] * 6, task="t")
    assert not list(tmp_path.iterdir())


def test_a_folds_file_of_another_cohort_is_refused(tmp_path):
    write_folds(NO_VAL, tmp_path / "folds.json", SLIDES, PATIENTS)
    others = [f"1{slide}" for slide in SLIDES]
    with pytest.raises(SplitError, match=r"train has slides that are not in the cohort: 008-1, 0090, 010"):
        read_folds(tmp_path / "folds.json", others, PATIENTS)
    regrouped = ["007", "007", "007", "009", "010", "011"]  # the labels now say that 008-1 is patient 007's
    with pytest.raises(SplitError, match=r"patient 007 is in train \(008-1\) and in test \(007-1, 007-2\)"):
        read_folds(tmp_path / "folds.json", SLIDES, regrouped)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("splits_0.csv", ",train,val\n0,a,b\n", "no test; expected train,val,test.*rename"),
        ("splits_0.csv", CLAM.replace("1,0090,,007-2", "1,0090"), r"rows 3 do not have the header's 4 columns"),
        ("splits_0.csv", ",train,val,test\n", "1 lines; expected a header and at least one row"),
        ("splits_0.csv", "patient,label\n1,2\n", "columns patient, label; expected train,val,test"),
        ("splits.json", STAMP.replace('"008"', '"088"'), "patients that are not in the cohort: 088"),
        ("splits.json", STAMP.replace('"010"', "10"), 'no list of text "train_patients"'),
        ("splits.json", STAMP.replace("test_patients", "valid"), 'split 0 has no list of text "test_patients"'),
        ("splits.json", STAMP[:60], r"splits\.json: not valid JSON"),
        ("splits.json", '{"splits": 3}', "split 0 has no list of text"),
        ("folds.json", "{}", "not a folds file"),
        ("folds.json", '{"format": "jigsawmil folds", "version": 9}', "version 9; this program reads version 1"),
        ("folds.json", '{"format": "jigsawmil folds", "version": 1, "folds": [{"train": []}]}', "damaged"),
        ("k=all.tsv", PATHO_BENCH.replace("\ttest\ttrain\tval", "\ttest\ttrian\tval"), "007-1 fold_1='trian'"),
        ("k=all.tsv", PATHO_BENCH.replace("\t0090\t", "\t008-1\t"), "k=all.tsv: Slides listed more than once: 008-1"),
    ],
)
def test_damaged_files_say_found_expected_and_what_to_do(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(SplitError, match=message):
        read_splits(tmp_path / name, SLIDES, PATIENTS)


def test_a_folder_must_hold_one_whole_set(tmp_path):
    with pytest.raises(SplitError, match="no split file"):
        read_splits(tmp_path, SLIDES, PATIENTS)
    (tmp_path / "splits_0.csv").write_text(CLAM)
    (tmp_path / "splits_2.csv").write_text(CLAM)
    with pytest.raises(SplitError, match="splits number 1 are missing"):
        read_splits(tmp_path, SLIDES, PATIENTS)
    (tmp_path / "splits_1.csv").write_text(CLAM)
    (tmp_path / "splits.json").write_text(STAMP)
    with pytest.raises(SplitError, match=r"several kinds of split files \(splits\.json, splits_0\.csv"):
        read_splits(tmp_path, SLIDES, PATIENTS)
    with pytest.raises(SplitError, match=r"holds splits_2\.csv of another set"):
        write_clam(FOLDS[:2], tmp_path, SLIDES, PATIENTS)
    with pytest.raises(SplitError, match="cannot be read"):
        read_splits(tmp_path / "absent.csv", SLIDES, PATIENTS)


def test_stamp_cannot_hold_a_fold_with_half_a_patient(tmp_path):
    half = [Fold(train=("007-1", "008-1"), test=("0090",)), Fold(train=("0090",), test=("007-2", "010", TCGA))]
    with pytest.raises(SplitError, match=r"Fold 0 leaves out slides of patients it uses: 007-2\."):
        write_stamp(half, tmp_path / "splits.json", SLIDES, PATIENTS)
    write_patho_bench(half, tmp_path / "k=all.tsv", SLIDES, PATIENTS, [0] * 6, task="t")
    assert read_splits(tmp_path, SLIDES, PATIENTS) == half


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path):
    (tmp_path / "a-file").write_text("")
    with pytest.raises(SplitError, match="cannot be written"):
        write_folds(FOLDS, tmp_path / "a-file" / "folds.json", SLIDES, PATIENTS)
    with pytest.raises(SplitError, match="cannot be made"):
        write_clam(FOLDS, tmp_path / "a-file", SLIDES, PATIENTS)
    (tmp_path / "taken").mkdir()
    with pytest.raises(SplitError, match="cannot be written"):
        write_folds(FOLDS, tmp_path / "taken", SLIDES, PATIENTS)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a-file", "taken"]
