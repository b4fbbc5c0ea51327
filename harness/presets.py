r"""Presets: short names of published models with all their parts, in TOML files.

    [visionreasoner-7b]
    model = "visionreasoner(checkpoint=Ricky06662/VisionReasoner-7B,segmenter=sam2(…),…)"
    about = "VisionReasoner with SAM 2, on images"
    task = "reason_seg"                   # a task that it is for
    revision = "0123abc…"                 # optional: the commit of its network on the hub

`visionreasoner-7b(batch_size=4)` changes an argument; one that only the backend has, such as
`max_pixels`, is passed to it. An argument `{checkpoint}` is a slot: the user must give its value.
`resolve` replaces a preset by its SPEC wherever a model is named, so that runs, records and boards
hold the SPEC.

A package brings presets by an entry point in `harness.presets`: a function that returns a folder
of such files.
"""

import inspect
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path

from harness import plugins
from harness.errors import DataError, HarnessError, UnknownPlugin, UsageError
from harness.spec import Spec, Value, parse

FOLDER = Path(str(files("harness.models"))) / "presets"
SLOT = re.compile(r"\{(\w+)\}\Z")
"""Pattern of a slot, such as `{checkpoint}`: an argument whose value the user must give."""
MODEL_ARGUMENTS = ("base", "model")
"""Arguments of a model that name another model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A model with all its parts."""

    name: str
    model: Spec
    about: str
    task: str
    """A task that it is for."""
    revision: str = ""
    """The commit of the network's weights on the hub; empty where none is known."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the arguments that the user must give."""
        return tuple(slot for value in _values(self.model) if (slot := _slot(value)))

    def with_arguments(self, arguments: Mapping[str, Value]) -> Spec:
        """Return the preset's SPEC, with these arguments in its slots or replacing its arguments.

        Raises:
            UsageError: an argument in `needs` is missing.
        """
        if missing := [name for name in self.needs if name not in arguments]:
            example = ",".join(f"{name}=…" for name in missing)
            raise UsageError(
                f"preset {self.name}",
                expected=f"a value for {', '.join(missing)}",
                found="none",
                fix=f"{self.about}. Type {self.name}({example})",
            )
        other_arguments = {
            name: value for name, value in arguments.items() if name not in self.needs
        }
        if isinstance(self.model.arguments.get("base"), Spec) and "base" not in arguments:
            other_arguments.pop("revision", None)  # it is the base's
        spec = changed(_filled(self.model, arguments), other_arguments)
        revision = str(arguments.get("revision", self.revision))
        # The preset's commit is one of its own network, not of a network that the user gives.
        is_other_network = not {"checkpoint", *MODEL_ARGUMENTS}.isdisjoint(arguments)
        return spec if is_other_network or not revision else _pinned(spec, revision)


def presets() -> Mapping[str, Preset]:
    """Return the presets of harness and of installed packages by name.

    Raises:
        DataError: a file is not in the form, or two presets, or a preset and a model, have one
            name.
        ModelError: a plugin cannot be imported, raises, or returns no folder.
    """
    return _read((FOLDER, *plugins.data_folders("presets")))


def preset(name: str) -> Preset:
    """Return a preset by its name.

    Raises:
        UnknownPlugin: there is none; the nearest names are given.
    """
    presets_by_name = presets()
    if name not in presets_by_name:
        every = [*presets_by_name, *plugins.installed_plugins("models")]
        near = get_close_matches(name, every, n=3, cutoff=0.4) or sorted(presets_by_name)[:3]
        raise UnknownPlugin(
            f"model {name!r}",
            expected="the name of a model or a preset, or a checkpoint's folder or name",
            found="none of that name",
            fix=f"Did you mean {', '.join(near)}? See `harness list presets` and `models`.",
        )
    return presets_by_name[name]


def resolve(spec: Spec) -> Spec:
    """Return a model's SPEC in which presets are replaced by the SPECs that they stand for.

    The model itself may be a preset, and so may the models in its arguments `MODEL_ARGUMENTS`.
    """
    by_name = presets()
    arguments = dict(spec.arguments)
    for name in MODEL_ARGUMENTS:
        value = arguments.get(name)
        if isinstance(value, (Spec, str)) and _spec(value).name in by_name:
            arguments[name] = resolve(_spec(value))
    preset = by_name.get(spec.name)
    return Spec(spec.name, arguments) if preset is None else preset.with_arguments(arguments)


def of_checkpoint(checkpoint: str) -> tuple[Preset, ...]:
    """Return the presets whose network is this checkpoint."""
    return tuple(
        preset
        for preset in presets().values()
        if preset.model.arguments.get("checkpoint") == checkpoint
    )


@cache
def _read(folders: tuple[Path, ...]) -> Mapping[str, Preset]:
    """Return the presets of all TOML files in folders; raise DataError for a malformed file."""
    by_name: dict[str, Preset] = {}
    models = plugins.installed_plugins("models")
    for path in (path for folder in folders for path in sorted(folder.glob("*.toml"))):
        try:
            for name, plain in tomllib.loads(path.read_text(encoding="utf-8")).items():
                preset = Preset(name=name, **{**plain, "model": parse(plain["model"])})
                if name in models or name in by_name:
                    raise ValueError(f"{name} is the name of another preset or model")
                by_name[name] = preset
        except (OSError, ValueError, KeyError, TypeError, HarnessError) as error:
            raise DataError(
                f"presets {path}",
                expected="the form in harness/presets.py",
                found=f"{type(error).__name__}: {error}",
            ) from error
    return by_name


def _spec(value: Spec | str) -> Spec:
    """Return an argument's value as a SPEC; a text that is not a SPEC gives one without a name."""
    if isinstance(value, Spec):
        return value
    try:
        return parse(value)
    except UsageError:
        return Spec("")


def _values(spec: Spec) -> Iterator[Value]:
    """Yield the values of a SPEC's arguments, of inner SPECs too."""
    for value in spec.arguments.values():
        if isinstance(value, Spec):
            yield from _values(value)
        else:
            yield value


def _slot(value: Value) -> str:
    """Return the name in a slot; empty: the value is not a slot."""
    match = SLOT.match(value) if isinstance(value, str) else None
    return match[1] if match else ""


def _filled(spec: Spec, arguments: Mapping[str, Value]) -> Spec:
    """Return a SPEC in which each slot is replaced by the argument of its name."""

    def fill(value: Value) -> Value:
        if isinstance(value, Spec):
            return _filled(value, arguments)
        return arguments[slot] if (slot := _slot(value)) else value

    return Spec(spec.name, {name: fill(value) for name, value in spec.arguments.items()})


def changed(spec: Spec, changes: Mapping[str, Value]) -> Spec:
    """Return a SPEC with changed arguments; those that only its backend has are passed to it."""
    arguments = dict(spec.arguments)
    # Another backend comes first: it has the arguments that are passed to it.
    for name, value in sorted(changes.items(), key=lambda change: change[0] != "backend"):
        backend = _backend(Spec(spec.name, arguments))
        if name in arguments or plugins.accepts("models", spec.name, name):
            arguments[name] = value
        elif backend and plugins.accepts("backends", backend.name, name):
            arguments["backend"] = Spec(backend.name, {**backend.arguments, name: value})
        else:
            arguments[name] = value  # which the model refuses, naming the nearest
    return Spec(spec.name, arguments)


def _pinned(spec: Spec, revision: str) -> Spec:
    """Return a SPEC whose backend loads this commit, if it loads a checkpoint."""
    if isinstance(base := spec.arguments.get("base"), Spec):
        return Spec(spec.name, {**spec.arguments, "base": _pinned(base, revision)})
    backend = _backend(spec)
    takes_revision = backend and plugins.accepts("backends", backend.name, "revision")
    is_pinned = backend is not None and "revision" in backend.arguments
    return changed(spec, {"revision": revision}) if takes_revision and not is_pinned else spec


def _backend(spec: Spec) -> Spec | None:
    """Return the backend that a model's SPEC names or has by default; None for other values."""
    value = spec.arguments.get("backend") or usual_backend(spec.name)
    backend = _spec(value) if isinstance(value, (Spec, str)) else None
    return backend if backend and backend.name in plugins.installed_plugins("backends") else None


def usual_backend(model: str) -> Value:
    """Return the default of a model's `backend`; None if it has none."""
    parameters = inspect.signature(plugins.load("models", model)).parameters
    usual: Value = parameters["backend"].default if "backend" in parameters else None
    return usual
