"""Runs as logs of other programs, and back: the same scores, to the last bit."""

import csv
import hashlib
import io
import json
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from harness.cli.main import main
from harness.errors import DataError, UsageError
from harness.formats import inspect_logs, read_format
from harness.plugins import build
from harness.record import Run
from harness.spec import parse

TASKS = Path(__file__).resolve().parents[2] / "tasks"
LOGS = {
    "inspect": "*.json",
    "vlmevalkit": "*/*_result.tsv",
    "every-eval-ever": "data/**/*_samples.jsonl",
}
SCORED = ("metrics", "intervals", "breakdowns", "n_total", "n_scored", "n_failed", "ledger")
QWEN = "qwen_vl(backend=stored,segmenter=grabcut)"
ODD = 'It is "this",\tI think:\r\n\n the best answer is A.\r'


def command(*words, code=0):
    assert main([str(word) for word in words]) == code


def responses(task, root):
    """Right responses, one of several texts, an odd one, and none at all."""
    model = build("models", parse(QWEN))
    for number, one in enumerate(build("tasks", task, root).samples()):
        texts = model.write(one.query, one.target.answer)
        if number % 4 == 1:
            texts = ["I look first.", *texts]
        elif number % 4 == 2:
            texts = [ODD]
        if number != 3:
            yield {"id": one.id, "response": texts if len(texts) > 1 else texts[0]}


@pytest.fixture(params=["long_video_bench", "counting", "reason_seg"])
def run(request, tmp_path, shapes):
    """The run folder of responses to the questions of a task."""
    task = request.param
    root = shapes if task == "reason_seg" else TASKS / task / "example"
    path = tmp_path / "ours.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in responses(task, root)))
    given = ["--tasks", task, "--data", root, "--predictions", path, "--model", QWEN]
    command("score", *given, "--name", "acme/model", "--out", tmp_path / "runs")
    (manifest,) = (tmp_path / "runs").rglob("manifest.json")
    return Run.open(manifest.parent)


def scored_again(run, name, path, capsys):
    task, root = run.manifest["task"]["spec"], run.manifest["data"]["root"]
    capsys.readouterr()
    given = ["--tasks", task, "--data", root, "--predictions", path, "--format", name]
    command("score", *given, "--model", QWEN, "--json")
    ((_, found),) = json.loads(capsys.readouterr().out)["tasks"].items()
    return found


def test_a_run_written_as_a_log_and_read_again_has_its_scores(run, tmp_path, capsys):
    assert 0 < run.results["n_scored"]
    for name, pattern in LOGS.items():
        command("runs", "export", run.folder, "--to", name, "--out", tmp_path / name)
        (path,) = (tmp_path / name).glob(pattern)
        found = scored_again(run, name, path, capsys)
        assert {key: found[key] for key in SCORED} == {key: run.results[key] for key in SCORED}
        if run.results["task"] != "counting":
            continue
        given = ["--format", name, "--model", QWEN, "--data", run.manifest["data"]["root"]]
        command("diff", run.folder, path, *given, "--json")
        plain = json.loads(capsys.readouterr().out)
        assert plain["first"] == plain["second"] and plain["n_samples"] == run.results["n_total"]


def test_what_holds_no_responses_is_not_written_as_one(tmp_path, shapes, capsys):
    given = ["--model", "saliency", "--tasks", "reason_seg", "--data", shapes]
    command("eval", *given, "--out", tmp_path / "runs", "--quiet")
    for name in ("inspect", "vlmevalkit"):
        line = ["runs", "export", tmp_path / "runs", "--to", name, "--out", tmp_path / name]
        command(*line, code=UsageError.exit_code)
        assert "words" in capsys.readouterr().err and not (tmp_path / name).exists()
    command("runs", "export", tmp_path / "runs", "--to", "every-eval-ever", "--out", tmp_path / "e")
    assert "words" in capsys.readouterr().err
    (path,) = (tmp_path / "e").rglob("*.json*")
    assert "detailed_evaluation_results" not in json.loads(path.read_text())
