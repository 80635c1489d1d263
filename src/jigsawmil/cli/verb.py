"""How the help of a verb reads, and what is said of options that are missing."""

from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperOption


def plain(parameters: list[Any]) -> list[Any]:
    """The same parameters, whose help names no type for a flag, and arguments in capitals."""
    for parameter in parameters:
        if isinstance(parameter, TyperOption) and parameter.is_flag:
            parameter.metavar = ""
        elif isinstance(parameter, TyperArgument) and parameter.metavar is None:
            parameter.metavar = str(parameter.name).upper()
    return parameters


class Verb(TyperCommand):
    """A verb that names all options that are missing, not the first alone."""

    def get_params(self, ctx: Any) -> list[Any]:
        return plain(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        typed = list(args)
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            given, _, _ = self.make_parser(ctx).parse_args(args=typed)
            needed = [option for option in self.params if isinstance(option, TyperOption) and option.required]
            missing = [option for option in needed if option.name not in given]
            if len(missing) > 1 and error.param in missing:
                *names, last = [option.opts[-1] for option in missing]
                ctx.fail(f"Missing options {', '.join(names)} and {last}.")
            raise
