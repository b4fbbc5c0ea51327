"""What touches TRL's and the transformers Trainer's inner parts; GRPO's share is `grpo.hooks`.

What is mended here, each with a contract test in tests/trainers/test_trl_compat.py:

- Resuming a full fine-tuning of a vision-language network silently starts from the first weights:
  `save_pretrained` writes the names of the original checkpoint, and they are loaded with
  `strict=False` into a network that has others. States here hold the network's own names and are
  loaded strictly.
- A kill while a checkpoint is written leaves half of it, and it is the one that would be resumed.
  States here are whole or absent (`harness.trainers.state`).
- A checkpoint folder holds pickles (`training_args.bin`, generator states). States here do not,
  but for what `torch.load(…, weights_only=True)` reads.
- Qwen's VLMs say that they take no number of tokens for their loss, so that a step of several
  batches (or devices) averages the batches' means, and what a token weighs depends on how a step
  is cut. TRL's own loss does take it: tokens are counted over the whole step.
- Counters that TRL keeps outside its state (`num_tokens`) start again from zero.
- Every trainer reports to a server when it is built. Here none does.
- The log is printed, and kept whole in every checkpoint. Here it goes to the curve.
"""

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from harness.errors import ModelError
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.store.atomic import write_json
from harness.trainer import TrainingRun
from harness.trainers.state import (
    PARTIAL,
    begin_state,
    commit_state,
    load_random,
    load_tensors,
    newest_state,
    read_plain,
    save_random,
    save_tensors,
    step_of,
    trained_tensors,
    undisturbed,
)

WEIGHTS, COUNTERS, STATE = "trained.safetensors", "counters.json", "trainer_state.json"
NOT_LOGGED = ("total_flos", "step_time")  # of what trainers tell; the curve has no clock
PATIENCE = 7 * 86_400
"""Seconds that processes wait for each other: as long as a benchmark takes that the first one
evaluates alone, or pictures that it looks at. If one dies, the launcher ends the others."""
TASK_NUMBERS = "eval/"  # the prefix of what evaluations while training add to the curve


@lru_cache
def engine(name: str, *mixed: type[Any]) -> type[Any]:
    """A trainer of TRL, such as `SFTTrainer`, with the mends of this module.

    `mixed` are further classes that come before them (`harness.trainers.grpo.hooks`).
    """
    base = trl(name)
    return type(f"Harness{name}", (*mixed, Mended, base), {})


def trl(name: str) -> Any:
    """Something of TRL by its name, such as `SFTConfig`."""
    ensure_torchvision()
    return getattr(import_module("trl"), name)


def configuration(name: str, **given: Any) -> Any:
    """A configuration of TRL, such as `SFTConfig`, with what `Mended` relies on."""
    import torch

    with old_names():
        return trl(name)(
            **given,
            fp16=False,
            gradient_checkpointing_kwargs={"use_reentrant": False},
            logging_strategy="steps",
            logging_steps=1,
            logging_nan_inf_filter=False,
            save_strategy="steps",
            remove_unused_columns=False,
            report_to="none",
            disable_tqdm=True,
            dataloader_pin_memory=torch.cuda.is_available(),
            ddp_timeout=PATIENCE,
        )


@contextmanager
def old_names() -> Iterator[None]:
    """Leave out warnings about names that transformers gives up, and TRL and PEFT still use."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*gradient_checkpointing", FutureWarning)
        yield


def rows(count: int) -> Any:
    """A dataset of the numbers 0 to `count` - 1, under `row`.

    TRL takes nothing but a `datasets.Dataset`; a collator can look the samples up by number, so
    that pictures are decoded when they are needed and none is written to a cache.
    """
    return import_module("datasets").Dataset.from_dict({"row": list(range(count))})


def place() -> tuple[int, int]:
    """(number of this process, number of all) as a launcher has started them.

    To be asked after `configuration`, which says how long they wait for each other.

    Raises:
        ModelError: they do not know of each other, and each would train alone.
    """
    state = import_module("accelerate").PartialState()
    started = int(os.environ.get("WORLD_SIZE", "1"))
    if state.num_processes != started:
        raise ModelError(
            "training in several processes",
            expected=f"{started} that are connected",
            found=str(state.num_processes),
        )
    return int(state.process_index), int(state.num_processes)


def gathered(values: Sequence[Any]) -> list[Any]:
    """The values of all processes, those of the first process first."""
    if place()[1] == 1:
        return list(values)
    return list(import_module("accelerate.utils").gather_object(list(values)))


class Complete(Exception):
    """A state was loaded after whose last step a training was killed: there is no step to take."""


class Mended:
    """Mixed in before a trainer of TRL; `attach` gives it the run that it belongs to."""

    # What is used of the trainer that this is mixed into.
    args: Any
    state: Any
    control: Any
    model: Any
    accelerator: Any
    is_deepspeed_enabled: bool
    loss_is_scaled_for_ga: bool | None
    model_accepts_loss_kwargs: bool
    _save_optimizer_and_scheduler: Any
    _save_scaler: Any

    run: TrainingRun
    snapshot: Any
    extra: dict[str, float]

    loggers: Sequence[Callable[[int, Mapping[str, float]], None]]

    def attach(
        self,
        run: TrainingRun,
        snapshot: Any,
        *,
        loggers: Sequence[Callable[[int, Mapping[str, float]], None]] = (),
    ) -> None:
        """Follow a run: its curve, its progress, its interruption, its evaluations.

        Args:
            run: What the trainer was handed.
            snapshot: Writes the network as it is now to a folder that `from_pretrained` loads;
                called in every process.
            loggers: Are told what the curve is told, in the process that writes.
        """
        transformers = import_module("transformers")
        self.run, self.snapshot, self.extra, self.loggers = run, snapshot, {}, loggers
        for callback in ("PrinterCallback", "ProgressCallback"):
            self.remove_callback(getattr(transformers, callback))  # type: ignore[attr-defined]
        self.add_callback(_follower(self))  # type: ignore[attr-defined]
        if self.loss_is_scaled_for_ga is None:
            self.model_accepts_loss_kwargs = True

    def go(self) -> None:
        """Train to the end from the newest state, or from the beginning.

        Raises:
            KeyboardInterrupt: the run was asked to stop; the state is saved.
        """
        state = newest_state(self.run.state) if self.run.resume else None
        done = 0 if state is None else step_of(state)
        if self.run.main:
            self.run.curve.cut(done)
        # DeepSpeed's states hold no weights that could be loaded outside of its engine.
        if state is not None and not self.is_deepspeed_enabled and self._finished(state):
            return
        resumed = None if state is None else str(state)
        with old_names(), suppress(Complete):
            self.train(resume_from_checkpoint=resumed)  # type: ignore[attr-defined]
        if self.state.global_step < self.state.max_steps:
            raise KeyboardInterrupt
        self.run.progress.end()

    def _finished(self, state: Path) -> bool:
        """Load a state after whose last step the training was killed.

        The Trainer would take a further step from it.
        """
        path = state / STATE
        said = read_plain(path, "global_step", "max_steps")
        if said["global_step"] < said["max_steps"]:
            return False
        self._load_from_checkpoint(str(state))
        self.state = type(self.state).load_from_json(str(path))
        return True

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Write a step's numbers to the curve instead of the log."""
        super().log(logs, start_time)  # type: ignore[misc]
        row = self.state.log_history.pop()
        if "loss" not in row:
            return  # the summary at the end, which has a clock in it
        step = row.pop("step")
        numbers = {
            name: value
            for name, value in row.items()
            if name not in NOT_LOGGED and value is not None
        }
        numbers = {**numbers, **self.extra}
        self.extra = {}
        if self.run.main:
            self.run.curve.append(step, numbers)
            for logger in self.loggers:
                logger(step, numbers)
        self.run.progress.step(step, numbers)

    def _send_telemetry(self) -> None:
        return

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        del model, trial
        folder, step = Path(self.args.output_dir), self.state.global_step
        partial = folder / f"{PARTIAL}step-{step}"
        if self.run.main:
            begin_state(folder, step)
        self.accelerator.wait_for_everyone()
        self._save_optimizer_and_scheduler(str(partial))
        self._save_scaler(str(partial))
        save_random(partial, name=self._generators())
        if self.run.main:
            if not self.is_deepspeed_enabled:  # which has saved the weights with its optimiser
                save_tensors(partial / WEIGHTS, trained_tensors(self.model))
            write_json(partial / COUNTERS, {"tokens": getattr(self, "_total_train_tokens", 0)})
            self.state.save_to_json(str(partial / STATE))
        self.accelerator.wait_for_everyone()
        if self.run.main:
            commit_state(partial)
        self.accelerator.wait_for_everyone()

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        load_tensors(Path(resume_from_checkpoint) / WEIGHTS, self.model if model is None else model)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        """The last part of a state that is loaded."""
        if checkpoint is None:
            return
        folder = Path(checkpoint)
        load_random(folder, name=self._generators())
        self._total_train_tokens = read_plain(folder / COUNTERS, "tokens")["tokens"]

    def _generators(self) -> str:
        return f"random-{self.args.process_index}"


def _follower(trainer: Mended) -> Any:
    """The callback that stops a training, evaluates in it, and tells where it begins."""
    base = import_module("transformers").TrainerCallback

    class Follower(base):  # type: ignore[misc, valid-type]
        def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            trainer.run.progress.start("training", state.max_steps, state.global_step)
            if state.global_step >= state.max_steps:  # or the Trainer would take a further step
                raise Complete

        def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            run = trainer.run
            if run.every and run.evaluate and state.global_step % run.every == 0:
                _evaluate(trainer, state.global_step)
            if any(gathered([run.stopping()])):
                control.should_save = control.should_training_stop = True

    return Follower()


def _evaluate(trainer: Mended, step: int) -> None:
    run = trainer.run
    folder = run.state / f"evaluated-{step}"
    with undisturbed():
        trainer.snapshot(folder)
        if run.main and run.evaluate is not None:
            numbers = run.evaluate(folder, step)
            trainer.extra = {f"{TASK_NUMBERS}{name}": value for name, value in numbers.items()}
    trainer.accelerator.wait_for_everyone()


def finite(value: Any) -> float | None:
    """A number for a record; None where it is none."""
    number = float(value)
    return number if math.isfinite(number) else None
