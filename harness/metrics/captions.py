"""BLEU, ROUGE-L, METEOR and CIDEr-D of captions, by the scorers of pycocoevalcap 1.2.

The package's own code computes every number; this module prepares the tokens once for all metrics,
refuses input that would crash that code, and defines the edge cases. SPICE is not offered: its
scorer downloads a parser while it runs.

A corpus is one `{"candidate": text, "references": [text, …]}` for each sample, as a `Corpus`
statistic holds it. A missing answer is "", which scores 0 and counts.

BLEU-n = (p_1 … p_n)^(1/n), where p_k = (matches + 1e-15) / (k-grams of captions + 1e-9), with sums
over the corpus. It is multiplied by exp(1 - 1 / r) if r < 1, where r is the length of the captions
over that of the references closest in length (the shorter of two equally close). A corpus whose
captions have fewer than n tokens scores about 0.
ROUGE-L is the mean over captions of (1 + b²) P R / (R + b² P), b = 1.2: P is the longest common
subsequence over the length of the caption, R over that of the reference; the largest P and the
largest R may come from different references.
METEOR 1.5 (English, `-norm`) sums its alignment statistics over the corpus, and needs Java whatever
the tokenizer.
CIDEr-D is the mean over captions, n and references of the clipped cosines of tf-idf vectors of
n-grams (n = 1 to 4), times 10 exp(-d² / 72) for a difference of d in length. Its document
frequencies are those of the corpus: one caption alone scores 0.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from harness.errors import DataError
from harness.metrics.caption_tokens import Captions, Tokenizer, tokenize
from harness.metrics.meteor import aligned
from harness.metrics.penn_treebank import pycocoevalcap
from harness.scores import Corpus, Metric

Name: TypeAlias = Literal["BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-L", "METEOR", "CIDEr"]
NAMES: tuple[Name, ...] = get_args(Name)
Items: TypeAlias = Sequence[Mapping[str, object]]

ABOUT: Mapping[str, str] = {
    "BLEU": "clipped n-gram precision of the corpus with brevity penalty, 0 to 1",
    "ROUGE-L": "mean F (beta 1.2) of the longest common subsequence, 0 to 1",
    "METEOR": "aligned words, stems, synonyms and paraphrases of the corpus, 0 to 1",
    "CIDEr": "CIDEr-D: weighted n-grams that references share, 0 to 10; depends on the corpus",
}


class CaptionScores(NamedTuple):
    """One metric of a corpus."""

    value: float
    each: tuple[float, ...]
    """Value of each caption. Only for ROUGE-L and CIDEr is `value` their mean."""


def caption(candidate: str, references: Sequence[str]) -> Corpus:
    """Return the statistic of one sample, for any of these metrics.

    >>> caption("a dog", ["a brown dog"])
    Corpus(items=({'candidate': 'a dog', 'references': ['a brown dog']},))
    """
    return Corpus(({"candidate": candidate, "references": list(references)},))


def caption_metrics(
    names: Sequence[Name] = NAMES, *, tokenizer: Tokenizer = "ptb"
) -> tuple[Metric, ...]:
    """Return metrics for a protocol; a tokenizer other than the official one is in their names.

    >>> [metric.name for metric in caption_metrics(["BLEU-4", "CIDEr"], tokenizer="simple")]
    ['BLEU-4 (simple tokens)', 'CIDEr (simple tokens)']
    """
    suffix = "" if tokenizer == "ptb" else f" ({tokenizer} tokens)"
    return tuple(
        Metric(
            name + suffix,
            corpus=partial(corpus_value, name=name, tokenizer=tokenizer),
            about=ABOUT[name if name in ABOUT else "BLEU"],
        )
        for name in names
    )


def corpus_value(items: Items, *, name: Name, tokenizer: Tokenizer = "ptb") -> float:
    """Return one metric of a corpus.

    Raises:
        DataError: there is no item, or one is not of the form.
        MissingDependency: pycocoevalcap or Java is missing.
    """
    return caption_scores(items, [name], tokenizer=tokenizer)[name].value


def caption_scores(
    items: Items, names: Sequence[Name] = NAMES, *, tokenizer: Tokenizer = "ptb"
) -> dict[Name, CaptionScores]:
    """Return several metrics of a corpus, with their values for each caption.

    Raises as `corpus_value` does.

    BLEU of one caption is nearly 0 where it shares no 4-gram with its references, and CIDEr of one
    caption still depends on all others.
    """
    if not items:
        raise DataError("captions", expected="at least one", found="none")
    captions = tokenize(items, tokenizer=tokenizer)
    scores: dict[Name, CaptionScores] = {}
    for name in names:
        if name.startswith("BLEU"):
            scores[name] = _bleu(captions)[int(name[-1]) - 1]
        else:
            scores[name] = _compute_scores(name, captions)
    return scores


# A jackknife interval needs 201 corpora: all captions, and all without each of 200 groups.
@lru_cache(maxsize=256)
def _bleu(captions: Captions) -> tuple[CaptionScores, ...]:
    """Return BLEU-1 to BLEU-4, which pycocoevalcap computes together."""
    scorer = pycocoevalcap("bleu.bleu").Bleu(4)
    values, by_caption = scorer.compute_score(*_as_official(captions), verbose=0)
    return tuple(_to_scores(*pair) for pair in zip(values, by_caption, strict=True))


@lru_cache(maxsize=24)
def _compute_scores(name: Name, captions: Captions) -> CaptionScores:
    """Return a metric other than BLEU, of all captions and of each, by pycocoevalcap's code."""
    references, candidate = _as_official(captions)
    if name == "METEOR":
        return _to_scores(*aligned(references, candidate))
    if name == "ROUGE-L":
        return _to_scores(
            *pycocoevalcap("rouge.rouge").Rouge().compute_score(references, candidate)
        )
    if not any(text.split() for texts in captions.references for text in texts):
        # The official code would take the maximum of an empty list of frequencies, and fail.
        return CaptionScores(0.0, (0.0,) * len(captions.candidates))
    return _to_scores(*pycocoevalcap("cider.cider").Cider().compute_score(references, candidate))


def _as_official(captions: Captions) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    """Return (references, candidates) by the number of the caption, as pycocoevalcap takes them."""
    references = {number: list(texts) for number, texts in enumerate(captions.references)}
    return references, {number: [text] for number, text in enumerate(captions.candidates)}


def _to_scores(value: float, by_caption: Sequence[float]) -> CaptionScores:
    return CaptionScores(float(value), tuple(map(float, np.asarray(by_caption).tolist())))
