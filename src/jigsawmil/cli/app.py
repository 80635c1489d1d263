"""The program: what every verb hangs on, and how the input's faults are told."""

from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from ..errors import JigsawmilError

# Verbs in the order of work; --help shows them so.
ORDER = (
    *("demo", "labels", "tissue", "extract", "encoders", "check", "compare", "study", "report", "view"),
    *("heatmap", "export", "faithfulness", "train", "predict", "phantom", "paint"),
)


class Verbs(TyperGroup):
    """The verbs; what is the input's fault is told in plain words. Exit codes: 1 input, 2 usage, 130 Ctrl-C."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=ORDER.index)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except JigsawmilError as error:
            _stop(f"[bold red]Error:[/] {escape(str(error))}", 1)
        except KeyboardInterrupt:
            _stop("Stopped. Run the same command again to go on.", 130)
        except BrokenPipeError:  # `jigsawmil check ... | head`
            raise
        except OSError as error:  # a disk that is full, a file that may not be read
            _stop(f"[bold red]Error:[/] {escape(str(error))}", 1)


def _stop(words: str, code: int) -> NoReturn:
    Console(stderr=True).print(words, highlight=False, soft_wrap=True)
    raise typer.Exit(code)


app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Slide-level classifiers that know where every patch lies. Start with `jigsawmil demo`.",
)
