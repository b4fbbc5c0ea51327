"""Stages side by side: what overlaps, what is bounded, and that no prediction depends on it."""

import json
import threading
import time
from concurrent.futures import CancelledError
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import OutOfMemory, UsageError
from harness.masks import Rle
from harness.media import pixels
from harness.model import StagedModel as Contract
from harness.run.batching import Batch
from harness.run.pipeline import Predictor
from harness.run.pixels import ANSWERED, BEGUN, MemoryBudget
from harness.run.predict import call_guarded
from harness.run.timing import Stage, sum_stages, to_json
from harness.run.workers import LocalWorker, worker_info
from harness.types import Answer, AnswerForm, Call, FailureKind, Prediction, Query, Request

PATIENCE = 10.0  # seconds after which a test gives up waiting for what must happen


def query(name):
    image = pixels([np.zeros((4, 4, 3), np.uint8)], times=(0.0,), is_video=False, id=name)
    return Query(id=name, text=name, media=(image,), forms=(AnswerForm.NUMBER,))


def batch(index, *names):
    return Batch(index=index, queries=tuple(map(query, names)), run="run")


@dataclass
class Kept:
    lines: list = field(default_factory=list)

    def append(self, records):
        self.lines.extend(records)


class Said(float):
    """What the network says of one query."""

    calls = (Call(request=Request(text="How long?"), response="long"),)


@dataclass
class Staged(Contract[float]):
    """Answers with the length of a name; its stages do what a test wants."""

    turns: int = 1
    asked: list = field(default_factory=list)
    on_generate: object = lambda queries: None
    on_begin: object = lambda query: None
    on_finish: object = lambda query: None
    halted: int = 0
    name: str = "staged"
    batch_size: int = 2

    def describe(self):
        return {}

    def generate(self, queries):
        self.asked.append([one.id for one in queries])
        self.on_generate(queries)
        return [Said(len(one.id)) for one in queries]

    def begin(self, query, asked):
        self.on_begin(query)

        def finish():
            self.on_finish(query)
            return Prediction(query_id=query.id, answer=Answer(number=float(asked)))

        return finish

    def halt(self):
        self.halted += 1


def wholes(outcomes):
    """Those of whole batches."""
    return [one for one in outcomes if one.whole]


def predictions(journal):
    return {one["sample"]: one["prediction"] for one in journal.lines if "sample" in one}


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
    done = predictor.submit(batch(0, *(f"q{index}" for index in range(4 * BEGUN))))
    deadline = time.monotonic() + PATIENCE
    while len(started) < BEGUN and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.2)  # long enough to run away, if it did
    assert len(started) == BEGUN
    stuck.set()
    assert done.result(PATIENCE).failed == 0
    assert (max(limit), len(limit)) == (BEGUN, 4 * BEGUN)
    predictor.close()


def tracks(index, *names, frames=5):
    """A batch of questions for masks in videos of 4 × 4 pixels."""
    image = np.zeros((4, 4, 3), np.uint8)
    return Batch(
        index=index,
        run="run",
        queries=tuple(
            Query(
                id=name,
                text=name,
                forms=(AnswerForm.MASK_TRACK,),
                media=(pixels([image] * frames, times=range(frames), is_video=True, id=name),),
            )
            for name in names
        ),
    )


def track_bytes(masks, frames=5):
    """Of one of them: the image that is segmented, so many masks twice, and run-lengths."""
    return 4 * 4 * 3 + 4 * 4 * 2 * masks + (512 + 16 * 4) * frames * masks


@dataclass
class Marking(Staged):
    """Answers with empty masks."""

    def begin(self, query, asked):
        finish = super().begin(query, asked)
        empty = Rle.from_array(np.zeros((4, 4), np.bool_))

        def marked():
            return replace(finish(), answer=Answer(masks=(empty,) * len(query.media[0])))

        return marked


@dataclass
class Counting(Marking):
    """Says beforehand of how many objects they are, a letter of the name each."""

    def objects(self, query, asked):
        assert asked == len(query.id)
        return len(query.id)


@dataclass
class Miscounting(Marking):
    says: object = None

    def objects(self, query, asked):
        if isinstance(self.says, BaseException):
            raise self.says
        return self.says


@pytest.mark.parametrize(
    ("model", "masks"),
    [
        (Marking(), 1 + 1),
        (Counting(), 3 + 1),
        (Miscounting(says=2.0), 2 + 1),
        (Miscounting(says=ValueError()), 1 + 1),
        (Miscounting(says=SystemExit(2)), 1 + 1),
        (Miscounting(says="many"), 1 + 1),
        (Miscounting(says=0), None),
        (Miscounting(says=-4), None),
    ],
    ids=["not-said", "three", "two", "raises", "exits", "no-number", "none", "less"],
)
def test_the_masks_of_every_object_are_counted(model, masks):
    predictor = Predictor(model, Kept())
    outcome = predictor.submit(tracks(0, "abc")).result(PATIENCE)
    predictor.close()
    expected = 0 if masks is None else track_bytes(masks)
    assert outcome.failed == 0
    assert outcome.stages["segmentation"].pixels == expected
    assert outcome.stages["propagation"].pixels == expected


def test_of_a_question_without_a_response_no_masks_are_counted():
    def on_generate(queries):
        raise RuntimeError("no response")

    predictor = Predictor(Counting(on_generate=on_generate), Kept())
    outcome = predictor.submit(tracks(0, "abc")).result(PATIENCE)
    predictor.close()
    assert outcome.failed == 1 and outcome.stages["propagation"].pixels == 0


def test_samples_are_segmented_as_far_as_their_masks_fit():
    stuck, started = threading.Event(), []
    model = Counting(
        on_begin=lambda query: started.append(query.id),
        on_finish=lambda query: stuck.wait(PATIENCE),
    )
    need = track_bytes(2 + 1)
    predictor = Predictor(model, Kept(), _room=MemoryBudget(bytes_=2 * need))
    done = predictor.submit(tracks(0, *(f"q{index}" for index in range(8))))
    deadline = time.monotonic() + PATIENCE
    while len(started) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.2)  # long enough to run away, if it did
    assert started == ["q0", "q1"]
    stuck.set()
    stages = done.result(PATIENCE).stages
    predictor.close()
    assert started == [f"q{index}" for index in range(8)]
    assert (stages["propagation"].samples, stages["propagation"].pixels) == (2, 2 * need)
    assert 8 - 2 <= stages["segmentation"].samples <= 8 and stages["segmentation"].pixels == need


def test_a_sample_that_is_larger_than_the_room_is_alone():
    together, there = {}, set()
    awaited = {"a": "b", "c": "d"}
    started = {name: threading.Event() for name in awaited.values()}

    def on_begin(query):
        there.add(query.id)
        together[query.id] = set(there)
        if query.id in started:
            started[query.id].set()

    def on_finish(query):
        if query.id in awaited:
            assert started[awaited[query.id]].wait(PATIENCE), "the next one fits too"
        time.sleep(0.05)  # long enough for another one to begin, if it did not wait
        there.remove(query.id)

    model = Counting(on_begin=on_begin, on_finish=on_finish)
    with closing(
        Predictor(model, Kept(), _room=MemoryBudget(bytes_=3 * track_bytes(1 + 1)))
    ) as predictor:
        done = predictor.submit(tracks(0, "a", "b", "large" * 9, "c", "d"))
        assert done.result(PATIENCE).failed == 0
    assert list(together) == ["a", "b", "large" * 9, "c", "d"]
    assert together["b"] == {"a", "b"} and together["d"] == {"c", "d"}
    assert together["large" * 9] == {"large" * 9} and together["c"] == {"c"}


@pytest.mark.parametrize("room", [1, 3 * track_bytes(1 + 1)], ids=["each-alone", "a-few"])
def test_what_is_journalled_does_not_depend_on_the_room(room):
    def fails_for(*names):
        def stage(query):
            if query.id in names:
                raise RuntimeError("no mask")

        return stage

    found = []
    for kept in (MemoryBudget(), MemoryBudget(bytes_=room)):
        journal = Kept()
        model = Counting(on_begin=fails_for("b", "dd"), on_finish=fails_for("c", "eeeeee"))
        batches = [tracks(0, "a", "b", "c"), tracks(1, "dd", "eeeeee", "f"), tracks(2, "g", "h")]
        with closing(Predictor(model, journal, _room=kept)) as predictor:
            done = [predictor.submit(one) for one in batches]
            outcomes = [one.result(PATIENCE) for one in done]
        output = [one for one in journal.lines if "sample" in one]
        found.append((output, [(one.failed, one.crashed) for one in outcomes]))
    assert found[0] == found[1] and len(found[0][0]) == 8
    assert found[0][1] == [(2, 2), (2, 2), (0, 0)]


@pytest.mark.parametrize("asked", [batch, tracks])
@pytest.mark.parametrize("stage", ["on_begin", "on_finish"])
def test_a_sample_that_ends_the_run_leaves_its_room_to_the_next(stage, asked):
    def wrong(_):
        raise UsageError("a setting", expected="one", found="another")

    model = Marking(**{stage: wrong})
    with closing(Predictor(model, Kept(), _room=MemoryBudget(bytes_=1))) as predictor:
        for index in range(2 * BEGUN):
            with pytest.raises(UsageError):
                predictor.submit(asked(index, "a", "b")).result(PATIENCE)


MANY = [f"q{index}" for index in range(4 * BEGUN)]


@pytest.mark.parametrize(
    ("asked", "room"),
    [
        (batch(0, *MANY), MemoryBudget()),
        (tracks(0, *MANY), MemoryBudget(bytes_=1)),
        (tracks(0, "a", "b", "large" * 9), MemoryBudget(bytes_=3 * track_bytes(1 + 1))),
    ],
    ids=["many", "each-alone", "larger-than-what-is-left"],
)
def test_a_stage_that_waits_for_room_ends_with_the_run(asked, room):
    before = set(threading.enumerate())
    stuck = threading.Event()
    model = Counting(on_finish=lambda query: stuck.wait(PATIENCE))
    predictor = Predictor(model, Kept(), _room=room)
    done = predictor.submit(asked)
    time.sleep(0.1)
    predictor.close()
    with pytest.raises(CancelledError):
        done.result(PATIENCE)
    stuck.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE)
        assert not thread.is_alive(), thread.name


@pytest.mark.parametrize("stage", ["on_generate", "on_begin", "on_finish"])
def test_what_ends_the_run_ends_it_in_every_stage(stage, tmp_path):
    def wrong(_):
        raise UsageError("a setting", expected="one", found="another")

    model = Staged(**{stage: wrong})
    with pytest.raises(UsageError):
        list(LocalWorker(model, tmp_path, attempt=0).run([batch(0, "a"), batch(1, "b")]))
    assert model.halted == 1


def test_nothing_is_journalled_after_the_end():
    started, stuck, left = threading.Event(), threading.Event(), threading.Event()

    def on_finish(query):
        started.set()
        stuck.wait(PATIENCE)
        left.set()

    journal = Kept()
    predictor = Predictor(Staged(on_finish=on_finish), journal)
    done = predictor.submit(batch(0, "a", "b"))
    assert started.wait(PATIENCE)
    predictor.close()
    stuck.set()
    assert left.wait(PATIENCE)
    with pytest.raises((CancelledError, TimeoutError)):
        done.result(0.5)
    assert predictions(journal) == {}


def test_seconds_of_every_stage_and_what_it_holds_are_told(tmp_path):
    model = Staged(on_finish=lambda query: time.sleep(0.02))
    (outcome,) = wholes(LocalWorker(model, tmp_path, attempt=0).run([batch(0, "a", "b")]))
    assert list(outcome.stages) == ["language", "segmentation", "propagation"]
    assert outcome.stages["propagation"].seconds >= 0.04 > outcome.stages["language"].seconds
    assert all(1 <= one.samples <= 2 for one in outcome.stages.values())
    assert outcome.stages["language"].pixels == 2 * 4 * 4 * 3, "two images of 4 × 4 pixels"
    assert outcome.stages["propagation"].pixels == 0, "a number has no masks"
    for one in outcome.stages.values():
        (peak,) = one.peaks.values()
        assert peak.memory > 1 << 20


@pytest.mark.parametrize(("turns", "expected"), [(1, [0.25, 0.5]), (2, [None, None])])
def test_what_a_network_waited_is_counted_batch_by_batch(tmp_path, turns, expected):
    """Of several batches at once it could not be told whose the seconds are."""

    @dataclass
    class Waits(Staged):
        wait_seconds: float = 7.0

        def generate(self, queries):
            self.wait_seconds += 0.25 * (len(self.asked) + 1)
            return super().generate(queries)

    outcomes = LocalWorker(Waits(turns=turns), tmp_path, attempt=0).run(
        [batch(0, "a"), batch(1, "b")]
    )
    stages = [outcome.stages for outcome in wholes(outcomes)]
    assert [one["language"].wait_seconds for one in stages] == expected
    plain = to_json(sum_stages(stages))
    found = plain["language"].get("wait_seconds")
    assert found == (0.75 if turns == 1 else None)
    assert "wait_seconds" not in plain["segmentation"]


def test_what_a_stage_holds_is_counted_from_one_stage_to_the_next():
    stuck = threading.Event()
    predictor = Predictor(Staged(on_finish=lambda query: stuck.wait(PATIENCE)), Kept())
    done = predictor.submit(batch(0, *(f"q{index}" for index in range(4 * BEGUN))))
    deadline = time.monotonic() + PATIENCE
    while predictor._memory.maximum("propagation")[0] < BEGUN and time.monotonic() < deadline:
        time.sleep(0.01)
    stuck.set()
    stages = done.result(PATIENCE).stages
    predictor.close()
    found = {name: one.samples for name, one in stages.items()}
    assert found["language"] == 4 * BEGUN and found["propagation"] == BEGUN
    assert 3 * BEGUN <= found["segmentation"] <= 4 * BEGUN


def test_a_run_keeps_what_its_stages_cost(dots, tmp_path):
    from harness import plugins
    from harness.run.evaluate import evaluate
    from harness.run.options import Options
    from harness.spec import parse

    task = plugins.build("tasks", parse("dots"), dots)
    evaluate(task, parse("dot_finder"), tmp_path / "a", Options())
    (attempt,) = json.loads((tmp_path / "a" / "timing.json").read_text())["attempts"]
    assert attempt["stages"]["model"]["seconds"] > 0
    assert attempt["stages"]["model"]["samples_at_once"] >= 1
    assert attempt["stages"]["model"]["pixel_bytes_at_once"] > 0
    assert "process_peaks" not in attempt["stages"]["model"], "it is no stage's"
    (peak,) = attempt["memory"]["process_peak_bytes"]
    assert peak > 1 << 20


@dataclass
class Talks(Staged):
    """Answers by the sample; `on_response` is called with each query before its response."""

    by_sample: bool = True
    on_response: object = lambda query: None

    def generate_as_completed(self, queries):
        self.asked.append([one.id for one in queries])
        for place in reversed(range(len(queries))):
            self.on_response(queries[place])
            yield place, Said(len(queries[place].id))


def test_a_sample_is_journalled_and_told_of_while_its_batch_is_asked_for(tmp_path):
    info, journal = [], Kept()

    def on_response(query):
        deadline = time.monotonic() + PATIENCE
        while query.id == "a" and len(predictions(journal)) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        if query.id == "a":
            assert set(predictions(journal)) == {"c", "bb"}

    predictor = Predictor(Talks(on_response=on_response), journal, on_outcome=info.append)
    outcome = predictor.submit(batch(0, "a", "bb", "c")).result(PATIENCE)
    predictor.close()
    assert (outcome.failed, outcome.crashed, set(outcome.samples)) == (0, 0, {"a", "bb", "c"})
    assert [(one.samples, one.whole) for one in info] == [
        (("c",), False),
        (("bb",), False),
        (("a",), False),
    ]


def test_no_more_is_asked_for_while_many_samples_wait_for_their_masks():
    stuck, responded = threading.Event(), []
    model = Talks(
        on_response=lambda query: responded.append(query.id),
        on_finish=lambda query: stuck.wait(PATIENCE),
    )
    predictor = Predictor(model, Kept(), inline=False)
    done = []
    thread = threading.Thread(
        target=lambda: done.append(predictor.submit(batch(0, *map(str, range(3 * ANSWERED)))))
    )
    thread.start()
    deadline = time.monotonic() + PATIENCE
    while len(responded) < ANSWERED and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.2)  # long enough to run away, if it did
    assert len(responded) == ANSWERED
    stuck.set()
    thread.join(PATIENCE)
    assert done[0].result(PATIENCE).failed == 0 and len(responded) == 3 * ANSWERED
    predictor.close()


def test_a_fault_amid_responses_costs_the_sample_that_has_it():
    journal = Kept()

    def fails(query):
        if query.id == "bad":
            raise RuntimeError("broken")

    model = Talks(on_response=fails, on_generate=lambda queries: [fails(one) for one in queries])
    predictor = Predictor(model, journal)
    outcome = predictor.submit(batch(0, "a", "bb", "bad", "d")).result(PATIENCE)
    predictor.close()
    assert (outcome.failed, outcome.crashed) == (1, 1)
    assert [name for name, one in predictions(journal).items() if "failure" in one] == ["bad"]
    assert model.asked[1] == ["a", "bb", "bad"], "what was answered is not asked for again"


def test_what_the_journal_has_is_asked_with_the_others_and_not_written_again():
    """A model whose answers hang on their neighbours is asked for the whole batch again."""
    info, requested, journal = [], [], Kept()
    predictor = Predictor(
        Talks(on_response=lambda query: requested.append(query.id)), journal, on_outcome=info.append
    )
    again = replace(batch(0, "a", "bb", "c"), kept=frozenset({"a"}))
    predictor.submit(again).result(PATIENCE)
    predictor.close()
    assert set(requested) == {"a", "bb", "c"}
    assert set(predictions(journal)) == {sample for one in info for sample in one.samples}
    assert set(predictions(journal)) == {"bb", "c"}
