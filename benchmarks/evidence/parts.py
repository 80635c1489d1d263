"""The parts of `make evidence`, in the order in which they run."""

from dataclasses import dataclass

from jigsawmil.train.config import AUTO
from jigsawmil.train.devices import pick_device, pick_precision

from .. import ROOT

BUDGET = 120  # minutes


@dataclass(frozen=True)
class Part:
    """A command that ends in one file of results. minutes: from nothing, on two idle cores. data: what it has to find.

    module: of the command, where it is not the name. half_precision: compares it, so the device has to compute in it.
    """

    name: str
    arguments: tuple[str, ...]
    minutes: int
    data: str = "benchmarks"
    module: str = ""
    half_precision: bool = False

    @property
    def command(self) -> tuple[str, ...]:
        return (f"benchmarks.evidence.{self.module or self.name}", *self.arguments)

    @property
    def absent(self) -> str:
        """What is not there, or nothing."""
        script = f"benchmarks/evidence/{self.module or self.name}.py"
        if not (ROOT / script).is_file():
            return script
        if self.half_precision and pick_precision(AUTO, pick_device(AUTO)) == "float32":
            return "a device that computes in bfloat16"
        return "" if (ROOT / self.data).exists() else self.data


TWO = ("--processes", "2")
PARTS = (
    Part("unseen", TWO, 8),
    Part("jigsaw_cases", TWO, 25),
    Part("learning_curve", TWO, 12),
    Part("presets", TWO, 10),
    Part("small_cohorts", TWO, 55),
    Part("smoothing", (), 1),
    Part("selection_bias", (), 20),
    Part("choosing", (), 10),
    Part("crc_codex", (), 20, data="../shared/data/crc_codex"),
    Part("lung", (), 30, data="../shared/data/lung_mif"),
    Part("rivals", TWO, 50),
    Part("ensembles-develop", ("--part", "develop", *TWO), 30, module="ensembles"),
    Part("ensembles-report", ("--part", "report", *TWO), 25, module="ensembles"),
    Part("precision", TWO, 40, half_precision=True),
    Part("maps", ("--add",), 15),
    Part("standins", TWO, 210),
)
