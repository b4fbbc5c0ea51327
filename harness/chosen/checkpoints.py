"""Choice of the model that evaluates a checkpoint: SPECs with the checkpoint put in."""

import inspect
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from harness import plugins
from harness.chosen.names import spelled_out
from harness.errors import UsageError
from harness.models.default_parts import default_propagator, default_segmenter
from harness.spec import Spec, parse
from harness.types import AnswerForm

HERE = "{checkpoint}"
"""Placeholder in `--eval-model` for the checkpoint of the training."""
PARTS: Mapping[str, plugins.Kind] = {"segmenter": "segmenters", "propagator": "propagators"}
"""Arguments of models that are plugins, and can be made before anything is trained."""
IMAGES, VIDEOS = frozenset({AnswerForm.MASK}), frozenset({AnswerForm.MASK_TRACK})


def evaluated_by(text: str | None) -> Spec | None:
    """Return the SPEC of `--eval-model`; raise UsageError if it has no place for the checkpoint."""
    if text is None:
        return None
    spec = spelled_out(parse(text))
    if fill_checkpoint(spec, "") == spec:
        raise UsageError(
            f"--eval-model {text}",
            expected="a model with {checkpoint} in the place of what was trained",
            found="none in it",
            fix=f"Such as {spec.name}(checkpoint={{checkpoint}}).",
        )
    return spec


def fill_checkpoint(spec: Spec, checkpoint: str) -> Spec:
    """Return the SPEC with a checkpoint in place of `{checkpoint}`, at any depth.

    >>> str(fill_checkpoint(parse("qwen_vl(backend=vllm(checkpoint={checkpoint}))"), "DIR"))
    'qwen_vl(backend=vllm(checkpoint=DIR))'
    """
    return replace(
        spec,
        arguments={
            key: fill_checkpoint(value, checkpoint)
            if isinstance(value, Spec)
            else checkpoint
            if value == HERE
            else value
            for key, value in spec.arguments.items()
        },
    )


def check_network(spec: Spec) -> None:
    """Raise UsageError if the network that a model asks needs a checkpoint, and none is given."""
    parameters = inspect.signature(plugins.load("models", spec.name)).parameters
    usual = {name: option.default for name, option in parameters.items()}
    given = {**usual, **spec.arguments}
    backend = given.get("backend")
    backend = parse(backend) if isinstance(backend, str) else backend
    if given.get("checkpoint", "") is not None or not isinstance(backend, Spec):
        return
    wanted = inspect.signature(plugins.load("backends", backend.name)).parameters.get("checkpoint")
    if wanted is None or wanted.default is not wanted.empty or "checkpoint" in backend.arguments:
        return
    raise UsageError(
        f"model {spec}",
        expected="a value for checkpoint, a folder or a name on the Hugging Face hub",
        found="none",
        fix="docs/models.md names published ones, such as Qwen/Qwen2.5-VL-7B-Instruct.",
    )


def check_parts(spec: Spec) -> None:
    """Make the parts of a model that exist before its checkpoint; raise what is wrong with them."""
    plugins.load("models", spec.name)
    for key, value in spec.arguments.items():
        if not plugins.accepts("models", spec.name, key):
            raise UsageError(
                f"--eval-model {spec}", expected=f"arguments of {spec.name}", found=key
            )
        if key in PARTS and isinstance(value, (Spec, str)):
            plugins.build(PARTS[key], parse(str(value)))


def check_default_parts(spec: Spec, forms: frozenset[AnswerForm]) -> None:
    """Raise UsageError for a part that forms of answer need and `lacking_parts` lists."""
    for reason in lacking_parts(spec, forms).values():
        raise UsageError(reason)


def lacking_parts(spec: Spec, forms: frozenset[AnswerForm]) -> dict[str, str]:
    """Return the parts that forms of answer need, and neither a model's SPEC nor its paper gives.

    Each has the reason, and what to choose.
    """
    parameters = inspect.signature(plugins.load("models", spec.name)).parameters
    given = {**{name: option.default for name, option in parameters.items()}, **spec.arguments}
    needed, lacking = {"segmenter": IMAGES | VIDEOS, "propagator": VIDEOS}, {}
    for name, served in needed.items():
        if not forms & served or given.get(name, "") is not None or given.get("sam2"):
            continue
        part = (
            default_propagator(spec.name)
            if name == "propagator"
            else default_segmenter(spec.name, **given)
        )
        if part.missing:
            lacking[name] = part.missing
    return lacking


def with_checkpoint(spec: Spec, folder: Path) -> Spec:
    """The same model with another checkpoint: its backend's if that names one, else its own.

    Parts that are not trained keep theirs. Raises UsageError if it has none.
    """
    backend = spec.arguments.get("backend")
    if isinstance(backend, Spec) and "checkpoint" in backend.arguments:
        inner = replace(backend, arguments={**backend.arguments, "checkpoint": str(folder)})
        return replace(spec, arguments={**spec.arguments, "backend": inner})
    if not plugins.accepts("models", spec.name, "checkpoint"):
        raise UsageError(
            f"model {spec}", expected="a model with a checkpoint to evaluate", found="one without"
        )
    return replace(spec, arguments={**spec.arguments, "checkpoint": str(folder)})
