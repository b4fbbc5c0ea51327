"""The report of adapted runs: gains and regressions follow from scores, curves from predictions."""

import json
from dataclasses import replace

import pytest

from harness.cli.main import main
from harness.leaderboards.adaptation import reports, to_markdown
from harness.record import Run
from harness.types import (
    Adaptation,
    AdaptationStep,
    Answer,
    Call,
    Prediction,
    Request,
)

DESCRIBED = {
    "adaptation": {
        "method": "vr_ttrl",
        "budget": "2 updates, 2 × 4 rollouts",
        "transductive": True,
        "steps": 2,
        "rollouts": 4,
        "learning_rate": 5e-7,
    }
}


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
def runs(make_run, rescore):
    """The model as it is, and adapted: every third sample lost 0.03, the others gained."""
    model = {"spec": "m", "name": "m", "description": DESCRIBED}
    made = make_run("adapted", predict=adapted, changes={"manifest": {"model": model}})
    moved = rescore(made, lambda i, value: value - 0.03 if i % 3 == 0 else value + 0.02)
    return make_run("base", predict=perfect), moved


def test_gains_regressions_and_curves(runs, tmp_path):
    (report,) = reports(runs)
    (gain,) = report.gains
    assert gain.method == "vr_ttrl" and report.base == "base"
    assert 0 < gain.comparison.difference < 0.01
    assert gain.regressions["0"] == gain.regressions["0.01"] == pytest.approx(1 / 3, abs=0.03)
    assert gain.regressions["0.05"] == gain.regressions["0.1"] == 0
    assert gain.rolled_back == sum(1 for _ in Run.open(runs[1]).units())
    (curves,) = report.curves
    assert curves.curves["reward"] == {1: 5.0, 2: 5.5}
    assert curves.curves["agreement"] == {1: 1.0, 2: 2.0}
    assert curves.curves["share in the grammar"] == {1: 1.5, 2: 1.5}
    text = to_markdown([report])
    assert "2 updates, 2 × 4 rollouts" in text and "reasoning characters" in text


def test_the_command_writes_tables_data_and_a_figure(runs, tmp_path, capsys):
    out = tmp_path / "report"
    folders = [word for run in runs for word in ("--runs", str(run))]
    assert main(["board", "adaptation", *folders, "--out", str(out), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["files"]) == 3
    (plain,) = json.loads((out / "adaptation.json").read_text())
    assert plain["runs"][0]["gain"]["n_units"] > 0
    assert (out / "adaptation-1.svg").read_text().startswith("<svg")
    assert main(["board", "adaptation", "--runs", str(runs[0]), "--out", str(out)]) == 2
