"""A network in process that learns from one request, answers it, and is put back as it was.

adapting(request):  restore ─▶ rollouts ─▶ step ─▶ … ─▶ (the caller answers) ─▶ restore ─▶ proof
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

from harness.adaptation import LearningSettings
from harness.chat import ChatRequest
from harness.errors import UsageError
from harness.models.backends import checkpoint as checkpoints
from harness.models.backends.adaptation_context import Backend, Context, measure
from harness.models.backends.restored_weights import RestoredWeights

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Chat = TypeVar("Chat", bound=Backend)


def check_adaptable(chat: Backend) -> None:
    """Raise UsageError if a checkpoint is quantised, or has an adapter beside its weights."""
    configuration = checkpoints.read_json(chat.folder / "config.json")
    if (quantization := configuration.get("quantization_config")) is not None:
        method = dict(quantization).get("quant_method", "by an unnamed method")
        raise UsageError(
            f"adaptation of checkpoint {chat.checkpoint}",
            expected="weights that are floating-point numbers",
            found=f"quantised ones ({method})",
            fix="Give the checkpoint that it was made from.",
        )
    if chat.adapter is not None and not chat.adapter.merged:
        raise UsageError(
            f"adaptation of adapter {chat.adapter.name}",
            expected="a network without an adapter beside its weights",
            found="an adapter that is not merged",
            fix="Give merged=true to the backend.",
        )


@dataclass(eq=False)
class NetworkAdaptation(Generic[Chat]):
    """The network of a backend, with weights that can learn."""

    chat: Chat
    settings: LearningSettings
    seconds: dict[str, float] = field(default_factory=dict)

    @cached_property
    def weights(self) -> RestoredWeights:
        """Weights that learn, and their first values."""
        return RestoredWeights(self.chat.checkpoint, lambda: self.chat.network, self.settings)

    @property
    def network(self) -> "PreTrainedModel":
        """The network, an adapter's layers within it."""
        return self.weights.network

    def describe(self) -> Mapping[str, object]:
        """Return the settings, with the learning rate that is used; not how they are computed."""
        without = {"micro_batch_size", "share_prefix", "offload"}
        if self.settings.finetune == "full":
            without |= {"lora_r", "lora_alpha"}
        names = [
            setting.name for setting in fields(LearningSettings) if setting.name not in without
        ]
        plain = {name: getattr(self.settings, name) for name in names}
        return plain | {"learning_rate": self.settings.rate}

    def prepare(self) -> None:
        """Load the network and keep its first weights.

        Raises:
            ModelError: it has no layers of a language model that can learn.
        """
        self.weights.prepare()

    @contextmanager
    def adapting(self, request: ChatRequest) -> Iterator[Context]:
        """Enter a context in which the network learns from a request; afterwards it is reset."""
        self.prepare()
        if self.weights.changed:  # an exception came between, such as a full memory
            self._reset()
        try:
            yield Context(self.chat, self.weights, request, self.seconds)
        finally:
            self._reset()

    def _reset(self) -> None:
        with measure(self.seconds, "reset"):
            self.weights.reset()
