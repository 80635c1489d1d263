"""Where a model or a run came from."""

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch


def origin() -> dict[str, Any]:
    """Versions, commit and machine."""
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "rev-parse", "HEAD", f"HEAD:./{Path(__file__).name}"]
    try:
        commit = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.split()[0]
    except (OSError, subprocess.SubprocessError):
        commit = None  # installed, perhaps below somebody else's repository
    return {
        "jigsawmil": version("jigsawmil"),
        "commit": commit,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "machine": platform.platform(),
        "threads": torch.get_num_threads(),
    }
