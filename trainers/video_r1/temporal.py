"""Options of T-GRPO, with which Video-R1 and SpaceR are trained."""

from collections.abc import Callable
from dataclasses import dataclass

from harness.models.pipeline import PromptedModel
from harness.trainers.grpo.method import SecondPass
from harness.trainers.grpo.settings import refuse_unused
from harness.trainers.video_r1.rewards import Accuracy, TemporalReward
from harness.trainers.video_r1.shuffled import ShuffledFrames


@dataclass(frozen=True, kw_only=True)
class TemporalOptions:
    """Options of the reward for the order of frames, and of the one for length."""

    temporal: bool = True
    """Ask each question a second time with shuffled frames (T-GRPO); without, GRPO."""
    alpha: float = 0.3
    """The bonus where the order of frames is of use."""
    mu: float = 0.8
    """Share of the shuffled frames' accuracy that the ordered ones' has to reach."""
    length: bool = True
    """Reward the length of right answers."""
    omega: float = 0.2
    """Size of that reward."""
    shortest: int = 320
    """Fewest completion tokens that are rewarded."""
    longest: int = 512
    """Most completion tokens that are rewarded."""
    order_seed: int = 0
    """Seed of the shuffled orders."""

    def check(self, method: str) -> None:
        """Raise UsageError for options that `temporal=false` makes idle."""
        if not self.temporal:
            names = ("alpha", "mu", "order_seed")
            given = {name: (getattr(self, name), getattr(TemporalOptions, name)) for name in names}
            refuse_unused(method, "temporal=false", **given)

    def reward(self, accuracy: Accuracy) -> TemporalReward:
        """Return the reward with these weights."""
        return TemporalReward(
            accuracy=accuracy,
            alpha=self.alpha,
            mu=self.mu,
            omega=self.omega if self.length else 0.0,
            shortest=self.shortest,
            longest=self.longest,
        )

    def contrast(self, max_new_tokens: int) -> Callable[[PromptedModel], SecondPass] | None:
        """Return what makes the second request of rollouts; None: there is none."""
        if not self.temporal:
            return None
        return lambda model: ShuffledFrames(model, self.order_seed, max_new_tokens)

    def record(self) -> dict[str, object]:
        """Return the options as they count, for the record."""
        return {
            "alpha": self.alpha,
            "mu": self.mu,
            "omega": self.omega if self.length else 0.0,
            "shortest": self.shortest,
            "longest": self.longest,
            "temporal": self.temporal,
            "order_seed": self.order_seed,
        }
