"""Draw docs/img/painted.png, a synthetic slide as `jigsawmil tissue` shows it.

python -m tools.painted
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from jigsawmil.slides.slide import open_slide
from jigsawmil.slides.tiles import make_tiles, preview
from jigsawmil.slides.tissue import find_tissue
from jigsawmil.synthetic.painter import COARSE, MPP, Plan, paint, write_slide
from jigsawmil.synthetic.phantom import phantom_slides
from jigsawmil.synthetic.phantom_options import TYPES, phantom_spec
from jigsawmil.synthetic.phantom_slide import PATCH_LEVEL0

from . import ROOT

IMAGE = ROOT / "docs" / "img" / "painted.png"
WINDOW = 768  # level-0 pixels


def main() -> None:
    plan = compact_plan()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "painted.tif"
        painting = paint(plan, np.random.default_rng(0), ink="blue")
        write_slide(painting.image, path)
        with open_slide(path) as opened:
            tissue = find_tissue(opened)
            whole = preview(opened, tissue, make_tiles(opened, tissue), 1000)
            corner = most_varied(painting.types)
            part = opened.read(*(COARSE * corner), WINDOW, WINDOW)
    across = f"level 0, {WINDOW * MPP:.0f} microns across"
    figure, axes = plt.subplots(1, 2, figsize=(12, 6), layout="constrained")
    for ax, picture, title in zip(axes, (whole, part), ("outline of the tissue, tiles", across), strict=True):
        ax.imshow(picture)
        ax.set_title(title)
        ax.axis("off")
    figure.savefig(IMAGE, dpi=90)
    print(IMAGE)


def compact_plan() -> Plan:
    """Of a slide that is about as wide as high."""
    spec = phantom_spec("composition", slides=20, seed=2, patches=150, spread=0.15, clump=5, dim=16)
    for slide in phantom_slides(spec):
        corners = slide.bag.coords.numpy()
        cells = np.rint((corners - corners.min(axis=0)) / PATCH_LEVEL0).astype(np.int64)
        if 0.8 < np.divide(*cells.max(axis=0)) < 1.25:
            return Plan(cells, slide.types, TYPES["composition"])
    raise SystemExit("no such slide")


def most_varied(types: np.ndarray) -> np.ndarray:
    """Corner (x, y) of the window that shows most types of tissue; glass and what ink hides count as none."""
    edge = WINDOW // COARSE
    corners = [(x, y) for y in range(0, types.shape[0] - edge, 8) for x in range(0, types.shape[1] - edge, 8)]
    seen = [np.bincount(types[y : y + edge, x : x + edge].ravel(), minlength=7) / edge**2 for x, y in corners]
    return np.array(corners[int(np.argmax([np.minimum(share[1:], 0.2).sum() for share in seen]))])


if __name__ == "__main__":
    main()
