"""`report`: the page of a real run, and a study file in it that asks for that run again."""

import html
import re
import shutil
from pathlib import Path


def test_the_page_is_where_it_was_asked_for(jigsawmil, finished, tmp_path: Path) -> None:
    ran = jigsawmil("report", finished[0], "--out", tmp_path / "new" / "page.html")
    assert ran.code == 0, ran.err
    assert str(tmp_path / "new" / "page.html") in ran.out
    page = (tmp_path / "new" / "page.html").read_text()
    assert page.count("<h1>") == 1
    assert "Synthetic cohort" in page
    assert page.count("<tr>") > 15
    assert not (finished[0] / "report.html").exists()


def test_the_study_file_of_the_page_asks_for_the_run_it_is_about(jigsawmil, finished, tmp_path: Path) -> None:
    """Run upon a copy of the run it finds every job done: settings, folds and cohort are the same."""
    run = shutil.copytree(finished[0], tmp_path / "run")
    assert jigsawmil("report", run).code == 0  # into the run, where nothing else is said
    first, *_ = re.findall(r"<pre>(.*?)</pre>", (run / "report.html").read_text(), re.DOTALL)
    (tmp_path / "study.toml").write_text(html.unescape(first))
    before = {file: file.stat().st_mtime_ns for file in run.glob("jobs/*/*/*/job.json")}
    ran = jigsawmil("study", tmp_path / "study.toml", "--out", run)
    assert ran.code == 0, ran.err
    assert {file: file.stat().st_mtime_ns for file in run.glob("jobs/*/*/*/job.json")} == before
    assert len(before) == 6
    changed = html.unescape(first).replace("k = 6", "k = 5")
    assert changed != html.unescape(first)
    (tmp_path / "study.toml").write_text(changed)
    refused = jigsawmil("study", tmp_path / "study.toml", "--out", run)
    assert refused.code == 1
    assert "k was 6, is 5" in refused.err


def test_what_is_no_run_is_told_without_a_traceback(jigsawmil, tmp_path: Path) -> None:
    ran = jigsawmil("report", tmp_path)
    assert ran.code == 1
    assert "no study.json in it" in " ".join(ran.err.split())
    assert "Traceback" not in ran.err
