"""Rows of a board: no two of one name, and no number where nothing was answered."""

import json

import pytest

from harness.leaderboards.board import build
from harness.leaderboards.render import json as board_json
from harness.leaderboards.render import markdown
from harness.leaderboards.site.index import start_page
from harness.record import Run, finish
from harness.types import Failure, FailureKind, Prediction


def respecified(folder, spec, **manifest):
    """The run as one of another SPEC."""
    run = Run.open(folder)
    requested = {**run.manifest, "model": {**run.manifest["model"], "spec": spec}, **manifest}
    (folder / "manifest.json").write_text(json.dumps(requested))
    finish(folder, list(run.units()), {**run.results, "model_spec": spec})
    return folder


def names(*folders):
    tables = board_json.to_json(build(folders))["tables"]
    return [row.get("name", row["model"]) for table in tables for row in table["rows"]]


@pytest.mark.parametrize(
    ("specs", "wanted"),
    [
        (["one(checkpoint=./runs/my-one)"], {"one(my-one)"}),
        (["one(frames=4)", "one(frames=8)"], {"one(frames=4)", "one(frames=8)"}),
        (["one(frames=4,batch_size=2)", "one(frames=4)"], {"one(batch_size=2)", "one"}),
        (
            ["one(checkpoint=/a/b/x,prompt=locate)", "one(checkpoint=/a/c/x,prompt=locate)"],
            {"one(checkpoint=b/x)", "one(checkpoint=c/x)"},
        ),
        (
            ["one(segmenter=sam2(checkpoint=me/large))", "one(segmenter=grabcut)"],
            {"one(segmenter=sam2)", "one(segmenter=grabcut)"},
        ),
        (
            ["one(segmenter=sam2(checkpoint=me/large))", "one(segmenter=sam2(checkpoint=me/tiny))"],
            {"one(segmenter.checkpoint=large)", "one(segmenter.checkpoint=tiny)"},
        ),
        (
            ["saliency(a=1)", "one"],
            {"one(saliency)", "one(one)"},
        ),
        (
            ["one(a=1,b=1)", "one(a=1,b=2)", "one(a=2,b=1)"],
            {"one(a=1,b=1)", "one(a=1,b=2)", "one(a=2,b=1)"},
        ),
        (
            [f'one(prompt="Look at a/b closely, then answer {end}.")' for end in ("now", "later")],
            {
                'one(prompt="Look at a/b closely, then answer now.")',
                'one(prompt="Look at a/b closely, then answer later.")',
            },
        ),
        (
            [
                f'one(prompt="{word} at the picture before you answer it.")'
                for word in ("Look", "See")
            ],
            {
                'one(prompt="Look at the picture before you…")',
                'one(prompt="See at the picture before you…")',
            },
        ),
        (
            ["no SPEC (a b.jsonl)", "no SPEC (c.jsonl)"],
            {"one(no SPEC (a b.jsonl))", "one(no SPEC (c.jsonl))"},
        ),
    ],
)
def test_rows_of_one_model_are_named_by_the_settings_that_set_them_apart(make_run, specs, wanted):
    folders = [respecified(make_run(f"run{i}", shift=1 + i), spec) for i, spec in enumerate(specs)]
    assert sorted(names(*folders)) == sorted(wanted)


def test_runs_of_one_spec_are_named_by_seed_or_else_by_number(make_run):
    seeds = [respecified(make_run(f"s{seed}", shift=1 + seed), "one", seed=seed) for seed in (0, 1)]
    assert sorted(names(*seeds)) == ["one(seed=0)", "one(seed=1)"]
    same = [make_run(name, shift=3) for name in ("a", "b")]
    assert sorted(names(*same)) == ["one #1", "one #2"]
    assert names(make_run("c")) == ["one"]
    given = [make_run(name, shift=3, model="one (mine)") for name in ("d", "e")]
    assert sorted(names(*given)) == ["one (mine) #1", "one (mine) #2"]


def test_a_model_has_one_name_in_all_tables(make_run):
    folders = [
        respecified(make_run(f"{task}{frames}", task=task, shift=frames), f"one(frames={frames})")
        for task in ("disc_seg", "disc_video")
        for frames in (4, 8)
    ]
    found = names(*folders)
    assert len(found) == 4 and set(found) == {"one(frames=4)", "one(frames=8)"}
    made = build(folders)
    for text in (markdown.render(made), start_page(made).decode()):
        assert "one(frames=4)" in text and "one(frames=8)" in text
    rows = [row for table in board_json.to_json(made)["tables"] for row in table["rows"]]
    assert {row["model"] for row in rows} == {"one"}
    assert {row["name"] for row in rows} == set(found)


def test_no_settings_are_named_where_nothing_differs():
    from harness.leaderboards.naming import told_apart

    assert told_apart([{"a": "1"}, {"a": "1"}]) == ["", ""]
    assert told_apart([{"a": "1", "long": "x"}, {"a": "2", "long": "y"}]) == ["a=1", "a=2"]


def silent(kind):
    return lambda sample, number: Prediction(
        query_id=sample.query.id, failure=Failure(kind, "one cannot answer mask")
    )


def test_a_model_that_answered_nothing_has_no_number_and_is_not_compared(make_run):
    made = {
        kind: make_run(kind, model="mute", predict=silent(kind))
        for kind in (FailureKind.MODEL, FailureKind.PARSE)
    }
    board = build([make_run("a"), make_run("b", model="two", shift=4), made[FailureKind.MODEL]])
    (table,) = board.tables
    last = table.entries[-1]
    assert (last.row.name, last.row.value, last.rank) == ("mute", None, None)
    assert (last.to_best, last.row.interval) == (None, None)
    assert set(last.row.metrics.values()) == {None}
    (line,) = [line for line in markdown.render(board).split("\n") if line.startswith("| – | mute")]
    assert "0.000" not in line
    (table,) = build([make_run("c"), made[FailureKind.PARSE]]).tables
    assert table.entries[-1].row.value == 0  # of responses that cannot be read, it is a score
