"""Requirements of a plugin, found without importing it; `harness list` shows them.

Required settings are read from the plugin's signature; files and packages from `needs.toml` beside
its module, under the plugin's name. A model also needs the packages of its default parts.
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

NEEDS_FILE = "needs.toml"
KIND_OF_PART: dict[str, plugins.Kind] = {
    "backend": "backends",
    "chat": "backends",
    "segmenter": "segmenters",
    "propagator": "propagators",
}
"""Settings of a model whose value is a part, with the kind of plugin that the part is."""


def requirements_of(kind: str, entry: EntryPoint) -> list[str]:
    """Return the required settings, files and packages, in this order, each named once."""
    declared, options = declared_requirements(entry), offered_settings(entry)
    needed = [
        *_required_settings(kind, options),
        *declared.get("given", ()),
        *declared.get("packages", ()),
    ]
    for part_kind, part_name in _default_parts(options):
        needed += _packages(part_kind, part_name)
    return list(dict.fromkeys(needed))


@lru_cache
def _packages(kind: plugins.Kind, name: str) -> tuple[str, ...]:
    """Return the packages that a part needs; none if the part is not installed."""
    return tuple(
        package
        for part in plugins.groups().get(f"harness.{kind}", ())
        if part.name == name
        for package in declared_requirements(part).get("packages", ())
    )


def declared_requirements(entry: EntryPoint) -> dict[str, list[str]]:
    """Return a plugin's table in `needs.toml`: its lists `given` (files) and `packages`, if any.

    Raises:
        DataError: the file cannot be read, or does not hold lists of texts.
    """
    folder = plugins.folder(entry)
    declared = _read_needs(folder / NEEDS_FILE).get(entry.name, {}) if folder is not None else {}
    lists = declared.values() if isinstance(declared, dict) else (None,)
    if not all(
        isinstance(texts, list) and all(isinstance(text, str) for text in texts) for texts in lists
    ):
        raise DataError(
            f"file {NEEDS_FILE} of {entry.name}",
            expected='lists of texts, "given" and "packages"',
            found=repr(declared)[:60],
        )
    return dict(declared)


@lru_cache
def _read_needs(path: Path) -> dict[str, Any]:
    """Read a `needs.toml`; an empty table without the file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"file {path}", expected="TOML", found=str(error)) from error


def _required_settings(kind: str, options: Mapping[str, Offered]) -> Iterator[str]:
    """Yield settings without a default, and a model's checkpoint if it has no default."""
    for name, offered in options.items():
        is_empty = isinstance(offered.default, ast.Constant) and not offered.default.value
        if offered.default is None or (kind == "models" and name == "checkpoint" and is_empty):
            yield name


def _default_parts(options: Mapping[str, Offered]) -> Iterator[tuple[plugins.Kind, str]]:
    """Yield (kind of plugin, its name) of each setting's default that is a part, `Spec("name")`."""
    for name, offered in options.items():
        default = offered.source.resolve_default(offered.default) if name in KIND_OF_PART else None
        match default:
            case ast.Call(args=[ast.Constant(value=part), *_]):
                yield KIND_OF_PART[name], str(part)
