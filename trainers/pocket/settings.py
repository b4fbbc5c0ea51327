"""Settings of a training of pocket."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from harness.trainers.pocket.data_mixture import MixtureShares
from harness.trainers.pocket.network import Architecture


@dataclass(frozen=True, kw_only=True)
class PocketSettings:
    """Every setting of a training; see `pocket`."""

    max_steps: int
    learning_rate: float
    warmup_steps: int
    flat: float
    weight_decay: float
    max_grad_norm: float
    measured_weight: float
    first_spread: float
    last_spread: float
    spread_until: float
    things_weight: float
    places_of_targets: bool
    patches_weight: float
    outlines_weight: float
    target_weight: float
    grounding_weight: float
    copies_weight: float
    heads_until: float
    easy_until: float
    see_until: float
    seen_first: int
    text_first: bool
    dataloader_num_workers: int
    processes: int
    base_at: int
    bf16: bool
    save_steps: int
    logging_steps: int
    eval_steps: int
    shares: MixtureShares
    architecture: Architecture
    start: str | None = None
    start_kept: float = 0.0
    makes: str = "pocket"

    @property
    def name(self) -> str:
        """The name in manifests."""
        return "pocket"

    def describe(self) -> Mapping[str, object]:
        """Return every setting that changes the trained weights."""
        aside = {"dataloader_num_workers", "processes", "save_steps", "logging_steps", "makes"}
        aside |= {"start", "start_kept"} if self.start is None else set()
        plain = asdict(self)
        return {key: value for key, value in plain.items() if key not in aside}
