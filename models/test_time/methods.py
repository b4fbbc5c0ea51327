"""Methods of adaptation: what is drawn, what is learned from it, and who answers.

A method is called once a sample, with a `Trial`: the request, the network that learns, and the
notes that are kept. It returns the response, or None where the adapted network is to answer.
Nothing here sees a target.
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
    """One sample in adaptation."""

    request: ChatRequest
    context: AdaptationContext
    canvas: tuple[int, int]
    """(width, height) of the frame that the numbers of responses are in."""
    named: bool
    """True if a response has to name a frame."""
    uniform: Callable[[str], float]
    """A number from 0 to 1 by seed, sample and name."""
    trace: bool
    """Let the network answer after every step too, for the record."""
    steps: list[AdaptationStep] = field(default_factory=list)
    responses: list[tuple[str, ChatResponse]] = field(default_factory=list)
    """Every response that was drawn, with its key behind the request's."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds of each step so far, by its name; of several samples together if they share it."""
    _since: float = field(default_factory=perf_counter)

    def draw(self, number: int, *, temperature: float, name: str) -> list[ChatResponse]:
        """Return rollouts of the network as it is, and note them."""
        drawn = self.context.rollouts(number, temperature=temperature, name=name)
        self.responses += [(f"@{name}#{place}", response) for place, response in enumerate(drawn)]
        return drawn

    def group(
        self, responses: Sequence[ChatResponse], thresholds: Thresholds, semantics: Semantics
    ) -> Group:
        """Return responses to be compared with each other."""
        texts = tuple(response.text for response in responses)
        return Group(texts, self.canvas, self.named, thresholds, semantics)

    def note(
        self,
        update: Update | None,
        responses: Sequence[ChatResponse],
        *,
        group: Group | None = None,
        label: int | None = None,
        rewards: Sequence[float] = (),
    ) -> None:
        """Keep the numbers of a step, and what the network answers after it if that is traced."""
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
    """A method of adaptation: its work on a trial, and the budget that boards show."""

    name: str
    steps: int = 5
    """Updates of the weights, each with rollouts of its own unless `single_gen`."""
    grammar: ClassVar[bool] = False
    """True if it compares places that responses name in VisionReasoner's grammar."""

    def __post_init__(self) -> None:
        for name in ("steps", "rollouts", "views"):
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
        """Return the cost of a sample beside its answer, in words."""
        return counted(self.steps, "update")

    def describe(self) -> Mapping[str, Any]:
        """Return every setting, and the budget."""
        own = {name: value for name, value in asdict(self).items() if name != "name"}
        if "thresholds" in own:
            own["thresholds"] = own["thresholds"]._asdict()
        return {"method": self.name, "budget": self.budget, **own}

    def __call__(self, trial: Trial) -> ChatResponse | None:
        """Adapt the network; returns the response, or None: the network answers."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Drawing(Method):
    """A method that draws several rollouts and compares them."""

    grammar: ClassVar[bool] = True

    rollouts: int = 8
    """Rollouts of a generation step."""
    temperature: float = 0.6
    """Temperature of rollouts."""
    thresholds: Thresholds = BASE
    semantics: Semantics = "official"
    """Accuracy of one rollout against another, as `Group` has it."""

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
    """The loss of GRPO over all tokens of a group, of some rows at a time."""

    advantage: "Tensor"
    """Advantage of each rollout."""
    tokens: float
    """Number of tokens of all rollouts."""
    old: "Tensor | None"
    """Log-probabilities under the network that wrote them; None: it is the one that learns."""
    reference: "Tensor | None"
    """The same under the first weights; None: they have not changed yet."""
    beta: float
    epsilon: float

    def __call__(self, rows: "ScoredRows") -> "Tensor":
        """Return the share of the loss that these rows have."""
        from harness.models.learning.loss import grpo_loss

        places, own = list(rows.places), rows.logp.detach()
        return grpo_loss(
            rows.logp,
            None if self.old is None else self.old[places],
            own if self.reference is None else self.reference[places],
            self.advantage.to(own)[places],
            rows.mask,
            loss_type="dapo",
            epsilon=self.epsilon,
            beta=self.beta,
            tokens=self.tokens,
        )


@dataclass(frozen=True, kw_only=True)
class GroupRelative(Drawing):
    """GRPO on rewards that responses of a group give each other: VR-TTRL and its controls."""

    label: Label = "consensus"
    single_gen: bool = False
    """Draw rollouts before the first update alone, and learn from them in every one."""
    beta: float = 1e-2
    """Weight of the divergence from the network as it was."""
    epsilon: float = 0.2
    """Range around 1 in which the ratio of new to old probability counts."""
    frequency: float | None = None
    """Weight of the entropy in TTRV's reward, in the place of a label's; None: it is not used."""

    @property
    def budget(self) -> str:
        """Return the cost of a sample beside its answer, in words."""
        if not self.single_gen:
            return super().budget
        return f"{counted(self.steps, 'update')}, {counted(self.rollouts, 'rollout')}"

    def __call__(self, trial: Trial) -> None:
        """Learn from rewards of rollouts."""
        import torch

        from harness.models.learning.loss import advantages

        drawn: list[ChatResponse] = []
        old = reference = None
        for step in range(self.steps):
            if step == 0 or not self.single_gen:
                drawn = trial.draw(self.rollouts, temperature=self.temperature, name=f"step{step}")
                group = trial.group(drawn, self.thresholds, self.semantics)
                label = self._label(group, trial.uniform(f"step{step}"))
                rewards = self._rewards(group, label)
                gains = advantages(torch.tensor(rewards), self.rollouts)
                tokens = float(sum(len(response.tokens) for response in drawn))
                if step and self.beta:
                    reference = trial.context.log_probs(drawn, temperature=self.temperature)

            loss = GroupLoss(gains, tokens, old, reference, beta=self.beta, epsilon=self.epsilon)
            update = trial.context.step(loss, drawn, temperature=self.temperature)
            if step == 0 and self.single_gen:
                old = reference = update.logp
            trial.note(update, drawn, group=group, label=label, rewards=rewards)

    def _label(self, group: Group, number: float) -> int | None:
        return group.label(self.label, number=number)

    def _rewards(self, group: Group, label: int | None) -> list[float]:
        if self.frequency is not None:
            return group.frequency_rewards(self.frequency)
        return group.rewards(label)


@dataclass(frozen=True, kw_only=True)
class Vote(Drawing):
    """The response that the others agree with most; nothing is learned."""

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
        """Return the medoid; the first rollout where none can be read."""
        drawn = trial.draw(self.rollouts, temperature=self.temperature, name="step0")
        group = trial.group(drawn, self.thresholds, self.semantics)
        label = group.label("consensus")
        trial.note(None, drawn, group=group, label=label, rewards=group.rewards(label))
        return drawn[label or 0]


@dataclass(frozen=True, kw_only=True)
class Tent(Method):
    """Lower the entropy of the answer's tokens, of the greedy response at each step."""

    def __call__(self, trial: Trial) -> None:
        """Learn from the entropy."""
        for step in range(self.steps):
            drawn = trial.draw(1, temperature=0.0, name=f"step{step}")
            update = trial.context.step(lambda rows: (rows.entropy * rows.answer).sum(), drawn)
            trial.note(update, drawn)


@dataclass(frozen=True, kw_only=True)
class PseudoLabel(Drawing):
    """Supervised steps on one response of the network itself: its greedy one, or the medoid."""

    majority: bool = False

    @property
    def grammar(self) -> bool:  # type: ignore[override]  # of the greedy one nothing is compared
        """True if it compares places that responses name in VisionReasoner's grammar."""
        return self.majority

    @property
    def budget(self) -> str:
        """Return the cost of a sample beside its answer, in words."""
        drawn = f", {counted(self.rollouts, 'rollout')}" if self.majority else ""
        return counted(self.steps, "update") + drawn

    def __call__(self, trial: Trial) -> None:
        """Learn a response by heart; where no rollout can be read, nothing is learned."""
        group = label = None
        if self.majority:
            drawn = trial.draw(self.rollouts, temperature=self.temperature, name="step0")
            group = trial.group(drawn, self.thresholds, self.semantics)
            label = group.label("consensus")
            if label is None:
                trial.note(None, drawn, group=group)
                return
            taught = drawn[label]
        else:
            (taught,) = trial.draw(1, temperature=0.0, name="step0")
        for _ in range(self.steps):
            update = trial.context.step(lambda rows: -(rows.logp * rows.mask).sum(), [taught])
            trial.note(update, [taught], group=group, label=label)


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
