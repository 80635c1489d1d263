"""The text of a study file: TOML, or YAML if its name ends so. Both say the same and are read into the same tables."""

import re
import tomllib
from pathlib import Path
from typing import Any, ClassVar

import yaml

from ..errors import ConfigError

YAML_SUFFIXES = (".yaml", ".yml")
STUDY_SUFFIXES = (".toml", *YAML_SUFFIXES)


def read_values(path: Path) -> dict[str, Any]:
    """The values of a study file."""
    in_yaml = path.suffix.lower() in YAML_SUFFIXES
    try:
        text = path.read_text(encoding="utf-8")
        return _yaml(text) if in_yaml else tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); expected a study file.") from error
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark or error.context_mark
        where = f" (at line {at.line + 1}, column {at.column + 1})" if at else ""
        raise ConfigError(f"{path}: not a YAML file ({error.problem}{where}).") from error
    except (tomllib.TOMLDecodeError, yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise ConfigError(f"{path}: not a {'YAML' if in_yaml else 'TOML'} file ({error}).") from error


def _yaml(text: str) -> dict[str, Any]:
    values = yaml.load(text, _Plain)
    if not isinstance(values, dict):
        raise ValueError("expected tables such as cohorts: and variants:")
    return values


class _Plain(yaml.SafeLoader):
    """YAML 1.2's plain values, which are TOML's: `no` and `on` are text, 1e-4 is a number, dates are text. A key with
    nothing behind it is an empty table, names are text, and a name that stands twice is an error."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}
    yaml_constructors: ClassVar[dict[str | None, Any]] = {
        tag: make
        for tag, make in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag.rpartition(":")[2] in ("str", "seq", "map")
    }

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name_node, value_node in node.value:
            if not isinstance(name_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "expected a name", name_node.start_mark)
            name = str(name_node.value)
            if name in found:
                raise yaml.constructor.ConstructorError(None, None, f"{name!r} stands twice", name_node.start_mark)
            found[name] = self.construct_object(value_node, deep=True)
        return found


for tag, pattern, first in (
    ("bool", r"true|false", "tf"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("null", r"~|null|", ("~", "n", "")),
):
    _Plain.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"(?:{pattern})$"), list(first))
_Plain.add_constructor("tag:yaml.org,2002:bool", lambda loader, node: node.value == "true")
_Plain.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))
_Plain.add_constructor("tag:yaml.org,2002:float", lambda loader, node: float(node.value))
_Plain.add_constructor("tag:yaml.org,2002:null", lambda loader, node: {})
