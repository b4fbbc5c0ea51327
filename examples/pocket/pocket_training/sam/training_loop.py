"""Loop of a training: content of each step, learning rate, logs and checkpoints."""

import math
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from harness.errors import StoreError
from harness.store.atomic import read_json, write_json
from harness.trainer import TrainingRun
from harness.trainers import state as states
from pocket_training.sam.batches import clips, stills
from pocket_training.sam.network import make_network, make_processor, save
from pocket_training.sam.settings import PocketSamSettings
from pocket_training.sam.steps import Cost, clip_cost, still_cost

RECORD = "training.json"
FIRST = 50  # steps whose losses the record holds one by one
AVERAGED = 50  # steps to one number of the record's curve
BETAS = (0.9, 0.98)
SEVERAL = 0.75  # of the steps with stills ask for three masks, the others for one
FIRST_BACKGROUND = 0.02


@dataclass(frozen=True, slots=True)
class StepBatch:
    """Content of a step; a pure function of seed and step."""

    multimask: bool
    """Three masks a prompt of a still."""
    frames: int
    """Number of frames of each clip; 0: no clips."""


class TrainingLoop:
    """One training, from its first step or from a state."""

    def __init__(self, settings: PocketSamSettings, run: TrainingRun) -> None:
        self._settings = settings
        self._run = run
        # Training mode, so that a single mask is never replaced by one of three; no dropout.
        self.network = make_network(settings.architecture, seed=run.seed).train()
        self.processor = make_processor(settings.architecture.side)
        self._optimiser = torch.optim.AdamW(self._groups(), betas=BETAS)
        self._seconds = {"wall": 0.0, "cpu": 0.0}
        """Spent on steps, over all of its resumptions. Of one thread: with a core to itself, both
        are the same."""

    def run(self) -> Mapping[str, object]:
        """Train to the end, and write the checkpoint."""
        run, settings = self._run, self._settings
        done = self._resume() if run.resume else 0
        run.curve.cut(done)
        run.progress.start(settings.name, settings.steps, done)
        with one_thread():
            for step in range(done, settings.steps):
                began = time.monotonic(), time.process_time()
                numbers = self.step(step)
                self._seconds["wall"] += time.monotonic() - began[0]
                self._seconds["cpu"] += time.process_time() - began[1]
                self._after(step + 1, numbers)
        run.progress.end()
        self._write(run.checkpoint)
        shutil.rmtree(run.state, ignore_errors=True)
        return {
            "steps": settings.steps,
            "parameters": sum(one.numel() for one in self.network.parameters()),
            **self._rounded_seconds(),
        }

    def step(self, step: int) -> dict[str, float]:
        """Make one step; the losses before it."""
        for group in self._optimiser.param_groups:
            group["lr"] = self.rate(step)
        self._optimiser.zero_grad()
        numbers: dict[str, float] = {}
        loss = 0.0
        for kind, cost in self._costs(step):
            torch.autograd.backward(cost.loss)
            loss += float(cost.loss.detach())
            numbers |= {f"{kind}/{name}": value for name, value in cost.numbers.items()}
        norm = torch.nn.utils.clip_grad_norm_(
            self.network.parameters(), self._settings.max_grad_norm
        )
        self._optimiser.step()
        return {"loss": loss, **numbers, "gradient": float(norm)}

    def batch_of_step(self, step: int) -> StepBatch:
        """Return the content of a step."""
        settings = self._settings
        draw = np.random.default_rng((self._run.seed, 2, step))
        frames = int(draw.integers(settings.shortest, settings.longest + 1))
        return StepBatch(
            multimask=bool(draw.random() < SEVERAL),
            frames=frames if step >= settings.still_steps else 0,
        )

    def rate(self, step: int) -> float:
        """The learning rate: constant for stills alone, then from its clips' value to zero."""
        settings = self._settings
        started = min(1.0, (step + 1) / max(1, settings.warmup_steps))
        if step < settings.still_steps:
            return settings.learning_rate * started
        past = (step - settings.still_steps) / settings.clip_steps
        return settings.clip_learning_rate * started * (0.5 + 0.5 * math.cos(math.pi * past))

    def background(self, step: int) -> float:
        """Return the weight of a pixel beside an object, relative to one in it."""
        return min(1.0, FIRST_BACKGROUND + step / max(1, self._settings.sparse_steps))

    def _costs(self, step: int) -> Iterator[tuple[str, Cost]]:
        """Yield the losses of a step, by its kind of input."""
        settings, seed, shown = self._settings, self._run.seed, self.batch_of_step(step)
        given = {"background": self.background(step)}
        prompted = stills(seed, step, images=settings.images, objects=settings.objects)
        yield (
            "still",
            still_cost(self.network, self.processor, prompted, multimask=shown.multimask, **given),
        )
        if shown.frames:
            drawn = clips(
                seed, step, videos=settings.videos, objects=settings.followed, frames=shown.frames
            )
            yield "clip", clip_cost(self.network, self.processor, drawn, **given)

    def _groups(self) -> list[dict[str, object]]:
        """Return parameter groups: vectors, such as biases and scales of norms, do not decay."""
        decayed = [one for one in self.network.parameters() if one.ndim > 1]
        others = [one for one in self.network.parameters() if one.ndim <= 1]
        decay = self._settings.weight_decay
        return [
            {"params": decayed, "weight_decay": decay},
            {"params": others, "weight_decay": 0.0},
        ]

    def _after(self, done: int, numbers: Mapping[str, float]) -> None:
        run, rounded = self._run, {key: round(value, 5) for key, value in numbers.items()}
        run.progress.step(done, rounded)
        evaluated: Mapping[str, float] = {}
        if run.evaluate is not None and run.every is not None and done % run.every == 0:
            folder = run.out / f"at-{done}"
            save(self.network, self.processor, folder)
            with torch.random.fork_rng():
                evaluated = run.evaluate(folder, done)
        run.curve.append(done, {**rounded, **evaluated})
        stopped = run.stopping()
        if stopped or (done % self._settings.save_steps == 0 and done < self._settings.steps):
            self._save_state(done)
        if stopped:
            raise KeyboardInterrupt

    def _write(self, folder: Path) -> None:
        """Write the checkpoint, with the record of how it was made."""
        save(self.network, self.processor, folder)
        write_json(folder / RECORD, self._record())

    def _record(self) -> dict[str, object]:
        rows = self._run.curve.read()
        parts = [rows[start : start + AVERAGED] for start in range(0, len(rows), AVERAGED)]
        return {
            "method": self._settings.name,
            "settings": dict(self._settings.describe()),
            "seed": self._run.seed,
            "steps": self._settings.steps,
            **self._rounded_seconds(),
            "first_losses": [row["loss"] for row in rows[:FIRST]],
            "curve": [_average_rows(part) for part in parts],
        }

    def _rounded_seconds(self) -> dict[str, float]:
        """Seconds of steps: by the clock, and of the processor."""
        return {"seconds": round(self._seconds["wall"]), "cpu_seconds": round(self._seconds["cpu"])}

    def _save_state(self, done: int) -> None:
        names = {id(one): name for name, one in self.network.named_parameters()}
        kept = {f"network.{name}": one for name, one in self.network.state_dict().items()}
        for one, held in self._optimiser.state.items():
            for key, value in held.items():
                kept[f"{key}.{names[id(one)]}"] = value
        with states.saved_state(self._run.state, done) as folder:
            whole = {name: one.detach().clone().contiguous() for name, one in kept.items()}
            save_file(whole, folder / "training.safetensors")
            write_json(folder / "seconds.json", self._seconds)

    def _resume(self) -> int:
        """Go on from the newest state, if there is one; the steps that are done.

        Raises:
            StoreError: it is damaged, or of another network.
        """
        state = states.newest_state(self._run.state)
        if state is None:
            return 0
        try:
            kept = load_file(state / "training.safetensors")
            self.network.load_state_dict(_with_prefix("network", kept))
            held = {key: _with_prefix(key, kept) for key in ("step", "exp_avg", "exp_avg_sq")}
            for name, one in self.network.named_parameters():
                if name in held["step"]:
                    self._optimiser.state[one] = {key: held[key][name] for key in held}
        except (OSError, KeyError, RuntimeError, ValueError, SafetensorError) as error:
            raise StoreError(
                f"state {state}",
                expected="a whole state of this network",
                found=" ".join(str(error).split())[:200],
            ) from error
        self._seconds = read_json(state / "seconds.json")
        return states.step_of(state)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: results do not depend on how many cores there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _with_prefix(prefix: str, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    start = f"{prefix}."
    return {
        name.removeprefix(start): one for name, one in tensors.items() if name.startswith(start)
    }


def _average_rows(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of rows of the curve, with the step of the last one."""
    keys = [key for key in rows[0] if key != "step"]
    means = {key: float(np.mean([row[key] for row in rows if key in row])) for key in keys}
    return {"step": rows[-1]["step"], **{key: round(value, 4) for key, value in means.items()}}
