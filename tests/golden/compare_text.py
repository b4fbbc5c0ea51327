"""The golden files of caption metrics and BERTScore against our numbers.

A check of captions takes the modules to test, so that the mutation tests can hand it spoiled ones.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from comparison import Comparison, gap

from harness.metrics import caption_tokens, captions
from harness.models.neural_metrics.bertscore import MINILM, load_scorer

GOLDEN = Path(__file__).parent
OURS = SimpleNamespace(caption_tokens=caption_tokens, captions=captions)
COUNTED = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-L", "CIDEr")
BERT_BOUND = 1e-6
"""Float32 sums of a network: their last digits change with padding, processor and threads."""


@cache
def read(name: str) -> dict[str, Any]:
    plain = json.loads((GOLDEN / name).read_text(encoding="utf-8"))
    assert isinstance(plain, dict)
    return plain


def corpora() -> dict[str, Any]:
    found = read("captions/pycocoevalcap.json")["corpora"]
    assert isinstance(found, dict)
    return found


def tokens(modules: Any) -> Comparison:
    """How many texts have other tokens."""
    texts = different = 0
    for corpus in corpora().values():
        made = modules.caption_tokens.tokenize(corpus["items"])
        for output, references, true in zip(
            made.candidates, made.references, corpus["tokens"], strict=True
        ):
            different += output != true["candidate"]
            different += sum(map(str.__ne__, references, true["references"]))
            different += abs(len(references) - len(true["references"]))
            texts += 1 + len(references)
    return _line("captions: PTB tokens", texts, float(different))


def metric(modules: Any, *, name: str) -> Comparison:
    """One metric of every corpus and of every caption."""
    worst = 0.0
    cases = 0
    for corpus in corpora().values():
        found = modules.captions.caption_scores(corpus["items"], [name])[name]
        true = corpus[name]
        pairs = [(found.value, true["value"]), *zip(found.each, true["each"], strict=True)]
        worst = max(worst, *(gap(ours, theirs) for ours, theirs in pairs))
        cases += len(pairs)
    return _line(f"captions: {name}", cases, worst)


def _line(what: str, cases: int, deviation: float) -> Comparison:
    return Comparison(
        what,
        "pycocoevalcap",
        read("captions/pycocoevalcap.json")["commit"],
        cases,
        deviation,
    )


CHECKS: Mapping[str, Callable[[Any], Comparison]] = {
    "tokens": tokens,
    **{name: partial(metric, name=name) for name in (*COUNTED, "METEOR")},
}


def bertscore() -> Iterator[Comparison]:
    """Precision, recall and F1 of every pair; what lies within the bound is given as the bound."""
    file = read("bertscore/minilm.json")
    scorer = load_scorer(model=MINILM, device="cpu")
    worst = 0.0
    for case in file["cases"]:
        found = scorer.score(case["candidate"], case["references"])
        true = (case["P"], case["R"], case["F1"])
        worst = max(worst, *(gap(a, b) for a, b in zip(found, true, strict=True)))
    yield Comparison(
        f"{scorer.name}: P, R, F1 (float32)",
        "bert-score score()",
        file["commit"],
        len(file["cases"]),
        max(worst, BERT_BOUND),
    )


def comparisons() -> Iterator[Comparison]:
    """One line a metric. Needs Java and the extra [text]."""
    for check in CHECKS.values():
        yield check(OURS)
    yield from bertscore()
