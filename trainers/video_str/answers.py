"""R_ans of Video-STR (Eq. 2 to 4): the reward of an answer, by its form; from 0 to 1.

Each is a pure function of the response and the target. It reads a response without repairs, and is
0 if nothing can be read. Boxes are compared in pixels of the image, right and bottom exclusive;
the numbers of a response are in the resolution that the question names, else in the canvas.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from harness.errors import DataError, ParseError, UsageError
from harness.metrics.boxes import box_iou
from harness.metrics.boxes3d import box_iou_3d
from harness.metrics.intervals import temporal_iou
from harness.metrics.numeric import only_number, relative_accuracy
from harness.models.grammar import well_formed
from harness.models.video_str.answer_prompts import boxes_3d
from harness.models.video_str.boxes import named_resolution, parse
from harness.responses import tag_text
from harness.stated.intervals import stated_interval
from harness.trainers.grpo.method import Group
from harness.types import AnswerForm, Box, Box3D, Interval, Sample, Target

TOKEN = re.compile(r"[a-z0-9]+")  # a word or a number of a text in lower case
MAX_WORDS = 2_000  # number of words of a text that are compared


def format_reward(response: str) -> float:
    """Return R_format (Eq. 1): 1 if the response is reasoning, maybe a graph, and answer; else 0.

    Spaces around the response are ignored.
    """
    text = response.strip()
    return float(well_formed(text) or well_formed(text, "graph"))


def answer(response: str) -> str:
    """Return the text of the first `<answer>`; empty if there is none."""
    return tag_text(response, "answer") or ""


def choice_reward(response: str, ground_truth: str) -> float:
    """Return R_mc (Eq. 2): 1 if the answer begins with the letter of the true choice, else 0.

    >>> choice_reward("<answer>B. the dog</answer>", "B"), choice_reward("<answer>b</answer>", "B")
    (1.0, 0.0)
    """
    match = re.match(r"[A-Z](?![A-Za-z])", answer(response))
    return float(match is not None and match[0] == ground_truth)


def number_reward(response: str, ground_truth: float) -> float:
    """Return R_num (Eq. 3): `max(0, 1 - |p - y| / |y|)`; p is the number that begins the answer.

    A unit may follow p, but no second number.

    >>> number_reward("<answer>1,500 mm</answer>", 2000.0)
    0.75
    """
    predicted = answer(response)
    begins = re.match(r"[-+−]?\.?\d", predicted) is not None  # "3 m", "-.5"
    return relative_accuracy(only_number(predicted) if begins else None, ground_truth)


def boxes_reward(
    response: str, ground_truth: Sequence[Box], *, canvas: tuple[int, int], image: tuple[int, int]
) -> float:
    """Return R_IoU (Eq. 4) of boxes in an image.

    It is the sum of IoUs of the best one-to-one assignment, divided by the larger number of boxes;
    1 if there is no box on both sides.

    Args:
        response: Response of the policy.
        ground_truth: True boxes, in pixels of the image.
        canvas: (width, height) of the frame of the response's numbers.
        image: (width, height) of the image.
    """
    predicted = parse(response, aid="graph", strict=True)  # `<graph>` may stand before the answer
    if predicted.error is not None or "<answer>" not in response:
        return 0.0
    if not ground_truth or not predicted.items:
        return float(not ground_truth and not predicted.items)
    across, down = image[0] / canvas[0], image[1] / canvas[1]
    rows = [
        (box.left * across, box.top * down, box.right * across, box.bottom * down)
        for box in (item.bounds for item in predicted.items)
    ]
    ious = box_iou(ground_truth, rows)
    shared = float(ious[linear_sum_assignment(-ious)].sum())
    return shared / max(len(ground_truth), len(rows))


def interval_reward(response: str, ground_truth: Interval) -> float:
    """Return R_IoU of an interval of time, in seconds."""
    try:
        predicted = Interval(*stated_interval(answer(response)))
        return temporal_iou(ground_truth, predicted)
    except (ParseError, DataError):
        return 0.0


def boxes_3d_reward(response: str, ground_truth: Sequence[Box3D]) -> float:
    """Return the IoU of two axis-aligned 3-D boxes, or exp(-distance of their centres in m).

    The distance counts if the true box lacks a positive extent, or all extents of the response's
    box are 0. The question asks for one box, so only the first box of either counts.
    """
    try:
        predicted = boxes_3d(answer(response))
    except ParseError:
        return 0.0
    if not predicted or not ground_truth:
        return 0.0
    true, box = ground_truth[0], predicted[0]  # centre (x, y, z), then extents
    if all(np.array(true[3:]) > 0) and any(np.array(box[3:]) != 0):
        return float(box_iou_3d([true], [box])[0, 0])
    return math.exp(-math.dist(true[:3], box[:3]))


def text_reward(response: str, ground_truths: Sequence[str]) -> float:
    """Return `rouge` with the nearest of the true texts.

    Video-STR mixes in samples of Video-R1-260k, whose free answers are scored so (but with
    stemming), and whose transcriptions are scored by `transcription`.
    """
    return max(
        (rouge(ground_truth, answer(response)) for ground_truth in ground_truths), default=0.0
    )


def rouge(ground_truth: str, predicted: str) -> float:
    """Return the mean F-measure of ROUGE-1, -2 and -L (Lin 2004), in lower case, not stemmed.

    >>> round(rouge("the red car", "a red car"), 3)
    0.611
    """
    true = TOKEN.findall(ground_truth.lower())[:MAX_WORDS]
    tokens = TOKEN.findall(predicted.lower())[:MAX_WORDS]
    longest = _f_measure(_common_length(true, tokens), len(tokens), len(true))
    scores = (_ngram_f_measure(true, tokens, 1), _ngram_f_measure(true, tokens, 2), longest)
    return math.fsum(scores) / 3


def _ngram_f_measure(true: Sequence[str], predicted: Sequence[str], n: int) -> float:
    """Return the F-measure of runs of `n` words (ROUGE-n)."""

    def ngrams(tokens: Sequence[str]) -> Counter[tuple[str, ...]]:
        return Counter(zip(*(tokens[start:] for start in range(n)), strict=False))

    hits = (ngrams(true) & ngrams(predicted)).total()
    return _f_measure(hits, ngrams(predicted).total(), ngrams(true).total())


def _f_measure(hits: int, predicted: int, true: int) -> float:
    return 2 * hits / (predicted + true) if hits else 0.0


def _common_length(true: Sequence[str], predicted: Sequence[str]) -> int:
    """Return the length of the longest common subsequence, by rows of the usual table."""
    row = [0] * (len(predicted) + 1)
    for word in true:
        diagonal = 0  # the entry before in the row before
        for column, predicted_word in enumerate(predicted, start=1):
            best = diagonal + 1 if word == predicted_word else max(row[column], row[column - 1])
            diagonal, row[column] = row[column], best
    return row[-1]


def transcription(ground_truth: str, predicted: str) -> float:
    """Return 1 minus the word error rate, at least 0.

    >>> transcription("the red car", "the red bus")
    0.6666666666666667
    """
    true, tokens = ground_truth.split()[:MAX_WORDS], predicted.split()[:MAX_WORDS]
    row = list(range(len(tokens) + 1))  # of the table of edit distances
    for number, true_word in enumerate(true, start=1):
        diagonal, row[0] = row[0], number
        for column, word in enumerate(tokens, start=1):
            edits = 1 + min(diagonal, row[column], row[column - 1])
            best = diagonal if word == true_word else edits
            diagonal, row[column] = row[column], best
    return max(0.0, min(1.0, 1 - row[-1] / max(1, len(true))))


def answer_reward(group: Group, response: str) -> float:
    """Return R_ans: the reward for the form of answer that a group's sample asks for."""
    sample = group.sample
    return REWARDS[sample.query.form].reward(response, ground_truth_of(sample), group)


def ground_truth_of(sample: Sample) -> Target:
    """Return the target of a sample, if its answer can be rewarded.

    Raises:
        UsageError: there is no reward for its form of answer.
        DataError: its target has no ground truth of this form.
    """
    form = sample.query.form
    if form not in REWARDS:
        raise UsageError(
            f"sample {sample.id!r}",
            expected=f"one of {', '.join(REWARDS)}",
            found=str(form),
            fix="Train on other tasks.",
        )
    name = REWARDS[form].field
    if sample.target is None or getattr(sample.target.answer, name) is None:
        raise DataError(f"sample {sample.id!r}", expected=f"a true {name}", found="none")
    return sample.target


def _boxes(response: str, target: Target, group: Group) -> float:
    query = group.sample.query
    canvas = named_resolution(query.text) or group.canvas
    return boxes_reward(response, target.answer.boxes or (), canvas=canvas, image=query.size)


def _interval(response: str, target: Target, group: Group) -> float:
    assert target.answer.interval is not None, "`ground_truth_of` has checked it"
    return interval_reward(response, target.answer.interval)


def _text(response: str, target: Target, group: Group) -> float:
    ground_truth = target.answer.text or ""
    if target.extra.get("problem_type") == "OCR":
        return transcription(ground_truth, answer(response))
    return text_reward(response, (ground_truth, *target.references))


class FormReward(NamedTuple):
    """R_ans of one form of answer."""

    field: str
    """Field of `Answer` with the ground truth."""
    term: str | None
    """The paper's name of the reward; None for texts, which the paper does not reward."""
    reward: Callable[[str, Target, Group], float]
    """Function of response, target and group."""


REWARDS: Mapping[AnswerForm, FormReward] = MappingProxyType(
    {
        AnswerForm.CHOICE: FormReward(
            "choice",
            "R_mc",
            lambda text, target, _: choice_reward(text, target.answer.choice or ""),
        ),
        AnswerForm.NUMBER: FormReward(
            "number",
            "R_num",
            lambda text, target, _: number_reward(text, float(target.answer.number or 0.0)),
        ),
        AnswerForm.BOXES: FormReward("boxes", "R_IoU", _boxes),
        AnswerForm.INTERVAL: FormReward("interval", "R_IoU", _interval),
        AnswerForm.BOX_3D: FormReward(
            "boxes_3d",
            "R_IoU",
            lambda text, target, _: boxes_3d_reward(text, target.answer.boxes_3d or ()),
        ),
        AnswerForm.TEXT: FormReward("text", None, _text),
    }
)
