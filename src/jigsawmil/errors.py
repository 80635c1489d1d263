"""The few exceptions of the program. Each message says what was found, what was expected, and what to do."""

import re

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
STACK = ("Traceback", "  ", "frame #", "Exception raised from")  # how lines begin that say where, not what


class JigsawmilError(Exception):
    """Base of every error caused by the input; the command line prints it without a traceback."""


class FeatureError(JigsawmilError):
    """A feature file cannot become a bag, or does not fit the model."""


class LabelError(JigsawmilError, ValueError):
    """A label table cannot be read or does not fit the features. A ValueError, as scikit-learn has it."""


class SplitError(JigsawmilError, ValueError):
    """Folds are impossible, or would put one patient on both sides."""


class ConfigError(JigsawmilError):
    """An unknown or impossible setting; names the key and the nearest valid one."""


class NotFiniteError(FeatureError):
    """A feature file holds NaN or infinity."""


class NotANumberError(FeatureError):
    """A model gave NaN or infinity for a slide."""


class StudyError(JigsawmilError):
    """A run folder is missing, damaged or belongs to other settings."""


class SlideError(JigsawmilError):
    """A slide cannot be opened or read, or does not say what is needed."""


def summarize_error(error: Exception | str) -> str:
    """What a library says, on one line: its first two lines, and its last, which tells what happened."""
    lines = COLOURS.sub("", str(error)).splitlines()
    lines = [line.strip() for line in lines if line.strip() and not line.startswith(STACK)]
    return (
        " ".join(dict.fromkeys(line[:300] for line in [*lines[:2], *lines[-1:]])).rstrip(":. ") or type(error).__name__
    )
