"""docs/commands.md from the program's own parser: `python -m tools.commands_page`. A test holds the page to it."""

from typing import Any

from jigsawmil.cli.app import SYNTHETIC, VERBS, load_verb

from . import ROOT

PAGE = ROOT / "docs" / "commands.md"
HEAD = """# Commands

Written by `python -m tools.commands_page` from the program itself: `jigsawmil VERB --help` says the same.
`jigsawmil --version` names the version. `jigsawmil --install-completion` lets the shell complete verbs and options
(bash, zsh, fish, PowerShell), and `--show-completion` prints what it would install. Exit codes: 0; 1 for a mistake in
the input; 2 for one in the options; 130 after Ctrl-C.

| command | what |
| --- | --- |
"""


def page() -> str:
    """Every verb with its options, as its --help has them."""
    verbs = {name: load_verb(name) for name in VERBS}
    rows = [f"| [`{name}`](#{name}) | {first_line(verb)}{synthetic(name)} |\n" for name, verb in verbs.items()]
    return HEAD + "".join(rows) + "".join(section(name, verb) for name, verb in verbs.items())


def section(name: str, verb: Any) -> str:
    """One verb: what it does with its example, and a table of options for each group of its --help."""
    panels: dict[str, list[Any]] = {}
    for option in verb.params:
        if option.name != "help":
            panels.setdefault(getattr(option, "rich_help_panel", None) or "", []).append(option)
    parts = [f"\n## {name}\n\n{verb.help}\n"]
    for panel in sorted(panels, key=bool):  # the verb's own first
        title = f"{panel}:\n\n" if panel else ""
        parts.append(f"{title}| option | what | default |\n| --- | --- | --- |\n{''.join(map(row, panels[panel]))}")
    return "\n".join(parts)


def first_line(verb: Any) -> str:
    return str(verb.help).split("\n\n")[0].replace("\n", " ").split(". ")[0].rstrip(".:") + "."


def synthetic(name: str) -> str:
    return " (synthetic data)" if name in SYNTHETIC else ""


def row(option: Any) -> str:
    flags = [*option.opts, *option.secondary_opts] if option.param_type_name == "option" else [option.name.upper()]
    default = option.show_default if isinstance(option.show_default, str) else option.default
    shown = "required" if option.required else "" if default in (None, False, (), []) else f"`{default}`"
    words = (option.help or "").replace("|", "\\|").replace("\n", " ")
    return f"| {', '.join(f'`{flag}`' for flag in flags)} | {words} | {shown} |\n"


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
