"""Training on scenes that are drawn as it goes: the loop of both networks."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from harness.errors import UsageError
from harness.models.backends.cpu_kernels import lacks_half_products
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.trainer import Trainer, TrainingRun
from harness.trainers import network as networks
from harness.trainers import state as states
from harness.trainers.session import Session, started

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer
    from transformers import PreTrainedModel

MAX_GRAD_NORM = 1.0
WEIGHTS, OPTIMISERS = "weights.safetensors", "optimisers.pt"  # files of a state


class Course(ABC):
    """One training: what it trains, and its steps."""

    steps: int
    folder: Path  # of the shipped weights, whose sizes and processor it has
    network: "PreTrainedModel"
    trained: "nn.Module"  # the network, with what is left out of its checkpoint
    optimisers: "Sequence[Optimizer]"

    @abstractmethod
    def step(self, step: int) -> dict[str, float]:
        """Make the step after so many others; return the losses before it."""

    def export(self, folder: Path) -> None:
        """Write the network as it is now, as transformers loads it."""
        networks.export(self.network, self.folder, folder, tensors=None)

    def update(self, learning_rate: float) -> float:
        """Make an optimiser step; return the norm that the gradients had."""
        from torch.nn.utils import clip_grad_norm_

        norm = clip_grad_norm_(self.trained.parameters(), MAX_GRAD_NORM)
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = learning_rate
            with in_float32() if lacks_half_products() else nullcontext():
                optimiser.step()
            optimiser.zero_grad()
        return float(norm)


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

    @abstractmethod
    def course(self, seed: int) -> Course:
        """Return the training with its initial weights."""

    def describe(self) -> Mapping[str, object]:
        """Return every setting that changes the trained weights."""
        return {key: value for key, value in asdict(self).items() if key != "save_steps"}

    def train(self, run: TrainingRun) -> Mapping[str, object]:
        """Train to the end, from the newest state or from the beginning; write the checkpoint.

        Raises:
            UsageError: there is a model, or a task, or more processes than can share a step.
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
        course = self.course(run.seed)
        export = course.export if run.main else lambda folder: None
        session = Session(run, export, report_to=None, settings={})
        if session.state is not None:
            states.load_tensors(session.state / WEIGHTS, course.trained)
            states.load_optimizers(session.state / OPTIMISERS, course.optimisers)
        run.progress.start(self.name, course.steps, session.done)
        with one_thread():
            for done in range(session.done + 1, course.steps + 1):
                numbers = {name: round(n, 5) for name, n in course.step(done - 1).items()}
                session.log(done, numbers | session.evaluate(done))
                stopping = session.stopping() and done < course.steps
                if run.main and (stopping or done % self.save_steps == 0):
                    with states.saved_state(run.state, done) as folder:
                        trained = states.trained_tensors(course.trained)
                        states.save_tensors(folder / WEIGHTS, trained)
                        states.save_optimizers(folder / OPTIMISERS, course.optimisers)
                if stopping:
                    raise KeyboardInterrupt
        run.progress.end()
        export(run.checkpoint)
        return {"steps": course.steps}


@contextmanager
def in_float32() -> Iterator[None]:
    """Let Muon make its products in float32: torch's converts the gradients to bfloat16 itself."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Float32(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            if function is torch.Tensor.bfloat16:
                return args[0].clone()  # which is changed in place
            return function(*args, **(kwargs or {}))

    with Float32():
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread, whatever the machine has: equal results.

    Denormal numbers are zero: attention leaves many, and they are slow.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)  # it is the thread's, whatever runs there next
        torch.set_num_threads(threads)
