"""A model whose process cannot read the data root predicts the same."""

import json
import os
import sys

import pytest

from harness import plugins
from harness.run.evaluate import evaluate
from harness.run.options import Options
from harness.spec import parse

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up the right to read")


def tasks_of(process, code=0):
    """Return the results by task that a command prints, which ends with this code."""
    shown, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    return json.loads(shown)["tasks"]


@ROOT_ONLY
def test_without_the_right_to_read_the_data_the_predictions_are_the_same(command, start, tmp_path):
    import toys

    # Others may pass through the folders above, and must not read the data root itself.
    data = toys.write_dots(tmp_path / "data", 12)
    for parent in [tmp_path, *tmp_path.parents]:
        if parent.stat().st_uid == os.geteuid() and str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    data.chmod(0o700)
    secret = data / "dots"
    arguments = ("--tasks", "dots", "--data", data, "--out")
    plain = command.json("eval", "--model", "dot_finder", *arguments, tmp_path / "a")
    robbed = ("eval", "--model", f"dot_finder(fault=privileges,secret={secret})", *arguments)
    blind = tasks_of(start(*robbed, tmp_path / "b", "--isolate", "--json"))
    assert blind == plain["tasks"]
    assert blind["dots"]["n_failed"] == 0
    options = ("--workers", "2", "--infrastructure-limit", "1", "--json")
    seeing = tasks_of(start(*robbed, tmp_path / "c", *options), code=1)  # no sample has an answer
    assert seeing["dots"]["failures"]["infrastructure"] == 12, (
        "without --isolate the same process needs files that it cannot read"
    )


def test_an_isolated_worker_knows_neither_the_command_line_nor_the_folder(
    dots, tmp_path, monkeypatch
):
    monkeypatch.chdir(dots.parent)
    monkeypatch.setattr(sys, "argv", ["harness", "eval", "--data", str(dots)])
    task = plugins.build("tasks", parse("dots"), dots)
    done = evaluate(task, parse("dot_finder(fault=told)"), tmp_path / "a", Options(isolate=True))
    assert done.results["n_failed"] == 0


def test_a_query_tells_neither_answer_nor_split_nor_benchmark(dots):
    (task,) = [plugins.build("tasks", "dots", dots)]
    for sample in task.samples():
        output = repr(sample.query) + sample.query.id + sample.query.text
        assert "dots" not in output and "test" not in output and sample.id not in output
        fields = set(type(sample.query).__slots__)
        assert fields == {
            "id",
            "text",
            "media",
            "forms",
            "options",
            "objects",
            "problem_type",
            "instances",
            "generation",
        }
