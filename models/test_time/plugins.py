"""The plugins of test-time methods: VR-TTRL and its baselines, around any prompted base model.

Each builds an `AdaptedModel` of a base model, whose network must run in transformers, and a method.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

from harness import plugins
from harness.adaptation import LearningSettings
from harness.errors import UsageError
from harness.models.pipeline import PromptedModel
from harness.models.test_time.memo import Memo
from harness.models.test_time.methods import GroupRelative, Method, PseudoLabel, Tent, Vote
from harness.models.test_time.model import AdaptedModel
from harness.models.visionreasoner.scoring import THRESHOLDS, Semantics
from harness.options import with_options
from harness.spec import Spec

Preset = Literal["loose", "base", "strict"]
"""Names of thresholds (Table 9 of VR-TTRL)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Updates(LearningSettings):
    """Settings of learning from a sample, and the number of steps."""

    steps: int = 5
    """Weight updates per sample."""
    trace: bool = False
    """Record the network's response after every step too; predictions stay the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupUpdates(Updates):
    """Settings of updates by the rewards of a group of rollouts."""

    rollouts: int = 8
    """Rollouts of a generation step."""
    temperature: float = 0.6
    """Temperature of rollouts."""
    thresholds: Preset = "base"
    """Thresholds at which objects of two responses match."""
    semantics: Semantics = "official"
    """Accuracy of one rollout against another, as in VisionReasoner's code (`official`) or in its
    text (`paper`): the sum of a box's differences, points anywhere, one matching per term."""
    beta: float = 1e-2
    """Weight of the divergence from the original network."""
    epsilon: float = 0.2
    """Range around 1 in which the ratio of new to old probability counts."""

    def method(self, name: str, **method_fields: Any) -> GroupRelative:
        """Return the method `name` with these settings and its own `method_fields`."""
        return GroupRelative(
            name=name,
            steps=self.steps,
            rollouts=self.rollouts,
            temperature=self.temperature,
            thresholds=THRESHOLDS[self.thresholds],
            semantics=self.semantics,
            beta=self.beta,
            epsilon=self.epsilon,
            **method_fields,
        )


@with_options(GroupUpdates)
def vr_ttrl(
    updates: GroupUpdates, *, base: Spec | PromptedModel, single_gen: bool = False
) -> AdaptedModel:
    """VR-TTRL (2025): GRPO on each test sample, rewarded by the answer most rollouts agree on.

    Args:
        base: The model to adapt, such as `pocket` or `visionreasoner(checkpoint=…)`.
        single_gen: Draw rollouts once, before the first update (Table 3; the paper's has 10
            updates).
    """
    return _adapted(base, updates, updates.method("vr_ttrl", single_gen=single_gen))


@with_options(GroupUpdates)
def anti_consensus(updates: GroupUpdates, *, base: Spec | PromptedModel) -> AdaptedModel:
    """VR-TTRL (-): the pseudo-label is the answer that rollouts agree on least, as a control.

    Args:
        base: The model to adapt.
    """
    return _adapted(base, updates, updates.method("anti_consensus", label="anti_consensus"))


@with_options(GroupUpdates)
def random_label(updates: GroupUpdates, *, base: Spec | PromptedModel) -> AdaptedModel:
    """VR-TTRL with any rollout as the pseudo-label, as a control.

    Args:
        base: The model to adapt.
    """
    return _adapted(base, updates, updates.method("random_label", label="random"))


@with_options(GroupUpdates, without=("semantics", "thresholds"))
def format_only(updates: GroupUpdates, *, base: Spec | PromptedModel) -> AdaptedModel:
    """VR-TTRL without a pseudo-label: the rewards of format and no repetition alone, as a control.

    Args:
        base: The model to adapt.
    """
    return _adapted(base, updates, updates.method("format_only", label="none"))


@with_options(GroupUpdates, without=("thresholds", "semantics"))
def ttrv(updates: GroupUpdates, *, base: Spec | PromptedModel, alpha: float = 0.75) -> AdaptedModel:
    """TTRV (arXiv 2510.06783): GRPO on how often an answer occurs, and on low entropy of answers.

    Args:
        base: The model to adapt.
        alpha: Weight of the entropy. It is equal for all rollouts of a sample, so it does not
            change their advantages.
    """
    return _adapted(base, updates, updates.method("ttrv", frequency=alpha))


def vote(
    *,
    base: Spec | PromptedModel,
    rollouts: int = 8,
    temperature: float = 0.6,
    thresholds: Preset = "base",
    semantics: Semantics = "official",
    seed: int = 0,
) -> AdaptedModel:
    """The answer that most rollouts agree on, without an update: self-consistency.

    Args:
        base: The model that answers.
        rollouts: Rollouts per sample.
        temperature: Temperature of rollouts.
        thresholds: Thresholds at which objects of two responses match.
        semantics: Accuracy of one rollout against another, as in `vr_ttrl`.
        seed: Seed of rollouts.
    """
    method = Vote(
        name="vote",
        rollouts=rollouts,
        temperature=temperature,
        thresholds=THRESHOLDS[thresholds],
        semantics=semantics,
    )
    return _adapted(base, Updates(seed=seed), method)


@with_options(Updates)
def tent(updates: Updates, *, base: Spec | PromptedModel) -> AdaptedModel:
    """Tent: updates that lower the entropy of the greedy answer's tokens.

    Args:
        base: The model to adapt.
    """
    return _adapted(base, updates, Tent(name="tent", steps=updates.steps))


@with_options(Updates)
def memo(
    updates: Updates,
    *,
    base: Spec | PromptedModel,
    views: int = 4,
    strength: float = 0.3,
    geometric: bool = False,
) -> AdaptedModel:
    """MEMO: updates that make the answer's tokens equally likely in views of the image.

    Args:
        base: The model to adapt.
        views: Number of views in other colours, the unchanged image among them.
        strength: Largest relative change of brightness, contrast and saturation.
        geometric: Crop the views too, around the objects that the response names, and mirror them
            if neither question nor response says left or right.
    """
    if views < 2 or not 0 < strength < 1:
        raise UsageError(
            "memo(views=…,strength=…)",
            expected="at least 2 views and 0 < strength < 1",
            found=f"{views} and {strength}",
        )
    method = Memo(
        name="memo",
        steps=updates.steps,
        views=views,
        strength=strength,
        geometric=geometric,
        seed=updates.seed,
    )
    return _adapted(base, updates, method)


@with_options(Updates)
def sft_greedy(updates: Updates, *, base: Spec | PromptedModel) -> AdaptedModel:
    """Supervised updates on the network's own greedy response.

    Args:
        base: The model to adapt.
    """
    return _adapted(base, updates, PseudoLabel(name="sft_greedy", steps=updates.steps))


@with_options(GroupUpdates, without=("beta", "epsilon"))
def sft_majority(updates: GroupUpdates, *, base: Spec | PromptedModel) -> AdaptedModel:
    """Supervised updates on the response that most rollouts agree with.

    Args:
        base: The model to adapt.
    """
    method = PseudoLabel(
        name="sft_majority",
        majority=True,
        steps=updates.steps,
        rollouts=updates.rollouts,
        temperature=updates.temperature,
        thresholds=THRESHOLDS[updates.thresholds],
        semantics=updates.semantics,
    )
    return _adapted(base, updates, method)


def _adapted(base: Spec | PromptedModel, updates: Updates, method: Method) -> AdaptedModel:
    """Return the model that adapts the base's network by a method.

    Raises:
        UsageError: the base sends no prompts to a network, or the network cannot be trained.
    """
    model = plugins.build("models", base) if isinstance(base, Spec) else base
    if not isinstance(model, PromptedModel):
        raise UsageError(
            f"{method.name}(base={base})",
            expected="a model that prompts a network for places, such as pocket or qwen_vl",
            found=type(model).__name__,
        )
    network = model.chat.adaptable(updates)
    model = replace(model, chat=network.chat)
    return AdaptedModel(
        base=model, network=network, method=method, seed=updates.seed, trace=updates.trace
    )
