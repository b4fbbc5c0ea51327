"""The examples of docs/predictions.md are run."""

import re
from pathlib import Path

import numpy as np
import pytest

from harness.plugins import build
from harness.run.external_predictions import Submission
from harness.run.score import score_file

PAGE = Path(__file__).resolve().parents[2] / "docs" / "predictions.md"
EXAMPLE = Path(__file__).resolve().parents[2] / "tasks" / "reason_seg" / "example"
TO_LINES, FROM_PAIRS, TO_FILES = re.findall(
    r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
)


@pytest.fixture
def task():
    return build("tasks", "reason_seg", EXAMPLE)


@pytest.fixture
def masks(task):
    return {one.id: one.target.answer.masks[0].to_array() for one in task.samples()}


def test_arrays_become_lines(task, masks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(TO_LINES, str(PAGE), "exec"), {"masks": masks})
    given = Submission(path=tmp_path / "mine.jsonl", name="mine")
    found = score_file(task, given, folder=None)
    assert found["n_failed"] == 0 and found["metrics"]["gIoU"] == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("order", ["F", "C"])
def test_pairs_become_the_mask(masks, order):
    names: dict = {}
    exec(compile(FROM_PAIRS, str(PAGE), "exec"), names)
    for mask in masks.values():
        flat = np.concatenate([[False], mask.ravel(order=order), [False]])
        places = np.flatnonzero(flat[1:] != flat[:-1]) + 1
        places[1::2] -= places[::2]
        text = " ".join(map(str, places))
        assert np.array_equal(names["from_pairs"](text, *mask.shape, order), mask)


def test_arrays_become_files(task, masks, tmp_path):
    from harness.cli.score import _tree

    (tmp_path / "said").mkdir()
    exec(
        compile(TO_FILES, str(PAGE), "exec"),
        {
            "folder": tmp_path / "said",
            "probabilities": {name: 0.2 + 0.6 * mask for name, mask in masks.items()},
        },
    )
    given = Submission(
        path=tmp_path / "said", name="mine", format="mask-tree", tree=_tree("mask-tree")
    )
    found = score_file(task, given, folder=None)
    assert found["n_failed"] == 0 and found["metrics"]["gIoU"] == pytest.approx(1, abs=1e-4)


def test_the_first_example_takes_ten_lines():
    assert len([line for line in TO_LINES.splitlines() if line.strip()]) <= 10
