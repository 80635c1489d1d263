"""One slide as the rest of the program sees it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..errors import FeatureError

if TYPE_CHECKING:  # torch takes a second to import, and a look at headers needs none of it
    from torch import Tensor

Unit = Literal["px", "um"]
FARTHEST = 1e12  # of a coordinate: a million times any slide, and squares of distances are still exact enough


@dataclass(frozen=True, kw_only=True)
class Bag:
    """Patches of one slide.

    coords: top-left corners, (x, y), in level-0 pixels (`unit="px"`), or in microns (`unit="um"`) where a file
    states microns and nobody stated the slide's resolution.
    patch_size: edge of a patch in the unit of `coords`; None where neither file nor caller states it.
    mpp: microns per level-0 pixel; None where unknown.
    placed: whether it is known where the patches lie; if not, as for the embedding of a whole slide, coords are zeros.
    covariates: what is known of the patient, such as {"age": 66, "sex": "F"}, for models that use it.

    Example: `Bag(slide_id="a", features=torch.rand(100, 1024), coords=512 * torch.rand(100, 2).double())`
    """

    slide_id: str
    features: "Tensor"  # (patch, d) float32, as `read_bag` gives them
    coords: "Tensor"  # (patch, 2) float64
    patch_size: float | None = None
    mpp: float | None = None
    unit: Unit = "px"
    encoder: str | None = None
    source: str = "memory"  # the format it was read from
    placed: bool = True
    covariates: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        size = "" if self.patch_size is None else f", patches of {self.patch_size:g} {self.unit}"
        encoder = "" if self.encoder is None else f", encoder {self.encoder}"
        n, dim = self.features.shape
        return f"Bag({self.slide_id!r}: {n:,} patches x {dim}{size}{encoder}, from {self.source})"

    def __post_init__(self) -> None:
        n = len(self.features)
        if self.features.ndim != 2 or self.coords.shape != (n, 2):
            raise FeatureError(
                f"{self.slide_id}: features of shape {tuple(self.features.shape)} and coords of shape "
                f"{tuple(self.coords.shape)}; expected (N, d) and (N, 2) with the same N."
            )
        if n and (farthest := float(self.coords.abs().max())) > FARTHEST:
            raise FeatureError(
                f"{self.slide_id}: a coordinate of {farthest:g}, expected level-0 pixels or microns, at most "
                f"{FARTHEST:g}. The file is damaged, or its coordinates are something else; extract the slide again."
            )

    def __len__(self) -> int:
        return len(self.features)

    @property
    def dim(self) -> int:
        return self.features.shape[1]

    @property
    def centroids(self) -> "Tensor":
        """(patch, 2): the corner plus half a patch, in the unit of `coords`."""
        return self.coords + (self.patch_size or 0.0) / 2

    @property
    def microns_per_unit(self) -> float | None:
        """Factor from `coords` to microns; None where the resolution is unknown."""
        return 1.0 if self.unit == "um" else self.mpp

    @property
    def nbytes(self) -> int:
        return self.features.nbytes + self.coords.nbytes


def as_features(array: "Tensor") -> "Tensor":
    """Features as contiguous float32, whatever precision they were stored in."""
    import torch

    return array.to(torch.float32).contiguous()


def narrowed(features: "Tensor") -> "Tensor":
    """The same numbers in two bytes each, if none of them changes by that: those that were stored so, as a rule."""
    import torch

    for dtype in (torch.float16, torch.bfloat16):
        if all(torch.equal(part.to(dtype).to(part.dtype), part) for part in (features[:1], features)):
            return features.to(dtype)
    return features
