"""Find and build plugins, built-in and third-party, the same way; each is imported when used.

A plugin is an entry point in a group `harness.<kind>` whose object is a function that builds it.
Its keyword-only parameters are the arguments of a SPEC; values are converted by their annotations,
so that a wrong type or a mistyped key is an error that names the nearest right one.
"""

import os
import sys
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

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
from harness.spec import Spec, convert

if TYPE_CHECKING:
    import ast

PathState: TypeAlias = tuple[tuple[str, int], ...]
"""Folders of `sys.path` with the times (ns) of their last changes: the key of caches here."""
GROUP_PREFIX = "harness."
"""Beginning of the names of entry-point groups that are read."""
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
    """Return the installed plugins of this kind by name, none of them imported.

    Raises:
        UsageError: two packages bring different plugins of one name.
    """
    return dict(_installed_plugins(kind, _path_state()))


@lru_cache(maxsize=32)
def _installed_plugins(kind: Kind, state: PathState) -> dict[str, EntryPoint]:
    """Return a kind's plugins by name; raise UsageError if two packages define one name."""
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
        group: tuple(every.select(group=group))
        for group in every.groups
        if group.startswith(GROUP_PREFIX)
    }


def _changed(folder: str) -> int:
    try:
        return os.stat(folder or ".").st_mtime_ns  # noqa: PTH116 - a Path takes four times as long
    except OSError:
        return 0


def load(kind: Kind, name: str) -> Any:
    """Import one plugin and return its function.

    Raises:
        UnknownPlugin: there is none; the nearest names are given.
        MissingDependency: it needs a package that is not installed.
        HarnessError: its module cannot be imported; see `plugin_errors`.
    """
    installed = installed_plugins(kind)
    if name not in installed:
        from difflib import get_close_matches

        near = get_close_matches(name, installed, n=3, cutoff=0.4) or sorted(installed)[:12]
        raise UnknownPlugin(
            f"{kind.removesuffix('s')} {name!r}",
            expected="the name of an installed plugin"
            + (", or the folder of a training" if kind == "models" else ""),
            found="none of that name",
            fix=f"Did you mean {', '.join(near)}?" if near else f"No {kind} are installed.",
        )
    with plugin_errors(f"{kind.removesuffix('s')} {name!r}", _error_class(kind)):
        return installed[name].load()


def data_folders(kind: Kind) -> tuple[Path, ...]:
    """Return the folders of data that plugins of a kind bring, in the order of their names.

    Raises:
        HarnessError: a plugin cannot be imported, raises, or returns no folder.
    """
    folders = []
    for name in installed_plugins(kind):
        what = f"{kind.removesuffix('s')} {name!r}"
        with plugin_errors(what, _error_class(kind)):
            folders.append(Path(load(kind, name)()))
        if not folders[-1].is_dir():
            raise _error_class(kind)(
                what, expected="a folder with its files", found=f"none at {folders[-1]}"
            )
    return tuple(folders)


def _error_class(kind: Kind) -> type[HarnessError]:
    """Return the error for a failing plugin: DataError where it brings data, else ModelError."""
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
        if isinstance(error, OSError) and error.filename is not None:  # the files are at fault
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
    """Return the error for code that needs a package which is not installed."""
    extra_name = extra(error)
    return MissingDependency(
        what,
        expected=f"the package {error.name!r}",
        found="it is not installed",
        fix=f'Install it, for example with: pip install "visual-reasoning-harness[{extra_name}]"'
        if extra_name
        else "Install it.",
    )


def describe_error(error: BaseException) -> str:
    """Return an error and the line that raised it, such as `KeyError: 'a' (toys.py, line 12)`."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    trace = error.__traceback__
    if trace is None or isinstance(error, HarnessError):  # our errors need no place
        return text
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{text} ({Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno})"


def extra(error: ModuleNotFoundError) -> str | None:
    """Return the extra of this package that installs the missing module; None if none does."""
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

    option = inspect.signature(load(kind, name)).parameters.get(parameter)
    return option is not None and option.kind is inspect.Parameter.KEYWORD_ONLY


def build(kind: Kind, spec: Spec | str, /, *context: object, **overrides: object) -> Any:
    """Build the plugin that `spec` names.

    `context` is passed as positional arguments (a task gets the data root); `overrides`
    are ready-made values in place of the spec's.
    """
    if isinstance(spec, str):
        spec = Spec(spec)
    function = load(kind, spec.name)
    what = f"{kind.removesuffix('s')} {spec.name!r}"
    arguments, needed = _arguments(kind, spec, function)
    required = [name for name in needed if name not in arguments and name not in overrides]
    if required:
        raise UsageError(str(spec), expected=f"a value for {', '.join(required)}", found="none")
    with plugin_errors(what, _error_class(kind)):
        plugin = function(*context, **{**arguments, **overrides})
    check_contract(kind, what, plugin)
    return plugin


def check_arguments(kind: Kind, spec: Spec) -> None:
    """Check a SPEC's argument names and values, and those of its parts, without building anything.

    A part is an argument named after a kind, such as `segmenter`. Arguments that a SPEC lacks are
    not an error: the plugin around a part may give them.

    Raises:
        UsageError: an argument is unknown, or a value does not fit its annotation.
    """
    arguments, _ = _arguments(kind, spec, load(kind, spec.name))
    for part in CONTRACTS:
        value = arguments.get(part.removesuffix("s"))
        if isinstance(value, Spec):
            check_arguments(part, value)


def _arguments(kind: Kind, spec: Spec, function: Any) -> tuple[dict[str, object], list[str]]:
    """Return the SPEC's values as the plugin annotates them, and the options without a default."""
    import inspect  # slow to import, and not needed to list plugins

    with plugin_errors(f"{kind.removesuffix('s')} {spec.name!r}", _error_class(kind)):
        signature = inspect.signature(function)
        hints = typing.get_type_hints(function)
    names = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    arguments: dict[str, object] = {}
    for key, value in spec.arguments.items():
        if key not in names:
            from difflib import get_close_matches

            near = get_close_matches(key, names, n=1, cutoff=0.5)
            raise UsageError(
                f"{spec.name}({key}=…)",
                expected=f"one of {', '.join(names) or 'no arguments'}",
                found=key,
                fix=f"Did you mean {near[0]}?" if near else "",
            )
        arguments[key] = convert(value, hints.get(key, Any), f"{spec.name}({key}=…)")
    empty = inspect.Parameter.empty
    return arguments, [name for name in names if signature.parameters[name].default is empty]


def check_contract(kind: Kind, what: str, plugin: object) -> None:
    """Raise ModelError if a built plugin does not derive from its kind's class in `CONTRACTS`."""
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


def summary_of(entry: EntryPoint) -> str:
    """Return the first line of a plugin's docstring, read from its source without importing it."""
    import ast  # slow to import, and not needed where plugins have cards

    for node in _statements(entry):
        if isinstance(node, ast.FunctionDef) and node.name == entry.attr:
            return (ast.get_docstring(node) or "").split("\n")[0]
    return ""


def _statements(entry: EntryPoint) -> "list[ast.stmt]":
    """Return the statements of a plugin's module; none where it has no source that can be read."""
    import ast

    source_path = _source(entry)
    if source_path is None:
        return []
    try:
        return ast.parse(source_path.read_text(encoding="utf-8")).body
    except (OSError, SyntaxError, UnicodeDecodeError):
        return []


def find_card(task: str) -> Card | None:
    """Return the card of an installed task; None without a task of this name, or without a card."""
    state = _path_state()
    entry = _installed_plugins("tasks", state).get(task)
    card_path = None if entry is None else _card_path(entry, state)
    if card_path is None or not card_path.is_file():
        return None
    return _card(card_path, card_path.stat().st_mtime_ns, entry)


@lru_cache(maxsize=256)  # a board asks for it once a row
def _card_path(entry: EntryPoint, state: PathState) -> Path | None:
    plugin_folder = folder(entry)
    return None if plugin_folder is None else plugin_folder / "card.toml"


@cache
def _card(path: Path, changed: int, entry: EntryPoint) -> Card:
    card = Card.read(path)
    if card.default_split:
        return card
    return replace(card, default_split=_default_split(entry) or next(iter(card.splits), ""))


def _default_split(entry: EntryPoint) -> str:
    """Return the default of a task's `split`, read from its source; empty if it has no text there.

    It may be a text or a name of the module.
    """
    import ast

    values: dict[str, ast.expr | None] = {}
    default: ast.expr | None = None
    for node in _statements(entry):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            values |= {ast.unparse(target): node.value for target in targets}
        elif isinstance(node, ast.FunctionDef) and node.name == entry.attr:
            options = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            default = next((value for option, value in options if option.arg == "split"), None)
    if isinstance(default, ast.Name):
        default = values.get(default.id)
    value = default.value if isinstance(default, ast.Constant) else None
    return value if isinstance(value, str) else ""


def folder(entry: EntryPoint) -> Path | None:
    """Return the folder of a plugin's module, found without importing the module itself."""
    source_path = _source(entry)
    return source_path.parent if source_path is not None else None


def _source(entry: EntryPoint) -> Path | None:
    try:
        spec = find_spec(entry.module)
    except (ModuleNotFoundError, ValueError):
        return None
    return Path(spec.origin) if spec is not None and spec.origin else None
