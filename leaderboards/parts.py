"""Parts of a model by its record: hashes of their weights, and toys among them.

Sources: the model's description in the run's manifest, whose mappings describe one part each.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from harness import plugins
from harness.types import AnswerForm

HASHES = ("weights", "adapter_weights", "content")
TOYS = frozenset({"pocket", "pocket-base", "pocket-sam", "pocket_sam", "pocket_sam_video"})
"""Networks of this project that know coloured shapes alone."""
CLASSICAL = frozenset({"grabcut", "flow", "box"})
"""Operators without weights, in the place of a segmenter or a propagator."""
DECIDED = {
    "segmenter": frozenset({AnswerForm.MASK, AnswerForm.MASK_TRACK, AnswerForm.BOX_TRACK}),
    "propagator": frozenset({AnswerForm.MASK_TRACK, AnswerForm.BOX_TRACK}),
}
"""Forms of answer that a part decides; every other part decides all of them."""


def weights(description: Mapping[str, Any]) -> dict[str, str]:
    """Return the hash of each part's weights by the part's place, `model` for the outermost."""
    return {
        f"{place or 'model'}{'' if key == 'weights' else f'.{key}'}": str(part[key])
        for place, part in _parts(description)
        for key in HASHES
        if isinstance(part.get(key), str)
    }


def badges(
    description: Mapping[str, Any], task: str, asked: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the names of a model's toys and classical parts which decide the answers to a task.

    A part is named by its checkpoint if that is a toy's, else by its own name, else by the toy that
    its training began with.

    Args:
        description: The model's, in a manifest.
        task: The task's name; its card has the forms of its answers where `asked` has none.
        asked: Forms of answer that the run was asked for, as its record has them. Where neither is
            known, every part counts.
    """
    card = None if asked else plugins.find_card(task)
    forms = frozenset(asked) or (None if card is None else frozenset(card.forms))
    decisive = []
    for place, part in _parts(description):
        decided = DECIDED.get(place.rpartition(".")[2])
        if decided is not None and forms is not None and not decided & forms:
            continue
        trained = part.get("trained") or {}
        method = str(trained.get("method", "")).partition("(")[0]  # `pocket`: from random weights
        own = (part.get("checkpoint"), part.get("name"), part.get("model"))
        names = (*own, trained.get("checkpoint"), method)
        decisive.extend([name for name in names if name in TOYS or name in CLASSICAL][:1])
    return tuple(dict.fromkeys(decisive))


def _parts(part: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield place, part
    for name, value in part.items():
        if isinstance(value, Mapping):
            yield from _parts(value, f"{place}.{name}".lstrip("."))
