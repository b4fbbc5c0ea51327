import dataclasses
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import plugins
from harness.errors import StoreError, UnknownPlugin
from harness.leaderboards import ranking
from harness.leaderboards.board import build
from harness.leaderboards.ranking import rank
from harness.leaderboards.render import json as board_json
from harness.leaderboards.row import row
from harness.record import Run, finish
from harness.statistics.paired import Comparison


def change(path, **values):
    plain = json.loads(path.read_text())
    plain.update(values)
    path.write_text(json.dumps(plain))


def test_a_row_holds_what_the_record_says(make_run):
    folder = make_run("a", failing={0, 1})
    made = row(Run.open(folder))
    results = json.loads((folder / "results.json").read_text())
    assert made.value == results["metrics"]["giou"]
    assert made.interval == tuple(results["intervals"]["giou"])
    assert made.answered_share == 38 / 40
    assert made.failures["parse"] == 2
    assert made.seconds == 61.5
    assert (made.run, made.commit, made.seed) == ("a", "0123456789abcdef", 0)


def test_a_row_needs_no_timing(make_run):
    folder = make_run("a")
    (folder / "timing.json").unlink()
    assert row(Run.open(folder)).seconds is None


def test_a_row_has_the_highest_peak_of_all_attempts_and_earlier_runs_have_none(make_run):
    folder = make_run("a")
    assert row(Run.open(folder)).process_peak_bytes is None
    before = {"stages": {"model": {"seconds": 1.0, "memory_bytes": 9 << 30}}}
    attempts = [
        before,
        {"memory": {"process_peak_bytes": [3 << 30, 1 << 30]}},
        {"memory": {"process_peak_bytes": [2 << 30]}},
    ]
    change(folder / "timing.json", attempts=attempts)
    made = row(Run.open(folder))
    assert (made.process_peak_bytes, made.process_gpu_peak_bytes) == (3 << 30, None)
    attempts[2]["memory"]["process_gpu_peak_bytes"] = [16 << 30]
    change(folder / "timing.json", attempts=attempts)
    assert row(Run.open(folder)).process_gpu_peak_bytes == 16 << 30


@pytest.mark.parametrize(
    "attempts", [5, [1], [{"memory": 3}], [{"memory": {"process_peak_bytes": ["x"]}}]]
)
def test_a_damaged_record_of_memory_does_a_board_no_harm(make_run, attempts):
    folder = make_run("a")
    change(folder / "timing.json", attempts=attempts)
    assert row(Run.open(folder)).process_peak_bytes is None


@pytest.mark.parametrize(
    "results",
    [
        {"n_scored": 41},
        {"n_total": 0, "n_scored": 0},
        {"headline": "missing"},
        {"failures": {"parse": 1}},
        {"intervals": {"giou": [1]}},
        {"metrics": None},
    ],
    ids=["sum", "none", "headline", "kinds", "interval", "metrics"],
)
def test_a_record_that_contradicts_itself_is_refused(make_run, results):
    folder = make_run("a", changes={"results": results})
    with pytest.raises(StoreError, match="run "):
        row(Run.open(folder))


def test_runs_are_ranked_best_first_and_equals_share_a_rank(world):
    table = build(world.runs).tables[0]
    assert table.title == "disc_seg val"
    ranks = [(entry.row.model.split()[0], entry.rank, entry.basis) for entry in table.entries]
    assert ranks == [("steady", 1, None), ("evil", 1, "paired"), ("clumsy", 3, "paired")]
    assert table.entries[0].to_best is None
    assert not table.entries[1].to_best.is_worse
    assert table.entries[2].to_best.is_worse
    assert table.notes == ()


def test_a_derived_headline_is_compared_in_pairs_through_the_task(world):
    table = build(world.runs).tables[1]
    assert table.headline == "J&F"
    assert [entry.basis for entry in table.entries] == [None, "paired", "paired"]
    best, last = table.entries[0], table.entries[2]
    assert last.to_best.difference == pytest.approx(last.row.value - best.row.value)


def test_a_derived_headline_without_its_data_is_ranked_by_intervals_and_says_so(world, tmp_path):
    table = build(world.runs, data_root=tmp_path / "gone").tables[1]
    assert [entry.basis for entry in table.entries] == [None, "intervals", "intervals"]
    assert [entry.rank for entry in table.entries] == [1, 1, 3]
    assert "J&F" in table.notes[0]
    assert table.entries[2].to_best is None


def test_a_quotient_needs_no_data_at_all(world, tmp_path, monkeypatch):
    def build_none(*_, **__):
        raise UnknownPlugin("task 'disc_seg'")

    monkeypatch.setattr(plugins, "build", build_none)
    table = build(world.runs, data_root=tmp_path / "gone").tables[0]
    assert [entry.basis for entry in table.entries] == [None, "paired", "paired"]


@pytest.mark.parametrize(
    "changed",
    [
        {"results": {"protocol": "seg/visionreasoner"}},
        {"results": {"subset": "first20"}},
        {"results": {"split": "test"}},
        {"results": {"task_version": 2}},
        {"data": {"fingerprint": "beef" * 8}},
        {"arguments": {"judge": "a judge", "rubric": "graded"}},
    ],
    ids=["protocol", "subset", "split", "version", "data", "judge"],
)
def test_what_cannot_be_compared_never_shares_a_ranking(make_run, changed):
    folders = [make_run("a"), make_run("b", model="two", changes=changed)]
    tables = build(folders).tables
    assert [len(table.entries) for table in tables] == [1, 1]
    assert [table.entries[0].rank for table in tables] == [1, 1]


def test_tables_that_differ_in_their_data_only_say_so(make_run):
    other = {"data": {"fingerprint": "beef" * 8}}
    tables = build([make_run("a"), make_run("b", changes=other)]).tables
    assert "beefbeefbeef" in tables[0].notes[0]
    assert "f00df00df00d" in tables[1].notes[0]
    assert build(make_run("c")).tables[0].notes == ()


def test_for_an_error_the_lowest_is_the_best(make_run):
    headline = {"results": {"headline": "area_error"}}
    folders = [
        make_run("a", model="good", shift=1, changes=headline),
        make_run("b", model="bad", failing=range(12), changes=headline),
    ]
    table = build(folders).tables[0]
    assert [entry.row.model for entry in table.entries] == ["good", "bad"]
    assert [entry.rank for entry in table.entries] == [1, 2]


def test_a_row_without_a_number_comes_last_and_has_no_rank(make_run, rewrite):
    def nothing(units):
        for unit in units:
            unit["scores"].clear()

    folders = [
        rewrite(make_run("a", model="none"), nothing),
        make_run("b", model="some", shift=9),
    ]
    table = build(folders).tables[0]
    assert [(e.row.model, e.rank) for e in table.entries] == [("some", 1), ("none", None)]


def test_runs_on_other_units_are_not_paired(make_run, rewrite):
    folders = [make_run("a"), make_run("b", model="two", shift=20)]
    rewrite(folders[1], lambda units: units[0].update(unit="elsewhere"))
    table = build(folders).tables[0]
    assert [entry.basis for entry in table.entries][1] == "intervals"
    assert "elsewhere" in table.notes[0]


def test_a_folder_without_a_finished_run_is_an_error(tmp_path):
    with pytest.raises(StoreError, match=rf"{re.escape(str(tmp_path))}: .*none.*results\.json"):
        build(tmp_path)


def test_a_run_named_twice_counts_once(make_run):
    folder = make_run("a")
    assert len(build([folder, folder.parent]).tables[0].entries) == 1


def test_the_board_is_the_same_every_time(world):
    first = board_json.render(build(world.runs))
    assert first == board_json.render(build(world.runs))


def comparison(worse):
    return Comparison(
        metric="giou",
        better="higher",
        a=0.5,
        b=0.4,
        difference=-0.1,
        p_value=0.01,
        interval=(-0.2, -0.1) if worse else (-0.2, 0.1),
        detectable=0.1,
        n_groups=9,
        n_differing=9,
        n_units=9,
        n_samples=9,
        level=0.95,
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7), st.randoms(use_true_random=False))
def test_rank_1_is_what_the_differences_to_the_best_say_and_others_start_at_their_place(
    values, random
):
    rows = [stub(value) for value in values]
    verdicts = {(a, b): random.random() < 0.5 for a in range(len(rows)) for b in range(len(rows))}
    places = rank(rows, lambda a, b: comparison(verdicts[a, b]))
    ranks = [place.rank for place in places]
    assert ranks[0] == 1
    assert [rank == 1 for rank in ranks[1:]] == [not one.to_best.is_worse for one in places[1:]]
    others = [rank for rank in ranks if rank != 1]
    assert others == sorted(others)
    assert all(ranks[number - 1] == number for number in set(ranks))
    qualities = [rows[place.index].quality for place in places]
    assert qualities == sorted(qualities, reverse=True)


def stub(value, interval=None):
    @dataclasses.dataclass
    class Stub:
        value: float
        quality: float
        run: str
        interval: tuple[float, float] | None
        better: dict
        headline: str = "giou"

    return Stub(value, value, f"run{value}", interval, {"giou": "higher"})


def test_rows_that_cannot_be_paired_share_a_rank_while_their_intervals_overlap():
    rows = [stub(0.9, (0.8, 1.0)), stub(0.75, (0.7, 0.85)), stub(0.6, (0.5, 0.7))]
    places = rank(rows, lambda a, b: None)
    assert [(place.rank, place.basis) for place in places] == [
        (1, None),
        (1, "intervals"),
        (3, "intervals"),
    ]


def test_rows_without_intervals_share_a_rank():
    places = rank([stub(0.5), stub(0.5), stub(0.4)], lambda a, b: None)
    assert [(place.rank, place.basis) for place in places] == [
        (1, None),
        (1, "untested"),
        (1, "untested"),
    ]
    assert ranking.rank([], lambda a, b: None) == []


def test_a_row_that_is_not_shown_to_be_worse_than_the_best_shares_rank_1():
    """Whatever stands between: its interval to the best holds 0, on the same screen."""
    rows = [stub(0.9), stub(0.8), stub(0.7), stub(0.6)]
    places = rank(rows, lambda a, b: comparison((a, b) != (0, 2)))
    assert [place.rank for place in places] == [1, 2, 1, 4]


def test_a_row_is_held_against_the_first_row_of_the_rank_above_it():
    rows = [stub(0.9), stub(0.6), stub(0.5)]
    places = rank(rows, lambda a, b: comparison((a, b) != (1, 2)))
    assert [place.rank for place in places] == [1, 2, 2]
    assert all(place.to_best.is_worse for place in places[1:])


def test_a_run_whose_ground_truth_is_hidden_is_left_out(make_run):
    kept, hidden = make_run("a"), make_run("b")
    results = json.loads((hidden / "results.json").read_text())
    nothing = {"metrics": dict.fromkeys(results["metrics"]), "breakdowns": {}}
    (hidden / "scores.jsonl").unlink()
    finish(hidden, None, {**results, **nothing})
    tables = build([kept, hidden]).tables
    assert [entry.row.run for table in tables for entry in table.entries] == ["a"]
    assert build([hidden]).tables == ()
