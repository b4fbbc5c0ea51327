"""Settings of `--model` from its checkpoint: those of the training, unless the SPEC has others."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from harness import checkpoint_config, plugins
from harness.errors import HarnessError
from harness.models.backends import adapters, checkpoint
from harness.responses import storable
from harness.spec import Spec, Value

NETWORK = ("backend", "chat")
"""Arguments whose SPEC names the VLM that answers. A segmenter or a sampler has a checkpoint too,
but its training does not decide how the VLM is prompted."""
READER = "model"
"""Argument by which a model, such as `replay`, names another model that reads its responses."""
SHOWN = 600  # characters of arguments that a note shows


class CheckpointSettings(NamedTuple):
    """Settings that a checkpoint has and the SPEC lacks."""

    weights: str = ""
    """Argument that names the weights."""
    added: Mapping[str, Value] = {}
    lacking: Mapping[str, Value] = {}
    """Arguments that the model does not take."""


def as_trained(spec: Spec) -> Spec:
    """Return the SPEC with the settings that it lacks, as the checkpoint of its VLM carries them.

    Settings equal to the model's defaults are left out. The same is done for a model in it that
    reads responses.
    """
    reader = spec.arguments.get(READER)
    read = {READER: as_trained(reader)} if isinstance(reader, Spec) else {}
    return Spec(spec.name, {**spec.arguments, **read, **_checkpoint_settings(spec).added})


def settings_notes(spec: Spec) -> Iterator[str]:
    """Yield what `as_trained` adds to a SPEC, in words."""
    reader = spec.arguments.get(READER)
    if isinstance(reader, Spec):
        yield from settings_notes(reader)
    weights, added, lacking = _checkpoint_settings(spec)
    text = []
    if added:
        text += [
            f"is asked as in its training, with {_as_typed(added)}",
            "give these arguments in the SPEC to ask otherwise",
        ]
    if lacking:
        text += [
            f"is asked without its training's {_as_typed(lacking)}, which {spec.name} does not take"
        ]
    if text:
        yield f"{spec.name} with the {weights} {'; '.join(text)}"


def _as_typed(arguments: Mapping[str, Value]) -> str:
    """Format arguments as typed, on one line of a terminal: a file may hold anything."""
    folded = " ".join(str(Spec("x", arguments))[2:-1].split())
    plain = "".join(char if char.isprintable() else "\ufffd" for char in folded)
    return storable(plain, SHOWN)


def _checkpoint_settings(spec: Spec) -> CheckpointSettings:
    """Return what a checkpoint has and the SPEC lacks: what the model takes, and the rest."""
    weights, known = _config(spec)
    if known is None or known.name != spec.name:
        return CheckpointSettings(weights)
    missing = {
        key: value
        for key, value in checkpoint_config.unusual(known).arguments.items()
        if not _has_argument(spec, key)
    }
    taken = {key for key in missing if plugins.accepts("models", spec.name, key)}
    return CheckpointSettings(
        weights,
        {key: value for key, value in missing.items() if key in taken},
        {key: value for key, value in missing.items() if key not in taken},
    )


def _has_argument(spec: Spec, key: str) -> bool:
    """Return True if a SPEC gives an argument, or a rule for frames that sets their pixels."""
    ruled = key == "pixels" and isinstance(spec.arguments.get("frames"), (Spec, str))
    return ruled or key in spec.arguments


def _innermost(spec: Spec, name: str) -> Value:
    """Return an argument of the innermost SPEC of the VLM that a SPEC names."""
    for part in NETWORK:
        inner = spec.arguments.get(part)
        if isinstance(inner, Spec) and (value := _innermost(inner, name)) is not None:
            return value
    return spec.arguments.get(name)


def _config(spec: Spec) -> tuple[str, Spec | None]:
    """Return the argument that names the weights, and the model that they carry settings for.

    An adapter was trained after its base and takes precedence. Shipped weights carry none. None
    without settings.
    """
    for name in ("adapter", "checkpoint"):
        named, revision = _innermost(spec, name), _innermost(spec, "revision")
        if named is None or isinstance(named, Spec):
            continue
        folder = _folder(name, str(named), None if revision is None else str(revision))
        if folder is not None and (known := checkpoint_config.read(folder)) is not None:
            return f"{name} {named}", known
    return "", None


def _folder(kind: str, named: str, revision: str | None) -> Path | None:
    """Return the folder that a backend finds; None where there is none: the backend reports it."""
    if kind == "checkpoint" and named in checkpoint.SHIPPED:
        return None
    try:
        if kind == "adapter":
            return adapters.folder_of(named)
        return checkpoint.find(named, revision=revision)
    except (HarnessError, OSError, RuntimeError, ValueError):  # no home, no such path
        return None
