"""The seconds that a pilot states, against a simulated server whose seconds are known."""

import heapq
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

from harness.media import pixels
from harness.run.batching import batches
from harness.run.forecast import stored_rates
from harness.run.options import Options
from harness.run.piloted import PilotedRun
from harness.run.predict import Outcome
from harness.run.workers import WorkerInfo
from harness.types import AnswerForm, Query


class Journal:
    """Answers of a known number of tokens."""

    def __init__(self, tokens):
        self.places = {}
        self.tokens = tokens

    def record(self, query):
        return {"prediction": {"usage": [100, self.tokens[query], 0, 0]}}

    def refresh(self):
        pass


class Server:
    """Takes the next query in the place that is free first; `late`: more for the very first."""

    def __init__(self, tokens, places, rate, slots, late):
        self.tokens, self.places, self.rate = tokens, places, rate
        self.slots, self.late, self.now = min(slots, places), late, 1000.0

    def run(self, plan):
        queries = [query for batch in plan for query in batch.queries]
        free, ends = [self.now] * self.slots, []
        for query in queries:
            end = free[0] + self.tokens[query.id] / self.rate + self.late
            self.late = 0.0
            heapq.heapreplace(free, end)
            ends.append((end, query.id))
        for end, name in sorted(ends):
            self.now = end
            yield Outcome(0, (name,), ended=end, is_whole_batch=False)


def queries(lengths):
    image = pixels([np.zeros((28, 28, 3), np.uint8)], times=(0.0,), is_video=False, id="i")
    return [
        Query(id=f"{place:04}", text="x" * length, media=(image,), forms=(AnswerForm.NUMBER,))
        for place, length in enumerate(lengths)
    ]


def stated(tmp_path, monkeypatch, lengths, tokens, *, places, slots=10**6, late=0.0):
    """The seconds a pilot of 8 states and those that the rest then takes; None: it states none."""
    asked = queries(lengths)
    by_id = {query.id: count for query, count in zip(asked, tokens, strict=True)}
    server = Server(by_id, places, 10.0, slots, late)
    monkeypatch.setattr("harness.run.piloted.time", lambda: server.now)
    info = WorkerInfo("m", 16, False, {}, ahead=3, by_sample=True, at_once=places)
    moments, done = [], set()
    run = PilotedRun(
        task=SimpleNamespace(name="t"),
        folder=tmp_path,
        options=Options(pilot=8),
        info=info,
        manifest={"model": {}, "provenance": {"device": "cpu"}},
        journal=Journal(by_id),
        samples=list,
        lookup=lambda query: None,
        stages=dict,
        note=lambda text: moments.append((server.now, run.n_left, stored_rates(tmp_path))),
    )

    def remaining(places):
        left = [query for query in asked if query.id not in done]
        return batches(left, size=16, sort=False)

    for outcome in run.outcomes(server, SimpleNamespace(remaining=remaining)):
        done.update(outcome.samples)
        run.finished(outcome.samples, outcome.ended)
    assert len(done) == len(asked) and run.n_left == 0
    for now, left, rates in moments:
        if rates.seconds is not None:
            return rates.seconds * left, server.now - now
    return None


def test_answers_by_length_one_at_a_time_are_foretold_by_eight(tmp_path, monkeypatch):
    lengths = [Random(place).randrange(40, 4000) for place in range(400)]
    tokens = [10 + length // 10 for length in lengths]
    said, taken = stated(tmp_path, monkeypatch, lengths, tokens, places=1, late=500.0)
    assert said == pytest.approx(taken, rel=0.05)


@pytest.mark.parametrize("places", [4, 16, 64])
@pytest.mark.parametrize("slots", [10**6, 8])
def test_many_at_once_are_foretold_by_those_that_were_at_work_together(
    tmp_path, monkeypatch, places, slots
):
    tokens = [Random(place).randrange(50, 150) for place in range(1000)]
    given = {"places": places, "slots": slots, "late": 50.0}
    said, taken = stated(tmp_path, monkeypatch, [400] * 1000, tokens, **given)
    assert said == pytest.approx(taken, rel=0.1)


def test_a_plan_in_order_of_length_is_foretold(tmp_path, monkeypatch):
    """The first are the shortest, so that the speed at the start is not that of the run."""
    lengths = sorted(Random(place).randrange(40, 4000) for place in range(600))
    tokens = [10 + length // 10 for length in lengths]
    said, taken = stated(tmp_path, monkeypatch, lengths, tokens, places=8)
    assert said == pytest.approx(taken, rel=0.15)


@pytest.mark.parametrize("places", [1, 4, 16])
def test_a_run_of_few_more_samples_than_the_pilot_ends(tmp_path, monkeypatch, places):
    for count in range(9, 18):
        stated(tmp_path, monkeypatch, [400] * count, [100] * count, places=places)
