"""A pilot: which samples it takes, what it says, and that it changes no byte of a run."""

import json
import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.media import pixels
from harness.run.batching import Batch, batches
from harness.run.forecast import Rates, mean_by_length, stored_rates, uneven_end
from harness.run.pilot import draw, predicted_length, without
from harness.summary import price
from harness.types import AnswerForm, Query

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))

from chat_server import Scripted, serving

from harness.cli.main import main
from harness.record import Run


def query(number, side):
    image = pixels([np.zeros((side, side, 3), np.uint8)], times=(0.0,), is_video=False, id="i")
    return Query(id=f"q{number}", text="", media=(image,), forms=(AnswerForm.NUMBER,))


def ids(several):
    return [query.id for batch in several for query in batch.queries]


@given(
    sides=st.lists(st.integers(1, 60), min_size=1, max_size=60),
    size=st.integers(1, 7),
    sort=st.booleans(),
    by_sample=st.booleans(),
    count=st.integers(1, 20),
    parts=st.integers(1, 3),
    seed=st.integers(0, 3),
)
def test_the_pilot_and_the_rest_are_the_plan_and_no_undivided_batch_is_cut(
    sides, size, sort, by_sample, count, parts, seed
):
    queries = [query(number, side) for number, side in enumerate(sides)]
    plan = list(batches(queries, size=size, sort=sort, run="r"))
    drawn = draw(plan, by_sample=by_sample, seed=seed)
    pilot = drawn.pilot(count)
    first = drawn.batches(pilot, size=size, workers=parts)
    assert len(set(ids(first))) == len(ids(first)), "nothing twice"
    assert len(ids(first)) >= min(count, len(sides)) - (0 if by_sample else size)
    assert drawn.samples == len(sides)
    assert drawn.mean_length == pytest.approx(sum(side**2 for side in sides) / 784 / len(sides))
    if by_sample:
        longest = max(map(predicted_length, queries))
        assert predicted_length(first[0].queries[0]) == longest
        known = set(ids(first))
        more = drawn.further(5, known)
        further = drawn.batches(more, size=size, workers=parts, first=len(first))
        known |= set(ids(further))
        indices = [batch.index for batch in (*plan, *first, *further)]
        assert len(set(indices)) == len(indices)
        assert all(len(batch.queries) <= size for batch in (*first, *further))
        rest = list(without(plan, known))
        assert sorted(ids(first) + ids(further) + ids(rest)) == sorted(ids(plan))
    else:
        assert all(batch in plan for batch in first)


def test_the_pilot_is_spread_over_the_lengths():
    plan = [Batch(number, (query(number, side),)) for number, side in enumerate(range(1, 71))]
    Random(0).shuffle(plan)
    for seed in range(5):
        first, *others = draw(plan, by_sample=True, seed=seed).pilot(8)
        assert ids([first.batch]) == ["q69"]
        places = [int(name[1:]) * 7 // 69 for name in ids(piece.batch for piece in others)]
        assert sorted(places) == [0, 1, 2, 3, 4, 5, 6], "one of each seventh"


def test_a_mean_is_corrected_where_a_line_explains_it_and_only_there():
    lengths = [1.0, 2.0, 3.0, 4.0]
    assert mean_by_length([3.0, 5.0, 7.0, 9.0], lengths, 5.0) == pytest.approx(11.0)
    assert mean_by_length([4.0, 6.0, 6.0, 4.0], lengths, 50.0) == 5.0
    assert mean_by_length([4.0], [1.0], 50.0) == 4.0


def test_places_that_are_empty_at_the_end_are_counted():
    """Of 200 equal samples in 64 places 64 are half done; the others take 2 turns, eight 3."""
    turns = [uneven_end([5.0], 64, 200, seed=seed) * 200 / 64 for seed in range(20)]
    assert all(2.9 < number < 3.4 for number in turns)
    assert uneven_end([1.0, 9.0], 1, 9, seed=0) == 1.0
    assert uneven_end([1.0], 4, 10_000, seed=0) == 1.0
    thinks = [uneven_end([1.0] * 19 + [100.0], 16, 100, seed=seed) for seed in range(20)]
    assert min(thinks) > 1, "the longest, of 100 turns of the others, ends the run"


def test_money_is_tokens_times_the_price_of_a_million():
    assert price((2.0, 10.0), 3_000_000, 500_000) == 11.0
    assert price(None, 3, 5) is None


def test_what_is_stated_is_the_rest():
    rates = Rates(samples=8, prompt_tokens=1000, completion_tokens=50, seconds=2.0, error=0.1)
    text = rates.text(1800)
    assert "1,800 samples" in text and "1.0 h (48.0 min to 1.2 h)" in text
    assert "1,800,000 prompt and 90,000 completion tokens" in text


def evaluated(model, task, data, out, *more, code=0):
    line = ["eval", "--model", model, "--tasks", task, "--data", data, "--out", out, "--quiet"]
    assert main([str(word) for word in [*line, *more]]) == code
    (path,) = out.rglob("manifest.json")
    return path.parent


def scores(folder):
    return {name: (folder / name).read_bytes() for name in ("results.json", "scores.jsonl")}


@pytest.mark.parametrize(
    ("model", "pilot", "more"),
    [
        ("dot_finder", 8, ()),
        ("dot_finder", 1, ("--batch-size", 3)),
        ("dot_finder", 8, ("--workers", 2)),
        ("dot_talker", 8, ()),
        ("dot_talker", 100, ("--batch-size", 3)),
        ("dot_talker", 8, ("--workers", 2)),
    ],
)
def test_a_run_with_a_pilot_has_the_same_bytes_and_predicts_nothing_twice(
    dots, tmp_path, model, pilot, more
):
    plain = evaluated(model, "dots", dots, tmp_path / "plain", *more)
    piloted = evaluated(model, "dots", dots, tmp_path / "with", "--pilot", pilot, *more)
    assert scores(piloted) == scores(plain)
    lines = [
        json.loads(line)["record"]
        for path in piloted.glob("samples.*")
        for line in path.read_text().splitlines()
    ]
    names = [record["sample"] for record in lines if "sample" in record]
    assert len(names) == len(set(names)) == 40
    if pilot < 40:
        assert stored_rates(piloted).samples > pilot - 3, "the last batch may be a small one"


@pytest.mark.parametrize("more", [(), ("--workers", 2)])
def test_a_server_is_asked_each_question_once_and_the_bytes_are_the_same(dots, tmp_path, more):
    with serving(Scripted()) as served:
        model = talker(served)
        unread = {"code": 1}  # the server's texts are not answers
        plain = evaluated(model, "dots", dots, tmp_path / "plain", *more, **unread)
        before = len(served.asked)
        piloted = evaluated(model, "dots", dots, tmp_path / "with", "--pilot", 4, *more, **unread)
        assert len(served.asked) == 2 * before
    assert scores(piloted) == scores(plain)
    usage = Run.open(piloted).results["usage"]
    assert stored_rates(piloted).completion_tokens == pytest.approx(usage["completion_tokens"] / 40)


def talker(served, **prices):
    given = "".join(f",{name}={value}" for name, value in prices.items())
    return (
        f"qwen_vl(backend=openai(base_url='{served.url}',model={served.model},"
        f"coordinates=pixels,concurrency=4{given}),segmenter=box)"
    )
