"""What the documentation site adds to docs/: the tutorial notebook, and the pages beside docs/.

`mkdocs.yml` calls this module as a hook. Links between documents stay as they are on disk; those that leave docs/ lead
to the pages that are brought in, or are shown as plain text.
"""

import json
import re
from pathlib import Path
from typing import Any

from . import ROOT

BESIDE = {  # documents outside docs/ that the site shows
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "studies/README.md": "paper-studies.md",
    "benchmarks/README.md": "benchmarks.md",
}
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s:#]+)(#[^)\s]*)?\)")


def slug(heading: str, separator: str) -> str:
    """An anchor as GitHub makes it, so that links work in both places."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", separator)


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    pages = {to: linked((ROOT / name).read_text(encoding="utf-8"), ROOT / name) for name, to in BESIDE.items()}
    pages["tutorial.md"] = notebook_page(ROOT / "docs" / "tutorial.ipynb")
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    own = page.file.abs_src_path
    return linked(markdown, Path(own)) if own and (ROOT / "docs") in Path(own).parents else markdown


def linked(text: str, file: Path) -> str:
    """A document whose links lead to pages of the site; what has no page is named without a link."""

    def lead(found: re.Match[str]) -> str:
        words, target, anchor = found[1], found[2], found[3] or ""
        there = (file.parent / target).resolve()
        if not there.exists():
            return found[0]  # mkdocs says that it is broken
        name = there.relative_to(ROOT).as_posix()
        if name == "docs/tutorial.ipynb":
            return f"[{words}](tutorial.md{anchor})"
        if name in BESIDE:
            return f"[{words}]({BESIDE[name]}{anchor})"
        if name.startswith("docs/"):
            return f"[{words}]({name.removeprefix('docs/')}{anchor})"
        return f"[{words}](index.md)" if name == "README.md" else words

    return LINK.sub(lead, text)


def notebook_page(path: Path) -> str:
    """A notebook as a page: its text, its code, and what the code printed when it was last run."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        if printed := "".join(line for output in cell["outputs"] for line in output["text"]):
            parts.append(f"```text\n{printed.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"
