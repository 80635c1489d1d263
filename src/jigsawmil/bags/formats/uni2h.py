"""The public UNI2-h features of TCGA, CPTAC and PANDA: features (1, N, 1536) and coords (1, N, 2), level-0 pixels.

The patches are 256 pixels at 20x; how many level-0 pixels that is depends on the slide, so it comes from attributes
of `coords` where there are any, else from the caller.
"""

from . import hdf5
from .opened import Opened
from .source import Options, Source
from .trident import encoder_name, level0_edge

SUFFIXES = hdf5.SUFFIXES
DATASETS = ("features",)


def matches(file: Opened) -> bool:
    features = file.arrays.get("features")
    return features is not None and len(features.shape) == 3 and "coords" in file.arrays


def scan(file: Opened, options: Options) -> Source:
    features, coords = file.array("features"), file.own_coords(options)
    return Source(
        path=file.path,
        slide_id=file.slide_id,
        features=features,
        coords=coords,
        unit="px",
        patch_size=level0_edge(coords.attrs),
        mpp=coords.attrs.get("mpp"),
        encoder=encoder_name(file.path, features),
    )
