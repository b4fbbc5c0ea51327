"""What is evaluated and was trained on is flagged, and refused where that is asked for."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness import plugins
from harness.cli import contamination
from harness.cli.main import main
from harness.errors import StoreError
from harness.leaderboards.row import row
from harness.record import Run
from harness.run.contamination import (
    Contamination,
    checkpoints,
    read_contamination,
    samples_of_model,
    with_images,
)
from harness.run.training_record import TrainedSample, write_samples
from harness.spec import parse

REPOSITORY = Path(__file__).resolve().parents[2]
DATA = REPOSITORY / "tasks" / "reason_seg" / "example"


@pytest.fixture(scope="module")
def rows():
    """What a training on all of reason_seg's example keeps."""
    task = plugins.build("tasks", parse("reason_seg"), DATA)
    return list(
        with_images([TrainedSample.of_sample(task, sample) for sample in task.samples()], task)
    )


@pytest.fixture
def evaluate(tmp_path, monkeypatch):
    """Evaluates a model without weights, as if its checkpoint had been trained on something."""

    def evaluated(known, *more):
        monkeypatch.setattr(contamination, "samples_of_model", lambda model: known)
        return main(
            [
                "eval",
                "--model",
                "whole_frame",
                "--tasks",
                "reason_seg",
                "--data",
                str(DATA),
                "--out",
                str(tmp_path / "runs"),
                "--quiet",
                *more,
            ]
        )

    return evaluated


def test_a_run_says_how_much_of_it_was_trained_on(evaluate, rows, tmp_path, capsys):
    assert evaluate(rows[:1], "--json") == 0
    output = capsys.readouterr()
    found = json.loads(output.out)["tasks"]["reason_seg"]["trained_on"]
    assert (found["n_total"], found["samples"], found["examples"]) == (3, 1, [rows[0].id])
    assert "1 of 3 samples" in output.err and rows[0].id in output.err
    (folder,) = (path.parent for path in (tmp_path / "runs").rglob("results.json"))
    assert read_contamination(folder) == row(Run.open(folder)).trained_on
    assert row(Run.open(folder)).trained_on_some


def test_the_board_marks_such_a_row_and_what_is_kept_of_it_too(evaluate, rows, tmp_path, capsys):
    assert evaluate(rows[:1]) == 0
    runs, kept = tmp_path / "runs", tmp_path / "kept"
    assert main(["board", "keep", "--runs", str(runs), "--out", str(kept)]) == 0
    for place in (runs, kept):
        board = tmp_path / f"board-{place.name}"
        assert main(["board", "build", "--runs", str(place), "--out", str(board)]) == 0
        text = (board / "board.md").read_text("utf-8")
        assert any("whole_frame" in one and "†" in one for one in text.splitlines())
        assert "1 of 3 samples" in text
        (entry,) = json.loads((board / "board.json").read_text())["tables"][0]["rows"]
        assert entry["trained_on"]["samples"] == 1
    capsys.readouterr()


def test_a_strict_split_is_refused_before_anything_is_predicted(evaluate, rows, tmp_path, capsys):
    assert evaluate(rows, "--strict-split") == 2
    output = capsys.readouterr().err
    assert (
        "--strict-split: whole_frame" in output
        and "reason_seg" in output
        and "3 of 3 samples" in output
    )
    assert not (tmp_path / "runs").exists()


def test_a_clean_split_passes_and_is_recorded_as_clean(evaluate, rows, tmp_path, capsys):
    others = [replace(one, task="other", images=("ab" * 32,)) for one in rows]
    assert evaluate(others, "--strict-split", "--json") == 0
    output = capsys.readouterr()
    assert "trained" not in output.err
    assert json.loads(output.out)["tasks"]["reason_seg"]["trained_on"]["images"] == 0
    (folder,) = (path.parent for path in (tmp_path / "runs").rglob("results.json"))
    assert row(Run.open(folder)).trained_on is not None
    assert not row(Run.open(folder)).trained_on_some


def test_a_checkpoint_that_does_not_say_is_told_and_not_refused(evaluate, tmp_path, capsys):
    assert evaluate(None, "--strict-split") == 0
    error = capsys.readouterr().err
    assert "whole_frame" in error and "trained" in error
    (folder,) = (path.parent for path in (tmp_path / "runs").rglob("results.json"))
    assert read_contamination(folder) is None and row(Run.open(folder)).trained_on is None


def test_the_same_images_under_another_benchmarks_name_are_refused_too(evaluate, rows, capsys):
    elsewhere = [replace(one, task="other", id="x", group="y", question="") for one in rows[:2]]
    assert evaluate(elsewhere, "--strict-split") == 2
    assert "2 more " in capsys.readouterr().err


def test_only_the_part_that_is_evaluated_counts(evaluate, rows, tmp_path, capsys):
    assert evaluate(rows[2:], "--subset", "first2", "--strict-split") == 0
    assert evaluate(rows[:1], "--subset", "first1", "--strict-split", "--restart") == 2
    capsys.readouterr()


def test_a_finished_run_is_not_compared_again(evaluate, rows, capsys):
    assert evaluate(rows[:1]) == 0
    capsys.readouterr()
    assert evaluate(None, "--json") == 0
    assert json.loads(capsys.readouterr().out)["tasks"]["reason_seg"]["trained_on"]["samples"] == 1


def test_an_edited_overlap_is_computed_again_or_refused(evaluate, rows, tmp_path, capsys):
    assert evaluate(rows[:1]) == 0
    (path,) = (tmp_path / "runs").rglob("trained_on.json")
    true = path.read_bytes()
    edited = true.replace(b'"samples": 1', b'"samples": 0')
    assert edited != true
    path.write_bytes(edited)
    assert evaluate(None, "--rescore") == evaluate(rows[:1]) == 5
    assert path.name in capsys.readouterr().err and path.read_bytes() == edited
    assert evaluate(rows[:1], "--rescore") == 0
    assert path.read_bytes() == true
    assert main(["board", "build", "--runs", str(path.parent), "--out", str(tmp_path / "b")]) == 0


def test_checkpoints_are_found_wherever_a_spec_names_them(tmp_path, rows):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    spec = parse(
        f"m(checkpoint={one},backend=b(checkpoint={two},size=3),other=c(checkpoint=/none))"
    )
    assert list(checkpoints(spec)) == [one, two]
    assert samples_of_model(spec) is None and list(checkpoints(None)) == []
    write_samples(two / "harness_samples.jsonl", rows)
    assert samples_of_model(spec) == rows


def test_an_adapter_was_trained_on_what_its_training_was(tmp_path, rows):
    training, copied = tmp_path / "training", tmp_path / "copied" / "adapter"
    for folder in (training / "adapter", copied):
        folder.mkdir(parents=True)
    (training / "manifest.json").write_text("{}")
    write_samples(training / "samples.jsonl", rows)
    for named, found in (
        (training / "adapter", training),
        (training, training),
        (copied, copied),
    ):
        spec = parse(f"m(checkpoint=none/none,backend=transformers(adapter={named}))")
        assert list(checkpoints(spec)) == [found]
        assert samples_of_model(spec) == (None if named == copied else rows)


@pytest.mark.parametrize(
    "plain",
    [
        {},
        [],
        {"n_total": 3, "samples": 4, "images": 0, "examples": [], "alike": 0},
        {"n_total": 3, "samples": "1", "images": 0, "examples": [], "alike": 0},
        {"n_total": 3, "samples": 1, "images": 0, "examples": [], "more": 0},
    ],
)
def test_a_flag_that_was_tampered_with_is_refused(tmp_path, plain):
    (tmp_path / "trained_on.json").write_text(json.dumps(plain))
    with pytest.raises(StoreError, match=r"trained_on\.json"):
        read_contamination(tmp_path)


def test_an_overlap_is_told_in_words():
    assert str(Contamination(5, 0, 0, ())) == "no sample and no image of it was trained on"
    assert str(Contamination(5, 1, 2, ("a",), 2)) == (
        "1 of 5 samples, and images of 2, were trained on; 2 more look like images that were (a, …)"
    )
