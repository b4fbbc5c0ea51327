"""Settings that a trained checkpoint carries, such as its prompt, put into a SPEC of `--model`.

They make the model prompt a checkpoint as in its training. An argument of the SPEC overrides them.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from harness import checkpoint_config, plugins
from harness.errors import HarnessError
from harness.models.backends import adapters, checkpoint
from harness.responses import storable
from harness.spec import Spec, Value

NETWORK_ARGUMENTS = ("backend", "chat")
"""Arguments whose SPEC names the VLM that answers. A segmenter or a sampler has a checkpoint too,
but its training does not decide how the VLM is prompted."""
READER_ARGUMENT = "model"
"""Argument by which a model, such as `replay`, names another model that reads its responses."""
MAX_SHOWN = 600  # characters of arguments in a note, as a prompt may be long


class CheckpointSettings(NamedTuple):
    """Settings that a checkpoint carries and the SPEC does not give."""

    weights: str = ""
    """The argument that names the weights, as `checkpoint DIR` or `adapter DIR`."""
    added: Mapping[str, Value] = {}
    """Settings that the model takes."""
    lacking: Mapping[str, Value] = {}
    """Settings that the model does not take."""


def as_trained(spec: Spec) -> Spec:
    """Return the SPEC with those settings of its VLM's checkpoint that the SPEC does not give.

    Settings equal to the model's defaults are left out. The model in `READER_ARGUMENT` gets its
    own checkpoint's settings.
    """
    reader = spec.arguments.get(READER_ARGUMENT)
    with_reader = {READER_ARGUMENT: as_trained(reader)} if isinstance(reader, Spec) else {}
    return Spec(spec.name, {**spec.arguments, **with_reader, **_checkpoint_settings(spec).added})


def settings_notes(spec: Spec) -> Iterator[str]:
    """Yield a sentence for the user on the settings that `as_trained` adds or cannot add."""
    reader = spec.arguments.get(READER_ARGUMENT)
    if isinstance(reader, Spec):
        yield from settings_notes(reader)
    weights, added, lacking = _checkpoint_settings(spec)
    text = []
    if added:
        text += [
            f"gets the settings of its training: {_as_typed(added)}",
            "to change them, give these arguments in the SPEC",
        ]
    if lacking:
        text += [f"lacks its training's {_as_typed(lacking)}, which {spec.name} does not take"]
    if text:
        yield f"{spec.name} with the {weights} {'; '.join(text)}"


def _as_typed(arguments: Mapping[str, Value]) -> str:
    """Format arguments as typed, `a=1,b=2`, on one line and safe for a terminal."""
    as_spec = str(Spec("x", arguments)).removeprefix("x(").removesuffix(")")
    one_line = " ".join(as_spec.split())
    printable = "".join(char if char.isprintable() else "\ufffd" for char in one_line)
    return storable(printable, MAX_SHOWN)


def _checkpoint_settings(spec: Spec) -> CheckpointSettings:
    """Return the settings that a SPEC's checkpoint carries for its model and the SPEC omits."""
    weights, carried = _config(spec)
    if carried is None or carried.name != spec.name:
        return CheckpointSettings(weights)
    missing = {
        key: value
        for key, value in checkpoint_config.without_defaults(carried).arguments.items()
        if not _has_argument(spec, key)
    }
    taken = {key for key in missing if plugins.accepts("models", spec.name, key)}
    return CheckpointSettings(
        weights,
        {key: value for key, value in missing.items() if key in taken},
        {key: value for key, value in missing.items() if key not in taken},
    )


def _has_argument(spec: Spec, key: str) -> bool:
    """Return True if a SPEC gives an argument; a rule for `frames` also decides their `pixels`."""
    is_in_rule = key == "pixels" and isinstance(spec.arguments.get("frames"), (Spec, str))
    return is_in_rule or key in spec.arguments


def _innermost(spec: Spec, name: str) -> Value:
    """Return an argument of the SPEC in `NETWORK_ARGUMENTS` if that gives it, else of `spec`."""
    for part in NETWORK_ARGUMENTS:
        inner = spec.arguments.get(part)
        if isinstance(inner, Spec) and (value := _innermost(inner, name)) is not None:
            return value
    return spec.arguments.get(name)


def _config(spec: Spec) -> tuple[str, Spec | None]:
    """Return (`adapter DIR` or `checkpoint DIR`, the SPEC with the settings that it carries).

    An adapter was trained after its base and takes precedence. ("", None) without settings.
    """
    for name in ("adapter", "checkpoint"):
        weights, revision = _innermost(spec, name), _innermost(spec, "revision")
        if weights is None or isinstance(weights, Spec):
            continue
        folder = _folder(name, str(weights), None if revision is None else str(revision))
        if folder is not None and (carried := checkpoint_config.read(folder)) is not None:
            return f"{name} {weights}", carried
    return "", None


def _folder(argument: str, weights: str, revision: str | None) -> Path | None:
    """Return the folder of weights; None for shipped ones, which carry no settings.

    None also if there is no such folder: the backend reports that.
    """
    if argument == "checkpoint" and weights in checkpoint.SHIPPED:
        return None
    try:
        if argument == "adapter":
            return adapters.folder_of(weights)
        return checkpoint.find(weights, revision=revision)
    except (HarnessError, OSError, RuntimeError, ValueError):  # no home, no such path
        return None
