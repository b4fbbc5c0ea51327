"""Our own gate: `saliency` on shapes against the committed baseline."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.leaderboards.runs import task_of
from harness.record import Run, breakdowns, finish, values
from harness.scores import Mean
from harness.store.atomic import write_json

BASELINE = Path(__file__).parent.parent / "leaderboards" / "baselines" / "shapes"
MODEL = "saliency(segmenter=grabcut,propagator=flow)"


@pytest.fixture(scope="module")
def candidate(tmp_path_factory):
    """Runs like those of the baseline, made now."""
    from harness.cli.main import main

    folder = tmp_path_factory.mktemp("gate")
    assert (
        main(
            [
                "data",
                "make",
                "shapes",
                "--out",
                f"{folder}/data",
                "--seed",
                "0",
                "--size",
                "24",
                "--tasks",
                "reason_seg,mevis,counting",
            ]
        )
        == 0
    )
    assert (
        main(
            [
                "eval",
                "--model",
                MODEL,
                "--tasks",
                "reason_seg,mevis,counting",
                "--data",
                f"{folder}/data",
                "--out",
                f"{folder}/runs",
                "--quiet",
            ]
        )
        == 0
    )
    return folder / "runs"


def test_this_change_does_not_make_saliency_worse(candidate, command):
    done = command("board", "check", "--baseline", BASELINE, "--candidate", candidate)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASSED" in done.stdout


def halved(score):
    return replace(score, value=score.value / 2) if isinstance(score, Mean) else score


def test_a_model_that_got_worse_is_refused(candidate, command):
    for folder in candidate.rglob("results.json"):
        run = Run.open(folder.parent)
        place = command.folder / "worse" / folder.parent.name
        place.mkdir(parents=True)
        write_json(place / "manifest.json", run.manifest)
        units = [
            replace(unit, scores={name: halved(one) for name, one in unit.scores.items()})
            for unit in run.units()
        ]
        task = task_of(run)
        numbers = {"metrics": values(task, units), "breakdowns": breakdowns(task, units)}
        finish(place, units, {**run.results, **numbers}, journal=False)
    done = command("board", "check", "--baseline", BASELINE, "--candidate", "worse", "--json")
    assert done.returncode == 1
    verdicts = {one["task"].split()[0]: one for one in json.loads(done.stdout)["tasks"]}
    assert not verdicts["mevis"]["passed"] and not verdicts["reason_seg"]["passed"]


def test_the_baseline_holds_no_path(command):
    for path in BASELINE.rglob("*.json*"):
        assert "/tmp" not in path.read_text() and "/home" not in path.read_text()
