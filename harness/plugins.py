"""Find and build plugins, built-in and third-party, the same way; each is imported when used.

A plugin is an entry point in a group `harness.<kind>` whose object is a function that builds it.
Its keyword-only parameters are the arguments of a SPEC; values are converted by their annotations,
so that a wrong type or a mistyped key is an error that names the nearest right one.
"""

import sys
import types
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from harness.card import Card
from harness.errors import (
    DataError,
    HarnessError,
    MissingDependency,
    ModelError,
    UnknownPlugin,
    UsageError,
)
from harness.spec import Kind as Kind
from harness.spec import Spec, parse

PathState: TypeAlias = tuple[tuple[str, int], ...]
OURS = "harness."
CONTRACTS: dict[Kind, tuple[str, str]] = {
    "models": ("harness.model", "Model"),
    "backends": ("harness.backend", "Chat"),
    "segmenters": ("harness.segmentation", "Segmenter"),
    "propagators": ("harness.segmentation", "Propagator"),
    "nodes": ("harness.node", "Node"),
    "trainers": ("harness.trainer", "Trainer"),
}
"""Module and name of the base class of what a plugin returns; imported when one is built."""


def installed_plugins(kind: Kind) -> dict[str, EntryPoint]:
    """Every installed plugin of this kind by name, none of them imported.

    Raises:
        UsageError: two packages bring different plugins of one name.
    """
    return dict(_installed_plugins(kind, _path_state()))


@lru_cache(maxsize=32)
def _installed_plugins(kind: Kind, state: PathState) -> dict[str, EntryPoint]:
    installed: dict[str, EntryPoint] = {}
    plugins = _read_groups(state).get(f"harness.{kind}", ())
    for entry in sorted(plugins, key=lambda entry: entry.name):
        earlier = installed.setdefault(entry.name, entry)
        if earlier.value != entry.value:
            raise UsageError(
                f"{kind.removesuffix('s')} {entry.name!r}",
                expected="one plugin of this name",
                found=f"{earlier.value} and {entry.value}",
                fix="Uninstall one of their packages.",
            )
    return installed


def groups() -> Mapping[str, tuple[EntryPoint, ...]]:
    """Return the plugins of all packages by group (`harness.<kind>`)."""
    return _read_groups(_path_state())


def _path_state() -> PathState:
    """Return the folders that packages are imported from, each with the time of its last change."""
    return tuple((folder, _changed(folder)) for folder in sys.path)


@lru_cache(maxsize=4)
def _read_groups(_: PathState) -> Mapping[str, tuple[EntryPoint, ...]]:
    # A file of every package is read. Whatever is installed or removed changes its folder's time.
    every: Any = entry_points()  # Python 3.11 has it under another name
    return {
        group: tuple(every.select(group=group)) for group in every.groups if group.startswith(OURS)
    }


def _changed(folder: str) -> int:
    try:
        return Path(folder).stat().st_mtime_ns
    except OSError:
        return 0


def load(kind: Kind, name: str) -> Any:
    """Import one plugin and return its function.

    Raises:
        UnknownPlugin: there is none; the nearest names are given.
        MissingDependency: it needs a package that is not installed.
        HarnessError: its module cannot be imported; see `plugin_errors`.
    """
    known = installed_plugins(kind)
    if name not in known:
        from difflib import get_close_matches

        near = get_close_matches(name, known, n=3, cutoff=0.4) or sorted(known)[:12]
        raise UnknownPlugin(
            f"{kind.removesuffix('s')} {name!r}",
            expected="the name of an installed plugin"
            + (", or the folder of a training" if kind == "models" else ""),
            found="none of that name",
            fix=f"Did you mean {', '.join(near)}?" if near else f"No {kind} are installed.",
        )
    with plugin_errors(f"{kind.removesuffix('s')} {name!r}", _fault(kind)):
        return known[name].load()


def data_folders(kind: Kind) -> tuple[Path, ...]:
    """Return the folders of data that plugins of a kind bring, in the order of their names.

    Raises:
        HarnessError: a plugin cannot be imported, raises, or returns no folder.
    """
    folders = []
    for name in installed_plugins(kind):
        what = f"{kind.removesuffix('s')} {name!r}"
        with plugin_errors(what, _fault(kind)):
            folders.append(Path(load(kind, name)()))
        if not folders[-1].is_dir():
            raise _fault(kind)(
                what, expected="a folder with its files", found=f"none at {folders[-1]}"
            )
    return tuple(folders)


def _fault(kind: Kind) -> type[HarnessError]:
    return DataError if kind in ("tasks", "metrics", "judges", "boards") else ModelError


@contextmanager
def plugin_errors(what: str, fault: type[HarnessError] = DataError) -> Iterator[None]:
    """Turn every exception of a plugin's code into an error that names the plugin.

    Errors of harness pass as they are; a module that is not there becomes MissingDependency.
    SystemExit is an error as well: a run that a library ends with "success" is not finished.
    """
    try:
        yield
    except HarnessError:
        raise
    except ModuleNotFoundError as error:
        raise missing_dependency(what, error) from error
    except (Exception, SystemExit) as error:
        if isinstance(error, OSError) and error.filename is not None:  # no fault of the code
            raise fault(
                what,
                expected="files that can be read",
                found=f"{error.strerror}: {str(error.filename)[:200]!r}",
            ) from error
        raise fault(
            what,
            expected="code without errors",
            found=describe_error(error),
            fix="HARNESS_TRACEBACK=1 in the environment shows the traceback.",
        ) from error


def missing_dependency(what: str, error: ModuleNotFoundError) -> MissingDependency:
    """The error for code that needs a package which is not installed."""
    known = extra(error)
    return MissingDependency(
        what,
        expected=f"the package {error.name!r}",
        found="it is not installed",
        fix=f'Install it, for example with: pip install "visual-reasoning-harness[{known}]"'
        if known
        else "Install it.",
    )


def describe_error(error: BaseException) -> str:
    """Return an error and the line that raised it, such as `KeyError: 'a' (toys.py, line 12)`."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    trace = error.__traceback__
    if trace is None or isinstance(error, HarnessError):  # which says it in words
        return text
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{text} ({Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno})"


def extra(error: ModuleNotFoundError) -> str | None:
    """The extra of ours that brings the missing module, if one does."""
    by_module = {
        "torch": "torch",
        "torchvision": "torch",
        "transformers": "torch",
        "accelerate": "torch",
        "safetensors": "torch",
        "huggingface_hub": "torch",
        "sam2": "sam2",
        "trl": "train",
        "peft": "train",
        "lmms_eval": "lmms",
        "ray": "ray",
        "rapidocr": "ocr",
        "onnxruntime": "ocr",
        "bert_score": "text",
        "pycocoevalcap": "text",
        "evaluate": "text",
    }
    return by_module.get((error.name or "").partition(".")[0])


def accepts(kind: Kind, name: str, parameter: str) -> bool:
    """Return True if a plugin has a keyword-only parameter of this name."""
    import inspect

    known = inspect.signature(load(kind, name)).parameters.get(parameter)
    return known is not None and known.kind is inspect.Parameter.KEYWORD_ONLY


def build(kind: Kind, spec: Spec | str, /, *context: object, **given: object) -> Any:
    """Build the plugin that `spec` names.

    `context` is passed as positional arguments (a task gets the data root); `given` are
    ready-made values that override the spec's.
    """
    if isinstance(spec, str):
        spec = Spec(spec)
    function = load(kind, spec.name)
    what = f"{kind.removesuffix('s')} {spec.name!r}"
    arguments, needed = _arguments(kind, spec, function)
    required = [name for name in needed if name not in arguments and name not in given]
    if required:
        raise UsageError(str(spec), expected=f"a value for {', '.join(required)}", found="none")
    with plugin_errors(what, _fault(kind)):
        plugin = function(*context, **{**arguments, **given})
    check_contract(kind, what, plugin)
    return plugin


def check_arguments(kind: Kind, spec: Spec) -> None:
    """Raise what is wrong with a SPEC's names and values, and with those of its parts.

    Nothing is built. A part is an argument named after a kind, such as `segmenter`; what a SPEC
    lacks is not looked for, as the plugin around a part may give it.
    """
    arguments, _ = _arguments(kind, spec, load(kind, spec.name))
    for part in CONTRACTS:
        value = arguments.get(part.removesuffix("s"))
        if isinstance(value, Spec):
            check_arguments(part, value)


def _arguments(kind: Kind, spec: Spec, function: Any) -> tuple[dict[str, object], list[str]]:
    """Return the SPEC's values as the plugin annotates them, and the names without a default."""
    import inspect  # slow to import, and not needed to list plugins

    with plugin_errors(f"{kind.removesuffix('s')} {spec.name!r}", _fault(kind)):
        signature = inspect.signature(function)
        hints = typing.get_type_hints(function)
    known = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    arguments: dict[str, object] = {}
    for key, value in spec.arguments.items():
        if key not in known:
            from difflib import get_close_matches

            near = get_close_matches(key, known, n=1, cutoff=0.5)
            raise UsageError(
                f"{spec.name}({key}=…)",
                expected=f"one of {', '.join(known) or 'no arguments'}",
                found=key,
                fix=f"Did you mean {near[0]}?" if near else "",
            )
        arguments[key] = convert(value, hints.get(key, Any), f"{spec.name}({key}=…)")
    empty = inspect.Parameter.empty
    return arguments, [name for name in known if signature.parameters[name].default is empty]


def check_contract(kind: Kind, what: str, plugin: object) -> None:
    """Hold an object to the declared base class of its kind, if there is one.

    Raises:
        ModelError: it does not derive from it.
    """
    if kind not in CONTRACTS:
        return
    from importlib import import_module

    module, name = CONTRACTS[kind]
    if not isinstance(plugin, getattr(import_module(module), name)):
        raise ModelError(
            what,
            expected=f"an object of a class that derives from {module}.{name}",
            found=f"{type(plugin).__module__}.{type(plugin).__qualname__}",
            fix=f"Write class {type(plugin).__name__}({module}.{name}): "
            "what it lacks has a default.",
        )


def convert(value: Any, hint: object, what: str) -> object:
    """Turn a SPEC's value into the annotated type, or raise UsageError."""
    options = get_args(hint) if _is_union(hint) else (hint,)
    if any(option is Any or isinstance(option, typing.TypeVar) for option in options):
        return value
    for option in options:
        if option is type(None) and value is None:
            return None
        if typing.get_origin(option) is Literal:
            if value in get_args(option):
                return value
            if value is None and "none" in get_args(option):
                return "none"  # the word, which a SPEC reads as the value
        if option is bool and isinstance(value, bool):
            return value
        if option is int and type(value) is int:
            return value
        if option is float and type(value) in (int, float):
            return float(value)
        if option is Spec and isinstance(value, (Spec, str)):
            return value if isinstance(value, Spec) else parse(value)
    for option in options:
        if option is str and not isinstance(value, Spec) and value is not None:
            return str(value)
        if option is Path and isinstance(value, str):
            return Path(value)
    wanted = " or ".join(_name(option) for option in options)
    raise UsageError(
        what,
        expected=wanted,
        found=repr(value) if not isinstance(value, Spec) else str(value),
        fix="For the word, write 'none' in quotes." if value is None and str in options else "",
    )


def _is_union(hint: object) -> bool:
    return isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union


def _name(option: Any) -> str:
    if typing.get_origin(option) is Literal:
        return " or ".join(map(repr, get_args(option)))
    names = {
        int: "a whole number",
        float: "a number",
        str: "text",
        bool: "true or false",
        Path: "a path",
        Spec: "a name or NAME(key=value, …)",
        type(None): "none",
    }
    return names.get(option, getattr(option, "__name__", str(option)))


def summary_of(entry: EntryPoint) -> str:
    """The first line of a plugin's docstring, read from its source without importing it."""
    import ast  # slow to import, and not needed where plugins have cards

    place = _source(entry)
    if place is None:
        return ""
    try:
        module = ast.parse(place.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return ""
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and node.name == entry.attr:
            return (ast.get_docstring(node) or "").split("\n")[0]
    return ""


def find_card(task: str) -> Card | None:
    """Return the card of an installed task; None without a task of this name, or without a card."""
    entry = installed_plugins("tasks").get(task)
    place = folder(entry) if entry is not None else None
    if place is None or not (place / "card.toml").is_file():
        return None
    return _card(place / "card.toml", (place / "card.toml").stat().st_mtime_ns)


@cache  # a board asks for it once a row
def _card(path: Path, changed: int) -> Card:
    return Card.read(path)


def folder(entry: EntryPoint) -> Path | None:
    """The folder of a plugin's module, found without importing the module itself."""
    place = _source(entry)
    return place.parent if place is not None else None


def _source(entry: EntryPoint) -> Path | None:
    try:
        spec = find_spec(entry.module)
    except (ModuleNotFoundError, ValueError):
        return None
    return Path(spec.origin) if spec is not None and spec.origin else None
