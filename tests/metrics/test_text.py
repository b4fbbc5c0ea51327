"""Caption metrics at their edges, their refusals and laws; what answers cost."""

import io
import math
import re
import shutil
from importlib.util import find_spec

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import DataError, HarnessError, MissingDependency, UsageError
from harness.metrics import captions, efficiency
from harness.metrics.caption_tokens import tokenize
from harness.metrics.captions import caption, caption_metrics, caption_scores
from harness.scores import Mean, Metric, Ratio, Totals
from harness.task import CostMetric, with_metrics
from harness.types import Prediction, Usage

needs_text = pytest.mark.skipif(find_spec("pycocoevalcap") is None, reason="needs extra [text]")
needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
COUNTED = ("BLEU-1", "BLEU-4", "ROUGE-L", "CIDEr")
WORDS = st.text("abc '", max_size=14)
ITEMS = st.lists(
    st.fixed_dictionaries(
        {"candidate": WORDS, "references": st.lists(WORDS, min_size=1, max_size=3)}
    ),
    min_size=1,
    max_size=6,
)


def item(said, *references):
    return {"candidate": said, "references": list(references)}


def test_without_java_the_official_tokens_are_refused_with_the_reason(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    texts = [item("a caption that no other test has", "another one of those")]
    for name in ("BLEU-4", "CIDEr", "METEOR"):
        with pytest.raises(MissingDependency, match=r"Java.*tokenizer=simple"):
            captions.corpus_value(texts, name=name)


def test_simple_tokens_are_part_of_the_metrics_names():
    assert [one.name for one in caption_metrics(["CIDEr"])] == ["CIDEr"]
    assert [one.name for one in caption_metrics(["CIDEr"], tokenizer="simple")] == [
        "CIDEr (simple tokens)"
    ]
    assert all(one.about and one.corpus is not None for one in caption_metrics())


@pytest.mark.parametrize(
    "wrong",
    [
        {"candidate": None, "references": ["a"]},
        {"candidate": "a", "references": []},
        {"candidate": "a"},
        "a",
        {"candidate": "a", "references": "a"},
        {"candidate": "a", "references": ["a", None]},
    ],
)
def test_what_is_no_caption_is_refused_and_named(wrong):
    with pytest.raises(DataError, match="caption 1"):
        captions.corpus_value([item("a", "a"), wrong], name="CIDEr", tokenizer="simple")


def test_an_empty_corpus_is_refused():
    with pytest.raises(DataError, match=r"^captions: .*none"):
        captions.corpus_value([], name="BLEU-4")


@needs_text
def test_cider_of_one_caption_is_0_even_if_it_is_perfect():
    assert (
        captions.corpus_value([item("a dog runs", "a dog runs")], name="CIDEr", tokenizer="simple")
        == 0.0
    )


@needs_text
def test_cider_without_any_reference_token_is_0():
    assert (
        captions.corpus_value([item("a", ""), item("", "...")], name="CIDEr", tokenizer="simple")
        == 0.0
    )


@needs_text
def test_a_perfect_caption_of_three_words_has_almost_no_bleu_4():
    assert captions.corpus_value(
        [item("three red balls", "three red balls")], name="BLEU-4", tokenizer="simple"
    ) == (pytest.approx(0.0316, abs=1e-4))


@needs_text
def test_rouge_takes_precision_and_recall_from_different_references():
    assert (
        captions.corpus_value(
            [item("a dog", "a dog runs fast", "dog")], name="ROUGE-L", tokenizer="simple"
        )
        == 1.0
    )
    assert (
        captions.corpus_value(
            [item("a dog", "a dog runs fast")], name="ROUGE-L", tokenizer="simple"
        )
        < 1.0
    )


@needs_text
@pytest.mark.parametrize("name", COUNTED)
def test_an_answer_that_is_missing_scores_0_and_counts(name):
    texts = [item("two dogs run on grass", "two dogs run on grass"), item("x y z", "a red car")]
    with_gap = [*texts[:1], item("", "a red car")]
    scores = caption_scores(with_gap, [name], tokenizer="simple")[name]
    assert len(scores.each) == 2 and scores.each[1] == 0.0
    assert scores.value < 1.0 or name == "CIDEr"


@needs_text
@settings(max_examples=40, deadline=None)
@given(ITEMS, st.randoms(use_true_random=False))
def test_order_of_captions_and_references_changes_nothing(items, random):
    mixed = [
        item(one["candidate"], *random.sample(one["references"], len(one["references"])))
        for one in random.sample(items, len(items))
    ]
    for name in COUNTED:
        first = captions.corpus_value(items, name=name, tokenizer="simple")
        second = captions.corpus_value(mixed, name=name, tokenizer="simple")
        assert math.isclose(first, second, rel_tol=1e-9, abs_tol=1e-9)


@needs_text
@settings(max_examples=40, deadline=None)
@given(ITEMS)
def test_scores_are_finite_and_within_their_scale(items):
    for name, scored in caption_scores(items, COUNTED, tokenizer="simple").items():
        highest = 10.0 if name == "CIDEr" else 1.0
        for value in (scored.value, *scored.each):
            assert 0.0 <= value <= highest + 1e-9
        assert len(scored.each) == len(items)


@needs_text
@settings(max_examples=25, deadline=None)
@given(ITEMS)
def test_saying_a_reference_is_never_worse_for_rouge(items):
    perfect = [item(one["references"][0], *one["references"]) for one in items]
    assert captions.corpus_value(perfect, name="ROUGE-L", tokenizer="simple") == 1.0


@needs_text
def test_repeating_every_caption_leaves_bleu_and_rouge_as_they_are():
    texts = [item("a dog runs on the grass", "a dog is running on grass"), item("a cat", "one cat")]
    for name in ("BLEU-1", "BLEU-2", "ROUGE-L"):
        once = captions.corpus_value(texts, name=name, tokenizer="simple")
        twice = captions.corpus_value(texts * 2, name=name, tokenizer="simple")
        assert once == pytest.approx(twice, abs=1e-8)


@needs_text
def test_a_protocol_of_corpora_merges_units_in_any_split():
    texts = [item("a dog", "a dog runs"), item("two cats sit", "two cats sit"), item("x", "y")]
    metrics = caption_metrics(["ROUGE-L", "CIDEr"], tokenizer="simple")
    totals = Totals(metrics)
    for one in texts:
        totals.add(
            {metric.name: caption(one["candidate"], one["references"]) for metric in metrics}
        )
    assert totals.values() == {
        metric.name: captions.corpus_value(texts, name=name, tokenizer="simple")
        for metric, name in zip(metrics, ("ROUGE-L", "CIDEr"), strict=True)
    }


@needs_text
@needs_java
def test_a_meteor_program_that_dies_is_an_error_and_is_started_anew(monkeypatch):
    from harness.metrics import meteor

    class Dead:
        def __init__(self):
            self.lock, self.meteor_p = meteor.threading.Lock(), Ended()

        def compute_score(self, references, said):
            self.lock.acquire()
            raise ValueError("could not convert string to float: ''")

    class Ended:
        stdout = io.BytesIO()

        def kill(self):
            ended.append("killed")

        def wait(self):
            ended.append("waited")

    class Started(dict):
        cache_clear = dict.clear

        def __call__(self, process):
            return self.setdefault(process, Dead())

    ended, started = [], Started()
    monkeypatch.setattr(meteor, "_program", started)
    with pytest.raises(HarnessError, match=r"METEOR: .*float: ''"):
        meteor.aligned({0: ["a"]}, {0: ["a"]})
    assert ended == ["killed", "waited"] and not started


def test_lone_surrogates_do_not_stop_the_simple_tokens():
    assert tokenize([item("a \ud800 b", "a")], tokenizer="simple").candidates == ("a b",)


def spent(*, tokens=0, thought=0, frames=0, responses=(), failed=False):
    from harness.types import Answer, Failure, FailureKind

    info = {"failure": Failure(FailureKind.PARSE, "?")} if failed else {"answer": Answer(count=1)}
    usage = Usage(completion_tokens=tokens, reasoning_tokens=thought, frames=frames)
    return Prediction(query_id="q", responses=responses, usage=usage, **info)


def test_costs_are_means_over_all_samples_failed_ones_too():
    predictions = [
        spent(tokens=10, thought=4, frames=8, responses=("<think> abc </think>", "<think>de")),
        spent(tokens=30, failed=True, responses=("no tags",)),
    ]
    found = {
        make().metric.name: make().score([None, None], predictions)[make().metric.name]
        for make in (
            efficiency.reasoning_tokens,
            efficiency.completion_tokens,
            efficiency.frames,
            efficiency.reasoning_characters,
        )
    }
    assert found == {
        "reasoning tokens": Mean(2.0, weight=2),
        "completion tokens": Mean(20.0, weight=2),
        "frames": Mean(4.0, weight=2),
        "reasoning characters": Mean(2.5, weight=2),
    }


def test_reasoning_can_stand_between_other_tags():
    score = efficiency.reasoning_characters(tag="reasoning").score
    found = score([None], [spent(responses=("<reasoning>abcd</reasoning><think>x</think>",))])
    assert found["reasoning characters"] == Mean(4.0, weight=1)


def task(values, headline=None):
    """As much of a task as its metrics need."""
    from harness.task import Ceiling, Protocol, Task

    left = iter(values)
    protocol = Protocol(
        name="p",
        score=lambda unit, predictions: next(left),
        metrics=(headline or Metric("accuracy"), Metric("other")),
        headline=(headline or Metric("accuracy")).name,
        ceiling=Ceiling(value=1.0),
        about="",
    )
    return with_metrics(
        Task(
            name="t",
            version=1,
            split="s",
            forms=(),
            protocol=protocol,
            samples=lambda: [],
            annotations=(),
            check=lambda: [],
        ),
        [efficiency.tokens_per_correct()],
    )


def totals(values, predictions):
    made = task(values)
    found = Totals(made.protocol.metrics)
    for one in predictions:
        found.add(made.protocol.score([None], [one]))
    return found.values()["tokens per correct answer"]


def test_tokens_of_wrong_answers_count_for_the_right_ones():
    values = [{"accuracy": Mean(1.0)}, {"accuracy": Mean(0.0)}, {"accuracy": Mean(0.5)}]
    assert totals(values, [spent(tokens=10), spent(tokens=50, failed=True), spent(tokens=30)]) == 60


def test_nothing_right_has_no_cost_a_right_answer():
    assert totals([{"accuracy": Mean(0.0)}], [spent(tokens=10)]) is None


def test_samples_without_the_headline_do_not_count():
    assert (
        totals([{"other": Mean(1.0)}, {"accuracy": Mean(1.0)}], [spent(tokens=99), spent(tokens=7)])
        == 7
    )


@pytest.mark.parametrize("value", [Mean(1.5), Mean(-0.1), Ratio(1, 2)])
def test_a_headline_that_is_no_share_of_right_answers_is_refused(value):
    named = f"'tokens per correct answer': .*{re.escape(repr(value))}"
    with pytest.raises(UsageError, match=named):
        totals([{"accuracy": value}], [spent(tokens=1)])


def test_a_headline_over_all_samples_is_refused_before_anything_is_scored():
    with pytest.raises(UsageError, match=r"'tokens per correct answer': .*accuracy"):
        task([], headline=Metric("accuracy", corpus=len))


def test_the_cost_is_one_of_the_installed_kinds():
    assert isinstance(efficiency.tokens_per_correct(), CostMetric)
    assert efficiency.tokens_per_correct().metric.better == "lower"
