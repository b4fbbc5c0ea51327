"""VideoSeg-R1's reward: VisionReasoner's terms and negative points, times a length factor.

Xu et al. (2025), Eq. 5 to 8 and appendices C and E. README.md says how gaps of the formulas are
filled. Every function is pure and accepts any response. Boxes, points and masks are in pixels of
the 840 × 840 frame.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Literal, NamedTuple, TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from harness.errors import ParseError, UsageError
from harness.masks import BoolArray
from harness.models.grammar import MAX_OBJECTS, split_frame, take_apart
from harness.models.videoseg_r1.grammar import NEGATIVE, POSITIVE
from harness.models.videoseg_r1.negatives import boxes_filled
from harness.models.visionreasoner.grammar import CANVAS
from harness.models.visionreasoner.scoring import (
    BOX,
    Accuracy,
    answer_value,
    match_flags,
    matching_credit,
    non_repeat,
    thinking_format,
)
from harness.options import Only
from harness.responses import finite_numbers, tag_text
from harness.trainers.grpo.functions import OF_REWARD
from harness.trainers.grpo.method import TOTAL, ComponentReward, Group, RewardComponents
from harness.trainers.videoseg_r1.budgets import UNKNOWN, Budgets, budgets_of, length_factor
from harness.trainers.videoseg_r1.samples import key_of
from harness.trainers.visionreasoner.objects import TargetObjects, target_objects
from harness.types import Sample

Penalty: TypeAlias = Literal["clipped", "literal", "none"]
"""Form of the soft length penalty: clipped at 0, literally as the paper's formula, or left out."""

WITH_PENALTY = Only(length_penalty=("clipped", "literal"))  # marks settings of the penalty
NEGATIVE_DISTANCE = 40
"""τ_neg: a negative point farther than this from every object, in pixels, earns nothing."""
TERMS = ("thinking_format", "answer_format", "accuracy", "negative_points", "non_repeat")
"""Components whose sum the length factor multiplies."""
MAX_FORMAT_REWARD = 2.0  # VisionReasoner's reward for the form of box and point

Distances: TypeAlias = NDArray[np.float32]
"""840 × 840: taxicab distance of each pixel to the nearest target pixel; 0 on the target."""
TargetDistances: TypeAlias = Callable[[int], Distances | None]
"""Returns the distances to a sample's targets in the frame with an index; None: it has none."""


class ParsedObjects(NamedTuple):
    """Boxes and points of a response, in its own coordinate frame."""

    objects: tuple[NDArray[np.float64], NDArray[np.float64]] | None
    """Boxes (M × 4) and positive points (M × 2); None if one of them is wrong or there are none."""
    negatives: NDArray[np.float64]
    """K × 2: the negative points that can be read."""
    predicted: int
    """Number of objects that have a negative point, readable or not."""


def answer_format(response: str, *, negative: bool = True) -> float:
    """Return 0 to 2: twice the mean share, over objects, of places that have their form.

    The places of an object are box, positive point and negative point; without `negative`, the
    first two. A box has length 4, a point length 3, with its label at the end. An answer that is
    not a list, or is empty, earns 0.
    """
    value = answer_value(response)
    if not isinstance(value, list) or not value:
        return 0.0
    mean = sum(_well_formed_places(entry, negative=negative) for entry in value) / len(value)
    return mean * MAX_FORMAT_REWARD / (3 if negative else 2)


def parse_objects(response: str) -> ParsedObjects:
    """Return the boxes and points of a response, of at most MAX_OBJECTS objects.

    One unreadable box or positive point invalidates all objects, as in VisionReasoner's reward; an
    unreadable negative point is only left out.
    """
    no_points = np.zeros((0, 2))
    value = answer_value(response)
    if not isinstance(value, list) or not value:
        return ParsedObjects(None, no_points, 0)
    entries = [entry for entry in value[:MAX_OBJECTS] if isinstance(entry, Mapping)]
    predicted = [entry[NEGATIVE] for entry in entries if NEGATIVE in entry]
    read = [_read_numbers(point, 3) for point in predicted]
    readable = [point[:2] for point in read if point is not None]
    negatives = np.array(readable) if readable else no_points
    boxes = [_read_numbers(entry.get(BOX), 4) for entry in entries]
    points = [_read_numbers(entry.get(POSITIVE), 3) for entry in entries]
    all_are_objects = len(entries) == min(len(value), MAX_OBJECTS)
    if not all_are_objects or None in boxes or None in points:
        return ParsedObjects(None, negatives, len(predicted))
    located = np.array(boxes, dtype=np.float64), np.array(points, dtype=np.float64)[:, :2]
    return ParsedObjects(located, negatives, len(predicted))


def distances(target: BoolArray) -> Distances | None:
    """Return taxicab distances to a mask (height × width of the image), in the 840 × 840 frame.

    None if the mask is empty. A mask that is too small for nearest-neighbour scaling covers every
    pixel of the frame that it overlaps.
    """
    if not target.any():
        return None
    small = cv2.resize(target.astype(np.uint8), CANVAS, interpolation=cv2.INTER_NEAREST)
    if not small.any():
        shares = cv2.resize(target.astype(np.float32), CANVAS, interpolation=cv2.INTER_AREA)
        small = (np.asarray(shares) > 0).astype(np.uint8)
    return cv2.distanceTransform(1 - small, cv2.DIST_L1, 3).astype(np.float32)


def negative_points(
    points: NDArray[np.float64],
    predicted: int,
    far: Distances | None,
    *,
    reach: float = NEGATIVE_DISTANCE,
) -> float:
    """Return R_neg, 0 to 1: the share of predicted points that lie near, but not on, an object.

    Args:
        points: Readable points inside or outside the image, K' × 2.
        predicted: K, the number of predicted points, readable or not.
        far: Distances to the union of all objects; None: there is no object, so that R_neg is 0.
        reach: τ_neg. A point at exactly this distance counts; one outside the image does not.
    """
    if far is None or predicted == 0:
        return 0.0
    near = 0
    for x, y in np.floor(points + 0.5).astype(np.int64):
        if 0 <= x < CANVAS[0] and 0 <= y < CANVAS[1]:
            near += bool(0 < far[y, x] <= reach)
    return near / predicted


def reasoning_text(response: str) -> str:
    """Return the reasoning whose tokens are counted, L_used of Eq. 7: the text of `<think>`.

    If there is no complete `<think>`, it is all text before the answer, so that a response cannot
    shorten its reasoning by leaving out a tag.
    """
    closed = tag_text(response, "think")
    return response.partition("<answer>")[0].strip() if closed is None else closed


def target_distances(sample: Sample) -> TargetDistances:
    """Return a function for the distances to the targets of a frame; it caches its results."""
    assert sample.target is not None, "samples without targets are left out"
    masks, objects = sample.target.answer.masks, target_objects(sample)

    @cache
    def of_frame(frame: int) -> Distances | None:
        if masks is not None:
            return distances(masks[frame].to_array())
        # `objects` are in the 840 × 840 frame, where boxes have whole pixels.
        return distances(boxes_filled(objects(frame), CANVAS))

    return of_frame


@dataclass(frozen=True, kw_only=True)
class VideoSegR1Reward(ComponentReward):
    """Scores each rollout by itself. Its settings are those of the plugin."""

    think: bool = True
    """Ask and pay for reasoning (Table 4)."""
    negative_points: Annotated[bool, OF_REWARD] = True
    """Pay for negative points close beside the objects."""
    negative_distance: Annotated[float, Only(negative_points=True), OF_REWARD] = NEGATIVE_DISTANCE
    """Greatest distance, in pixels of the 840 × 840 frame."""
    length_penalty: Annotated[Penalty, OF_REWARD] = "clipped"
    """`clipped` at 0, the paper's `literal` formula, or `none` (Table 7)."""
    length_beta: Annotated[float, WITH_PENALTY, OF_REWARD] = 2e-3
    """Penalty of a token over the budget, as a part of the reward."""
    budgets: Annotated[str, WITH_PENALTY, OF_REWARD] = "96+176+256"
    """Tokens of reasoning for each level of difficulty, joined by `+` (Table H5)."""
    thresholds: Annotated[str, WITH_PENALTY, OF_REWARD] = "3+6"
    """Highest difficulties of all levels but the last, joined by `+` (Table H6)."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Difficulties by the key of a sample and its frame; one that is not there is medium."""

    def __post_init__(self) -> None:
        for name in ("negative_distance", "length_beta"):
            if not getattr(self, name) >= 0:
                setting = str(getattr(self, name))
                raise UsageError(f"videoseg_r1({name}=…)", expected="at least 0", found=setting)
        budgets_of(self.budgets, self.thresholds)  # only for its errors

    @property
    def levels(self) -> Budgets:
        """Levels of difficulty with their budgets."""
        return budgets_of(self.budgets, self.thresholds)

    def components(self, group: Group) -> list[RewardComponents]:
        """Return the components of each rollout."""
        target, far = target_objects(group.sample), target_distances(group.sample)
        return [self.terms(group, rollout.text, target, far) for rollout in group.rollouts]

    def terms(
        self, group: Group, text: str, targets: TargetObjects, far: TargetDistances
    ) -> RewardComponents:
        """Return the components of one response."""
        response = split_frame(text)[1]
        frame, answer = target_of(group), take_apart(text).text
        predicted = parse_objects(answer)
        accuracy = self._accuracy(group, predicted, targets, frame)
        return {
            "thinking_format": thinking_format(response) if self.think else 0.0,
            "answer_format": answer_format(answer, negative=self.negative_points),
            **accuracy._asdict(),
            "accuracy": accuracy.total,
            "negative_points": self._negative_accuracy(group, predicted, far, frame),
            "non_repeat": non_repeat(response),
            **self._length(group, response, frame),
        }

    def totals(self, components: Sequence[RewardComponents]) -> list[RewardComponents]:
        """Return the product of Eq. 8 for each rollout, and its first factor."""
        sums = [sum(terms[name] for name in TERMS) for terms in components]
        return [
            {"original": original, TOTAL: original * terms["length_factor"]}
            for original, terms in zip(sums, components, strict=True)
        ]

    def _accuracy(
        self, group: Group, predicted: ParsedObjects, targets: TargetObjects, frame: int | None
    ) -> Accuracy:
        """Return VisionReasoner's accuracy of boxes and positive points, 0 to 3 in all."""
        if predicted.objects is None or frame is None or not targets(frame):
            return Accuracy()
        boxes, points = predicted.objects
        scale = scale_of(group)
        ground_truth = targets(frame)[:MAX_OBJECTS]
        flags = match_flags(
            boxes * np.tile(scale, 2),
            points * scale,
            np.array([item.box for item in ground_truth]),
            np.array([item.place for item in ground_truth]),
        )
        return matching_credit(flags, jointly=True)

    def _negative_accuracy(
        self, group: Group, predicted: ParsedObjects, far: TargetDistances, frame: int | None
    ) -> float:
        """Return R_neg of one response."""
        if not self.negative_points or frame is None or predicted.predicted == 0:
            return 0.0
        points = predicted.negatives * scale_of(group)
        return negative_points(
            points, predicted.predicted, far(frame), reach=self.negative_distance
        )

    def _length(self, group: Group, response: str, frame: int | None) -> RewardComponents:
        """Return the length factor of one response, with the numbers of tokens behind it."""
        key = key_of(group.sample, frame or 0)
        budget = self.levels.budget(self.scores.get(key, UNKNOWN))
        used = group.count_tokens(reasoning_text(response))
        factor = 1.0
        if self.length_penalty != "none":
            clipped = self.length_penalty == "clipped"
            factor = length_factor(used, budget, beta=self.length_beta, clipped=clipped)
        return {
            "used": float(used),
            "budget": float(budget),
            "over_budget": float(max(0, used - budget)),
            "length_factor": factor,
        }


def target_of(group: Group) -> int | None:
    """Return the target frame of a group's request: the only one that its first medium shows.

    None: it shows several.
    """
    frames = group.frames[0] if group.frames else (0,)
    return frames[0] if len(frames) == 1 else None


def scale_of(group: Group) -> NDArray[np.float64]:
    """Return the (x, y) factors from the frame of a group's responses to 840 × 840."""
    return np.array([CANVAS[0] / group.canvas[0], CANVAS[1] / group.canvas[1]])


def _well_formed_places(entry: object, *, negative: bool) -> float:
    """Return how many of an object's places (box, points) have their form, 0 to 3."""
    if not isinstance(entry, Mapping):
        return 0.0
    return (
        float(_has_length(entry.get(BOX), 4))
        + float(_labelled(entry.get(POSITIVE), 1))
        + float(negative and _labelled(entry.get(NEGATIVE), 0))
    )


def _has_length(value: object, length: int) -> bool:
    return isinstance(value, list) and len(value) == length


def _labelled(value: object, label: int) -> bool:
    """Return True for a point such as [3, 4, 1] whose label, its last entry, is `label`."""
    if not isinstance(value, list) or len(value) != 3:
        return False
    return type(value[2]) in (int, float) and bool(value[2] == label)


def _read_numbers(value: object, length: int) -> tuple[float, ...] | None:
    """Return a list of this many finite numbers; None: it is something else."""
    try:
        numbers = finite_numbers(value, length, "place")
    except ParseError:
        return None
    return numbers if all(map(math.isfinite, numbers)) else None
