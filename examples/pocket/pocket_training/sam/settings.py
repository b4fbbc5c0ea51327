"""Settings of a training of pocket-sam."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from pocket_training.sam.network import Architecture


@dataclass(frozen=True, kw_only=True)
class PocketSamSettings:
    """Every setting of a training; see `pocket_sam`."""

    still_steps: int
    clip_steps: int
    images: int
    objects: int
    videos: int
    followed: int
    shortest: int
    longest: int
    learning_rate: float
    clip_learning_rate: float
    warmup_steps: int
    weight_decay: float
    max_grad_norm: float
    sparse_steps: int
    save_steps: int
    architecture: Architecture = field(default_factory=Architecture)

    @property
    def name(self) -> str:
        """`pocket_sam`."""
        return "pocket_sam"

    @property
    def steps(self) -> int:
        """Number of steps on stills and on clips together."""
        return self.still_steps + self.clip_steps

    def describe(self) -> Mapping[str, object]:
        """Return every setting that changes the trained weights."""
        return {key: value for key, value in asdict(self).items() if key != "save_steps"}
