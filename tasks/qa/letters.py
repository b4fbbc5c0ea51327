"""Protocols that score the letter of an option: as official code reads responses, and strictly."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.metrics.averages import mean_in_order
from harness.scores import Mean, Metric, Scores
from harness.task import Ceiling, Protocol, ScoreUnit, single_answer
from harness.tasks.qa.answer_text import read_by
from harness.tasks.qa.options import response, stated_letter, strict_accuracy
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
        """One accuracy a part, and their mean: None unless every part has a sample."""
        parts = (Metric(name, about=ACCURACY) for name in self.names)
        mean = Metric(
            MACRO,
            inputs=self.names,
            derived=mean_in_order,
            about=f"mean accuracy of the {len(self.names)} subtasks",
        )
        return (*parts, mean)

    def score(self, whole: ScoreUnit) -> ScoreUnit:
        """A scorer that gives `whole`'s accuracy a second time, for the sample's part."""

        def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
            scores = whole(unit, predictions)
            return {**scores, unit[0].categories[self.category]: scores["accuracy"]}

        return score


def scored_by(read: Callable[[str], str | None]) -> ScoreUnit:
    """A scorer by the letter that `read` takes from a response; none, or no response, is wrong."""

    def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
        _, target, prediction = single_answer(unit, predictions)
        return {"accuracy": Mean(float(response(prediction, read)[1] == target.extra["letter"]))}

    return score


def letter_protocols(
    name: str,
    read: Callable[[str], str | None],
    *,
    official: str,
    score: ScoreUnit | None = None,
    accuracy: str = ACCURACY,
    strict: str = "only a letter that the response states counts",
    subtasks: Subtasks | None = None,
) -> dict[str, Protocol]:
    """`NAME/official`, which scores the letter that `read` takes from a response, and
    `NAME/strict`.

    A response without a letter for its protocol has no answer: it counts as failed.

    Args:
        name: What both names begin with.
        read: The letter that the benchmark's own script takes from a response, or None.
        score: Gives `accuracy`, where the script does more than compare the letter that it reads.
        official: Description of the first protocol: its scorer, and its particulars.
        accuracy: What its accuracy is.
        strict: Particulars of the second protocol.
        subtasks: The parts whose mean is the headline, `macro_accuracy`; None: `accuracy` is.
    """
    by_script = read_by(lambda _, text: read(text))
    both = (
        ("official", score or scored_by(read), by_script, accuracy, official),
        ("strict", strict_accuracy, read_by(stated_letter), ACCURACY, strict),
    )
    return {
        f"{name}/{kind}": Protocol(
            name=f"{name}/{kind}",
            score=scorer if subtasks is None else subtasks.score(scorer),
            metrics=(Metric("accuracy", about=means), *(subtasks.metrics if subtasks else ())),
            headline=MACRO if subtasks else "accuracy",
            ceiling=Ceiling(value=1.0),
            about=about,
            reads=reads,
        )
        for kind, scorer, reads, means, about in both
    }
