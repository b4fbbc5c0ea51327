"""Settings of a training of pocket."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from harness.trainers.pocket.data_mixture import MixtureShares
from harness.trainers.pocket.network import Architecture


@dataclass(frozen=True, kw_only=True)
class PocketSettings:
    """Every setting of a training; see `pocket`."""

    steps: int
    learning_rate: float
    warm_up: int
    flat: float
    weight_decay: float
    clip: float
    measured_weight: float
    first_spread: float
    last_spread: float
    spread_until: float
    things_weight: float
    places_of_asked: bool
    patches_weight: float
    outlines_weight: float
    meant_weight: float
    looks_weight: float
    copies_weight: float
    heads_until: float
    easy_until: float
    see_until: float
    seen_first: int
    text_first: bool
    workers: int
    processes: int
    base_at: int
    bfloat16: bool
    save_every: int
    log_every: int
    examine_every: int
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
        aside = {"workers", "processes", "save_every", "log_every", "makes"}
        aside |= {"start", "start_kept"} if self.start is None else set()
        plain = asdict(self)
        return {key: value for key, value in plain.items() if key not in aside}
