"""Scripts that write pictures and pages of the documentation: `python -m tools.phantoms`, and so on."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
