"""Drafts: questions before their wording, with subject and answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from harness.types import Box, Box3D

Kind: TypeAlias = Literal[
    "object_counting",
    "relative_direction",
    "relative_distance",
    "appearance_order",
    "object_size",
    "motion_tracking",
    "object_localization",
    "displacement",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""The eight types of questions, in the paper's order."""

TEMPORAL = frozenset({"appearance_order", "motion_tracking", "displacement"})
"""Types of temporal reasoning, for videos alone; the others are spatial."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The right option and the others."""

    right: str
    wrong: tuple[str, ...]
    offered: int | None = None
    """Number of wrong options that are offered, drawn with the question's own draws; None: all."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number with its decimals, so that text and ground truth are the same number."""

    value: float
    decimals: int = 2

    def text(self) -> str:
        """The number as it is written."""
        return f"{self.value:.{self.decimals}f}"


@dataclass(frozen=True, slots=True)
class Draft:
    """One question."""

    kind: Kind
    wording: str
    """Name of a table of wordings in `templates.toml`, one of those of its kind."""
    answer: Choice | Number | Box | Box3D
    fields: Mapping[str, str] = field(default_factory=dict)
    """Values for the wording's braces."""
    frame: int | None = None
    """Frame of the answer, if it belongs to one frame."""


def box_text(box: Box) -> str:
    """A box in the image as questions and answers write it: whole pixels.

    >>> box_text(Box(1.4, 2.5, 30.6, 40))
    '[1, 2, 31, 40]'
    """
    return str([round(side) for side in box])


def box_3d_text(box: Box3D) -> str:
    """A box in space as questions and answers write it: centre and extents, in centimetres' steps.

    >>> box_3d_text(Box3D(1.234, 0, -2, 0.5, 0.25, 3))
    '[1.23, 0.0, -2.0, 0.5, 0.25, 3.0]'
    """
    return str([round(side, 2) + 0.0 for side in box])


def seconds_text(seconds: float) -> str:
    """A time in a clip.

    >>> seconds_text(2.5)
    '2.5 s'
    """
    return f"{seconds:.1f} s"
