"""Texts that many requests share, stored once in a journal's file.

A prompt's template is the same for every sample. In a file of the journal, a line
`{"text": name, "is": text}` stands before the first sample whose requests have it; in requests
stands `{"text": name}`. A name is a hash of the text, so a record does not depend on the samples
before it, on the number of workers, or on a resume.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

MIN_SHARED = 40
"""Characters from which a text is worth a reference, which takes 27 bytes."""


def with_references(
    record: dict[str, object], *, question: str, options: Sequence[str]
) -> dict[str, object]:
    """Return a sample's record with references in its requests, and their texts under `texts`.

    Args:
        record: A journal's record of a sample, with the texts of its requests whole.
        question: The sample's own, which is no part of a template, in whatever case.
        options: Its choices; a line that ends with one is no part of a template either.
    """
    texts: dict[str, str] = {}
    for request, name in _texts(record):
        request[name] = _parts(request[name], question, tuple(options), texts)
    return {**record, "texts": texts} if texts else record


def references(record: Mapping[str, object]) -> set[str]:
    """Return the names of the texts that a sample's requests refer to."""
    return {
        part["text"]
        for request, name in _texts(record)
        for part in request[name]
        if isinstance(part, dict)
    }


def with_texts(record: dict[str, object], texts: Mapping[str, str]) -> dict[str, object]:
    """Return a sample's record with texts in the place of references."""
    for request, name in _texts(record):
        request[name] = "".join(
            part if isinstance(part, str) else texts[part["text"]] for part in request[name]
        )
    return record


def _texts(record: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each request of a sample's, and the key of each text in it."""
    for call in record["prediction"].get("calls", ()):
        request = call["request"]
        if isinstance(request, dict):  # a number stands for an earlier one
            yield from ((request, name) for name in ("system", "text") if name in request)


def _parts(
    text: str, question: str, options: tuple[str, ...], texts: dict[str, str]
) -> list[str | dict[str, str]]:
    """Split a text into its own parts and references, whose texts are added to `texts`."""
    parts: list[str | dict[str, str]] = []
    words = question.strip(" .?!\n")
    pieces = re.split(f"({re.escape(words)})", text, flags=re.IGNORECASE) if words else [text]
    for number, piece in enumerate(pieces):
        blocks = groupby(piece.splitlines(keepends=True), lambda line: _ends(line, options))
        for is_own, lines in blocks:
            block = "".join(lines)
            if number % 2 == 0 and not is_own and len(block) >= MIN_SHARED:
                name = hashlib.blake2b(block.encode(), digest_size=8).hexdigest()
                texts[name] = block
                parts.append({"text": name})
            elif parts and isinstance(last := parts[-1], str):
                parts[-1] = last + block
            else:
                parts.append(block)
    return parts


def _ends(line: str, options: tuple[str, ...]) -> bool:
    return line.rstrip().endswith(options)
