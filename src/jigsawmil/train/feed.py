"""Slides on their way to the model: read and prepared once, ahead of need, and kept while there is room."""

from collections.abc import Iterator, Sequence

import torch

from ..bags.store import Store, read_ahead
from ..cohort.cohort import Cohort
from ..cohort.covariates import Covariate, cells_of, coded
from ..cohort.labels import group_slides
from ..graph_config import GraphConfig, Raster
from ..nn.batch import Batch
from .devices import pick_device
from .infer import Prepared
from .prepared import Prepare
from .trained_on import TrainedSlide
from .transfer import Transfer


class Feed:
    """Batches of a cohort: patches ordered, graphs built, bins found.

    Prepared slides, not bags, are kept in memory, up to `memory_gb`; what does not fit is kept on disk, from where it
    is mapped in the background each time it is needed (docs/speed.md).

    level: `slide`, or `patient` for one bag of all slides of a patient. shuffle: permute the places of patches within
    each slide (the control for "does place matter?"), from the slide's own name and this seed.
    """

    def __init__(
        self,
        cohort: Cohort,
        graph: GraphConfig | None,
        raster: Raster,
        *,
        memory_gb: float = 4.0,
        level: str = "slide",
        shuffle: int | None = None,
    ) -> None:
        self.cohort = cohort
        # of a method of its own a feed would be freed only now and then, with all its slides, beside the next one's
        prepare = Prepare(cohort, graph, raster, shuffle)
        self._digests = prepare.digests
        self._slides = Store(prepare, memory_gb * 1e9, prepare.spill)
        self._transfers: dict[torch.device, Transfer] = {}  # with the graphs that they keep there
        groups = cohort_groups(cohort, level)
        self.names = [name for name, _ in groups]  # bag -> its slide, or its patient
        self.members = [slides for _, slides in groups]  # bag -> its slides
        first = [slides[0] for slides in self.members]
        self.labels = torch.from_numpy(cohort.labels[first])  # (bag,), or (bag, several)

    def __len__(self) -> int:
        """Number of bags."""
        return len(self.members)

    def bags_of(self, slide_ids: Sequence[str]) -> list[int]:
        """Bags that hold any of these slides, in the order of the cohort; a patient's bag is never cut."""
        wanted = set(slide_ids)
        ids = self.cohort.slide_ids
        return [bag for bag, slides in enumerate(self.members) if any(ids[slide] in wanted for slide in slides)]

    def trained_on(self, slide_ids: Sequence[str]) -> tuple[TrainedSlide, ...]:
        """What a model that is fitted to these slides has seen; slides that were not read yet are read."""
        wanted, found = set(slide_ids), []
        for index, slide in enumerate(self.cohort.slides):
            if slide.slide_id in wanted:
                digest = self._digests.get(index) or self.cohort.digest(index)
                self._digests[index] = digest
                found.append(TrainedSlide(slide.slide_id, slide.patient_id, slide.patches, digest))
        return tuple(found)

    def covariates(self, bags: Sequence[int], columns: Sequence[Covariate]) -> torch.Tensor:
        """(bag, column), as `CovariateCode` takes them, without reading slides."""
        slides = [self.cohort.slides[self.members[bag][0]] for bag in bags]
        rows = [coded(columns, cells_of(columns, self.cohort.known_of(slide), slide.slide_id)) for slide in slides]
        return torch.tensor(rows, dtype=torch.float64)

    def batch(self, bags: Sequence[int]) -> Batch:
        return Batch.cat(self.parts(bags))

    def parts(self, bags: Sequence[int]) -> list[Batch]:
        """A batch for each bag."""
        whole = len(self.members) < len(self.cohort)
        parts = []
        for bag in bags:
            part = Batch.cat([self._slides.get(slide) for slide in self.members[bag]])
            parts.append(part.as_one_bag() if whole else part)
        return parts

    def stream(self, batches: Sequence[Sequence[int]], device: torch.device | str = "cpu") -> Iterator[Batch]:
        """Batches in order, the next ones prepared in one background thread; leaving early ends the thread.

        device: if it is a GPU, they come on it.
        """
        device = pick_device(str(device))
        if device.type != "cuda":
            return read_ahead(self.batch, batches)
        if device not in self._transfers:
            self._transfers[device] = Transfer(device)
        return self._transfers[device].batches(batches, read_ahead(self.parts, batches))

    def prepared(self, bags: Sequence[int], device: str = "cpu") -> Iterator[Prepared]:
        """Bags one by one, for `run_model` on this device."""
        batches = self.stream([[bag] for bag in bags], device)
        return (Prepared(self.names[bag], (batch,)) for bag, batch in zip(bags, batches, strict=True))


def cohort_groups(cohort: Cohort, level: str) -> list[tuple[str, list[int]]]:
    """Name and slides of each bag: one slide, or all of a patient."""
    return group_slides([str(name) for name in cohort.slide_ids], level, [str(name) for name in cohort.patients])
