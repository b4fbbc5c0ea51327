"""Our own gate: `saliency` on shapes against the committed baseline."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.leaderboards.runs import task_of
from harness.record import Run, finish
from harness.scores import Mean
from harness.store.atomic import write_json
from harness.summary import breakdowns, values

BASELINE = Path(__file__).parent.parent / "leaderboards" / "baselines" / "shapes"


@pytest.fixture(scope="module")
def candidate(evaluated):
    """Runs like those of the baseline, made now, on the first samples of its world."""
    return evaluated / "saliency"


def runs(folder):
    """The runs of a folder, by the name of their task."""
    return {path.parent.name: Run.open(path.parent) for path in folder.rglob("results.json")}


def write(run, task, units, place):
    """Write a run that differs from another one by its units."""
    place.mkdir(parents=True)
    write_json(place / "manifest.json", run.manifest)
    numbers = {"metrics": values(task, units), "breakdowns": breakdowns(task, units)}
    finish(place, units, {**run.results, **numbers}, journal=False)


@pytest.fixture
def baseline(candidate, tmp_path):
    """What the committed baseline has of the candidate's samples."""
    for name, run in runs(candidate).items():
        held = {unit.samples: unit for unit in runs(BASELINE)[name].units()}
        units = [held[unit.samples] for unit in run.units()]
        write(run, task_of(run), units, tmp_path / "baseline" / name)
    return tmp_path / "baseline"


def test_this_change_does_not_make_saliency_worse(baseline, candidate, command):
    done = command("board", "check", "--baseline", baseline, "--candidate", candidate)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASSED" in done.stdout
    for name, run in runs(candidate).items():  # so few samples tell the gate little, but these much
        for now, before in zip(run.units(), runs(baseline)[name].units(), strict=True):
            assert score(now) == pytest.approx(score(before), abs=0.02), (name, now.samples)


def score(unit):
    """The means of a sample, but for those that are 0 or 1 by a threshold."""
    means = {name: one.value for name, one in unit.scores.items() if isinstance(one, Mean)}
    return {name: value for name, value in means.items() if "@" not in name}


def halved(score):
    return replace(score, value=score.value / 2) if isinstance(score, Mean) else score


def test_a_model_that_got_worse_is_refused(candidate, command, tmp_path):
    tasks = {name: task_of(run) for name, run in runs(candidate).items()}
    for name, run in runs(BASELINE).items():
        units = [
            replace(unit, scores={key: halved(one) for key, one in unit.scores.items()})
            for unit in run.units()
        ]
        write(run, tasks[name], units, tmp_path / "worse" / name)
    done = command("board", "check", "--baseline", BASELINE, "--candidate", "worse", "--json")
    assert done.returncode == 1
    verdicts = {one["task"].split()[0]: one for one in json.loads(done.stdout)["tasks"]}
    assert not verdicts["mevis"]["passed"] and not verdicts["reason_seg"]["passed"]


def test_the_baseline_holds_no_path(command):
    for path in BASELINE.rglob("*.json*"):
        assert "/tmp" not in path.read_text() and "/home" not in path.read_text()
