"""Count responses whose stated option differs from the one that the protocol's official rule reads.

Some official rules take, for example, the first capital letter of a response. `harness score` notes
if that misreads many responses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from harness.errors import ParseError
from harness.run.scoring import reading_of
from harness.stated.letters import stated_letter
from harness.task import Task
from harness.thoughts import after_thought
from harness.types import AnswerForm, Prediction, Sample

MIN_SHARE = 0.05
"""Smallest share of differing responses that is noted."""


@dataclass
class Differing:
    """Numbers of responses that state an option's letter, and of those read as another letter."""

    stated: int = 0
    differing: int = 0
    first: str = ""
    """Text on the first differing response, with both letters."""

    def add(self, task: Task, unit: Sequence[Sample], predictions: Sequence[Prediction]) -> None:
        """Compare the stated letters of a unit's responses with the letters that are read."""
        for sample, prediction in zip(unit, predictions, strict=True):
            if sample.query.form is not AnswerForm.CHOICE or len(prediction.responses) != 1:
                continue
            options = sample.query.options
            letters = ascii_uppercase[: len(options)]
            reading, response = reading_of(task, sample, prediction), prediction.responses[0]
            if not isinstance(reading, str) or reading not in letters:
                continue
            try:
                letter = stated_letter(after_thought(response), letters, options)
            except ParseError:
                continue
            self.stated += 1
            if letter != reading:
                self.differing += 1
                text = f"of {response.strip()[:60]!r}, {reading} in place of {letter}"
                self.first = self.first or text

    def notes(self, protocol: str) -> tuple[str, ...]:
        """Return a note if many responses differ; empty otherwise."""
        if not self.differing or self.differing < MIN_SHARE * self.stated:
            return ()
        return (
            f"{protocol} reads another option than {self.differing} of {self.stated} responses "
            f"state: {self.first}. Its rule is the published one; a protocol …/strict, where the "
            "benchmark has one, reads what is stated",
        )
