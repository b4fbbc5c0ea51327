"""Several workers that each hold the model: they share the batches, and dead ones are replaced.

A worker gets queries and nothing else: neither the data root nor the targets. With `isolate`
it is not even given handles to files: images arrive decoded, so that a process which may not
read the data root, or a machine which does not have it, predicts the same.
"""

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
from harness.store.journal import Journal, JournalPosition, Writer, number
from harness.types import FailureKind, failed_prediction

FIRST = 16  # workers that begin before the size of a batch is known
READY = "ready"  # what a worker says once its model is loaded
TRIES = 2  # workers that one batch may cost while it is all that they hold; or one place in a row


class WorkerNotScheduled(ModelError):
    """There is no machine for a worker."""


class WorkerStartFailed(ModelError):
    """A worker died while it loaded its model."""


@dataclass
class Member(ABC):
    """One worker, as the pool sees it."""

    batches: list[Batch] = field(default_factory=list)
    """Batches that it was given and has not finished; the first one is in work."""
    greeted: bool = False
    """True once its greeting has been received; before that it is given no batch."""
    ready: bool = False
    """True once it has loaded the model; loading does not count towards the timeout."""
    since: float = 0.0
    """Time (`monotonic`) of its last message, or of its first batch after having none."""

    @abstractmethod
    def send(self, batch: Batch) -> None:
        """Send a batch; nothing happens if the worker is dead."""

    @abstractmethod
    def receive(self) -> object:
        """Wait for the next message and return it: first a WorkerInfo, then READY, then an Outcome
        for each batch; None if the worker is dead, and a HarnessError if that ends the run.
        """

    @abstractmethod
    def kill(self) -> None:
        """End the worker at once."""

    @abstractmethod
    def close(self) -> None:
        """Let the worker end; it may finish what it has answered."""

    @abstractmethod
    def exit_reason(self) -> str:
        """Return how a dead worker ended, such as `exit code 1`."""


class Pool(ABC):
    """Several workers, each with the model that `spec` names.

    A worker that dies, or is silent for `timeout` seconds while it has work, is replaced. What it
    held is tried again, each batch alone with a worker, so that it is known which one to blame. A
    batch that costs `TRIES` workers then has samples that are failures of the infrastructure: it
    was requeued twice at most.

    The others work on while a replacement loads. One that dies meanwhile is replaced too; after
    `TRIES` of them in a row, or where there is no machine for one, the others go on alone, and if
    there are none the run ends.
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
        """Start the workers, of which no more are wanted than there are batches.

        Args:
            spec: The model.
            folder: The run's folder.
            attempt: Number of the attempt, for the journal.
            options: Settings of the run.
            samples: Number of samples of the run; None: as many workers as the options say.
        """
        self.spec, self.seed = spec, options.seed
        self.folder = folder
        self.isolate = options.isolate
        self.timeout = options.timeout
        self._attempt = attempt
        self._started = 0
        self._ended: Counter[int] = Counter()
        """Workers that ended while they held a batch, by its index."""
        self._losses: Counter[int] = Counter()
        """Workers that ended while they held one batch alone, by its index."""
        self._suspects: set[int] = set()
        """Batches that a worker held when it died."""
        self._unready = 0
        """Replacements that died while they loaded, since one of them greeted."""
        self._members: list[Member] = []
        try:
            # The first ones tell the size of a batch.
            greetings = self._begin(min(options.workers, FIRST))
            size = options.batch_size or greetings[0].batch_size
            batches = options.workers if samples is None else -(-samples // size)
            greetings += self._begin(min(options.workers, batches) - len(greetings))
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

    def _begin(self, count: int) -> list[WorkerInfo]:
        """Start some workers, which load at the same time; return their greetings."""
        begun = []
        for _ in range(count):
            begun.append(self._next())
            self._members.append(begun[-1])  # one by one: those that began are closed
        return [self._greeting(member) for member in begun]

    @abstractmethod
    def _start(self, index: int) -> Member:
        """Start a worker, which writes the journal's files of number `index`."""

    @abstractmethod
    def _wait_ready(self, busy: Sequence[Member], seconds: float) -> list[Member]:
        """Return members with a message and dead ones, waiting up to `seconds` for the first."""

    def _next(self) -> Member:
        self._started += 1  # a replacement writes a journal file of its own
        return self._start(self._started - 1)

    def _greeting(self, member: Member) -> WorkerInfo:
        message = self._receive(member)
        if message is None:
            raise WorkerStartFailed(
                "a worker process",
                expected="to load the model",
                found=f"it ended with {member.exit_reason()}",
                fix="With less memory to share, try fewer --workers.",
            )
        assert isinstance(message, WorkerInfo), "the first message of a worker is its greeting"
        return message

    def run(self, batches: Iterable[Batch]) -> Iterator[Outcome]:
        """Give each worker the next batch as it becomes free."""
        try:
            yield from self._run(batches)
        finally:
            # A replacement that loads has nothing to finish, and would be waited for.
            for member in [member for member in self._members if not member.greeted]:
                self._members.remove(member)
                _discard(member)
        self.close()

    def _run(self, batches: Iterable[Batch]) -> Iterator[Outcome]:
        stream = iter(batches)
        waiting: list[Batch] = []  # lost by a worker, to be tried again
        more = True
        while more or waiting or any(member.batches for member in self._members):
            while (member := self._free()) is not None and (more or waiting):
                batch = waiting.pop() if waiting else next(stream, None)
                if batch is None:
                    more = False
                    break
                if batch.index in self._suspects and member.batches:
                    waiting.append(batch)  # until a worker has nothing else
                    break
                self._send(member, batch)
            for member in self._ready_members():
                if not member.greeted:
                    self._welcome(member)
                    continue
                outcome = self._receive(member)
                member.since = monotonic()
                if outcome is None:
                    yield from self._replace(member, waiting)
                elif outcome == READY:
                    member.ready = True
                else:
                    member.batches = list(self._remaining_batches(member.batches, outcome))
                    yield outcome

    def _remaining_batches(self, held: Sequence[Batch], outcome: Outcome) -> Iterator[Batch]:
        """Yield the batches, or the parts of them, that a worker has left after an outcome."""
        for batch in held:
            if batch.index != outcome.batch:
                yield batch
            elif not outcome.whole:
                yield self._without(batch, outcome.samples)

    def _without(self, batch: Batch, finished: Collection[str]) -> Batch:
        """Return what is left of a batch once these samples of it are journalled.

        A model that does not answer by the sample is asked for the whole batch again, since an
        answer may depend on its neighbours; what is journalled stays as it is.
        """
        if not self.info.by_sample:
            return replace(batch, kept=batch.kept.union(finished))
        return replace(batch, queries=tuple(q for q in batch.queries if q.id not in finished))

    def _free(self) -> Member | None:
        """Return the worker that holds the fewest batches; None if none takes another."""
        trusted = [
            member
            for member in self._members
            if member.greeted and not any(batch.index in self._suspects for batch in member.batches)
        ]
        if not trusted:
            return None
        minimum = min(trusted, key=lambda member: len(member.batches))
        # One more than is under way is being decoded. Decoded images are large: an isolated
        # worker holds those of one batch. And where silence is watched, nothing more is sent to a
        # worker that may hang, for sending would wait for it.
        limit = 1 if self.isolate or self.timeout is not None else self.info.ahead + 1
        return minimum if len(minimum.batches) < limit else None

    def _send(self, member: Member, batch: Batch) -> None:
        message = (
            with_decoded_media(batch) if self.isolate else batch
        )  # decoding is not the worker's time
        if not member.batches:
            member.since = monotonic()
        member.batches.append(batch)
        member.send(message)

    def _ready_members(self) -> list[Member]:
        """Return workers with a message and dead ones; kill those silent for over `timeout`."""
        busy = [member for member in self._members if member.batches or not member.greeted]
        ready = self._wait_ready(busy, 0.2)
        for member in busy:
            silent = monotonic() - member.since
            late = self.timeout is not None and member.ready and silent > self.timeout
            if late and member not in ready:
                member.kill()  # and it is heard of as dead
        return ready

    def _replace(self, member: Member, waiting: list[Batch]) -> Iterator[Outcome]:
        """Start another worker in the place of a dead one, and take back what it held."""
        journalled = self._journalled_samples() if member.batches else {}
        for held in member.batches:
            ids = [q.id for q in held.queries if q.id in journalled and q.id not in held.kept]
            batch = self._without(held, ids)
            if ids:  # it died between the journal and the message
                untold = {sample_id: journalled[sample_id] for sample_id in ids}
                yield journalled_outcome(batch.index, untold, whole=False)
            if all(q.id in batch.kept for q in batch.queries):
                continue
            self._ended[batch.index] += 1
            if len(member.batches) == 1:
                self._losses[batch.index] += 1
            if self._losses[batch.index] < TRIES:
                self._suspects.add(batch.index)
                waiting.append(batch)
            else:
                yield self._give_up(batch, member.exit_reason())
        self._members.remove(member)
        member.batches.clear()
        member.close()
        self._members.append(self._next())

    def _journalled_samples(self) -> dict[str, JournalPosition]:
        """Return the places of the samples that this attempt has journalled, but for lost ones."""
        return {
            sample: place
            for sample, place in Journal(self.folder).places.items()
            if number(place.path)[0] == self._attempt
            and place.failure != FailureKind.INFRASTRUCTURE
        }

    def _welcome(self, member: Member) -> None:
        """Receive a replacement's greeting: it takes work, or is dropped if it failed."""
        try:
            greeting = self._greeting(member)
        except (WorkerNotScheduled, WorkerStartFailed) as error:
            self._members.remove(member)
            _discard(member)
            self._unready += isinstance(error, WorkerStartFailed)
            if isinstance(error, WorkerStartFailed) and self._unready < TRIES:
                self._members.append(self._next())
            elif not self._members:
                raise
            return  # the others go on with what there is
        if greeting != self.info:
            raise _model_mismatch("a replaced worker", self.info, greeting)
        member.greeted = True
        self._unready = 0

    def _give_up(self, batch: Batch, ended: str) -> Outcome:
        """Journal a batch that no worker survives."""
        count = self._ended[batch.index]
        message = f"{count} worker processes ended on this batch, the last with {ended}"
        self._started += 1
        with Writer(self.folder, self._started - 1, self._attempt) as journal:
            predictions = [
                failed_prediction(query, FailureKind.INFRASTRUCTURE, message)
                for query in batch.queries
                if query.id not in batch.kept
            ]
            journal.append([begin(batch), *records(batch, predictions)])
        ids = tuple(prediction.query_id for prediction in predictions)
        # Counted like crashes of the model, so that one which never survives ends the run.
        return Outcome(batch.index, ids, failed=len(ids), crashed=len(ids))

    def _receive(self, member: Member) -> Any:
        """Return the next message, None if the worker is dead; raise one that is an error."""
        message = member.receive()
        if isinstance(message, HarnessError):
            raise message
        return message

    def close(self) -> None:
        """Let the workers end, each when it has finished what the network had answered.

        An interrupt meanwhile ends them at once.
        """
        members, self._members = self._members, []
        try:
            while members:
                members.pop(0).close()
        finally:
            for member in members:
                _discard(member)


def _model_mismatch(what: str, first: WorkerInfo, second: WorkerInfo) -> ModelError:
    """Return the error for workers with two greetings, which cannot work on one run."""
    if first.device != second.device:
        return ModelError(
            what,
            expected=f"the same device in every worker, here {first.device}",
            found=second.device,
            fix="Responses may differ between kinds of devices: let all workers use one kind.",
        )
    wanted, given = asdict(first), asdict(second)
    differing = ", ".join(name for name in wanted if wanted[name] != given[name])
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
