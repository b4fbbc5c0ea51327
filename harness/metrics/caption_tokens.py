"""Tokens of captions for `harness.metrics.captions`: by the official tokenizer, or simple rules.

Scores by the two tokenizers cannot be compared. So the tokenizer is part of a metric's name, and
the simple one never replaces the official one (`ptb`), which is an error without Java.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from harness.errors import DataError
from harness.metrics.penn_treebank import penn_treebank

Tokenizer: TypeAlias = Literal["ptb", "simple"]

SEPARATOR_LINE = "x"
"""Stands between references and captions: the tokenizer looks ahead by one line, so that neither
text changes the tokens of the other."""
WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")  # `dog's`, `42`; `brown_fur` is two words


class Captions(NamedTuple):
    """Tokenised captions, the tokens of each joined by single spaces."""

    candidates: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]
    """The references of each caption, at least one."""


def tokenize(items: Sequence[Mapping[str, object]], *, tokenizer: Tokenizer = "ptb") -> Captions:
    """Return the captions and references of a corpus as tokens.

    Args:
        items: One `{"candidate": text, "references": [text, …]}` for each sample, with at least one
            reference.
        tokenizer: `ptb`, the Penn Treebank tokenizer as `PTBTokenizer` of pycocoevalcap 1.2 uses
            it, but called once for all captions and all metrics; or `simple`: lower-cased runs of
            letters and digits, apostrophes inside them kept.

    Raises:
        DataError: an item is not of this form.
        MissingDependency: `ptb` without Java or without the package that brings the tokenizer.

    >>> items = [{"candidate": "A dog's tail (red).", "references": ["It's a tail!", "Brown_fur"]}]
    >>> tokenize(items, tokenizer="simple")
    Captions(candidates=("a dog's tail red",), references=(("it's a tail", 'brown fur'),))
    """
    checked = [_check_item(item, number) for number, item in enumerate(items)]
    candidates, references = zip(*checked, strict=True) if checked else ((), ())
    return _run_tokenizer(candidates, references, tokenizer)


# Every metric of a corpus asks for the same tokens.
@lru_cache(maxsize=8)
def _run_tokenizer(
    candidates: tuple[str, ...], references: tuple[tuple[str, ...], ...], tokenizer: Tokenizer
) -> Captions:
    """Return candidates and references as texts of tokens with blanks between them."""
    flat = [text for texts in references for text in texts]
    if tokenizer == "simple":
        lines = [" ".join(WORD.findall(text.lower())) for text in (*flat, *candidates)]
    else:
        # Officially references and captions are two files; here they are one, in two parts.
        lines = penn_treebank((*flat, SEPARATOR_LINE, *candidates))
        del lines[len(flat)]
    remaining = iter(lines)  # references come first, as many lines as each caption has
    tokens = tuple(tuple(next(remaining) for _ in texts) for texts in references)
    return Captions(candidates=tuple(remaining), references=tokens)


def _check_item(item: object, number: int) -> tuple[str, tuple[str, ...]]:
    """Return (candidate, references) of an item; raise DataError if it is not of the form."""
    candidate = item.get("candidate") if isinstance(item, Mapping) else None
    texts = item.get("references") if isinstance(item, Mapping) else None
    if (
        not isinstance(candidate, str)
        or not isinstance(texts, (list, tuple))
        or not texts
        or not all(isinstance(text, str) for text in texts)
    ):
        raise DataError(
            f"caption {number}",
            expected='{"candidate": text, "references": [at least one text]}',
            found=repr(item)[:80],
        )
    return candidate, tuple(texts)
