"""A run that ends early: what was answered is journalled, and nothing else is begun."""

import asyncio
import threading
import time
from concurrent.futures import CancelledError
from dataclasses import replace
from multiprocessing import Pipe

import pytest

from harness.errors import UsageError
from harness.run.pipeline import Predictor
from harness.run.processes import Process, Processes, _predict_batches
from harness.run.ray_actor import Worker
from harness.run.worker_pool import READY
from harness.run.workers import LocalWorker
from harness.store.journal import Journal

from .test_pipeline import PATIENCE, Kept, Staged, batch, predictions, wholes

SOON = 0.2  # seconds after which masks are done, if something waits for them


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        UsageError("a setting", expected="one", found="another"),
    ],
    ids=["interrupt", "usage"],
)
def test_masks_of_a_batch_that_was_answered_are_journalled_before_an_error_is_raised(
    error, tmp_path
):
    raising = threading.Event()

    def on_generate(queries):
        if queries[0].id == "c":
            raising.set()
            raise error

    def on_finish(query):
        if query.id == "b":
            assert raising.wait(PATIENCE)
            time.sleep(SOON)

    model = Staged(on_generate=on_generate, on_finish=on_finish)
    plan = [batch(index, name) for index, name in enumerate("abcd")]
    with pytest.raises(type(error)):
        list(LocalWorker(model, tmp_path, attempt=0).run(plan))
    journal = Journal(tmp_path)
    assert set(journal.places) == {"a", "b"}
    assert journal.begun == [0, 1, 2], "no batch is begun after that"


def test_masks_are_journalled_when_nobody_wants_more_outcomes(tmp_path):
    second_is_asked = threading.Event()

    def on_generate(queries):
        if queries[0].id == "b":
            second_is_asked.set()

    def on_finish(query):
        assert second_is_asked.wait(PATIENCE)
        if query.id == "b":
            time.sleep(SOON)

    plan = [batch(index, name) for index, name in enumerate("ab")]
    outcomes = LocalWorker(
        Staged(on_generate=on_generate, on_finish=on_finish), tmp_path, attempt=0
    ).run(plan)
    assert next(outcomes).batch == 0
    outcomes.close()
    assert set(Journal(tmp_path).places) == {"a", "b"}


def test_masks_are_journalled_when_those_of_another_batch_end_the_run(tmp_path):
    second_is_asked = threading.Event()

    def on_generate(queries):
        if queries[0].id == "b":
            second_is_asked.set()

    def on_begin(query):
        assert second_is_asked.wait(PATIENCE)
        if query.id == "a":
            raise UsageError("a setting", expected="one", found="another")
        time.sleep(SOON)

    plan = [batch(index, name) for index, name in enumerate("abc")]
    with pytest.raises(UsageError):
        list(
            LocalWorker(
                Staged(on_generate=on_generate, on_begin=on_begin), tmp_path, attempt=0
            ).run(plan)
        )
    places = Journal(tmp_path).places
    assert "b" in places and "a" not in places
    assert places["b"].failure is None


def test_what_is_still_asked_for_is_given_up_and_holds_up_nothing():
    """As a server does it: the first batch is slow, the second one was answered."""
    given_up, finishing = threading.Event(), threading.Event()

    def on_generate(queries):
        if queries[0].id == "slow":
            assert given_up.wait(PATIENCE)
            raise RuntimeError("given up")

    def on_finish(query):
        finishing.set()
        time.sleep(SOON)

    journal = Kept()
    model = Staged(turns=3, on_generate=on_generate, on_finish=on_finish)
    model.halt = given_up.set
    predictor = Predictor(model, journal)
    slow, quick = (
        predictor.submit(batch(index, name)) for index, name in enumerate(["slow", "quick"])
    )
    deadline = time.monotonic() + PATIENCE
    while not finishing.is_set() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert finishing.is_set(), "its masks wait for no other batch"
    predictor.drain()
    assert set(predictions(journal)) == {"quick"}
    assert quick.result(0).failed == 0
    with pytest.raises(CancelledError):
        slow.result(0)
    with pytest.raises(CancelledError):
        predictor.submit(batch(2, "more"))


def test_no_batch_is_begun_while_masks_are_being_finished():
    finishing, go_on = threading.Event(), threading.Event()

    def on_finish(query):
        finishing.set()
        assert go_on.wait(PATIENCE)

    journal = Kept()
    predictor = Predictor(Staged(on_finish=on_finish), journal)
    predictor.submit(batch(0, "a"))
    assert finishing.wait(PATIENCE)
    ending = threading.Thread(target=predictor.drain)
    ending.start()
    deadline = time.monotonic() + PATIENCE
    while not predictor.ending and time.monotonic() < deadline:
        time.sleep(0.001)
    with pytest.raises(CancelledError):
        predictor.begin(batch(1, "more"))
    go_on.set()
    ending.join(PATIENCE)
    assert set(predictions(journal)) == {"a"}


def test_a_second_interrupt_ends_at_once(monkeypatch):
    def interrupted(waiting):
        assert len(waiting) == 1
        raise KeyboardInterrupt

    monkeypatch.setattr("harness.run.pipeline.wait", interrupted)
    started, stuck, left = threading.Event(), threading.Event(), threading.Event()

    def on_finish(query):
        started.set()
        stuck.wait(PATIENCE)
        left.set()

    journal = Kept()
    model = Staged(on_finish=on_finish)
    predictor = Predictor(model, journal)
    done = predictor.submit(batch(0, "a"))
    assert started.wait(PATIENCE)
    with pytest.raises(KeyboardInterrupt):
        predictor.drain()
    assert (predictor.closed, model.halted) == (True, 1)
    with pytest.raises(CancelledError):
        done.result(0)
    stuck.set()
    assert left.wait(PATIENCE)
    time.sleep(0.1)
    assert predictions(journal) == {}


def test_a_run_that_was_finished_is_not_halted(tmp_path):
    model = Staged()
    plan = [batch(0, "a"), batch(1, "b")]
    assert len(wholes(LocalWorker(model, tmp_path, attempt=0).run(plan))) == 2
    assert model.halted == 0


def test_a_worker_process_finishes_what_it_answered_when_the_pool_hangs_up():
    ours, theirs = Pipe()
    gone = threading.Event()

    def on_finish(query):
        assert gone.wait(PATIENCE)
        time.sleep(SOON)

    journal, model = Kept(), Staged(on_finish=on_finish)
    output = []

    def serve():
        try:
            _predict_batches(theirs, model, journal)
        except EOFError as error:
            output.append(error)

    worker = threading.Thread(target=serve)
    worker.start()
    ours.recv()
    ours.send(batch(0, "a"))
    assert ours.recv() == READY
    deadline = time.monotonic() + PATIENCE
    while not model.asked and time.monotonic() < deadline:
        time.sleep(0.01)
    ours.close()
    gone.set()
    worker.join(PATIENCE)
    assert len(output) == 1 and set(predictions(journal)) == {"a"}


def test_a_worker_process_takes_a_large_batch_while_it_answers_another():
    """If not, the parent waits to send, and meanwhile neither shows nor shares out anything."""
    ours, theirs = Pipe()
    sent = threading.Event()
    waited = []

    def on_generate(queries):
        if queries[0].id == "a":
            waited.append(sent.wait(PATIENCE))

    model = Staged(on_generate=on_generate)

    def serve():
        with pytest.raises(EOFError):
            _predict_batches(theirs, model, Kept())

    worker = threading.Thread(target=serve)
    worker.start()
    ours.recv()
    ours.send(batch(0, "a"))
    assert ours.recv() == READY
    large = batch(1, "b")
    text = "x" * 2**22  # more than a pipe holds
    ours.send(replace(large, queries=(replace(large.queries[0], text=text),)))
    sent.set()
    assert ours.recv().samples == ("a",)
    ours.close()
    worker.join(PATIENCE)
    assert waited == [True]


class Fake:
    """A process that ends when it is killed, or at once."""

    def __init__(self, *, interrupted=False):
        self.interrupted, self.alive, self.killed = interrupted, True, False
        self.waits = []

    def join(self, seconds):
        self.waits.append(seconds)
        if self.interrupted and not self.killed:
            raise KeyboardInterrupt

    def is_alive(self):
        return self.alive

    def kill(self):
        self.alive, self.killed = False, True


def pool_of(*processes, held=()):
    pool = object.__new__(Processes)
    pool._members = [
        Process(pipe=Pipe()[0], process=one, batches=list(held), ready=True) for one in processes
    ]
    return pool


def test_an_interrupt_while_worker_processes_finish_ends_them_all():
    processes = [Fake(interrupted=True), Fake(), Fake()]
    with pytest.raises(KeyboardInterrupt):
        pool_of(*processes, held=[batch(0, "a")]).close()
    assert all(one.killed for one in processes)


def test_worker_processes_that_have_work_are_given_more_time_to_end():
    busy, idle = Fake(), Fake()
    pool_of(busy, held=[batch(0, "a")]).close()
    pool_of(idle).close()
    assert busy.waits[0] > 30 > idle.waits[0]


def test_an_actor_finishes_what_it_answered_and_hands_it_over():
    finishing = threading.Event()

    def on_finish(query):
        finishing.set()
        time.sleep(SOON)

    worker = Worker("a model", 0)
    model = Staged(on_finish=on_finish)
    worker._predictor = Predictor(model, worker._journal, inline=False)

    async def ended_early():
        running = asyncio.create_task(worker.run(batch(0, "a")))
        await asyncio.to_thread(finishing.wait, PATIENCE)
        records = await worker.finish()
        outcome, others = await running
        assert outcome.failed == 0
        return [*records, *others]

    output = asyncio.run(ended_early())
    assert [one["sample"] for one in output if "sample" in one] == ["a"]
