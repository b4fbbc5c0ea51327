"""Balance of right options, where every question offers the same ones.

Unbalanced, options differ: in rooms strewn at random "back" answers 8 % of the questions of
relative direction, so that who always says "left" is right in 46 %.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from stv_builder.clips import Clip
from stv_builder.drafts import Choice, Draft

LEAD = 5  # questions by which one option may be right more often than another

Group: TypeAlias = tuple[str, bool, frozenset[str]]
"""Source, True for a video, and the options: all that is known without looking."""


@dataclass(slots=True)
class Answers:
    """Chooses questions so that each of the same options is right equally often, but for `LEAD`.

    Questions of one source and medium with the same options share their counts.
    """

    right: dict[Group, Counter[str]] = field(default_factory=dict)

    def choose(self, clip: Clip, drafts: Sequence[Draft], limit: int) -> tuple[list[Draft], int]:
        """Choose at most `limit` drafts about a clip, of one kind; also count those that must be
        dropped.

        Drafts whose right option was right least often come first, in their order. Drafts without
        options, or with individual options, are taken in their order.
        """
        fixed = [
            (draft, draft.answer)
            for draft in drafts
            if isinstance(draft.answer, Choice) and draft.answer.offered is None
        ]
        if not fixed:
            return list(drafts[:limit]), 0
        offered = {frozenset({answer.right, *answer.wrong}) for _, answer in fixed}
        assert len(fixed) == len(drafts) and len(offered) == 1, "a kind of one clip has one form"
        (options,) = offered
        group = clip.source, clip.is_video, options
        counts = self.right.setdefault(group, Counter(dict.fromkeys(options, 0)))
        waiting: dict[str, deque[int]] = {}
        for number, (_, answer) in enumerate(fixed):
            waiting.setdefault(answer.right, deque()).append(number)
        taken: list[Draft] = []
        while waiting and len(taken) < limit:
            times, number, option = min(
                (counts[name], ahead[0], name) for name, ahead in waiting.items()
            )
            if times >= min(counts.values()) + LEAD:
                return taken, len(drafts) - len(taken)
            taken.append(fixed[number][0])
            counts[option] += 1
            waiting[option].popleft()
            if not waiting[option]:
                del waiting[option]
        return taken, 0
