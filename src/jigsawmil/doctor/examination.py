"""All that is found, as tables, and what follows from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..nn.verify import PARTS
from ..report.tables import Column, Table
from ..train.devices import pick_device, pick_precision
from ..version import fitting_hints
from .facts import Fact
from .kernels import NEIGHBOURS, SIDE, WIDTH, Kernel, examine_kernels
from .machine import machine_facts
from .software import encoder_notes, encoder_rows, software_facts


@dataclass(frozen=True)
class Examination:
    """What was found on a machine. tables: its parts, software, encoders, kernels. faults: what is wrong with a kernel.
    verdict: what will be used."""

    tables: Sequence[Table]
    faults: Sequence[str]
    verdict: str

    @property
    def right(self) -> bool:
        """Whether every kernel gives the right answer on every device of this machine."""
        return not self.faults


def examine(folder: str | Path = ".") -> Examination:
    """Examine this machine; takes some seconds on a CPU, a minute if a GPU's kernels are compiled for the first time.

    folder: the disk that is measured.

    Example: `examine("features").right`
    """
    kernels = examine_kernels()
    tables = [
        _facts("Machine", machine_facts(Path(folder))),
        _facts("Software", software_facts()),
        encoder_table(),
        kernel_table(kernels),
    ]
    faults = [f"{one.backend.words} on {one.device}: {one.fault}" for one in kernels if not one.right]
    return Examination(tables, faults, verdict(kernels))


def verdict(kernels: Sequence[Kernel]) -> str:
    """What runs a model if nobody says otherwise."""
    device = pick_device("auto")
    name = f"{device.type}:{device.index or 0}" if device.type == "cuda" else "cpu"
    used = [one for one in kernels if one.used and one.device == name]
    words = f"--device auto is {name}, with {used[0].backend.words}"
    if not all(one.right for one in used):
        return f"{words}, which are wrong here: trust no result of this device, and report what stands above."
    return f"{words}; --precision auto selects {pick_precision('auto', device)} on this device."


def kernel_table(kernels: Sequence[Kernel]) -> Table:
    columns = [
        Column("device", [one.device for one in kernels], name=True),
        Column("by", [one.backend.name for one in kernels], name=True),
        Column("precision", [one.precision for one in kernels], name=True),
        *(Column(f"error of\n{part}", [_error(one, part) for one in kernels]) for part in PARTS),
        Column("ms", [f"{one.milliseconds:.1f}" for one in kernels]),
        Column(
            "right", ["yes" if one.right else "NO" for one in kernels], bold=tuple(not one.right for one in kernels)
        ),
        Column("used", ["yes" if one.used else "" for one in kernels]),
    ]
    notes = [
        "Errors are relative to the largest value, against a loop in float64, on small graphs of odd shapes.",
        f"ms: attention and its gradients on {SIDE * SIDE:,} patches, k = {NEIGHBOURS}, width {WIDTH}.",
    ]
    return Table("Kernels", columns, notes)


def encoder_table() -> Table:
    names, libraries, weights, access = map(list, zip(*encoder_rows(), strict=True))
    columns = [
        Column("encoder", names, name=True),
        Column("library", libraries, name=True),
        Column("weights", weights, name=True),
        Column("access", access, name=True),
    ]
    return Table("Encoders", columns, [fitting_hints(note) for note in encoder_notes()])


def _facts(title: str, facts: Sequence[Fact]) -> Table:
    columns = [
        Column("what", [fact.what for fact in facts], name=True),
        Column("found", [fact.found for fact in facts], name=True),
        Column("remark", [fitting_hints(fact.note) for fact in facts], name=True),
    ]
    return Table(title, columns)


def _error(kernel: Kernel, part: str) -> str:
    error = kernel.errors[part]
    return "fails" if error != error else f"{error:.0e}"
