"""VisionReasoner's reward: the scores of a response against the objects that are meant.

The scores are those of `harness.models.visionreasoner.scoring`; README.md says how they differ from
the paper's text. As in the official code the first `<answer>` of the whole response is scored, one
in the thought too, which a prediction's grammar passes over.
"""

from dataclasses import dataclass

from harness.models.grammar import split_frame
from harness.models.visionreasoner.scoring import (
    Accuracy,
    Semantics,
    accuracy,
    answer_format,
    non_repeat,
    thinking_format,
)
from harness.trainers.grpo.method import TOTAL, Group, RewardComponents
from harness.trainers.visionreasoner.objects import TargetObjects, target_objects


@dataclass(frozen=True, slots=True)
class VisionReasonerReward:
    """The reward of a group: each rollout by itself."""

    semantics: Semantics = "official"

    def __call__(self, group: Group) -> list[RewardComponents]:
        """Components of every rollout; `total`, from 0 to 7, is the sum of the four rewards."""
        target = target_objects(group.sample)
        return [self.terms(group, rollout.text, target) for rollout in group.rollouts]

    def terms(self, group: Group, text: str, targets: TargetObjects) -> dict[str, float]:
        """The terms of one response."""
        response = split_frame(text)[1]
        right = location_accuracy(group, text, targets, semantics=self.semantics)
        terms = {
            "thinking_format": thinking_format(response),
            "answer_format": answer_format(response),
            **right._asdict(),
            "accuracy": right.total,
            "non_repeat": non_repeat(response),
        }
        rewards = ("thinking_format", "answer_format", "accuracy", "non_repeat")
        return {**terms, TOTAL: sum(terms[name] for name in rewards)}


def location_accuracy(
    group: Group, text: str, targets: TargetObjects, *, semantics: Semantics = "official"
) -> Accuracy:
    """The accuracy of a response's objects in the frame that it names, or in the one shown.

    Nothing is right of a response that must name a frame and does not, or names one that the video
    does not have.
    """
    frame, response = split_frame(text)
    shown = group.frames[0] if group.frames else (0,)
    start = frame if frame is not None else (shown[0] if len(shown) == 1 else None)
    if start is None or start >= len(group.sample.query.media[0]):
        return Accuracy()
    return accuracy(response, targets(start), canvas=group.canvas, semantics=semantics)
