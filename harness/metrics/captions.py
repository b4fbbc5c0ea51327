"""BLEU, ROUGE-L, METEOR and CIDEr of captions, by the scorers of pycocoevalcap 1.2.

The scorers' own code computes every number; this module prepares tokens once for all of them,
refuses input that would crash them, and defines the edge cases. SPICE is not offered: its scorer
downloads a parser while it runs.

Each function takes a corpus: one `{"candidate": text, "references": [text, …]}` a sample, which is
what a `Corpus` statistic holds. A missing answer is "", which scores 0 and counts.
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
    """Value of each caption. Only ROUGE-L and CIDEr are the means of these."""


def caption(candidate: str, references: Sequence[str]) -> Corpus:
    """Return the statistic of one sample, for any of these metrics.

    >>> caption("a dog", ["a brown dog"])
    Corpus(items=({'candidate': 'a dog', 'references': ['a brown dog']},))
    """
    return Corpus(({"candidate": candidate, "references": list(references)},))


def caption_metrics(
    names: Sequence[Name] = NAMES, *, tokenizer: Tokenizer = "ptb"
) -> tuple[Metric, ...]:
    """Declarations for a protocol; tokens other than the official ones are in the names.

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


def bleu(items: Items, *, n: Literal[1, 2, 3, 4] = 4, tokenizer: Tokenizer = "ptb") -> float:
    """BLEU-n of a corpus: clipped matches and totals are summed over it, for 1-grams to n-grams.

    p_k = (matches + 1e-15) / (k-grams said + 1e-9), BLEU-n = (p_1 … p_n)^(1/n), times
    exp(1 - 1 / r) where r, the length said over the closest reference lengths (the shorter of two
    equally close), is below 1. Not the mean of the captions' BLEUs. A corpus whose captions all
    have fewer than n tokens scores about 0, perfect or not. Source: `Bleu` of pycocoevalcap 1.2.
    """
    names: tuple[Name, ...] = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4")
    return corpus_value(items, name=names[n - 1], tokenizer=tokenizer)


def rouge_l(items: Items, *, tokenizer: Tokenizer = "ptb") -> float:
    """ROUGE-L of a corpus: the mean over captions of (1 + b²) P R / (R + b² P), b = 1.2.

    P is the longest common subsequence over the caption's length, R over the reference's. With
    several references the largest P and the largest R are taken *independently*, so they may come
    from different references and a caption that equals none of them may score 1. Tokens are split
    at single spaces, so that an empty text is one empty token: two empty texts score 1. Source:
    `Rouge` of pycocoevalcap 1.2.
    """
    return corpus_value(items, name="ROUGE-L", tokenizer=tokenizer)


def meteor(items: Items, *, tokenizer: Tokenizer = "ptb") -> float:
    """METEOR 1.5 of a corpus, from alignment statistics summed over it (not the captions' mean).

    English, `-norm`, as `Meteor` of pycocoevalcap 1.2 calls it. An empty caption scores 0. Needs
    Java whatever the tokenizer, and some seconds to start.
    """
    return corpus_value(items, name="METEOR", tokenizer=tokenizer)


def cider(items: Items, *, tokenizer: Tokenizer = "ptb") -> float:
    """CIDEr-D of a corpus: the mean over captions, from 0 to 10.

    Cosines of tf-idf vectors of 1- to 4-grams, clipped at the reference's counts, times
    exp(-d² / 72) for a difference of d in length, averaged over n and over references, times 10.
    The document frequencies are those of the corpus that is scored: a subset changes every
    caption's value, and with one caption log(1) = 0 makes all weights and the score 0. Where no
    reference has any token the score is 0. Source: `Cider` of pycocoevalcap 1.2.
    """
    return corpus_value(items, name="CIDEr", tokenizer=tokenizer)


def corpus_value(items: Items, *, name: Name, tokenizer: Tokenizer = "ptb") -> float:
    """One metric of a corpus.

    Raises:
        DataError: there is no item, or one has not the form.
        MissingDependency: pycocoevalcap or Java is missing.
    """
    return caption_scores(items, [name], tokenizer=tokenizer)[name].value


def caption_scores(
    items: Items, names: Sequence[Name] = NAMES, *, tokenizer: Tokenizer = "ptb"
) -> dict[Name, CaptionScores]:
    """Several metrics of a corpus, and their values for each caption; raises like the others.

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


# As many corpora as an interval needs: all captions, and all but each of 200 groups.
@lru_cache(maxsize=256)
def _bleu(captions: Captions) -> tuple[CaptionScores, ...]:
    scorer = pycocoevalcap("bleu.bleu").Bleu(4)
    values, by_caption = scorer.compute_score(*_as_official(captions), verbose=0)
    return tuple(_to_scores(*pair) for pair in zip(values, by_caption, strict=True))


@lru_cache(maxsize=24)
def _compute_scores(name: Name, captions: Captions) -> CaptionScores:
    references, candidate = _as_official(captions)
    if name == "METEOR":
        return _to_scores(*aligned(references, candidate))
    if name == "ROUGE-L":
        return _to_scores(
            *pycocoevalcap("rouge.rouge").Rouge().compute_score(references, candidate)
        )
    if not any(text.split() for texts in captions.references for text in texts):
        # The official code takes the maximum of no frequencies here.
        return CaptionScores(0.0, (0.0,) * len(captions.candidates))
    return _to_scores(*pycocoevalcap("cider.cider").Cider().compute_score(references, candidate))


def _as_official(captions: Captions) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    references = {place: list(texts) for place, texts in enumerate(captions.references)}
    return references, {place: [text] for place, text in enumerate(captions.candidates)}


def _to_scores(value: float, by_caption: Sequence[float]) -> CaptionScores:
    return CaptionScores(float(value), tuple(map(float, np.asarray(by_caption).tolist())))
