"""Extraction run again, interrupted, killed, shared: what is there is known for what it is, and nothing is lost."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from jigsawmil.bags.formats import read_bag
from jigsawmil.bags.formats.hdf5 import unseal
from jigsawmil.bags.provenance import MADE_FROM
from jigsawmil.bags.tile_spec import TileSpec
from jigsawmil.errors import ConfigError
from jigsawmil.files import replacing
from jigsawmil.slides import extract_many, extract_one
from jigsawmil.slides.encoders import Encoder, load_encoder
from jigsawmil.slides.extract_many import extract_here, write_account
from jigsawmil.slides.extract_one import Extracted, ExtractSettings, extract_slide, features_folder
from jigsawmil.synthetic.painter import Plan, paint

SETTINGS = ExtractSettings(workers=1, batch=4)
WORKER = """
import sys, time
from pathlib import Path
import torch
from jigsawmil.slides.extract_one import ExtractSettings, features_folder
from jigsawmil.slides.extract_many import extract_here, write_account
torch.set_num_threads(1)
slides, out, encoder, me = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
settings = ExtractSettings(workers=1, batch=2)
(out / f"ready-{me}").touch()
while not (out / "go").exists():
    time.sleep(0.01)
folder = features_folder(out, "colour", settings)
for one in extract_here(sorted(slides.glob("*.tif")), out, {"name": encoder}, settings):
    write_account(one, folder)
    print(one.slide, one.status, flush=True)
"""


def visible(folder: Path) -> list[str]:
    """Every file, hidden ones too."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_running_again_does_what_is_missing(
    slides: dict[str, Path], script: Path, tmp_path: Path, digests: Callable[[Path, str], dict[str, str]]
) -> None:
    load, files = {"name": str(script)}, [slides["0001"], slides["0002"]]
    assert [one.status for one in extract_here(files, tmp_path, load, SETTINGS)] == ["done", "done"]
    before = digests(tmp_path, "*.h5")
    (tmp_path / "20x_256px_0px_overlap" / "features_colour" / "0002.h5").unlink()
    assert [one.status for one in extract_here(files, tmp_path, load, SETTINGS)] == ["already", "done"]
    assert digests(tmp_path, "*.h5") == before


def test_a_kill_between_two_files_loses_none(
    slides: dict[str, Path], script: Path, tmp_path: Path, digests: Callable[[Path, str], dict[str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Features come last, since a slide that has them is done. What an earlier version lost is written again."""
    load, files = {"name": str(script)}, [slides["0001"]]
    with monkeypatch.context() as patched:
        patched.setattr(extract_one, "write_features", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            list(extract_here(files, tmp_path, load, SETTINGS))
    folder = features_folder(tmp_path, "colour", SETTINGS)
    patches, account = folder.parent / "patches" / "0001_patches.h5", folder / "extracted.csv"
    assert patches.exists()
    assert not (folder / "0001.h5").exists()
    assert [one.status for one in extract_here(files, tmp_path, load, SETTINGS)] == ["done"]
    before, row = digests(tmp_path, "*.h5"), pd.read_csv(account).drop(columns="seconds")
    patches.unlink()
    account.unlink()
    assert [one.status for one in extract_here(files, tmp_path, load, SETTINGS)] == ["already"]
    assert pd.read_csv(account).drop(columns="seconds").equals(row)
    with h5py.File(patches) as again, h5py.File(folder / "0001.h5") as features:
        assert np.array_equal(again["coords"], features["coords"])
        assert {*again["coords"].attrs} == {*features["coords"].attrs}
    assert digests(tmp_path, "features_colour/*.h5") == {n: d for n, d in before.items() if "patches" not in n}


def test_what_is_done_is_known_on_storage_that_has_become_read_only(
    slides: dict[str, Path], script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.new("RGB", (600, 600), "white").save(tmp_path / "glass.png")
    files, out = [slides["0001"], tmp_path / "glass.png"], tmp_path / "out"
    settings, load = replace(SETTINGS, slide_mpp=0.5), {"name": str(script)}
    folder = features_folder(out, "colour", settings)
    for one in extract_here(files, out, load, settings):
        write_account(one, folder)
    before = {name: (out / name).read_bytes() for name in visible(out)}

    def refuse(*given: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    for module in (extract_one, extract_many):
        for name in ("held", "replacing"):
            monkeypatch.setattr(module, name, refuse)
    again = list(extract_here(files, out, load, settings))
    for one in again:
        write_account(one, folder)
    assert [(one.status, one.known) for one in again] == [("already", True), ("no tissue", True)]
    for one in extract_here(files, out, load, replace(settings, precision="bfloat16")):
        assert "made with precision float32, this run says bfloat16" in str(one.error)
        write_account(one, folder)
    assert {name: (out / name).read_bytes() for name in visible(out)} == before


def test_running_again_knows_other_slides_and_other_settings(
    slides: dict[str, Path], encoder: Encoder, tmp_path: Path
) -> None:
    """What is there is never taken for what was asked for; refused, or made anew on request."""
    out, own = tmp_path / "out", tmp_path / "own" / "0001.tif"
    own.parent.mkdir()
    shutil.copy(slides["0001"], own)
    outline = json.dumps({"type": "Polygon", "coordinates": [[[256, 256], [768, 256], [768, 512], [256, 256]]]})
    (tmp_path / "0001.geojson").write_text(outline)
    file = features_folder(out, "colour", SETTINGS) / "0001.h5"
    assert extract_slide(own, out, encoder, SETTINGS).status == "done"
    for same in (replace(SETTINGS, workers=3, batch=2), replace(SETTINGS, slide_mpp=0.5)):  # the slide has its own mpp
        assert extract_slide(own, out, encoder, same).status == "already"
    before = file.read_bytes()
    others = {
        "share 0.25, this run says 0.5": (encoder, replace(SETTINGS, tiles=TileSpec(share=0.5))),
        "precision float32, this run says bfloat16": (encoder, replace(SETTINGS, precision="bfloat16")),
        "other outlines": (encoder, replace(SETTINGS, masks=tmp_path)),
        "other weights": (encoder._replace(mark="another"), SETTINGS),
    }
    for words, (which, settings) in others.items():
        found = extract_slide(own, out, which, settings)
        assert found.status == "failed"
        assert words in str(found.error)
    shutil.copy(slides["0002"], own)
    found = extract_slide(own, out, encoder, SETTINGS)
    assert "made from another slide of this name" in str(found.error)
    assert file.read_bytes() == before
    assert extract_slide(own, out, encoder, replace(SETTINGS, renew=True)).status == "done"
    alone = tmp_path / "alone"
    extract_slide(slides["0002"], alone, encoder, SETTINGS)
    other = read_bag(features_folder(alone, "colour", SETTINGS) / "0002.h5")
    assert torch.equal(read_bag(file).features, other.features)


def test_a_change_in_the_middle_of_a_slide_is_noticed_and_files_of_earlier_versions_are_known(
    slides: dict[str, Path], encoder: Encoder, tmp_path: Path
) -> None:
    out, own = tmp_path / "out", tmp_path / "own" / "0001.tif"
    own.parent.mkdir()
    shutil.copy(slides["0001"], own)
    with open(own, "ab") as file:  # behind the last picture, so that the slide stays readable
        file.write(bytes(600_000))
    assert extract_slide(own, out, encoder, SETTINGS).status == "done"
    assert extract_slide(own, out, encoder, SETTINGS).status == "already"
    with open(own, "r+b") as file:
        file.seek(own.stat().st_size - 500_000)
        file.write(b"x" * 400_000)
    assert "its content changed" in str(extract_slide(own, out, encoder, SETTINGS).error)
    with h5py.File(features_folder(out, "colour", SETTINGS) / "0001.h5", "a") as file:
        made = json.loads(file["features"].attrs[MADE_FROM])
        del made["content"]  # as an earlier version wrote it
        file["features"].attrs[MADE_FROM] = json.dumps(made)
        unseal(file)
    assert extract_slide(own, out, encoder, SETTINGS).status == "already"


def test_a_resolution_that_was_stated_wrongly_is_noticed(encoder: Encoder, tmp_path: Path) -> None:
    plan = Plan(np.array([[0, 0], [1, 0], [0, 1], [1, 1]]), np.array([0, 1, 1, 0]), ("tumour", "stroma"))
    Image.fromarray(paint(plan, np.random.default_rng(0)).image).save(tmp_path / "plain.png")
    for stated, status in ((0.5, "done"), (0.5, "already"), (None, "already"), (0.25, "failed")):
        found = extract_slide(tmp_path / "plain.png", tmp_path / "o", encoder, replace(SETTINGS, slide_mpp=stated))
        assert found.status == status
    assert "slide_mpp 0.5, this run says 0.25" in str(found.error)


def test_an_outline_that_was_corrected_by_hand_stays(slides: dict[str, Path], encoder: Encoder, tmp_path: Path) -> None:
    extract_slide(slides["0001"], tmp_path, encoder, SETTINGS)
    outline = tmp_path / "contours_geojson" / "0001.geojson"
    drawn = json.dumps({"type": "Polygon", "coordinates": [[[256, 256], [768, 256], [768, 768], [256, 768]]]})
    outline.write_text(drawn)
    for settings in (
        replace(SETTINGS, masks=outline.parent, tiles=TileSpec(overlap=64, drawn=True)),
        replace(SETTINGS, tiles=TileSpec(patch=128)),
    ):
        assert extract_slide(slides["0001"], tmp_path, encoder, settings).status == "done"
        assert outline.read_text() == drawn


def test_a_damaged_file_is_told(slides: dict[str, Path], encoder: Encoder, tmp_path: Path) -> None:
    extract_slide(slides["0001"], tmp_path, encoder, SETTINGS)
    file = features_folder(tmp_path, "colour", SETTINGS) / "0001.h5"
    file.write_bytes(file.read_bytes()[:500])
    found = extract_slide(slides["0001"], tmp_path, encoder, SETTINGS)
    assert found.status == "failed"
    assert "0001.h5: damaged" in str(found.error)
    assert extract_slide(slides["0001"], tmp_path, encoder, replace(SETTINGS, renew=True)).status == "done"


def test_what_a_killed_process_left_is_swept_away(slides: dict[str, Path], encoder: Encoder, tmp_path: Path) -> None:
    folder = features_folder(tmp_path, "colour", SETTINGS)
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True
    )
    with replacing(folder / "0001.h5") as mine:  # of a process that lives, as its name says
        folder.mkdir(parents=True)
        mine.touch()
        left = mine.with_name(mine.name.replace(f"-{os.getpid()}-", f"-{gone.stdout.strip()}-"))
        left.touch()
        assert extract_slide(slides["0001"], tmp_path, encoder, SETTINGS).status == "done"
        assert not left.exists()
        assert mine.exists()


def test_stopping_in_the_middle_leaves_no_half_file(slides: dict[str, Path], encoder: Encoder, tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract_slide(slides["0001"], tmp_path, encoder, SETTINGS, stop)
    left = visible(tmp_path)
    assert not [name for name in left if name.endswith((".h5", ".partial", ".lock"))], left
    assert extract_slide(slides["0001"], tmp_path, encoder, SETTINGS).status == "done"


@pytest.mark.skipif(sys.platform == "win32", reason="kills as POSIX does")
def test_a_lock_holds_while_its_process_lives_and_not_longer(
    slides: dict[str, Path], encoder: Encoder, tmp_path: Path
) -> None:
    folder = features_folder(tmp_path, "colour", SETTINGS)
    folder.mkdir(parents=True)
    hold = "f = open(sys.argv[1], 'a'); fcntl.flock(f, 2); print('held', flush=True); time.sleep(60)"
    code = f"import fcntl, sys, time; {hold}"
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(folder / ".0001.lock")], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "held\n"
        assert extract_slide(slides["0001"], tmp_path, encoder, SETTINGS).status == "elsewhere"
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    finally:
        holder.kill()
        holder.stdout.close()
    assert (folder / ".0001.lock").exists()  # left behind
    assert extract_slide(slides["0001"], tmp_path, encoder, SETTINGS).status == "done"


def test_two_processes_share_a_folder(slides: dict[str, Path], script: Path, tmp_path: Path) -> None:
    """Every slide is done by one of them, once; what both write is what one alone would have written."""
    names, many, out = sorted(slides), tmp_path / "slides", tmp_path / "out"
    many.mkdir()
    out.mkdir()
    for index in range(12):
        (many / f"{index:02d}.tif").symlink_to(slides[names[index % 3]])
    arguments = [sys.executable, "-c", WORKER, str(many), str(out), str(script)]
    both = [subprocess.Popen([*arguments, me], stdout=subprocess.PIPE, text=True) for me in "ab"]
    while not all((out / f"ready-{me}").exists() for me in "ab"):
        assert all(process.poll() is None for process in both)
        time.sleep(0.02)
    (out / "go").touch()
    told = [dict(line.split() for line in process.communicate()[0].splitlines()) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    for name in sorted(told[0]):
        assert sorted([told[0][name], told[1][name]]) in (["already", "done"], ["done", "elsewhere"]), told
    assert all("done" in one.values() for one in told)  # both worked
    folder = features_folder(out, "colour", SETTINGS)
    alone = {}
    for name, path in slides.items():
        extract_slide(path, tmp_path / "alone", load_encoder(str(script)), replace(SETTINGS, batch=2))
        alone[name] = read_bag(features_folder(tmp_path / "alone", "colour", SETTINGS) / f"{name}.h5")
    for index in range(12):
        bag = read_bag(folder / f"{index:02d}.h5")
        assert torch.equal(bag.features, alone[names[index % 3]].features)
    table = pd.read_csv(folder / "extracted.csv", dtype={"slide": str})
    assert table["slide"].tolist() == [f"{index:02d}" for index in range(12)]  # no row was lost
    assert set(table["status"]) == {"done"}


def test_the_account_keeps_the_newest_word_on_each_slide(tmp_path: Path) -> None:
    for one in (
        Extracted("b", "failed", error='broken, "cut short"'),
        Extracted("a", "done", 12, 1.5, 3.25456),
        Extracted("a", "already", known=True),
        Extracted("001", "no tissue"),
        Extracted("002", "no tissue", known=True),  # by a run that was killed before it could say so
        Extracted("NA", "failed", error="first"),
        Extracted("NA", "failed", error="second"),
        Extracted("b", "done", 7, 0.5, 2.00123),
    ):
        write_account(one, tmp_path)
    table = pd.read_csv(tmp_path / "extracted.csv", dtype={"slide": str, "error": str}, keep_default_na=False)
    assert table[["slide", "status", "tiles"]].values.tolist() == [
        ["001", "no tissue", 0],
        ["002", "no tissue", 0],
        ["NA", "failed", 0],
        ["a", "done", 12],
        ["b", "done", 7],
    ]
    assert table["seconds"].tolist() == [0.0, 0.0, 0.0, 3.25, 2.0]


def test_work_that_another_process_had_is_looked_at_again_at_the_end(
    slides: dict[str, Path], script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def extract(slide: Path, *given: object) -> Extracted:
        asked.append(slide.stem)
        return Extracted(slide.stem, "elsewhere" if slide.stem == "0002" or asked == ["0001"] else "done")

    monkeypatch.setattr(extract_many, "extract_slide", extract)
    found = list(extract_here(list(slides.values()), tmp_path, {"name": str(script)}, SETTINGS))
    assert asked == ["0001", "0002", "0003", "0001", "0002"]
    assert [(one.slide, one.status) for one in found] == [("0003", "done"), ("0001", "done"), ("0002", "elsewhere")]


def test_a_refusal_leaves_the_account_of_what_is_there(slides: dict[str, Path], script: Path, tmp_path: Path) -> None:
    folder = features_folder(tmp_path, "colour", SETTINGS)
    for settings, status in ((SETTINGS, "done"), (replace(SETTINGS, precision="bfloat16"), "failed")):
        [found] = extract_here([slides["0001"]], tmp_path, {"name": str(script)}, settings)
        assert found.status == status
        write_account(found, folder)
    assert pd.read_csv(folder / "extracted.csv")["status"].tolist() == ["done"]


def test_a_full_disk_ends_the_run(
    slides: dict[str, Path], script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(extract_one, "write_features", full)
    with pytest.raises(ConfigError, match=r"cannot be written \(\[Errno 28\].*Finished slides are kept"):
        list(extract_here(list(slides.values()), tmp_path, {"name": str(script)}, SETTINGS))


def test_the_outline_of_another_slide_is_replaced(slides: dict[str, Path], encoder: Encoder, tmp_path: Path) -> None:
    """Unlike one that was corrected by hand."""
    outlines = []
    for name in ("0001", "0002"):
        slide = Path(shutil.copy(slides[name], tmp_path / "HE.tif"))
        (features_folder(tmp_path, "colour", SETTINGS) / "HE.h5").unlink(missing_ok=True)
        assert extract_slide(slide, tmp_path, encoder, SETTINGS).status == "done"
        outlines.append((tmp_path / "contours_geojson" / "HE.geojson").read_text())
        fresh = extract_slide(slide, tmp_path / name, encoder, SETTINGS)
        assert fresh.status == "done"
        assert outlines[-1] == (tmp_path / name / "contours_geojson" / "HE.geojson").read_text()
    assert outlines[0] != outlines[1]


def test_an_outline_that_changed_in_the_middle_is_noticed(
    slides: dict[str, Path], encoder: Encoder, tmp_path: Path
) -> None:
    far = [[1e6 + i, 1e6 + i * i % 977] for i in range(12_000)]  # beyond the slide, and long
    square = [[256, 256], [768, 256], [768, 768], [256, 768]]

    def drawn(shift: int) -> ExtractSettings:
        moved = [[x + shift, y] for x, y in square]
        shapes = [[far], [moved], [far]]
        (tmp_path / "0001.geojson").write_text(json.dumps({"type": "MultiPolygon", "coordinates": shapes}))
        return replace(SETTINGS, masks=tmp_path / "0001.geojson", tiles=TileSpec(drawn=True))

    assert extract_slide(slides["0001"], tmp_path, encoder, drawn(0)).status == "done"
    again = extract_slide(slides["0001"], tmp_path, encoder, drawn(100))
    assert "made with other outlines of the tissue" in str(again.error)
