"""Tables of parts by name: a new part is a file in the table's folder, or a class registered from anywhere."""

import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TypeVar

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """Parts of one kind by name.

    The files of the table's package are parts (`em_per_slide.py` holds "em-per-slide"; files that begin with an
    underscore do not count). A file is imported when its part is asked for, so listing the names costs nothing. Each
    registers its class, and so may any other code before the name is used:

        @CONVS.register("mine")
        class Mine(Conv): ...
    """

    def __init__(self, package: str = "", path: Sequence[str] = ()) -> None:
        self._parts: dict[str, T] = {}
        self._files = {
            file.name.replace("_", "-"): f"{package}.{file.name}"
            for file in pkgutil.iter_modules(path)
            if not file.name.startswith("_")
        }

    def register(self, name: str) -> Callable[[T], T]:
        def add(part: T) -> T:
            self._parts[name] = part
            return part

        return add

    def __getitem__(self, name: str) -> T:
        if name not in self._parts and name in self._files:
            import_module(self._files[name])
        return self._parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._files, *self._parts]))

    def __len__(self) -> int:
        return len({*self._files, *self._parts})
