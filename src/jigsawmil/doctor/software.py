"""Programs and packages that some verbs need, and the encoders with what stands between them and their use."""

import platform
import shutil
import webbrowser
from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch

from ..slides.encoders import SPECS
from ..slides.encoders.hub import FILES
from ..version import __version__
from .facts import MISSING, Fact, installed

if TYPE_CHECKING:
    from ..slides.encoders import EncoderSpec

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "firefox", "microsoft-edge")
LIBRARIES = {"package": "efficientnet_lite_pytorch", "timm": "timm", "transformers": "transformers"}
EXTRAS = {"package": "slides", "timm": "encoders", "transformers": "encoders"}


def software_facts() -> list[Fact]:
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else torch.version.hip and f"ROCm {torch.version.hip}"
    return [
        Fact("jigsawmil", __version__, f"Python {platform.python_version()}"),
        Fact("torch", torch.__version__, build or "built for the CPU alone"),
        Fact("triton", installed("triton") or MISSING, "kernels for GPUs; comes with torch for CUDA and ROCm"),
        Fact("numba", installed("numba") or MISSING, "kernels for the CPU"),
        openslide_fact(),
        Fact("Ray", installed("ray") or MISSING, "" if installed("ray") else "clusters: pip install 'jigsawmil[ray]'"),
        browser_fact(),
    ]


def openslide_fact() -> Fact:
    try:
        import openslide
    except ImportError:
        return Fact("OpenSlide", MISSING, "reading slides: pip install 'jigsawmil[slides]'")
    except OSError as error:  # the package without the library
        return Fact("OpenSlide", "its library is missing", f"pip install 'jigsawmil[slides]' ({error})")
    return Fact("OpenSlide", openslide.__library_version__)


def browser_fact() -> Fact:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        try:
            found = getattr(webbrowser.get(), "name", "yes")
        except webbrowser.Error:
            return Fact("browser", "none found", "`view` prints its address: open that in a browser elsewhere")
    return Fact("browser", found)


def encoder_rows() -> list[tuple[str, str, str, str]]:
    """Name, library, weights and access of each encoder. Nothing is asked of a network."""
    return [(spec.name, _library(spec), _weights(spec), _access(spec)) for spec in SPECS]


def encoder_notes() -> list[str]:
    """What to do about it."""
    notes = [
        f"Without {name}: pip install 'jigsawmil[{EXTRAS[source]}]'."
        for source, name in LIBRARIES.items()
        if not find_spec(name)
    ]
    token = "A token of the hub was found" if hub_token() else "No token of the hub was found (`hf auth login`)"
    return [*notes, f"{token}; only the hub knows whether access was granted."]


def hub_token() -> bool:
    """Whether this machine is logged in to the hub; the token itself is not looked at."""
    if not find_spec("huggingface_hub"):
        return False
    from huggingface_hub import get_token

    return get_token() is not None


def _library(spec: "EncoderSpec") -> str:
    name = LIBRARIES.get(spec.source)
    return "its own" if name is None else name if find_spec(name) else f"{name} is missing"


def _weights(spec: "EncoderSpec") -> str:
    if spec.source == "package":
        return "come with the library"
    if not spec.repo or not find_spec("huggingface_hub"):
        return "-"
    from huggingface_hub import try_to_load_from_cache

    here = any(isinstance(try_to_load_from_cache(spec.repo, name), str) for name in FILES)
    return "on this machine" if here else "to be fetched"


def _access(spec: "EncoderSpec") -> str:
    return "on request" if spec.gated else "open"
