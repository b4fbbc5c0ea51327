"""Questions of temporal reasoning: order of appearance, later place, displacement.

Each takes a video, filtered, and yields every question that it allows, in a fixed order. Objects
that a number here rules out are counted by the reason.
"""

import math
from collections.abc import Iterator
from itertools import combinations, islice, pairwise, permutations
from typing import NamedTuple

from harness.metrics.boxes import box_iou
from stv_builder.clips import Clip, ObjectView
from stv_builder.drafts import (
    Choice,
    Draft,
    Number,
    box_3d_text,
    box_text,
    seconds_text,
)
from stv_builder.filters import FilterCounts, choose_names, clear_at
from stv_builder.geometry import clip_box
from stv_builder.spatial import whole_3d, whole_box

ORDERED = (3, 4)  # categories in a question of order
SEQUENCES = 12  # questions of order that a clip is looked through for
OTHERS = 3  # wrong orders that are offered
SAME = 0.9  # IoU from which a box has not moved
SHORTEST = 0.5  # metres that are asked for as a displacement

DOUBTFUL = "appearance_order: somebody could doubt it"
SURPLUS = f"appearance_order: beyond the first {SEQUENCES} of a clip"
RESTING = f"motion_tracking: boxes with an IoU from {SAME:g}"
STAYING = f"displacement: below {SHORTEST:g} m"


def order(clip: Clip, tally: FilterCounts) -> Iterator[Draft]:
    """Ask for the order in which categories appear, where it is beyond doubt."""
    first = first_seen(clip)
    known = choose_names(clip, first, "appearance_order", tally)
    found = 0
    for length in ORDERED:
        for chosen in combinations(known, length):
            right = sorted(chosen, key=lambda name: first[name])
            pairs = pairwise(right)
            if not all(first[one].clear < first[other].there for one, other in pairs):
                tally.add(clip.source, DOUBTFUL)
                continue
            if found == SEQUENCES:
                tally.add(clip.source, SURPLUS)
                continue
            found += 1
            wrong = tuple(", ".join(one) for one in islice(permutations(right), 1, None))
            yield Draft(
                "appearance_order",
                "video",
                Choice(", ".join(right), wrong, OTHERS),
                {"object_list": ", ".join(chosen)},
            )


class FirstSeen(NamedTuple):
    """Time at which a category comes into view."""

    there: int
    """The frame from which one may be there: annotated, however small or hidden, or not."""
    clear: int
    """The frame from which one is clear: nobody has missed it by then."""


def first_seen(clip: Clip) -> dict[str, FirstSeen]:
    """Return the time at which each category comes into view, if it is clear in some frame."""
    there: dict[str, int] = {}
    clear: dict[str, int] = {}
    for frame, sights in enumerate(clip.sights):
        for category in clip.unnamed_at(frame):
            there.setdefault(category, frame)
        for sight in sights:
            if sight.category:
                there.setdefault(sight.category, frame)
                if sight.clear:
                    clear.setdefault(sight.category, frame)
    return {name: FirstSeen(there[name], frame) for name, frame in clear.items()}


def tracking(clip: Clip, tally: FilterCounts) -> Iterator[Draft]:
    """Ask for an object's place at one time, given it at another: in the image, or in space."""
    for category, earlier, later, one, other in _pairs(clip):
        fields = {
            "object": category,
            "resolution": "{}x{}".format(*clip.size),
            "timestamp_1": seconds_text(clip.seconds(earlier)),
            "timestamp_2": seconds_text(clip.seconds(later)),
        }
        before, after = (whole_box(clip_box(sight.box, clip.size)) for sight in (one, other))
        drafts = [
            Draft("motion_tracking", "plane", after, {**fields, "box": box_text(before)}, later)
        ]
        if one.extent is not None and other.extent is not None and not clip.still:
            drafts.append(
                Draft(
                    "motion_tracking",
                    "space",
                    whole_3d(other.extent),
                    {**fields, "box": box_3d_text(one.extent)},
                    later,
                )
            )
        if box_iou([before], [after])[0, 0] < SAME:
            yield from drafts
        else:
            tally.add(clip.source, RESTING, len(drafts))


def displacement(clip: Clip, tally: FilterCounts) -> Iterator[Draft]:
    """Ask for an object's displacement in the world between two times, along a straight line."""
    if clip.still:
        return
    for category, earlier, later, one, other in _pairs(clip):
        if one.world is None or other.world is None:
            continue
        moved = math.dist(one.world, other.world)
        if moved < SHORTEST:
            tally.add(clip.source, STAYING)
        else:
            yield Draft(
                "displacement",
                "video",
                Number(round(moved, 2)),
                {
                    "object": category,
                    "timestamp_1": seconds_text(clip.seconds(earlier)),
                    "timestamp_2": seconds_text(clip.seconds(later)),
                },
                later,
            )


def _pairs(clip: Clip) -> Iterator[tuple[str, int, int, ObjectView, ObjectView]]:
    """Yield every object with a unique name, at every two times at which it is clear."""
    seen = [clear_at(clip, frame) for frame in range(len(clip.sights))]
    for category in sorted({name for frame in seen for name in frame}):
        frames = [frame for frame, one in enumerate(seen) if category in one]
        for earlier, later in combinations(frames, 2):
            yield category, earlier, later, seen[earlier][category], seen[later][category]
