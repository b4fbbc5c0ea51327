"""Scores of perfect captions, and the reasons why they are not simply 1.

A perfect caption is taken to say its first reference, word by word.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from harness.metrics.caption_tokens import Captions, Tokenizer, tokenize
from harness.metrics.captions import Name, corpus_value


class CaptionCeiling(NamedTuple):
    """The best score that saying a reference gets."""

    value: float
    why: str
    """Reasons in the corpus that keep it from the end of the scale; empty without any."""


def caption_ceiling(
    references: Sequence[Sequence[str]], *, name: Name, tokenizer: Tokenizer = "ptb"
) -> CaptionCeiling:
    """Return the score of a corpus in which every caption equals its first reference.

    It is no upper bound: with several references something between them can score more.

    Args:
        references: The references of each caption.
        name: The metric.
        tokenizer: As for the metric.

    Raises:
        DataError: there is no caption, or one has no reference.
        MissingDependency: pycocoevalcap or Java is missing.
    """
    items = [
        {"candidate": texts[0] if texts else None, "references": texts} for texts in references
    ]
    value = corpus_value(items, name=name, tokenizer=tokenizer)
    captions = tokenize(items, tokenizer=tokenizer)
    return CaptionCeiling(value, "; ".join(reasons(captions, name)))


def reasons(captions: Captions, name: Name) -> Iterator[str]:
    """Yield the reasons that keep perfect captions of this corpus from the end of the metric's
    scale.

    >>> captions = Captions(candidates=("two dogs run",), references=(("two dogs run", "dogs"),))
    >>> list(reasons(captions, "BLEU-4"))
    ['no caption has 4 tokens, and so no 4-gram', '1e-9 is added to every count']
    >>> for reason in reasons(captions, "CIDEr"):
    ...     print(reason)
    one caption alone has no document frequencies: everything weighs 0
    1 of 1 captions have fewer than 4 tokens, and so no 4-gram
    1 of 1 captions are also compared with references that say something else
    """
    count = len(captions.candidates)
    if name.startswith("BLEU"):
        if _count_shorter(captions, int(name[-1])) == count:
            yield f"no caption has {name[-1]} tokens, and so no {name[-1]}-gram"
        yield "1e-9 is added to every count"
    elif name == "CIDEr":
        if count == 1:
            yield "one caption alone has no document frequencies: everything weighs 0"
        if short := _count_shorter(captions, 4):
            yield f"{short} of {count} captions have fewer than 4 tokens, and so no 4-gram"
        if other := sum(len(set(texts)) > 1 for texts in captions.references):
            yield (
                f"{other} of {count} captions are also compared with references that say "
                "something else"
            )
    elif name == "METEOR" and (empty := _count_shorter(captions, 1)):
        yield f"{empty} of {count} references have no tokens"


def _count_shorter(captions: Captions, n: int) -> int:
    return sum(len(text.split()) < n for text in captions.candidates)
