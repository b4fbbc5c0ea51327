"""Seconds of stages, and samples journalled while a batch is asked."""

import json
import threading
import time
from dataclasses import dataclass, replace

import pytest

from harness.run.pipeline import Predictor
from harness.run.pixels import MAX_ANSWERED, MAX_BEGUN
from harness.run.timing import sum_stages, to_json
from harness.run.workers import LocalWorker

from .staged_models import PATIENCE, Kept, Said, Staged, batch, predictions, wholes


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
    done = predictor.submit(batch(0, *(f"q{index}" for index in range(4 * MAX_BEGUN))))
    deadline = time.monotonic() + PATIENCE
    while predictor._memory.maximum("propagation")[0] < MAX_BEGUN and time.monotonic() < deadline:
        time.sleep(0.01)
    stuck.set()
    stages = done.result(PATIENCE).stages
    predictor.close()
    found = {name: one.samples for name, one in stages.items()}
    assert found["language"] == 4 * MAX_BEGUN and found["propagation"] == MAX_BEGUN
    assert 3 * MAX_BEGUN <= found["segmentation"] <= 4 * MAX_BEGUN


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
    assert [(one.samples, one.is_whole_batch) for one in info] == [
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
        target=lambda: done.append(predictor.submit(batch(0, *map(str, range(3 * MAX_ANSWERED)))))
    )
    thread.start()
    deadline = time.monotonic() + PATIENCE
    while len(responded) < MAX_ANSWERED and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.2)  # long enough to run away, if it did
    assert len(responded) == MAX_ANSWERED
    stuck.set()
    thread.join(PATIENCE)
    assert done[0].result(PATIENCE).failed == 0 and len(responded) == 3 * MAX_ANSWERED
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
