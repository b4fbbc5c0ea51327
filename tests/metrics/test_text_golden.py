"""Equality with pycocoevalcap's scorers, on stored outputs and side by side in this process."""

import importlib
import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden"
pytestmark = [
    pytest.mark.skipif(find_spec("pycocoevalcap") is None, reason="needs the extra [text]"),
    pytest.mark.skipif(shutil.which("java") is None, reason="needs Java"),
]
KNOWN = {
    "BLEU-1": 0.55,
    "BLEU-2": 0.428174,
    "BLEU-3": 0.284043,
    "BLEU-4": 0.201143,
    "ROUGE-L": 0.522104,
    "CIDEr": 1.242192,
    "METEOR": 0.295797,
}


@pytest.fixture
def compare(monkeypatch):
    monkeypatch.syspath_prepend(str(GOLDEN))
    return importlib.import_module("compare_text")


@pytest.fixture(scope="module")
def file():
    return json.loads((GOLDEN / "captions/pycocoevalcap.json").read_text(encoding="utf-8"))


def test_every_token_and_number_equals_the_official_one(compare, compared):
    found = dict(zip(compare.CHECKS, compared("text"), strict=False))
    assert {name: one.deviation for name, one in found.items()} == dict.fromkeys(found, 0)
    assert found["tokens"].cases > 1000
    assert all(one.cases > 300 for one in found.values())


def test_the_golden_scores_are_the_known_ones_of_nlg_eval(file):
    """Ours equal the golden ones, see above."""
    scores = file["corpora"]["known"]
    assert {name: round(scores[name]["value"], 6) for name in KNOWN} == KNOWN


def test_the_golden_captions_are_odd_enough_and_the_file_is_small(file):
    items = file["corpora"]["all"]["items"]
    texts = [text for item in items for text in (item["candidate"], *item["references"])]
    assert len(items) >= 200
    assert {"", " ", "...", "\n", "No."} <= set(texts)
    assert any("(" in text for text in texts) and any("北" in text for text in texts)
    assert any("-lrb-" in one["candidate"] for one in file["corpora"]["all"]["tokens"])
    assert file["corpora"]["one"]["CIDEr"]["value"] == 0
    assert 0 < file["corpora"]["perfect"]["CIDEr"]["value"] < 10
    assert (GOLDEN / "captions/pycocoevalcap.json").stat().st_size < 1_000_000


def test_scores_equal_those_of_the_bare_scorers_side_by_side(file):
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    from harness.metrics.caption_tokens import tokenize
    from harness.metrics.captions import caption_scores

    items = file["corpora"]["all"]["items"][::-1][:150]
    scores = caption_scores(items, ["BLEU-4", "ROUGE-L", "CIDEr"], tokenizer="simple")
    captions = tokenize(items, tokenizer="simple")
    gts = {place: list(texts) for place, texts in enumerate(captions.references)}
    res = {place: [text] for place, text in enumerate(captions.candidates)}
    assert scores["BLEU-4"].value == Bleu(4).compute_score(gts, res, verbose=0)[0][3]
    for name, scorer in (("ROUGE-L", Rouge()), ("CIDEr", Cider())):
        value, each = scorer.compute_score(gts, res)
        assert (scores[name].value, list(scores[name].each)) == (value, each.tolist())


def test_texts_in_known_surroundings_have_the_tokens_of_a_new_run():
    from harness.metrics import penn_treebank

    words = [
        "No.",
        "the Fig.",
        "by A.",
        "a dog",
        "The end.",
        "5 cats",
        "etc.",
        "",
        " ",
        "<b> x",
        "I. ",
        "x (y)",
        "Mr. Smith.",
        "3.5",
        "No. ",
        "at 5 p.m.",
        '"',
        "A",
    ]
    texts = [words[(7 * place + place * place) % len(words)] for place in range(400)]
    penn_treebank.penn_treebank(texts)
    known = penn_treebank._token_cache()
    parts = [texts[start : start + 90] for start in range(0, 300, 60)]
    seen = [part for part in parts if all(key in known for key in penn_treebank.surroundings(part))]
    assert seen
    for part in seen[:2]:
        assert penn_treebank.penn_treebank(part) == penn_treebank._run(part)


def test_a_line_break_in_a_caption_shifts_the_official_tokens_and_not_ours():
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    from harness.metrics.penn_treebank import penn_treebank

    texts = ["a\u2028dog", "two cats", "three birds"]
    official = PTBTokenizer().tokenize({k: [{"caption": text}] for k, text in enumerate(texts)})
    assert official[1] == ["dog"] and official[2] == ["two cats"]
    assert penn_treebank(texts) == ["a dog", "two cats", "three birds"]
    assert penn_treebank(["a\r\nb", "c\x0bd\x0ce\u2029f", "g"]) == ["a b", "c d e f", "g"]


def test_tokens_can_depend_on_the_next_caption_as_officially():
    from harness.metrics.penn_treebank import penn_treebank

    assert penn_treebank(["see No.", "5 cats"])[0] == "see no."
    assert penn_treebank(["see No.", "cats"])[0] == "see no"
