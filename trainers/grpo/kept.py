"""What is kept of rollouts for people to look at: `rollouts.jsonl`, one object a rollout.

`harness explain DIR` draws them. Places are read as evaluation reads them, by the method's own
grammar and coordinate rule, and kept in pixels of the picture: to draw them, no network is needed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from harness.errors import ParseError
from harness.models.canvas import Canvas
from harness.models.compose import LOCATED
from harness.models.grammar import ParseResult
from harness.replies import storable
from harness.trainer import Curve
from harness.trainers.grpo.examples import Example
from harness.trainers.grpo.values import Group, Terms

Places: TypeAlias = Mapping[str, Any]
"""`frame`, `boxes`, `points`, and `unread` where a reply is outside the grammar; plain data."""


def no_places(example: Example, reply: str) -> Places:
    """What is kept of a method whose replies name none."""
    del example, reply
    return {}


@dataclass(frozen=True, slots=True)
class PlacesOf:
    """The places that a reply names.

    `boxes` are [left, top, right, bottom] and `points` [x, y], in pixels of the original picture.
    """

    parse: Callable[[str], ParseResult]
    """The method's grammar, with the repairs of inference."""

    def __call__(self, example: Example, reply: str) -> Places:
        """Empty for a question that is answered in words."""
        query = example.sample.query
        if len(query.forms) != 1 or query.form not in LOCATED or not query.media:
            return {}
        try:
            said = self.parse(storable(reply))
        except ParseError as error:
            said = ParseResult(error=str(error))
        canvas = Canvas(example.canvas, query.size)
        items = [canvas.to_picture(item) for item in said.items]
        unread = {} if said.error is None else {"unread": said.error}
        return {
            "frame": _frame(example, said),
            "boxes": [list(item.box) for item in items if item.box is not None],
            "points": [list(item.point) for item in items if item.point is not None],
            **unread,
        }


def _frame(example: Example, said: ParseResult) -> int:
    """The frame of the first medium that is meant: the one that was shown alone, or is named."""
    shown, total = example.frames[0], len(example.sample.query.media[0])
    if len(shown) == 1:
        return shown[0]
    return said.frame if said.frame is not None and said.frame < total else total // 2


@dataclass(frozen=True, kw_only=True)
class Keeping:
    """Writes some groups of each round, with what became of them."""

    file: Curve | None
    """None in processes that do not write."""
    groups: int
    """How many of a round; the first ones, which are drawn at random as all are."""
    places: Callable[[Example, str], Places] = field(default=no_places)

    def __call__(
        self,
        examples: Sequence[Example],
        groups: Sequence[Group],
        terms: Sequence[Sequence[Terms]],
        advantages: Sequence[float],
        *,
        step: int,
    ) -> None:
        """Keep groups.

        Args:
            examples: One a group.
            groups: Those that were rewarded in this process.
            terms: One a rollout of each group.
            advantages: What is learned from, one a rollout, group after group.
            step: The optimiser step that they are for, from 1.
        """
        if self.file is None:
            return
        told = iter(advantages)
        chosen = zip(examples, groups[: self.groups], terms, strict=False)
        for example, group, several in chosen:
            for place in range(len(group.rollouts)):
                row = self._row(example, group, place, several[place])
                self.file.append(step, {**row, "advantage": float(next(told))})

    def _row(self, example: Example, group: Group, place: int, terms: Terms) -> dict[str, Any]:
        rollout = group.rollouts[place]
        plain: dict[str, Any] = {
            "task": example.task,
            "sample": group.sample.id,
            "rollout": place,
            "canvas": list(group.canvas),
            "text": rollout.text,
            "tokens": rollout.tokens,
            "cut": rollout.cut,
            "terms": dict(terms),
            **self.places(example, rollout.text),
        }
        if group.seconds:
            plain["second"] = group.seconds[place].text
        return plain
