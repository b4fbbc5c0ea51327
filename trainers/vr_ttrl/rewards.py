"""The reward of a group by its own consensus: that of `harness.models.test_time`, term by term."""

from dataclasses import dataclass

from harness.models.test_time.consensus import Group as Responses
from harness.models.test_time.consensus import Label
from harness.models.visionreasoner.scoring import BASE, Semantics, Thresholds
from harness.trainers.grpo.method import TOTAL, Group, RewardComponents


@dataclass(frozen=True, slots=True)
class ConsensusReward:
    """VisionReasoner's reward with a rollout of the group in the place of the target."""

    thresholds: Thresholds = BASE
    semantics: Semantics = "official"
    label: Label = "consensus"

    def __call__(self, group: Group) -> list[RewardComponents]:
        """Components of every rollout; `total` is from 0 to 7, `agreement` is the group's."""
        texts = tuple(one.text for one in group.rollouts)
        shown = group.frames[0] if group.frames else (0,)
        responses = Responses(texts, group.canvas, len(shown) > 1, self.thresholds, self.semantics)
        label = responses.label(self.label)
        agreement = 0.0 if label is None else responses.agreement(label)
        return [
            {
                "accuracy": 0.0 if label is None else float(responses.scores[place, label]),
                "agreement": agreement,
                TOTAL: total,
            }
            for place, total in enumerate(responses.rewards(label))
        ]
