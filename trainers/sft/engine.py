"""TRL's SFTTrainer with this project's states: all that knows TRL's inner parts.

TRL keeps the loop and the loss. Overridden, each with a contract test in
tests/trainers/test_sft_engine.py:

- Saving: a kill while a checkpoint is written leaves half of it, and its folder holds pickles.
  States here are whole or absent, and have none (`harness.trainers.state`).
- Loading: `save_pretrained` writes the names of the original checkpoint, which the Trainer loads
  with `strict=False` into a vision-language network that has others: a resumed training of whole
  weights silently starts from the first ones. States hold the network's own names.
  `num_tokens`, which it does not keep, goes on from the state too.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from huggingface_hub import constants

from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.store.atomic import write_json
from harness.trainers import state as states
from harness.trainers.session import PATIENCE, Session, resumed_from

ensure_torchvision()
constants.HF_HUB_DISABLE_TELEMETRY = True

from transformers import (  # noqa: E402
    PrinterCallback,
    ProgressCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
)
from trl import SFTConfig, SFTTrainer  # noqa: E402

WEIGHTS, COUNTERS, STATE = "trained.safetensors", "counters.json", "trainer_state.json"
NOT_LOGGED = ("total_flos", "step_time")  # of what trainers tell; the curve has no clock


def configuration(**given: Any) -> Any:
    """Return an `SFTConfig` with what `ResumableTrainer` relies on."""
    with old_names():
        return SFTConfig(
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
    """Return a dataset of the numbers 0 to `count` - 1, under `row`.

    TRL takes nothing but a `datasets.Dataset`. The collator looks examples up by number, so that
    images are decoded when they are needed and none is written to a cache.
    """
    return Dataset.from_dict({"row": list(range(count))})


class Complete(Exception):
    """A state was loaded after whose last step a training was killed: there is no step to take."""


class ResumableTrainer(SFTTrainer):  # type: ignore[misc]
    """TRL's trainer with whole states without pickles, of the network's own names."""

    def _save_checkpoint(self, model: object, trial: object) -> None:
        del model, trial
        folder, main = Path(self.args.output_dir), self.accelerator.is_main_process
        wait, step = self.accelerator.wait_for_everyone, self.state.global_step
        with states.saved_state(folder, step, main=main, wait=wait) as partial:
            self._save_optimizer_and_scheduler(str(partial))
            self._save_rng_state(str(partial))
            if main:
                if not self.is_deepspeed_enabled:  # which has saved the weights already
                    states.save_tensors(partial / WEIGHTS, states.trained_tensors(self.model))
                write_json(partial / COUNTERS, {"tokens": self._total_train_tokens})
                self.state.save_to_json(str(partial / STATE))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        path = Path(resume_from_checkpoint) / WEIGHTS
        states.load_tensors(path, self.model if model is None else model)


class Follower(TrainerCallback):  # type: ignore[misc]
    """Logs and stops a training, and evaluates in it."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def on_train_begin(
        self, args: object, state: TrainerState, control: TrainerControl, **others: object
    ) -> None:
        """Begin the progress; raise Complete if there is nothing left to do."""
        self._session.run.progress.start("training", state.max_steps, state.global_step)
        if state.global_step >= state.max_steps:  # or the Trainer would take a further step
            raise Complete

    def on_step_end(
        self, args: object, state: TrainerState, control: TrainerControl, **others: object
    ) -> None:
        """Stop with a state, if the run was asked to."""
        if self._session.stopping():
            control.should_save = control.should_training_stop = True

    def on_log(
        self, args: object, state: TrainerState, control: TrainerControl, **others: object
    ) -> None:
        """Log a step's numbers and those of an evaluation after it."""
        row = state.log_history.pop()  # the curve keeps it
        if "loss" in row:  # and not the summary at the end, which has a clock in it
            step = row.pop("step")
            told = {
                name: one for name, one in row.items() if name not in NOT_LOGGED and one is not None
            }
            self._session.log(step, told | self._session.evaluate(step))


def train_to_end(trainer: Any, session: Session) -> None:
    """Train to the end from the newest state, or from the beginning.

    Args:
        trainer: A `ResumableTrainer`.
        session: The curve, the evaluations and the interruption.

    Raises:
        KeyboardInterrupt: the run was asked to stop; the state is saved.
    """
    for callback in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(callback)
    trainer.add_callback(Follower(session))
    # Qwen's VLMs say that they take no number of tokens for their loss: a step would average the
    # means of its batches, and a token's weight depend on how a step is cut.
    if trainer.loss_is_scaled_for_ga is None:
        trainer.model_accepts_loss_kwargs = True
    run = session.run
    state, done = resumed_from(run)
    if state is not None:
        trainer._total_train_tokens = states.read_plain(state / COUNTERS, "tokens")["tokens"]
    if run.main:
        run.curve.cut(done)
    with old_names(), suppress(Complete):
        trainer.train(resume_from_checkpoint=None if state is None else str(state))
    if trainer.state.global_step < trainer.state.max_steps:
        raise KeyboardInterrupt
    run.progress.end()
