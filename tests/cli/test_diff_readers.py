"""`harness diff` reads responses by the model that their run names: of a file, or of a replay."""

import json
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.leaderboards.differences.mixed_reading import reader_of
from harness.record import Run
from harness.run.batching import samples_of
from harness.tasks.reason_seg.task import reason_seg

EXAMPLE = Path(__file__).resolve().parents[2] / "tasks" / "reason_seg" / "example"
READER = "qwen_vl(prompt=locate,backend=stored(coordinates=normalized_1000),segmenter=box)"


@pytest.fixture
def runs(tmp_path):
    """A replay of responses, and the score of a file of others."""
    samples = list(samples_of(reason_seg(EXAMPLE, split="val")))
    for name, corner in (("first", 500), ("second", 900)):
        thing = {"bbox_2d": [0, 0, corner, corner], "point_2d": [9, 9], "label": "thing"}
        lines = [
            {"id": sample.id, "response": f"<answer>{json.dumps([thing])}</answer>"}
            for sample in samples
        ]
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (tmp_path / f"{name}.jsonl").write_text(text)
    given = ["--tasks", "reason_seg", "--data", str(EXAMPLE), "--out", str(tmp_path / "runs")]
    replay = f"replay(file={tmp_path / 'first.jsonl'},model={READER})"
    stored = ["--predictions", str(tmp_path / "second.jsonl"), "--model", READER]
    assert main(["eval", "--model", replay, *given]) == 0
    assert main(["score", *stored, "--name", "second", *given]) == 0
    folders = [place.parent for place in (tmp_path / "runs").rglob("results.json")]
    return sorted(folders, key=lambda folder: folder.parent.name == "second")


def test_a_replay_and_a_files_score_are_compared(runs, capsys):
    capsys.readouterr()
    assert main(["diff", *map(str, runs), "--data", str(EXAMPLE)]) == 0
    assert "responses" in capsys.readouterr().out


def test_numbers_of_both_keep_their_meaning(runs):
    for folder in runs:
        reader = reader_of(Run.open(folder))
        assert reader is not None and reader.meaning == "normalized_1000"
