"""The commands that a finished training prints can be typed as they stand."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.cli.train import next_commands


@pytest.mark.parametrize(
    ("specs", "evaluated", "expected"),
    [
        (
            ["shapes_referring(split=train)", "reason_seg(split=train)"],
            False,
            ["next: harness eval --model {} --tasks shapes_referring,reason_seg --data ROOT --out "
             "runs", "      harness explain {}"],
        ),
        (["shapes_referring(split=train)"], True, ["next: harness explain {}"]),
        (["visionreasoner_7k"], False, ["next: harness explain {}"]),
        (["shapes_referring(split=val)"], False, ["next: harness explain {}"]),
    ],
)  # fmt: skip
def test_a_training_names_the_commands_that_score_and_show_it(tmp_path, specs, evaluated, expected):
    tasks = [
        {"spec": spec, "split": spec.rpartition("=")[2][:-1] if "(" in spec else "train"}
        for spec in specs
    ]
    (tmp_path / "rollouts.jsonl").write_text("")
    training = SimpleNamespace(folder=tmp_path, manifest={"tasks": tasks})
    shown = next_commands(training, Path("ROOT"), evaluated=evaluated)
    assert shown == [line.format(tmp_path) for line in expected]
    (tmp_path / "rollouts.jsonl").unlink()
    assert not any("explain" in line for line in next_commands(training, None, evaluated=False))
