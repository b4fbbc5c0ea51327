"""One response of another evaluation's file, and the fields that identify its question."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

ID_KEYS = ("question_id", "id", "qid", "sample_id")
VIDEO_KEYS = ("videoID", "video_id", "video_path", "video", "scene_name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One response of a file, and the fields that identify its question."""

    where: str
    """File and line, for messages."""
    response: str
    ids: tuple[str, ...] = ()
    """Candidates for the sample's id, the likeliest first."""
    video: str = ""
    question: str = ""
    """The question, or the prompt that holds it."""
    categories: Mapping[str, str] = field(default_factory=dict)
    """Breakdowns that it names, as the sample has them; those that a sample lacks do not count."""
    row: int | None = None
    """Row of the question in a list, from 0: the benchmark's own list, or one in another order."""
    ground_truth: str = ""
    """The right answer as the file writes it."""


def ids_in(objects: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    """Return the candidates for an id in some objects, in their order."""
    return tuple(
        str(one[key])
        for one in objects
        for key in ID_KEYS
        if isinstance(one.get(key), (str, int))
        and not isinstance(one[key], bool)
        and one[key] != ""
    )


def text_in(objects: Iterable[Mapping[str, object]], *keys: str) -> str:
    """The first text under one of these keys in some objects; "" if there is none."""
    found = (one.get(key) for one in objects for key in keys)
    return next((text for text in found if isinstance(text, str) and text), "")
