"""The code of third-party plugins that a record names, so that a resumed run can be compared.

A plugin's code is its module, the modules of its own package that this one imports, and the files
of the package that their source names, such as prompts. Comments and layout do not count. Nothing
is imported: the files are read.
"""

import ast
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness import plugins
from harness.files import content_hash, status_marks
from harness.spec import KINDS, NAME, Kind, Spec

OWN = "visual-reasoning-harness"
"""The distribution whose plugins are recorded by its version alone."""
SHARED = re.compile(r"(site|dist)-packages\Z")
"""Folders of packages that do not belong to each other."""
NAMED_FILE = re.compile(r"[^\n\0]{1,200}\.\w{1,10}\Z")
"""A text of the source that may be the path of a file."""
DATA_ALONE: frozenset[Kind] = frozenset({"boards", "presets"})
"""Kinds of plugins that are files without code."""


def plugin_code(names: Iterable[str], *objects: object) -> dict[str, dict[str, Any]]:
    """Return the version and the hashes of files of third-party plugins, by package.

    Args:
        names: Names of plugins; those of this project, and names of no plugin, are left out.
        objects: Objects whose classes count as well.

    >>> plugin_code(["box", "no plugin"])
    {}
    """
    packages: dict[str, dict[str, Any]] = {}
    for entry in _foreign_entries(set(names)):
        top = entry.module.partition(".")[0]
        package = packages.setdefault(top, {"files": {}})
        if entry.dist is not None:
            package["version"] = entry.dist.version
        package["files"] |= _files_of(entry.module)
    for module in dict.fromkeys(type(an_object).__module__ for an_object in objects):
        top = module.partition(".")[0]
        if top not in ("harness", "builtins", "__main__"):
            packages.setdefault(top, {"files": {}})["files"] |= _files_of(module)
    classes = {base for an_object in objects for base in type(an_object).__mro__}
    if sources := _sources_in_program(classes):
        packages["__main__"] = {"files": sources}
    return packages


def spec_names(plain: object) -> Iterator[str]:
    """Yield the names that may be those of plugins in a SPEC, or in settings as plain data."""
    if isinstance(plain, Spec):
        yield plain.name
        yield from spec_names(plain.arguments)
    elif isinstance(plain, Mapping):
        for value in plain.values():
            yield from spec_names(value)
    elif isinstance(plain, list | tuple):
        for value in plain:
            yield from spec_names(value)
    elif isinstance(plain, str):
        yield from (name for name in re.split(r"[\s,+]+", plain[:1000]) if NAME.match(name))


def code_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[dict[str, str | None]]:
    """Return the versions and hashes that differ between two results of `plugin_code`.

    Returns:
        Objects `{setting, from, to}`; a file or version that one of them lacks is None there.
    """
    before, after = (
        {
            name: value
            for package, code in packages.items()
            for name, value in (
                (f"version of {package}", code.get("version")),
                *((f"code of {package}, {file}", value) for file, value in code["files"].items()),
            )
        }
        for packages in (old, new)
    )
    return [
        {"setting": name, "from": before.get(name), "to": after.get(name)}
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def _foreign_entries(names: set[str]) -> Iterator[EntryPoint]:
    """Yield the plugins of these names that are not from this project."""
    for kind in KINDS:
        if kind not in DATA_ALONE:
            installed = plugins.installed_plugins(kind)
            for name in sorted(names & installed.keys()):
                entry = installed[name]
                if entry.dist is None or entry.dist.name != OWN:
                    yield entry


def _sources_in_program(classes: Iterable[type]) -> dict[str, str]:
    """Return the hash of each class that a script or notebook defines, by its name."""
    sources = {}
    for each_class in classes:
        if each_class.__module__ == "__main__":
            try:
                source = inspect.getsource(each_class)
            except (OSError, TypeError):  # typed at a prompt: there is no source
                continue
            sources[each_class.__qualname__] = _code_hash(inspect.cleandoc(source))
    return dict(sorted(sources.items()))


@dataclass(frozen=True, slots=True)
class _Package:
    """Where the modules of one top-level package, or of a module beside others, lie."""

    folder: Path
    """The folder of the package; that which holds the module."""
    top: str
    """First part of the names of its modules; empty: modules beside each other."""

    def module(self, name: str) -> Path | None:
        """Return the file of a module of this package; None if it is not one."""
        parts = name.split(".")
        if self.top and parts.pop(0) != self.top:
            return None
        path = self.folder.joinpath(*parts)
        choices = (path.with_name(f"{path.name}.py"),) if parts else ()
        return next((file for file in (*choices, path / "__init__.py") if file.is_file()), None)


def _package_of(module: str) -> _Package | None:
    """Return the package of a module; None if its source is not to be found."""
    top = module.partition(".")[0]
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return None
    if folders := list(spec.submodule_search_locations or ()):
        return _Package(Path(folders[0]), top)
    if spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return _Package(Path(spec.origin).parent, "")


def _files_of(module: str) -> dict[str, str]:
    """Return the hash of each file of a plugin's code, by its path in the package."""
    package = _package_of(module)
    if package is None:
        return {}
    hashes: dict[str, str] = {}
    named: set[str] = set()
    begun, waiting = {module}, [module]
    while waiting:
        name = waiting.pop()
        file = package.module(name)
        if file is None:
            continue
        status = file.stat()
        source = _source(file, str(status_marks(status)))
        hashes[file.relative_to(package.folder).as_posix()] = source.hash
        named |= source.files
        is_package = file.name == "__init__.py"
        for imported in source.imports(name, is_package=is_package):
            if imported in begun or _is_of_another(imported, module, package):
                continue
            begun.add(imported)
            waiting.append(imported)
    for path in _named_files(package, named):
        hashes[path.relative_to(package.folder).as_posix()] = content_hash(path).hex()[:16]
    return dict(sorted(hashes.items()))


def _is_of_another(imported: str, module: str, package: _Package) -> bool:
    """Return True for a module in a folder of many packages that is not the plugin's own."""
    return not package.top and imported != module and bool(SHARED.search(package.folder.name))


def _named_files(package: _Package, named: set[str]) -> Iterator[Path]:
    """Yield the files of a package that its source names by their path or their last part."""
    if not package.top:
        paths = (package.folder / name for name in named)
        yield from (path for path in paths if _is_file(path) and path.suffix != ".py")
        return
    names = {name.rpartition("/")[2] for name in named}
    for path in package.folder.rglob("*"):
        if path.name in names and path.suffix != ".py" and _is_file(path):
            yield path


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a text that is no path
        return False


@dataclass(frozen=True, slots=True)
class _Source:
    """What a module's source holds."""

    hash: str
    modules: frozenset[tuple[int, str, str]]
    """Imports as (level of a relative one, module, name that is taken from it)."""
    files: frozenset[str]
    """Texts that may be paths of files."""

    def imports(self, name: str, *, is_package: bool) -> Iterator[str]:
        """Yield the full names of what the module `name` may import."""
        for level, module, taken in sorted(self.modules):
            parts = name.split(".")
            if level:
                up = level - 1 if is_package else level
                module = ".".join([*parts[: len(parts) - up], *([module] if module else [])])
            pieces = [*module.split("."), *([taken] if taken else [])]
            for length in range(1, len(pieces) + 1):
                yield ".".join(pieces[:length])


@lru_cache(maxsize=1024)
def _source(file: Path, marks: str) -> _Source:
    """Return a module's content; of a file that Python cannot parse, the hash of its bytes.

    `marks` of the file's status make an edited file another key of the cache.
    """
    del marks
    data = file.read_bytes()
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError):
        return _Source(blake2b(data, digest_size=8).hexdigest(), frozenset(), frozenset())
    modules: set[tuple[int, str, str]] = set()
    files: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {(0, alias.name, "") for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules |= {(node.level, node.module or "", alias.name) for alias in node.names}
        elif isinstance(node, ast.Constant) and NAMED_FILE.match(str(node.value)):
            files.add(str(node.value))
    return _Source(_tree_hash(tree), frozenset(modules), frozenset(files))


def _code_hash(source: str) -> str:
    return _tree_hash(ast.parse(source))


def _tree_hash(tree: ast.AST) -> str:
    """Return the hash of code without its comments and layout."""
    return blake2b(ast.dump(tree).encode(), digest_size=8).hexdigest()
