"""Rollouts of a training for display: read them from `rollouts.jsonl`, choose and draw them.

Responses are not parsed again: each row holds its boxes and points in pixels of the original image.
`harness explain`, `harness train` and sites call `groups_of`, `choose_groups` and `with_images`.
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
MAX_ROLLOUTS = 16
"""Largest number of a group's rollouts that are shown."""
MAX_MARKS = 120
"""Largest number of a response's boxes, and of its points, that are drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One response, its reward, and the boxes, points or masks that it names."""

    text: str
    second: str | None
    components: Mapping[str, float]
    advantage: float | None
    """None in files of versions that did not record advantages."""
    tokens: int
    cut: bool
    unread: str
    """Reason why the response cannot be parsed; empty if it can."""
    answer: Answer
    """Boxes and points, or a mask, in pixels of the original image."""
    frame: int = 0
    """Index of the answer's frame in the sample's first medium."""
    blocks: tuple[Block, ...] = ()
    """Blocks of a response with several turns; empty for one turn."""
    image: str = ""
    """The frame with the ground truth and the answer drawn on it, as a data URI."""

    @property
    def terms(self) -> list[tuple[str, float]]:
        """The reward's components with their names, the total last."""
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
    """Text that describes the target."""
    note: str = ""
    """Reason why there is no image, or the number of rollouts that are not shown."""


def groups_of(path: Path) -> list[Group]:
    """Return all groups of a `rollouts.jsonl`, in the order of their steps.

    Raises:
        StoreError: the file does not hold rollouts.
    """
    groups: list[list[dict[str, object]]] = []
    for row in Curve(path).read():
        if row.get("rollout") == 0 or not groups:
            groups.append([])
        groups[-1].append(row)
    return [_group(rows, path) for rows in groups]


def _group(rows: Sequence[Mapping[str, Any]], path: Path) -> Group:
    """Build a group from its rows in the file; raise StoreError if they are damaged."""
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
    """Return the rollout of a row of `rollouts.jsonl`; older files lack some keys."""
    second, advantage = row.get("second"), row.get("advantage")
    boxes = [Box(*map(_number, box)) for box in row.get("boxes", ())[:MAX_MARKS]]
    points = [Point(*map(_number, point)) for point in row.get("points", ())[:MAX_MARKS]]
    facts = row.get("facts") or {}
    answer = Answer(boxes=tuple(boxes), points=tuple(points))
    frame, answer = _resolved(facts.get("answer")) or (int(row.get("frame", 0)), answer)
    return Rollout(
        text=str(row["text"]),
        second=None if second is None else str(second),
        components={str(name): float(value) for name, value in row["components"].items()},
        advantage=None if advantage is None else float(advantage),
        tokens=int(row["tokens"]),
        cut=bool(row["cut"]),
        unread=str(row.get("unread") or facts.get("fault") or facts.get("answer_error") or ""),
        answer=answer,
        frame=frame,
        blocks=tuple(blocks_of(str(row["text"]), facts["spans"])) if "spans" in facts else (),
    )


def _resolved(answer: Any) -> tuple[int, Answer] | None:
    """Return the frame and the places of an environment's answer; None if it has no places.

    An answer with one mask per frame gives the largest mask. An answer with boxes gives those in
    the frame of the first box.
    """
    resolved = answer if isinstance(answer, dict) else {}
    masks = [Rle.from_json(rle) for rle in resolved.get("masks") or ()]
    if masks:
        frame = max(range(len(masks)), key=lambda index: masks[index].area)
        return frame, Answer(masks=(masks[frame],))
    entries = list(resolved.get("boxes") or ())[:MAX_MARKS]
    if not entries:
        return None
    frame = int(entries[0]["frame"])
    boxes = (entry["bbox"] for entry in entries if int(entry["frame"]) == frame)
    return frame, Answer(boxes=tuple(Box(*map(_number, box)) for box in boxes))


def _number(value: float) -> float:
    """Return a finite coordinate; raise ValueError for others."""
    if not math.isfinite(number := float(value)):
        raise ValueError(f"{value} is not a coordinate")
    return number


def choose_groups(groups: Sequence[Group], *, limit: int, sample: str | None = None) -> list[Group]:
    """Return at most `limit` groups, evenly spread over the steps; with `sample`, only its groups.

    Raises:
        StoreError: there is no such group.
    """
    candidates = [group for group in groups if sample is None or group.sample == sample]
    if not candidates:
        examples = ", ".join(dict.fromkeys(group.sample for group in groups[:5]))
        raise StoreError(
            "rollouts to show",
            expected="one that was kept"
            if sample is None
            else f"a sample whose rollouts were kept, such as {examples}",
            found="none" if sample is None else repr(sample),
        )
    return [candidates[index] for index in uniform(range(len(candidates)), limit)]


def with_images(
    group: Group, sample: Sample, *, ground_truth: Callable[[int], Answer], text: str
) -> Group:
    """Return the group with its question, its target and, if the medium is readable, its images.

    Args:
        group: A group without images.
        sample: The sample of the group.
        ground_truth: Returns the true boxes (or points, if there are no boxes) of a frame, in
            pixels of the original image.
        text: The target in words.
    """
    with_question = replace(group, question=sample.query.text, ground_truth=text)
    if not sample.query.media:
        return with_question
    try:
        with plugin_errors(f"the image of {sample.id}"):
            drawn_rollouts = tuple(
                _with_image(rollout, sample.query.media[0], ground_truth)
                for rollout in with_question.rollouts[:MAX_ROLLOUTS]
            )
    except HarnessError as error:
        return replace(with_question, note=f"The image cannot be read here. {error}")
    hidden = len(with_question.rollouts) - MAX_ROLLOUTS
    note = f"{hidden} more rollouts are not shown." if hidden > 0 else ""
    return replace(with_question, rollouts=drawn_rollouts, note=note)


def _with_image(rollout: Rollout, media: Media, ground_truth: Callable[[int], Answer]) -> Rollout:
    """Return a rollout with its frame as an image, on which ground truth and answer are drawn."""
    index = min(max(rollout.frame, 0), len(media) - 1)
    image = overlay.thumbnail(media.frame(index), width=WIDTH)
    for answer, colour in (
        (ground_truth(index), overlay.GROUND_TRUTH),
        (rollout.answer, overlay.PREDICTION),
    ):
        # Both answers hold one frame only, so its index is 0.
        image = draw(image, answer, index=0, size=media.size, colour=colour, filled=True)
    return replace(rollout, image=data_uri(image))
