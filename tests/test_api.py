"""The public interface is what `__all__` of these packages names; documents and examples use nothing else."""

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from jigsawmil.lazy import lazy_imports

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # tools/ is not installed with the package
api_page = importlib.import_module("tools.api_page")
PUBLIC = api_page.PUBLIC
DOCUMENTS = (*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md")
EXAMPLES = tuple(sorted((ROOT / "examples").glob("*.py")))


def imported(source: str) -> Iterator[tuple[str, str]]:
    """Module and name of each import from jigsawmil; the name is empty where a module itself is imported."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "jigsawmil":
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.split(".")[0] == "jigsawmil")


def not_public(source: str) -> list[str]:
    return [
        f"{module}: {name}"
        for module, name in imported(source)
        if module not in PUBLIC or (name and name not in importlib.import_module(module).__all__)
    ]


def blocks(document: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", document, re.DOTALL)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there_and_says_what_it_is(name: str) -> None:
    package = importlib.import_module(name)
    assert package.__doc__
    assert len(set(package.__all__)) == len(package.__all__)
    for each in package.__all__:
        value = getattr(package, each)
        assert not isinstance(value, ModuleType), f"{name}.{each} is a module"
        if inspect.isclass(value) or inspect.isfunction(value):
            doc = inspect.getdoc(value) or f"{each}("  # what a NamedTuple has without one
            assert not doc.startswith(f"{each}("), f"{name}.{each} has no docstring"


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_function_has_an_example_that_calls_it(name: str) -> None:
    package = importlib.import_module(name)
    for each in package.__all__:
        if inspect.isfunction(value := getattr(package, each)):
            _, _, example = (inspect.getdoc(value) or "").partition("Example:")
            code = example.strip().strip("`") if "`" in example else inspect.cleandoc(example)
            called = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
            assert each in called, f"{name}.{each}: {code!r}"


@pytest.mark.parametrize("name", PUBLIC)
def test_what_takes_a_path_also_takes_its_text(name: str) -> None:
    package = importlib.import_module(name)
    for each in filter(inspect.isfunction, (getattr(package, each) for each in package.__all__)):
        for key, hint in inspect.get_annotations(each).items():
            said = re.sub(r"Callable\[.*", "", str(hint))  # what a function of the caller's gets is its own affair
            if "Path" in said and key != "return":
                assert "str" in said, f"{name}.{each.__name__}: {key} is {hint}"


@pytest.mark.parametrize("name", PUBLIC)
def test_names_differ_from_modules_which_python_would_find_first(name: str) -> None:
    package = importlib.import_module(name)
    folder = Path(str(package.__file__)).parent
    modules = {path.stem for path in folder.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert not modules & set(package.__all__)


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_imported_on_first_use_is_what_is_public(name: str) -> None:
    package = importlib.import_module(name)
    lazy = lazy_imports(Path(str(package.__file__)).read_text())
    assert not lazy or set(lazy) == set(package.__all__)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_documents_import_public_names_only(path: Path) -> None:
    assert not [wrong for block in blocks(path.read_text()) for wrong in not_public(block)]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_names_within_sentences_are_public(path: Path) -> None:
    for module, name in re.findall(r"`(jigsawmil(?:\.[a-z_]+)*)\.(\w+)(?:\([^`]*\))?`", path.read_text()):
        if f"{module}.{name}" not in PUBLIC:
            assert module in PUBLIC, f"{module}.{name}"
            assert name in importlib.import_module(module).__all__, f"{module}.{name}"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_import_public_names_only(path: Path) -> None:
    assert not not_public(path.read_text())


def test_the_check_sees_what_is_not_public() -> None:
    source = "from jigsawmil.nn.model import Model\nfrom jigsawmil import Bag, nothing\nimport jigsawmil.cli\n"
    assert not_public(source) == ["jigsawmil.nn.model: Model", "jigsawmil: nothing", "jigsawmil.cli: "]
    assert blocks("text\n```python\nx = 1\n```\n```\ny = 2\n```\n") == ["x = 1\n"]


def test_the_page_says_what_the_docstrings_say() -> None:
    assert api_page.PAGE.read_text() == api_page.page(), "run `python -m tools.api_page`"
