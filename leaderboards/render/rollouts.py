"""Rollouts of a training as one self-contained HTML page without scripts."""

from collections.abc import Sequence
from itertools import groupby

from harness.leaderboards.render.pages import fill
from harness.leaderboards.rollouts import Group


def render(title: str, groups: Sequence[Group], *, summary: str, notes: Sequence[str] = ()) -> str:
    """The whole page.

    Args:
        title: Its heading.
        groups: In the order of their steps.
        summary: What the training is, in one line.
        notes: Remarks for the reader, such as the reason for missing images.
    """
    return fill(
        "rollouts.html",
        *("page.css", "rollouts.css", "transcripts.css"),
        title=title,
        steps=[(step, list(some)) for step, some in groupby(groups, lambda group: group.step)],
        summary=summary,
        notes=notes,
    )
