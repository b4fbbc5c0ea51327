"""Runs of tables from before a change of a protocol: they are resumed, scored and explained."""

import json
from dataclasses import replace

import pytest
from PIL import Image

from harness import load_task
from harness.api import evaluate
from harness.cli.main import main
from harness.errors import ResumeMismatch
from harness.models.pipeline import PromptedModel
from harness.record import Run
from harness.scores import Mean, Metric
from harness.task import ExtraMetric, with_metrics
from harness.tasks.table import protocols
from harness.tasks.table.protocols import TEXT

MODEL = "qwen_vl(backend=stored(file={}),prompt=locate)"
TOML = """\
name = "mine"
[media]
images = "image"
[question]
text = "question"
[answer]
form = "{form}"
field = "answer"
"""


def without_words(model, describe=PromptedModel.describe):
    """Describe a model as before its requests in words were recorded."""
    return {key: value for key, value in describe(model).items() if key != "words_text"}


@pytest.fixture(params=["count", "text"])
def earlier(request, tmp_path, monkeypatch):
    """Arguments of `harness eval`, and the run that an earlier version made of them."""
    form, answer = request.param, {"count": 2, "text": "two"}[request.param]
    Image.new("RGB", (20, 20), "red").save(tmp_path / "red.png")
    record = {"image": "red.png", "question": "How many?", "answer": answer}
    (tmp_path / "mine.jsonl").write_text(json.dumps(record) + "\n")
    (tmp_path / "mine.toml").write_text(TOML.format(form=form))
    (tmp_path / "said.jsonl").write_text(json.dumps({"id": "0", "response": str(answer)}) + "\n")
    typed = ["--model", MODEL.format(tmp_path / "said.jsonl"), "--tasks"]
    typed += [f"table(file={tmp_path / 'mine.jsonl'})", "--out", str(tmp_path / "runs"), "--quiet"]
    with monkeypatch.context() as before:
        old = replace(TEXT, metrics=(replace(TEXT.metrics[0], about="equal words"),), beside=())
        old = replace(old, score=lambda *given: {"accuracy": TEXT.score(*given)["accuracy"]})
        before.setattr(PromptedModel, "describe", without_words)
        before.setitem(protocols.DEFAULT, "count", "count/exact")
        before.setitem(protocols.PROTOCOLS["text"], "text/exact", old)
        assert main(["eval", *typed]) == 0
    (manifest,) = (tmp_path / "runs").rglob("manifest.json")
    return typed, Run.open(manifest.parent)


counts = pytest.mark.parametrize("earlier", ["count"], indirect=True)


def test_a_run_keeps_the_protocol_that_it_was_made_with(earlier, capsys):
    typed, run = earlier
    assert "words_text" not in run.manifest["model"]["description"]
    folder, protocol = str(run.folder), run.manifest["task"]["protocol"]
    assert main(["score", folder]) == 0 and main(["explain", folder, "0"]) == 0
    capsys.readouterr()
    assert main(["eval", *typed, "--json"]) == 0
    (task,) = json.loads(capsys.readouterr().out)["tasks"].values()
    assert task["protocol"] == protocol
    again = Run.open(run.folder)
    again.check_files()
    assert again.results["metrics"].items() >= run.results["metrics"].items()
    assert again.manifest["config_hash"] == run.manifest["config_hash"]


@counts
def test_only_a_restart_has_the_new_protocol(earlier):
    typed, run = earlier
    task, out = load_task(run.manifest["task"]["spec"]), run.folder.parent.parent
    assert evaluate(task, typed[1], out=out).manifest["task"]["protocol"] == "count/exact"
    assert main(["eval", *typed, "--restart"]) == 0
    assert Run.open(run.folder).manifest["task"]["protocol"] == "count/stated"


@counts
def test_metrics_that_were_added_to_the_task_stay(earlier):
    typed, run = earlier
    added = ExtraMetric(Metric("samples", about="number"), lambda *given: {"samples": Mean(1.0)})
    task = with_metrics(load_task(run.manifest["task"]["spec"]), [added])
    again = evaluate(task, typed[1], out=run.folder.parent.parent)
    assert again.manifest["task"]["protocol"] == "count/exact"
    assert again.results["metrics"]["samples"] == 1.0


def test_numbers_that_differ_are_still_told(earlier):
    typed, run = earlier
    path = run.folder / "results.json"
    results = json.loads(path.read_text())
    results["metrics"]["accuracy"] = 0.25
    path.write_text(json.dumps(results))
    assert main(["score", str(run.folder)]) == 1
    assert main(["eval", *typed]) == ResumeMismatch.exit_code


@counts
def test_corrected_data_is_refused_with_the_key_that_numbers_its_version(earlier, tmp_path, capsys):
    typed, run = earlier
    table = tmp_path / "mine.jsonl"
    table.write_text(table.read_text().replace("How many?", "How many dogs?"))
    assert main(["eval", *typed]) == ResumeMismatch.exit_code
    assert "`version =`" in capsys.readouterr().err
    assert main(["score", str(run.folder)]) != 0 and "`version =`" in capsys.readouterr().err
