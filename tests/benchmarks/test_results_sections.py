"""Sections of the page whose files need not be there, on files made up in the form that the commands write."""

import pytest
from benchmarks.evidence import precision
from benchmarks.evidence.holdout import paired
from benchmarks.evidence.results_precision import precision as precision_section
from benchmarks.evidence.results_speed import out_of_core, scaling


def outcomes(shift: float) -> dict[str, dict[str, dict[str, dict[str, dict[str, float]]]]]:
    """kind -> cohort -> what its cell found; `auto` is better by `shift` and about 0.001."""
    found: dict[str, dict[str, dict[str, dict[str, dict[str, float]]]]] = {}
    for kind, seeds in precision.SEEDS.items():
        found[kind] = {}
        for seed in seeds:
            area = 0.8 + seed % 10 / 100
            jitter = 0.0012 if seed % 2 else 0.0008
            both = {"float32": area, precision.AUTO: area + shift + jitter}
            variants = {f"{m}, {p}": {"auc": both[p]} for m in precision.METHODS for p in precision.PRECISIONS}
            found[kind][str(seed)] = {"variants": variants}
    return found


def precision_file(shift: float, *, codex: bool) -> str:
    whole = {**paired([0.001, -0.001, 0.0005, 0.0]), "verdict": "equal"}
    part = {"row": "abmil, 5 epochs", "auc": {"float32": 0.7, "auto": 0.7001}, "difference": whole}
    values = {
        "auto": "bfloat16",
        "bound": precision.BOUND,
        "phantoms": precision.phantoms(outcomes(shift)),
        "codex": {"parts": [part], "repeats": 4, "difference": whole} if codex else None,
        "shape": {"train": precision.TRAIN, "test": precision.TEST, "members": precision.MEMBERS},
    }
    return "\n".join(precision_section(values))


@pytest.mark.parametrize(("shift", "verdict"), [(0.0, "equal"), (0.02, "different"), (-0.02, "different")])
def test_the_section_on_bfloat16_has_a_row_per_kind_and_method_and_the_verdict(shift: float, verdict: str) -> None:
    text = precision_file(shift, codex=True)
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert len(rows) == len(precision.SEEDS) * len(precision.METHODS)
    assert "24 cohorts, both methods averaged" in text
    assert f"All cohorts: {shift + 0.001:+.4f} [" in text
    assert f"], **{verdict}**." in text
    assert "| abmil, 5 epochs | 0.7000 | 0.7001 |" in text
    assert ("the default may become `auto`" in text) == (verdict == "equal")


def test_without_codex_the_default_stays() -> None:
    text = precision_file(0.0, codex=False)
    assert "CODEX was not run" in text
    assert "the default stays float32 (synthetic: equal; CODEX: not run)" in text


@pytest.mark.parametrize("threads", [1, 2])
def test_the_section_on_scaling_has_its_tables(threads: int) -> None:
    found = {
        "k": [{"k": 8, "float32": 1.25, "auto": 1.5}],
        "members": [{"members": 1, "seconds": 2.0, "ratio": 1.0}, {"members": 5, "seconds": 9.0, "ratio": 4.5}],
        "wide": {"float32": 0.75, "bfloat16": 0.5},
        "how": {"by": "the clock", "threads": threads},
        "patches": 3278,
        "epochs": 10,
    }
    if threads > 1:
        found["threads"] = [{"threads": 2, "float32": 1.75, "auto": 1.5}]
    text = "\n".join(scaling(found))
    assert "| 8 | 1.25 | 1.50 |" in text
    assert "| 5 | 9.00 | 4.50 |" in text
    assert "| 0.75 | 0.50 |" in text
    assert ("| 2 | 1.75 | 1.50 |" in text) == (threads > 1)
    assert f"on {threads} thread{'s' if threads > 1 else ''}. " in text


def test_the_section_on_cohorts_larger_than_memory_has_a_row_per_way() -> None:
    row = {"first_epoch_s": 12.0, "rate": 3.25, "clock": 0.5, "processor": 0.75}
    found = {
        "rows": {"memory": row, "disk, cold": {**row, "clock": 0.25}},
        "prepared_gb": 8.0,
        "memory_gb": 2.0,
        "check": {"files": 10_000, "first": 60.0, "warm": 30.0},
        "slides": "400",  # options are stored as they were given
        "patches": "3278",
        "threads": "2",
    }
    text = "\n".join(out_of_core(found))
    assert "| memory | 12.0 | 3.25 | 0.50 | 0.75 |" in text
    assert "| disk, cold | 12.0 | 3.25 | 0.25 | 0.75 |" in text
    assert "`jigsawmil check` of 10,000 files: 60.0 s, the second time 30.0 s." in text
