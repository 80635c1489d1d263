"""What the documentation site adds to docs/: a page of all commands, the tutorial notebook, the pages beside docs/.

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
COMMANDS = """# Commands

Made from the program itself: `jigsawmil VERB --help` says the same. `jigsawmil --version` names the version.
`jigsawmil --install-completion` lets the shell complete verbs and options (bash, zsh, fish, PowerShell), and
`--show-completion` prints what it would install. Exit codes: 0; 1 for a mistake in the input; 2 for one in the options;
130 after Ctrl-C.
"""
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s:#]+)(#[^)\s]*)?\)")


def slug(heading: str, separator: str) -> str:
    """An anchor as GitHub makes it, so that links work in both places."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", separator)


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    pages = {to: linked((ROOT / name).read_text(encoding="utf-8"), ROOT / name) for name, to in BESIDE.items()}
    pages["commands.md"] = commands_page()
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


def commands_page() -> str:
    """Every verb with its options, as its --help has them."""
    from jigsawmil.cli.app import SYNTHETIC, VERBS, load_verb

    parts = [COMMANDS]
    for name in VERBS:
        verb = load_verb(name)
        rows = [_row(option) for option in verb.params if option.name != "help"]
        table = f"| option | what | default |\n| --- | --- | --- |\n{''.join(rows)}"
        note = "\n\n*Synthetic data.*" * (name in SYNTHETIC)
        parts.append(f"## {name}\n\n{verb.help}{note}\n\n{table}")
    return "\n".join(parts)


def _row(option: Any) -> str:
    flags = [*option.opts, *option.secondary_opts] if option.param_type_name == "option" else [option.name.upper()]
    default = option.show_default if isinstance(option.show_default, str) else option.default
    shown = "required" if option.required else "" if default in (None, False, (), []) else f"`{default}`"
    words = (option.help or "").replace("|", "\\|").replace("\n", " ")
    return f"| {', '.join(f'`{flag}`' for flag in flags)} | {words} | {shown} |\n"


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
