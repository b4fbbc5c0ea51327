"""The protocol of judges, which grade free answers; `harness.judging` has their rubrics."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's verdict on one answer."""

    score: float | None
    """Score from 0 to 1; None if the rubric has no scale: the text is then the verdict."""
    text: str


class Judge(Protocol):
    """Judges free text by a rubric. A task names the rubric; the command brings the judge."""

    @property
    def name(self) -> str:
        """Model, prompt and temperature, for the record."""

    def judge(self, rubric: str, question: str, answer: str, ground_truth: str) -> Verdict:
        """Return the verdict on one answer."""
