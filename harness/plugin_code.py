"""Hashes of the code of third-party plugins and of scorers, recorded to find what changed since.

A plugin's code is its module, the modules of the same package that it imports, and text files of
the package, such as prompts, if those modules' source names the file or its folder. Comments and
layout do not count. Nothing is imported: the files are read.

A scorer's code is the modules that define its functions, and those that they import. Of harness
itself only modules of tasks and metrics count.
"""

import ast
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import blake2b
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

from harness import plugins
from harness.files import content_hash, status_marks
from harness.spec import KINDS, NAME, Kind, Spec

OWN_DISTRIBUTION = "visual-reasoning-harness"
"""The distribution whose plugins are recorded by its version alone."""
SHARED_FOLDER = re.compile(r"(site|dist)-packages\Z")
"""Pattern of folders with packages of many projects, such as `…/site-packages`."""
POSSIBLE_PATH = re.compile(r"[\w .-]{1,100}(/[\w .-]{1,100}){0,5}/?\Z")
"""Pattern of a text in source that may be a path: `prompts/ask.txt`, but not `Is it red? Yes`."""
TEXT_SUFFIXES = frozenset({".txt", ".md", ".toml", ".yaml", ".yml", ".jinja", ".jinja2", ".j2"})
"""Suffixes of files that count if the source names their folder."""
MAX_BYTES = 2**26
"""Largest number of bytes of such a file; larger ones are weights, which models record."""
OWN_PACKAGE = "harness"
SCORING_PACKAGES = ("harness.metrics.", "harness.tasks.")
"""Packages of harness with the code of scorers."""
KINDS_WITHOUT_CODE: frozenset[Kind] = frozenset({"boards", "presets"})
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
        if top not in (OWN_PACKAGE, "builtins", "__main__"):
            packages.setdefault(top, {"files": {}})["files"] |= _files_of(module)
    classes = {base for an_object in objects for base in type(an_object).__mro__}
    if sources := _sources_in_program(classes):
        packages["__main__"] = {"files": sources}
    return packages


def spec_names(plain: object) -> Iterator[str]:
    """Yield the names that may name plugins, in a SPEC or in settings as plain data."""
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

    A text that is new does not count: a plugin may write into its own package.

    Returns:
        Objects `{setting, from, to}`; a file or version that one of them lacks is None there.
    """
    before, after = _by_setting(old), _by_setting(new)
    return [
        {"setting": name, "from": before.get(name), "to": after.get(name)}
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
        and (name in before or name.startswith("version of ") or name.endswith(".py"))
    ]


def scoring_code(functions: Iterable[object]) -> dict[str, str]:
    """Return the hash of each module that defines a scorer's functions, with what it imports.

    Docstrings do not count, nor functions that a script or notebook defines.

    Args:
        functions: The scorer's functions; what is not callable is left out. Functions that they
            call through `partial`, a closure or the fields of an object count too.
    """
    hashes = {module: _scorer_hash(module) for module in sorted(_modules_defining(functions))}
    return {module: hash_ for module, hash_ in hashes.items() if hash_ is not None}


def changed_scoring_code(recorded: Mapping[str, str]) -> list[str]:
    """Return the modules of a result of `scoring_code` whose installed code has another hash.

    A module that is not installed is left out: nothing is known about it.
    """
    now = {module: _scorer_hash(module) for module in recorded}
    return [module for module in sorted(now) if now[module] not in (None, recorded[module])]


def _modules_defining(functions: Iterable[object]) -> set[str]:
    """Return the modules that define functions, and those that they were made of."""
    modules: set[str] = set()
    waiting: list[Any] = [*functions]
    begun: set[int] = set()
    while waiting:
        part = waiting.pop()
        if id(part) in begun or not callable(part):
            continue
        begun.add(id(part))
        match part:
            case partial():
                waiting += [part.func, *part.args, *part.keywords.values()]
            case MethodType():
                waiting += [part.__func__, part.__self__]
            case FunctionType():
                modules.add(part.__module__)
                for cell in part.__closure__ or ():
                    with suppress(ValueError):  # not yet filled
                        waiting.append(cell.cell_contents)
            case type():
                modules.add(part.__module__)
            case _:
                modules.add(type(part).__module__)
                names = getattr(part, "__dataclass_fields__", getattr(part, "__dict__", ()))
                waiting += [getattr(part, name, None) for name in names]
    return modules


def _scorer_hash(module: str) -> str | None:
    """Return the hash of a scorer's module with those that it imports; None if it has no source."""
    package = _package_of(module)
    if package is None or (package.top == OWN_PACKAGE and not module.startswith(SCORING_PACKAGES)):
        return None
    hashes = {path: source.bare_hash for path, source in _imported_by(module, package)}
    return _hash(repr(sorted(hashes.items()))) if hashes else None


def _by_setting(packages: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the versions and hashes in a result of `plugin_code` by their names in messages."""
    values: dict[str, str | None] = {}
    for package, code in packages.items():
        values[f"version of {package}"] = code.get("version")
        values |= {f"code of {package}, {file}": hash_ for file, hash_ in code["files"].items()}
    return values


def _foreign_entries(names: set[str]) -> Iterator[EntryPoint]:
    """Yield the plugins of these names that are not from this project."""
    for kind in KINDS:
        if kind not in KINDS_WITHOUT_CODE:
            installed = plugins.installed_plugins(kind)
            for name in sorted(names & installed.keys()):
                entry = installed[name]
                if entry.dist is None or entry.dist.name != OWN_DISTRIBUTION:
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
            # A class in a function is indented; its texts may have lines that are not.
            tree = ast.parse(f"if 1:\n{source}" if source[:1].isspace() else source)
            definition = next(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
            sources[each_class.__qualname__] = _tree_hash(ast.Module([definition], []))
    return dict(sorted(sources.items()))


@dataclass(frozen=True, slots=True)
class _Package:
    """The folders of one top-level package, or the folder of a top-level module."""

    folders: tuple[Path, ...]
    """Folders of the package (a namespace package has several), or the folder with the module."""
    top: str
    """Name of the package; empty for a top-level module."""

    def module(self, name: str) -> tuple[str, Path] | None:
        """Return (path in the package, file) of a module; None if the package has no such module.

        `name` is the module's full name.
        """
        parts = name.split(".")
        if self.top and parts.pop(0) != self.top:
            return None
        paths = ["/".join([*parts, "__init__.py"])]
        if parts:
            paths.insert(0, "/".join(parts) + ".py")
        for folder in self.folders:
            for path in paths:
                if (folder / path).is_file():
                    return path, folder / path
        return None

    def texts(self, named: frozenset[str]) -> Iterator[tuple[str, Path]]:
        """Yield (path in the package, file) of the data files that its modules' source names.

        Args:
            named: Texts of the source that may be paths of files or of folders with text files.
        """
        names = {name.rstrip("/").rpartition("/")[2] for name in named} - {".", ".."}
        for folder in self.folders:
            below = folder.rglob("*") if self.top else _near(folder, names)
            for path in below:
                inside = path.relative_to(folder)
                is_named = path.name in names and path.suffix not in ("", ".py", ".pyc")
                in_named = path.suffix in TEXT_SUFFIXES and bool(
                    names.intersection(inside.parts[:-1])
                )
                if (is_named or in_named) and path.is_file() and path.stat().st_size <= MAX_BYTES:
                    yield inside.as_posix(), path


def _near(folder: Path, names: set[str]) -> Iterator[Path]:
    """Yield what lies beside a module, and in the folders there that have one of the names."""
    if not SHARED_FOLDER.search(folder.name):
        yield from folder.iterdir()
    for name in sorted(names):
        if (folder / name).is_dir():
            yield from (folder / name).iterdir()


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
        return _Package(tuple(map(Path, folders)), top)
    if spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return _Package((Path(spec.origin).parent,), "")


def _files_of(module: str) -> dict[str, str]:
    """Return the hash of each file of a plugin's code, by its path in the package."""
    package = _package_of(module)
    if package is None:
        return {}
    hashes: dict[str, str] = {}
    named: set[str] = set()
    for path, source in _imported_by(module, package):
        hashes[path] = source.hash
        named |= source.texts
    for path, file in package.texts(frozenset(named)):
        hashes[path] = content_hash(file).hex()[:16]
    return dict(sorted(hashes.items()))


def _imported_by(module: str, package: _Package) -> Iterator[tuple[str, "_Source"]]:
    """Yield (path in the package, content) of a module and of those that it imports from there."""
    parts = module.split(".")
    waiting = [".".join(parts[:length]) for length in range(1, len(parts) + 1)]  # a, a.b, a.b.c
    if package.top == OWN_PACKAGE:
        waiting = [module]
    begun = set(waiting)
    while waiting:
        name = waiting.pop()
        if (module_file := package.module(name)) is None:
            continue
        path, file = module_file
        source = _source(file, str(status_marks(file.stat())))
        yield path, source
        is_package = file.name == "__init__.py"
        for imported in source.imports(name, is_package=is_package):
            if imported in begun or _is_of_another(imported, module, package):
                continue
            begun.add(imported)
            waiting.append(imported)


def _is_of_another(imported: str, module: str, package: _Package) -> bool:
    """Return True for a module in a folder of many packages that is not the plugin's own.

    Of harness, modules that are not of scorers are such ones.
    """
    if package.top == OWN_PACKAGE:
        return not imported.startswith(SCORING_PACKAGES)
    return (
        not package.top
        and imported != module
        and bool(SHARED_FOLDER.search(package.folders[0].name))
    )


@dataclass(frozen=True, slots=True)
class _Source:
    """A module's hashes, its imports, and texts that may be paths of files."""

    hash: str
    bare_hash: str
    """Hash without docstrings, equal in all versions of Python."""
    modules: frozenset[tuple[int, str, str]]
    """Imports as (level of a relative one, module, name that is taken from it)."""
    texts: frozenset[str]
    """Texts that may be paths of files or folders."""

    def imports(self, name: str, *, is_package: bool) -> Iterator[str]:
        """Yield the full names of modules that the module `name` may import.

        `from a.b import c` may import `a`, `a.b` and `a.b.c`.
        """
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
        hash_ = blake2b(data, digest_size=8).hexdigest()
        return _Source(hash_, hash_, frozenset(), frozenset())
    modules: set[tuple[int, str, str]] = set()
    texts: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {(0, alias.name, "") for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules |= {(node.level, node.module or "", alias.name) for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts |= {node.value} if POSSIBLE_PATH.match(node.value) else set()
    bare_hash = _hash(repr(_without_docstrings(tree)))
    return _Source(_tree_hash(tree), bare_hash, frozenset(modules), frozenset(texts))


def _without_docstrings(node: object) -> object:
    """Return code as plain data without docstrings and empty fields.

    Unlike `ast.dump`, it is equal in all versions of Python: a board may be built in another one
    than that which scored its runs.
    """
    match node:
        case ast.Expr(value=ast.Constant()):
            return ()
        case ast.AST():
            parts = (
                (name, value) for name, value in ast.iter_fields(node) if value not in (None, [])
            )
            return type(node).__name__, *((name, _without_docstrings(part)) for name, part in parts)
        case list():
            return [_without_docstrings(part) for part in node]
    return node


def _tree_hash(tree: ast.AST) -> str:
    """Return the hash of code without its comments and layout."""
    return _hash(ast.dump(tree))


def _hash(text: str) -> str:
    """Return the hash of a text as 16 hexadecimal digits."""
    return blake2b(text.encode(), digest_size=8).hexdigest()
