"""`--judge`: settled before anything runs, recorded, kept in the run, and never needed again."""

import json
import shutil

import pytest

from harness.cli import judge as judges
from harness.cli.main import main
from harness.errors import ModelError
from harness.judging import rubric as find_rubric
from harness.record import Run
from harness.run.judging import remember

TASK = "v_star(where=text)"


class Grader:
    """Rates by the length of the answer, and counts how often it is asked."""

    name = "grader(v=1)"

    def __init__(self):
        self.asked = 0

    def judge(self, rubric, question, answer, truth):
        self.asked += 1
        return find_rubric(rubric).verdict(str(len(answer) % 4))


@pytest.fixture
def grader(monkeypatch):
    made = Grader()
    build = judges.build_judge
    monkeypatch.setattr(judges, "build_judge",
                        lambda text: made if text == "grader" else build(text))  # fmt: skip
    from harness.cli import score

    monkeypatch.setattr(score, "build_judge", judges.build_judge)
    return made


@pytest.fixture
def said(example_of, tmp_path):
    """A file of predictions whose answers to "what" need a judge."""
    items = json.loads((example_of / "v_star" / "V_STaR_test.json").read_text())
    seen, lines = {}, []
    for item in items:
        seen[item["vid"]] = seen.get(item["vid"], 0) + 1
        unit = item["vid"] + (f"#{seen[item['vid']]}" if seen[item["vid"]] > 1 else "")
        boxes = {str(box["timestamp"]): [box["xmin"], box["ymin"], box["xmax"], box["ymax"]]
                 for box in item["bboxes"]}  # fmt: skip
        answers = {"what": "a" * (len(lines) + 2), "when": item["timestamps"],
                   "where": json.dumps(boxes), "where2": "{}", "when2": [0, 1]}  # fmt: skip
        lines += [{"id": f"{unit}/{step}", "answer": answer} for step, answer in answers.items()]
    path = tmp_path / "said.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture(scope="module")
def example_of():
    from pathlib import Path

    return Path(__file__).resolve().parents[2] / "tasks" / "v_star" / "example"


def run(capsys, *arguments, code=0):
    assert main([*map(str, arguments)]) == code
    out = capsys.readouterr()
    return json.loads(out.out) if "--json" in arguments and not code else out.err


@pytest.mark.parametrize(
    ("judge", "said_of_it"),
    [
        ([], "expected --judge SPEC"),
        (["--judge", "no_such_judge"], "no_such_judge"),
        (["--judge", "stored(file=/nowhere/verdicts.jsonl)"], "a file of verdicts"),
        (["--judge", "chat(backend=transformers(checkpoint=/nowhere))"], "/nowhere"),
    ],
)  # fmt: skip
def test_a_judge_that_is_absent_or_cannot_be_had_is_told_before_anything_runs(
    capsys, example_of, tmp_path, said, judge, said_of_it
):
    out = tmp_path / "runs"
    common = ["--tasks", TASK, "--data", example_of, "--out", out, *judge]
    for command in (["eval", "--model", "whole_frame"], ["score", "--predictions", said]):
        error = run(capsys, *command, *common, code=2)
        assert said_of_it in error
    assert not out.exists()


def test_a_judge_that_nothing_needs_is_a_mistake(capsys, example_of, grader, tmp_path, said):
    data = example_of.parents[1] / "sti_bench" / "example"
    error = run(capsys, "score", "--predictions", said, "--tasks", "sti_bench", "--data", data,
                "--judge", "grader", code=2)  # fmt: skip
    assert "a task whose answers are judged" in error and grader.asked == 0


def test_verdicts_are_kept_in_the_run_and_replayed(capsys, example_of, grader, tmp_path, said):
    command = ["eval", "--model", f"replay(file={said})", "--tasks", TASK, "--data", example_of,
               "--out", tmp_path / "runs", "--json"]  # fmt: skip
    first = run(capsys, *command, "--judge", "grader")["tasks"]["v_star"]
    assert grader.asked == 3 and first["metrics"]["Acc"] == pytest.approx(2 / 3)
    (folder,) = {path.parent for path in (tmp_path / "runs").rglob("results.json")}
    told = Run.open(folder).manifest["task"]["arguments"]
    assert told["judge"] == "grader(v=1)" and told["rubric"].startswith("graded, version 1 (")
    again = run(capsys, "score", folder, "--json")["tasks"]["v_star"]
    assert not again["differs"] and again["metrics"] == first["metrics"]
    two = run(capsys, "score", folder, "--workers", "2", "--json")["tasks"]["v_star"]
    assert not two["differs"]
    run(capsys, *command, "--judge", "grader")  # resumed: all verdicts are there
    assert grader.asked == 3
    sample = Run.open(folder).units().__next__().samples[0]
    assert "score" in run(capsys, "explain", folder, sample, "--json")
    error = run(capsys, "score", folder, "--judge", "grader", "--workers", "2", code=2)
    assert "--workers" in error
    shutil.rmtree(tmp_path / "runs")
    run(capsys, *command, "--judge", "grader", "--restart")
    assert grader.asked == 6, "verdicts belong to the run"


def test_another_judge_is_another_run_but_may_score_again(
    capsys, example_of, grader, tmp_path, said
):
    command = ["eval", "--model", f"replay(file={said})", "--tasks", TASK, "--data", example_of,
               "--out", tmp_path / "runs", "--json", "--judge", "grader"]  # fmt: skip
    run(capsys, *command)
    grader.name = "grader(v=2)"
    error = run(capsys, *command, code=5)
    assert "grader(v=1)" in error and "grader(v=2)" in error
    (folder,) = {path.parent for path in (tmp_path / "runs").rglob("results.json")}
    scored = run(capsys, "score", folder, "--judge", "grader", "--json")["tasks"]["v_star"]
    assert not scored["differs"] and grader.asked == 6


def test_stored_verdicts_score_a_file_without_a_network(capsys, example_of, tmp_path, said):
    kept = tmp_path / "verdicts.jsonl"
    judge = remember(Grader(), file=kept)
    items = json.loads((example_of / "v_star" / "V_STaR_test.json").read_text())
    for place, item in enumerate(items):
        judge.judge("graded", item["question"], "a" * (5 * place + 2), item["answer"])
    command = ["score", "--predictions", said, "--tasks", TASK, "--data", example_of, "--json",
               "--out", tmp_path / "runs", "--judge", f"stored(file={kept})"]  # fmt: skip
    found = run(capsys, *command)["tasks"]["v_star"]
    assert found["metrics"]["Acc"] == pytest.approx(2 / 3)
    (folder,) = {path.parent for path in (tmp_path / "runs").rglob("results.json")}
    assert (folder / "verdicts.jsonl").is_file()
    lines = kept.read_bytes().splitlines(keepends=True)
    kept.write_bytes(b"".join(lines[:-1]))
    command[command.index("--out") + 1] = tmp_path / "other"
    assert "none on 1" in run(capsys, *command, code=3)


def test_a_config_may_name_the_judge(capsys, example_of, grader, tmp_path, said):
    config = tmp_path / "config.toml"
    config.write_text('judge = "grader"\n')
    found = run(capsys, "score", "--predictions", said, "--tasks", TASK, "--data", example_of,
                "--config", config, "--json")  # fmt: skip
    assert found["tasks"]["v_star"]["metrics"]["Acc"] is not None and grader.asked == 3
    config.write_text("judge = 3\n")
    assert "text" in run(capsys, "score", "--predictions", said, "--tasks", TASK, "--data",
                         example_of, "--config", config, code=2)  # fmt: skip


def test_a_judge_that_fails_while_scoring_ends_with_an_error(capsys, example_of, grader, said):
    def fails(*_):
        raise ModelError("judge grader", expected="a reply", found="none")

    grader.judge = fails
    error = run(capsys, "score", "--predictions", said, "--tasks", TASK, "--data", example_of,
                "--judge", "grader", code=3)  # fmt: skip
    assert "judge grader" in error
