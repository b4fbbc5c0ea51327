"""One reply of another evaluation's file, and what it tells of the question that it answers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

ID_KEYS = ("question_id", "id", "qid", "index", "sample_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One reply of a file, and what it tells of the question that it answers."""

    where: str
    """File and line, for messages."""
    reply: str
    ids: tuple[str, ...] = ()
    """What may be the sample's id, the likeliest first."""
    video: str = ""
    question: str = ""
    """The question, or the prompt that holds it."""
    place: int | None = None
    """Its place in the benchmark, from 0."""


def ids_in(told: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """What may be an id in some objects, in their order."""
    return tuple(
        str(one[key])
        for one in told
        for key in ID_KEYS
        if isinstance(one.get(key), (str, int))
        and not isinstance(one[key], bool)
        and one[key] != ""
    )


def text_in(plain: Mapping[str, Any], *keys: str) -> str:
    """The first of these fields that is text; "" if none is."""
    return next((plain[key] for key in keys if isinstance(plain.get(key), str)), "")
