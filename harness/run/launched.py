"""Several processes that a launcher began, one a GPU: `torchrun`, `accelerate launch`, `srun`.

    torchrun --nproc_per_node 4 -m harness eval --model … --tasks … --data ROOT --out DIR

Every process runs the same command. The first leads: it holds the run folder's lease, writes the
manifest, scores. All of them predict, each its share of the plan's batches into a journal file of
its own, so that results are those of one process. They meet in the run folder, which they share:

    launch/hello.<rank>.json   a helper is there, with a number that nobody else draws
    launch/go.json             the leader's answer: the attempt, the run, its own number and theirs
    launch/seen.<rank>.json    the helper has read it, with the leader's number
    launch/stages.<rank>.json  what the stages of its share cost, with the leader's number

Each side goes on when it reads its own number from the other, so that what an earlier launch left
behind is never mistaken for this one's. If one of them dies, the launcher ends the others, and the
same command goes on, with any number of processes.
"""

import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from harness.errors import StoreError, UsageError
from harness.model import Model
from harness.run.plan import Batch
from harness.run.predict import Outcome
from harness.run.stages import Stage, of_process, read, summed, told
from harness.run.workers import Hello, Here
from harness.store.atomic import forget, read_json, write_json
from harness.store.journal import Journal, number
from harness.types import FailureKind

MEETING = "launch"
PATIENCE = 600.0  # seconds that a helper waits for the leader, which may be checking files
LATE = 10.0  # seconds that a helper may take, after its last batch, to tell what it cost
LOOK = 0.2  # seconds between looks


@dataclass(frozen=True, slots=True)
class Launch:
    """Which of how many processes this one is."""

    rank: int
    size: int

    @property
    def leads(self) -> bool:
        """Whether it is the one that scores and shows."""
        return self.rank == 0

    def owns(self, batch: Batch) -> bool:
        """Whether a batch is of this process's share."""
        return batch.index % self.size == self.rank


def launched(environment: Mapping[str, str]) -> Launch | None:
    """What the launcher's variables say; None if this process stands alone.

    Raises:
        UsageError: they make no sense.
    """
    size, rank = (environment.get(name, given) for name, given in
                  (("WORLD_SIZE", "1"), ("RANK", "0")))  # fmt: skip
    if not (size.isdigit() and rank.isdigit() and int(rank) < int(size)):
        raise UsageError("the variables WORLD_SIZE and RANK", expected="whole numbers, the second "
                         "below the first", found=f"{size!r} and {rank!r}")  # fmt: skip
    return Launch(int(rank), int(size)) if int(size) > 1 else None


def own_gpu() -> None:
    """Let this process see its own GPU alone, so that `cuda` means that one.

    It has to be called before anything loads torch.
    """
    seen, local = os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("LOCAL_RANK", "")
    if local.isdigit():
        devices = seen.split(",") if seen else []
        number = int(local)
        os.environ["CUDA_VISIBLE_DEVICES"] = (
            devices[number] if number < len(devices) else seen or local
        )


@dataclass(frozen=True)
class Leader:
    """The first process: predicts its share, and waits for the others'."""

    launch: Launch
    here: Here
    folder: Path
    attempt: int
    number: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def hello(self) -> Hello:
        """What the model says of itself."""
        return self.here.hello

    def run(self, batches: Iterable[Batch]) -> Iterator[Outcome]:
        """Predict the own share; the others' outcomes come as their journals show them.

        Those are without stages: what the others' stages cost comes at the end, in an outcome
        without samples for each of them.
        """
        others: dict[int, tuple[str, ...]] = {}
        journal = Journal(self.folder)
        said: dict[str, Any] = {"run": None}

        def mine() -> Iterator[Batch]:
            for batch in batches:
                said["run"] = batch.run
                self._answer(said)
                if self.launch.owns(batch):
                    yield batch
                else:
                    others[batch.index] = tuple(query.id for query in batch.queries)

        for outcome in self.here.run(mine()):
            outcome.stages = of_process(self.launch.rank, outcome.stages)
            yield outcome
            yield from _done(journal, self.attempt, others)
        while others or not self._seen():
            self._answer(said)
            found = list(_done(journal, self.attempt, others))
            yield from found
            if not found:
                sleep(LOOK)
        if said["run"] is not None:
            yield from self._costs()
        for path in (self.folder / MEETING).glob("*.json"):
            forget(path)

    def _answer(self, said: dict[str, Any]) -> None:
        """Say go to every helper that has come since."""
        there = self.folder / MEETING
        numbers = [read_json(path)["number"] for path in sorted(there.glob("hello.*.json"))]
        answer = {"attempt": self.attempt, "run": said["run"], "leader": self.number,
                  "numbers": numbers}  # fmt: skip
        if answer != said:
            there.mkdir(exist_ok=True)
            write_json(there / "go.json", answer)
            said.update(answer)

    def _costs(self) -> Iterator[Outcome]:
        """What the others' stages cost, as far as it is told in time: no score depends on it."""
        awaited = list(range(1, self.launch.size))
        latest = monotonic() + LATE
        while awaited:
            for rank in awaited[:]:
                stages = self._cost(rank)
                if stages is not None:
                    awaited.remove(rank)
                    yield Outcome(-1, (), 0.0, stages=of_process(rank, stages))
            if awaited and monotonic() > latest:
                return
            if awaited:
                sleep(LOOK)

    def _cost(self, rank: int) -> dict[str, Stage] | None:
        """What a helper's stages cost; None if it has not said so, or nothing that can be read."""
        with suppress(StoreError, KeyError, TypeError, ValueError, AttributeError):
            said = read_json(self.folder / MEETING / f"stages.{rank}.json")
            if said["leader"] == self.number:
                return read(said["stages"])
        return None

    def _seen(self) -> bool:
        """Whether every helper has read the answer."""
        paths = (self.folder / MEETING / f"seen.{rank}.json" for rank in range(1, self.launch.size))
        return all(path.exists() and read_json(path)["leader"] == self.number for path in paths)


def _done(journal: Journal, attempt: int, others: dict[int, tuple[str, ...]]) -> Iterator[Outcome]:
    """The others' batches that their journals hold by now; they are no longer waited for."""
    journal.refresh()
    for index, ids in list(others.items()):
        places = [place for one in ids if (place := journal.places.get(one)) is not None]
        if len(places) == len(ids) and all(number(one.path)[0] == attempt for one in places):
            del others[index]
            raised = sum(one.failure == FailureKind.MODEL for one in places)
            failed = sum(one.failure is not None for one in places)
            yield Outcome(index, ids, 0.0, failed=failed, crashed=raised)


def meet(launch: Launch, folder: Path) -> dict[str, Any]:
    """Wait for the leader's answer, as a helper: `attempt`, and `run` (None: nothing is to do).

    Raises:
        StoreError: none comes.
    """
    own = secrets.token_hex(8)
    there = folder / MEETING
    mine = there / f"hello.{launch.rank}.json"
    begun = monotonic()
    while monotonic() - begun < PATIENCE:
        if not mine.exists() or read_json(mine)["number"] != own:  # the leader has set a run aside
            there.mkdir(parents=True, exist_ok=True)
            write_json(mine, {"number": own})
        if (there / "go.json").exists():
            answer: dict[str, Any] = read_json(there / "go.json")
            if own in answer["numbers"]:
                write_json(there / f"seen.{launch.rank}.json", {"leader": answer["leader"]})
                return answer
        sleep(LOOK)
    raise StoreError(f"run {folder}, process {launch.rank} of {launch.size}",
                     expected="the first process to begin", found=f"nothing for {PATIENCE:.0f} s",
                     fix="All processes need the same --out, on a file system that they share.",
                     )  # fmt: skip


def share(launch: Launch, model: Model, folder: Path, *, attempt: int,
          batches: Iterable[Batch]) -> None:  # fmt: skip
    """Predict a helper's share, and tell the leader what its stages cost."""
    here = Here(model, folder, attempt, worker=launch.rank)
    stages: dict[str, Stage] = {}
    for outcome in here.run(batch for batch in batches if launch.owns(batch)):
        stages = summed([stages, outcome.stages])
    there = folder / MEETING
    with suppress(StoreError):  # the leader did not wait for it
        leader = read_json(there / f"seen.{launch.rank}.json")["leader"]
        write_json(there / f"stages.{launch.rank}.json", {"leader": leader, "stages": told(stages)})
