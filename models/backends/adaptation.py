"""Adapt a backend's network to one request, and restore its weights afterwards.

    adapting(request):  restore ─▶ rollouts ─▶ step ─▶ … ─▶ (the caller answers) ─▶ restore ─▶ proof

`proof`: after each restoration, the weights are compared with their first values. Test-time
methods (`models/test_time`) open `NetworkAdaptation.adapting`; the network must run in this
process.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

from harness.adaptation import LearningSettings
from harness.chat import ChatRequest
from harness.errors import UsageError
from harness.models.backends.adaptation_context import Backend, Context, measure
from harness.models.backends.restored_weights import RestoredWeights
from harness.models.backends.weights import read_json

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BackendT = TypeVar("BackendT", bound=Backend)


def check_adaptable(chat: Backend) -> None:
    """Raise UsageError if a checkpoint is quantised, or has an adapter that is not merged."""
    configuration = read_json(chat.folder / "config.json")
    if (quantization := configuration.get("quantization_config")) is not None:
        method = dict(quantization).get("quant_method", "by an unnamed method")
        raise UsageError(
            f"adaptation of checkpoint {chat.checkpoint}",
            expected="weights that are floating-point numbers",
            found=f"quantised ones ({method})",
            fix="Give the checkpoint that the adapter was trained on.",
        )
    if chat.adapter is not None and not chat.adapter.merged:
        raise UsageError(
            f"adaptation of adapter {chat.adapter.name}",
            expected="a network whose weights have no adapter beside them",
            found="an adapter that is not merged",
            fix="Give merged=true to the backend.",
        )


@dataclass(eq=False)
class NetworkAdaptation(Generic[BackendT]):
    """The network of a backend with its trainable weights; `adapting` opens one adaptation."""

    chat: BackendT
    settings: LearningSettings
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds by activity (rollouts, updates, reset, …), summed over all adaptations."""

    @cached_property
    def weights(self) -> RestoredWeights:
        """The trainable weights, and their first values."""
        return RestoredWeights(self.chat.checkpoint, lambda: self.chat.network, self.settings)

    @property
    def network(self) -> "PreTrainedModel":
        """The network, with the layers of an adapter if one is trained."""
        return self.weights.network

    def describe(self) -> Mapping[str, object]:
        """Return the settings for the record, with the learning rate that is used.

        Settings that change only memory or speed are left out.
        """
        left_out = {"micro_batch_size", "share_prefix", "offload"}
        if self.settings.finetune == "full":
            left_out |= {"lora_r", "lora_alpha"}
        names = [
            setting.name for setting in fields(LearningSettings) if setting.name not in left_out
        ]
        settings = {name: getattr(self.settings, name) for name in names}
        return settings | {"learning_rate": self.settings.rate}

    def prepare(self) -> None:
        """Load the network and keep its first weights.

        Raises:
            ModelError: the network has no language-model layers that can be trained.
        """
        self.weights.prepare()

    @contextmanager
    def adapting(self, request: ChatRequest) -> Iterator[Context]:
        """Enter a context in which the network learns from a request; afterwards it is reset."""
        self.prepare()
        if self.weights.changed:  # an earlier reset failed, for example for lack of memory
            self._reset()
        try:
            yield Context(self.chat, self.weights, request, self.seconds)
        finally:
            self._reset()

    def _reset(self) -> None:
        with measure(self.seconds, "reset"):
            self.weights.reset()
