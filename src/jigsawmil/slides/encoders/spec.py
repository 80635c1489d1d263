"""What is known of an encoder before its weights are: how tiles must look, and what comes out."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...config import choose, require

if TYPE_CHECKING:
    from torch import Tensor, nn

ENDINGS = (".pt", ".ts", ".torchscript", ".onnx")  # of files that are encoders
TOKENS = ("pooled", "class", "class+mean", "map")
INTERPOLATIONS = ("bilinear", "bicubic")
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
OPTIMUS = (0.707223, 0.578729, 0.703617), (0.211883, 0.230117, 0.177517)
HIBOU = (0.7068, 0.5755, 0.7220), (0.1950, 0.2316, 0.1816)
LITE = (127 / 255,) * 3, (128 / 255,) * 3  # the Lite variants were not trained with ImageNet's mean


Load = Callable[["EncoderSpec", Path | None, bool], "nn.Module"]  # spec, local weights, may its code run -> model


@dataclass(frozen=True, kw_only=True)
class EncoderSpec:
    """What an encoder is: its input, its output and where it comes from.

    patch: pixels a side of the tiles to cut for it, at `mpp`. size: pixels a side that the model takes. resize: a
    tile is scaled to this edge, its middle `size` is cut out; interpolation: how. mean, std: of RGB in [0, 1]. mpp:
    microns per pixel of its training. tokens: what of a model's output is the feature: `pooled`, `class`, `class+mean`
    (the class token joined with the mean of the patch tokens, register tokens left out), or `map` (the mean over a map
    of features). source: package, timm, transformers, file or registered."""

    name: str
    dim: int
    patch: int = 256
    size: int = 224
    resize: int = 224
    interpolation: str = "bilinear"
    mean: tuple[float, float, float] = IMAGENET[0]
    std: tuple[float, float, float] = IMAGENET[1]
    mpp: float = 0.5
    licence: str = "unknown"
    gated: bool = False
    source: str = "file"
    repo: str = ""  # on the hub
    tokens: str = "pooled"
    registers: int = 0  # tokens between the class token and the patches
    build: dict[str, Any] = field(default_factory=dict)  # arguments of timm.create_model
    runs_code: bool = False  # loading it runs Python code from its repository
    inner: str = ""  # method of the loaded model that returns the encoder itself, before other things
    load: Load | None = field(default=None, repr=False)  # in place of the loading that `source` has
    also: str = ""  # TRIDENT's name for it

    def __post_init__(self) -> None:
        choose("tokens", self.tokens, TOKENS)
        choose("interpolation", self.interpolation, INTERPOLATIONS)
        require("size", self.size, 1 <= self.size <= self.resize, f"pixels, from 1 to the {self.resize} of resize")
        for name in ("mean", "std"):
            values = getattr(self, name)
            numbers = isinstance(values, tuple) and all(isinstance(value, int | float) for value in values)
            require(name, values, numbers and len(values) == 3, "three numbers, of R, G and B in [0, 1]")


class Encoder(NamedTuple):
    """A loaded encoder. model: tiles, float (tile, 3, size, size), preprocessed -> (tile, dim). mark: of its weights
    and of how it wants tiles; another mark gives other features."""

    spec: EncoderSpec
    model: Callable[["Tensor"], "Tensor"]
    mark: str = ""


VIT_L = {"img_size": 224, "patch_size": 16, "init_values": 1e-5, "num_classes": 0, "dynamic_img_size": True}
SWIGLU = {"mlp_layer": "SwiGLUPacked", "act_layer": "SiLU"}
UNI2 = {
    "img_size": 224, "patch_size": 14, "depth": 24, "num_heads": 24, "init_values": 1e-5, "embed_dim": 1536,
    "mlp_ratio": 2.66667 * 2, "num_classes": 0, "no_embed_class": True, "reg_tokens": 8, "dynamic_img_size": True,
    **SWIGLU,
}  # fmt: skip
OPTIMUS_BUILD = {"init_values": 1e-5, "dynamic_img_size": False}
CC_NC = "CC-BY-NC-ND-4.0"

SPECS = [
    EncoderSpec(
        name="efficientnet-lite0", dim=1280, mean=LITE[0], std=LITE[1], licence="Apache-2.0", source="package",
    ),
    EncoderSpec(
        name="uni", also="uni_v1", dim=1024, licence=CC_NC, gated=True, source="timm", repo="MahmoodLab/UNI",
        build={"model_name": "vit_large_patch16_224", **VIT_L},
    ),
    EncoderSpec(
        name="uni2-h", also="uni_v2", dim=1536, licence=CC_NC, gated=True, source="timm", repo="MahmoodLab/UNI2-h",
        build={"model_name": "vit_giant_patch14_224", **UNI2},
    ),
    EncoderSpec(
        name="virchow2", dim=2560, patch=224, interpolation="bicubic", licence=CC_NC, gated=True, source="timm",
        repo="paige-ai/Virchow2", tokens="class+mean", registers=4,
        build={"model_name": "vit_huge_patch14_224", "img_size": 224, "init_values": 1e-5, "num_classes": 0,
               "reg_tokens": 4, "mlp_ratio": 5.3375, "global_pool": "", "dynamic_img_size": True, **SWIGLU},
    ),
    EncoderSpec(
        name="gigapath", dim=1536, resize=256, interpolation="bicubic", licence="research only", gated=True,
        source="timm", repo="prov-gigapath/prov-gigapath",
        build={"model_name": "vit_giant_patch14_dinov2", "img_size": 224, "in_chans": 3, "patch_size": 16,
               "embed_dim": 1536, "depth": 40, "num_heads": 24, "init_values": 1e-5, "mlp_ratio": 5.33334,
               "num_classes": 0},
    ),
    EncoderSpec(
        name="conch-v1.5", also="conch_v15", dim=768, patch=512, size=448, resize=448, licence=CC_NC, gated=True,
        source="transformers", repo="MahmoodLab/TITAN", runs_code=True,
        inner="return_conch",
    ),
    EncoderSpec(
        name="h-optimus-0", also="hoptimus0", dim=1536, patch=224, mean=OPTIMUS[0], std=OPTIMUS[1],
        licence="Apache-2.0", gated=True, source="timm", repo="bioptimus/H-optimus-0",
        build={"model_name": "vit_giant_patch14_reg4_dinov2", "img_size": 224, "num_classes": 0, **OPTIMUS_BUILD},
    ),
    EncoderSpec(
        name="h-optimus-1", also="hoptimus1", dim=1536, patch=224, mean=OPTIMUS[0], std=OPTIMUS[1], licence=CC_NC,
        gated=True, source="timm", repo="bioptimus/H-optimus-1",
        build={"model_name": "vit_giant_patch14_reg4_dinov2", "img_size": 224, "num_classes": 0, **OPTIMUS_BUILD},
    ),
    EncoderSpec(
        name="phikon-v2", also="phikon_v2", dim=1024, patch=224, interpolation="bicubic",
        licence="Owkin non-commercial", source="transformers", repo="owkin/phikon-v2", tokens="class",
    ),
    EncoderSpec(
        name="hibou-b", dim=768, patch=224, interpolation="bicubic", mean=HIBOU[0], std=HIBOU[1], licence="Apache-2.0",
        gated=True, source="transformers", repo="histai/hibou-b", runs_code=True,
    ),
    EncoderSpec(
        name="hibou-l", also="hibou_l", dim=1024, patch=224, interpolation="bicubic", mean=HIBOU[0], std=HIBOU[1],
        licence="Apache-2.0", gated=True, source="transformers", repo="histai/hibou-L", runs_code=True,
    ),
    EncoderSpec(
        name="resnet50", dim=1024, licence="BSD-3-Clause", source="timm", repo="timm/resnet50.tv_in1k", tokens="map",
        build={"model_name": "resnet50", "features_only": True, "out_indices": [3]},  # CLAM's and TRIDENT's: no layer 4
    ),
]  # fmt: skip
ENCODERS: dict[str, EncoderSpec] = {}
ALIASES: dict[str, str] = {}  # TRIDENT's name -> ours


def register_encoder(spec: EncoderSpec, load: Load | None = None) -> None:
    """Register an encoder for `extract`, `predict` and `jigsawmil encoders`; it replaces one of the same name.

    load: gives the model, (tile, 3, size, size) -> (tile, dim), for what timm, transformers and files do not cover.
    TRIDENT's name works too, and is kept: a model that was trained on TRIDENT's features asks for them by it.

    Example: `register_encoder(EncoderSpec(name="mine", dim=512), lambda spec, weights, trust_code: my_model())`
    """
    load = load or spec.load
    spec = replace(spec, load=load, source="registered" if load else spec.source)
    SPECS[:] = [known for known in SPECS if known.name != spec.name] + [spec]
    _name(spec)


def _name(spec: EncoderSpec) -> None:
    for name in (spec.name, spec.also):
        if name:
            ENCODERS[name] = replace(spec, name=name)
    if spec.also:
        ALIASES[spec.also] = spec.name


for _spec in SPECS:
    _name(_spec)


def our_name(encoder: str) -> str:
    """Of an encoder that may be called as in TRIDENT; other names stay."""
    return ALIASES.get(encoder, encoder)


def is_file(name: str) -> bool:
    """Whether an encoder is given by a TorchScript or ONNX file, not by name."""
    return name.endswith(ENDINGS)
