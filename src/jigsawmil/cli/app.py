"""The program: its verbs, each imported when it is asked for, and how mistakes in the input are reported."""

import ast
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command_from_info, get_command_name

from ..errors import JigsawmilError
from .verb import Verb, plain

# Verbs in the order of work, as --help shows them, and the module of each: only the one asked for is imported.
VERBS = {
    "demo": "starting",
    "init": "starting",
    "labels": "recipes",
    "tissue": "slides",
    "extract": "extract",
    "encoders": "extract",
    "check": "cohorts",
    "patches": "cohorts",
    "join": "cohorts",
    "compare": "studies",
    "study": "studies",
    "compare-runs": "validation",
    "report": "reports",
    "view": "view",
    "heatmap": "maps",
    "export": "maps",
    "faithfulness": "maps",
    "train": "models",
    "predict": "models",
    "validate": "validation",
    "phantom": "cohorts",
    "paint": "slides",
    "doctor": "doctor",
}
SYNTHETIC = ("phantom", "paint")  # a panel of their own in --help


class Verbs(TyperGroup):
    """The verbs; mistakes in the input are printed without a traceback. Exit codes: 1 input, 2 usage, 130 Ctrl-C."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = {
            name: Verb(name=name, rich_help_panel="Synthetic data" if name in SYNTHETIC else None) for name in VERBS
        }  # as long as nobody asks for more

    def get_params(self, ctx: Any) -> list[Any]:
        return plain(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in VERBS:
            self.commands[args[0]] = load_verb(args[0])
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for name, words in verb_helps().items():
            self.commands[name].help = words
        super().format_help(ctx, formatter)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except JigsawmilError as error:
            _stop(str(error), 1)
        except RecursionError:
            _stop(
                "A JSON file is nested too deeply to be read; no known tool writes such a file. Check the JSON files "
                "that you gave.",
                1,
            )
        except KeyboardInterrupt:
            _stop("Stopped. Run the same command again to resume.", 130, error=False)
        except BrokenPipeError:  # `jigsawmil check ... | head`
            raise
        except OSError as error:  # a disk that is full, a file that may not be read
            _stop(str(error), 1)


def load_verb(name: str) -> Any:
    """The verb as Typer makes it of its function."""
    import_module(f".{VERBS[name]}", __package__)
    for info in app.registered_commands:
        assert info.callback is not None
        if (info.name or get_command_name(info.callback.__name__)) == name:
            info.cls = Verb
            return get_command_from_info(info, pretty_exceptions_short=False, rich_markup_mode=MARKUP)
    raise LookupError(f"cli/{VERBS[name]}.py has no verb {name}")


def verb_helps() -> dict[str, str]:
    """The docstring of every verb, read from the source: importing all of them takes seconds."""
    found: dict[str, str] = {}
    for module in set(VERBS.values()):
        source = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
        for function in ast.parse(source).body:
            for call in getattr(function, "decorator_list", ()):
                if isinstance(function, ast.FunctionDef) and ast.unparse(call).startswith("app.command("):
                    named = {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg == "name"}
                    found[named.get("name", function.name)] = ast.get_docstring(function) or ""
    return found


def _stop(words: str, code: int, error: bool = True) -> NoReturn:
    from rich.markup import escape

    from ..version import fitting_hints
    from .screen import console

    title = "[bold red]Error:[/] " if error else ""
    console(stderr=True).print(f"{title}{escape(fitting_hints(words))}", highlight=False, soft_wrap=True)
    raise typer.Exit(code)


MARKUP: Any = "markdown"
app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=MARKUP,
    help="Slide-level classifiers that use the position of every patch. Start with `jigsawmil demo`.",
)


def _show_version(asked: bool) -> None:
    if asked:
        from ..version import __version__

        typer.echo(f"jigsawmil {__version__}")
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """A callback makes Typer expect verbs, though none is imported yet."""
