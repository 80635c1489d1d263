"""Data flows one way through the folders: each imports only from its left."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "src" / "jigsawmil"
ARROW = [
    *("bags", "slides", "statistics", "tasks", "cohort", "synthetic"),
    *("graph_config", "graph_kernels", "graph", "nn", "train", "maps", "study", "cluster", "report", "viewer"),
    "doctor",
]
GROUND = {"errors", "files", "config", "drawing", "lazy", "registry", "version"}  # may import errors and files only
OUTSIDE = {"cli", "__init__", "__main__"}  # above everything


def imports_of(file: Path) -> set[str]:
    """Top-level parts of jigsawmil that a file imports."""
    found = set()
    depth = len(file.relative_to(PACKAGE).parts)
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".")
            if node.level == 0 and module[0] == "jigsawmil":
                found |= {module[1]} if len(module) > 1 else {alias.name for alias in node.names}
            elif node.level == depth:  # relative to the package's root
                found |= {module[0]} if module[0] else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "jigsawmil":
                    found.add(parts[1] if len(parts) > 1 else "__init__")
    return found


def part_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_every_part_has_a_place_on_the_arrow() -> None:
    parts = {part_of(file) for file in PACKAGE.rglob("*.py")}
    assert parts <= {*ARROW, *GROUND, *OUTSIDE}


def test_imports_point_left() -> None:
    wrong = []
    for file in PACKAGE.rglob("*.py"):
        part = part_of(file)
        if part in OUTSIDE:
            continue
        allowed = {part, *GROUND} if part in ARROW else {"errors", "files"}
        if part in ARROW:
            allowed |= set(ARROW[: ARROW.index(part)])
        wrong += [f"{file.relative_to(PACKAGE)} imports {name}" for name in sorted(imports_of(file) - allowed)]
    assert not wrong, "\n".join(wrong)


def test_the_check_sees_a_wrong_import(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    (tmp_path / "nn").mkdir()
    file = tmp_path / "nn" / "bad.py"
    file.write_text("from ..study import run\nfrom . import kernels\nimport jigsawmil.report.page\n")
    assert imports_of(file) == {"study", "report"}


def test_only_cluster_and_the_entry_points_know_ray() -> None:
    """Ray is optional. `cli` may join a cluster: it is where `extract` and studies are started from."""
    wrong = []
    for file in PACKAGE.rglob("*.py"):
        if part_of(file) in ("cluster", "cli"):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            named = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            named += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if any(name.split(".")[0] == "ray" for name in named):
                wrong.append(f"{file.relative_to(PACKAGE)} imports ray")
        if "cluster" in imports_of(file):
            wrong.append(f"{file.relative_to(PACKAGE)} imports cluster")
    assert not wrong, "\n".join(wrong)


def test_the_command_line_is_thin() -> None:
    """It parses, calls and prints; what is longer belongs into the library."""
    long = {file.name: n for file in (PACKAGE / "cli").glob("*.py") if (n := len(file.read_text().splitlines())) > 200}
    assert not long
