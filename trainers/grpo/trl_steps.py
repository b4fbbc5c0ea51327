"""`Watch`: the callback by which TRL's trainer (`engine=trl`) logs, saves states, and stops.

A state is a checkpoint that TRL wrote. It is moved to the folder of our states once it is complete.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import TrainerCallback, TrainerControl, TrainerState

from harness.errors import StoreError, raised_as
from harness.store.atomic import writing
from harness.trainers import guards
from harness.trainers import state as states
from harness.trainers.checkpoints import KeptCheckpoints
from harness.trainers.grpo.trl_rewards import Rewards
from harness.trainers.network import Network
from harness.trainers.session import Session
from harness.trainers.stopwatch import UPDATE

TRL_NUMBERS = (
    "loss",
    "grad_norm",
    "learning_rate",
    "entropy",
    "kl",
    "num_tokens",
    "cispo_clip_ratio",
)
"""Numbers of TRL's log that go to the curve, with all that begin with `clip_ratio/`.

The others are computed by us, or are times, which the curve does not have.
"""
PICKLE_FILE = "training_args.bin"
"""File of TRL's checkpoints that is a pickle. It is deleted; nothing reads it."""


class Watch(TrainerCallback):  # type: ignore[misc]
    """Callback of TRL's trainer: tells our session its steps and checkpoints, and stops it."""

    def __init__(
        self,
        session: Session,
        rewards: Rewards,
        kept: KeptCheckpoints,
        export: Callable[[Path], None],
        *,
        total: int,
        epoch_size: int,
    ) -> None:
        self.session, self.rewards, self.kept = session, rewards, kept
        self.export, self.total, self.epoch_size = export, total, epoch_size
        self.is_cut = False
        """True if the training was asked to stop before its end."""
        self.saves: Mapping[str, float] | None = None
        """Numbers of the step whose state TRL is writing; None: it is writing none."""

    @contextmanager
    def saving(self, folder: Path) -> Iterator[Path]:
        """Yield a folder for TRL's unfinished checkpoints.

        Raises:
            StoreError: TRL could not write a checkpoint, such as because the disk is full.
        """
        shutil.rmtree(folder, ignore_errors=True)  # left by a training that was killed
        try:
            yield folder
        except Exception:
            if self.saves is None:
                raise
            with writing(folder), states.as_system_errors(folder):
                raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Log and keep the step of the state to resume from, whose weights are loaded now."""
        if self.session.state is not None:
            self.session.catch_up()
        self.kept.catch_up(self.session.done, self.export)

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Start the stopwatch of a step: of its rollouts and rewards, if any, and its update."""
        self.session.stopwatch.take(0.0)

    def on_step_end(
        self, args: Any, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """At the end of a round, make TRL save if a state is due, and stop if asked to."""
        step, settings = state.global_step, self.rewards.settings
        iterations, stopping = settings.num_iterations, self.session.stopping()
        if step % iterations and step < self.total:
            return
        due = step // settings.save_steps > (step - iterations) // settings.save_steps
        if due or stopping or step == self.total or self.session.evaluates(step):
            control.should_save = True
        if stopping and step < self.total:
            self.is_cut = control.should_training_stop = True

    def on_save(
        self, args: Any, state: TrainerState, control: TrainerControl, model: Any = None, **_: Any
    ) -> None:
        """Move TRL's checkpoint to our states; then log the step, which may evaluate.

        With `finetune=full` the weights are written again under the network's own names:
        transformers saves them under the names of published checkpoints, and does not find those
        when it resumes.
        """
        step = state.global_step
        trl_folder = Path(args.output_dir) / f"checkpoint-{step}"
        (trl_folder / PICKLE_FILE).unlink(missing_ok=True)
        if self.rewards.settings.finetune == "full":
            for path in trl_folder.glob("model*.safetensors*"):
                path.unlink()
            states.save_tensors(trl_folder / "model.safetensors", _own_tensors(model))
        numbers = self.saves or {}
        with states.saved_state(self.session.run.state, step, keep=self.kept.kept) as folder:
            for path in trl_folder.iterdir():
                path.rename(folder / path.name)
            self.session.save_numbers(folder, numbers)
        self.session.saved, self.saves = step, None
        if not (self.is_cut and self.session.evaluates(step)):  # a resumed training evaluates
            self._log(step, numbers)
            self.kept.add(step, self.export)

    def on_log(
        self,
        args: Any,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, float | None] | None = None,
        model: Any = None,
        **_: Any,
    ) -> None:
        """Log a step; raise UnstableTraining if its loss, gradient or weights are not finite."""
        if not logs or "loss" not in logs:  # TRL's last log, of the whole training's times
            return
        settings, step = self.rewards.settings, state.global_step
        of_trl = {
            name: float(value)
            for name, value in logs.items()
            if value is not None and (name in TRL_NUMBERS or name.startswith("clip_ratio/"))
        }
        losses, norm = [of_trl["loss"]], of_trl.get("grad_norm")
        names, saved = [self.rewards.sample_names], self.session.saved
        done = f"TRL has made the step; no state holds it, and the last one is of step {saved}."
        guards.check_step(step, losses, norm, names, settings.describe(), done=done)
        guards.check_weights(model, settings.describe())
        rounds = (step - 1) // settings.num_iterations + 1
        epoch = rounds * settings.samples_per_round() / self.epoch_size
        numbers = {**self.rewards.numbers, **of_trl, "epoch": epoch}
        self.session.stopwatch.lap(UPDATE)
        numbers |= self.session.watch(step, numbers)
        self.rewards.numbers = {}
        if control.should_save:
            self.saves = numbers
        else:
            self._log(step, numbers, evaluates=False)

    def _log(self, step: int, numbers: Mapping[str, float], *, evaluates: bool = True) -> None:
        """Log a step; after the first one, check that the metric of the best step is logged."""
        self.session.log(step, numbers, evaluates=evaluates)
        if step == self.session.done + 1:
            self.kept.check_metric()


def check_state(state: Path, network: Network) -> None:
    """Raise StoreError unless a state is undamaged and its weights fit this network.

    TRL itself would only warn of other weights, and end with an error of torch for a damaged file.
    """
    states.check_files(state)
    if hasattr(network, "merge_adapter"):
        from peft import get_peft_model_state_dict

        path = state / "adapter_model.safetensors"
        wanted = get_peft_model_state_dict(network, save_embedding_layers=False)
    else:
        path, wanted = state / "model.safetensors", network.state_dict()
    with raised_as(StoreError, f"state {path}", "tensors", OSError, SafetensorError):
        saved = load_file(path)
    states.check_tensors(path, wanted, saved)


def _own_tensors(network: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return all weights under the network's own names.

    Of tied weights all but the first are copies: safetensors refuses shared memory.
    """
    seen, tensors = set[int](), dict[str, torch.Tensor]()
    for name, tensor in network.state_dict().items():
        tensors[name] = tensor.clone() if tensor.data_ptr() in seen else tensor
        seen.add(tensor.data_ptr())
    return tensors
