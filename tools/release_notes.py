"""The section of one version in CHANGELOG.md, as the notes of its release: `python -m tools.release_notes v0.1.0`."""

import argparse
import re

from . import ROOT

CHANGELOG = ROOT / "CHANGELOG.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tag", help="Tag of the release, such as v0.1.0.")
    print(notes(CHANGELOG.read_text(encoding="utf-8"), parser.parse_args().tag), end="")


def notes(changelog: str, tag: str) -> str:
    """What stands below the heading `## [VERSION]`, links within the repository as plain words."""
    version = tag.removeprefix("v")
    parts = re.split(r"^## \[([^\]]+)\].*\n", changelog, flags=re.M)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    if not (text := sections.get(version, "").strip()):
        raise SystemExit(
            f"CHANGELOG.md: no section ## [{version}] with text; found {', '.join(sections)}. "
            f"Rename [Unreleased] to [{version}] and give the date before the tag is set."
        )
    return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]*\)", r"\1", text) + "\n"


if __name__ == "__main__":
    main()
