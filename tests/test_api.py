"""`import harness`: the public names, what they cost, and the page that shows them."""

import ast
import copy
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import harness
from harness import api
from harness.errors import DataError, ModelError, StoreError, UnknownPlugin, UsageError
from harness.model import Model
from harness.types import AnswerForm, FailureKind

PAGE = Path(__file__).parent.parent / "docs" / "api.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SLOW = ("torch", "transformers", "cv2", "datasets", "numpy", "rich", "pyarrow", "PIL")


def python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_package_imports_nothing_else():
    code = (
        "import sys, harness; assert harness.__all__ and dir(harness)\n"
        f"print([name for name in {SLOW} if name in sys.modules],"
        "[name for name in sys.modules if name.startswith('harness.')])"
    )
    assert python(code) == "[] []"


def test_using_the_api_imports_no_deep_learning_framework(shapes):
    code = (
        "import sys, harness\n"
        f"harness.load_task('reason_seg', data={str(shapes)!r}); harness.load_model('saliency')\n"
        "print([n for n in ('torch', 'transformers', 'datasets') if n in sys.modules])"
    )
    assert python(code) == "[]"


def test_public_names_are_listed_typed_and_there():
    assert 20 <= len(harness.__all__) <= 30
    assert set(harness.__all__) <= set(dir(harness))
    tree = ast.parse(Path(harness.__file__).read_text("utf-8"))
    typed = [
        name.asname or name.name
        for node in tree.body
        if isinstance(node, ast.If)
        for inner in node.body
        if isinstance(inner, ast.ImportFrom)
        for name in inner.names
    ]
    assert sorted(typed) == sorted(harness.__all__)  # else editors see other names than there are
    for name in harness.__all__:
        assert getattr(harness, name).__name__ == name
    assert set(api.__all__) <= set(harness.__all__)
    with pytest.raises(AttributeError, match="evalute"):
        harness.evalute  # noqa: B018


def test_the_page_names_every_public_name():
    table = PAGE.read_text("utf-8").partition("## Names")[2]
    listed = {
        name
        for line in table.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert listed == set(harness.__all__)


def test_the_page_runs_as_it_stands(shapes, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").symlink_to(shapes)
    blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    shown = [line for block in blocks[:3] for line in block.splitlines() if line.strip()]
    assert len(shown) <= 30
    names = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert names["image"].shape[:2] == names["predicted"].shape == names["ground_truth"].shape
    assert names["difference"].n_units == names["run"].results["n_total"] == 4
    assert harness.score(names["task"], names["predictions"])["metrics"]["gIoU"] > 0.99


@pytest.fixture
def task(shapes):
    return harness.load_task("reason_seg(split=test)", data=shapes)


class Whole(Model):
    """Everything in the image; `share` of it from the left."""

    name, batch_size, forms = "whole", 4, frozenset({AnswerForm.MASK})

    def __init__(self, share=1.0):
        self.share = share

    def describe(self):
        return {"share": self.share}

    def predict(self, queries):
        return [self.answer(query) for query in queries]

    def answer(self, query):
        width, height = query.size
        mask = np.zeros((height, width), bool)
        mask[:, : round(width * self.share)] = True
        answer = harness.Answer(masks=(harness.Rle.from_array(mask),))
        return harness.Prediction(query_id=query.id, answer=answer)


def test_a_run_of_the_api_is_the_command_s_run(command, shapes, tmp_path):
    task = harness.load_task("reason_seg(split=test)", data=shapes)
    run = harness.evaluate(task, "whole_frame", out=tmp_path / "runs")
    before = (run.folder / "results.json").read_bytes()
    journal = {path.name for path in run.folder.glob("samples.*")}
    shown = command.json(
        "eval",
        "--model",
        "whole_frame",
        "--tasks",
        "reason_seg(split=test)",
        "--data",
        shapes,
        "--out",
        "runs",
    )
    assert (run.folder / "results.json").read_bytes() == before
    assert {path.name for path in run.folder.glob("samples.*")} == journal  # nothing was predicted
    assert shown["tasks"]["reason_seg"]["metrics"] == run.results["metrics"]
    assert run.manifest["data"]["root"] == str(shapes)


def test_a_model_that_does_not_derive_from_ours_is_refused(task, tmp_path):
    class Alike:
        name, batch_size, forms = "alike", 4, frozenset({AnswerForm.MASK})
        describe, predict = Whole.describe, Whole.predict

    with pytest.raises(ModelError, match=r"derives from harness\.model\.Model, found .*Alike"):
        harness.evaluate(task, Alike(), out=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_loaded_model_is_recorded_by_its_spec(task, tmp_path):
    model = harness.load_model("random(seed=3)")
    run = harness.evaluate(task, model, out=tmp_path)
    assert run.manifest["model"]["spec"] == "random(seed=3)"
    query = next(iter(task.samples())).query
    assert model.predict([query]) == [run.prediction(next(iter(task.samples())).id)]
    assert copy.copy(model).forms == model.forms
    assert harness.evaluate(task, Whole(), out=tmp_path).manifest["model"]["spec"] == "whole"


def test_samples_of_a_run_hold_question_answer_ground_truth_and_scores(task, tmp_path):
    run = harness.evaluate(task, Whole(), out=tmp_path)
    for samples in (
        list(harness.read_samples(harness.read_run(run.folder))),
        list(harness.read_samples(run, task)),
    ):
        assert [one.id for one in samples] == [one.id for one in task.samples()]
        mean = sum(one.scores["gIoU"] for one in samples) / len(samples)
        assert mean == pytest.approx(run.results["metrics"]["gIoU"], rel=1e-4)  # LISA's epsilon
        for one in samples:
            width, height = one.query.size
            assert one.prediction.answer.masks[0].area == width * height
            assert one.target.answer.masks[0].area < width * height
            assert one.responses == ()


def test_the_difference_of_two_runs_is_that_of_their_numbers(task, tmp_path):
    whole = harness.evaluate(task, Whole(), out=tmp_path)
    left = harness.evaluate(task, Whole(0.5), out=tmp_path, name="left")
    found = harness.compare(whole, left.folder)
    assert (found.a, found.b) == tuple(run.results["metrics"]["gIoU"] for run in (whole, left))
    assert found.interval[0] <= found.difference <= found.interval[1]
    assert harness.compare(whole, whole).difference == 0
    assert harness.compare(whole, left, metric="cIoU").metric == "cIoU"
    with pytest.raises(UsageError, match="IoU"):
        harness.compare(whole, left, metric="IoU")


def test_runs_that_cannot_be_compared_are_refused(task, shapes, tmp_path):
    whole = harness.evaluate(task, Whole(), out=tmp_path)
    part = harness.evaluate(task, Whole(), out=tmp_path, subset="first4")
    other = harness.evaluate(harness.load_task("llm_seg40k", data=shapes), Whole(), out=tmp_path)
    for run, named in ((part, "first4"), (other, "llm_seg40k")):
        with pytest.raises(UsageError, match=named):
            harness.compare(whole, run)
    with pytest.raises(UsageError, match="3"):
        harness.compare(tmp_path, whole)
    scores = whole.folder / "scores.jsonl"
    scores.write_bytes(scores.read_bytes().replace(b"0.0", b"0.1", 1) + b" ")
    with pytest.raises(StoreError, match=r"scores\.jsonl"):
        harness.compare(whole, whole)


def test_predictions_in_memory_score_as_those_of_a_run(task, tmp_path):
    run = harness.evaluate(task, Whole(0.5), out=tmp_path)
    predictions = [one.prediction for one in harness.read_samples(run)]
    whole = harness.score(task, predictions)
    assert whole["metrics"] == run.results["metrics"]
    assert whole["intervals"] == run.results["intervals"]
    fewer = harness.score(task, predictions[1:])
    assert fewer["n_failed"] == 1 and fewer["failures"][FailureKind.INFRASTRUCTURE] == 1
    assert fewer["metrics"]["gIoU"] < whole["metrics"]["gIoU"]
    for wrong in (
        [*predictions, predictions[0]],
        [harness.Prediction(query_id="of-no-sample", answer=harness.Answer())],
    ):
        with pytest.raises(DataError, match=wrong[-1].query_id):
            harness.score(task, wrong)


def test_what_cannot_be_done_is_refused_before_anything_runs(task, shapes, tmp_path):
    with pytest.raises(UnknownPlugin, match="reason_seg"):
        harness.load_task("reasonseg", data=shapes)
    with pytest.raises(UsageError, match="max_new_tokens"):
        harness.load_model("pocket(max_tokens=3)")
    with pytest.raises(UsageError, match="2"):
        harness.evaluate(task, Whole(), out=tmp_path, workers=2)
    with pytest.raises(StoreError, match=re.escape(str(tmp_path))):
        harness.read_run(tmp_path)
    assert not list(tmp_path.iterdir())
