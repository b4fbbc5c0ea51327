"""The model that evaluates a training's checkpoints (`harness train --eval-tasks`), as a SPEC.

Before the training the SPEC is checked without a checkpoint; later each checkpoint's folder is put
into it.
"""

import inspect
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from harness import plugins
from harness.chosen.names import spelled_out
from harness.errors import UsageError
from harness.models.default_parts import default_propagator, default_segmenter
from harness.spec import Spec, Value, parse
from harness.types import AnswerForm

CHECKPOINT_PLACEHOLDER = "{checkpoint}"
"""Placeholder in `--eval-model` for the checkpoint of the training."""
KIND_OF_PART: Mapping[str, plugins.Kind] = {"segmenter": "segmenters", "propagator": "propagators"}
"""Arguments of models that are plugins of these kinds; they do not depend on the checkpoint."""
FORMS_OF_PART = {
    "segmenter": frozenset({AnswerForm.MASK, AnswerForm.MASK_TRACK}),
    "propagator": frozenset({AnswerForm.MASK_TRACK}),
}
"""The forms of answer that need each part."""


def parse_eval_model(text: str | None) -> Spec | None:
    """Return the SPEC of `--eval-model`; raise UsageError if it does not name `{checkpoint}`."""
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

    def filled(value: Value) -> Value:
        if isinstance(value, Spec):
            return fill_checkpoint(value, checkpoint)
        return checkpoint if value == CHECKPOINT_PLACEHOLDER else value

    return replace(spec, arguments={key: filled(value) for key, value in spec.arguments.items()})


def check_network(spec: Spec) -> None:
    """Raise UsageError if a model's backend requires a checkpoint and the SPEC gives none."""
    arguments = _with_defaults(spec)
    backend = arguments.get("backend")
    backend = parse(backend) if isinstance(backend, str) else backend
    if not _is_unset(arguments, "checkpoint") or not isinstance(backend, Spec):
        return
    parameters = inspect.signature(plugins.load("backends", backend.name)).parameters
    checkpoint = parameters.get("checkpoint")
    is_required = checkpoint is not None and checkpoint.default is checkpoint.empty
    if not is_required or "checkpoint" in backend.arguments:
        return
    raise UsageError(
        f"model {spec}",
        expected="a value for checkpoint, a folder or a name on the Hugging Face hub",
        found="none",
        fix="docs/models.md names published ones, such as Qwen/Qwen2.5-VL-7B-Instruct.",
    )


def _with_defaults(spec: Spec) -> dict[str, Value]:
    """Return the arguments of a model's SPEC and the defaults of those that it does not give."""
    parameters = inspect.signature(plugins.load("models", spec.name)).parameters
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    return {**defaults, **spec.arguments}


def _is_unset(arguments: Mapping[str, Value], name: str) -> bool:
    """Return True if a model has an argument `name`, and its value is None."""
    return name in arguments and arguments[name] is None


def check_parts(spec: Spec) -> None:
    """Build the parts of an `--eval-model` as a check, before its checkpoint exists.

    Raises:
        UsageError: the model does not take an argument.
        HarnessError: a part cannot be built.
    """
    plugins.load("models", spec.name)
    for key, value in spec.arguments.items():
        if not plugins.accepts("models", spec.name, key):
            raise UsageError(
                f"--eval-model {spec}", expected=f"arguments of {spec.name}", found=key
            )
        if key in KIND_OF_PART and isinstance(value, (Spec, str)):
            plugins.build(KIND_OF_PART[key], parse(str(value)))


def check_default_parts(spec: Spec, forms: frozenset[AnswerForm]) -> None:
    """Raise UsageError with the first reason of `lacking_parts`, if any."""
    for reason in lacking_parts(spec, forms).values():
        raise UsageError(reason)


def lacking_parts(spec: Spec, forms: frozenset[AnswerForm]) -> dict[str, str]:
    """Return the parts that `forms` need and neither the SPEC nor the model's paper names.

    The values are messages: why the part is missing, and which can be chosen.
    """
    arguments = _with_defaults(spec)
    lacking = {}
    for name, forms_that_need_it in FORMS_OF_PART.items():
        # `sam2=WEIGHTS` of VisionReasoner and Seg-Zero is short for a segmenter.
        is_short = name == "segmenter" and bool(arguments.get("sam2"))
        is_given = is_short or not _is_unset(arguments, name)
        if is_given or not forms & forms_that_need_it:
            continue
        part = (
            default_propagator(spec.name)
            if name == "propagator"
            else default_segmenter(spec.name, **arguments)
        )
        if part.missing:
            lacking[name] = part.missing
    return lacking


def with_checkpoint(spec: Spec, folder: Path) -> Spec:
    """Return the SPEC with a trained checkpoint in place of its own.

    It replaces the backend's `checkpoint` if the SPEC has one there, else the model's. Checkpoints
    of other parts, such as a segmenter, stay.

    Raises:
        UsageError: the model takes no checkpoint.
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
