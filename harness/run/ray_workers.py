"""Workers as actors of a Ray cluster: several machines, fractions of a GPU (`--ray`).

An actor holds the model and returns its predictions, which this process journals, so that only the
driver needs the run folder. Finished samples are fetched every second, not only with their batch: a
killed driver loses the samples of one second, and those in progress. When a run ends early,
answered samples are finished first. The benchmark's files are read on the actor's machine, under
the same path; with `isolate` decoded images are sent instead.

Ray watches its machines and processes by heartbeats. A lost actor counts towards `MAX_LOSSES`, as a
dead worker process does; so does an answer that is lost before it was fetched.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from harness.errors import ModelError, UsageError, raised_as
from harness.plugins import describe_error, missing_dependency
from harness.run.batching import Batch
from harness.run.interrupts import sigterm_kept
from harness.run.options import Options
from harness.run.predict import Outcome
from harness.run.worker_pool import Member, Pool, WorkerNotScheduled
from harness.spec import Spec
from harness.store.journal import Writer

if TYPE_CHECKING:
    from ray import ObjectRef
    from ray.actor import ActorHandle
from harness.run.ray_actor import Worker

FETCH_SECONDS = 1.0  # seconds between two fetches of finished samples from an actor
FINISH_SECONDS = 60.0  # seconds for an actor to finish answered samples when a run ends early
LOCAL = "local"  # the address of a cluster on this machine that starts and ends with the run


@dataclass(kw_only=True)
class Actor(Member):
    """An actor, references to its outstanding messages, and the journal written for it."""

    handle: "ActorHandle"
    placed: object  # reference to the result of `is_placed`; None once it has a machine
    patience: float  # seconds within which it must have a machine
    latest: float  # end of these seconds, by `monotonic`
    needs: str  # resources that it requests, for messages
    journal: Writer
    owed: "list[ObjectRef]" = field(default_factory=list)  # references to messages, in order
    fetched: "ObjectRef | None" = None  # reference to the result of a pending `fetch`
    since_fetch: float = 0.0  # time of the last fetch, by `monotonic`
    finished: list[Outcome] = field(default_factory=list)  # fetched, and not received yet
    last: str = "no error"  # Ray's last error about the actor
    ending: object = None  # reference to the result of `finish`, once that was called
    until: float = 0.0  # latest time of that result, by `monotonic`

    def send(self, batch: Batch) -> None:
        """Send a batch; before the first one, have the model loaded."""
        if not self.ready and len(self.batches) == 1:
            self.owed.append(self.handle.prepare.remote())
        self.owed.append(self.handle.run.remote(batch))

    def receive(self) -> object:
        """Wait for the next message and return it; None if the actor is lost.

        Raises:
            WorkerNotScheduled: it waited for a machine for too long.
        """
        import ray
        from ray.exceptions import RayError, RayTaskError

        if self.finished:
            return self._merge_finished()
        if self.placed is not None:
            if not self._has_a_machine(max(0.0, self.latest - monotonic())):
                raise WorkerNotScheduled(
                    "a Ray actor",
                    expected=f"a machine with {self.needs} free within {self.patience:.0f} s",
                    found=f"a cluster of {_resources()}",
                    fix="Ask for fewer --workers, or another --worker-gpus; if machines are "
                    "still starting, for a longer --worker-wait.",
                )
            self.placed = None
        try:
            message = ray.get(self.owed[0])
            self.take_fetched(wait=True)  # it may hold records of this outcome
            self.finished = [
                outcome for outcome in self.finished if outcome.batch != _batch_of(message)
            ]
        except RayTaskError as error:  # our code raised it
            return ModelError(
                "an actor", expected="an answer", found=describe_error(error.cause or error)
            )
        except RayError as error:  # not all that says so is a RayActorError: ObjectLostError is not
            self.last = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            return None
        if isinstance(message, tuple):
            message, records = message
            self.journal.append(records)
        del self.owed[0]  # at the end, so that after an interrupt `close` takes the message
        return message

    def begin_fetch(self) -> None:
        """Request finished samples of a working actor, at most every `FETCH_SECONDS` seconds."""
        works = self.ready and self.batches and self.fetched is None
        if works and monotonic() - self.since_fetch > FETCH_SECONDS:
            self.fetched = self.handle.fetch.remote()

    def take_fetched(self, *, wait: bool = False) -> None:
        """Journal the requested records, if they have arrived (or `wait` for them).

        Raises:
            RayError: the actor is lost.
        """
        import ray

        if self.fetched is None or not (wait or ray.wait([self.fetched], timeout=0)[0]):
            return
        finished, records = ray.get(self.fetched)
        self.journal.append(records)
        self.finished += finished
        self.fetched, self.since_fetch = None, monotonic()

    def _merge_finished(self) -> Outcome:
        """Remove and return the finished samples of one batch."""
        batch = self.finished[0].batch
        chosen = [outcome for outcome in self.finished if outcome.batch == batch]
        self.finished = [outcome for outcome in self.finished if outcome.batch != batch]
        return replace(
            chosen[0],
            samples=tuple(sample for outcome in chosen for sample in outcome.samples),
            failed=sum(outcome.failed for outcome in chosen),
            crashed=sum(outcome.crashed for outcome in chosen),
        )

    def is_overdue(self) -> bool:
        """Return True if the actor has waited for a machine for more than `patience` seconds."""
        waits = self.placed is not None and monotonic() > self.latest
        return waits and not self._has_a_machine(0.0)

    def _has_a_machine(self, seconds: float) -> bool:
        import ray

        placed, _ = ray.wait([self.placed], timeout=seconds)
        return bool(placed)

    def kill(self) -> None:
        """End the actor at once."""
        import ray

        ray.kill(self.handle, no_restart=True)

    def close(self) -> None:
        """End the actor after its answered samples are finished and journalled."""
        try:
            self.finish()
            if self.ending is not None:
                self._journal_rows()
        finally:
            self.journal.close()
            with suppress(Exception):
                self.kill()

    def finish(self) -> None:
        """Ask the actor to finish its answered samples, if it holds batches."""
        if self.batches and self.ending is None:
            self.until = monotonic() + FINISH_SECONDS
            with suppress(Exception):  # the cluster is gone
                self.ending = self.handle.finish.remote()

    def _journal_rows(self) -> None:
        """Journal the records that `finish` returns, and those of outstanding outcomes."""
        import ray

        with suppress(Exception):
            self.take_fetched(wait=True)
        with suppress(Exception):  # it is lost or too slow: its batches are predicted again
            self.journal.append(ray.get(self.ending, timeout=max(0.0, self.until - monotonic())))
        for reference in self.owed:
            with suppress(Exception):  # a batch that was dropped
                message = ray.get(reference, timeout=min(1.0, max(0.0, self.until - monotonic())))
                if isinstance(message, tuple):
                    self.journal.append(message[1])

    def exit_reason(self) -> str:
        """Return Ray's last error about the actor, in one line of at most 200 characters."""
        return self.last


class Actors(Pool):
    """Several actors; see `Pool`.

    `note` receives the share of a GPU of each actor, if the options do not set it.

    Raises:
        MissingDependency: Ray is not installed.
        UsageError: there is no cluster at the address.
        WorkerNotScheduled: the cluster has no room for them.
    """

    def __init__(
        self,
        spec: Spec,
        folder: Path,
        attempt: int,
        options: Options,
        *,
        note: Callable[[str], None],
        samples: int | None = None,
    ) -> None:
        count, gpus = options.workers, options.worker_gpus
        self._began = connect(options.ray or LOCAL, cpus=count)
        self._gpus = _equal_share(count, note) if gpus is None else gpus
        self._hides_gpus = gpus == 0
        self._patience = options.worker_wait
        super().__init__(spec, folder, attempt, options, samples=samples)

    def _start(self, index: int) -> Actor:
        """Start a worker as a Ray actor; Ray may place it on any machine."""
        import ray

        resources = {
            "num_cpus": 1,
            "num_gpus": self._gpus,
            "max_restarts": 0,
            "max_task_retries": 0,
        }
        started = ray.remote(**resources)(Worker)
        handle = started.remote(self.spec, self.seed, hides_gpus=self._hides_gpus)
        return Actor(
            handle=handle,
            placed=handle.is_placed.remote(),
            patience=self._patience,
            latest=monotonic() + self._patience,
            needs=f"1 CPU and {self._gpus:g} GPU",
            owed=[handle.info.remote()],
            journal=Writer(self.folder, index, self._attempt),
        )

    def _wait_for_message(self, busy: Sequence[Member], seconds: float) -> list[Member]:
        """Return actors that have a result, failed or are overdue; wait `seconds` for one."""
        import ray
        from ray.exceptions import RayError

        actors = [actor for actor in busy if isinstance(actor, Actor)]
        if overdue := [actor for actor in actors if actor.is_overdue()]:
            return list(overdue)  # `receive` raises the error
        for actor in actors:
            with suppress(RayError):  # it is lost, which `receive` finds
                actor.take_fetched()
                actor.begin_fetch()
        members = {actor.owed[0]: actor for actor in actors}
        if not members:
            return []
        finished: list[Member] = [actor for actor in actors if actor.finished]
        ray.wait(list(members), num_returns=1, timeout=0 if finished else seconds)
        ready_references, _ = ray.wait(list(members), num_returns=len(members), timeout=0)
        return finished + [
            members[reference]
            for reference in ready_references
            if members[reference] not in finished
        ]

    def close(self) -> None:
        """End the actors, all together, and the cluster if it was begun for them."""
        try:
            for member in self._members:
                assert isinstance(member, Actor), "it starts no others"
                member.finish()
            super().close()
        finally:
            if self._began:
                import ray

                ray.shutdown()


def _batch_of(message: object) -> int | None:
    outcome = message[0] if isinstance(message, tuple) else None
    return outcome.batch if isinstance(outcome, Outcome) else None


def _equal_share(count: int, note: Callable[[str], None]) -> float:
    """Return the GPUs of each of `count` actors: 1, or an equal share; 0 without GPUs."""
    import ray

    gpus = ray.cluster_resources().get("GPU", 0)
    if not gpus:
        return 0.0
    sharing = math.ceil(count / max(1, int(gpus)))
    share = math.floor(1e4 / sharing) / 1e4  # Ray counts ten-thousandths, and would round up
    note(
        f"{count} worker(s) ask Ray for {share:.3g} GPU each, of {gpus:g} in the cluster: "
        "--worker-gpus 0 computes on the CPU"
    )
    return share


def _resources() -> str:
    import ray

    resources = ray.cluster_resources()
    return f"{resources.get('CPU', 0):g} CPUs and {resources.get('GPU', 0):g} GPUs"


def connect(address: str, *, cpus: int) -> bool:
    """Connect to a Ray cluster; return True if this call started one, which the caller must end.

    Raises:
        MissingDependency: Ray is not installed.
        UsageError: there is no cluster at the address.
    """
    try:
        import ray
    except ModuleNotFoundError as error:
        raise missing_dependency(f"--ray {address}", error) from error
    if ray.is_initialized():
        return False
    quiet = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
    if address == LOCAL:
        with sigterm_kept():
            ray.init(num_cpus=cpus, include_dashboard=False, **quiet)
        return True
    expected, fix = "the address of a Ray cluster, `auto` or `local`", "See `ray status`."
    unfit = (ConnectionError, ValueError, RuntimeError)
    with raised_as(UsageError, f"--ray {address}", expected, *unfit, fix=fix), sigterm_kept():
        ray.init(address=address, **quiet)
    return True
