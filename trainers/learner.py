"""The training loop, `train`: samples → round → loss → optimiser step → state → checkpoint.

Supervised fine-tuning and GRPO share it. A `Learner` has the network and its optimiser; its classes
`SftLearner` and `GrpoLearner` make the rounds and their loss. Test-time methods have a lighter loop
(`harness.models.test_time`).
"""

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import Tensor

from harness.errors import HarnessError
from harness.models.backends.transformers import TransformersChat
from harness.models.learning.weights import decayed
from harness.trainer import TrainingRun
from harness.trainers import guards
from harness.trainers import network as networks
from harness.trainers import state as states
from harness.trainers.checkpoints import KeptCheckpoints
from harness.trainers.guards import UnstableTraining
from harness.trainers.policy import Policy, load_policy, zero_stage
from harness.trainers.session import Session, gather, raise_together
from harness.trainers.settings import TrainingSettings
from harness.trainers.stopwatch import UPDATE, Stopwatch

WEIGHTS, OPTIMIZER, ENGINE = "trained.safetensors", "optimizer.pt", "engine"
"""Files of a state; and the tag of DeepSpeed's own files, which replace both."""

T = TypeVar("T")
R = TypeVar("R")
ExampleT = TypeVar("ExampleT")
ReadyT = TypeVar("ReadyT")
BatchT = TypeVar("BatchT")
Counted: TypeAlias = Mapping[str, tuple[Tensor, Tensor]]
"""By name in the log: (numbers, 1 for each number that counts in their mean), two equal shapes."""


def train(
    learner: "Learner[ExampleT, ReadyT, BatchT]", examples: Sequence[ExampleT], session: Session
) -> dict[str, object]:
    """Train to the end, from the session's state or from the beginning; write the checkpoint.

    Returns:
        Facts for the manifest: steps, epochs, and those of the checkpoint.

    Raises:
        KeyboardInterrupt: the run was asked to stop; the state after its round is saved.
        AlarmStop: an alarm stopped it (`alarms=stop`); the state after its round is saved.
    """
    run, settings, done = session.run, learner.settings, session.done
    learner.run, learner.stopwatch = run, session.stopwatch
    processes, per_round = learner.accelerator.num_processes, settings.steps_per_round
    size, total = settings.samples_per_round(processes), settings.steps(len(examples), processes)
    if session.state is not None:
        session.check_state()
        learner.load(session.state)
    rate, kept = learning_rates(settings, total), KeptCheckpoints(run, settings)
    run.progress.start("training", total, done)
    if session.state is not None:
        session.catch_up()
    kept.catch_up(done, learner.export)
    learner.resumed(run.curve.read() if run.main else [])
    rounds = range(math.ceil(done / per_round), math.ceil(total / per_round))
    ready = learner.prepared(examples, rounds, size)
    for number in rounds:
        first, end = number * per_round, min(total, (number + 1) * per_round)
        with _saved_if_it_fails(learner, session, first):
            with learner.interruptible():
                round_ = learner.round(next(ready), number)
            for step in range(first, end):
                numbers = round_.numbers if step == first else {}
                with session.stopwatch.part(UPDATE):
                    numbers |= learner.update(round_, rate(step), step + 1)
                numbers["epoch"] = learner.samples_drawn((number + 1) * size) / len(examples)
                numbers |= session.watch(step + 1, numbers)
                if step + 1 < end:
                    session.log(step + 1, numbers, evaluates=False)
        # States are saved only at the end of a round: so they need no rollouts.
        stopping = session.stopping()
        due = end == total or end // settings.save_steps > first // settings.save_steps
        saving = stopping or due or session.evaluates(end)
        if saving:
            learner.save_state(session, end, numbers)
        is_cut = stopping and end < total
        # An evaluation takes long: a training that stops leaves it to the resumed one.
        if not (is_cut and session.evaluates(end)):
            session.log(end, numbers)
            if number == rounds.start:
                kept.check_metric()
            if saving:
                kept.add(end, learner.export)
        if is_cut:
            session.stop()
    run.progress.end()
    epochs = learner.samples_drawn(rounds.stop * size) / len(examples)
    return {"steps": total, "epochs": epochs, **kept.finish(learner.export)}


@contextmanager
def _saved_if_it_fails(
    learner: "Learner[ExampleT, ReadyT, BatchT]", session: Session, done: int
) -> Iterator[None]:
    """Save the state after `done` steps if the block fails before it has updated a weight.

    The first process writes it alone: others may not have failed, or have ended. Those that failed,
    too, wait for it. With DeepSpeed nothing is written: its states need all processes.
    """
    learner.begin_round()
    try:
        yield
    except BaseException as error:
        note = session.run.progress.note
        if not learner.changed and done > session.saved and not zero_stage(learner.accelerator):
            try:
                if session.run.main:
                    learner.save_state(session, done, None, together=False)
                else:
                    states.await_state(session.run.state, done)
            except HarnessError as second:
                note(f"the state after step {done} was not saved: {second}")
        if isinstance(error, KeyboardInterrupt) or session.run.stopping():
            raise KeyboardInterrupt from error
        if session.saved:
            note(f"the state after step {session.saved} is saved; the same command resumes it")
        raise


def sample_order(seed: int, samples: int) -> Iterator[int]:
    """Yield indices of samples without end: a permutation for each epoch, by seed and epoch alone.

    So a state need not hold the order, and a round may reach into the next epoch.
    """
    for epoch in count():
        key = np.array([seed % 2**64, epoch], dtype=np.uint64)
        yield from np.random.Generator(np.random.Philox(key=key)).permutation(samples).tolist()


def one_ahead(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yield `function(item)` in order; a thread computes the next one while the last is used."""
    pending = deque[Future[R]]()
    with ThreadPoolExecutor(1) as pool:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > 1:
                yield pending.popleft().result()
        yield from (future.result() for future in pending)


def learning_rates(settings: TrainingSettings, total: int) -> Callable[[int], float]:
    """Return the learning rate as a function of steps done (of `total`): transformers' schedule."""
    from transformers import get_scheduler

    # The schedule wants an optimiser; with a dummy one, a state need not hold the schedule.
    stand_in = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    schedule = get_scheduler(settings.lr_scheduler_type, stand_in, settings.warmup_steps, total)
    return lambda step: settings.peak_learning_rate * schedule.lr_lambdas[0](step)


@dataclass(frozen=True, eq=False, kw_only=True)
class Round(Generic[BatchT]):
    """Batches of this process that `steps_per_round` optimiser steps learn from."""

    batches: Sequence[BatchT]
    tokens: float
    """Number of tokens that count in the loss, in all processes."""
    numbers: dict[str, float]
    """Numbers for the log of the round's first step."""
    samples: Sequence[Sequence[str]] = ()
    """Names of each batch's samples, for errors."""


class Learner(ABC, Generic[ExampleT, ReadyT, BatchT]):
    """A network in training, with its optimiser and its states."""

    settings: TrainingSettings
    run: TrainingRun = TrainingRun(out=Path())
    """The training that it belongs to; `train` sets it, and the stopwatch."""
    stopwatch: Stopwatch = Stopwatch()

    def __init__(
        self,
        chat: TransformersChat,
        settings: TrainingSettings,
        accelerator: Accelerator,
        *,
        seed: int,
        temperature: float = 1.0,
        lora_dropout: float = 0.0,
    ) -> None:
        """Load the network of a backend.

        `seed` decides the adapter's first weights and all draws; `temperature` is that of the loss.
        """
        self.chat, self.settings = chat, settings
        self.accelerator, self.seed = accelerator, seed
        self.changed = False
        """True if weights were changed in this round."""
        set_seed(seed % 2**32)  # for an adapter's random initial weights
        self.network = load_policy(chat, settings, lora_dropout=lora_dropout)
        self.policy, self.optimizer = accelerator.prepare(
            Policy(self.network, temperature),
            torch.optim.AdamW(decayed(self.network, settings.weight_decay), lr=0.0),
        )
        self.policy.train()  # enables gradient checkpointing and dropout

    def prepared(self, examples: Sequence[ExampleT], rounds: range, size: int) -> Iterator[ReadyT]:
        """Yield this process's share of each round of `size` samples, prepared one round ahead."""
        order = islice(sample_order(self.run.seed, len(examples)), rounds.start * size, None)
        shares = (self.share([examples[row] for row in islice(order, size)]) for _ in rounds)
        return one_ahead(self.prepare, shares)

    def samples_drawn(self, learned: int) -> int:
        """Return the number of samples drawn so far; `learned` of them were learned from."""
        return learned

    @abstractmethod
    def prepare(self, examples: Sequence[ExampleT]) -> ReadyT:
        """Encode this process's share of a round; called in a thread, one round ahead."""

    @abstractmethod
    def round(self, ready: ReadyT, number: int) -> Round[BatchT]:
        """Return the batches of round `number` (from 0), made of what `prepare` returned."""

    @abstractmethod
    def loss(self, batch: BatchT, tokens: float) -> tuple[Tensor, Counted]:
        """Return the loss of a batch, and numbers of its tokens for the log.

        `tokens` is the step's number of tokens divided by the number of its batches in all
        processes, since the losses of these are averaged.
        """

    def resumed(self, rows: Sequence[Mapping[str, float]]) -> None:
        """Restore counts from the rows of the curve, which only the first process has."""
        del rows

    def share(self, examples: Sequence[ExampleT]) -> Sequence[ExampleT]:
        """Return this process's share of a round's examples."""
        size = len(examples) // self.accelerator.num_processes
        rank = self.accelerator.process_index
        return examples[rank * size : (rank + 1) * size]

    def begin_round(self) -> None:
        """Note what a state before the round holds; called before its samples are drawn."""
        self.changed = False

    def seed_round(self, number: int) -> None:
        """Seed all random generators from the training's seed and the number of the round."""
        drawn = np.random.SeedSequence([self.seed % 2**64, number]).generate_state(1)
        set_seed(int(drawn[0]) >> 1, device_specific=True)

    def interruptible(self) -> AbstractContextManager[None]:
        """Return a block that a signal ends at once, if the state before it can still be saved."""
        needs_all = zero_stage(self.accelerator)  # DeepSpeed's states need all processes
        return nullcontext() if self.changed or needs_all else self.run.interruptible()

    def update(
        self, round_: Round[BatchT], learning_rate: float, step: int = 1
    ) -> dict[str, float]:
        """Make an optimiser step, number `step` from 1, on a round; return its numbers to log.

        Raises:
            UnstableTraining: the loss or the gradient is not finite; no weight has changed.
        """
        accelerator, parts = self.accelerator, len(round_.batches)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        tokens = round_.tokens / accelerator.num_processes / parts
        sums, norm, names = torch.zeros(1, device=accelerator.device), None, list[str]()
        losses = list[float]()
        for batch in round_.batches:
            with accelerator.accumulate(self.policy):
                with self.interruptible():
                    loss, counted = self.loss(batch, tokens)
                    losses.append(float(loss.detach()))
                    if zero_stage(accelerator):  # DeepSpeed makes the step in `backward`
                        self._check_step(step, losses, None, round_)
                        self.changed |= accelerator.sync_gradients
                    accelerator.backward(loss)
                    if accelerator.sync_gradients:
                        limit = self.settings.max_grad_norm or math.inf
                        norm = accelerator.clip_grad_norm_(self.policy.parameters(), limit)
                        self._check_step(step, losses, norm, round_)
                self.changed |= accelerator.sync_gradients
                self.optimizer.step()
                self.optimizer.zero_grad()
            names = list(counted)
            with torch.no_grad():
                totals = [loss / parts]  # then a sum and a count for each name
                for values, weights in counted.values():
                    totals += [(values * weights).sum(), weights.sum()]
                sums = sums + torch.stack(totals)
        loss_sum, *pairs = accelerator.reduce(sums, reduction="sum").tolist()
        numbers = {"loss": loss_sum / accelerator.num_processes, "learning_rate": learning_rate}
        if norm is not None:  # DeepSpeed clips by itself, and does not always report the norm
            numbers["grad_norm"] = float(norm)
        means = zip(names, pairs[::2], pairs[1::2], strict=True)
        return numbers | {name: total / number for name, total, number in means if number}

    def _check_step(
        self, step: int, losses: Sequence[float], norm: object, round_: Round[BatchT]
    ) -> None:
        """Raise UnstableTraining, in every process, if a loss or gradient of one is not finite."""
        size = None if norm is None else float(norm)  # type: ignore[arg-type]
        fault: UnstableTraining | None = None
        try:
            guards.check_step(step, losses, size, round_.samples, self.settings.describe())
        except UnstableTraining as error:
            fault = error
        faults = [fault for fault in gather([fault]) if fault is not None]
        if faults:
            self.optimizer.zero_grad()
            # An error about a loss names the samples: it is preferred.
            raise max(faults, key=lambda fault: "a loss" in str(fault))

    def check_weights(self, *, together: bool) -> None:
        """Raise UnstableTraining, in every process, if a trained weight is not finite.

        Without `together` only the calling process checks, and raises; it then holds all weights.
        """
        fault: UnstableTraining | None = None
        try:
            rank = self.accelerator.process_index
            guards.check_weights(self.network, self.settings.describe(), rank=rank)
        except UnstableTraining as error:
            if not together:
                raise
            fault = error
        if together:
            raise_together(fault)

    # -- states -----------------------------------------------------------------------------------

    def save_state(
        self,
        session: Session,
        step: int,
        numbers: Mapping[str, float] | None,
        *,
        together: bool = True,
    ) -> None:
        """Write the state after a step.

        Args:
            session: The training, whose folder the state goes to.
            step: Number of steps that are done.
            numbers: Numbers of the last step, which are logged after this; None: already logged.
            together: True if all processes call this; else the first one does alone.

        Raises:
            UnstableTraining: a weight is not finite.
            StoreError: the disk is full; the older state is still there.
        """
        self.check_weights(together=together)
        wait = self.accelerator.wait_for_everyone if together else lambda: None
        kept = KeptCheckpoints(session.run, self.settings)
        with states.saved_state(
            session.run.state, step, main=session.run.main, wait=wait, keep=kept.kept
        ) as folder:
            self.save(folder)
            if session.run.main and numbers is not None:
                session.save_numbers(folder, numbers)
        session.saved = step

    def save(self, folder: Path) -> None:
        """Write a state; called in every process."""
        if zero_stage(self.accelerator):
            self.policy.save_checkpoint(str(folder), tag=ENGINE)
        elif self.accelerator.is_main_process:
            states.save_tensors(folder / WEIGHTS, states.trained_tensors(self.network))
            states.save_optimizers(folder / OPTIMIZER, [self.optimizer])

    def load(self, folder: Path) -> None:
        """Restore a state that `save` wrote."""
        if zero_stage(self.accelerator):
            self.policy.load_checkpoint(str(folder), tag=ENGINE)
        else:
            states.load_tensors(folder / WEIGHTS, self.network)
            states.load_optimizers(folder / OPTIMIZER, [self.optimizer])

    def export(self, folder: Path) -> None:
        """Write the current network as a checkpoint; called in every process."""
        tensors = None
        if zero_stage(self.accelerator) == 3:  # otherwise each process holds all weights
            gathered = self.accelerator.get_state_dict(self.policy) or {}  # only in the first one
            tensors = {name.removeprefix("network."): gathered[name] for name in gathered}
        if self.accelerator.is_main_process:
            networks.export(self.network, self.chat.folder, folder, tensors=tensors)
        self.accelerator.wait_for_everyone()
