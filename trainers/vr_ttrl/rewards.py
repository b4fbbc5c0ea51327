"""VR-TTRL's reward: each rollout is scored against the rollout that its group agrees with most.

The consensus is computed as at test time (`harness.models.test_time.consensus`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.models.test_time.consensus import Group as Responses
from harness.models.test_time.consensus import Label
from harness.models.visionreasoner.scoring import BASE, Semantics, Thresholds
from harness.trainers.grpo.method import TOTAL, ComponentReward, Group, RewardComponents


@dataclass(frozen=True, slots=True)
class ConsensusReward(ComponentReward):
    """VisionReasoner's reward, with a rollout of the group (the pseudo-label) as ground truth."""

    compares_rollouts = True

    thresholds: Thresholds = BASE
    semantics: Semantics = "official"
    label: Label = "consensus"
    """Rule that chooses the pseudo-label."""

    def components(self, group: Group) -> list[RewardComponents]:
        """Return the components of each rollout; `agreement` is the same for the whole group."""
        texts = tuple(rollout.text for rollout in group.rollouts)
        is_video = bool(group.frames) and len(group.frames[0]) > 1
        responses = Responses(texts, group.canvas, is_video, self.thresholds, self.semantics)
        label = responses.label(self.label)
        agreement = 0.0 if label is None else responses.agreement(label)
        return [
            {
                "accuracy": 0.0 if label is None else float(responses.scores[index, label]),
                "form": form,
                "agreement": agreement,
            }
            for index, form in enumerate(responses.forms())
        ]

    def totals(self, components: Sequence[RewardComponents]) -> list[RewardComponents]:
        """Return the sum of form and accuracy of each rollout, from 0 to 7."""
        return [{TOTAL: terms["form"] + terms["accuracy"]} for terms in components]
