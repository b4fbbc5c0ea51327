"""Requirements of a plugin before it runs, found without importing it.

Settings that must be given are in its signature. What no signature says is in a file `needs.toml`
beside its module, under the plugin's name. A model needs the packages of the parts, too, that it
takes unless others are given.
"""

import ast
import tomllib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from harness import plugins
from harness.catalog.settings import Offered, offered_settings
from harness.errors import DataError

FILE = "needs.toml"
PARTS: dict[str, plugins.Kind] = {
    "backend": "backends",
    "chat": "backends",
    "segmenter": "segmenters",
    "propagator": "propagators",
}
"""Settings that name a part, and its kind."""


def requirements_of(kind: str, entry: EntryPoint) -> list[str]:
    """Return the required settings, files and packages, in this order, each named once."""
    declared, options = declared_requirements(entry), offered_settings(entry)
    needed = [
        *_required_settings(kind, options),
        *declared.get("given", ()),
        *declared.get("packages", ()),
    ]
    for part in _parts(options):
        needed += _packages(*part)
    return list(dict.fromkeys(needed))


@lru_cache
def _packages(kind: plugins.Kind, name: str) -> tuple[str, ...]:
    """The packages of a part."""
    return tuple(
        package
        for part in plugins.groups().get(f"harness.{kind}", ())
        if part.name == name
        for package in declared_requirements(part).get("packages", ())
    )


def declared_requirements(entry: EntryPoint) -> dict[str, list[str]]:
    """Read the lists `given` and `packages` of a plugin from `needs.toml`; raise DataError."""
    place = plugins.folder(entry)
    declared = _read_needs(place / FILE).get(entry.name, {}) if place is not None else {}
    lists = declared.values() if isinstance(declared, dict) else (None,)
    if not all(isinstance(row, list) and all(isinstance(a, str) for a in row) for row in lists):
        raise DataError(
            f"file {FILE} of {entry.name}",
            expected='lists of texts, "given" and "packages"',
            found=repr(declared)[:60],
        )
    return dict(declared)


@lru_cache
def _read_needs(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"file {path}", expected="TOML", found=str(error)) from error


def _required_settings(kind: str, options: Mapping[str, Offered]) -> Iterator[str]:
    """Yield settings without a default, and a model's checkpoint if it has no default."""
    for name, offered in options.items():
        none = isinstance(offered.default, ast.Constant) and not offered.default.value
        if offered.default is None or (kind == "models" and name == "checkpoint" and none):
            yield name


def _parts(options: Mapping[str, Offered]) -> Iterator[tuple[plugins.Kind, str]]:
    """Kinds and names of the parts that are taken by default: those given as `Spec("name")`."""
    for name, offered in options.items():
        default = offered.source.resolve_default(offered.default) if name in PARTS else None
        match default:
            case ast.Call(args=[ast.Constant(value=part), *_]):
                yield PARTS[name], str(part)
