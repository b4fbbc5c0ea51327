"""The trainer that docs/training.md names is run, interrupted, resumed and evaluated."""

import json
import os
import runpy
import signal
from pathlib import Path

import pytest

from harness.cli.model_choice import requested_models
from harness.plugins import build
from harness.run.train import TrainingOptions, train
from harness.spec import Spec

REPOSITORY = Path(__file__).resolve().parents[2]
FILE = REPOSITORY / "tests" / "trainers" / "added" / "dft.py"
EXAMPLE = REPOSITORY / "tasks" / "reason_seg" / "example"


@pytest.fixture(scope="module")
def names():
    pytest.importorskip("trl")
    page = (REPOSITORY / "docs" / "training.md").read_text("utf-8")
    assert f"`{FILE.relative_to(REPOSITORY).as_posix()}`" in page
    return runpy.run_path(str(FILE), run_name="dft")


def test_it_learns_resumes_and_its_folder_is_a_model(names, tmp_path):
    def start(name, **more):
        tasks = [build("tasks", "reason_seg", EXAMPLE)]
        options = TrainingOptions(**more)
        trainer = names["dft"](max_steps=3, save_steps=1, finetune="lora")
        return train(trainer, tasks, Spec("pocket"), tmp_path / name, options)

    start("whole", every=2, evaluate=lambda folder, step: {"eval/reason_seg/gIoU": step / 10})
    rows = [json.loads(line) for line in (tmp_path / "whole/curve.jsonl").open()]
    evaluated = [row.pop("eval/reason_seg/gIoU", None) for row in rows]
    assert evaluated == [None, 0.2, None]

    def interrupt(folder, step):
        os.kill(os.getpid(), signal.SIGINT)
        return {}

    with pytest.raises(KeyboardInterrupt):
        start("cut", every=2, evaluate=interrupt)
    assert (tmp_path / "cut/state/step-2").is_dir()
    start("cut", resume=True)
    assert [json.loads(line) for line in (tmp_path / "cut/curve.jsonl").open()] == rows
    weights = [tmp_path / one / "checkpoint/model.safetensors" for one in ("whole", "cut")]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    manifest = json.loads((tmp_path / "whole/manifest.json").read_text())
    assert manifest["result"]["parameters_trained"] < manifest["result"]["parameters"]
    (spec,) = requested_models([str(tmp_path / "whole")], tell=False)
    assert spec.name == "pocket" and spec.arguments["checkpoint"] == str(tmp_path / "whole")
