"""A checkpoint that was trained here is asked as its training asked it, unless told otherwise.

The record is the training's manifest: its `eval_model` if that is the same model, else its `model`.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.cli.ask import specs
from harness.errors import HarnessError
from harness.run.origin import INSIDE, MANIFEST
from harness.run.trained import FIELDS, VERSION
from harness.spec import Spec, Value, parse
from harness.store.atomic import read_json
from harness.trainer import CHECKPOINT

TAKEN = frozenset({
    "form", "prompt", "system", "think", "map", "graph", "second_try",
    "canvas", "context", "frames", "pixels", "keyframe", "max_new_tokens",
    "references", "reference_frames", "key_frames", "key_segment", "target_frame",
})  # fmt: skip
"""What is asked, what is shown, and how long a reply may be. What calls the network, carries out
its answer or names a program or a file is for the one who evaluates to say."""
LARGEST = 4 * 2**20
"""Bytes of a manifest that is looked at; ours have some ten thousand."""


def asked_models(texts: Sequence[str] | None, *, tell: bool) -> list[Spec]:
    """The SPECs of `--model`, each with what the training of its checkpoint adds.

    Args:
        texts: As typed.
        tell: Whether to say on standard error what was added.
    """
    given = specs(texts, "--model")
    if tell:
        for note in dict.fromkeys(note for spec in given if (note := _note(spec))):
            print(f"note: {note}", file=sys.stderr)
    return [as_trained(spec) for spec in given]


def as_trained(spec: Spec) -> Spec:
    """The SPEC, with arguments that it does not name as the training of its checkpoint had them."""
    return Spec(spec.name, {**spec.arguments, **_added(spec)})


def _note(spec: Spec) -> str:
    added = _added(spec)
    if not added:
        return ""
    shown = str(Spec(spec.name, added))[len(spec.name) + 1 : -1]
    return (f"{spec.name} with the checkpoint {_checkpoint(spec)} is asked as in its training, "
            f"with {shown}; give these arguments in the SPEC to ask otherwise")  # fmt: skip


def _added(spec: Spec) -> dict[str, Value]:
    """What the record has and the SPEC does not name; empty where there is no such record."""
    checkpoint = _checkpoint(spec)
    manifest = None if checkpoint is None else _manifest(checkpoint)
    recorded = None if manifest is None else _recorded(manifest, spec.name)
    return {} if recorded is None else {
        key: value for key, value in recorded.arguments.items()
        if key in TAKEN and key not in spec.arguments
    }  # fmt: skip


def _checkpoint(spec: Spec) -> Path | None:
    """The folder that a model's SPEC names as its own checkpoint, or as its backend's."""
    backend = spec.arguments.get("backend")
    for one in (spec, backend):
        named = one.arguments.get("checkpoint") if isinstance(one, Spec) else None
        if isinstance(named, (str, int)):
            return Path(str(named))
    return None


def _manifest(checkpoint: Path) -> dict[str, Any] | None:
    """The manifest of the training that made a checkpoint; None where none of ours is there.

    Args:
        checkpoint: A training's folder, the checkpoint in it, or a copy of either.
    """
    try:
        folder = checkpoint.expanduser()
        paths = [folder / CHECKPOINT / INSIDE, folder / INSIDE, folder / MANIFEST]
        if folder.name == CHECKPOINT:
            paths.append(folder.parent / MANIFEST)
        path = next((path for path in paths if path.is_file()), None)
        if path is None or path.stat().st_size > LARGEST:
            return None
        plain = read_json(path)
    except (HarnessError, OSError, RuntimeError, ValueError):  # no home, no such path, no JSON
        return None
    ours = isinstance(plain, dict) and all(name in plain for name in FIELDS)
    return plain if ours and plain["version"] == VERSION else None


def _recorded(manifest: dict[str, Any], name: str) -> Spec | None:
    """The SPEC by which the training evaluates this model, or trains it; None for other models."""
    model = manifest["model"]
    for text in (
        manifest.get("eval_model"),
        model.get("spec") if isinstance(model, dict) else None,
    ):
        if not isinstance(text, str):
            continue
        try:
            spec = parse(text)
        except HarnessError:
            continue
        if spec.name == name:
            return spec
    return None
