"""How an actor that is lost is noticed, on a cluster that only pretends to be one."""

import os
import signal
import threading
from types import SimpleNamespace

import pytest

from harness.errors import ModelError
from harness.run.interrupts import terminable
from harness.run.options import Options
from harness.run.predict import Outcome
from harness.run.ray_actor import Worker
from harness.run.ray_workers import Actor, Actors, connect
from harness.run.worker_pool import READY, WorkerNotScheduled
from harness.run.workers import WorkerInfo
from harness.spec import parse

from .test_pipeline import batch

ray = pytest.importorskip("ray")
HELLO = WorkerInfo("staged", 2, False, {})
OUTCOME = (Outcome(0, ("a",)), [])
LOST = {
    "the actor": lambda: ray.exceptions.ActorDiedError(),
    "the answer": lambda: ray.exceptions.ObjectLostError("0" * 56, None, "here"),
    "its owner": lambda: ray.exceptions.OwnerDiedError("0" * 56, None, "here"),
    "the machine": lambda: ray.exceptions.NodeDiedError("the node is dead"),
    "the process": lambda: ray.exceptions.WorkerCrashedError(),
}


class Cluster:
    """References are what is there: a list with one thing, or an empty one."""

    def get(self, reference, timeout=None):
        (there,) = reference.there
        if isinstance(there, BaseException):
            raise there
        return there

    def wait(self, references, *, num_returns=1, timeout=None):
        ready = [one for one in references if one.there]
        return ready, [one for one in references if not one.there]

    def kill(self, handle, no_restart):
        handle.killed = True

    def is_initialized(self):
        return True


class Reference:
    def __init__(self, *there):
        self.there = there


@pytest.fixture(autouse=True)
def cluster(monkeypatch):
    for name in ("get", "wait", "kill", "is_initialized"):
        monkeypatch.setattr(ray, name, getattr(Cluster(), name))


def actor(*owed, placed=True, latest=0.0):
    return Actor(
        handle=SimpleNamespace(
            killed=False, fetch=SimpleNamespace(remote=lambda: Reference(([], [])))
        ),
        placed=Reference(*[None] * placed),
        latest=latest,
        needs="1 CPU",
        owed=list(owed),
        journal=SimpleNamespace(append=list, close=lambda: None),
        patience=600.0,
    )


@pytest.mark.parametrize("what", LOST)
def test_whatever_is_lost_of_an_actor_counts_as_a_lost_actor(what):
    lost = actor(Reference(LOST[what]()))
    assert lost.receive() is None
    assert type(LOST[what]()).__name__ in lost.exit_reason()


def test_what_our_code_raised_in_an_actor_does_not():
    class Wrapped(ray.exceptions.RayTaskError):
        def __init__(self):
            self.cause = ValueError("no idea")

    output = actor(Reference(Wrapped())).receive()
    assert isinstance(output, ModelError) and "no idea" in str(output)


class Scene(Actors):
    """Actors that are given."""

    def __init__(self, folder, *members, count):
        self._coming, self._began = list(members), False
        super(Actors, self).__init__("a model", folder, 0, Options(workers=count))

    def _start(self, index):
        return self._coming.pop(0)


def works(one, *answers):
    """Owe these answers once work is given."""

    def give(batch):
        one.owed.extend(answers)

    one.send = give
    return one


def test_an_answer_that_is_lost_with_its_machine_is_asked_for_again(tmp_path):
    lost = works(actor(Reference(HELLO)), Reference(READY), Reference(LOST["the answer"]()))
    other = works(actor(Reference(HELLO)), Reference(READY), Reference(OUTCOME))
    done = list(Scene(tmp_path, lost, other, count=1).run([batch(0, "a")]))
    assert [one.batch for one in done] == [0]
    assert lost.handle.killed


def test_finished_samples_are_journalled_before_their_batch_ends(tmp_path, monkeypatch):
    """The batch ends once its first sample was told of; what is fetched with its end comes before
    it, and is told of once.
    """
    monkeypatch.setattr("harness.run.ray_workers.FETCH_SECONDS", -1.0)
    end = Reference()
    one, written = works(actor(Reference(HELLO)), Reference(READY), end), []
    one.journal.append = written.extend
    part = [Outcome(0, (name,), failed=1, is_whole_batch=False) for name in ("a", "b", "c")]
    fetches = [([], []), (part[:2], ["a", "b"]), (part[2:], ["c"])]
    one.handle.fetch.remote = lambda: Reference(fetches.pop(0) if fetches else ([], []))
    run = Scene(tmp_path, one, count=1).run([batch(0, "a", "b", "c", "d")])
    first = next(run)
    assert (first.samples, first.failed, first.is_whole_batch) == (("a", "b"), 2, False)
    assert written == ["a", "b"]
    end.there = ((Outcome(0, ("a", "b", "c", "d")), ["d"]),)
    rest = list(run)
    assert sorted(written) == ["a", "b", "c", "d"]
    assert [one.is_whole_batch for one in rest][-1] and sum(one.is_whole_batch for one in rest) == 1


def test_what_an_actor_had_answered_is_journalled_when_it_is_ended():
    one, written = actor(), []
    one.batches.append(batch(0, "a"))
    one.journal.append = written.extend
    one.handle.finish = SimpleNamespace(remote=lambda: Reference(["a"]))
    one.close()
    assert written == ["a"] and one.handle.killed


def test_an_actor_that_is_lost_with_what_was_fetched_is_a_lost_actor(tmp_path):
    one = actor(Reference(OUTCOME))
    one.fetched = Reference(LOST["the machine"]())
    assert one.receive() is None


def test_the_others_work_while_a_replacement_waits_for_a_machine(tmp_path, monkeypatch):
    monkeypatch.setattr("harness.run.ray_workers._resources", lambda: "nothing")
    lost = works(actor(Reference(HELLO)), Reference(LOST["the machine"]()))
    other = actor(Reference(HELLO))

    def finish(given):
        samples = tuple(query.id for query in given.queries)
        other.owed.append(Reference((Outcome(given.index, samples), [])))

    other.send = finish
    waits = actor(Reference(), placed=False, latest=float("inf"))
    pool = Scene(tmp_path, lost, other, waits, count=2)
    assert len(list(pool.run([batch(0, "a"), batch(1, "b"), batch(2, "c")]))) == 3
    assert waits.handle.killed and waits.batches == []


def test_an_actor_that_waits_for_a_machine_for_too_long_is_heard_of(tmp_path, monkeypatch):
    monkeypatch.setattr("harness.run.ray_workers._resources", lambda: "nothing")
    pool = Scene(tmp_path, actor(Reference(HELLO)), count=1)
    loads = actor(Reference())
    waits = actor(Reference(), placed=False)
    patient = actor(Reference(), placed=False, latest=float("inf"))
    assert pool._wait_for_message([loads, patient], 0.0) == []
    assert pool._wait_for_message([loads, waits, patient], 0.0) == [waits]
    with pytest.raises(WorkerNotScheduled, match=r"1 CPU .* 600 s.*--worker-wait"):
        waits.receive()


class Asked:
    """What Ray was asked for: the resources of each actor, and the actors' arguments."""

    def __init__(self, monkeypatch, **resources):
        self.each = []
        monkeypatch.setattr(ray, "cluster_resources", lambda: resources)
        monkeypatch.setattr(ray, "remote", self.remote)

    def remote(self, **asked):
        return lambda kind: SimpleNamespace(remote=lambda *_, **given: self.begun(asked, given))

    def begun(self, asked, given):
        self.each.append((asked["num_gpus"], given["hides_gpus"]))
        calls = {"is_placed": None, "info": HELLO}
        return SimpleNamespace(
            **{
                name: SimpleNamespace(remote=lambda said=output: Reference(said))
                for name, output in calls.items()
            }
        )


def actors(folder, *, gpus, note):
    options = Options(workers=2, ray="auto", worker_gpus=gpus, worker_wait=600.0)
    return Actors(parse("m"), folder, 1, options, note=note)


@pytest.mark.parametrize(
    ("cluster_gpus", "gpus", "each"),
    [
        ({"GPU": 4.0}, None, (1.0, False)),
        ({}, None, (0.0, False)),
        ({"GPU": 4.0}, 0.0, (0.0, True)),
        ({}, 0.0, (0.0, True)),
        ({"GPU": 4.0}, 0.5, (0.5, False)),
        ({}, 1.0, (1.0, False)),
        ({"GPU": 1.0}, None, (0.5, False)),
    ],
)
def test_an_actor_gets_a_gpu_if_there_are_any_and_nothing_else_was_said(
    cluster_gpus, gpus, each, tmp_path, monkeypatch
):
    requested, notes = Asked(monkeypatch, CPU=2.0, **cluster_gpus), []
    pool = actors(tmp_path, gpus=gpus, note=notes.append)
    assert requested.each == [each, each]
    assert all(one.patience == 600.0 for one in pool._members)
    pool.close()
    there = cluster_gpus.get("GPU", 0)
    output = f"2 worker(s) ask Ray for {each[0]:g} GPU each, of {there:g} in the cluster"
    assert [note.startswith(output) for note in notes] == ([True] if there and gpus is None else [])


@pytest.mark.parametrize(("hides", "seen"), [(True, ""), (False, "2")])
def test_an_actor_that_was_given_no_gpu_sees_none(hides, seen, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    Worker(parse("m"), 0, hides_gpus=hides)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == seen


def test_ray_does_not_take_sigterm_away(monkeypatch):
    """`ray.init` sets a handler that exits with 15."""
    assert threading.current_thread() is threading.main_thread()
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **_: signal.signal(signal.SIGTERM, lambda *_: None))
    before = signal.getsignal(signal.SIGTERM)
    with terminable():
        for address in ("local", "auto"):
            assert connect(address, cpus=1)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before
