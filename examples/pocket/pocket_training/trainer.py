"""Base of the two trainers, which draw their own world and are given neither model nor tasks."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.errors import UsageError
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.trainer import Trainer, TrainingRun
from harness.trainers.session import started

if TYPE_CHECKING:
    from pocket_training.training_loop import TrainingLoop


@dataclass(frozen=True, kw_only=True)
class WorldTrainer(Trainer):
    """A training program on scenes of `shapes`, with its settings."""

    name: str
    save_steps: int
    parts: ClassVar[int] = 1
    """Processes that can share a step."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """Number of optimizer steps."""

    @abstractmethod
    def loop(self, run: TrainingRun) -> "TrainingLoop":
        """Return the loop of a training, before its first step."""

    def describe(self) -> Mapping[str, object]:
        """Return every setting that changes the trained weights."""
        aside = {"name", "save_steps"}
        return {key: value for key, value in asdict(self).items() if key not in aside}

    def train(self, run: TrainingRun) -> Mapping[str, object]:
        """Train to the end, and write the checkpoint.

        Raises:
            UsageError: it was given a model or tasks, which it has no use for, or more processes
                than can share a step.
            KeyboardInterrupt: the run received a signal to stop; the state is saved.
        """
        if run.tasks or run.model is not None:
            raise UsageError(
                f"method {self.name}",
                expected="neither --model nor --train-tasks, as it draws its own world",
                found="one of them",
            )
        if started() > self.parts:
            raise UsageError(
                f"method {self.name}",
                expected=f"at most {self.parts} process(es), as that many share a step",
                found=str(started()),
                fix=f"accelerate launch --num_processes {self.parts} …",
            )
        ensure_torchvision()
        return self.loop(run).train()
