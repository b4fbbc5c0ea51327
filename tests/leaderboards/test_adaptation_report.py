"""The report of adapted runs: gains and regressions follow from scores, curves from predictions."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from harness.cli.main import main
from harness.errors import UsageError
from harness.explained.calls import adapted as explained
from harness.leaderboards.adaptation import reports
from harness.leaderboards.adaptation_tables import charts, to_markdown
from harness.leaderboards.board import build
from harness.leaderboards.definitions import read
from harness.leaderboards.grid import Numbers
from harness.leaderboards.row import TrainingInfo
from harness.record import Run
from harness.run.contamination import Contamination, write_contamination_and_origins
from harness.trainer import Curve
from harness.types import (
    Adaptation,
    AdaptationStep,
    Answer,
    Call,
    Prediction,
    Request,
)


def described(method="vr_ttrl", **given):
    return {
        "adaptation": {
            "method": method,
            "budget": "2 updates, 2 × 4 rollouts",
            "transductive": True,
            "steps": 2,
            "rollouts": 4,
            "learning_rate": 5e-7,
            "seed": 0,
            **given,
        }
    }


def model(description):
    return {"manifest": {"model": {"spec": "m", "name": "m", "description": description}}}


def steps(number):
    made = (
        AdaptationStep(
            label=1,
            agreement=1.0 + step,
            parsed=3,
            rewards=(4.0, 6.0 + step),
            tokens=20.0,
            characters=30.0 - number,
            rolled_back=step == 1,
        )
        for step in range(2)
    )
    return Adaptation(method="vr_ttrl", steps=tuple(made))


def perfect(sample, number):
    return Prediction(query_id=sample.query.id, answer=Answer(masks=sample.target.answer.masks))


def adapted(sample, number):
    call = Call(request=Request(text="q"), key="@step0#1", response="x")
    return replace(perfect(sample, number), calls=(call,), adaptation=steps(0))


@pytest.fixture
def make_adapted(make_run, rescore):
    """An adapted run in which every third sample lost 0.03 and the others gained 0.02."""

    def make(name, *, lost=-0.03, gained=0.02, subset=None, **given):
        made = make_run(name, predict=adapted, subset=subset, changes=model(described(**given)))
        return rescore(made, lambda i, value: value + (lost if i % 3 == 0 else gained))

    return make


@pytest.fixture
def runs(make_run, make_adapted):
    """The model as it is, and adapted."""
    return make_run("base", predict=perfect, changes=model({})), make_adapted("adapted")


def test_gains_regressions_and_curves(runs):
    (report,) = reports(runs)
    (variant,) = report.variants
    (gain,) = variant.runs
    assert gain.method == "vr_ttrl" and report.base.run == "base"
    assert 0 < gain.comparison.difference < 0.01
    assert variant.gain.value == pytest.approx(gain.comparison.difference)
    assert gain.relative == pytest.approx(gain.comparison.difference / report.base.value)
    assert gain.regressions["0"] == gain.regressions["0.01"] == pytest.approx(1 / 3, abs=0.03)
    assert gain.regressions["0.05"] == gain.regressions["0.1"] == 0
    assert gain.rolled_back == sum(1 for _ in Run.open(runs[1]).units())
    assert gain.curves["reward"] == {1: 5.0, 2: 5.5}
    assert gain.curves["agreement"] == {1: 1.0, 2: 2.0}
    assert gain.curves["share in the grammar"] == {1: 1.5, 2: 1.5}
    text = to_markdown([report])
    assert "2 updates, 2 × 4 rollouts" in text and "reasoning characters" in text


def test_any_metric_of_the_runs_can_be_compared(runs):
    (report,) = reports(runs, metric="ciou")
    (gain,) = report.variants[0].runs
    assert report.metric == "ciou" and gain.value == gain.row.metrics["ciou"]
    assert gain.comparison.metric == "ciou" and gain.comparison.difference == 0.0
    with pytest.raises(UsageError, match="ciou"):
        reports(runs, metric="none")


def test_seeds_are_one_variant_whose_interval_is_over_both(runs, make_adapted):
    other = make_adapted("other", lost=-0.05, gained=0.04, seed=1)
    (report,) = reports([*runs, other])
    (variant,) = report.variants
    own, second = (one.comparison.difference for one in variant.runs)
    assert [one.seed for one in variant.runs] == [0, 1]
    assert variant.gain.value == pytest.approx((own + second) / 2)
    assert variant.gain.over == ("samples", "decodings")
    assert variant.mean(lambda one: one.regressions["0.01"]) == pytest.approx(1 / 3, abs=0.03)
    (chart,) = [one for one in charts(report) if one.title == "reward"]
    assert chart.lines == {variant.name: [{1: 5.0, 2: 5.5}] * 2}


def test_variants_are_named_by_what_sets_them_apart(runs, make_adapted):
    strict = make_adapted("strict", thresholds={"iou": 0.7, "box": 5.0})
    slow = make_adapted("slow", learning_rate=1e-4)
    (report,) = reports([*runs, strict, slow, make_adapted("control", method="format_only")])
    names = {one.runs[0].row.run: one.name for one in report.variants}
    budget = "2 updates, 2 × 4 rollouts"
    assert names["control"] == f"format_only: {budget}"
    assert names["strict"] == f"vr_ttrl: {budget}, learning_rate 5e-07, thresholds 0.7/5"
    assert "learning_rate 0.0001" in names["slow"] and len(set(names.values())) == 4


def test_score_and_seconds_are_drawn_by_updates_and_by_rollouts(runs, make_adapted):
    more = make_adapted("more", steps=4, budget="4 updates")
    (report,) = reports([*runs, more, make_adapted("wide", rollouts=8, budget="8 rollouts")])
    lines = {one.title: one.lines for one in charts(report) if one.across != "step"}
    values = {one.runs[0].row.run: one.runs[0].value for one in report.variants}
    title = report.metric
    assert lines[f"{title} by updates"] == {"vr_ttrl": [{2: values["adapted"], 4: values["more"]}]}
    assert set(lines[f"{title} by rollouts"]["vr_ttrl"][0]) == {4, 8}
    assert set(lines["seconds by updates"]) == set(lines["seconds by rollouts"]) == {"vr_ttrl"}


def test_benchmarks_of_a_network_stand_in_one_table_with_their_mean(runs, make_run, make_adapted):
    twice = make_run("base2", predict=perfect, subset="first12", changes=model({}))
    found = reports([*runs, twice, make_adapted("adapted2", subset="first12", lost=-0.06)])
    assert len(found) == 2
    values = [one.variants[0].runs[0].value for one in found]
    line = next(
        line for line in to_markdown(found).splitlines() if line.startswith("| vr_ttrl: 2 updates")
    )
    cells = [float(cell) for cell in line.split("|")[2:5]]
    assert cells == pytest.approx([*values, sum(values) / 2], abs=6e-4)


def test_a_training_with_the_same_objective_is_beside_the_network_that_it_began_with(
    runs, make_run, tmp_path
):
    training = tmp_path / "offline"
    (training / "checkpoint").mkdir(parents=True)
    began = {"base": {"checkpoint": None, "weights": None}}
    manifest = {
        "version": 1,
        "method": {"spec": "vr_ttrl(learning_rate=2e-05)", "name": "vr_ttrl", "settings": {}},
        "model": began,
        "seed": 3,
        "provenance": {},
        "tasks": [{"spec": "disc_seg(split=train)"}],
        "config_hash": "beef" * 8,
        "data_root": "/somewhere/else",
        "result": {"steps": 40},
    }
    for path in (training / "manifest.json", training / "checkpoint" / "harness.json"):
        path.write_text(json.dumps(manifest))
    changes = model({"chat": {"checkpoint": str(training), "weights": "x"}})
    changes["manifest"]["model"]["spec"] = f"m(checkpoint={training})"
    trained = make_run("trained", changes=changes)
    write_contamination_and_origins(trained, Contamination(40, 0, 0, ()))
    (report,) = reports([*runs, trained])
    offline = next(one for one in report.variants if one.runs[0].method == "offline")
    assert offline.name == "offline: on disc_seg(split=train), 40 updates in all"
    assert offline.runs[0].seed == 3 and offline.gain is not None
    assert report.base.run == "base"


def test_seconds_of_a_step_are_of_every_sample_and_add_up(runs):
    path = runs[1] / "timing.json"
    parts = {"step 1": 8.0, "step 2": 6.0, "updates": 3.0}
    attempt = {"samples": 4, "stages": {"language": {"seconds": 20.0, "seconds_by_part": parts}}}
    path.write_text(json.dumps({"attempts": [attempt]}))
    (report,) = reports(runs)
    (gain,) = report.variants[0].runs
    assert gain.seconds == 5.0
    assert gain.curves["seconds of the step"] == {1: 2.0, 2: 1.5}
    assert gain.curves["seconds so far"] == {1: 2.0, 2: 3.5}


def test_a_sample_is_explained_step_by_step(runs):
    run = Run.open(runs[1])
    (lines,) = explained(run.prediction(next(run.units()).samples[0])).values()
    assert lines[0] == "vr_ttrl" and len(lines) == 3
    assert "response 1, agreement 1.00; 3 can be read; rewards 4.00, 6.00" in lines[1]
    assert "NaN" in lines[2] and "NaN" not in lines[1]
    base = Run.open(runs[0])
    assert explained(base.prediction(next(base.units()).samples[0])) == {}


def test_the_command_writes_tables_data_and_a_figure(runs, tmp_path, capsys):
    out = tmp_path / "report"
    folders = [word for run in runs for word in ("--runs", str(run))]
    assert main(["board", "adaptation", *folders, "--out", str(out), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["files"]) == 3
    (plain,) = json.loads((out / "adaptation.json").read_text())
    assert plain["variants"][0]["runs"][0]["gain"]["n_units"] > 0
    assert plain["variants"][0]["gain"]["interval"]
    assert (out / "adaptation-1.svg").read_text().startswith("<svg")
    assert main(["board", "adaptation", "--runs", str(runs[0]), "--out", str(out)]) == 2


TABLE6 = """
paper = "mine"
table = "6"
title = "samples that got worse"
[[columns]]
task = "disc_seg(split=val)"
metrics = ["share of samples degraded"]
parts = ["regression above=0%", "regression above=1%", "regression above=5%"]
[[rows]]
row = "adapted"
model = "vr_ttrl(base=qwen_vl(checkpoint=q,segmenter=box))"
[[rows]]
row = "of another network"
model = "vr_ttrl(base=qwen_vl(checkpoint=other))"
[[rows]]
row = "as it is"
model = "qwen_vl(checkpoint=q)"
"""


def test_a_boards_share_of_samples_that_got_worse_is_the_reports(make_run, rescore, tmp_path, runs):
    def spec(text, **described_as):
        named = {"model": {"spec": text, "name": text, "description": described_as}}
        return {"manifest": named, "results": {"model": text, "model_spec": text}}

    make_run("as_it_is", predict=perfect, changes=spec("qwen_vl(checkpoint=q)"))
    for name, base in (("taught", "q"), ("lonely", "other")):
        text = f"vr_ttrl(base=qwen_vl(checkpoint={base},segmenter=box),offload=optimizer)"
        made = make_run(name, predict=adapted, changes=spec(text, **described()))
        rescore(made, lambda i, value: value + (-0.03 if i % 3 == 0 else 0.02))
    path = tmp_path / "board.toml"
    path.write_text(TABLE6)
    folders = [tmp_path / name for name in ("as_it_is", "taught", "lonely")]
    cells = dict(build(folders, definition=read(path)).grid.rows)
    (report,) = reports(runs)
    lost = report.variants[0].runs[0].regressions
    assert [cell.value for cell in cells["adapted"]] == [lost["0"], lost["0.01"], lost["0.05"]]
    assert lost["0.01"] > 0.3 and lost["0.05"] == 0
    for name in ("of another network", "as it is"):  # nothing to compare with
        assert [cell.value for cell in cells[name]] == [None] * 3


def test_a_boards_success_rate_is_that_of_the_trainings_last_steps(tmp_path):
    curve = Curve(tmp_path / "curve.jsonl")
    for step in range(1, 21):
        curve.append(step, {"rewards/success": {19: 1.0, 20: 0.5}.get(step, 0.0)})
    trained = TrainingInfo(
        method="dt_r1", tasks=(), seed=0, config_hash="", place=tmp_path, folder="t"
    )
    numbers = Numbers(())
    row = SimpleNamespace(training=trained)
    assert numbers.value(row, "level=2", "training success rate") == 0.75
    row.training = replace(trained, place=tmp_path / "gone")
    assert numbers.value(row, "level=2", "training success rate") is None
    row.training = None
    assert numbers.value(row, "level=2", "training success rate") is None
