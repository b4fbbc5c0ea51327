"""Workers that fail to begin, to go on or to end: none is left behind."""

import threading
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest

from harness.errors import ModelError, UsageError
from harness.run.options import Options
from harness.run.predict import Outcome, begin, records
from harness.run.worker_pool import (
    MAX_FAILED_STARTS,
    MAX_LOSSES,
    READY,
    Member,
    Pool,
    WorkerNotScheduled,
    WorkerStartFailed,
)
from harness.run.workers import WorkerInfo
from harness.store.journal import Journal, Writer
from harness.types import Answer, FailureKind, Prediction

from .test_pipeline import batch

HELLO = WorkerInfo("staged", 2, False, {})
WRONG = UsageError("a setting", expected="one", found="another")


@dataclass(kw_only=True)
class Scripted(Member):
    """Says what a test wants, and does what it is told."""

    says: list = field(default_factory=list)
    on_close: object = lambda: None
    killed: bool = False
    closed: bool = False

    def send(self, batch):
        return

    def receive(self):
        output = self.says.pop(0)
        if output == "outcome":
            return Outcome(self.batches[0].index, ("a",))
        if isinstance(output, (KeyboardInterrupt, WorkerNotScheduled)):
            raise output
        return output

    def kill(self):
        self.killed = True

    def close(self):
        self.closed = True
        self.on_close()

    def exit_reason(self):
        return "exit code 1"


@dataclass(kw_only=True)
class Mortal(Scripted):
    """Dies of the batches in `deadly`, and answers the others; `given` is shared by several."""

    deadly: set
    given: list

    def send(self, batch):
        self.given.append(batch.index)
        self.says.append(None if batch.index in self.deadly else "outcome")


class Scene(Pool):
    """A pool of the members that it is given."""

    def __init__(self, folder, *members, count, timeout=None):
        self.coming = list(members)
        super().__init__("a model", folder, 0, Options(workers=count, timeout=timeout))

    def _start(self, index):
        coming = self.coming.pop(0)
        if isinstance(coming, BaseException):
            raise coming
        return coming

    def _wait_for_message(self, busy, seconds):
        return [one for one in busy if one.says]


@pytest.mark.parametrize(
    ("greeting", "error"),
    [
        (WRONG, UsageError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (WorkerInfo("another", 2, False, {}), ModelError),
        (WorkerNotScheduled("an actor", expected="a machine", found="none"), WorkerNotScheduled),
    ],
    ids=["error", "interrupt", "another", "unplaced"],
)
def test_a_replacement_whose_greeting_fails_is_not_left_behind(greeting, error, tmp_path):
    dying, replacement = Scripted(says=[HELLO, READY, None]), Scripted(says=[greeting])
    pool = Scene(tmp_path, dying, replacement, count=1)
    with pytest.raises(error):
        list(pool.run([batch(0, "a")]))
    assert dying.closed and replacement.killed and replacement.closed
    assert pool._members == []


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (
            replace(HELLO, device="Card B"),
            "Card A, found Card B",
        ),
        (replace(HELLO, device="Card A", name="another"), r"\bname$"),
    ],
    ids=["device", "model"],
)
def test_workers_that_differ_are_refused_in_words(other, said, tmp_path):
    first = replace(HELLO, device="Card A")
    members = [Scripted(says=[one]) for one in (first, first, other)]
    with pytest.raises(ModelError, match=said):
        Scene(tmp_path, *members, count=3)
    assert all(one.closed for one in members)
    dying, replacement = Scripted(says=[first, READY, None]), Scripted(says=[other])
    with pytest.raises(ModelError, match=f"replaced .*{said}"):
        list(Scene(tmp_path, dying, replacement, count=1).run([batch(0, "a")]))


def test_without_a_machine_for_a_replacement_the_others_go_on(tmp_path):
    unplaced = WorkerNotScheduled("an actor", expected="a machine", found="none")
    dying = Scripted(says=[HELLO, READY, None])
    other = Scripted(says=[HELLO, READY, "outcome", "outcome"])
    replacement = Scripted(says=[unplaced])
    pool = Scene(tmp_path, dying, other, replacement, count=2)
    done = list(pool.run([batch(0, "a"), batch(1, "b")]))
    assert sorted(one.batch for one in done) == [0, 1]
    pool.close()
    assert replacement.closed and other.closed and dying.closed


def test_the_others_work_while_a_replacement_loads(tmp_path):
    dying, loading = Scripted(says=[HELLO, READY, None]), Scripted()
    other = Scripted(says=[HELLO, READY, "outcome", "outcome", "outcome"])
    pool = Scene(tmp_path, dying, other, loading, count=2)
    done = list(pool.run([batch(index, name) for index, name in enumerate("abc")]))
    assert sorted(one.batch for one in done) == [0, 1, 2]
    assert loading.batches == [] and loading.killed and loading.closed, "nobody waits for it"


def test_a_replacement_that_has_loaded_takes_work(tmp_path):
    dying, replacement = Scripted(says=[HELLO, READY, None]), Scripted(says=[HELLO, READY])
    replacement.says += ["outcome", "outcome"]
    pool = Scene(tmp_path, dying, replacement, count=1)
    done = list(pool.run([batch(0, "a"), batch(1, "b")]))
    assert sorted(one.batch for one in done) == [0, 1]


def test_a_replacement_that_dies_while_it_loads_is_replaced(tmp_path):
    dying, stillborn = Scripted(says=[HELLO, READY, None]), Scripted(says=[None])
    last = Scripted(says=[HELLO, READY, "outcome"])
    pool = Scene(tmp_path, dying, stillborn, last, count=1)
    assert [one.batch for one in pool.run([batch(0, "a")])] == [0]
    pool.close()
    assert dying.closed and stillborn.closed and last.closed


@pytest.mark.parametrize("others", [0, 1])
def test_replacements_that_all_die_while_they_load_end_the_run_if_no_other_is_left(
    others, tmp_path
):
    other = Scripted(says=[HELLO, READY, "outcome", "outcome"])
    stillborn = [Scripted(says=[None]) for _ in range(MAX_FAILED_STARTS)]
    started = [Scripted(says=[HELLO, READY, None]), *[other][:others]]
    pool = Scene(tmp_path, *started, *stillborn, count=len(started))
    done = pool.run([batch(0, "a"), batch(1, "b")])
    if others:
        assert sorted(one.batch for one in done) == [0, 1]
    else:
        with pytest.raises(WorkerStartFailed, match="code 1"):
            list(done)
    pool.close()
    assert all(one.closed for one in (*started, *stillborn)) and pool._members == []


@pytest.mark.parametrize(
    ("count", "timeout", "deadly", "times"),
    [
        (1, 60.0, {0}, {0: 2, 1: 1, 2: 1, 3: 1}),
        (1, None, {0}, {0: 3, 1: 2, 2: 1, 3: 1}),
        (1, None, {1}, {0: 1, 1: 3, 2: 2, 3: 1}),
        (1, None, {0, 1}, {0: 3, 1: 3, 2: 1, 3: 1}),
        (2, None, {0, 2, 3}, {0: 3, 1: 1, 2: 3, 3: 2}),
    ],
    ids=[
        "held-alone",
        "held-with-the-next",
        "held-after-another",
        "two-that-kill",
        "beside-another-worker",
    ],
)
def test_what_kills_each_worker_is_given_twice_alone_and_the_rest_is_answered(
    count, timeout, deadly, times, tmp_path
):
    """With a timeout a worker holds one batch, else two; what it held is requeued twice at most."""
    given = []
    members = [Mortal(says=[HELLO, READY], deadly=deadly, given=given) for _ in range(12)]
    pool = Scene(tmp_path, *members, count=count, timeout=timeout)
    done = list(pool.run([batch(index, f"q{index}", f"r{index}") for index in range(4)]))
    assert Counter(given) == times
    assert {one.batch: one.failed for one in done} == {
        index: 2 if index in deadly else 0 for index in range(4)
    }
    assert len(done) == 4, "each is answered or given up once"
    journal = Journal(tmp_path)
    assert set(journal.places) == {f"{one}{index}" for index in deadly for one in "qr"}
    for name in journal.places:
        assert journal.record(name)["prediction"]["failure"] == [
            FailureKind.INFRASTRUCTURE,
            f"{times[int(name[1:])]} worker processes ended on this batch, "
            "the last with exit code 1",
        ]


def test_workers_that_began_are_ended_when_another_cannot_begin(tmp_path):
    first = Scripted(says=[HELLO])
    with pytest.raises(UsageError):
        Scene(tmp_path, first, WRONG, count=2)
    assert first.closed


def test_an_interrupt_while_workers_end_leaves_none_behind(tmp_path):
    def interrupted():
        raise KeyboardInterrupt

    first, *others = (Scripted(says=[HELLO]) for _ in range(3))
    pool = Scene(tmp_path, first, *others, count=3)
    first.on_close = interrupted
    with pytest.raises(KeyboardInterrupt):
        pool.close()
    assert all(one.killed and one.closed for one in others)
    assert pool._members == []


@dataclass(kw_only=True)
class Halfway(Scripted):
    """Journals the first sample of its batch, tells of it or not, and dies."""

    folder: object
    number: int
    tells: bool
    given: list

    def send(self, batch):
        self.given.append(batch)
        first = batch.queries[0]
        answer = Prediction(query_id=first.id, answer=Answer(text=f"of worker {self.number}"))
        with Writer(self.folder, self.number, 0) as journal:
            journal.append([begin(batch), *records(batch, [answer])])
        info = Outcome(batch.index, (first.id,), is_whole_batch=False)
        self.says += [info, None] if self.tells and first.id not in batch.kept else [None]


@pytest.mark.parametrize("by_sample", [True, False])
@pytest.mark.parametrize("tells", [True, False])
def test_what_a_worker_journalled_before_it_died_is_told_once_and_stays(tmp_path, tells, by_sample):
    given = []
    members = [
        Halfway(
            says=[replace(HELLO, by_sample=by_sample), READY],
            folder=tmp_path,
            number=number,
            tells=tells,
            given=given,
        )
        for number in range(4)
    ]
    done = list(Scene(tmp_path, *members, count=1).run([batch(0, "a", "b", "c")]))
    info = Counter(sample for one in done for sample in one.samples)
    ids = [one.id for one in given[0].queries]
    assert info == dict.fromkeys(ids, 1)
    journal = Journal(tmp_path)
    lost = [one for one in ids if journal.places[one].failure == FailureKind.INFRASTRUCTURE]
    assert lost and ids[0] not in lost, "only what no worker survives is lost"
    assert journal.record(ids[0])["prediction"]["answer"]["text"] == "of worker 0"
    assert len(given) == MAX_LOSSES
    requested = given[1].queries
    assert len(requested) == 2 if by_sample else len(requested) == 3, (
        "its neighbours are asked again"
    )


def test_what_an_earlier_attempt_journalled_is_asked_again(tmp_path):
    asked = batch(0, "a")
    answer = Prediction(query_id=asked.queries[0].id, answer=Answer(text="of an earlier attempt"))
    with Writer(tmp_path, 0, 7) as journal:
        journal.append([begin(asked), *records(asked, [answer])])
    members = [Scripted(says=[HELLO, READY, None]), Scripted(says=[HELLO, READY, "outcome"])]
    (done,) = Scene(tmp_path, *members, count=1).run([asked])
    assert done.is_whole_batch and not done.failed


class Silent(Scripted):
    """Is heard of as dead once it is killed."""

    def kill(self):
        super().kill()
        self.says.append(None)


def test_a_worker_that_is_silent_over_its_batch_is_replaced(tmp_path):
    silent, replacement = Silent(says=[HELLO, READY]), Scripted(says=[HELLO, READY, "outcome"])
    (done,) = Scene(tmp_path, silent, replacement, count=1, timeout=0.01).run([batch(0, "a")])
    assert silent.killed and done.batch == 0


def test_a_worker_that_is_silent_while_it_loads_is_waited_for(tmp_path):
    loading = Silent(says=[HELLO])
    pool = Scene(tmp_path, loading, count=1, timeout=0.01)
    threading.Timer(0.1, lambda: loading.says.extend([READY, "outcome"])).start()
    (done,) = pool.run([batch(0, "a")])
    assert not loading.killed and done.batch == 0


@pytest.mark.parametrize(
    ("wanted", "samples", "begun"),
    [(10**9, 7, 16), (10**9, 200, 100), (3, 200, 3), (20, 41, 20), (40, 41, 21), (2, None, 2)],
)
def test_no_more_workers_begin_than_there_are_batches(wanted, samples, begun, tmp_path):
    """Batches hold two samples, which the first workers tell: of those some may be too many."""

    class Counted(Scene):
        def __init__(self):
            Pool.__init__(self, "a model", tmp_path, 0, Options(workers=wanted), samples=samples)

        def _start(self, index):
            return Scripted(says=[HELLO])

    pool = Counted()
    assert len(pool._members) == begun and all(one.greeted for one in pool._members)
    pool.close()
