"""The boundary between files and the program: whatever a library says of a file becomes one sentence with its name."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...errors import FeatureError, JigsawmilError, summarize_error

LARGE = 1 << 28  # bytes that are unpacked without a question
RATIO = 100  # unpacked to packed: features shrink to half at best, and coordinates to a tenth


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Around everything that is done with a file of others."""
    try:
        yield
    except JigsawmilError:
        raise
    except PermissionError as error:
        raise forbidden(Path(error.filename or path)) from error
    except MemoryError as error:
        raise FeatureError(
            f"{path.name}: needs more memory than there is. It is damaged, or too large for this machine."
        ) from error
    except Exception as error:  # what libraries raise on damaged files is beyond listing
        raise FeatureError(
            f"{path.name}: cannot be read ({type(error).__name__}: {summarize_error(error)}). "
            "It is damaged, or of another kind than its name says: copy or extract it again."
        ) from error


def forbidden(path: Path) -> FeatureError:
    return FeatureError(f"{path}: may not be read (permission denied). Ask its owner for the right to read it.")


def refuse_bomb(where: str, packed: int, unpacked: int) -> None:
    """Before anything is unpacked: refuse what grows as features never do."""
    if unpacked > LARGE and unpacked > RATIO * packed:
        raise FeatureError(
            f"{where}: {packed:,} bytes that unpack to {unpacked:,}, and features do not compress so well. "
            "The file is damaged, or made to fill the memory; extract the slide again."
        )
