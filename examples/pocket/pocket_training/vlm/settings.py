"""Settings of a training of pocket: what a user chooses, and the stages of the shipped weights."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from pocket_training.vlm.data_mixture import MixtureShares
from pocket_training.vlm.network import Architecture


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Schedule and weights of the losses; parts of a training are shares of its steps.

    The defaults are those of `pocket-base`: random weights to a network that finds objects.
    """

    warmup_steps: int = 150
    """Steps until the learning rate is reached."""
    flat: float = 1.0
    """Part at the full learning rate, after which it falls as a cosine."""
    weight_decay: float = 0.02
    """Of matrices other than the input vocabulary."""
    max_grad_norm: float = 1.0
    measured_weight: float = 1.5
    """Weight of a coordinate's loss beside that of a text token."""
    first_spread: float = 10.0
    """Width of a coordinate's target at first, in pixels of the canvas."""
    last_spread: float = 1.08015555382684
    spread_until: float = 1.0
    """Part in which the width falls, by equal factors."""
    things_weight: float = 1.0
    """Weight of what image tokens show."""
    places_of_targets: bool = False
    """Image tokens predict, after the middle layer, the box of the question's subject, even where
    other objects cover more of them."""
    patches_weight: float = 0.0
    """Weight of what each of an image token's four patches shows."""
    outlines_weight: float = 0.0
    """Weight of which cells of an image token its object covers."""
    target_weight: float = 0.5
    """Weight of which image tokens show the question's subject."""
    grounding_weight: float = 0.5
    """Weight of where responses look."""
    copies_weight: float = 1.0
    """Weight of attention to the text that a response repeats."""
    heads_until: float = 1.0
    """Part after which the weights above are a tenth."""
    easy_until: float = 0.19915254237288135
    """Part in which scenes grow from two objects to all."""
    see_until: float = 0.15932203389830507
    """Part in which mainly the vision tower learns, on stills without questions."""
    seen_first: int = 40
    """Stills of that part in each half of a step."""
    shares: MixtureShares = field(
        default_factory=lambda: MixtureShares(
            stills=4, counts=2, videos=2, images=16, words=0.5, swapped=0.3, sizes_held=True
        )
    )


STAGES: Mapping[str, Stage] = {
    "base": Stage(),
    "more": Stage(
        warmup_steps=50,
        flat=0.3,
        first_spread=1.08,
        last_spread=0.7,
        spread_until=0.6,
        places_of_targets=True,
        patches_weight=1.0,
        outlines_weight=4.0,
        heads_until=0.9,
        easy_until=0.0,
        see_until=0.0,
        shares=MixtureShares(
            stills=5, counts=2, videos=2, images=12, words=0.45, recoloured=0.7, swapped=0.2
        ),
    ),
}
"""`base` makes `pocket-base`, `more` goes on from it to `pocket`."""


@dataclass(frozen=True, kw_only=True)
class PocketSettings:
    """Every setting of a training; see `pocket`."""

    stage: Stage
    max_steps: int
    learning_rate: float
    start: str | None
    architecture: Architecture
    processes: int
    bf16: bool
    save_steps: int
    logging_steps: int
    name: str = "pocket"
    makes: str = "pocket"

    def describe(self) -> Mapping[str, object]:
        """Return every setting that changes the trained weights."""
        aside = {"processes", "save_steps", "logging_steps", "name", "makes"}
        return {key: value for key, value in asdict(self).items() if key not in aside}
