"""The version that is installed, and how. Looking it up takes time, so it is a module of its own."""

import re
from importlib.metadata import PackageNotFoundError, distribution, version

__version__ = version("jigsawmil")


def fitting_hints(words: str) -> str:
    """Words with a hint to install an extra, as it is done for a program that was installed from its source folder."""
    try:
        origin = distribution("jigsawmil").read_text("direct_url.json") or ""
    except PackageNotFoundError:
        return words
    if '"file:' not in origin:
        return words
    return re.sub(
        r"pip install 'jigsawmil\[(\w+)\]'", r"pip install -c constraints.txt '.[\1]' in its source folder", words
    )
