"""Several workers that each hold the model: they share the batches, and dead ones are replaced.

A worker gets queries alone, neither the data root nor the targets. With `isolate` images are sent
decoded, so that a process without access to the data, or a machine without the files, predicts the
same. `processes` and `ray_workers` implement `Member` and `Pool`.
"""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

from harness.errors import HarnessError, ModelError
from harness.run.batching import Batch
from harness.run.decoded_batch import with_decoded_media
from harness.run.options import Options
from harness.run.predict import Outcome, begin, journalled_outcome, records
from harness.run.workers import WorkerInfo
from harness.spec import Spec
from harness.store.journal import Journal, JournalPosition, Writer, attempt_and_worker
from harness.types import FailureKind, failed_prediction

MAX_FIRST_WORKERS = 16
"""Most workers that start before the size of a batch is known."""
READY = "ready"  # message of a worker that has loaded its model
MAX_LOSSES = 2
"""Number of workers that may die on a batch that each of them held alone."""
MAX_FAILED_STARTS = 2
"""Number of replacements in a row that may die while they load the model."""


class WorkerNotScheduled(ModelError):
    """There is no machine for a worker."""


class WorkerStartFailed(ModelError):
    """A worker died while it loaded its model."""


@dataclass
class Member(ABC):
    """One worker, as the pool sees it."""

    batches: list[Batch] = field(default_factory=list)
    """Batches that it was given and has not finished; it works on the first."""
    greeted: bool = False
    """True once its greeting has been received; before, it gets no batch."""
    ready: bool = False
    """True once it has loaded the model; loading does not count towards the timeout."""
    since: float = 0.0
    """Time (`monotonic`) of its last message, or of the batch that ended an idle time."""

    @abstractmethod
    def send(self, batch: Batch) -> None:
        """Send a batch; nothing happens if the worker is dead."""

    @abstractmethod
    def receive(self) -> object:
        """Wait for the next message and return it.

        Messages are a WorkerInfo, then READY, then Outcomes; None if the worker is dead, and a
        HarnessError that ends the run.
        """

    @abstractmethod
    def kill(self) -> None:
        """End the worker at once."""

    @abstractmethod
    def close(self) -> None:
        """Let the worker finish its answered samples and end."""

    @abstractmethod
    def exit_reason(self) -> str:
        """Return how a dead worker ended, such as `exit code 1`."""


class Pool(ABC):
    """Several workers, each with the model that `spec` names.

    A worker that dies, or is silent for `timeout` seconds while it has work, is replaced. Its
    batches are tried again, each alone in a worker, to find the one that causes the end. After
    `MAX_LOSSES` workers died on a batch, its samples become failures of the infrastructure.

    The others work on while a replacement loads. If `MAX_FAILED_STARTS` replacements in a row die
    while they load, or there is no machine for one, the others go on alone. If there are no others,
    the run ends.
    """

    def __init__(
        self,
        spec: Spec,
        folder: Path,
        attempt: int,
        options: Options,
        *,
        samples: int | None = None,
    ) -> None:
        """Start the workers, at most one for each batch.

        Args:
            spec: The model.
            folder: The run's folder.
            attempt: Number of the attempt, for the journal.
            options: Settings of the run.
            samples: Number of samples of the run; None: start `options.workers`.

        Raises:
            ModelError: a model cannot be loaded, or workers have different models or devices.
        """
        self.spec, self.seed = spec, options.seed
        self.folder = folder
        self.isolate = options.isolate
        self.timeout = options.timeout
        self._attempt = attempt
        self._started = 0
        self._deaths: Counter[int] = Counter()
        """Number of workers that died while they held a batch, by the batch's index."""
        self._deaths_alone: Counter[int] = Counter()
        """Number of workers that died while they held this batch and no other, by its index."""
        self._suspects: set[int] = set()
        """Indices of batches that a worker held when it died."""
        self._failed_starts = 0
        """Number of replacements in a row that died while they loaded."""
        self._members: list[Member] = []
        try:
            # The first workers' greetings have the size of a batch.
            greetings = self._start_and_greet(min(options.workers, MAX_FIRST_WORKERS))
            size = options.batch_size or greetings[0].batch_size
            batches = options.workers if samples is None else math.ceil(samples / size)
            greetings += self._start_and_greet(min(options.workers, batches) - len(greetings))
        except BaseException:
            self.close()
            raise
        self.info: WorkerInfo = greetings[0]
        for greeting in greetings:
            if greeting != self.info:
                self.close()
                raise _model_mismatch(f"model {spec}", self.info, greeting)
        for member in self._members:
            member.greeted = True

    def _start_and_greet(self, count: int) -> list[WorkerInfo]:
        """Start `count` workers, which load at the same time; return their greetings."""
        started = [self._start_next() for _ in range(count)]
        return [self._greeting(member) for member in started]

    @abstractmethod
    def _start(self, index: int) -> Member:
        """Start a worker, which writes the journal's files of number `index`."""

    @abstractmethod
    def _wait_for_message(self, busy: Sequence[Member], seconds: float) -> list[Member]:
        """Return members with a message and dead ones, waiting up to `seconds` for the first."""

    def _start_next(self) -> Member:
        """Start a worker, and add it to the pool's members."""
        self._started += 1  # a replacement writes a journal file of its own
        member = self._start(self._started - 1)
        self._members.append(member)  # at once, so that `close` ends it after an error
        return member

    def _greeting(self, member: Member) -> WorkerInfo:
        message = self._receive_or_raise(member)
        if message is None:
            raise WorkerStartFailed(
                "a worker process",
                expected="to load the model",
                found=f"it ended with {member.exit_reason()}",
                fix="With less memory to share, try fewer --workers.",
            )
        assert isinstance(message, WorkerInfo), "a worker's first message is WorkerInfo"
        return message

    def run(self, batches: Iterable[Batch]) -> Iterator[Outcome]:
        """Give each worker the next batch when it is free, and yield the outcomes."""
        try:
            yield from self._share_out(batches)
        finally:
            # A replacement that loads has nothing to finish, and would be waited for.
            for member in [member for member in self._members if not member.greeted]:
                self._drop(member)

    def _share_out(self, batches: Iterable[Batch]) -> Iterator[Outcome]:
        """Hand batches to idle workers and yield outcomes; retry batches of dead workers."""
        stream = iter(batches)
        waiting: list[Batch] = []  # batches of dead workers, to be tried again
        may_have_more = True
        while may_have_more or waiting or any(member.batches for member in self._members):
            while (member := self._free()) is not None and (may_have_more or waiting):
                batch = waiting.pop() if waiting else next(stream, None)
                if batch is None:
                    may_have_more = False
                    break
                if batch.index in self._suspects and member.batches:
                    waiting.append(batch)  # until a worker has nothing else
                    break
                self._send(member, batch)
            readable = self._members_to_read()
            self._kill_silent(readable)
            for member in readable:
                if not member.greeted:
                    self._welcome(member)
                    continue
                outcome = self._receive_or_raise(member)
                member.since = monotonic()
                if outcome is None:
                    yield from self._replace(member, waiting)
                elif outcome == READY:
                    member.ready = True
                else:
                    member.batches = list(self._remaining_batches(member.batches, outcome))
                    yield outcome

    def _remaining_batches(self, batches: Sequence[Batch], outcome: Outcome) -> Iterator[Batch]:
        """Yield the batches of a worker that are unfinished after an outcome, or their rest."""
        for batch in batches:
            if batch.index != outcome.batch:
                yield batch
            elif not outcome.is_whole_batch:
                yield self._without(batch, outcome.samples)

    def _without(self, batch: Batch, finished: Collection[str]) -> Batch:
        """Return the part of a batch to predict after its samples `finished` are journalled.

        A model that does not answer by the sample gets the whole batch again, because an answer may
        depend on the others in the batch; journalled predictions stay.
        """
        if not self.info.by_sample:
            return replace(batch, kept=batch.kept.union(finished))
        return replace(batch, queries=tuple(q for q in batch.queries if q.id not in finished))

    def _free(self) -> Member | None:
        """Return the worker with the fewest batches that takes another; None if there is none."""
        trusted = [
            member
            for member in self._members
            if member.greeted and not any(batch.index in self._suspects for batch in member.batches)
        ]
        if not trusted:
            return None
        minimum = min(trusted, key=lambda member: len(member.batches))
        # A worker decodes one batch more than are in progress. An isolated worker has one batch,
        # because decoded images are large. With a timeout it has one too, because sending to a
        # worker that hangs would block.
        limit = 1 if self.isolate or self.timeout is not None else self.info.ahead + 1
        return minimum if len(minimum.batches) < limit else None

    def _send(self, member: Member, batch: Batch) -> None:
        # Decoded before `since` is set, because it is not the worker's time.
        message = with_decoded_media(batch) if self.isolate else batch
        if not member.batches:
            member.since = monotonic()
        member.batches.append(batch)
        member.send(message)

    def _members_to_read(self) -> list[Member]:
        """Return workers with a message and dead ones; wait up to 0.2 s for the first."""
        busy = [member for member in self._members if member.batches or not member.greeted]
        return self._wait_for_message(busy, 0.2)

    def _kill_silent(self, readable: Sequence[Member]) -> None:
        """Kill workers that have sent nothing for `timeout` seconds; `receive` finds them dead."""
        if self.timeout is None:
            return
        for member in self._members:
            works = member.ready and member.batches and member not in readable
            if works and monotonic() - member.since > self.timeout:
                member.kill()

    def _replace(self, member: Member, waiting: list[Batch]) -> Iterator[Outcome]:
        """Replace a dead worker, and put its batches into `waiting` or give them up."""
        journalled = self._journalled_samples() if member.batches else {}
        for lost_batch in member.batches:
            ids = [
                q.id
                for q in lost_batch.queries
                if q.id in journalled and q.id not in lost_batch.kept
            ]
            batch = self._without(lost_batch, ids)
            if ids:  # it died between the journal and the message
                unreported = {sample_id: journalled[sample_id] for sample_id in ids}
                yield journalled_outcome(batch.index, unreported, is_whole_batch=False)
            if all(q.id in batch.kept for q in batch.queries):
                continue
            self._deaths[batch.index] += 1
            if len(member.batches) == 1:
                self._deaths_alone[batch.index] += 1
            if self._deaths_alone[batch.index] < MAX_LOSSES:
                self._suspects.add(batch.index)
                waiting.append(batch)
            else:
                yield self._give_up(batch, member.exit_reason())
        self._members.remove(member)
        member.batches.clear()
        member.close()
        self._start_next()

    def _journalled_samples(self) -> dict[str, JournalPosition]:
        """Return where the journal has the samples that this attempt has predicted and not lost."""
        return {
            sample: position
            for sample, position in Journal(self.folder).places.items()
            if attempt_and_worker(position.path)[0] == self._attempt
            and position.failure != FailureKind.INFRASTRUCTURE
        }

    def _welcome(self, member: Member) -> None:
        """Receive a replacement's greeting, after which it takes work; drop one that failed."""
        try:
            greeting = self._greeting(member)
        except WorkerStartFailed:
            self._drop(member)
            self._failed_starts += 1
            if self._failed_starts < MAX_FAILED_STARTS:
                self._start_next()
            elif not self._members:
                raise
            return  # the others go on alone
        except WorkerNotScheduled:
            self._drop(member)
            if not self._members:
                raise
            return  # the others go on alone
        if greeting != self.info:
            raise _model_mismatch("a replaced worker", self.info, greeting)
        member.greeted = True
        self._failed_starts = 0

    def _give_up(self, batch: Batch, exit_reason: str) -> Outcome:
        """Journal a batch that no worker survives as failures of the infrastructure."""
        count = self._deaths[batch.index]
        message = f"{count} worker processes ended on this batch, the last with {exit_reason}"
        self._started += 1
        with Writer(self.folder, self._started - 1, self._attempt) as journal:
            predictions = [
                failed_prediction(query, FailureKind.INFRASTRUCTURE, message)
                for query in batch.queries
                if query.id not in batch.kept
            ]
            journal.append([begin(batch), *records(batch, predictions)])
        ids = tuple(prediction.query_id for prediction in predictions)
        # Counted as crashes, so that a model that always kills its worker ends the run.
        return Outcome(batch.index, ids, failed=len(ids), crashed=len(ids))

    def _drop(self, member: Member) -> None:
        """Take a worker out of the pool, and end it."""
        self._members.remove(member)
        _discard(member)

    def _receive_or_raise(self, member: Member) -> Any:
        """Return the next message, None if the worker is dead; raise one that is an error."""
        message = member.receive()
        if isinstance(message, HarnessError):
            raise message
        return message

    def close(self) -> None:
        """Let the workers finish their answered samples and end; an interrupt ends them at once."""
        members, self._members = self._members, []
        try:
            while members:
                members.pop(0).close()
        finally:
            for member in members:
                _discard(member)


def _model_mismatch(what: str, first: WorkerInfo, second: WorkerInfo) -> ModelError:
    """Return the error for workers with different greetings, which must not share a run."""
    if first.device != second.device:
        return ModelError(
            what,
            expected=f"the same device in every worker, here {first.device}",
            found=second.device,
            fix="Responses may differ between kinds of devices: give all workers the same kind.",
        )
    expected, actual = asdict(first), asdict(second)
    differing = ", ".join(name for name in expected if expected[name] != actual[name])
    return ModelError(
        what,
        expected="the same model in every worker",
        found=f"models that differ in {differing}",
    )


def _discard(member: Member) -> None:
    """End a worker at once, and drop the batches that it holds."""
    member.batches.clear()
    try:
        member.kill()
    finally:
        member.close()
