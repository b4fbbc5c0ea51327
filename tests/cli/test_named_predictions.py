"""Predictions of one method under one name are one row, wherever they lie."""

import json
from pathlib import Path

import pytest

from harness import plugins
from harness.cli.main import main
from harness.errors import StoreError
from harness.leaderboards.board import build
from harness.record import Run, finish
from harness.run.batching import samples_of

TASKS = Path(__file__).resolve().parents[2] / "tasks"


def score(folder, task, out, *more):
    """Score a file that says of every sample that nothing is there, and return its board."""
    root = TASKS / task / "example"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        {"id": one.id, "no_target": True} for one in samples_of(plugins.build("tasks", task, root))
    ]
    (folder / "some.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    given = ["--tasks", task, "--data", str(root), "--predictions", str(folder / "some.jsonl")]
    assert main(["score", *given, "--out", str(out), *more]) == 0


def evaluate(folder, task, out, *more):
    """Score the same file by the model `replay`."""
    score(folder, task, folder / "scored")
    given = ["--tasks", task, "--data", str(TASKS / task / "example"), "--out", str(out), "--quiet"]
    model = f"replay(file={folder / 'some.jsonl'})"
    assert main(["eval", "--model", model, *given, *more]) == 0


def rows(out):
    return [(table.task, entry.row.name) for table in build(out).tables for entry in table.entries]


@pytest.mark.parametrize("folders", [("png", "vid"), ("a/preds", "b/preds")])
@pytest.mark.parametrize("makers", [(score, score), (evaluate, evaluate), (score, evaluate)])
def test_one_name_is_one_row_wherever_predictions_lie(tmp_path, folders, makers):
    for folder, task, make in zip(folders, ("reason_seg", "mevis"), makers, strict=True):
        make(tmp_path / folder, task, tmp_path / "runs", "--name", "lisa")
    assert sorted(rows(tmp_path / "runs")) == [("mevis", "lisa"), ("reason_seg", "lisa")]


@pytest.mark.parametrize("make", [score, evaluate])
def test_two_runs_of_one_name_in_one_table_are_refused_and_both_are_named(tmp_path, make):
    for place in ("first", "second"):
        make(tmp_path / place, "reason_seg", tmp_path / "runs" / place, "--name", "lisa")
    score(tmp_path / "third", "reason_seg", tmp_path / "runs", "--name", "visa")
    with pytest.raises(StoreError, match=r"lisa.*first/lisa/reason_seg and second/lisa/reason_seg"):
        build(tmp_path / "runs")
    board = build(tmp_path / "runs", names_refused=True)
    assert [entry.row.name for table in board.tables for entry in table.entries] == ["visa"]
    assert [one.model for one in board.refused] == ["lisa", "lisa"]


def test_runs_of_one_name_are_named_also_where_one_path_is_relative(tmp_path, monkeypatch):
    for place in ("first", "second"):
        score(tmp_path / place, "reason_seg", tmp_path / "runs" / place, "--name", "lisa")
    monkeypatch.chdir(tmp_path / "runs")
    with pytest.raises(StoreError, match=r"first/lisa/reason_seg and second/lisa/reason_seg"):
        build([Path("first"), tmp_path / "runs" / "second"])


def test_earlier_runs_that_recorded_the_file_are_told_apart_by_their_names(tmp_path):
    for name in ("lisa", "visa"):
        score(tmp_path / name, "reason_seg", tmp_path / "runs", "--name", name)
        run = Run(tmp_path / "runs" / name / "reason_seg")
        run.manifest["model"]["spec"] = spec = "predictions(some.jsonl)"
        results = {**run.results, "model_spec": spec}
        finish(run.folder, list(run.units()), results, manifest=run.manifest)
    assert sorted(rows(tmp_path / "runs")) == [("reason_seg", "lisa"), ("reason_seg", "visa")]
