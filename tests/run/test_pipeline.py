"""Batches and samples through the stages of a pipeline."""

import threading
import time
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import OutOfMemory
from harness.run.pipeline import Predictor
from harness.run.pixels import MAX_BEGUN
from harness.run.predict import call_guarded
from harness.run.timing import Stage
from harness.run.workers import LocalWorker, worker_info
from harness.types import FailureKind, Prediction

from .staged_models import PATIENCE, Kept, Staged, batch, predictions, query, wholes


def test_the_next_batch_is_asked_for_while_the_last_stage_of_the_one_before_works():
    next_is_asked = threading.Event()

    def on_generate(queries):
        if queries[0].id == "second":
            next_is_asked.set()

    def on_finish(query):
        if query.id == "first":
            assert next_is_asked.wait(PATIENCE), "the stages work one after the other"

    journal = Kept()
    predictor = Predictor(Staged(on_generate=on_generate, on_finish=on_finish), journal)
    first, second = predictor.submit(batch(0, "first")), predictor.submit(batch(1, "second"))
    assert (first.result(PATIENCE).failed, second.result(PATIENCE).failed) == (0, 0)
    predictor.close()


@dataclass
class Expecting(Staged):
    expected: list = field(default_factory=list)
    made: threading.Event = field(default_factory=threading.Event)

    def prepare_next(self, queries):
        self.expected.append([one.id for one in queries])
        self.made.set()
        raise RuntimeError("what is wrong shows when it is asked")


def test_a_model_is_told_of_the_next_batch_while_it_answers_one(tmp_path):
    model = Expecting()

    def on_generate(queries):
        if queries[0].id != "d":
            assert model.made.wait(PATIENCE), "nothing is made ready meanwhile"
            model.made.clear()

    model.on_generate = on_generate
    plan = [batch(0, "a", "b"), batch(1, "c"), batch(2, "d")]
    assert [one.failed for one in wholes(LocalWorker(model, tmp_path, attempt=1).run(plan))] == [
        0,
        0,
        0,
    ]
    assert model.asked == [["a", "b"], ["c"], ["d"]]
    assert model.expected == [["c"], ["d"]]


def test_a_batch_that_waits_for_the_network_is_what_is_expected():
    """Of an actor, say, which is given a batch to ask for while another one is asked."""
    model, asking = Expecting(), threading.Event()

    def on_generate(queries):
        asking.set()
        assert queries[0].id == "b" or model.made.wait(PATIENCE), "nothing is made ready"

    model.on_generate = on_generate
    predictor = Predictor(model, Kept(), inline=False)
    done = []
    for one in (batch(0, "a"), batch(1, "b")):
        predictor.prefetch(one)
        done.append(predictor.submit(one))
        assert asking.wait(PATIENCE)
    assert [one.result(PATIENCE).failed for one in done] == [0, 0]
    assert model.expected == [["b"]]
    predictor.close()


def test_a_sample_is_segmented_while_the_one_before_is_propagated():
    started = threading.Event()

    def on_begin(query):
        if query.id == "b":
            started.set()

    def on_finish(query):
        if query.id == "a":
            assert started.wait(PATIENCE), "propagation holds up segmentation"

    predictor = Predictor(Staged(on_begin=on_begin, on_finish=on_finish), Kept())
    assert predictor.submit(batch(0, "a", "b")).result(PATIENCE).failed == 0
    predictor.close()


def test_what_is_under_way_is_bounded_while_the_last_stage_is_stuck(tmp_path):
    stuck = threading.Event()
    model = Staged(on_finish=lambda query: stuck.wait(PATIENCE))
    seen = []

    def plan():
        for index in range(9):
            seen.append(index)
            yield batch(index, f"q{index}")

    done = []
    thread = threading.Thread(
        target=lambda: done.extend(LocalWorker(model, tmp_path, attempt=0).run(plan()))
    )
    thread.start()
    deadline = time.monotonic() + PATIENCE
    while len(model.asked) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.2)  # long enough to run away, if it did
    assert len(model.asked) == 2 == worker_info(model).ahead
    assert len(seen) <= 4
    stuck.set()
    thread.join(PATIENCE)
    assert [one.batch for one in wholes(done)] == list(range(9)), "outcomes come in order"


def test_several_batches_are_asked_at_once_where_the_network_takes_them():
    together = threading.Barrier(3, timeout=PATIENCE)
    predictor = Predictor(Staged(turns=3, on_generate=lambda queries: together.wait()), Kept())
    done = [predictor.submit(batch(index, f"q{index}")) for index in range(3)]
    assert [one.result(PATIENCE).batch for one in done] == [0, 1, 2]
    predictor.close()


def test_a_sample_that_cannot_be_segmented_or_propagated_fails_alone_and_is_not_asked_again():
    def fails_for(name):
        def stage(query):
            if query.id == name:
                raise RuntimeError("no mask")

        return stage

    journal = Kept()
    model = Staged(on_begin=fails_for("a"), on_finish=fails_for("c"))
    predictor = Predictor(model, journal)
    outcome = predictor.submit(batch(0, "a", "b", "c")).result(PATIENCE)
    predictor.close()
    found = predictions(journal)
    assert ["failure" not in found[name] for name in "abc"] == [False, True, False]
    assert found["a"]["failure"][0] == FailureKind.MODEL and "mask" in found["a"]["failure"][1]
    assert found["a"]["calls"] == found["c"]["calls"], "what was asked and said is kept"
    assert found["a"]["calls"][0]["response"] == "long"
    assert model.asked == [["a", "b", "c"]], "the network is not asked twice"
    assert (outcome.failed, outcome.crashed) == (2, 2)


def test_a_batch_that_does_not_fit_is_asked_in_halves():
    def on_generate(queries):
        if len(queries) > 1:
            raise OutOfMemory("too large")

    journal = Kept()
    model = Staged(on_generate=on_generate)
    predictor = Predictor(model, journal)
    outcome = predictor.submit(batch(0, "a", "b", "c", "d")).result(PATIENCE)
    predictor.close()
    assert (outcome.halvings, outcome.failed, len(predictions(journal))) == (3, 0, 4)


def test_one_bad_sample_of_many_rounds_is_found_by_halving_its_own_piece():
    def on_generate(queries):
        if any(one.id == "q27" for one in queries):
            raise RuntimeError("bad")

    journal = Kept()
    model = Staged(on_generate=on_generate, batch_size=8)
    predictor = Predictor(model, journal)
    outcome = predictor.submit(batch(0, *(f"q{index}" for index in range(64)))).result(PATIENCE)
    predictor.close()
    assert [len(one) for one in model.asked] == [64, *[8] * 4, 4, 2, 2, 1, 1, 4, *[8] * 4]
    failed = [name for name, one in predictions(journal).items() if "failure" in one]
    assert (failed, outcome.crashed, len(predictions(journal))) == (["q27"], 1, 64)


@settings(max_examples=40, deadline=None)
@given(st.sets(st.integers(0, 20)), st.integers(1, 25), st.integers(1, 21))
def test_a_samples_outcome_does_not_depend_on_what_is_tried_with_it(bad, own, count):
    def call(queries):
        if bad.intersection(int(one.id) for one in queries):
            raise RuntimeError("bad")
        return [int(one.id) for one in queries]

    queries, stage = [query(str(index)) for index in range(count)], Stage()
    found = call_guarded(Staged(batch_size=own), queries, stage, call)
    kept = [one for one in found if not isinstance(one, Prediction)]
    assert kept == [index for index in range(count) if index not in bad]
    assert (len(found), stage.crashed) == (count, count - len(kept))


def test_responses_of_another_number_than_queries_are_the_models_failures():
    model = Staged()
    model.generate = lambda queries: [1.0] * (len(queries) + 1)
    journal = Kept()
    predictor = Predictor(model, journal)
    assert predictor.submit(batch(0, "a", "b")).result(PATIENCE).crashed == 2
    predictor.close()


def test_few_samples_of_a_batch_are_segmented_and_not_finished():
    stuck, counting = threading.Event(), threading.Lock()
    started, limit = [], []

    def on_begin(query):
        with counting:
            started.append(query.id)
            limit.append(len(started))

    def on_finish(query):
        assert stuck.wait(PATIENCE)
        with counting:
            started.remove(query.id)

    predictor = Predictor(Staged(on_begin=on_begin, on_finish=on_finish), Kept())
    done = predictor.submit(batch(0, *(f"q{index}" for index in range(4 * MAX_BEGUN))))
    deadline = time.monotonic() + PATIENCE
    while len(started) < MAX_BEGUN and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.2)  # long enough to run away, if it did
    assert len(started) == MAX_BEGUN
    stuck.set()
    assert done.result(PATIENCE).failed == 0
    assert (max(limit), len(limit)) == (MAX_BEGUN, 4 * MAX_BEGUN)
    predictor.close()
