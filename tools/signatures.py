"""Signatures and docstrings of public names as Markdown, with types and defaults as they stand in the source."""

import ast
import inspect
import io
import re
import sys
import textwrap
import tokenize
from collections.abc import Collection, Iterator, Mapping
from typing import Any

WIDTH = 78  # of code on a page
PLAIN = (int, float, str, type(None))
SETTINGS = re.compile(r"^Parameters\n-+\n(?:.+\n?)*", re.M)  # what `settings_doc` writes for help()
ATTRIBUTES = ("field", "setting")  # calls that give a field its default


def entry(name: str, value: Any, public: Collection[Any]) -> str:
    """A public function or class: its signature, its docstring, its example, and the methods of a class.

    public: all public objects. A base class that is none of them is not described elsewhere: its part is shown here.
    """
    node, _ = definition(value)
    doc, example = parts_of(own_doc(value))
    is_function = isinstance(node, ast.FunctionDef)
    code = function_code(node, f"def {name}", names_of(value)) if is_function else class_code(value, public)
    blocks = [f"### `{name}`", fenced(code, "a signature"), doc, fenced(example, "an example") if example else ""]
    if isinstance(node, ast.ClassDef):
        found = {each.name: each for base in reversed(lineage(value, public)) for each in public_methods(base)}
        blocks.append(methods(name, found.values(), names_of(value)))
    return "\n\n".join(filter(None, blocks))


def own_doc(value: Any) -> str:
    """Not what Python writes for a NamedTuple or a dataclass without a docstring."""
    doc = inspect.getdoc(value) or ""
    return "" if doc.startswith(f"{value.__name__}(") else doc


def lineage(value: type, public: Collection[Any]) -> list[type]:
    """A class and those of its bases that are described nowhere else, itself first."""
    bases = [base for base in value.__mro__[1:] if base.__module__.startswith("jigsawmil") and base not in public]
    return [value, *bases]


def definition(value: Any) -> tuple[ast.ClassDef | ast.FunctionDef, dict[int, str]]:
    """The definition, and its comments by line."""
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(value)))
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    node = ast.parse(source).body[0]
    assert isinstance(node, ast.ClassDef | ast.FunctionDef), node
    return node, comments


def function_code(node: ast.FunctionDef, start: str, known: Mapping[str, Any]) -> str:
    """A stub: parameters with types and defaults, and what is returned; one parameter per line if it is long."""
    given = list(parameters(node.args, known))
    end = (f" -> {plain_type(node.returns)}" if node.returns else "") + ": ..."
    line = f"{start}({', '.join(given)}){end}"
    if len(line) <= WIDTH or not given:
        return line
    return "\n".join([f"{start}(", *(f"    {each}," for each in given), f"){end}"])


def parameters(args: ast.arguments, known: Mapping[str, Any]) -> Iterator[str]:
    """known: names that defaults may stand for."""
    plain = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(plain) - len(args.defaults)) + list(args.defaults)
    for number, (arg, default) in enumerate(zip(plain, defaults, strict=True)):
        yield parameter(arg, default, known)
        if number == len(args.posonlyargs) - 1:
            yield "/"
    if args.vararg:
        yield f"*{parameter(args.vararg, None, known)}"
    elif args.kwonlyargs:
        yield "*"
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        yield parameter(arg, default, known)
    if args.kwarg:
        yield f"**{parameter(args.kwarg, None, known)}"


def parameter(arg: ast.arg, default: ast.expr | None, known: Mapping[str, Any]) -> str:
    words = f"{arg.arg}: {plain_type(arg.annotation)}" if arg.annotation else arg.arg
    return words if default is None else f"{words} = {written(default, known)}"


def written(default: ast.expr, known: Mapping[str, Any]) -> str:
    """A default as it stands, or the number or text that a name stands for."""
    words = ast.unparse(default)
    try:
        value = eval(words, dict(known))
    except Exception:  # of a class that is not made yet
        return words
    return repr(value) if isinstance(value, PLAIN) else words


def names_of(value: Any) -> Mapping[str, Any]:
    """The names that its source knows."""
    found = vars(sys.modules[inspect.unwrap(value).__module__])
    return {**vars(value), **found} if inspect.isclass(value) else found


def plain_type(annotation: ast.expr) -> str:
    """Without the quotation marks of a forward reference."""
    is_text = isinstance(annotation, ast.Constant) and isinstance(annotation.value, str)
    return annotation.value if is_text else ast.unparse(annotation)  # type: ignore[attr-defined]


def class_code(value: type, public: Collection[Any]) -> str:
    """A stub: the bases and the fields, with their remarks, or what it is made from."""
    node, _ = definition(value)
    bases = [ast.unparse(base) for base in getattr(node, "bases", ())]
    hidden = {base.__name__ for base in lineage(value, public)}
    bases = [base for base in bases if base.split("[")[0] not in hidden]
    made = [f"@{words}\n" for each in node.decorator_list if (words := ast.unparse(each)).startswith("dataclass")]
    start = f"{''.join(made)}class {value.__name__}" + (f"({', '.join(bases)})" if bases else "")
    lines: dict[str, list[str]] = {}
    for base in reversed(lineage(value, public)):
        own, comments = definition(base)
        for each in getattr(own, "body", ()):
            if isinstance(each, ast.AnnAssign):
                lines[ast.unparse(each.target)] = list(field_lines(each, comments, names_of(base)))
            elif isinstance(each, ast.FunctionDef) and each.name == "__init__":
                lines["__init__"] = [textwrap.indent(function_code(each, "def __init__", names_of(base)), "    ")]
    body = [line for some in lines.values() for line in some]
    return "\n".join([f"{start}:", *body]) if body else f"{start}: ..."


def field_lines(node: ast.AnnAssign, comments: Mapping[int, str], known: Mapping[str, Any]) -> Iterator[str]:
    """A field with its default; its remark behind it, or above it if it is long."""
    name = ast.unparse(node.target)
    if name.startswith("_"):
        return
    default, help_ = default_of(node.value, known)
    line = f"    {name}: {plain_type(node.annotation)}" + (f" = {default}" if default else "")
    remark = help_ or comments.get(node.end_lineno or 0, "")
    if not remark or len(line) + len(remark) + 4 <= WIDTH:
        yield f"{line}  # {remark}" if remark else line
    else:
        yield from textwrap.wrap(remark, WIDTH - 6, initial_indent="    # ", subsequent_indent="    # ")
        yield line


def default_of(value: ast.expr | None, known: Mapping[str, Any]) -> tuple[str, str]:
    """The default of a field, and the help of a setting."""
    if not (isinstance(value, ast.Call) and ast.unparse(value.func) in ATTRIBUTES):
        return ("" if value is None else written(value, known)), ""
    if ast.unparse(value.func) == "setting":
        help_ = value.args[1] if len(value.args) > 1 else None
        words = help_.value if isinstance(help_, ast.Constant) else ""
        return written(value.args[0], known), " ".join(str(words).split())
    named = {word.arg: word.value for word in value.keywords}
    if "default_factory" in named:
        made = ast.unparse(named["default_factory"])
        return {"dict": "{}", "list": "[]", "tuple": "()"}.get(made, f"{made}()"), ""
    return (written(named["default"], known), "") if "default" in named else ("", "")


def public_methods(value: type) -> Iterator[ast.FunctionDef]:
    for each in getattr(definition(value)[0], "body", ()):
        if isinstance(each, ast.FunctionDef) and each.name[0] != "_":
            yield each


def methods(name: str, nodes: Collection[ast.FunctionDef], known: Mapping[str, Any]) -> str:
    """Short ones as points of a list, then the others with a signature of their own."""
    short, long = [], []
    for node in nodes:
        doc, example = parts_of(ast.get_docstring(node) or "")
        given = list(parameters(node.args, known))[0 if is_static(node) else 1 :]
        returns = f" -> {plain_type(node.returns)}" if node.returns else ""
        call = f"{node.name}{returns}" if is_property(node) else f"{node.name}({', '.join(given)}){returns}"
        if len(call) <= WIDTH and not example and "\n\n" not in doc:
            short.append(f"- `{call}`" + (f": {' '.join(doc.split())}" if doc else ""))
        else:
            start = "".join(f"@{ast.unparse(each)}\n" for each in node.decorator_list) + f"def {node.name}"
            code = fenced(function_code(node, start, known), "a signature")
            long += [f"**`{name}.{node.name}`**", code, doc, fenced(example, "an example") if example else ""]
    return "\n\n".join(filter(None, ["\n".join(short), *long]))


def is_property(node: ast.FunctionDef) -> bool:
    return any("property" in ast.unparse(each) for each in node.decorator_list)


def is_static(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(each) == "staticmethod" for each in node.decorator_list)


def parts_of(doc: str) -> tuple[str, str]:
    """A docstring as Markdown without its example, and the example as code. The settings have a page of their own."""
    doc = SETTINGS.sub("Every setting, its default and its meaning: [settings](settings.md).\n", doc)
    text, _, example = doc.partition("Example:")
    code = " ".join(example.strip().strip("`").split()) if "`" in example else inspect.cleandoc(example)
    return markdown(text.strip()), code


def markdown(text: str) -> str:
    """Paragraphs; what is indented is shown as it stands, and nothing in a sentence turns into markup."""
    shown = []
    for part in re.split(r"\n\s*\n", text):
        if part.startswith("    "):
            shown.append(f"```text\n{textwrap.dedent(part)}\n```")
        else:
            shown.append(re.sub(r"(`[^`]*`)|([<*])", lambda found: found[1] or f"\\{found[2]}", part))
    return "\n\n".join(shown)


def fenced(code: str, what: str) -> str:
    """Code that tests read and do not run."""
    return f"<!-- not run: {what} -->\n```python\n{code}\n```"


def first_sentence(value: Any) -> str:
    paragraph = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    return paragraph.split(". ")[0].rstrip(".").replace("|", "\\|") + "."
