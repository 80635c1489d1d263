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
signatures = importlib.import_module("tools.signatures")
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


def test_the_pages_say_what_the_source_says() -> None:
    pages = api_page.pages()
    assert set(pages) == {path for path in DOCUMENTS if re.fullmatch(r"api(-\w+)?\.md", path.name)}
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, "run `python -m tools.api_page`"


def test_every_public_function_and_class_has_one_entry_with_all_its_parameters() -> None:
    text = "".join(api_page.pages().values())
    everything = {name: value for names in api_page.names().values() for name, value in names.items()}
    for name, value in everything.items():
        if not api_page.described(value):
            continue
        assert text.count(f"\n### `{name}`\n") == 1, name
        entry = text.split(f"\n### `{name}`\n")[1].split("\n### `")[0]
        given = inspect.signature(value).parameters if inspect.isfunction(value) else fields(value)
        for parameter in given:
            assert re.search(rf"\b{parameter}\b", entry), f"{name}: {parameter}"
        doc = (inspect.getdoc(value) or "").split("\n")[0]
        assert doc.startswith(f"{name}(") or re.split(r"[<*`]|Example:", doc)[0].strip() in entry


def fields(value: type) -> list[str]:
    names = getattr(value, "_fields", None) or getattr(value, "__dataclass_fields__", {})
    bases = {
        base
        for some in api_page.names().values()
        for base in some.values()
        if inspect.isclass(base) and base in value.__mro__[1:]
    }
    elsewhere = {name for base in bases for name in getattr(base, "__dataclass_fields__", {})}
    return [name for name in names if name[0] != "_" and name not in elsewhere]


@pytest.mark.parametrize("name", PUBLIC)
def test_docstrings_begin_with_what_a_thing_is_not_with_its_arguments(name: str) -> None:
    for each, value in api_page.names()[name].items():
        if api_page.described(value):
            assert not re.match(r"[a-z]\w*(, \w+)*: ", inspect.getdoc(value) or ""), f"{name}.{each}"


def stub(source: str) -> str:
    node = ast.parse(source).body[0]
    assert isinstance(node, ast.FunctionDef)
    return signatures.function_code(node, "def f", {"TEN": 10, "THING": object()})


def test_a_signature_has_types_and_the_values_of_defaults() -> None:
    assert stub("def f(a: 'Bag', /, b: int = TEN, *c: str, d=THING, **e: Any) -> None: pass") == (
        "def f(a: Bag, /, b: int = 10, *c: str, d = THING, **e: Any) -> None: ..."
    )
    assert stub("def f(a, *, b: str | None = None): pass") == "def f(a, *, b: str | None = None): ..."
    long = ", ".join(f"parameter_{i}: int = {i}" for i in range(6))
    assert stub(f"def f({long}) -> int: pass").splitlines()[1] == "    parameter_0: int = 0,"


def test_a_docstring_is_split_from_its_example_and_is_no_markup() -> None:
    doc = "Take a < b.\n\n    h = W * x\n\nOf `a<b>`.\n\nExample: `f(\n  1)`"
    assert signatures.parts_of(doc) == ("Take a \\< b.\n\n```text\nh = W * x\n```\n\nOf `a<b>`.", "f( 1)")
    assert signatures.parts_of("Do.\n\nExample:\n\n    x = 1\n    f(x)") == ("Do.", "x = 1\nf(x)")
