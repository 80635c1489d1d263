"""How the patches of a slide are joined."""

from dataclasses import dataclass
from typing import NamedTuple

from .config import GRAPH, choose, one_of, require, setting

SIGMAS = {
    "max-knn": "sigma is the largest distance between neighbours",
    "max-nearest": "sigma² is the largest distance to a nearest neighbour",
    "max-knn-squared": "sigma² is the largest distance between neighbours",
}
AXES = {
    "aspect": "both axes divided by the longer side",
    "per-axis": "each axis divided by its own extent",
}
TIES = ("all", "exact")


class Raster(NamedTuple):
    """The grid of the position jigsaw: `cells` per side over the slide, whose axes are scaled as `axes` says."""

    cells: int = 10
    axes: str = "per-axis"


@dataclass(frozen=True, kw_only=True)
class GraphConfig:
    """How patches are connected: `knn` is the paper's; `radius` is in microns, so that 20x and 40x slides agree.

    Either of two patches may name the other as its neighbour. A radius graph takes `radius` as its sigma.

    Example: `GraphConfig(kind="radius", radius=500.0)`
    """

    kind: str = setting("knn", "Graph of the patches: knn, or radius (in microns).", name="graph", part=GRAPH)
    k: int = setting(50, "Number of nearest neighbours per patch.", option=True, part=GRAPH)
    radius: float = setting(
        500.0, "Patches at most this many microns apart are neighbours; for radius graphs.", part=GRAPH
    )
    sigma: str | float = setting(
        "max-knn",
        "Scale of the Gaussian edge weight in knn graphs: max-knn (sigma is the largest distance between neighbours; "
        "the paper's text), max-nearest (sigma^2 is the largest distance to a nearest neighbour) or max-knn-squared "
        "(sigma^2 is the largest distance between neighbours), both readings of the paper's appendix, or a number in "
        "normalised units.",
        part=GRAPH,
    )
    normalise: str = setting(
        "aspect",
        "Normalised coordinates of knn graphs: aspect (both axes divided by the longer side) or per-axis (each axis "
        "divided by its own extent).",
        part=GRAPH,
    )
    ties: str = setting(
        "all",
        "Ties at the k-th neighbour: all (every tied patch is a neighbour) or exact (exactly k, ties broken from top "
        "to bottom and left to right).",
        part=GRAPH,
    )

    def __post_init__(self) -> None:
        choose("graph kind", self.kind, ("knn", "radius"))
        require("k", self.k, isinstance(self.k, int) and self.k >= 1, "a whole number of at least 1")
        require("radius", self.radius, self.radius > 0, "microns above 0")
        if isinstance(self.sigma, str):
            choose("sigma", self.sigma, SIGMAS)
        else:
            require("sigma", self.sigma, self.sigma > 0, f"a number above 0, or {one_of(SIGMAS)}")
        choose("normalise", self.normalise, AXES)
        choose("ties", self.ties, TIES)

    def describe(self) -> str:
        """In the words of a report."""
        if self.kind == "radius":
            return f"patches within {self.radius:g} microns of each other are connected, weights fall with distance"
        weights = "with weights exp(-distance² / sigma²)"
        sigma = SIGMAS.get(str(self.sigma)) or f"sigma = {self.sigma:g}"
        ties = "(ties included)" if self.ties == "all" else "(exactly)"
        units = f"in coordinates with {AXES[self.normalise]}"
        return f"each patch is connected to its {self.k} nearest neighbours {ties}, {weights} where {sigma}, {units}"
