"""The log of rollouts for people to look at: `rollouts.jsonl`, one object a rollout.

`harness explain DIR` draws them. Places are read as evaluation reads them, by the method's own
grammar and coordinate rule, and kept in pixels of the image: to draw them, no network is needed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import ParseError
from harness.models.canvas import Canvas
from harness.models.grammar import ParseResult
from harness.models.pipeline import LOCATED
from harness.responses import storable
from harness.trainer import Curve
from harness.trainers.grpo.examples import Example
from harness.trainers.grpo.method import Group, RewardComponents

ROLLOUTS = "rollouts.jsonl"


@dataclass(frozen=True, slots=True)
class RolloutLog:
    """Writes the first groups of each round, which are drawn at random as all are."""

    file: Curve
    groups: int
    parse: Callable[[str], ParseResult]
    """The method's grammar, with the repairs of inference."""

    def write(
        self,
        step: int,
        examples: Sequence[Example],
        groups: Sequence[Group],
        rewards: Sequence[Sequence[RewardComponents]],
        advantages: Sequence[float],
    ) -> None:
        """Add rows for the optimiser step (from 1); advantages are one a rollout."""
        learned = iter(advantages)
        for example, group, several in zip(examples, groups[: self.groups], rewards, strict=False):
            for number, rollout in enumerate(group.rollouts):
                row: dict[str, Any] = {
                    "task": example.task,
                    "sample": group.sample.id,
                    "rollout": number,
                    "canvas": list(group.canvas),
                    "text": rollout.text,
                    "tokens": rollout.tokens,
                    "cut": rollout.cut,
                    "components": dict(several[number]),
                    **places_of(self.parse, example, rollout.text),
                }
                if rollout.facts:
                    row["facts"] = dict(rollout.facts)
                if group.seconds:
                    row["second"] = group.seconds[number].text
                self.file.append(step, {**row, "advantage": float(next(learned))})


def places_of(
    parse: Callable[[str], ParseResult], example: Example, response: str
) -> Mapping[str, Any]:
    """Return the places that a response names, and `unread` where it is outside the grammar.

    `boxes` are [left, top, right, bottom] and `points` [x, y], in pixels of the original image,
    `frame` the frame of the first medium that they are in: the one that was shown alone, or is
    named. Empty for a question that is answered in words.
    """
    query = example.sample.query
    if len(query.forms) != 1 or query.form not in LOCATED or not example.request.media:
        return {}
    try:
        read = parse(storable(response))
    except ParseError as error:
        read = ParseResult(error=str(error))
    shown, total = example.frames[0], len(query.media[0])
    named = read.frame if read.frame is not None and read.frame < total else total // 2
    canvas = Canvas(example.canvas, query.size)
    items = [canvas.to_image(item) for item in read.items]
    return {
        "frame": shown[0] if len(shown) == 1 else named,
        "boxes": [list(item.box) for item in items if item.box is not None],
        "points": [list(item.point) for item in items if item.point is not None],
        **({} if read.error is None else {"unread": read.error}),
    }
