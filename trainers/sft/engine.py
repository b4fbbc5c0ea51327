"""TRL's SFTTrainer with this project's states: all that knows TRL's inner parts.

TRL keeps the loop and the loss. Two methods are overridden (tests/trainers/test_sft_engine.py):

- Saving: a kill while a checkpoint is written leaves half of it, and its folder holds pickles.
  States here are whole or absent, and have none (`harness.trainers.state`).
- Loading: `save_pretrained` writes the names of the original checkpoint, which the Trainer loads
  with `strict=False` into a vision-language network that has others: a resumed training of whole
  weights silently starts from the first ones. States hold the network's own names.
"""

import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from huggingface_hub import constants

from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.trainers import state as states
from harness.trainers.session import PATIENCE, Session

ensure_torchvision()
constants.HF_HUB_DISABLE_TELEMETRY = True
# Of names that transformers gives up, and TRL and PEFT still use.
warnings.filterwarnings("ignore", ".*gradient_checkpointing", FutureWarning)

from transformers import (  # noqa: E402
    PrinterCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
)
from trl import SFTConfig, SFTTrainer  # noqa: E402

WEIGHTS, STATE = "trained.safetensors", "trainer_state.json"
NOT_LOGGED = ("total_flos", "step_time", "num_tokens")
"""Numbers of the trainer that are left out: the curve has no clock, nor a count of tokens."""


def configuration(**given: Any) -> SFTConfig:
    """Return an `SFTConfig` with what `ResumableTrainer` relies on."""
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


def rows(count: int) -> Dataset:
    """Return the numbers 0 to `count` - 1, under `row`, as the only kind of data that TRL takes.

    The collator looks examples up by number, so that no image is written to a cache.
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
                self.state.save_to_json(str(partial / STATE))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        path = Path(resume_from_checkpoint) / WEIGHTS
        states.load_tensors(path, self.model if model is None else model)


@dataclass
class Follower(TrainerCallback):  # type: ignore[misc]
    """Logs and stops a training, and evaluates in it."""

    session: Session

    def on_train_begin(
        self, args: object, state: TrainerState, control: TrainerControl, **others: object
    ) -> None:
        """Begin the progress; raise Complete if there is nothing left to do."""
        self.session.run.progress.start("training", state.max_steps, state.global_step)
        if state.global_step >= state.max_steps:  # or the Trainer would take a further step
            raise Complete

    def on_step_end(
        self, args: object, state: TrainerState, control: TrainerControl, **others: object
    ) -> None:
        """Stop with a state, if the run was asked to."""
        if self.session.stopping():
            control.should_save = control.should_training_stop = True

    def on_log(
        self, args: object, state: TrainerState, control: TrainerControl, **others: object
    ) -> None:
        """Log a step's numbers and those of an evaluation after it."""
        row = state.log_history.pop()  # the curve keeps it
        if "loss" in row:  # and not the summary at the end, which has a clock in it
            step = row.pop("step")
            known = {
                name: one for name, one in row.items() if name not in NOT_LOGGED and one is not None
            }
            self.session.log(step, known | self.session.evaluate(step))


def train_to_end(trainer: Any, session: Session) -> None:
    """Train a `ResumableTrainer` to the end, from the session's state or from the beginning.

    Raises:
        KeyboardInterrupt: the run was asked to stop; the state is saved.
    """
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(Follower(session))
    # Qwen's VLMs say that they take no number of tokens for their loss: a step would average the
    # means of its batches, and a token's weight depend on how a step is cut.
    if trainer.loss_is_scaled_for_ga is None:
        trainer.model_accepts_loss_kwargs = True
    state = None if session.state is None else str(session.state)
    with suppress(Complete):
        trainer.train(resume_from_checkpoint=state)
    if trainer.state.global_step < trainer.state.max_steps:
        raise KeyboardInterrupt
    session.run.progress.end()
