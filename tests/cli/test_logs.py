"""Runs as logs of other programs, and back: the same scores, to the last bit."""

import csv
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from harness.cli.main import main
from harness.errors import DataError, UsageError
from harness.leaderboards.export import logs
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


def score(task, root, tmp_path, *more):
    path = tmp_path / "ours.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in responses(task, root)))
    given = ["--tasks", task, "--data", root, "--predictions", path, "--model", QWEN]
    command("score", *given, "--name", "acme/model", "--out", tmp_path / "runs", *more)


@pytest.fixture(params=["long_video_bench", "counting", "reason_seg"])
def run(request, tmp_path, shapes):
    """The run folder of responses to the questions of a task."""
    task = request.param
    score(task, shapes if task == "reason_seg" else TASKS / task / "example", tmp_path)
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
    assert run.results["n_scored"] > 0
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
    given = ["--model", "whole_frame", "--tasks", "reason_seg", "--data", shapes]
    command("eval", *given, "--out", tmp_path / "runs", "--quiet")
    for name in ("inspect", "vlmevalkit"):
        line = ["runs", "export", tmp_path / "runs", "--to", name, "--out", tmp_path / name]
        command(*line, code=UsageError.exit_code)
        assert "words" in capsys.readouterr().err and not (tmp_path / name).exists()
    command("runs", "export", tmp_path / "runs", "--to", "every-eval-ever", "--out", tmp_path / "e")
    assert "words" in capsys.readouterr().err
    (path,) = (tmp_path / "e").rglob("*.json*")
    assert "detailed_evaluation_results" not in json.loads(path.read_text())


@pytest.mark.parametrize("run", ["counting"], indirect=True)
def test_real_inspect_reads_our_log_and_we_read_its_own(run, tmp_path, capsys):
    official = pytest.importorskip("inspect_ai.log")
    command("runs", "export", run.folder, "--to", "inspect", "--out", tmp_path / "log")
    (path,) = (tmp_path / "log").glob("*.json")
    log = official.read_eval_log(str(path))
    assert log.status == "success" and log.eval.task == "counting"
    numbers = {name: one.value for name, one in log.results.scores[0].metrics.items()}
    stored = {name: one for name, one in run.results["metrics"].items() if one is not None}
    assert numbers == stored
    assert [one.id for one in log.samples] == [name for one in run.units() for name in one.samples]
    answered = [run.prediction(one.id).responses for one in log.samples]
    assert [one.output.completion for one in log.samples] == [
        texts[-1] if texts else "" for texts in answered
    ]
    said = [[one.text for one in sample.messages[1:]] for sample in log.samples]
    assert [tuple(texts) for texts in said] == answered
    assert [one.error is None for one in log.samples] == [bool(texts) for texts in answered]
    for end in ("eval", "json"):
        own = tmp_path / f"own.{end}"
        official.write_eval_log(log, str(own))
        found = scored_again(run, "inspect", own, capsys)
        assert {key: found[key] for key in SCORED} == {key: run.results[key] for key in SCORED}


@pytest.mark.parametrize("run", ["counting"], indirect=True)
def test_every_eval_ever_is_as_official_code_says(run, tmp_path, request):
    official = request.config.getoption("--eee-repo")
    if official is None:
        pytest.skip("--eee-repo names no checkout of every_eval_ever")
    validate = pytest.importorskip("jsonschema").validate
    schemas = official / "every_eval_ever" / "schemas"
    aggregate, instance = (
        json.loads((schemas / name).read_text("utf-8"))
        for name in ("eval.schema.json", "instance_level_eval.schema.json")
    )
    command("runs", "export", run.folder, "--to", "every-eval-ever", "--out", tmp_path / "eee")
    (path,) = (tmp_path / "eee").rglob("*.json")
    plain = json.loads(path.read_text("utf-8"))
    validate(plain, aggregate)
    samples = tmp_path / "eee" / plain["detailed_evaluation_results"]["file_path"]
    lines = samples.read_text("utf-8").splitlines()
    assert len(lines) == plain["detailed_evaluation_results"]["total_rows"]
    for line in lines:
        validate(json.loads(line), instance)
        assert json.loads(line)["evaluation_id"] == plain["evaluation_id"]


@pytest.mark.parametrize("run", ["counting"], indirect=True)
def test_an_aggregate_names_its_instances_as_the_collection_does(run, tmp_path, capsys):
    command("runs", "export", run.folder, "--to", "every-eval-ever", "--out", tmp_path / "eee")
    (path,) = (tmp_path / "eee").rglob("*.json")
    told = json.loads(path.read_text("utf-8"))["detailed_evaluation_results"]
    assert UUID(path.stem).version == 4
    samples = tmp_path / "eee" / told["file_path"]
    assert samples == path.with_name(f"{path.stem}_samples.jsonl")
    assert hashlib.sha256(samples.read_bytes()).hexdigest() == told["checksum"]
    elsewhere = ["--out", tmp_path / "else", "--data", tmp_path]
    capsys.readouterr()
    command("runs", "export", run.folder, "--to", "every-eval-ever", *elsewhere)
    assert "without instances" in capsys.readouterr().err
    command("runs", "export", run.folder, "--to", "inspect", *elsewhere, code=DataError.exit_code)


@pytest.mark.parametrize("run", ["counting"], indirect=True)
def test_vlmevalkits_accuracies_are_the_records(run, tmp_path):
    command("runs", "export", run.folder, "--to", "vlmevalkit", "--out", tmp_path / "kit")
    names = {path.name: path for path in (tmp_path / "kit" / "acme-model").iterdir()}
    assert set(names) == {
        f"acme-model_counting{end}" for end in (".tsv", "_result.tsv", "_acc.csv")
    }
    with names["acme-model_counting_acc.csv"].open(newline="") as file:
        (line,) = csv.DictReader(file)
    assert float(line["Overall"]) == run.results["metrics"][run.results["headline"]]
    with names["acme-model_counting.tsv"].open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [row["index"] for row in rows] == list(map(str, range(len(rows))))
    assert "hit" not in rows[0]


@pytest.mark.parametrize("run", ["long_video_bench"], indirect=True)
def test_runs_of_one_model_and_task_are_files_of_their_own(run, tmp_path, capsys):
    root = TASKS / "long_video_bench" / "example"
    score("long_video_bench", root, tmp_path, "--subset=first1", "--allow-extra")
    command("runs", "export", tmp_path / "runs", "--to", "vlmevalkit", "--out", tmp_path / "kit")
    lengths = [
        len(list(csv.reader(path.open(newline=""), delimiter="\t")))
        for path in (tmp_path / "kit").rglob("*_result.tsv")
    ]
    assert sorted(lengths) == [2, 1 + run.results["n_total"]]


@pytest.mark.parametrize("run", ["counting"], indirect=True)
def test_a_run_does_not_take_the_file_of_another(run, tmp_path, capsys):
    path = tmp_path / "other.jsonl"
    path.write_text(json.dumps({"id": next(run.units()).samples[0], "response": "12"}) + "\n")
    given = ["--tasks", "counting", "--data", run.manifest["data"]["root"], "--predictions", path]
    command("score", *given, "--model", QWEN, "--name", "acme/model", "--out", tmp_path / "second")
    both = ["runs", "export", tmp_path / "runs", tmp_path / "second", "--to", "vlmevalkit"]
    command(*both, "--out", tmp_path / "kit", code=UsageError.exit_code)
    assert "acme-model_counting.tsv" in capsys.readouterr().err
    assert not (tmp_path / "kit").exists()


def test_a_metric_of_all_samples_together_has_no_instances(tmp_path, capsys):
    score("coco_detection", TASKS / "coco_detection" / "example", tmp_path)
    given = ["--to", "every-eval-ever", "--out", tmp_path / "eee"]
    command("runs", "export", tmp_path / "runs", *given)
    assert "without instances" in capsys.readouterr().err
    (path,) = (tmp_path / "eee").rglob("*.json*")
    assert "detailed_evaluation_results" not in json.loads(path.read_text("utf-8"))


def test_values_of_two_breakdowns_are_columns_of_their_own(tmp_path, monkeypatch):
    score("tempcompass", TASKS / "tempcompass" / "example", tmp_path)
    command("runs", "export", tmp_path / "runs", "--to", "vlmevalkit", "--out", tmp_path / "kit")
    (manifest,) = (tmp_path / "runs").rglob("manifest.json")
    run = Run.open(manifest.parent)
    (path,) = (tmp_path / "kit").rglob("*_acc.csv")
    with path.open(newline="") as file:
        (line,) = csv.DictReader(file)
    breakdowns = run.results["breakdowns"]
    assert len(line) == 2 + sum(map(len, breakdowns.values()))
    for name in ("aspect", "type"):
        value = breakdowns[name]["direction"]["metrics"][run.results["headline"]]
        assert float(line[f"{name}/direction"]) == value
    cells = {name: {"n": 1, "metrics": {}} for name in ("split", "Overall", "direction")}
    made = replace(logs.row(run), breakdowns={"aspect": cells})
    monkeypatch.setattr(logs, "row", lambda run: made)
    *_, (_, (columns,)) = logs.vlmevalkit_tables(run)
    assert columns["Overall"] == made.value and columns["split"] == made.split
    assert {"aspect/split", "aspect/Overall", "direction"} <= columns.keys()
