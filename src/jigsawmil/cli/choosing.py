"""Options of settings that are chosen inside the training patients."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from ..errors import ConfigError
from ..train.choice import Choice
from .options import key_values


@dataclass(frozen=True)
class ChooseOptions:
    """Settings chosen inside the training patients."""

    choose: Annotated[
        list[str] | None,
        typer.Option(
            help="Choose a setting in each fold by inner cross-validation over its training patients: "
            "--choose k=8,24,50 --choose conv=gat,sage. All combinations are tried; docs/choose.md has the rule."
        ),
    ] = None
    choose_folds: Annotated[int, typer.Option(min=2, help="Folds of the inner cross-validation.")] = Choice.folds
    choose_repeats: Annotated[int, typer.Option(min=1, help="Repeats of the inner cross-validation.")] = Choice.repeats
    choose_most: Annotated[int, typer.Option(min=2, help="Maximum number of combinations.")] = Choice.most

    def choice(self) -> Choice | None:
        """None if nothing is chosen."""
        if not self.choose:
            return None
        options: dict[str, list[Any]] = {}
        for pair in self.choose:
            key, sign, text = pair.partition("=")
            values = [value.strip() for value in text.split(",")]
            if not sign or not all(values):
                raise ConfigError(f"--choose {pair}: expected NAME=VALUE,VALUE,..., such as --choose k=8,24,50.")
            options.setdefault(key.strip(), []).extend(key_values([f"v={value}"])["v"] for value in values)
        return Choice(options=options, folds=self.choose_folds, repeats=self.choose_repeats, most=self.choose_most)
