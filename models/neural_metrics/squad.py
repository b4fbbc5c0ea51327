"""Exact match and F1 of words as SQuAD v1.1 has them: a script of the package `evaluate`.

Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine Comprehension of Text" (2016). Both sides
in lower case, without ASCII punctuation, then without the words a, an and the; the best reference
counts. Two texts without a word left are an exact match whose F1 is 0, as in the official script.

`evaluate` copies this file to its own cache and imports the copy: it may import nothing of harness,
and one module a line.
"""

import re
import string
from collections import Counter

import datasets
import evaluate

DESCRIPTION = "Exact match and F1 of words as SQuAD v1.1 has them, from 0 to 1."
CITATION = "Rajpurkar et al., SQuAD: 100,000+ Questions for Machine Comprehension of Text, 2016"
INPUTS = "predictions: texts; references: for each prediction the list of texts that are right"
PUNCTUATION = str.maketrans("", "", string.punctuation)
ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalised_words(text: str) -> list[str]:
    """Return the words that are compared.

    >>> words("The Cat's (red) hat, an' a-b")
    ['cats', 'red', 'hat', 'ab']
    """
    return ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split()


def f1(candidate: list[str], reference: list[str]) -> float:
    """Return the harmonic mean of precision and recall of words, counted as often as they occur."""
    shared = (Counter(candidate) & Counter(reference)).total()
    if not shared:
        return 0.0
    precision, recall = shared / len(candidate), shared / len(reference)
    return 2 * precision * recall / (precision + recall)


class Squad(evaluate.Metric):
    """The metric, as `evaluate` loads it."""

    def _info(self) -> evaluate.MetricInfo:
        features = datasets.Features(
            {
                "predictions": datasets.Value("string"),
                "references": datasets.Sequence(datasets.Value("string")),
            }
        )
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation=CITATION,
            inputs_description=INPUTS,
            features=features,
        )

    def _compute(self, predictions: list[str], references: list[list[str]]) -> dict[str, float]:
        matches, overlaps = 0.0, 0.0
        for prediction, reference_texts in zip(predictions, references, strict=True):
            candidate = normalised_words(prediction)
            several = [normalised_words(text) for text in reference_texts]
            matches += any(candidate == reference for reference in several)
            overlaps += max(f1(candidate, reference) for reference in several)
        return {"exact_match": matches / len(predictions), "f1": overlaps / len(predictions)}
