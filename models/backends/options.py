"""Options that several backends share; `harness list` shows their attributes' docstrings.

A backend's own options are a dataclass that inherits from these.
"""

from dataclasses import dataclass

from harness.coordinates import Coordinates
from harness.models.backends.checkpoint import Dtype
from harness.models.backends.sampling import check_settings


@dataclass(frozen=True, kw_only=True)
class GenerationOptions:
    """Settings of the choice of tokens; UsageError for values out of range."""

    temperature: float = 0.0
    """0 is greedy."""
    top_p: float = 1.0
    """Nucleus of the distribution that is sampled from."""
    seed: int = 0
    """Seed of sampling."""

    def __post_init__(self) -> None:
        names = ("temperature", "top_p", "top_k", "presence_penalty")
        check_settings(**{name: getattr(self, name) for name in names if hasattr(self, name)})

    @property
    def greedy(self) -> bool:
        """Return True if it always takes the most likely token."""
        return self.temperature == 0


@dataclass(frozen=True, kw_only=True)
class ServedOptions(GenerationOptions):
    """Settings of the choice of tokens at vLLM and at servers, which have two more."""

    top_k: int | None = None
    """Number of the likeliest tokens that are sampled from; None: all."""
    presence_penalty: float | None = None
    """Subtracted from the logits of tokens that the response has; None: 0."""


@dataclass(frozen=True, kw_only=True)
class TemplateOptions:
    """Variables of the chat template."""

    enable_thinking: bool | None = None
    """Let the chat template ask for reasoning (Qwen3.5 and later); None: as it does by itself."""
    reasoning_effort: str | None = None
    """Amount of reasoning, such as `low`, where the chat template knows the word."""

    @property
    def template(self) -> dict[str, object]:
        """Variables of the chat template that are set."""
        names = ("enable_thinking", "reasoning_effort")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


@dataclass(frozen=True, kw_only=True)
class TransportOptions:
    """Options of the requests to a server; none changes a response."""

    concurrency: int = 64
    """Requests at once, at most."""
    retries: int = 5
    """Tries after the first."""
    wait: float = 0.5
    """Seconds before the second try; doubled each time, with jitter."""
    timeout: float = 300.0
    """Seconds for one answer."""

    def transport_limits(self) -> dict[str, tuple[bool, str]]:
        """Return for each option (whether it is in its range, the range in words)."""
        return {
            "concurrency": (1 <= self.concurrency <= 4096, "1 to 4096"),
            "retries": (0 <= self.retries <= 100, "0 to 100"),
            "timeout": (0 < self.timeout < float("inf"), "more than 0"),
            "wait": (0 <= self.wait < float("inf"), "0 or more"),
        }


@dataclass(frozen=True, kw_only=True)
class ProcessorOptions:
    """Facts of the processor of a network that runs elsewhere; see `RemoteProcessor`."""

    tokenizer: str | None = None
    """A folder with the network's tokenizer and processor, for its canvas."""
    coordinates: Coordinates | None = None
    """Meaning of numbers in responses; needed without such a folder."""
    factor: int | None = None
    """Patch size times merge size of its processor, without such a folder."""
    min_pixels: int | None = None
    """Smallest image, or frame of a clip; they are brought to the limits before they are sent."""
    max_pixels: int | None = None
    """Largest image, likewise."""


@dataclass(frozen=True, kw_only=True)
class LoadedOptions(TemplateOptions):
    """Options of a network that is loaded in this process."""

    revision: str | None = None
    """Version of a name in the cache: branch, tag or commit."""
    dtype: Dtype = "auto"
    """Type of weights and activations; `auto`: the type that the checkpoint was saved in."""
    min_pixels: int | None = None
    """Smallest image after resizing; None: as the checkpoint's processor says."""
    max_pixels: int | None = None
    """Largest image, likewise. Each frame of a clip has these limits too (Qwen2-VL, Qwen2.5-VL).
    Where a processor has limits for all frames together instead (Qwen3-VL), a clip is refused while
    one is given."""
