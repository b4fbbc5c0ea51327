"""What follows the steps of TRL's trainer (`trl_engine.py`): log, states, and where it stops.

A state is a checkpoint of TRL's, taken to where ours lie once it is whole.
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

LOGGED = (
    "loss",
    "grad_norm",
    "learning_rate",
    "entropy",
    "kl",
    "num_tokens",
    "cispo_clip_ratio",
)
"""Numbers of TRL's log for the curve, and all that begin with `clip_ratio/`; the others are ours,
or have a clock.
"""
PICKLED = "training_args.bin"
"""File of TRL's checkpoints that is a pickle, and that nothing reads."""


class Watch(TrainerCallback):  # type: ignore[misc]
    """Tells what follows a training of TRL's steps, and stops it."""

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
        """Numbers of the step whose state is written; None: none is."""

    @contextmanager
    def saving(self, folder: Path) -> Iterator[Path]:
        """Yield a folder for TRL's checkpoints until they are whole; a full disk is told as one."""
        shutil.rmtree(folder, ignore_errors=True)  # of a training that was killed
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
        """Catch up with the state that the training goes on from, whose weights are loaded now."""
        if self.session.state is not None:
            self.session.catch_up()
        self.kept.catch_up(self.session.done, self.export)

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Begin to measure a step: rollouts and rewards, if it has any, and its update."""
        self.session.stopwatch.take(0.0)

    def on_step_end(
        self, args: Any, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Have the state saved if it is time, or if the training stops: after a whole round."""
        step, settings = state.global_step, self.rewards.settings
        turns, stopping = settings.num_iterations, self.session.stopping()
        if step % turns and step < self.total:
            return
        due = step // settings.save_steps > (step - turns) // settings.save_steps
        if due or stopping or step == self.total or self.session.evaluates(step):
            control.should_save = True
        if stopping and step < self.total:
            self.is_cut = control.should_training_stop = True

    def on_save(
        self, args: Any, state: TrainerState, control: TrainerControl, model: Any = None, **_: Any
    ) -> None:
        """Take a checkpoint of TRL's to where states lie; then log the step, which may take long.

        Whole weights are written anew by their names in the network: by those of a published
        checkpoint, which transformers gives them, it does not find them when it goes on.
        """
        step = state.global_step
        written = Path(args.output_dir) / f"checkpoint-{step}"
        (written / PICKLED).unlink(missing_ok=True)
        if self.rewards.settings.finetune == "full":
            for path in written.glob("model*.safetensors*"):
                path.unlink()
            states.save_tensors(written / "model.safetensors", _own_tensors(model))
        numbers = self.saves or {}
        with states.saved_state(self.session.run.state, step, keep=self.kept.kept) as folder:
            for path in written.iterdir():
                path.rename(folder / path.name)
            self.session.leave(folder, numbers)
        self.session.saved, self.saves = step, None
        if not (self.is_cut and self.session.evaluates(step)):  # it follows on resuming
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
        if not logs or "loss" not in logs:  # the times of the whole training
            return
        settings, step = self.rewards.settings, state.global_step
        known = {
            name: float(value)
            for name, value in logs.items()
            if value is not None and (name in LOGGED or name.startswith("clip_ratio/"))
        }
        losses, norm = [known["loss"]], known.get("grad_norm")
        names, saved = [self.rewards.sample_names], self.session.saved
        done = f"TRL has made the step; no state holds it, and the last one is of step {saved}."
        guards.check_step(step, losses, norm, names, settings.describe(), done=done)
        guards.check_weights(model, settings.describe())
        rounds = (step - 1) // settings.num_iterations + 1
        epoch = rounds * settings.samples_per_round() / self.epoch_size
        numbers = {**self.rewards.numbers, **known, "epoch": epoch}
        self.session.stopwatch.lap(UPDATE)
        numbers |= self.session.watch(step, numbers)
        self.rewards.numbers = {}
        if control.should_save:
            self.saves = numbers
        else:
            self._log(step, numbers, evaluates=False)

    def _log(self, step: int, numbers: Mapping[str, float], *, evaluates: bool = True) -> None:
        self.session.log(step, numbers, evaluates=evaluates)
        if step == self.session.done + 1:
            self.kept.check_metric()


def check_state(state: Path, network: Network) -> None:
    """Raise StoreError unless a state is as it was saved, and its weights are of this network.

    TRL goes on from other weights with a warning, and from a damaged file with an error of torch.
    """
    states.check_files(state)
    if hasattr(network, "merge_adapter"):
        from peft import get_peft_model_state_dict

        path = state / "adapter_model.safetensors"
        wanted = get_peft_model_state_dict(network, save_embedding_layers=False)
    else:
        path, wanted = state / "model.safetensors", network.state_dict()
    with raised_as(StoreError, f"state {path}", "tensors", OSError, SafetensorError):
        found = load_file(path)
    states.check_tensors(path, wanted, found)


def _own_tensors(network: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return all weights under the network's own names; of tied ones all but one are copies."""
    seen, tensors = set[int](), dict[str, torch.Tensor]()
    for name, tensor in network.state_dict().items():
        tensors[name] = tensor.clone() if tensor.data_ptr() in seen else tensor
        seen.add(tensor.data_ptr())
    return tensors
