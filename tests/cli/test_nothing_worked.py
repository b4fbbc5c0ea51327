"""Exit codes of commands in which no sample has an answer."""

import json

import pytest

from harness import plugins
from harness.cli.main import main
from harness.errors import ModelError
from harness.testing.shapes import make_shapes

READER = "qwen_vl(backend=stored{},segmenter=box)"
ANSWER = '<answer>[{"bbox_2d": [1, 2, 30, 40], "point_2d": [10, 10]}]</answer>'


def test_a_model_that_fails_on_every_sample_ends_with_its_code_and_keeps_the_results(
    tmp_path, monkeypatch, capsys
):
    make_shapes(tmp_path / "data", tasks=["reason_seg"], size=2)

    def broken(*_, **__):
        raise ValueError("a broken model")

    monkeypatch.setattr("harness.models.baselines.model.Guesser.predict", broken)
    options = ["--data", str(tmp_path / "data"), "--out", str(tmp_path / "runs")]
    code = main(["eval", "--model", "random", "--tasks", "reason_seg", *options])
    assert code == ModelError.exit_code
    printed = capsys.readouterr()
    assert "failures of the model itself" in printed.err and printed.out == ""
    assert list((tmp_path / "runs").rglob("results.json"))


@pytest.fixture
def benchmark(tmp_path):
    """Make a benchmark of two samples; return the options that name it, and a writer of responses.

    The writer gets a response for each sample, and returns the path of their file.
    """
    make_shapes(tmp_path / "data", tasks=["reason_seg"], size=2)
    names = [
        sample.id for sample in plugins.build("tasks", "reason_seg", tmp_path / "data").samples()
    ]

    def write(*responses):
        path = tmp_path / "stored.jsonl"
        rows = [{"id": name, "response": text} for name, text in zip(names, responses, strict=True)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    return ["--tasks", "reason_seg", "--data", str(tmp_path / "data"), "--json"], write


@pytest.mark.parametrize("command", ["eval", "score"])
@pytest.mark.parametrize(
    ("responses", "code"), [(["I see it.", "Nothing."], 1), (["I see it.", ANSWER], 0)]
)
def test_an_evaluation_in_which_no_response_is_read_ends_with_code_1_beside_its_score(
    benchmark, tmp_path, capsys, command, responses, code
):
    """`score` did what it was asked for, and says in a note that it read no response."""
    options, write = benchmark
    path = write(*responses)
    stored = {
        "eval": ["--model", READER.format(f"(file={path})"), "--out", str(tmp_path / "runs")],
        "score": ["--model", READER.format(""), "--predictions", path],
    }
    for _ in range(2):  # the second `eval` finds a finished run
        assert main([command, *stored[command], *options]) == (code if command == "eval" else 0)
        printed = capsys.readouterr()
        results = json.loads(printed.out)["tasks"]["reason_seg"]
        assert results["n_scored"] == 1 - code and results["metrics"]["gIoU"] is not None
        note = "no sample has an answer" if command == "eval" else "no response is read"
        assert (note in printed.err) == bool(code)
