"""The reward of a group by its own consensus: that of `harness.models.test_time`, term by term."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.models.test_time.consensus import Group as Responses
from harness.models.test_time.consensus import Label
from harness.models.visionreasoner.scoring import BASE, Semantics, Thresholds
from harness.trainers.grpo.method import TOTAL, ComponentReward, Group, RewardComponents


@dataclass(frozen=True, slots=True)
class ConsensusReward(ComponentReward):
    """VisionReasoner's reward with a rollout of the group in the place of the target."""

    compares_rollouts = True

    thresholds: Thresholds = BASE
    semantics: Semantics = "official"
    label: Label = "consensus"

    def components(self, group: Group) -> list[RewardComponents]:
        """Return the components of each rollout; `agreement` is the group's."""
        texts = tuple(rollout.text for rollout in group.rollouts)
        shown = group.frames[0] if group.frames else (0,)
        responses = Responses(texts, group.canvas, len(shown) > 1, self.thresholds, self.semantics)
        label = responses.label(self.label)
        agreement = 0.0 if label is None else responses.agreement(label)
        return [
            {
                "accuracy": 0.0 if label is None else float(responses.scores[place, label]),
                "form": form,
                "agreement": agreement,
            }
            for place, form in enumerate(responses.forms())
        ]

    def totals(self, components: Sequence[RewardComponents]) -> list[RewardComponents]:
        """Return form and accuracy of each rollout together, from 0 to 7."""
        return [{TOTAL: own["form"] + own["accuracy"]} for own in components]
