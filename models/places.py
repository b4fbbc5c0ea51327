"""Refuse places that do not mean what they seem to: of another scale or order, or of other objects.

A reader takes four numbers as a box of its own coordinates. What the response says about them, or
their size, can tell that they are something else: then it is a failure, and no scale is guessed.
"""

import re
from collections.abc import Sequence

from harness.errors import ParseError
from harness.models.box_fields import refuse_fields
from harness.models.canvas import Canvas
from harness.models.grammar import Item
from harness.responses import tag_text
from harness.stated.languages import unmarked

SLACK = 0.05
"""Share of a side by which a number may lie beyond the canvas, which is then clipped to it."""

_TEXTS = re.compile(r"(:\s{0,9})\"(?:[^\"\\\n]|\\.){0,500}\"|<(ref|\|?\w*ref\w*\|)>.{0,500}?</?\|?")
"""Texts under a key, or in a tag of a name: they may hold any words."""
_OTHER_ORDER = re.compile(
    r"(?i:(?<![a-z])(?:c?xywh|cxcywh|ltwh)(?![a-z])|\bc_?x\b,?\s{0,3}c_?y\b|\bx,\s{0,3}y,\s{0,3}w\b"
    r"|\bwidth\b.{0,40}\bheight\b"
    r"|\"(?:\w{0,20}format|units?|scale|order|(?:re)?scaled?_\w{1,20}"
    r"|resized?_\w{1,20}|image_\w{1,20}|category_id)\"\s{0,9}:)",
    re.DOTALL,
)
_MEANING = re.compile(
    r":\s{0,9}\"(?i:relative|absolute|normali[sz]ed|percent\w{0,9}|pixels?|\w{0,3}xy\w{0,3}|yxyx)\""
)
_Y_FIRST = re.compile(r"(?i:\by_?(?:0|1|min)\b,?\s{0,3}x_?(?:0|1|min)\b)")
_NOT_THERE = re.compile(
    r"\"\w{0,20}(?:supersed|replac)ed\w{0,9}\"\s{0,9}:\s{0,9}(?!null|false|\"\")"
    r"|\"answer\"\s{0,9}:\s{0,9}\"(?:no|none)\"|\"(?:(?:is_)?(?:visible|present|found|detected|valid|correct"
    r"|target)|exists?|match\w{0,9})\""
    r"\s{0,9}:\s{0,9}(?:false|null|0)\b"
)
_PERCENT = re.compile(r"(?i:%|\bper ?cent)")
_SHARES = re.compile(
    r"(?i:(?<![a-z])normali[sz]ed(?![a-z])|\brelative\b|\b0(?:\.0)?\s?(?:-|–|to|,)\s?1(?:\.0)?\b)"
)
_PIXELS = re.compile(r"(?i:\bpixels?\b|\b(\d{3,5})\s?[x×]\s?(\d{3,5})\b)")

_WORD = re.compile(r"[^\W\d_]{2,}|(?![\x00-\x7f])[^\W\d_]")
_NO_LABEL = re.compile(
    r"(?i:\W*(?:not|no(?!\.)|none|nothing|background|n/a)\b"
    r"|.*\bnot (?:visible|found|present|there)\b)"
)
_RELATES = re.compile(
    r"\b(?:without|except(?: for)?|excluding|other than|apart from|besides?|next to|near|behind"
    r"|in front of|(?:left|right) of|above|below|under|beneath|opposite|outside|around|instead of"
    r"|rather than|but not|not|unlike|like|looking at|facing|away from|with|walking|holding"
    r"|carrying|chasing|petting|riding|feeding|watching|(?:all|everything|anything) but"
    r"|of)\s"
)
"""Words of a label that set its object apart from another, which they name."""
_WHOLE = frozenset(
    "all body both box couple group image kind one outline pack pair photo"  # noqa: SIM905
    " picture set some type view".split()
)
"""Words before "of" that name the object itself."""
_COMMON = frozenset(
    "a all an and are at box boxes bounding by coordinates detect each every find for from here in"  # noqa: SIM905
    " is it its json left locate located next object objects of on one or please point points right"
    " target that the there these this those to we what where which who with".split()
)


def refuse_other_scale(items: Sequence[Item], canvas: Canvas) -> None:
    """Raise where numbers are not of a canvas: shares of 1, or far beyond it.

    Raises:
        ParseError: all numbers of a box or a point are at most 1 of a canvas that has more steps
            (but for a point of whole numbers), or one is more than `SLACK` of a side beyond it.
    """
    width, height = canvas.extent
    sides = (height, width) if canvas.y_first else (width, height)
    for item in items:
        for place in (item.box, item.point, item.negative, item.second):
            numbers = tuple(place or ())
            is_corner = len(numbers) == 2 and all(float(value).is_integer() for value in numbers)
            if numbers and min(sides) > 1 and not is_corner and max(map(abs, numbers)) <= 1:
                raise ParseError("places", expected=f"0 to {width} × {height}", found=str(numbers))
            for index, value in enumerate(numbers):
                side = sides[index % 2]
                if not -SLACK * side <= value <= (1 + SLACK) * side:
                    raise ParseError("places", expected=f"0 to {side}", found=f"{value:g}")


def refuse_other_meaning(said: str, canvas: Canvas) -> None:
    """Raise where a response says that its numbers have another scale or order, or hold nothing.

    Args:
        said: What it says after its thought; of an `<answer>` its inside alone is looked at.
        canvas: Canvas that the numbers are read in.

    Raises:
        ParseError: it does.
    """
    answer = tag_text(said, "answer")
    whole = said if answer is None else answer
    text = _TEXTS.sub(r"\1", whole)
    side = canvas.extent[0] if canvas.is_shares else None
    refuse_fields(whole, side)
    contradiction = _MEANING.search(whole) or _OTHER_ORDER.search(text) or _NOT_THERE.search(text)
    if not canvas.y_first:
        contradiction = contradiction or _Y_FIRST.search(text)
    if side != 100:
        contradiction = contradiction or _PERCENT.search(text)
    if side is None or not re.search(rf"(?<!\d){side}(?!\d)", text):
        contradiction = contradiction or _SHARES.search(text)
    for pixels in _PIXELS.finditer(text):
        named = pixels[1] and (int(pixels[1]), int(pixels[2]))
        if named != canvas.extent and (named or side is not None):
            contradiction = contradiction or pixels
    if contradiction is not None:
        raise ParseError(
            "places", expected="numbers in the requested form", found=repr(contradiction[0][:60])
        )


def refuse_other_objects(question: str, items: Sequence[Item]) -> None:
    """Raise where some of the labels name what the question does, and others something else.

    Labels of which none has a word of the question are its answer in other words.

    Raises:
        ParseError: they do, or a label says that there is nothing.
    """
    asked, text = _words(question), unmarked(question).casefold()
    labels = {item.label for item in items if _words(item.label)}
    for label in labels:
        if _NO_LABEL.match(label) or is_beside(label, question):
            raise ParseError("label", expected="an object", found=repr(label[:60]))
    # scripts without blanks, and words with endings: a word of the label is a part of the question
    words = {
        label: {word: word in asked or (not word.isascii() and word in text) for word in said}
        for label in labels
        if (said := _words(label))
    }
    named = {label for label in words if any(words[label].values())}
    exact = {label for label in words if all(words[label].values())}
    if (named and named != labels) or (exact and exact != labels):
        raise ParseError("labels", expected="one object", found=", ".join(sorted(labels))[:60])


def is_beside(label: str, question: str) -> bool:
    """Return True if a label names what is asked only to say what its own object is not, or is by.

    >>> [is_beside(text, "the dog") for text in ("cat near the dog", "dog near the cat")]
    [True, False]
    """
    relation = _RELATES.search(label.casefold())
    if relation is None or relation[0].strip() in question.casefold():
        return False
    if relation[0].strip() == "of" and _WHOLE & set(label[: relation.start()].casefold().split()):
        return False
    asked = _words(question)
    head, tail = _words(label[: relation.start()]), _words(label[relation.end() :])
    return bool(asked) and asked <= tail and not head & asked


def _words(text: str) -> set[str]:
    """Return the words of a text that tell objects apart, in the singular."""
    words = (word.casefold() for word in _WORD.findall(unmarked(text)))
    return {word.removesuffix("s") for word in words if word not in _COMMON}
