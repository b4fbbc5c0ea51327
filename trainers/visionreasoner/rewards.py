"""VisionReasoner's reward: the scores of a response against the target objects.

The scores are those of `harness.models.visionreasoner.scoring`; README.md says how they differ from
the paper's text. As in the official code, the first `<answer>` of the whole response is scored,
even inside the thought, where the parser of predictions does not look.
"""

from collections.abc import Sequence
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
from harness.trainers.grpo.method import TOTAL, ComponentReward, Group, RewardComponents
from harness.trainers.visionreasoner.objects import TargetObjects, target_objects

TERMS = ("thinking_format", "answer_format", "accuracy", "non_repeat")
"""Components that the total sums; the other components are the parts of `accuracy`."""


@dataclass(frozen=True, slots=True)
class VisionReasonerReward(ComponentReward):
    """Rewards each rollout separately; `total`, from 0 to 7, is the sum of the four TERMS."""

    semantics: Semantics = "official"

    def components(self, group: Group) -> list[RewardComponents]:
        """Return the components of each rollout."""
        target = target_objects(group.sample)
        return [self.terms(group, rollout.text, target) for rollout in group.rollouts]

    def terms(self, group: Group, text: str, targets: TargetObjects) -> dict[str, float]:
        """Return the components of one response."""
        response = split_frame(text)[1]
        location = location_accuracy(group, text, targets, semantics=self.semantics)
        return {
            "thinking_format": thinking_format(response),
            "answer_format": answer_format(response),
            **location._asdict(),
            "accuracy": location.total,
            "non_repeat": non_repeat(response),
        }

    def totals(self, components: Sequence[RewardComponents]) -> list[RewardComponents]:
        """Return the sum of the TERMS of each rollout."""
        return [{TOTAL: sum(own[name] for name in TERMS)} for own in components]


def location_accuracy(
    group: Group, text: str, targets: TargetObjects, *, semantics: Semantics = "official"
) -> Accuracy:
    """Return the accuracy of a response's objects in the frame that it names, or the only frame.

    The accuracy is 0 if the response must name a frame and does not, or if the video has no such
    frame.
    """
    frame, response = split_frame(text)
    shown_frames = group.frames[0] if group.frames else (0,)
    if frame is None and len(shown_frames) == 1:
        frame = shown_frames[0]
    if frame is None or frame >= len(group.sample.query.media[0]):
        return Accuracy()
    return accuracy(response, targets(frame), canvas=group.canvas, semantics=semantics)
