"""Choice of objects for questions: visible ones, and ones that their name identifies.

Numbers are ours (the paper says only that samples were rigorously filtered) and are settings.
Everything that is dropped is counted by source and reason.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from harness.errors import UsageError
from harness.world.draws import Draws
from stv_builder.clips import Clip, ObjectView
from stv_builder.drafts import Kind
from stv_builder.geometry import area, clip_box, place

ORIGIN = place((0, 0, 0))
FEW = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits above which an object in a frame is clear enough for a question."""

    visible: float = 0.15
    """Minimum visible share of the object."""
    pixels: float = 400.0
    """Minimum area of its box inside the image, in square pixels."""
    nearest: float = 0.5
    """Minimum distance of its centre from the camera, in metres; ignored without depth."""
    farthest: float = 60.0
    """Metres, at most."""

    def __post_init__(self) -> None:
        if not (0 <= self.visible <= 1 and self.pixels >= 0 and 0 <= self.nearest < self.farthest):
            raise UsageError(
                "limits",
                expected="0 ≤ visible ≤ 1, pixels ≥ 0 and 0 ≤ nearest < farthest",
                found=repr(self),
            )

    def reason(self, sight: ObjectView, size: tuple[int, int]) -> str | None:
        """Return the reason why an object is not clear in an image of this size; None if it is."""
        if not sight.category:
            return "ambiguous category"
        if sight.visible < self.visible:
            return f"less than {self.visible:.0%} visible"
        if area(clip_box(sight.box, size)) < self.pixels:
            return f"smaller than {self.pixels:g} px"
        if sight.centre is not None:
            away = math.dist(sight.centre, ORIGIN)
            if away < self.nearest:
                return f"nearer than {self.nearest:g} m"
            if away > self.farthest:
                return f"farther than {self.farthest:g} m"
        return None


@dataclass(slots=True)
class FilterCounts:
    """Counts of the objects and drafts that were kept and dropped, by source and reason.

    Reasons that begin with a type's name are of what would have been questions of it.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, source: str, reason: str, number: int = 1) -> None:
        """Count something."""
        self.counts[source, reason] += number

    def to_json(self) -> dict[str, dict[str, int]]:
        """Return the counts by source, then by reason, both in alphabetical order."""
        plain: dict[str, dict[str, int]] = {}
        for source, reason in sorted(self.counts):
            plain.setdefault(source, {})[reason] = self.counts[source, reason]
        return plain


KEPT = "kept"
SEVERAL = "clear, but one of several of its category: counted, not named"
"""Reason that concerns the whole clip; in a single image of it the object may be the only one."""
UNSURE = "clear, but more of its category may be there without annotation: not named"
"""Reason that concerns one frame; not tallied where the clip shows several anyway."""


def with_clear_marks(clip: Clip, limits: Limits, tally: FilterCounts) -> Clip:
    """The clip with every object marked as clear or not, each counted once a frame.

    A category is ambiguous as well where another one in the clip ends with its name, such as
    `chair` beside `office chair`: then "the chair" says too little.
    """
    names = {sight.category for frame in clip.sights for sight in frame}
    doubtful = {name for name in names if _is_part(name, names)}
    known = replace(
        clip,
        sights=tuple(
            tuple(replace(one, category="") if one.category in doubtful else one for one in frame)
            for frame in clip.sights
        ),
    )
    alone = single_categories(known)
    frames = []
    for number, frame in enumerate(known.sights):
        unsure, marked = unsure_at(known, number), []
        for sight in frame:
            reason = limits.reason(sight, clip.size)
            kept = UNSURE if sight.category in unsure else KEPT
            tally.add(clip.source, reason or (kept if sight.category in alone else SEVERAL))
            marked.append(replace(sight, clear=reason is None))
        frames.append(tuple(marked))
    return replace(known, sights=tuple(frames))


def _is_part(name: str, names: set[str]) -> bool:
    return bool(name) and any(other.endswith(f" {name}") for other in names)


def single_categories(clip: Clip) -> Mapping[str, str]:
    """Categories of which one object only is annotated, clear or not: category → its track.

    "The chair" means something only where there is one.
    """
    tracks: dict[str, set[str]] = {}
    for frame in clip.sights:
        for sight in frame:
            if sight.category:
                tracks.setdefault(sight.category, set()).add(sight.track)
    return {name: next(iter(found)) for name, found in sorted(tracks.items()) if len(found) == 1}


def unsure_at(clip: Clip, frame: int) -> frozenset[str]:
    """Categories that name nothing in a frame, since another may be as clear and unannotated.

    Where nothing moves, questions about a frame may tell no time, so that all frames count.
    """
    return clip.unnamed_ever if clip.still else clip.unnamed_at(frame)


def clear_at(clip: Clip, frame: int) -> dict[str, ObjectView]:
    """Return a frame's clear objects with a name unique there and in the clip, by category."""
    alone = single_categories(clip).keys() - unsure_at(clip, frame)
    return {
        sight.category: sight
        for sight in sorted(clip.sights[frame], key=lambda one: one.category)
        if sight.clear and sight.category in alone
    }


def choose_names(clip: Clip, names: Iterable[str], kind: Kind, tally: FilterCounts) -> list[str]:
    """Return at most six names in alphabetical order, chosen by clip; the others are counted.

    Questions about several objects are looked for among these: all triples of a furnished room
    would be thousands.
    """
    shuffled = Draws(0, "stv", clip.id, "few").shuffle(sorted(names))
    if len(shuffled) > FEW:
        reason = f"{kind}: categories beyond the {FEW} that are looked at"
        tally.add(clip.source, reason, len(shuffled) - FEW)
    return sorted(shuffled[:FEW])
