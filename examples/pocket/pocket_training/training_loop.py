"""Loop of a training: steps, states, the log, and the checkpoint with its record."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer

from harness.store.atomic import write_json
from harness.trainer import TrainingRun
from harness.trainers import state as states
from harness.trainers.session import Session
from pocket_training.trainer import WorldTrainer

WEIGHTS, OPTIMISERS = "weights.safetensors", "optimisers.pt"
"""Files of a state."""

RECORD = "training.json"
FIRST = 50  # steps whose losses the record holds one by one; a repetition has to find them again
AVERAGED = 50  # steps to one number of the record's curve


class TrainingLoop(ABC):
    """One training, from its first step or from a state."""

    def __init__(
        self,
        trainer: WorldTrainer,
        run: TrainingRun,
        trained: nn.Module,
        optimisers: Sequence[Optimizer],
    ) -> None:
        self.trainer, self.run = trainer, run
        self.trained, self.optimisers = trained, optimisers

    @abstractmethod
    def step(self, step: int) -> dict[str, float]:
        """Make one step; return the losses before it."""

    @abstractmethod
    def export(self, folder: Path) -> None:
        """Write the network as it is now, as transformers loads it; called in every process."""

    def record(self) -> dict[str, object]:
        """Return how the checkpoint was made."""
        rows = self.run.curve.read()
        parts = [rows[start : start + AVERAGED] for start in range(0, len(rows), AVERAGED)]
        return {
            "method": self.trainer.name,
            "settings": dict(self.trainer.describe()),
            "seed": self.run.seed,
            "steps": self.trainer.steps,
            "first_losses": [row["loss"] for row in rows[:FIRST]],
            "curve": [_average_rows(part) for part in parts],
        }

    def train(self) -> Mapping[str, object]:
        """Train to the end, and write the checkpoint.

        Raises:
            StoreError: the state to go on from is damaged.
            KeyboardInterrupt: the run received a signal to stop; the state is saved.
        """
        run, total = self.run, self.trainer.steps
        session = Session(run, self.export, report_to=None, settings={})
        if session.state is not None:
            self._load(session.state)
        run.progress.start(self.trainer.name, total, session.done)
        with one_thread():
            for step in range(session.done, total):
                numbers = {name: round(value, 5) for name, value in self.step(step).items()}
                session.log(step + 1, numbers | session.evaluate(step + 1))
                stopping = session.stopping() and step + 1 < total
                if run.main and (stopping or (step + 1) % self.trainer.save_steps == 0):
                    self._save(step + 1)
                if stopping:
                    raise KeyboardInterrupt
        run.progress.end()
        self.export(run.checkpoint)
        if run.main:
            write_json(run.checkpoint / RECORD, self.record())
        return {"steps": total}

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of every optimiser."""
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = rate

    def _save(self, done: int) -> None:
        with states.saved_state(self.run.state, done) as folder:
            states.save_tensors(folder / WEIGHTS, states.trained_tensors(self.trained))
            states.save_optimizers(folder / OPTIMISERS, self.optimisers)

    def _load(self, folder: Path) -> None:
        states.load_tensors(folder / WEIGHTS, self.trained)
        states.load_optimizers(folder / OPTIMISERS, self.optimisers)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: results do not depend on how many cores there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _average_rows(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of rows of the curve, with the step of the last one."""
    keys = dict.fromkeys(key for row in rows for key in row if key != "step")
    means = {key: float(np.mean([row[key] for row in rows if key in row])) for key in keys}
    return {"step": rows[-1]["step"], **{key: round(value, 4) for key, value in means.items()}}
