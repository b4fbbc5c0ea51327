"""Evaluation settings of a checkpoint from harness: those of its training, unless given otherwise.

The record is the training's manifest: its `eval_model` if that is the same model, else its `model`.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import plugins
from harness.cli.ask import specs
from harness.errors import HarnessError
from harness.models.backends.checkpoint import SHIPPED, find
from harness.replies import storable
from harness.run.origin import INSIDE, MANIFEST
from harness.run.trained import ADAPTER, FIELDS, VERSION, adapted
from harness.spec import Spec, Value, parse
from harness.store.atomic import read_json
from harness.trainer import CHECKPOINT

TAKEN = frozenset(
    {
        "form",
        "prompt",
        "system",
        "think",
        "map",
        "graph",
        "second_try",
        "canvas",
        "context",
        "frames",
        "pixels",
        "keyframe",
        "max_new_tokens",
        "sampler_frames",
        "references",
        "reference_frames",
        "key_frames",
        "key_segment",
        "target_frame",
    }
)
"""Arguments that are taken over from a training's record: the question's wording, the images shown
and the length of a response. Arguments that choose the backend, the parser, a program or a file
belong to the evaluation. So does the search for a frame, which no training does: VideoSeg-R1's
`votes`, `percentages`, `delta`, `rounds`, `average`, `target` and `temperature`."""
NETWORK = ("backend", "chat")
"""Arguments whose SPEC names the VLM that answers. A segmenter or a sampler has a checkpoint too,
but its training does not decide how the VLM is prompted."""
READER = "model"
"""Argument by which a model, such as `replay`, names another model that reads its responses."""
LARGEST = 4 * 2**20
"""Bytes of a manifest that is looked at; ours have some ten thousand."""
SHOWN = 600  # characters of a record that a note shows


def asked_models(texts: Sequence[str] | None, *, tell: bool) -> list[Spec]:
    """Return the SPECs of `--model`, each with the settings that the training of its VLM recorded.

    Args:
        texts: Values of `--model`.
        tell: True: print on standard error what was added.
    """
    given = specs(texts, "--model")
    if tell:
        tell_taken(given)
    return [as_trained(spec) for spec in given]


def as_trained(spec: Spec) -> Spec:
    """Return the SPEC with the arguments that it lacks, as the training of its VLM recorded them.

    The same is done for a model in it that reads responses.
    """
    reader = spec.arguments.get(READER)
    read = {READER: as_trained(reader)} if isinstance(reader, Spec) else {}
    return Spec(spec.name, {**spec.arguments, **read, **_taken(spec)[1]})


def tell_taken(given: Sequence[Spec]) -> None:
    """Print on standard error what `as_trained` adds, each argument once."""
    for note in dict.fromkeys(note for spec in given for note in _notes(spec)):
        print(f"note: {note}", file=sys.stderr)


def _notes(spec: Spec) -> Iterator[str]:
    reader = spec.arguments.get(READER)
    if isinstance(reader, Spec):
        yield from _notes(reader)
    weights, added, lacking = _taken(spec)
    said = []
    if added:
        said += [
            f"is asked as in its training, with {_shown(added)}",
            "give these arguments in the SPEC to ask otherwise",
        ]
    if lacking:
        said += [
            f"is asked without its training's {_shown(lacking)}, which {spec.name} does not take"
        ]
    if said:
        yield f"{spec.name} with the {weights} {'; '.join(said)}"


def _shown(arguments: Mapping[str, Value]) -> str:
    """Arguments as typed, on one line of a terminal: a manifest may hold anything."""
    folded = " ".join(str(Spec("x", arguments))[2:-1].split())
    plain = "".join(char if char.isprintable() else "\ufffd" for char in folded)
    return storable(plain, SHOWN)


def _taken(spec: Spec) -> tuple[str, dict[str, Value], dict[str, Value]]:
    """Return the checkpoint, and the recorded arguments that the SPEC lacks: accepted ones, and
    others that the model does not have.

    Before them, what the record is of. All are empty where there is no such record.
    """
    weights, manifest = _manifest(spec)
    recorded = None if manifest is None else _recorded(manifest, spec.name)
    added: dict[str, Value] = {}
    lacking: dict[str, Value] = {}
    for key, value in ({} if recorded is None else recorded.arguments).items():
        if key in TAKEN and not _says(spec, key):
            known = plugins.accepts("models", spec.name, key)  # another version's may have been
            (added if known else lacking)[key] = value
    return weights, added, lacking


def _says(spec: Spec, key: str) -> bool:
    """Return True if a SPEC gives an argument, itself or in a rule for frames, which sets their
    pixels.
    """
    ruled = key == "pixels" and isinstance(spec.arguments.get("frames"), (Spec, str))
    return ruled or key in spec.arguments


def _innermost(spec: Spec, name: str) -> Value:
    """Return an argument of the innermost SPEC of the VLM that a SPEC names."""
    for part in NETWORK:
        inner = spec.arguments.get(part)
        if isinstance(inner, Spec) and (found := _innermost(inner, name)) is not None:
            return found
    return spec.arguments.get(name)


def _manifest(spec: Spec) -> tuple[str, dict[str, Any] | None]:
    """Return the argument that names the weights, and the manifest of their training.

    An adapter was trained after its base and takes precedence. None where harness trained neither.
    """
    for name, paths_of in ((ADAPTER, _adapters_paths), ("checkpoint", _checkpoints_paths)):
        named, revision = _innermost(spec, name), _innermost(spec, "revision")
        if named is None or isinstance(named, Spec):
            continue
        try:
            paths = paths_of(str(named), None if revision is None else str(revision))
        except (HarnessError, OSError, RuntimeError, ValueError):  # no home, no such path
            continue
        for path in paths:
            if (plain := _read(path)) is not None:
                return f"{name} {named}", plain
    return "", None


def _adapters_paths(adapter: str, _: str | None) -> list[Path]:
    """Return the possible paths of the manifest: an adapter lies in the folder of its training."""
    return [adapted(Path(adapter).expanduser()) / MANIFEST]


def _checkpoints_paths(checkpoint: str, revision: str | None) -> list[Path]:
    """Return the possible paths of the manifest of a checkpoint, which is found as a backend does:
    a training's folder, the checkpoint in it, a copy of either, or one in the Hugging Face cache.
    Shipped weights have no manifest.
    """
    if checkpoint in SHIPPED:
        return []
    folder = find(checkpoint, revision=revision)
    around = [folder.parent / MANIFEST] if folder.name == CHECKPOINT else []
    return [folder / INSIDE, folder / MANIFEST, *around]


def _read(path: Path) -> dict[str, Any] | None:
    """A training's manifest; None if the file is missing, damaged, or another's."""
    try:
        plain = read_json(path) if path.stat().st_size <= LARGEST else None
    except (HarnessError, OSError, RuntimeError):  # the last: nested too deeply
        return None
    if not isinstance(plain, dict) or any(name not in plain for name in FIELDS):
        return None
    return plain if plain["version"] == VERSION else None


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
