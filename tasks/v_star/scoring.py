"""V-STaR's protocols: score the five answers to an item together.

The questions form two chains: what → when → where, and what → where2 → when2. The answer to "what"
counts in both; a judge rates it. "When" is scored by temporal IoU, "where" by the IoU of boxes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError, ParseError
from harness.judge import Judge
from harness.judging import Case, cases_to_judge, judgement, rubric
from harness.metrics import vstar
from harness.metrics.intervals import temporal_iou, temporal_iou_of_hull
from harness.run.judging import unjudged
from harness.scores import Metric, Scores
from harness.task import Ceiling, Protocol
from harness.tasks.qa.answer_text import answer_text
from harness.tasks.v_star.boxes import boxes_in, from_boxes, from_track
from harness.types import AnswerForm, Interval, Prediction, Sample

Reading = Literal["official", "strict"]
"""Rules for reading responses: those of V-STaR's eval.py, or the answer's form alone."""
HIGHEST_RATING = 3
"""The judge's best rating; ratings are whole numbers from 0."""
_UNANSWERED = -1
"""Stands for the rating if there is no answer to "what"."""


@dataclass(frozen=True, slots=True)
class Scoring:
    """Scores the five samples of an item (`task.STEPS`) together."""

    reading: Reading
    rubric: str
    judge: Judge | None = None

    def __call__(self, unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
        """Return an item's scores for `vstar.METRICS`."""
        steps = {
            sample.id.rpartition("/")[2]: (sample, prediction)
            for sample, prediction in zip(unit, predictions, strict=True)
        }
        rating = self._rating(*steps["what"])
        if rating == _UNANSWERED and self.reading == "official":
            return vstar.unanswered_scores()
        return vstar.scores(
            None if rating == _UNANSWERED else rating,
            [self._when_score(*steps[name]) for name in ("when", "when2")],
            [self._where_scores(*steps[name]) for name in ("where", "where2")],
        )

    def _rating(self, sample: Sample, prediction: Prediction) -> int | None:
        """Return the judge's rating of the answer to "what", from 0 to HIGHEST_RATING.

        None: the judge's response has no rating; `_UNANSWERED`: there is no answer.
        """
        assert sample.target is not None and sample.target.answer.text is not None
        text = answer_text(prediction)
        if not text:
            return _UNANSWERED
        judge_rubric = rubric(self.rubric)
        case = Case(sample.target.extra["question"], text, sample.target.answer.text)
        if self.judge is None and cases_to_judge(judge_rubric, [case]):
            raise unjudged(self.rubric)
        # Without a judge, the rubric decides this answer by rules alone.
        grade = judgement(self.judge or _NoJudge(), judge_rubric, case)
        scale = judge_rubric.grade_scale()
        is_official_scale = (scale.lowest, scale.highest) == (0, HIGHEST_RATING) and not scale.words
        if self.reading == "official" and grade.by == "judge" and is_official_scale:
            return vstar.read_rating(grade.text)  # "3." is not a rating, "4" is
        return round(grade.score * HIGHEST_RATING) if grade.readable else None

    def _when_score(self, sample: Sample, prediction: Prediction) -> float:
        """Return the temporal IoU of an answer to "when"."""
        assert sample.target is not None
        ground_truth: Interval = sample.target.extra["interval"]
        parsed = None if prediction.answer is None else prediction.answer.interval
        if self.reading == "strict":
            return temporal_iou(ground_truth, parsed)
        stated_interval = vstar.interval_in(answer_text(prediction) or "")
        return temporal_iou_of_hull(ground_truth, stated_interval or parsed)

    def _where_scores(self, sample: Sample, prediction: Prediction) -> NDArray[np.float64]:
        """Return the IoU of an answer to "where" with each box of the ground truth."""
        assert sample.target is not None
        predicted = _boxes(sample, prediction)
        times: Literal["text", "number"] = "text" if self.reading == "official" else "number"
        boxes = sample.target.extra["boxes"]
        return (
            vstar.frame_ious(boxes, predicted, times=times) if predicted else np.zeros(len(boxes))
        )


def is_readable(reading: Reading, sample: Sample, prediction: Prediction) -> bool:
    """Return True if the answer has the step's form: a text, an interval, or boxes."""
    step, text, answer = sample.id.rpartition("/")[2], answer_text(prediction), prediction.answer
    if step == "what":
        return bool(text)
    if step in ("when", "when2"):
        if answer is not None and answer.interval is not None:
            return True
        return reading == "official" and text is not None and vstar.interval_in(text) is not None
    if sample.query.form is AnswerForm.TEXT:
        return bool(boxes_in(text or ""))
    return answer is not None


class _NoJudge:
    """Stands in for the judge if the rubric needs none."""

    name = "nobody"

    def judge(self, rubric: str, question: str, answer: str, ground_truth: str) -> NoReturn:
        """Raise; this is never called."""
        raise unjudged(rubric)


def _boxes(sample: Sample, prediction: Prediction) -> Mapping[str, object]:
    """Return the predicted boxes by their second, as text such as "4"."""
    answer = prediction.answer
    if sample.query.form is AnswerForm.TEXT:
        return boxes_in(answer_text(prediction) or "")
    if answer is None or answer.no_target:
        return {}
    if answer.box_track is not None:
        return from_track(answer.box_track)
    try:
        return from_boxes(answer.boxes or (), len(sample.query.media[0]))
    except ParseError as error:
        raise DataError(f"sample {sample.id!r}: {error}") from error


def _ceiling_of_mam(samples: Iterable[Sample]) -> float:
    """Return the mAM of perfect answers; it is below 1 if boxes have times without a frame."""
    shares: dict[str, list[float]] = {}
    for sample in samples:
        if sample.target is None or sample.target.extra["step"] not in ("where", "where2"):
            continue
        boxes = sample.target.extra["boxes"]
        frames = len(sample.query.media[0])
        has_frame = [float(time).is_integer() and 0 <= time < frames for time, _ in boxes]
        # Text can name any time; a track has only whole seconds within the video.
        is_text = sample.query.form is AnswerForm.TEXT
        share = 1.0 if is_text else float(np.mean(has_frame or [0]))
        shares.setdefault(sample.unit, []).append(share)
    reachable = (
        float(np.mean([np.mean(unit_shares) for unit_shares in shares.values()])) if shares else 1.0
    )
    return (1 + 1 + reachable) / 3  # the mean of Acc, m_tIoU and m_vIoU


ABOUT: Mapping[str, str] = {  # descriptions of metrics, by the prefix of their names
    "Acc": "share of answers to 'what' that the judge rates 2 or 3 of 3",
    "rating": "mean rating, from 0 to 3",
    "m_tIoU": "mean temporal IoU",
    "m_vIoU": "mean of boxes' IoU over annotated seconds",
    "R1@": "share with at least this temporal IoU",
    "AP@": "share of boxes with at least this IoU",
    "what&": "share that is right in all of these",
    "when&": "share that is right in all of these",
    "AM": "mean of Acc, m_tIoU and m_vIoU",
    "mAM": "AM, mean of both chains; where papers print one number for V-STaR, it is mLGM × 100",
    "LGM": "minus the mean of ln(1 - x) over the three",
    "mLGM": "LGM, mean of both chains; × 100 it is the number that Video-STR's Table 1 prints",
}


def _with_description(metric: Metric) -> Metric:
    """Return the metric with the text of the longest prefix of its name in ABOUT, and its chain."""
    prefix = max((name for name in ABOUT if metric.name.startswith(name)), key=len)
    chain = {"1": ", chain 1", "2": ", chain 2"}.get(metric.name[-1], "")
    return replace(metric, about=ABOUT[prefix] + chain)


def with_rubric(protocol: Protocol, rubric_name: str) -> Protocol:
    """Return the protocol with answers to "what" graded by another rubric."""
    reading: Reading = "strict" if protocol.name.endswith("strict") else "official"
    return replace(
        protocol,
        rubric=rubric_name,
        score=Scoring(reading, rubric_name),
        reads=partial(is_readable, reading),
        judged=partial(Scoring, reading, rubric_name),
    )


OFFICIAL = Protocol(
    name="vstar/official",
    score=Scoring("official", "graded"),
    metrics=tuple(map(_with_description, vstar.METRICS)),
    headline="mAM",
    beside=("mLGM",),
    ceiling=Ceiling(value=_ceiling_of_mam, why="a track has no frame at a second beyond the video"),
    about="V-STaR's eval.py: an item without an answer to 'what' counts in Acc and joint scores; "
    "the headline is mAM, papers print mLGM × 100",
)
PROTOCOLS = {
    "vstar/official": with_rubric(OFFICIAL, "graded"),
    "vstar/strict": with_rubric(
        replace(
            OFFICIAL,
            name="vstar/strict",
            about="every item counts everywhere; times are numbers, intervals may not end early",
        ),
        "graded",
    ),
}
