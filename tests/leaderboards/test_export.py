"""Runs in other programs' formats, read by those programs where they are installed."""

import csv
import io
import json
import sys
import time

import pyarrow.parquet as pq
import pytest
import yaml

from harness.cli.main import main
from harness.record import Run


def export(to, out, *runs, code=0, options=()):
    line = ["runs", "export", *map(str, runs), "--to", to, "--out", str(out), *options]
    assert main(line) == code
    return out


def test_csv_and_json_hold_the_numbers_of_the_records(world, tmp_path):
    rows = list(
        csv.DictReader(io.StringIO(export("csv", tmp_path / "a.csv", world.runs).read_text()))
    )
    plain = json.loads(export("json", tmp_path / "a.json", world.runs).read_text())
    assert len(rows) == len(plain) == 6
    for line, one in zip(rows, plain, strict=True):
        results = Run.open(world.runs / one["run"]).results
        assert one["metrics"] == results["metrics"] and one["model"] == results["model"]
        assert float(line["value"]) == results["metrics"][results["headline"]] == one["value"]
        assert line["model"] == results["model"]  # with HTML and all


def test_samples_as_parquet_give_each_metric_of_each_run(world, tmp_path):
    frame = pq.read_table(export("parquet", tmp_path / "samples.parquet", world.runs)).to_pandas()
    for folder in world.runs.iterdir():
        run = Run.open(folder)
        of_run = frame[frame.run == folder.name]
        for metric in {"giou", "ciou", "J&F"} & set(run.results["metrics"]):
            part = of_run[of_run.metric == metric]
            number = (part.score * part.weight).sum() / part.weight.sum()
            assert number == pytest.approx(run.results["metrics"][metric])
    assert set(frame[frame.task == "disc_seg"]["sample"]) >= {"0/roll", "19/disc"}
    assert dict(frame.categories[0])["colour"] in ("red", "blue", "ochre")


def test_a_boards_samples_are_those_of_its_rows_under_their_names(make_run, tmp_path):
    runs = [make_run(f"{seed}/a", model="a", seed=seed) for seed in (1, 2)]
    runs += [make_run("b/b"), make_run("v/v", task="disc_video")]
    board = tmp_path / "board.toml"
    board.write_text(
        'paper = "ours"\ntable = "1"\ntitle = "one"\n'
        'rows = [{row = "a", model = "a(checkpoint=runs/a)"}]\n'
        'columns = [{task = "disc_seg(split=val)", metrics = ["giou"]}]\n'
    )
    line = ["board", "build", "--board", str(board), "--out", str(tmp_path / "out")]
    assert main([*line, *(f"--runs={run}" for run in runs)]) == 0
    frame = pq.read_table(tmp_path / "out" / "samples.parquet").to_pandas()
    (table,) = json.loads((tmp_path / "out" / "board.json").read_text())["tables"]
    assert set(frame.model) == {row["name"] for row in table["rows"]} and len(table["rows"]) == 2
    assert not frame.duplicated(["model", "task", "unit", "metric"]).any()


def test_the_hubs_own_reader_reads_eval_results_and_model_card(make_run, tmp_path):
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    runs = [make_run("a"), make_run("v", task="disc_video")]
    named = ["--dataset=disc_seg=org/discs:val", "--dataset=disc_video=org/videos"]
    for to in ("huggingface", "model-card"):
        export(to, tmp_path / "no", *runs, code=2)  # no card names their datasets
    source = "--source=https://example.org/runs"
    out = export("huggingface", tmp_path / "hub", *runs, options=[*named, source])
    values = [
        Run.open(run).results["metrics"][name]
        for run, name in zip(runs, ("giou", "J&F"), strict=True)
    ]
    for name, value, ids in zip(
        ("disc_seg", "disc_video"),
        values,
        (("org/discs", "val"), ("org/videos", "default")),
        strict=True,
    ):
        (entry,) = hub.parse_eval_result_entries(
            yaml.safe_load((out / ".eval_results" / f"{name}.yaml").read_text())
        )
        assert (entry.dataset_id, entry.task_id) == ids
        assert entry.value == pytest.approx(value, abs=1e-4) and entry.source_url
    card = hub.ModelCard(
        export("model-card", tmp_path / "README.md", *runs, options=named).read_text()
    )
    found = {
        (one.dataset_type, one.metric_type): one.metric_value for one in card.data.eval_results
    }
    assert found["org/discs", "giou"] == pytest.approx(values[0], abs=1e-4)
    export("huggingface", tmp_path / "two", runs[0], make_run("b", model="other"), code=2)


TEXT, OBJECT = {"type": "string", "minLength": 1}, {"type": "object", "additionalProperties": False}
EVAL_RESULTS = {
    "type": "array",
    "minItems": 1,
    "items": {
        **OBJECT,
        "required": ["dataset", "value"],
        "properties": {
            "dataset": {
                **OBJECT,
                "required": ["id", "task_id"],
                "properties": {
                    "id": {"type": "string", "pattern": r"^[\w.-]+/[\w.-]+$"},
                    "task_id": TEXT,
                    "revision": TEXT,
                },
            },
            "value": {"type": "number"},
            "verifyToken": TEXT,
            "date": {"type": "string", "format": "date-time"},
            "source": {
                **OBJECT,
                "required": ["url"],
                "properties": {"url": TEXT, "name": TEXT, "user": TEXT, "org": TEXT},
            },
            "notes": TEXT,
        },
    },
}
"""`.eval_results/*.yaml` as github.com/huggingface/hub-docs has it at commit 242f4a1e."""
EVAL_YAML = {
    **OBJECT,
    "required": ["name", "description", "evaluation_framework", "tasks"],
    "properties": {
        **dict.fromkeys(("name", "description", "evaluation_framework"), TEXT),
        "tasks": {
            "type": "array",
            "minItems": 1,
            "items": {
                **OBJECT,
                "required": ["id"],
                "properties": {"id": TEXT, "config": TEXT, "split": TEXT},
            },
        },
    },
}
"""`eval.yaml` of a dataset, of the same page, for frameworks other than inspect-ai."""


@pytest.mark.parametrize("source", [(), ("--source=https://example.org/runs",)])
def test_files_of_the_hub_are_as_its_page_says_and_name_each_other(make_run, tmp_path, source):
    schema = pytest.importorskip("jsonschema")
    runs = [make_run("a"), make_run("a2", seed=2), make_run("v", task="disc_video")]
    named = ["--dataset=disc_seg=org/discs:val", "--dataset=disc_video=org/discs:video/val"]
    out = export("huggingface", tmp_path / "model", *runs, options=[*named, *source])
    written = set()
    for path in (out / ".eval_results").iterdir():
        entries = yaml.safe_load(path.read_text())
        schema.validate(entries, EVAL_RESULTS, format_checker=schema.FormatChecker())
        written |= {(one["dataset"]["id"], one["dataset"]["task_id"]) for one in entries}
    out = export("eval-yaml", tmp_path / "data", *runs, options=named)
    (path,) = out.rglob("eval.yaml")
    plain = yaml.safe_load(path.read_text())
    schema.validate(plain, EVAL_YAML)
    assert path.parent == out / "org" / "discs"
    assert {("org/discs", task["id"]) for task in plain["tasks"]} == written
    assert len(plain["tasks"]) == 2, "two runs of one task are on one leaderboard"
    for text in ("disc_seg", "disc_video"):
        assert plain["name"].count(text) == plain["description"].count(f"{text}, by ") == 1


@pytest.mark.parametrize("to", ["huggingface", "eval-yaml", "model-card"])
def test_files_of_the_hub_need_no_package_of_it(make_run, tmp_path, monkeypatch, to):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    export(to, tmp_path / "out", make_run("a"), options=["--dataset=disc_seg=org/discs"])


@pytest.mark.parametrize("to", ["huggingface", "eval-yaml", "model-card"])
@pytest.mark.parametrize("name", ["discs", "../discs", "org/discs:", "org/d:a b", "a/b/c", "/x/y"])
def test_a_name_that_is_no_data_set_of_the_hub_is_refused(make_run, tmp_path, to, name):
    out = tmp_path / "out" / "inner"
    export(to, out, make_run("a"), code=2, options=[f"--dataset=disc_seg={name}"])
    assert not out.parent.exists()


@pytest.mark.parametrize("other", [{"split": "test"}, {"protocol": "seg/other"}, {"subset": "x"}])
def test_one_leaderboard_has_no_two_kinds_of_numbers(make_run, tmp_path, capsys, other):
    runs = [make_run("a"), make_run("b", changes={"results": other})]
    export("huggingface", tmp_path / "out", *runs, code=2, options=["--dataset=disc_seg=org/discs"])
    error = capsys.readouterr().err
    assert "org/discs" in error and next(iter(other.values())) in error
    export("model-card", tmp_path / "README.md", *runs, options=["--dataset=disc_seg=org/discs"])


def test_a_model_card_numbers_stay_numbers_in_yaml(make_run, tmp_path, rescore):
    run = rescore(make_run("tiny"), lambda _, value: 1e-5)
    export("model-card", tmp_path / "card.md", run, options=["--dataset=disc_seg=org/discs"])
    (_, text, _) = (tmp_path / "card.md").read_text().split("---\n")
    (result,) = yaml.safe_load(text)["model-index"][0]["results"]
    assert all(isinstance(one["value"], float) for one in result["metrics"])


def test_every_eval_ever_has_a_result_for_each_metric_with_its_interval(make_run, tmp_path):
    run = make_run("a", changes={"results": {"model_spec": "qwen_vl(checkpoint=Qwen/Some-7B)"}})
    out = export("every-eval-ever", tmp_path / "eee", run)
    (path,) = out.rglob("*.json")
    assert path.relative_to(out).parts[:4] == ("data", "disc_seg", "Qwen", "Some-7B")
    plain = json.loads(path.read_text())
    assert plain["model_info"]["id"] == "Qwen/Some-7B"
    results = {one["metric_config"]["metric_name"]: one for one in plain["evaluation_results"]}
    stored = Run.open(run).results
    assert {name: one["score_details"]["score"] for name, one in results.items()} == stored[
        "metrics"
    ]
    interval = results["giou"]["score_details"]["uncertainty"]["confidence_interval"]
    assert [interval["lower"], interval["upper"]] == stored["intervals"]["giou"]
    assert results["area_error"]["metric_config"]["lower_is_better"] is True


def test_a_hostile_name_makes_no_path(make_run, tmp_path):
    run = make_run("a", model="../../etc/<b>")
    out = export("every-eval-ever", tmp_path / "eee", run)
    (path,) = tmp_path.rglob("c0ffee*.json")
    assert path.is_relative_to(out / "data" / "disc_seg" / "unknown")


def test_wandb_offline_holds_the_run(make_run, tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="the extra `wandb` is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    out = export("wandb", tmp_path / "mirror", make_run("a"), make_run("b", seed=2))
    found = [*out.glob("wandb/offline-run-*/*.wandb")]
    assert len(found) == 2
    until = time.monotonic() + 20  # W&B's own process writes the file
    while not all(b"area_error" in one.read_bytes() for one in found):  # of the summary
        assert time.monotonic() < until
        time.sleep(0.05)


def test_mlflow_store_holds_the_run(make_run, tmp_path):
    mlflow = pytest.importorskip("mlflow", reason="the extra `mlflow` is not installed")
    uri = f"sqlite:///{tmp_path / 'store.sqlite'}"
    run = make_run("a")
    export("mlflow", uri, run)
    client = mlflow.MlflowClient(tracking_uri=uri)
    (made,) = client.search_runs([client.get_experiment_by_name("harness").experiment_id])
    assert made.data.metrics["giou"] == Run.open(run).results["metrics"]["giou"]
    assert made.data.params["task"] == "disc_seg" and made.info.status == "FINISHED"
    export("mlflow", "nonsense://x", run, code=5)
