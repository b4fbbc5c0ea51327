"""Methods of test-time adaptation: each draws rollouts, updates the weights, or chooses a rollout.

A method is called once per sample with a `Trial`, which holds the request, the network and the
record of the steps. It returns the response, or None if the adapted network is to answer. Nothing
here sees a target.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

from harness.adaptation import AdaptationContext, Update
from harness.chat import ChatRequest, ChatResponse
from harness.errors import UsageError, counted
from harness.models.factory import at_least
from harness.models.test_time.consensus import Group, Label
from harness.models.visionreasoner.scoring import BASE, Semantics, Thresholds
from harness.thoughts import reasoning
from harness.types import AdaptationStep

if TYPE_CHECKING:
    from torch import Tensor

    from harness.models.learning.rows import ScoredRows


@dataclass(eq=False, kw_only=True)
class Trial:
    """The adaptation to one sample: its request, the network, and the record of its steps."""

    request: ChatRequest
    context: AdaptationContext
    canvas: tuple[int, int]
    """(width, height) of the frame that the responses' coordinates are in."""
    must_name_frame: bool
    """True if a response must name a frame."""
    uniform: Callable[[str], float]
    """Returns a random number from 0 to 1 that depends only on seed, sample and name."""
    trace: bool
    """Record the network's response after every step too."""
    steps: list[AdaptationStep] = field(default_factory=list)
    responses: list[tuple[str, ChatResponse]] = field(default_factory=list)
    """All responses so far, each with the suffix that its key adds to the request's key."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds by name of the step; trials that share this dictionary add up their seconds."""
    _since: float = field(default_factory=perf_counter)

    def draw(self, number: int, *, temperature: float, name: str) -> list[ChatResponse]:
        """Sample `number` rollouts from the current weights, record and return them."""
        rollouts = self.context.rollouts(number, temperature=temperature, name=name)
        self.responses += [
            (f"@{name}#{index}", response) for index, response in enumerate(rollouts)
        ]
        return rollouts

    def group(
        self, responses: Sequence[ChatResponse], thresholds: Thresholds, semantics: Semantics
    ) -> Group:
        """Return the responses as a group, which compares them with each other."""
        response_texts = tuple(response.text for response in responses)
        return Group(response_texts, self.canvas, self.must_name_frame, thresholds, semantics)

    def note(
        self,
        update: Update | None,
        responses: Sequence[ChatResponse],
        *,
        group: Group | None = None,
        label: int | None = None,
        rewards: Sequence[float] = (),
    ) -> None:
        """Record a step; with `trace`, also the network's response after it."""
        name = f"step {len(self.steps) + 1}"
        self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - self._since
        self.steps.append(
            AdaptationStep(
                label=label,
                agreement=None if group is None or label is None else group.agreement(label),
                parsed=None if group is None else len(group.parsed),
                rewards=tuple(rewards),
                tokens=fmean(len(response.tokens) for response in responses),
                characters=fmean(len(reasoning(response.text)) for response in responses),
                entropy=None if update is None else _finite(update.entropy),
                loss=None if update is None else _finite(update.loss),
                grad_norm=None if update is None else _finite(update.grad_norm),
                rolled_back=update is not None and update.rolled_back,
            )
        )
        if self.trace and update is not None:
            self.draw(1, temperature=0.0, name=f"after{len(self.steps)}")
        self._since = perf_counter()


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method of adaptation: called with a trial; it also states its budget for leaderboards."""

    name: str
    steps: int = 5
    """Number of weight updates; each one draws new rollouts unless `single_gen`."""
    grammar: ClassVar[bool] = False
    """True if responses must be in VisionReasoner's grammar, because their objects are compared."""

    def __post_init__(self) -> None:
        for name in ("steps", "rollouts", "views"):  # not every method has all three
            value = getattr(self, name, 2)
            minimum = 2 if name == "rollouts" else 1
            if name != "steps" or self.updates:
                at_least(self.name, minimum, **{name: value})

    @property
    def updates(self) -> bool:
        """True if it changes weights."""
        return True

    @property
    def budget(self) -> str:
        """The cost of a sample in words, without the cost of its answer."""
        return counted(self.steps, "update")

    def describe(self) -> Mapping[str, Any]:
        """Return all settings and the budget."""
        settings = {name: value for name, value in asdict(self).items() if name != "name"}
        if "thresholds" in settings:
            settings["thresholds"] = settings["thresholds"]._asdict()
        return {"method": self.name, "budget": self.budget, **settings}

    def __call__(self, trial: Trial) -> ChatResponse | None:
        """Adapt the network; return the response, or None if the adapted network is to answer."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Drawing(Method):
    """Base of the methods that draw several rollouts and compare them."""

    grammar: ClassVar[bool] = True

    rollouts: int = 8
    """Rollouts of a generation step."""
    temperature: float = 0.6
    """Temperature of rollouts."""
    thresholds: Thresholds = BASE
    semantics: Semantics = "official"
    """Accuracy of one rollout against another, as in `Group.semantics`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.temperature <= 100:
            raise UsageError(
                f"{self.name}(temperature=…)",
                expected="more than 0, at most 100",
                found=str(self.temperature),
            )

    @property
    def budget(self) -> str:
        """Return the cost of a sample beside its answer, in words."""
        return (
            f"{counted(self.steps, 'update')}, {self.steps} × {counted(self.rollouts, 'rollout')}"
        )


@dataclass(frozen=True, eq=False)
class GroupLoss:
    """The loss of GRPO over all tokens of a group, computed a few rows at a time."""

    advantage: "Tensor"
    """Advantage of each rollout."""
    tokens: float
    """Number of tokens of all rollouts together."""
    old: "Tensor | None"
    """Log-probabilities under the weights that sampled the rollouts; None if these are current."""
    reference: "Tensor | None"
    """Log-probabilities under the original weights; None if these are current."""
    beta: float
    epsilon: float

    def __call__(self, rows: "ScoredRows") -> "Tensor":
        """Return these rows' part of the loss; the parts of all rows add up to the loss."""
        from harness.models.learning.loss import grpo_loss

        indices, log_probs = list(rows.indices), rows.logp.detach()
        return grpo_loss(
            rows.logp,
            None if self.old is None else self.old[indices],
            log_probs if self.reference is None else self.reference[indices],
            self.advantage.to(log_probs)[indices],
            rows.mask,
            loss_type="dapo",
            epsilon=self.epsilon,
            beta=self.beta,
            tokens=self.tokens,
        )


@dataclass(frozen=True, kw_only=True)
class GroupRelative(Drawing):
    """GRPO with rewards from the agreement of a group's responses: VR-TTRL, its controls, TTRV."""

    label: Label = "consensus"
    single_gen: bool = False
    """Draw rollouts only before the first update, and use them for all updates."""
    beta: float = 1e-2
    """Weight of the divergence from the original network."""
    epsilon: float = 0.2
    """Range around 1 in which the ratio of new to old probability counts."""
    frequency: float | None = None
    """Weight of the entropy in TTRV's reward; None: the reward is that of the pseudo-label."""

    @property
    def budget(self) -> str:
        """Return the cost of a sample beside its answer, in words."""
        if not self.single_gen:
            return super().budget
        return f"{counted(self.steps, 'update')}, {counted(self.rollouts, 'rollout')}"

    def __call__(self, trial: Trial) -> None:
        """Update the weights by the rewards of rollouts."""
        import torch

        from harness.models.learning.loss import advantages

        rollouts: list[ChatResponse] = []
        old = reference = None
        for step in range(self.steps):
            if step == 0 or not self.single_gen:
                rollouts = trial.draw(
                    self.rollouts, temperature=self.temperature, name=f"step{step}"
                )
                group = trial.group(rollouts, self.thresholds, self.semantics)
                label = self._label(group, trial.uniform(f"step{step}"))
                rewards = self._rewards(group, label)
                group_advantages = advantages(torch.tensor(rewards), self.rollouts)
                tokens = float(sum(len(response.tokens) for response in rollouts))
                if step and self.beta:
                    reference = trial.context.log_probs(rollouts, temperature=self.temperature)

            loss = GroupLoss(
                group_advantages, tokens, old, reference, beta=self.beta, epsilon=self.epsilon
            )
            update = trial.context.step(loss, rollouts, temperature=self.temperature)
            if step == 0 and self.single_gen:
                old = reference = update.logp
            trial.note(update, rollouts, group=group, label=label, rewards=rewards)

    def _label(self, group: Group, number: float) -> int | None:
        """Return the index of the pseudo-label; `number` (0 to 1) chooses a random one."""
        return group.label(self.label, number=number)

    def _rewards(self, group: Group, label: int | None) -> list[float]:
        """Return the rewards of a group: TTRV's frequencies, or VisionReasoner's by the label."""
        if self.frequency is not None:
            return group.frequency_rewards(self.frequency)
        return group.rewards(label)


@dataclass(frozen=True, kw_only=True)
class Vote(Drawing):
    """Answer by the rollout that the others agree with most, without an update."""

    steps: int = 0

    @property
    def updates(self) -> bool:
        """True if it changes weights."""
        return False

    @property
    def budget(self) -> str:
        """Return the cost of a sample beside its answer, in words."""
        return f"no update, {counted(self.rollouts, 'rollout')}"

    def __call__(self, trial: Trial) -> ChatResponse:
        """Return the medoid of the rollouts, or the first one if none is readable."""
        rollouts = trial.draw(self.rollouts, temperature=self.temperature, name="step0")
        group = trial.group(rollouts, self.thresholds, self.semantics)
        label = group.label("consensus")
        trial.note(None, rollouts, group=group, label=label, rewards=group.rewards(label))
        return rollouts[label or 0]  # None: the first one


@dataclass(frozen=True, kw_only=True)
class Tent(Method):
    """Lower the entropy of the answer's tokens in the greedy response of each step."""

    def __call__(self, trial: Trial) -> None:
        """Update the weights by the entropy."""
        for step in range(self.steps):
            responses = trial.draw(1, temperature=0.0, name=f"step{step}")
            update = trial.context.step(lambda rows: (rows.entropy * rows.answer).sum(), responses)
            trial.note(update, responses)


@dataclass(frozen=True, kw_only=True)
class PseudoLabel(Drawing):
    """Supervised updates on one response of the network itself: the greedy one, or the medoid."""

    majority: bool = False
    """Learn from the medoid of the rollouts instead of the greedy response."""

    @property
    def grammar(self) -> bool:  # type: ignore[override]  # the greedy response is not compared
        """True if responses must be in VisionReasoner's grammar: the medoid compares objects."""
        return self.majority

    @property
    def budget(self) -> str:
        """Return the cost of a sample beside its answer, in words."""
        rollouts = f", {counted(self.rollouts, 'rollout')}" if self.majority else ""
        return counted(self.steps, "update") + rollouts

    def __call__(self, trial: Trial) -> None:
        """Update the weights to repeat the response; make no update if no rollout is readable."""
        group = label = None
        if self.majority:
            rollouts = trial.draw(self.rollouts, temperature=self.temperature, name="step0")
            group = trial.group(rollouts, self.thresholds, self.semantics)
            label = group.label("consensus")
            if label is None:
                trial.note(None, rollouts, group=group)
                return
            demonstration = rollouts[label]
        else:
            (demonstration,) = trial.draw(1, temperature=0.0, name="step0")
        for _ in range(self.steps):
            update = trial.context.step(
                lambda rows: -(rows.logp * rows.mask).sum(), [demonstration]
            )
            trial.note(update, [demonstration], group=group, label=label)


def _finite(number: float) -> float | None:
    """Return the number; None if it is NaN or infinite, which a record cannot hold."""
    return number if math.isfinite(number) else None
