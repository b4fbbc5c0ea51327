"""A training from top to bottom: samples → round → `loss` → step → state.

`train` is the whole loop, of fine-tuning and of GRPO. A `Learner` has the network and its
optimiser; what a round is, and what a step makes smaller, its kinds say. Test-time methods have a
lighter loop: `harness.models.test_time`.
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
"""Files of a state, and the name of what DeepSpeed saves instead."""

T = TypeVar("T")
R = TypeVar("R")
ExampleT = TypeVar("ExampleT")
ReadyT = TypeVar("ReadyT")
BatchT = TypeVar("BatchT")
Counted: TypeAlias = Mapping[str, tuple[Tensor, Tensor]]
"""For the log, by name: numbers of tokens, and 1 for each token that counts in their mean."""


def train(
    learner: "Learner[ExampleT, ReadyT, BatchT]", examples: Sequence[ExampleT], session: Session
) -> dict[str, object]:
    """Train to the end, from the session's state or from the beginning; write the checkpoint.

    Returns:
        Facts for the manifest: steps and epochs.

    Raises:
        KeyboardInterrupt: the run was asked to stop; the state after its round is saved.
        AlarmStop: an alarm wants it; likewise.
    """
    run, chosen, done = session.run, learner.settings, session.done
    learner.run, learner.stopwatch = run, session.stopwatch
    processes, turns = learner.accelerator.num_processes, chosen.steps_per_round
    size, total = chosen.samples_per_round(processes), chosen.steps(len(examples), processes)
    if session.state is not None:
        session.check_state()
        learner.load(session.state)
    rate, kept = learning_rates(chosen, total), KeptCheckpoints(run, chosen)
    run.progress.start("training", total, done)
    if session.state is not None:
        session.catch_up()
    kept.catch_up(done, learner.export)
    learner.resumed(run.curve.read() if run.main else [])
    rounds = range(math.ceil(done / turns), math.ceil(total / turns))
    coming = learner.drawn(examples, rounds, size)
    for number in rounds:
        first, end = number * turns, min(total, (number + 1) * turns)
        with _saved_if_it_fails(learner, session, first):
            with learner.interruptible():
                batch = learner.round(next(coming), number)
            for step in range(first, end):
                numbers = batch.numbers if step == first else {}
                with session.stopwatch.part(UPDATE):
                    numbers |= learner.update(batch, rate(step), step + 1)
                numbers["epoch"] = learner.shown((number + 1) * size) / len(examples)
                numbers |= session.watch(step + 1, numbers)
                if step + 1 < end:
                    session.log(step + 1, numbers, evaluates=False)
        # A state is of the end of a round, whose rollouts need not be kept in it.
        stopping = session.stopping()
        due = end == total or end // chosen.save_steps > first // chosen.save_steps
        saving = stopping or due or session.evaluates(end)
        if saving:
            learner.save_state(session, end, numbers)
        is_cut = stopping and end < total
        if not (is_cut and session.evaluates(end)):  # that may take long; it follows on resuming
            session.log(end, numbers)
            if number == rounds.start:
                kept.check_metric()
            if saving:
                kept.add(end, learner.export)
        if is_cut:
            session.stop()
    run.progress.end()
    facts = {"steps": total, "epochs": learner.shown(rounds.stop * size) / len(examples)}
    return {**facts, **kept.finish(learner.export)}


@contextmanager
def _saved_if_it_fails(
    learner: "Learner[ExampleT, ReadyT, BatchT]", session: Session, done: int
) -> Iterator[None]:
    """Save the state after `done` steps if the block, which follows it, fails before an update.

    The first process writes it alone, and those that fail too wait for it; the others may not have
    failed, or be gone. With DeepSpeed, whose states are of all processes, nothing is written.
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
    """Yield samples without end, each once an epoch, in an order of seed and epoch alone.

    So a state holds no order, and no sample is left out because it does not fill a round.
    """
    for epoch in count():
        key = np.array([seed % 2**64, epoch], dtype=np.uint64)
        yield from np.random.Generator(np.random.Philox(key=key)).permutation(samples).tolist()


def one_ahead(function: Callable[[T], R], several: Iterable[T]) -> Iterator[R]:
    """Yield `function` of each, called in a thread while the one before it is used."""
    coming = deque[Future[R]]()
    with ThreadPoolExecutor(1) as pool:
        for one in several:
            coming.append(pool.submit(function, one))
            if len(coming) > 1:
                yield coming.popleft().result()
        yield from (one.result() for one in coming)


def learning_rates(settings: TrainingSettings, total: int) -> Callable[[int], float]:
    """Return the learning rate of the step after so many others: transformers' schedule."""
    from transformers import get_scheduler

    stand_in = torch.optim.SGD([torch.zeros(1)], lr=1.0)  # a state then holds no schedule
    course = get_scheduler(settings.lr_scheduler_type, stand_in, settings.warmup_steps, total)
    return lambda step: settings.peak_learning_rate * course.lr_lambdas[0](step)


@dataclass(frozen=True, eq=False, kw_only=True)
class Round(Generic[BatchT]):
    """Batches of this process that one step, or several, learn from."""

    batches: Sequence[BatchT]
    tokens: float
    """Number of tokens that count in the loss, in all processes."""
    numbers: dict[str, float]
    """Numbers of the round for the log."""
    samples: Sequence[Sequence[str]] = ()
    """Names of each batch's samples, for errors."""


class Learner(ABC, Generic[ExampleT, ReadyT, BatchT]):
    """A network in training, with its optimiser and its states."""

    settings: TrainingSettings
    run: TrainingRun = TrainingRun(out=Path())
    """The training that it belongs to."""
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

        `seed` is that of the adapter and of all draws, `temperature` that of the probabilities that
        the loss sees.
        """
        self.chat, self.settings = chat, settings
        self.accelerator, self.seed = accelerator, seed
        self.changed = False
        """True if weights were changed in this round."""
        set_seed(seed % 2**32)  # an adapter begins with random numbers
        self.network = load_policy(chat, settings, lora_dropout=lora_dropout)
        self.policy, self.optimizer = accelerator.prepare(
            Policy(self.network, temperature),
            torch.optim.AdamW(decayed(self.network, settings.weight_decay), lr=0.0),
        )
        self.policy.train()  # or no activations are computed twice, and nothing is dropped

    def drawn(self, examples: Sequence[ExampleT], rounds: range, size: int) -> Iterator[ReadyT]:
        """Yield this process's part of each round, of `size` samples in all, encoded one ahead."""
        order = islice(sample_order(self.run.seed, len(examples)), rounds.start * size, None)
        drawn = (self.share([examples[row] for row in islice(order, size)]) for _ in rounds)
        return one_ahead(self.prepare, drawn)

    def shown(self, samples: int) -> int:
        """Return how many samples the rounds so far have passed, of which so many were learned."""
        return samples

    @abstractmethod
    def prepare(self, examples: Sequence[ExampleT]) -> ReadyT:
        """Return this process's part of a round, encoded: in a thread, while another is learned."""

    @abstractmethod
    def round(self, ready: ReadyT, number: int) -> Round[BatchT]:
        """Make what the steps of a round learn from."""

    @abstractmethod
    def loss(self, batch: BatchT, tokens: float) -> tuple[Tensor, Counted]:
        """Return the loss of a batch, and numbers of its tokens for the log.

        `tokens` are those of a step, as many as come to one batch: losses of the batches of a
        step, and of all processes, are averaged.
        """

    def resumed(self, rows: Sequence[Mapping[str, float]]) -> None:
        """Go on from what was logged so far: the rows of the curve, in the first process."""
        del rows

    def share(self, examples: Sequence[ExampleT]) -> Sequence[ExampleT]:
        """Return this process's part of a round."""
        own, rank = len(examples) // self.accelerator.num_processes, self.accelerator.process_index
        return examples[rank * own : (rank + 1) * own]

    def begin_round(self) -> None:
        """Note what a state before the round holds; called before its samples are drawn."""
        self.changed = False

    def seed_round(self, number: int) -> None:
        """Begin the generators anew: seed and number of a round decide every draw in it."""
        drawn = np.random.SeedSequence([self.seed % 2**64, number]).generate_state(1)
        set_seed(int(drawn[0]) >> 1, device_specific=True)

    def interruptible(self) -> AbstractContextManager[None]:
        """Make a block that a signal ends at once, if the state before it can still be saved."""
        spread = zero_stage(self.accelerator)  # states of all processes are needed then
        return nullcontext() if self.changed or spread else self.run.interruptible()

    def update(self, batch: Round[BatchT], learning_rate: float, step: int = 1) -> dict[str, float]:
        """Make an optimiser step, the `step`th, on a round; returns what is logged of it.

        Raises:
            UnstableTraining: the loss or the gradient is not finite; no weight has changed.
        """
        accelerator, parts = self.accelerator, len(batch.batches)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        tokens = batch.tokens / accelerator.num_processes / parts
        sums, norm, names = torch.zeros(1, device=accelerator.device), None, list[str]()
        losses = list[float]()
        for one in batch.batches:
            with accelerator.accumulate(self.policy):
                with self.interruptible():
                    loss, counted = self.loss(one, tokens)
                    losses.append(float(loss.detach()))
                    if zero_stage(accelerator):  # which makes the step in `backward`
                        self._check_step(step, losses, None, batch)
                        self.changed |= accelerator.sync_gradients
                    accelerator.backward(loss)
                    if accelerator.sync_gradients:
                        limit = self.settings.max_grad_norm or math.inf
                        norm = accelerator.clip_grad_norm_(self.policy.parameters(), limit)
                        self._check_step(step, losses, norm, batch)
                self.changed |= accelerator.sync_gradients
                self.optimizer.step()
                self.optimizer.zero_grad()
            names = list(counted)
            with torch.no_grad():
                pairs = ((one * counts, counts) for one, counts in counted.values())
                totals = [loss / parts, *(one.sum() for pair in pairs for one in pair)]
                sums = sums + torch.stack(totals)
        loss_sum, *rest = accelerator.reduce(sums, reduction="sum").tolist()
        numbers = {"loss": loss_sum / accelerator.num_processes, "learning_rate": learning_rate}
        if norm is not None:  # DeepSpeed has clipped by itself, and does not always say it
            numbers["grad_norm"] = float(norm)
        means = zip(names, rest[::2], rest[1::2], strict=True)
        return numbers | {name: total / number for name, total, number in means if number}

    def _check_step(
        self, step: int, losses: Sequence[float], norm: object, batch: Round[BatchT]
    ) -> None:
        """Raise UnstableTraining, in every process, if one of them must not make the step."""
        known = None if norm is None else float(norm)  # type: ignore[arg-type]
        fault: UnstableTraining | None = None
        try:
            guards.check_step(step, losses, known, batch.samples, self.settings.describe())
        except UnstableTraining as error:
            fault = error
        faults = [one for one in gather([fault]) if one is not None]
        if faults:
            self.optimizer.zero_grad()
            raise max(faults, key=lambda one: "a loss" in str(one))  # it names the samples

    def check_weights(self, *, together: bool) -> None:
        """Raise UnstableTraining, in every process, if a trained weight is not finite.

        Without `together` only the process that calls it looks at its own, which are all.
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
        """Write the state after a step, with the numbers that are yet to be logged of it.

        Args:
            session: Knows the folder.
            step: Steps that are done.
            numbers: Numbers of the last step; None: they are logged.
            together: Whether all processes call this; else the first one does alone.

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
                session.leave(folder, numbers)
        session.saved = step

    def save(self, folder: Path) -> None:
        """Write a state; called in every process."""
        if zero_stage(self.accelerator):
            self.policy.save_checkpoint(str(folder), tag=ENGINE)
        elif self.accelerator.is_main_process:
            states.save_tensors(folder / WEIGHTS, states.trained_tensors(self.network))
            states.save_optimizers(folder / OPTIMIZER, [self.optimizer])

    def load(self, folder: Path) -> None:
        """Go on from a state."""
        if zero_stage(self.accelerator):
            self.policy.load_checkpoint(str(folder), tag=ENGINE)
        else:
            states.load_tensors(folder / WEIGHTS, self.network)
            states.load_optimizers(folder / OPTIMIZER, [self.optimizer])

    def export(self, folder: Path) -> None:
        """Write the network as it is now; called in every process."""
        tensors = None
        if zero_stage(self.accelerator) == 3:  # otherwise each process holds all weights
            whole = self.accelerator.get_state_dict(self.policy)
            tensors = {name.removeprefix("network."): one for name, one in (whole or {}).items()}
        if self.accelerator.is_main_process:
            networks.export(self.network, self.chat.folder, folder, tensors=tensors)
        self.accelerator.wait_for_everyone()
