"""Our own gate: `saliency` on shapes against the committed baseline."""

import json
from pathlib import Path

import pytest

BASELINE = Path(__file__).parent.parent / "leaderboards" / "baselines" / "shapes"
MODEL = "saliency(segmenter=grabcut,propagator=flow)"


@pytest.fixture(scope="module")
def candidate(tmp_path_factory):
    """Runs like those of the baseline, made now."""
    from harness.cli.main import main

    folder = tmp_path_factory.mktemp("gate")
    assert main(["data", "make", "shapes", "--out", f"{folder}/data", "--seed", "0",
                 "--size", "24", "--tasks", "reason_seg,mevis,counting"]) == 0  # fmt: skip
    assert main(["eval", "--model", MODEL, "--tasks", "reason_seg,mevis,counting", "--data",
                 f"{folder}/data", "--out", f"{folder}/runs", "--quiet"]) == 0  # fmt: skip
    return folder / "runs"


def test_this_change_does_not_make_saliency_worse(candidate, command):
    done = command("board", "check", "--baseline", BASELINE, "--candidate", candidate)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASSED" in done.stdout


def test_a_model_that_got_worse_is_refused(candidate, command):
    for folder in candidate.rglob("results.json"):
        place = command.folder / "worse" / folder.parent.name
        place.mkdir(parents=True)
        for name in ("manifest.json", "results.json"):
            (place / name).write_bytes(folder.with_name(name).read_bytes())
        lines = [json.loads(line) for line in folder.with_name("scores.jsonl").open()]
        for line in lines:
            for score in line["scores"].values():
                if isinstance(score, list):
                    score[0] *= 0.5
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (place / "scores.jsonl").write_text(text)
    done = command("board", "check", "--baseline", BASELINE, "--candidate", "worse", "--json")
    assert done.returncode == 1
    verdicts = {one["task"].split()[0]: one for one in json.loads(done.stdout)["tasks"]}
    assert not verdicts["mevis"]["passed"] and not verdicts["reason_seg"]["passed"]


def test_the_baseline_holds_no_path(command):
    for path in BASELINE.rglob("*.json*"):
        assert "/tmp" not in path.read_text() and "/home" not in path.read_text()
