"""What is printed: nothing in a name commands the terminal, and any terminal can print it."""

import io
import os
import subprocess
import sys

import pytest

from jigsawmil.cli.screen import Screen, printable
from jigsawmil.version import __version__

TITLE = "\x1b]0;owned\x07"  # sets the title of a terminal


@pytest.mark.parametrize("terminal", [True, False])
def test_names_do_not_command_the_terminal(terminal: bool) -> None:
    out = Screen(file=io.StringIO(), color_system="standard" if terminal else None, emoji=False)
    out.print(f"[bold]slide[/] {TITLE}\u202ecod.exe :factory: \x9b2J", highlight=False)
    printed = out.file.getvalue()
    assert TITLE not in printed
    assert "\\x1b]0;owned\\u202ecod.exe :factory: \\x9b2J" in printed
    assert ("\x1b[1m" in printed) == terminal  # our own escapes remain


def test_text_without_commands_stays() -> None:
    text = "Müller\t1\n日本 ± é 👩‍⚕️"
    assert printable(text) == text


def test_hostile_names_in_a_table_are_shown_and_not_obeyed(jigsawmil, cohort, tmp_path) -> None:
    table = tmp_path / "labels.csv"
    table.write_text((cohort / "labels.csv").read_text() + f"{TITLE}9999,{TITLE}p,normal\n")
    ran = jigsawmil("check", "--labels", table, "--features", cohort / "features")
    assert "\x1b" not in ran.out + ran.err
    assert "\\x1b]0;owned9999" in ran.out


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_a_terminal_that_lacks_a_character(encoding: str) -> None:
    code = (
        "from jigsawmil.cli.screen import console, print_anywhere; print_anywhere();"
        "console().print('0.9 ± 0.1, 日本, \\udcff')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONIOENCODING": encoding}, capture_output=True, check=True
    )
    sign = "+-" if encoding == "ascii" else "±"
    names = "日本" if encoding == "utf-8" else "\\u65e5\\u672c"
    assert done.stdout.decode(encoding).strip() == f"0.9 {sign} 0.1, {names}, \\udcff"


def test_the_program_can_be_called_as_a_module() -> None:
    words = [sys.executable, "-m", "jigsawmil", "--version"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == f"jigsawmil {__version__}\n"


def test_help_is_short_of_nothing_and_all_missing_options_are_named(jigsawmil) -> None:
    assert jigsawmil("compare", "-h").out == (helped := jigsawmil("compare", "--help").out)
    assert "<bool>" not in helped
    assert "Usage: jigsawmil labels [OPTIONS] RECIPE" in jigsawmil("labels", "-h").out
    missing = jigsawmil("compare", "--labels", "x")
    assert missing.code == 2
    assert "Missing options --out and --features." in missing.err
    assert "Missing option '--out'" in jigsawmil("compare", "--labels", "x", "--features", "y").err
