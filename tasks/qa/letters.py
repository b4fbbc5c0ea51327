"""Protocols that score the letter of an option: as published code reads responses, and strictly."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.metrics.averages import mean_of_present
from harness.metrics.choices import strict_choice
from harness.scores import Mean, Metric, Scores
from harness.task import Ceiling, Protocol, ScoreUnit, ground_truth, single_answer
from harness.tasks.qa.answer_text import answer_text, read_by, with_whole_responses
from harness.tasks.qa.options import stated_letter, strict_accuracy
from harness.types import Prediction, Sample

ACCURACY = "share of questions answered with the right letter"
MACRO = "macro_accuracy"


@dataclass(frozen=True, slots=True)
class Subtasks:
    """The parts of a benchmark whose accuracies are averaged, each counting once."""

    category: str
    """The samples' category that names the part."""
    names: tuple[str, ...]

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """One accuracy a part, and the mean of those that have a sample."""
        parts = (Metric(name, about=ACCURACY) for name in self.names)
        mean = Metric(
            MACRO,
            inputs=self.names,
            derived=mean_of_present,
            is_partial=True,
            about=f"mean accuracy of the {len(self.names)} subtasks",
        )
        return (*parts, mean)

    def score(self, whole: ScoreUnit) -> ScoreUnit:
        """A scorer that gives `whole`'s accuracy a second time, for the sample's part."""

        def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
            scores = whole(unit, predictions)
            return {**scores, unit[0].categories[self.category]: scores["accuracy"]}

        return score


@dataclass(frozen=True, slots=True)
class Reading:
    """A published script's way to read and score responses to questions with options."""

    read: Callable[[str, str], str | None]
    """Function that returns the letter of a text, given it and the question's letters; or None."""
    about: str
    """Whose script it is, and its particulars."""
    score: ScoreUnit | None = None
    """Scorer that gives `accuracy`, where the script does more than compare the letter."""
    accuracy: str = ACCURACY
    headline: str | None = None
    """None: the protocols' own."""


def any_letters(read: Callable[[str], str | None]) -> Callable[[str, str], str | None]:
    """A reader to which it does not matter what letters a question has."""
    return lambda text, _: read(text)


def scored_by(read: Callable[[str, str], str | None]) -> ScoreUnit:
    """A scorer by the letter that `read` takes from a response; none, or no response, is wrong."""

    def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
        _, target, prediction = single_answer(unit, predictions)
        text = answer_text(prediction)
        letter = None if text is None else read(text, target.extra["letters"])
        return {"accuracy": Mean(float(letter == target.extra["letter"]))}

    return score


def letter_protocols(
    name: str,
    *,
    strict: str = "only a letter that the response states counts",
    subtasks: Subtasks | None = None,
    whole: Sequence[str] = (),
    **readings: Reading,
) -> dict[str, Protocol]:
    """A protocol `NAME/KIND` for each way to read a letter, and `NAME/strict`.

    A response without a letter for its protocol has no answer: it counts as failed.

    Args:
        name: What the names begin with.
        strict: Particulars of the last protocol.
        subtasks: The parts whose mean is the headline, `macro_accuracy`; None: `accuracy` is.
        whole: The kinds that are there once more for whole responses (`with_whole_responses`).
        readings: Published scripts by their kind: `official` for the benchmark's own; `lmms` for
            lmms-eval's, where it is another, or the authors have published none.
    """
    strictly = Reading(any_letters(strict_choice), strict, score=strict_accuracy)
    protocols = dict[str, Protocol]()
    for kind, reading in {**readings, "strict": strictly}.items():
        scorer = reading.score or scored_by(reading.read)
        read = stated_letter if reading is strictly else _of_sample(reading.read)
        protocol = Protocol(
            name=f"{name}/{kind}",
            score=scorer if subtasks is None else subtasks.score(scorer),
            metrics=(
                Metric("accuracy", about=reading.accuracy),
                *(subtasks.metrics if subtasks else ()),
            ),
            headline=reading.headline or (MACRO if subtasks else "accuracy"),
            ceiling=Ceiling(value=1.0),
            about=reading.about,
            reads=read_by(read),
        )
        protocols |= with_whole_responses(protocol) if kind in whole else {protocol.name: protocol}
    return protocols


def _of_sample(read: Callable[[str, str], str | None]) -> Callable[[Sample, str], str | None]:
    return lambda sample, text: read(text, ground_truth(sample).extra["letters"])
