"""Loop of both trainings, which draw their own world: steps, states, log, checkpoint and record."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Protocol

from harness.errors import UsageError
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.store.atomic import write_json
from harness.trainer import Trainer, TrainingRun
from harness.trainers import state as states
from harness.trainers.session import Session, started

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

WEIGHTS, OPTIMISERS = "weights.safetensors", "optimisers.pt"  # files of a state
RECORD = "training.json"  # of how the checkpoint beside it was made
FIRST = 50  # steps whose losses the record holds one by one; a repetition has to find them again
AVERAGED = 50  # steps to one row of the record's curve


class Course(Protocol):
    """One training, before its first step."""

    trained: "nn.Module"
    optimisers: "Sequence[Optimizer]"
    before: Mapping[str, object] = MappingProxyType({})
    """Record of the training that it goes on from, or nothing."""

    def step(self, step: int) -> dict[str, float]:
        """Make one step; return the losses before it."""

    def export(self, folder: Path) -> None:
        """Write the network as it is now, as transformers loads it; called in every process."""


@dataclass(frozen=True, kw_only=True)
class WorldTrainer(Trainer):
    """A training on scenes of `shapes`, with its settings."""

    save_steps: int
    """Steps from one resumable state to the next."""
    parts: ClassVar[int] = 1
    """Processes that can share a step."""

    def __post_init__(self) -> None:
        """Raise UsageError if a number of steps is out of range."""
        for key, value in asdict(self).items():
            least = 1 if key == "save_steps" else 0
            if isinstance(value, int) and value < least:
                raise UsageError(
                    f"{self.name}({key}=…)", expected=f"at least {least}", found=str(value)
                )

    @property
    @abstractmethod
    def steps(self) -> int:
        """Number of optimizer steps."""

    @abstractmethod
    def course(self, run: TrainingRun) -> Course:
        """Return the training with its initial weights."""

    def describe(self) -> Mapping[str, object]:
        """Return every setting that changes the trained weights."""
        return {key: value for key, value in asdict(self).items() if key != "save_steps"}

    def train(self, run: TrainingRun) -> Mapping[str, object]:
        """Train to the end, from the newest state or from the beginning; write the checkpoint.

        Raises:
            UsageError: it was given a model or tasks, which it has no use for, or more processes
                than can share a step.
            StoreError: the state to go on from is damaged.
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
        course = self.course(run)
        session = Session(run, course.export, report_to=None, settings={})
        if session.state is not None:
            states.load_tensors(session.state / WEIGHTS, course.trained)
            states.load_optimizers(session.state / OPTIMISERS, course.optimisers)
        run.progress.start(self.name, self.steps, session.done)
        with one_thread():
            for done in range(session.done + 1, self.steps + 1):
                numbers = {name: round(n, 5) for name, n in course.step(done - 1).items()}
                session.log(done, numbers | session.evaluate(done))
                stopping = session.stopping() and done < self.steps
                if run.main and (stopping or done % self.save_steps == 0):
                    with states.saved_state(run.state, done) as folder:
                        states.save_tensors(
                            folder / WEIGHTS, states.trained_tensors(course.trained)
                        )
                        states.save_optimizers(folder / OPTIMISERS, course.optimisers)
                if stopping:
                    raise KeyboardInterrupt
        run.progress.end()
        course.export(run.checkpoint)
        if run.main:
            write_json(run.checkpoint / RECORD, self._record(run, course.before))
        return {"steps": self.steps}

    def _record(self, run: TrainingRun, before: Mapping[str, object]) -> dict[str, object]:
        """Return how the checkpoint was made, and how what it began from was."""
        rows = run.curve.read()
        parts = (rows[start : start + AVERAGED] for start in range(0, len(rows), AVERAGED))
        record = {
            "method": self.name,
            "settings": dict(self.describe()),
            "seed": run.seed,
            "steps": self.steps,
            "first_losses": [row["loss"] for row in rows[:FIRST]],
            "curve": [_average_rows(part) for part in parts],
        }
        return record | ({"before": dict(before)} if before else {})


def _average_rows(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of rows of the curve, with the step of the last one."""
    means = {}
    for key in dict.fromkeys(key for row in rows for key in row):
        numbers = [row[key] for row in rows if key in row]
        means[key] = round(sum(numbers) / len(numbers), 4)
    return means | {"step": rows[-1]["step"]}


def set_rate(optimisers: "Sequence[Optimizer]", rate: float) -> None:
    """Set the learning rate of all weights."""
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = rate


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: results do not depend on how many cores there are."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
