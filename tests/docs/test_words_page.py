"""docs/tutorials/words.md is a whole package, which is installed and run here as it stands."""

import importlib
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from harness.cli.main import main
from harness.media import pixels
from harness.types import Answer, AnswerForm, Query, Sample, Target

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorials" / "words.md"
BLOCK = re.compile(r"^```(?:toml|python) (\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ENTRY = re.compile(r'^\[project\.entry-points\."(.*)"\]\n(\w+) = "(.*)"$', re.MULTILINE)
PARTS = "segmenter=box,propagator=still"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The package of the page, installed for this process."""
    blocks = dict(BLOCK.findall(PAGE.read_text("utf-8")))
    entries = ENTRY.findall(blocks["pyproject.toml"])
    assert [kind for kind, *_ in entries] == ["harness.models", "harness.trainers"]
    for name, text in blocks.items():
        (tmp_path / name).write_text(text)
    about = tmp_path / "stepwise-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: stepwise\nVersion: 1.0\n")
    lines = [f"[{kind}]\n{name} = {value}\n" for kind, name, value in entries]
    (about / "entry_points.txt").write_text("".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in ("stepwise_model", "stepwise_reward"):
        sys.modules.pop(name, None)


def test_its_grammar_reads_what_it_writes(installed, shapes, capsys):
    model = f"stepwise(backend=stored,{PARTS})"
    for task, root in (("shapes_qa", shapes), ("video_mme", ROOT / "tasks/video_mme/example")):
        assert main(["verify", "--tasks", task, "--data", str(root), "--model", model]) == 0
        assert "by perfect responses" in " ".join(capsys.readouterr().out.split())


def test_a_form_that_it_does_not_declare_is_refused(installed, capsys):
    root = ROOT / "tasks" / "rvtbench_summary" / "example"
    given = ["--tasks", "rvtbench_summary", "--data", str(root)]
    assert main(["verify", *given, "--model", f"stepwise(backend=stored,{PARTS})"]) == 2
    assert "answers with text" in capsys.readouterr().err


def test_its_reward_is_that_of_the_page(installed):
    pytest.importorskip("torch")
    right = importlib.import_module("stepwise_reward").Right()
    shown = pixels([np.zeros((8, 8, 3), np.uint8)], times=(0.0,), is_video=False, id="x")
    for form, truth, texts in (
        (AnswerForm.CHOICE, Answer(choice="B"), {"Answer: B": 1, "Answer: A": 0, "B": None}),
        (AnswerForm.NUMBER, Answer(number=10.0), {"Answer: 10.5": 1, "Answer: 12": 0, "10": None}),
    ):
        query = Query(id="q", text="?", media=(shown,), forms=(form,), options=("a", "b"))
        sample = Sample(id="s", query=query, target=Target(answer=truth))
        for text, value in texts.items():
            found = right.components(sample, f"<think>so</think>\n{text}")
            assert found["right"] == (value or 0)
            assert found["form"] == (0.0 if value is None else 0.1)


@pytest.mark.slow
def test_it_evaluates_and_trains_a_step(installed, shapes, tmp_path, capsys):
    pytest.importorskip("trl")
    model, data = f"stepwise(checkpoint=pocket,canvas=168,{PARTS})", ["--data", str(shapes)]
    out = ["--out", str(tmp_path / "runs"), "--json", "--quiet"]
    # pocket does not know the prompt: no sample has an answer.
    assert main(["eval", "--model", model, "--tasks", "shapes_qa", *data, *out]) == 1
    assert json.loads(capsys.readouterr().out)["tasks"]["shapes_qa"]["n_total"]
    settings = "generation_batch_size=16,per_device_train_batch_size=8,max_completion_length=48"
    given = ["--method", "stepwise_grpo", "--train-tasks", "shapes_qa(split=train)", *data]
    given += ["--model", model, "--set", f"{settings},max_steps=1", "--out", str(tmp_path / "DIR")]
    assert main(["train", *given, "--quiet"]) == 0
    capsys.readouterr()
    trained = ["eval", "--model", str(tmp_path / "DIR"), "--tasks", "shapes_qa", *data, *out]
    assert main([*trained, "--subset", "first2"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["tasks"]["shapes_qa"]["n_total"] == 2
