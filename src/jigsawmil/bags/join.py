"""Features of several encoders on the same patches, as one folder: small files that name those of each folder."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from ..errors import ConfigError, FeatureError
from ..files import replacing
from .formats import find_bags

Folders = str | Path | Sequence[str | Path]


def join_features(folders: Sequence[str | Path], out: str | Path | None = None) -> Path:
    """Write the joined folder of these and return it; by default `A+B` beside A. Features are not copied.

    Every slide of any folder has a file in it; one that another folder lacks is refused when it is read.

    Example: `join_features(["features/uni", "features/virchow2"])`
    """
    given = [Path(folder).resolve() for folder in folders]
    if len(given) < 2 or len(set(given)) < len(given):
        raise ConfigError(f"join: found {', '.join(map(str, given))}; expected two different folders or more.")
    target = Path(out).resolve() if out else given[0].parent / "+".join(folder.name for folder in given)
    found = [find_bags(folder) for folder in given]
    wanted = {}
    for slide in sorted(set().union(*found)):
        named = []
        for folder, bags in zip(given, found, strict=True):
            name = None if slide not in bags else str(bags[slide].relative_to(folder))
            named.append([os.path.relpath(folder, target), name])
        wanted[f"{slide}.joined"] = json.dumps({"features": named}, indent=2) + "\n"
    there = {path.name: path for path in target.iterdir()} if target.is_dir() else {}
    if others := sorted(set(there) - set(wanted)):
        raise FeatureError(
            f"{target}: holds {others[0]}{f' and {len(others) - 1} more files' if len(others) > 1 else ''}, which the "
            "joined folder would not; expected a new folder, or one that was joined from the same. Remove it, or "
            "name another with `jigsawmil join --out`."
        )
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, text in wanted.items():
            if name not in there or there[name].read_text(encoding="utf-8") != text:
                with replacing(target / name) as temporary:
                    temporary.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FeatureError(
            f"{target}: cannot be written ({error}). Name another folder: jigsawmil join {' '.join(map(str, given))} "
            "--out FOLDER, and give that as --features."
        ) from error
    return target


def one_folder(features: Folders) -> str | Path:
    """The folder itself, or the joined folder of several."""
    if isinstance(features, str | Path):
        return features
    return features[0] if len(features) == 1 else join_features(features)
