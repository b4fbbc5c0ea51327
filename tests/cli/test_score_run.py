"""`harness score RUN --model READER`: a record's responses, read and segmented in another way."""

import json
from pathlib import Path

import pytest

from harness import plugins
from harness.cli.main import main
from harness.record import Run
from harness.run.batching import samples_of

ROOT = Path(__file__).resolve().parents[2] / "tasks" / "reason_seg" / "example"
BOX = '```json\n[{"bbox_2d": [10, 10, 60, 60], "label": "target"}]\n```'
READER = "qwen_vl(prompt=locate,segmenter=box,backend=stored)"


@pytest.fixture
def run(tmp_path):
    """A run whose network said the same box to every question but the last, to which it chatted."""
    samples = list(samples_of(plugins.build("tasks", "reason_seg", ROOT)))
    output = tmp_path / "said.jsonl"
    texts = [BOX] * (len(samples) - 1) + ["I see nothing."]
    rows = [{"id": one.id, "response": text} for one, text in zip(samples, texts, strict=True)]
    output.write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = READER.replace("backend=stored", f"backend=stored(file={output})")
    given = ["--tasks", "reason_seg", "--data", str(ROOT), "--out", str(tmp_path / "runs")]
    assert main(["eval", "--model", model, *given, "--quiet"]) == 0
    output.unlink()
    (manifest,) = (tmp_path / "runs").rglob("manifest.json")
    return Run.open(manifest.parent)


def scored(capsys, *given):
    capsys.readouterr()
    assert main(["score", *map(str, given), "--json"]) == 0
    (task,) = json.loads(capsys.readouterr().out)["tasks"].values()
    return task


@pytest.mark.parametrize("backend", ["stored", "stored(factor=14,max_pixels=9000)"])
def test_the_same_reader_gives_the_same_numbers_on_the_records_own_canvas(run, capsys, backend):
    again = scored(capsys, run.folder, "--model", READER.replace("stored", backend))
    assert again["metrics"] == run.results["metrics"]
    assert again["failures"] == run.results["failures"] and again["n_failed"] == 1


def test_another_grammar_reads_the_same_responses(run, capsys):
    again = scored(capsys, run.folder, "--model", "visionreasoner(segmenter=box,backend=stored)")
    assert again["failures"]["parse"] == again["n_total"]


def test_a_run_that_was_read_again_holds_the_calls_of_the_first(run, capsys, tmp_path):
    out = tmp_path / "again"
    scored(capsys, run.folder, "--model", READER, "--name", "again", "--out", out)
    (manifest,) = out.rglob("manifest.json")
    again = Run.open(manifest.parent)
    again.check_files()
    assert again.manifest["model"]["name"] == "again"
    assert again.manifest["model"]["description"]["model"] == run.manifest["model"]["spec"]
    for unit in run.units():
        for name in unit.samples:
            assert again.prediction(name) == run.prediction(name) and run.prediction(name).calls


def test_tasks_beside_a_run_are_refused(run):
    assert main(["score", str(run.folder), "--model", READER, "--tasks", "mevis"]) == 2


def test_a_metric_that_an_option_added_to_a_run_is_not_a_difference(run, capsys, tmp_path):
    options = ["--tasks", "reason_seg", "--data", str(ROOT), "--metrics", "label_noise"]
    assert main(["eval", "--model", "random", *options, "--out", str(tmp_path / "more")]) == 0
    (manifest,) = (tmp_path / "more").rglob("manifest.json")
    added = Run.open(manifest.parent).results["metrics"].keys() - run.results["metrics"].keys()
    capsys.readouterr()
    assert main(["score", str(manifest.parent)]) == 0
    errors = capsys.readouterr().err
    assert added and all(name in errors for name in added) and "differs" not in errors
    assert main(["score", str(manifest.parent), "--metrics", "label_noise"]) == 0
    assert not capsys.readouterr().err
