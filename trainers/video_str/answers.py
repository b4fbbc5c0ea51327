"""R_ans of Video-STR by the form of the answer: Eq. 2 to 4, as pure functions of text and target.

Each reads a response strictly (no repairs) and is 0 where nothing can be read; none raises on what
a network wrote. Boxes are compared in pixels of the image, right and bottom exclusive; the numbers
of a response are in the resolution that the question names, else in the network's canvas.
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

TOKEN = re.compile(r"[a-z0-9]+")
LONGEST_TEXT = 2_000  # tokens of a text that are compared


def format_reward(response: str) -> float:
    """R_format (Eq. 1): 1 if the whole response, stripped, is reasoning, graph or none, answer."""
    text = response.strip()
    return float(well_formed(text) or well_formed(text, "graph"))


def answer(response: str) -> str:
    """Return the text of the first `<answer>`; empty where there is none."""
    return tag_text(response, "answer") or ""


def choice_reward(response: str, ground_truth: str) -> float:
    """R_mc (Eq. 2): 1 where the answer begins with the letter.

    >>> choice_reward("<answer>B. the dog</answer>", "B"), choice_reward("<answer>b</answer>", "B")
    (1.0, 0.0)
    """
    match = re.match(r"[A-Z](?![A-Za-z])", answer(response))
    return float(match is not None and match[0] == ground_truth)


def number_reward(response: str, ground_truth: float) -> float:
    """R_num (Eq. 3): `max(0, 1 - |p - y| / |y|)` of the one number that the answer begins
    with; a unit may follow.

    >>> number_reward("<answer>1,500 mm</answer>", 2000.0)
    0.75
    """
    predicted = answer(response)
    begins = re.match(r"[-+−]?\.?\d", predicted) is not None
    return relative_accuracy(only_number(predicted) if begins else None, ground_truth)


def boxes_reward(
    response: str, ground_truth: Sequence[Box], *, canvas: tuple[int, int], image: tuple[int, int]
) -> float:
    """R_IoU (Eq. 4) of boxes in an image.

    Of several, the best assignment's IoUs over the larger of both numbers; 1 for none and none.
    """
    predicted = parse(response, aid="graph", strict=True)
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
    """R_IoU of a stretch of time."""
    try:
        predicted = Interval(*stated_interval(answer(response)))
        return temporal_iou(ground_truth, predicted)
    except (ParseError, DataError):
        return 0.0


def boxes_3d_reward(response: str, ground_truth: Sequence[Box3D]) -> float:
    """IoU of axis-aligned boxes in space where both have an extent, else exp(-distance) in metres.

    The question asks for one box: the first of each counts.
    """
    try:
        predicted = boxes_3d(answer(response))
    except ParseError:
        return 0.0
    if not predicted or not ground_truth:
        return 0.0
    true, given = ground_truth[0], predicted[0]
    if all(np.array(true[3:]) > 0) and any(np.array(given[3:]) != 0):
        return float(box_iou_3d([true], [given])[0, 0])
    return math.exp(-math.dist(true[:3], given[:3]))


def text_reward(response: str, ground_truths: Sequence[str]) -> float:
    """Mean F-measure of ROUGE-1, -2 and -L with the nearest true text, words not stemmed.

    Video-STR mixes in samples of Video-R1-260k, whose free answers are graded so (with stemming),
    and whose transcriptions by `transcription`.
    """
    return max(
        (rouge(ground_truth, answer(response)) for ground_truth in ground_truths), default=0.0
    )


def rouge(ground_truth: str, predicted: str) -> float:
    """Mean F-measure of ROUGE-1, -2 and -L (Lin 2004), in lower case, words not stemmed.

    >>> round(rouge("the red car", "a red car"), 3)
    0.611
    """
    true, given = (TOKEN.findall(text.lower())[:LONGEST_TEXT] for text in (ground_truth, predicted))
    shared = [_shared_ngrams(true, given, n) for n in (1, 2)]
    return math.fsum((*shared, _f(_common(true, given), len(given), len(true)))) / 3


def _shared_ngrams(true: Sequence[str], given: Sequence[str], n: int) -> float:
    grams = [Counter(zip(*(words[k:] for k in range(n)), strict=False)) for words in (true, given)]
    return _f((grams[0] & grams[1]).total(), grams[1].total(), grams[0].total())


def _f(hits: int, predicted: int, true: int) -> float:
    return 2 * hits / (predicted + true) if hits else 0.0


def _common(true: Sequence[str], given: Sequence[str]) -> int:
    """The length of the longest common subsequence."""
    row = [0] * (len(given) + 1)
    for word in true:
        before = 0
        for place, same in enumerate(given, start=1):
            best = before + 1 if word == same else max(row[place], row[place - 1])
            before, row[place] = row[place], best
    return row[-1]


def transcription(predicted: str, ground_truth: str) -> float:
    """1 minus the word error rate, at least 0.

    >>> transcription("the red car", "the red bus")
    0.6666666666666667
    """
    wanted, given = ground_truth.split()[:LONGEST_TEXT], predicted.split()[:LONGEST_TEXT]
    row = list(range(len(given) + 1))
    for number, word in enumerate(wanted, start=1):
        before, row[0] = row[0], number
        for place, given_word in enumerate(given, start=1):
            cheapest = before if word == given_word else 1 + min(before, row[place], row[place - 1])
            before, row[place] = row[place], cheapest
    return max(0.0, min(1.0, 1 - row[-1] / max(1, len(wanted))))


def answer_reward(group: Group, response: str) -> float:
    """R_ans: the reward for the form of answer that a group's sample asks for."""
    sample = group.sample
    return REWARDS[sample.query.form].reward(response, ground_truth_of(sample), group)


def ground_truth_of(sample: Sample) -> Target:
    """The target of a sample that an answer can be rewarded for.

    Raises:
        UsageError: there is no reward for its form of answer.
        DataError: its ground truth says nothing of that form.
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
        return transcription(answer(response), ground_truth)
    return text_reward(response, (ground_truth, *target.references))


class FormReward(NamedTuple):
    """R_ans of one form of answer."""

    field: str
    """Field of an answer with the ground truth."""
    term: str | None
    """The paper's name of it; None for texts, which the paper does not reward."""
    reward: Callable[[str, Target, Group], float]


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
