"""Colour and dash of each variant, the same in every picture."""

from collections.abc import Iterable

from ...drawing import DASHES, SPARE, Dash
from ...nn.options import METHODS

COLOURS = {name: method.colour for name, method in METHODS.items() if method.colour}


def method_styles(methods: Iterable[str]) -> dict[str, tuple[str, Dash]]:
    """Colour and dash of each method, in order of appearance.

    They depend only on which names there are: a method has its own colour, others take what is left, in order of
    their names.
    """
    names = list(dict.fromkeys(methods))
    others = sorted(set(names) - set(COLOURS))
    free = [c for m, c in COLOURS.items() if m not in names]
    palette = [*SPARE[:1], *free, *SPARE[1:]]
    styles: dict[str, tuple[str, Dash]] = {m: (COLOURS[m], DASHES[0]) for m in names if m in COLOURS}
    for i, name in enumerate(others):
        styles[name] = (palette[i % len(palette)], DASHES[i // len(palette) % len(DASHES)])
    return {name: styles[name] for name in names}
