"""Evaluation by several processes of a launcher (`torchrun`, `accelerate launch`, `srun`).

    torchrun --nproc_per_node 4 -m harness eval --model … --tasks … --data ROOT --out DIR

Every process runs the same command, usually one for each GPU. Rank 0 is the leader: it holds the
run folder's lease, writes the manifest and scores. All of them predict, each its share of the
plan's batches into its own journal file, so that the results equal those of one process. They
exchange files in the shared run folder:

    launch/hello.<rank>.json   a helper has started, with a random number that identifies it
    launch/go.json             the leader's answer: the attempt, the run, its own number and theirs
    launch/seen.<rank>.json    the helper has read the answer, with the leader's number
    launch/alive.<rank>.json   the helper is at work, with another count every ten seconds
    launch/stages.<rank>.json  the cost of its share's stages, with the leader's number

Each process also writes heartbeats into `--out` itself, from before any model is loaded until all
tasks are done, so that others wait for it while it loads its model or works on another task:

    .launch/<launch>/alive.<rank>.json  the process lives, with another count every ten seconds

A side continues only when it reads its own number from the other, so that files of an earlier
launch do not mislead it. If a process dies, the launcher ends the others, or else the leader ends
when the helper has been silent for too long. The same command then resumes the run.
"""

import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from harness.errors import StoreError, Unavailable, UsageError
from harness.model import Model
from harness.plain import from_plain, to_plain
from harness.run.batching import Batch
from harness.run.predict import Outcome, journalled_outcome
from harness.run.timing import Stage, of_process, sum_stages
from harness.run.workers import LocalWorker, WorkerInfo
from harness.store.atomic import forget, read_json, write_json
from harness.store.journal import Journal, attempt_and_worker
from harness.store.lease import beating

MEETING_FOLDER = "launch"  # in a run folder, for the exchanged files
HEARTBEATS_FOLDER = ".launch"  # in `--out`
LAUNCH_NAMES = (
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
)
"""Environment variables with equal values in one launch, and other values in other launches."""
START_SECONDS = 600.0  # to wait for a process that has not been heard of
BEAT_SECONDS = 10.0  # between heartbeats
SILENT_SECONDS = 300.0  # without heartbeat until a helper is dead; shared folders show files late
COST_SECONDS = 10.0  # to wait, after the last batch, for the costs of the helpers' stages
POLL_SECONDS = 0.2  # between two reads of the folder


@dataclass(frozen=True, slots=True)
class ProcessRank:
    """The rank of this process among the `size` processes of a launch."""

    rank: int
    size: int
    name: str = "launch"
    """A name that other launches that write into the same folder do not have."""
    lives: Path | None = None
    """Folder of the processes' heartbeats; None: they write none."""

    def life(self, rank: int) -> bytes:
        """Return the content of a process's last heartbeat; the process lives if it changes."""
        with suppress(OSError):  # it is not there, or is being replaced
            if self.lives is not None:
                return (self.lives / f"alive.{rank}.json").read_bytes()
        return b""

    @property
    def leads(self) -> bool:
        """True if this process scores and reports progress (rank 0)."""
        return self.rank == 0

    def owns(self, batch: Batch) -> bool:
        """Return True if a batch is in this process's share."""
        return batch.index % self.size == self.rank


def detect_launch(environment: Mapping[str, str]) -> ProcessRank | None:
    """Return the launch that a launcher's variables describe; None for a single process.

    Raises:
        UsageError: WORLD_SIZE and RANK are not whole numbers, the second below the first.
    """
    size, rank = environment.get("WORLD_SIZE", "1"), environment.get("RANK", "0")
    if not (size.isdigit() and rank.isdigit() and int(rank) < int(size)):
        raise UsageError(
            "the variables WORLD_SIZE and RANK",
            expected="whole numbers, the second below the first",
            found=f"{size!r} and {rank!r}",
        )
    if int(size) == 1:
        return None
    shared = "\n".join(environment.get(name, "") for name in LAUNCH_NAMES)
    name = hashlib.blake2b(shared.encode("utf-8", "replace"), digest_size=8).hexdigest()
    return ProcessRank(int(rank), int(size), name)


def own_gpu() -> None:
    """Restrict CUDA_VISIBLE_DEVICES to this process's own GPU, so that `cuda` means that GPU.

    Call it before anything imports torch. If all GPUs are hidden (`""`), or the launcher has bound
    one to each process, the variable stays as it is.

    Raises:
        UsageError: several GPUs are listed, but fewer than this process's LOCAL_RANK needs.
    """
    seen, local = os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("LOCAL_RANK", "")
    if not local.isdigit():
        return
    if seen is None:
        os.environ["CUDA_VISIBLE_DEVICES"] = local
        return
    gpus = [gpu for gpu in seen.split(",") if gpu]
    if len(gpus) <= 1:
        return
    if int(local) >= len(gpus):
        raise UsageError(
            f"the process with LOCAL_RANK={local}",
            expected="its own GPU",
            found=f"CUDA_VISIBLE_DEVICES={seen}",
            fix="Start at most one process per listed GPU on a machine.",
        )
    os.environ["CUDA_VISIBLE_DEVICES"] = gpus[int(local)]


@dataclass(frozen=True)
class Leader:
    """The process of rank 0: predicts its share, and waits for the helpers'."""

    launch: ProcessRank
    here: LocalWorker
    folder: Path
    attempt: int
    number: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def info(self) -> WorkerInfo:
        """The greeting of this process's model; see `WorkerInfo`."""
        return self.here.info

    def close(self) -> None:
        """Do nothing: the launcher ends the other processes."""

    def run(self, batches: Iterable[Batch]) -> Iterator[Outcome]:
        """Predict this process's share, and yield the helpers' outcomes from their journals.

        The helpers' outcomes have no stages; the cost of their stages comes at the end, in an
        outcome without samples for each helper.
        """
        others: dict[int, tuple[str, ...]] = {}
        journal = Journal(self.folder)
        message: dict[str, object] = {"run": None}
        signs = _Heartbeats(self.launch, self.folder / MEETING_FOLDER, self._is_alive)

        def own_batches() -> Iterator[Batch]:
            for batch in batches:
                message["run"] = batch.run
                self._answer(message)
                if self.launch.owns(batch):
                    yield batch
                else:
                    others[batch.index] = tuple(query.id for query in batch.queries)

        for outcome in self.here.run(own_batches()):
            outcome.stages = of_process(self.launch.rank, outcome.stages)
            yield outcome
            yield from _finished_outcomes(journal, self.attempt, others)
            signs.check(self._pending_helpers(others))
        while self._pending_helpers(others):
            self._answer(message)
            outcomes = list(_finished_outcomes(journal, self.attempt, others))
            yield from outcomes
            signs.check(self._pending_helpers(others))
            if not outcomes:
                sleep(POLL_SECONDS)
        if message["run"] is not None:
            yield from self._costs()
        for path in (self.folder / MEETING_FOLDER).glob("*.json"):
            forget(path)

    def _answer(self, message: dict[str, object]) -> None:
        """Write `go.json`, if a helper has started since it was written, so that it begins."""
        meeting = self.folder / MEETING_FOLDER
        numbers = [read_json(path)["number"] for path in sorted(meeting.glob("hello.*.json"))]
        answer = {
            "attempt": self.attempt,
            "run": message["run"],
            "leader": self.number,
            "numbers": numbers,
        }
        if answer != message:
            meeting.mkdir(exist_ok=True)
            write_json(meeting / "go.json", answer)
            message.update(answer)

    def _costs(self) -> Iterator[Outcome]:
        """Yield the costs of the helpers' stages that are written within `COST_SECONDS` seconds."""
        awaited = list(range(1, self.launch.size))
        latest = monotonic() + COST_SECONDS
        while awaited:
            for rank in awaited[:]:
                stages = self._cost(rank)
                if stages is not None:
                    awaited.remove(rank)
                    yield Outcome(-1, (), stages=of_process(rank, stages))
            if awaited and monotonic() > latest:
                return
            if awaited:
                sleep(POLL_SECONDS)

    def _cost(self, rank: int) -> dict[str, Stage] | None:
        """Read the cost of a helper's stages; None if it is missing or cannot be read."""
        with suppress(StoreError, KeyError, TypeError, ValueError, AttributeError):
            message = read_json(self.folder / MEETING_FOLDER / f"stages.{rank}.json")
            if message["leader"] == self.number:
                return {name: from_plain(Stage, stage) for name, stage in message["stages"].items()}
        return None

    def _pending_helpers(self, others: Iterable[int]) -> set[int]:
        """Return the ranks of helpers with unfinished batches (`others`), or without the answer."""
        ranks = range(1, self.launch.size)
        return {index % self.launch.size for index in others} | {
            rank for rank in ranks if not self._is_alive(rank)
        }

    def _is_alive(self, rank: int) -> bool:
        """Return True if a helper has read this leader's answer."""
        path = self.folder / MEETING_FOLDER / f"seen.{rank}.json"
        return path.exists() and bool(read_json(path)["leader"] == self.number)


class _Heartbeats:
    """The time of each helper's last heartbeat, by this process's clock.

    A heartbeat is a change in a helper's files: clocks of other machines do not matter.
    """

    def __init__(self, launch: ProcessRank, meeting: Path, seen: Callable[[int], bool]) -> None:
        self._launch, self._meeting, self._seen = launch, meeting, seen
        self._written = {rank: self._read_beats(rank) for rank in range(1, launch.size)}
        self._since = dict.fromkeys(self._written, monotonic())
        self._looked = monotonic()
        self._begun: set[int] = set()

    def _read_beats(self, rank: int) -> list[bytes]:
        beats = []
        for name in ("hello", "seen", "alive"):
            with suppress(OSError):  # it is not there, or is being replaced
                beats.append((self._meeting / f"{name}.{rank}.json").read_bytes())
        # Once a helper has its share, only the share's own heartbeats count: it may have ended the
        # share and live on in the next run.
        return beats if self._seen(rank) else [*beats, self._launch.life(rank)]

    def check(self, awaited: Iterable[int]) -> None:
        """Read the helpers' heartbeats, at most once in `BEAT_SECONDS` seconds.

        Raises:
            Unavailable: an awaited helper has been silent for too long.
        """
        now = monotonic()
        if now - self._looked < BEAT_SECONDS:
            return  # reading a shared file system more often would find nothing new
        self._looked = now
        for rank, before in self._written.items():
            beats = self._read_beats(rank)
            if beats != before:
                self._written[rank], self._since[rank] = beats, now
                self._begun.add(rank)
        for rank in sorted(awaited):
            patience = SILENT_SECONDS if rank in self._begun else START_SECONDS
            if now - self._since[rank] > patience:
                raise Unavailable(
                    f"process {rank} of the {self._launch.size} of this launch",
                    expected=f"a sign of life within {patience:.0f} s",
                    found="no sign of it: it has ended, or its machine has"
                    if rank in self._begun
                    else "no sign that it started with this --out",
                    fix="Finished work is kept. Read in its own output why it ended, and start the "
                    "same command again, with any number of processes.",
                )


@contextmanager
def heartbeat(launch: ProcessRank, out: Path) -> Iterator[ProcessRank]:
    """Write heartbeats into `out` until the block ends; yield the launch with their folder."""
    lives = out / HEARTBEATS_FOLDER / launch.name
    beat = lives / f"alive.{launch.rank}.json"
    try:
        with _beat_file(beat):
            yield replace(launch, lives=lives)
    finally:
        with suppress(StoreError, OSError):
            forget(beat)
            lives.rmdir()  # succeeds in the last process, for which it is empty
            lives.parent.rmdir()


@contextmanager
def _beat_file(path: Path) -> Iterator[None]:
    """Write a heartbeat to `path` every `BEAT_SECONDS` seconds until the block ends."""
    beats = count()

    def write_beat() -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"process": os.getpid(), "beats": next(beats)})

    with suppress(StoreError, OSError):  # on a full disk the journal raises the error
        write_beat()
    with beating(write_beat, BEAT_SECONDS):
        yield


def _finished_outcomes(
    journal: Journal, attempt: int, others: dict[int, tuple[str, ...]]
) -> Iterator[Outcome]:
    """Yield the helpers' newly journalled samples as outcomes, and remove them from `others`.

    `others` has the ids of the unfinished queries of each of their batches, by the batch's index.
    """
    journal.refresh()
    for index, ids in list(others.items()):
        finished = {
            sample_id: journal.places[sample_id] for sample_id in ids if sample_id in journal.places
        }
        new = {
            sample_id: position
            for sample_id, position in finished.items()
            if attempt_and_worker(position.path)[0] == attempt
        }
        if not new:
            continue
        unfinished = tuple(sample_id for sample_id in ids if sample_id not in new)
        if unfinished:
            others[index] = unfinished
        else:
            del others[index]
        yield journalled_outcome(index, new, is_whole_batch=not unfinished)


def rendezvous(launch: ProcessRank, folder: Path) -> dict[str, Any]:
    """Wait, as a helper, for the leader's answer, and return it.

    It has `attempt` and `run`, the hash of the run's configuration; None: there is nothing to do.

    Raises:
        StoreError: neither an answer nor a heartbeat of the leader comes for `START_SECONDS`.
    """
    token = secrets.token_hex(8)
    meeting = folder / MEETING_FOLDER
    hello = meeting / f"hello.{launch.rank}.json"
    last_beat = looked = monotonic()
    life = launch.life(0)
    while monotonic() - last_beat < START_SECONDS:
        if monotonic() - looked > BEAT_SECONDS:
            looked = monotonic()
            if (now := launch.life(0)) != life:
                last_beat, life = looked, now
        # The file is gone if the leader has renamed the folder of an earlier run.
        if not hello.exists() or read_json(hello)["number"] != token:
            meeting.mkdir(parents=True, exist_ok=True)
            write_json(hello, {"number": token})
        if (meeting / "go.json").exists():
            answer: dict[str, Any] = read_json(meeting / "go.json")
            if token in answer["numbers"]:
                write_json(meeting / f"seen.{launch.rank}.json", {"leader": answer["leader"]})
                return answer
        sleep(POLL_SECONDS)
    raise StoreError(
        f"run {folder}, process {launch.rank} of {launch.size}",
        expected="the first process to begin",
        found=f"nothing for {START_SECONDS:.0f} s",
        fix="All processes need the same --out, on a file system that they share.",
    )


def share(
    launch: ProcessRank, model: Model, folder: Path, *, attempt: int, batches: Iterable[Batch]
) -> None:
    """Predict a helper's share, and write the cost of its stages for the leader."""
    worker = LocalWorker(model, folder, attempt, worker=launch.rank)
    stages: dict[str, Stage] = {}
    meeting = folder / MEETING_FOLDER
    with _beat_file(meeting / f"alive.{launch.rank}.json"):
        for outcome in worker.run(batch for batch in batches if launch.owns(batch)):
            stages = sum_stages([stages, outcome.stages])
    with suppress(StoreError):  # the leader did not wait for it
        leader = read_json(meeting / f"seen.{launch.rank}.json")["leader"]
        plain = {name: to_plain(stage) for name, stage in stages.items()}
        write_json(meeting / f"stages.{launch.rank}.json", {"leader": leader, "stages": plain})
