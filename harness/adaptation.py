"""Test-time adaptation of a network to one request: settings, and the interface of methods to it.

A method, such as VR-TTRL, draws rollouts and makes steps through an `AdaptationContext`, which a
backend opens (`harness.backend.Adaptable`). The weights are put back before the next request.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, TypeAlias

from harness.chat import ChatRequest, ChatResponse
from harness.errors import UsageError
from harness.options import Only

Tensor: TypeAlias = Any
"""A tensor of torch, which the core does not import."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningSettings:
    """Settings of learning from one request."""

    finetune: Literal["full", "lora"] = "full"
    """`full`: train the language model and the layers that merge patches into its tokens, in
    float32; `lora`: train an adapter on the language model."""
    learning_rate: float | None = None
    """Learning rate of AdamW; None: 5e-7, or 1e-5 of an adapter."""
    weight_decay: float = 0.01
    """Weight decay of AdamW, which only matrices have."""
    max_grad_norm: float = 1.0
    """Largest norm of the gradient."""
    lora_r: Annotated[int, Only(finetune="lora")] = 16
    """Rank of the adapter's matrices."""
    lora_alpha: Annotated[int, Only(finetune="lora")] = 32
    """The adapter's output is multiplied by `lora_alpha / lora_r`."""
    micro_batch_size: int = 8
    """Number of responses that gradients are computed for at once; halved when memory runs out."""
    offload: Literal["none", "optimizer"] = "none"
    """`optimizer`: AdamW runs on the CPU with its gradients and moments, 20 bytes a parameter, and
    the device holds the weights alone, 4 bytes a parameter instead of 16."""
    share_prefix: bool = True
    """Compute the vision features once a sample, and the prompt once a step for all rollouts and
    their log-probabilities. Results are the same but for rounding."""
    seed: int = 0
    """Seed of rollouts, of random labels and views, and of an adapter's first weights."""

    def __post_init__(self) -> None:
        """Refuse numbers with which nothing can be learned.

        Raises:
            UsageError: one of them is out of range.
        """
        for name in ("lora_r", "lora_alpha", "micro_batch_size"):
            value = getattr(self, name)
            if value < 1:
                raise UsageError(f"{name}=…", expected="at least 1", found=str(value))
        for name in ("learning_rate", "weight_decay"):
            value = getattr(self, name)
            if value is not None and not 0.0 <= value <= 1.0:
                raise UsageError(f"{name}=…", expected="a number from 0 to 1", found=str(value))
        if not self.max_grad_norm > 0:
            raise UsageError(
                "max_grad_norm=…", expected="more than 0", found=str(self.max_grad_norm)
            )

    @property
    def rate(self) -> float:
        """`learning_rate`; if that is None, the default of `finetune`."""
        default = 5e-7 if self.finetune == "full" else 1e-5
        return default if self.learning_rate is None else self.learning_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One step of the optimiser."""

    loss: float
    grad_norm: float
    """Norm of the gradient before it was clipped."""
    entropy: float
    """Mean entropy of the tokens that were learned from, in nats."""
    logp: Tensor
    """Log-probabilities of the tokens before the step (rows × tokens), a detached tensor."""
    rolled_back: bool
    """True if loss or gradient was NaN or infinite: the step was not made."""


class AdaptationContext(Protocol):
    """A network while it learns from one request; its weights are put back afterwards."""

    def rollouts(self, number: int, *, temperature: float, name: str) -> list[ChatResponse]:
        """Draw `number` responses from the current weights, seeded by seed, request and `name`."""

    def log_probs(self, responses: Sequence[ChatResponse], *, temperature: float) -> Tensor:
        """Return log-probabilities of responses (rows × tokens) by the weights before any step."""

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a text, from which special tokens are removed first."""

    def scored(
        self, responses: Sequence[ChatResponse], *, requests: Sequence[ChatRequest]
    ) -> Sequence[Any]:
        """Return what a `loss` of `step` is given for these rows, by the current weights.

        Args:
            responses: The response of each row.
            requests: Prompt of each row.
        """

    def step(
        self,
        loss: Callable[[Any], Tensor],
        responses: Sequence[ChatResponse],
        *,
        temperature: float = 1.0,
        requests: Sequence[ChatRequest] | None = None,
    ) -> Update:
        """Make one step of the optimiser.

        Args:
            loss: A function from some rows (`harness.models.learning.rows.ScoredRows`) to a
                scalar; the scalars of all rows add up to the loss.
            responses: The response of each row.
            temperature: Temperature of the probabilities that the loss is computed from.
            requests: Prompt of each row; None: the context's own request.
        """

    def reset(self) -> None:
        """Put the initial weights back, and check that they are the same.

        Raises:
            NotRestored: they differ.
        """
