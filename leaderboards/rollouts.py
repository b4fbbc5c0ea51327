"""Rollouts of a training for display: read from `rollouts.jsonl`, chosen, and drawn.

Nothing is parsed again: the places that responses name were kept in pixels of the image.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import overlay
from harness.errors import HarnessError, StoreError
from harness.frames import uniform
from harness.leaderboards.images import WIDTH, data_uri, draw
from harness.leaderboards.transcripts import Block, blocks_of
from harness.masks import Rle
from harness.media import Media
from harness.plugins import plugin_errors
from harness.trainer import Curve
from harness.types import Answer, Box, Point, Sample

ROLLOUTS = "rollouts.jsonl"
MAX_ROLLOUTS = 16  # rollouts of a group that are shown
MARKS = 120  # boxes or points of a response that are drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One response, its reward and the places that it names."""

    text: str
    second: str | None
    components: Mapping[str, float]
    advantage: float | None
    """Advantage; None in files of versions that did not record it."""
    tokens: int
    cut: bool
    unread: str
    """Reason why the grammar of the method cannot read it; empty if it can."""
    answer: Answer
    """Boxes and points in pixels of the original image."""
    frame: int = 0
    """Frame of the first medium that the boxes lie on."""
    blocks: tuple[Block, ...] = ()
    """Blocks of a response of several turns; empty: it has one turn."""
    image: str = ""
    """The image with the ground truth and these places on it, as a data URI."""

    @property
    def terms(self) -> list[tuple[str, float]]:
        """Terms of the reward, the total last."""
        return sorted(self.components.items(), key=lambda term: term[0] == "total")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The rollouts of one prompt in one round."""

    step: int
    task: str
    """Name of the task; empty in files of versions that did not record it."""
    sample: str
    rollouts: tuple[Rollout, ...]
    question: str = ""
    ground_truth: str = ""
    """The target in words."""
    note: str = ""
    """Reason why there is no image, or a list of what is left out."""


def groups_of(path: Path) -> list[Group]:
    """All groups of a file of rollouts, in the order of their steps.

    Raises:
        StoreError: it is no such file.
    """
    groups: list[list[dict[str, object]]] = []
    for row in Curve(path).read():
        if row.get("rollout") == 0 or not groups:
            groups.append([])
        groups[-1].append(row)
    return [_group(rows, path) for rows in groups]


def _group(rows: Sequence[Mapping[str, Any]], path: Path) -> Group:
    first = rows[0]
    try:
        return Group(
            step=first["step"],
            task=str(first.get("task", "")),
            sample=str(first["sample"]),
            rollouts=tuple(map(_rollout, rows)),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(
            f"file {path}, step {first['step']}",
            expected="rollouts of a training",
            found=f"{type(error).__name__}: {error}",
        ) from error


def _rollout(row: Mapping[str, Any]) -> Rollout:
    second, advantage = row.get("second"), row.get("advantage")
    boxes = [Box(*map(_number, box)) for box in row.get("boxes", ())[:MARKS]]
    points = [Point(*map(_number, point)) for point in row.get("points", ())[:MARKS]]
    facts = row.get("facts") or {}
    answer = Answer(boxes=tuple(boxes), points=tuple(points))
    frame, resolved = _resolved(facts.get("answer"))
    return Rollout(
        text=str(row["text"]),
        second=None if second is None else str(second),
        components={str(name): float(value) for name, value in row["components"].items()},
        advantage=None if advantage is None else float(advantage),
        tokens=int(row["tokens"]),
        cut=bool(row["cut"]),
        unread=str(row.get("unread") or facts.get("fault") or facts.get("answer_error") or ""),
        answer=answer if resolved is None else resolved,
        frame=int(row.get("frame", 0)) if resolved is None else frame,
        blocks=tuple(blocks_of(str(row["text"]), facts["spans"])) if "spans" in facts else (),
    )


def _resolved(answer: Any) -> tuple[int, Answer | None]:
    """Return the places that an environment found for an answer, in the frame that shows most.

    None where it found none; of masks by frame, and of boxes with their frames.
    """
    given = answer if isinstance(answer, dict) else {}
    masks = [Rle.from_json(rle) for rle in given.get("masks") or ()]
    if masks:
        frame = max(range(len(masks)), key=lambda index: masks[index].area)
        return frame, Answer(masks=(masks[frame],))
    named = list(given.get("boxes") or ())[:MARKS]
    if not named:
        return 0, None
    frame = int(named[0]["frame"])
    boxes = (entry["bbox"] for entry in named if int(entry["frame"]) == frame)
    return frame, Answer(boxes=tuple(Box(*map(_number, box)) for box in boxes))


def _number(value: float) -> float:
    if not math.isfinite(number := float(value)):
        raise ValueError(f"{value} is not a coordinate")
    return number


def choose_groups(groups: Sequence[Group], *, limit: int, sample: str | None = None) -> list[Group]:
    """Choose at most `limit` groups, evenly spread over the steps; of one sample if it is named.

    Raises:
        StoreError: there is none.
    """
    kept = [group for group in groups if sample is None or group.sample == sample]
    if not kept:
        examples = ", ".join(dict.fromkeys(group.sample for group in groups[:5]))
        raise StoreError(
            "rollouts to show",
            expected="one that was kept"
            if sample is None
            else f"a sample whose rollouts were kept, such as {examples}",
            found="none" if sample is None else repr(sample),
        )
    return [kept[index] for index in uniform(range(len(kept)), limit)]


def with_images(
    group: Group, sample: Sample, *, ground_truth: Callable[[int], Answer], text: str
) -> Group:
    """The group with its question and its images, as far as they can be read.

    Args:
        group: Without images.
        sample: The sample of the image.
        ground_truth: The ground truth to draw on a frame: boxes, and points if there are no boxes,
            in pixels of the original image.
        text: The target in words.
    """
    known = replace(group, question=sample.query.text, ground_truth=text)
    if not sample.query.media:
        return known
    try:
        with plugin_errors(f"the image of {sample.id}"):
            shown = tuple(
                _with_image(rollout, sample.query.media[0], ground_truth)
                for rollout in known.rollouts[:MAX_ROLLOUTS]
            )
    except HarnessError as error:
        return replace(known, note=f"The image cannot be read here. {error}")
    left = len(known.rollouts) - MAX_ROLLOUTS
    note = f"{left} more rollouts are not shown." if left > 0 else ""
    return replace(known, rollouts=shown, note=note)


def _with_image(rollout: Rollout, media: Media, ground_truth: Callable[[int], Answer]) -> Rollout:
    index = min(max(rollout.frame, 0), len(media) - 1)
    image = overlay.thumbnail(media.frame(index), width=WIDTH)
    for answer, colour in (
        (ground_truth(index), overlay.GROUND_TRUTH),
        (rollout.answer, overlay.PREDICTION),
    ):
        # Places of one frame: the image is drawn on as if it were all there is.
        image = draw(image, answer, index=0, size=media.size, colour=colour, filled=True)
    return replace(rollout, image=data_uri(image))
