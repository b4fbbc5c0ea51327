"""Masks that stages hold, and the end of a run."""

import threading
import time
from concurrent.futures import CancelledError
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import pytest

from harness.errors import UsageError
from harness.masks import Rle
from harness.media import pixels
from harness.run.batching import Batch
from harness.run.pipeline import Predictor
from harness.run.pixels import MAX_BEGUN, MemoryBudget
from harness.run.workers import LocalWorker
from harness.types import Answer, AnswerForm, Query

from .staged_models import PATIENCE, Kept, Staged, batch, predictions


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
    predictor = Predictor(model, Kept(), _budget=MemoryBudget(bytes_=2 * need))
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
        Predictor(model, Kept(), _budget=MemoryBudget(bytes_=3 * track_bytes(1 + 1)))
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
        with closing(Predictor(model, journal, _budget=kept)) as predictor:
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
    with closing(Predictor(model, Kept(), _budget=MemoryBudget(bytes_=1))) as predictor:
        for index in range(2 * MAX_BEGUN):
            with pytest.raises(UsageError):
                predictor.submit(asked(index, "a", "b")).result(PATIENCE)


MANY = [f"q{index}" for index in range(4 * MAX_BEGUN)]


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
    predictor = Predictor(model, Kept(), _budget=room)
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
