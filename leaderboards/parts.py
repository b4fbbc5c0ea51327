"""Read the parts of a model from a run's record: hashes of their weights, and toys among them.

The source is the model's description in the run's manifest: each mapping in it describes a part,
such as `chat` or `segmenter`. `row` calls these functions for a board's badges.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from harness import plugins
from harness.types import AnswerForm

HASHES = ("weights", "adapter_weights", "content")
"""Keys of a part's description whose values are hashes."""
TOYS = frozenset({"pocket", "pocket-base", "pocket-sam", "pocket_sam", "pocket_sam_video"})
"""Networks of this project that know coloured shapes alone."""
CLASSICAL = frozenset({"grabcut", "flow", "box"})
"""Segmenters and propagators without weights."""
DECIDED = {
    "segmenter": frozenset({AnswerForm.MASK, AnswerForm.MASK_TRACK, AnswerForm.BOX_TRACK}),
    "propagator": frozenset({AnswerForm.MASK_TRACK, AnswerForm.BOX_TRACK}),
}
"""Forms of answer that a part decides; parts that are not listed decide all of them."""


def weights(description: Mapping[str, Any]) -> dict[str, str]:
    """Return the hash of each part's weights by the part's path, such as `chat.backend`.

    The path of the outermost part is `model`.
    """
    return {
        f"{path or 'model'}{'' if key == 'weights' else f'.{key}'}": str(part[key])
        for path, part in _parts(description)
        for key in HASHES
        if isinstance(part.get(key), str)
    }


def badges(
    description: Mapping[str, Any], task: str, run_forms: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the names of a model's toys and classical parts that decide the answers to a task.

    A part's name is its checkpoint if that is a toy, or else its own name, or else the toy that its
    training began with.

    Args:
        description: The model's description in a manifest.
        task: The task's name.
        run_forms: Forms of answer that the run's record names; empty: those of the task's card.
            If neither is known, every part counts.
    """
    card = None if run_forms else plugins.find_card(task)
    forms = frozenset(run_forms) or (None if card is None else frozenset(card.forms))
    decisive = []
    for path, part in _parts(description):
        decided = DECIDED.get(path.rpartition(".")[2])
        if decided is not None and forms is not None and not decided & forms:
            continue
        trained = part.get("trained") or {}
        method = str(trained.get("method", "")).partition("(")[0]  # `pocket`: from random weights
        part_names = (part.get("checkpoint"), part.get("name"), part.get("model"))
        names = (*part_names, trained.get("checkpoint"), method)
        known_names = [name for name in names if name in TOYS or name in CLASSICAL]
        decisive.extend(known_names[:1])
    return tuple(dict.fromkeys(decisive))


def _parts(part: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (path, description) of a part and of the parts inside it."""
    yield path, part
    for name, value in part.items():
        if isinstance(value, Mapping):
            yield from _parts(value, f"{path}.{name}".lstrip("."))
