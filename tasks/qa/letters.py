"""`letter_protocols`: the protocols of a benchmark whose answers are letters of options.

Each published script is a `Reading`: it takes a letter from a response. Every benchmark also has a
strict protocol, in which only a letter that the response states counts.
"""

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
    """Subtasks of a benchmark; the headline is the unweighted mean of their accuracies."""

    category: str
    """Category of the samples that names the subtask."""
    names: tuple[str, ...]

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The accuracy of each subtask, and the mean over subtasks that have a sample."""
        accuracies = (Metric(name, about=ACCURACY) for name in self.names)
        mean = Metric(
            MACRO,
            inputs=self.names,
            derived=mean_of_present,
            is_partial=True,
            about=f"mean accuracy of the {len(self.names)} subtasks",
        )
        return (*accuracies, mean)

    def score(self, scorer: ScoreUnit) -> ScoreUnit:
        """Return `scorer` with its accuracy also under the name of the sample's subtask."""

        def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
            scores = scorer(unit, predictions)
            return {**scores, unit[0].categories[self.category]: scores["accuracy"]}

        return score


@dataclass(frozen=True, slots=True)
class Reading:
    """A published script's way to read and score responses to questions with options."""

    read: Callable[[str, str], str | None]
    """Function (text, the question's letters) that returns the letter of the text, or None."""
    about: str
    """Description of the protocol: whose script it is, and its particulars."""
    score: ScoreUnit | None = None
    """Scorer with the metric `accuracy`; None: the letter is compared with the true one."""
    accuracy: str = ACCURACY
    """Description of the metric `accuracy`."""
    headline: str | None = None
    """Name of the headline metric; None: `macro_accuracy` with subtasks, else `accuracy`."""


def any_letters(read: Callable[[str], str | None]) -> Callable[[str, str], str | None]:
    """Return `read` as a function for `Reading.read`; it ignores the question's letters."""
    return lambda text, _: read(text)


def scored_by(read: Callable[[str, str], str | None]) -> ScoreUnit:
    """Return a scorer that compares the letter that `read` finds with the true letter."""

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
    """Return a protocol `NAME/KIND` for each reading, and `NAME/strict`, by their names.

    A response in which a protocol reads no letter counts as failed in it.

    Args:
        name: First part of the protocols' names.
        strict: Description of the protocol `NAME/strict`.
        subtasks: Subtasks whose mean, `macro_accuracy`, is the headline; None: `accuracy` is.
        whole: Kinds that also have a variant for whole responses (`with_whole_responses`).
        readings: Published scripts by kind: `official` is the benchmark's own; `lmms` is that of
            lmms-eval, if it differs or there is no official one.
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
    """Return `read` as a function of the sample, which has the letters, and the text."""
    return lambda sample, text: read(text, ground_truth(sample).extra["letters"])
