"""Score Video-MME-v2's groups of four questions about a video.

A group by relevance (related questions) scores by the share of right answers; a group by logic is a
chain of reasoning, whose score is by the number of right answers before the first wrong one.
"""

from collections.abc import Sequence

from harness.metrics.choices import video_mme_v2_choice
from harness.scores import Mean, Metric, Ratio, Scores
from harness.task import ground_truth, official_and_strict
from harness.tasks.qa.answer_text import answer_text, read_by
from harness.tasks.qa.options import stated_letter
from harness.types import Prediction, Sample

GROUP = 4  # questions on a video, scored together
SQUARES = (0.0, 100.0 / 16, 100.0 * 4 / 16, 100.0 * 9 / 16, 100.0)
"""Points, of 100, by the number of right answers: the square of their share."""
CHAINS = {
    "[1, 2, 3, 4]": SQUARES,
    "[1, [2, 3], 4]": (0.0, 100.0 / 12, 100.0 * 4 / 12, 100.0 * 7 / 12, 100.0),
    "[[1, 2], 3, 4]": (0.0, 100.0 / 10, 100.0 * 2 / 10, 100.0 * 5 / 10, 100.0),
}
"""Points, of 100, for each structure of a group by logic, by the length of its chain of right
answers. In a structure, the two questions in inner brackets are one step: neither builds on the
other."""
QUESTIONS_BEFORE_PAIR = {"[1, [2, 3], 4]": 1, "[[1, 2], 3, 4]": 0}
"""Number of questions before the step of two. If its first is wrong, its second still counts."""
LEVELS = ("1", "2", "3")


def relevance(scores: Sequence[int]) -> float:
    """Return the points, of 100, of a group by relevance: the square of the share right.

    Scores are 1, 0, or -1 for an answer that cannot be read; a negative sum gives 0 points.

    >>> relevance([1, 1, 0, 0]), relevance([1, -1, 0, 0])
    (25.0, 0.0)
    """
    right = sum(scores)
    return SQUARES[right] if right >= 0 else 0.0


def logic(scores: Sequence[int], structure: str) -> float:
    """Return the points, of 100, of a group by logic, by the answers before the first wrong one.

    Only 0 ends the chain: the official script scores an answer that it cannot read as -1.

    >>> logic([1, 0, 1, 1], "[1, 2, 3, 4]"), logic([1, 0, 1, 1], "[1, [2, 3], 4]")
    (6.25, 33.333333333333336)
    >>> logic([-1, -1, -1, -1], "[1, 2, 3, 4]")
    100.0
    """
    wrong = [position for position, score in enumerate(scores) if not score]
    length = wrong[0] if wrong else len(scores)
    if length == QUESTIONS_BEFORE_PAIR.get(structure) and scores[length + 1]:
        length += 1
    return CHAINS[structure][length]


def score(unit: Sequence[Sample], predictions: Sequence[Prediction], *, strict: bool) -> Scores:
    """Return a group's points, from 0 to 1, as `score` and under its type and level; its accuracy.

    Args:
        unit: Four questions on one video.
        predictions: An answer to each.
        strict: An answer that cannot be read is wrong; else it is -1, as in `evaluate`, and does
            not count in `accuracy`.
    """
    scores = [_question_score(*pair, strict=strict) for pair in zip(unit, predictions, strict=True)]
    group_type, level = (unit[-1].categories.get(name) for name in ("group_type", "level"))
    if group_type == "logic":
        points = logic(scores, ground_truth(unit[-1]).extra["structure"]) / 100
        by_kind: Scores = {"logic": Mean(points)}
    else:
        points = relevance(scores) / 100
        by_kind = {"relevance": Mean(points), "relevance_linear": Mean(sum(scores) / GROUP)}
    readable_scores = [score for score in scores if score >= 0]
    return {
        **by_kind,
        "score": Mean(points),
        **({f"level_{level}": Mean(points)} if level in LEVELS else {}),
        "accuracy": Ratio(float(sum(readable_scores)), float(len(readable_scores))),
    }


def _letter(sample: Sample, text: str, *, strict: bool) -> str | None:
    """Return the letter in a response; None if the protocol finds none."""
    return stated_letter(sample, text) if strict else video_mme_v2_choice(text)


def _question_score(sample: Sample, prediction: Prediction, *, strict: bool) -> int:
    """Return 1 for the right letter, 0 for a wrong one; without a letter 0 if `strict`, else -1."""
    letter = _letter(sample, answer_text(prediction) or "", strict=strict)
    if letter is None:
        return 0 if strict else -1
    return int(letter == ground_truth(sample).extra["letter"])


METRICS = (
    Metric("score", about="mean over groups of a group's points"),
    Metric(
        "relevance", about="the same, of groups of related questions: the square of the share right"
    ),
    Metric("relevance_linear", about="mean share of right answers of these groups"),
    Metric("logic", about="the same, of chains: right answers before the first wrong one"),
    *(Metric(f"level_{level}", about=f"the same, of groups of level {level}") for level in LEVELS),
    Metric("accuracy", about="share of right answers, whatever their groups"),
)


PROTOCOLS = official_and_strict(
    "videommev2",
    score,
    reads=read_by(_letter),
    metrics=METRICS,
    headline="score",
    beside=("accuracy",),
    official="test_video_mme_v2.py: an unreadable answer is -1, which continues a chain",
    strict="only a stated letter counts, and an unreadable answer is wrong",
)
