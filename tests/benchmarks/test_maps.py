"""The benchmark of maps measures what it says: a map of the truth is perfect, and one of half of it stands at 0.75."""

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from jigsawmil.synthetic.phantom import make_phantom
from jigsawmil.train.settings import Settings

maps: Any = importlib.import_module("benchmarks.evidence.maps")


@pytest.mark.parametrize("kind", ["arrangement", "position"])
def test_the_planted_region_is_both_types_and_either_may_be_marked_alone(kind: str) -> None:
    [slide, *_] = make_phantom(kind, slides=2, patches=300, dim=16, seed=1)
    region = maps.regions(slide)
    assert (region["planted"] == (region["A"] | region["B"])).all()
    assert region["A"].sum() == region["B"].sum()
    only_a = region["A"].astype(float)
    assert roc_auc_score(region["planted"], only_a) == pytest.approx(0.75)
    among = region["A"] | (slide.plant == 0)
    assert roc_auc_score(region["A"][among], only_a[among]) == 1


def test_the_interval_is_students() -> None:
    found = maps.interval([0.6, 0.7, 0.8])
    half = 4.302653 * 0.1 / np.sqrt(3)
    assert (found["n"], found["auc"]) == (3, pytest.approx(0.7))
    assert (found["low"], found["high"]) == (pytest.approx(0.7 - half), pytest.approx(0.7 + half))


def test_every_variant_is_a_setting_that_exists() -> None:
    for kind in maps.VARIANTS:
        variants = maps.variants(kind)
        assert variants.pop(maps.COMMITTEE) == Settings()  # nothing set
        for name, settings in variants.items():
            assert f"{settings.model.conv}-k{settings.graph.k}" == name.split("-", 1)[1]


def test_what_is_added_leaves_the_other_rows_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, list[str]]] = []

    def judge(phantom: Any, settings: dict[str, Settings], folder: Path) -> list[dict[str, Any]]:
        asked.append((phantom.spec.kind, list(settings)))
        return [{"kind": phantom.spec.kind, "variant": name} for name in settings]

    monkeypatch.setattr(maps, "judge", judge)
    monkeypatch.setattr(maps, "show", lambda rows: None)
    old = [{"kind": kind, "variant": name, "auc": 0.5} for kind in maps.VARIANTS for name in maps.VARIANTS[kind]]
    out = tmp_path / "maps.json"
    out.write_text(json.dumps({"rows": old, "commit": "abc"}))
    for _ in range(2):
        maps.main(["--add", "--out", str(out)])
    assert asked == [(kind, [maps.COMMITTEE]) for kind in maps.VARIANTS]
    found = json.loads(out.read_text())
    assert found["rows"][: len(old)] == old
    assert (len(found["rows"]), found["commit"], list(found["added"])) == (len(old) + 2, "abc", [maps.COMMITTEE])
