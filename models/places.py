"""Refuse boxes and points of another scale or order, or of other objects than the question's.

A grammar reads four numbers as a box in the network's coordinates. The size of the numbers, or
other words of the response ("normalized", "xywh"), may contradict that: then the response is a
failure, and no scale is guessed. `PromptedReader` calls these functions with what a grammar read.
"""

import re
from collections.abc import Sequence

from harness.errors import ParseError
from harness.models.box_fields import refuse_fields
from harness.models.canvas import Canvas
from harness.models.grammar import Item
from harness.responses import tag_text
from harness.stated.kinds_of_things import is_another_label
from harness.stated.languages import unmarked

SLACK = 0.05
"""Share of a side by which a number may lie beyond the canvas; it is then clipped to the canvas."""

_FREE_TEXTS = re.compile(
    r"(:\s{0,9})\"(?:[^\"\\\n]|\\.){0,500}\"|<(ref|\|?\w*ref\w*\|)>.{0,500}?</?\|?"
)
"""Texts under a key (`: "a red dog"`) or in a tag (`<ref>a dog</ref>`), which may be anything."""
_OTHER_ORDER = re.compile(
    r"(?i:(?<![a-z])(?:c?xywh|cxcywh|ltwh)(?![a-z])|\bc_?x\b,?\s{0,3}c_?y\b|\bx,\s{0,3}y,\s{0,3}w\b"
    r"|\bwidth\b.{0,40}\bheight\b"
    r"|\"(?:\w{0,20}format|units?|scale|order|(?:re)?scaled?_\w{1,20}"
    r"|resized?_\w{1,20}|image_\w{1,20}|category_id)\"\s{0,9}:)",
    re.DOTALL,
)
"""Another order, or a key of a scale: "xywh", "width and height", `"format":`."""
_SCALE = re.compile(
    r":\s{0,9}\"(?i:relative|absolute|normali[sz]ed|percent\w{0,9}|pixels?|\w{0,3}xy\w{0,3}|yxyx)\""
)
"""A scale or an order as a value: `: "normalized"`."""
_Y_FIRST = re.compile(
    r"(?i:\by_?(?:0|1|min)\b,?\s{0,3}x_?(?:0|1|min)\b|\btop,\s?left,\s?(?:bottom|right|height)\b)"
)
"""An order with y before x: "y_min, x_min", "top, left, bottom, right"."""
_NOT_THERE = re.compile(
    r"\"\w{0,20}(?:supersed|replac)ed\w{0,9}\"\s{0,9}:\s{0,9}(?!null|false|\"\")"
    r"|\"answer\"\s{0,9}:\s{0,9}\"(?:no|none)\"|\"(?:(?:is_)?(?:visible|present|found|detected|valid|correct"
    r"|target)|exists?|match\w{0,9})\""
    r"\s{0,9}:\s{0,9}(?:false|null|0)\b"
)
"""Fields which say that nothing is there: `"visible": false`, `"answer": "none"`."""
_PERCENT = re.compile(r"(?i:%|\bper ?cent)")  # "50%", "percent"
_STATED_SHARES = re.compile(
    r"(?i:(?<![a-z])normali[sz]ed(?![a-z])|\brelative\b|\b0(?:\.0)?\s?(?:-|–|to|,)\s?1(?:\.0)?\b)"
)
"""Words for shares of the image: "normalized", "0 to 1"."""
_STATED_PIXELS = re.compile(r"(?i:\bpixels?\b|\b(\d{3,5})\s?[x×]\s?(\d{3,5})\b)")
"""Pixels, or the size of an image: "640 x 480"."""

_WORD = re.compile(r"[^\W\d_]{2,}|(?![\x00-\x7f])[^\W\d_]")
"""Matches words of two or more letters, and single letters that are not ASCII, such as "狗"."""
_NOTHING_LABEL = re.compile(
    r"(?i:\W*(?:not|no(?!\.)|none|nothing|background|n/a)\b"
    r"|.*\bnot (?:visible|found|present|there)\b)"
)
"""Labels which say that nothing is there: "no dog", "background"."""
_RELATION = re.compile(
    r"\b(?:without|except(?: for)?|excluding|other than|apart from|besides?|next to|near|behind"
    r"|in front of|(?:left|right) of|above|below|under|beneath|opposite|outside|around|instead of"
    r"|rather than|but not|not|unlike|like|looking at|facing|away from|with|walking|holding"
    r"|carrying|chasing|petting|riding|feeding|watching|(?:all|everything|anything) but"
    r"|of)\s"
)
"""Words of a label between its own object and another, to which it is related ("next to")."""
_WORDS_BEFORE_OF = frozenset(
    "all body both box couple group image kind one outline pack pair photo"
    " picture set some type view".split()
)
"""Words before "of" with which the label still names the object itself ("a pair of")."""
_COMMON_WORDS = frozenset(
    "a all an and are at box boxes bounding by coordinates detect each every find for from here in"
    " is it its json left locate located next object objects of on one or please point points right"
    " target that the there these this those to we what where which who with".split()
)
"""Words that do not distinguish objects."""


def refuse_other_scale(items: Sequence[Item], canvas: Canvas) -> None:
    """Raise if numbers cannot be of a canvas, because they are shares of 1 or far beyond it.

    Raises:
        ParseError: all numbers of a box or a point are at most 1, on a larger canvas (a point of
            whole numbers is allowed); or one lies more than `SLACK` of a side beyond the canvas.
    """
    width, height = canvas.extent
    sides = (height, width) if canvas.y_first else (width, height)
    for item in items:
        for shape in (item.box, item.point, item.negative, item.second):
            numbers = tuple(shape or ())
            is_whole_point = len(numbers) == 2 and all(float(n).is_integer() for n in numbers)
            if numbers and min(sides) > 1 and not is_whole_point and max(map(abs, numbers)) <= 1:
                raise ParseError("places", expected=f"0 to {width} × {height}", found=str(numbers))
            for index, value in enumerate(numbers):
                side = sides[index % 2]  # numbers alternate: x, y, x, y, or y first
                if not -SLACK * side <= value <= (1 + SLACK) * side:
                    raise ParseError("places", expected=f"0 to {side}", found=f"{value:g}")


def refuse_other_meaning(response: str, canvas: Canvas) -> None:
    """Raise if a response says that its numbers have another scale or order, or mean nothing.

    Args:
        response: The response after its thought; if it has an `<answer>`, only its content counts.
        canvas: Canvas whose coordinates the numbers are taken for.

    Raises:
        ParseError: the response says so.
    """
    answer = tag_text(response, "answer")
    if answer is None:
        answer = response
    text = _FREE_TEXTS.sub(r"\1", answer)
    side = canvas.extent[0] if canvas.is_shares else None
    refuse_fields(answer, side)
    contradiction = _SCALE.search(answer) or _OTHER_ORDER.search(text) or _NOT_THERE.search(text)
    if not canvas.y_first:
        contradiction = contradiction or _Y_FIRST.search(text)
    if side != 100:
        contradiction = contradiction or _PERCENT.search(text)
    if side is None or not re.search(rf"(?<!\d){side}(?!\d)", text):
        contradiction = contradiction or _STATED_SHARES.search(text)
    # An image size may be the canvas's own, and "pixels" may stand if the numbers are pixels.
    for pixels in _STATED_PIXELS.finditer(text):
        stated_size = pixels[1] and (int(pixels[1]), int(pixels[2]))
        if stated_size != canvas.extent and (stated_size or side is not None):
            contradiction = contradiction or pixels
    if contradiction is not None:
        raise ParseError(
            "places", expected="numbers in the requested form", found=repr(contradiction[0][:60])
        )


def refuse_other_objects(question: str, items: Sequence[Item]) -> None:
    """Raise if some labels name the object of the question and others something else.

    If no label has a word of the question, all labels count as other words for its object, except a
    known noun of another kind ("cat" for a dog).

    Raises:
        ParseError: they do; a label says that nothing is there, or names another thing; or a label
            names the question's object only as a neighbour.
    """
    question_words, text = _words(question), unmarked(question).casefold()
    labels = {item.label for item in items if _words(item.label)}
    for label in sorted(labels):
        if _NOTHING_LABEL.match(label) or is_beside(label, question):
            raise ParseError("label", expected="an object", found=repr(label[:60]))

    def is_in_question(word: str) -> bool:
        # In scripts without blanks or with endings, a word may be a part of one in the question.
        return word in question_words or (not word.isascii() and word in text)

    named = {label for label in labels if any(map(is_in_question, _words(label)))}
    exact = {label for label in labels if all(map(is_in_question, _words(label)))}
    if (named and named != labels) or (exact and exact != labels):
        raise ParseError("labels", expected="one object", found=", ".join(sorted(labels))[:60])
    if others := [label for label in labels if is_another_label(label, question)]:
        raise ParseError("label", expected="the asked object", found=repr(min(others)[:60]))


def is_beside(label: str, question: str) -> bool:
    """Return True if a label mentions the question's object only as a neighbour of its own object.

    >>> [is_beside(text, "the dog") for text in ("cat near the dog", "dog near the cat")]
    [True, False]
    """
    relation = _RELATION.search(label.casefold())
    if relation is None or relation[0].strip() in question.casefold():
        return False
    before, after = label[: relation.start()], label[relation.end() :]
    if relation[0].strip() == "of" and _WORDS_BEFORE_OF & set(before.casefold().split()):
        return False
    question_words = _words(question)
    is_neighbour = question_words <= _words(after)
    return bool(question_words) and is_neighbour and not _words(before) & question_words


def _words(text: str) -> set[str]:
    """Return the words of a text that distinguish objects, in lower case, without a plural s."""
    found_words = (word.casefold() for word in _WORD.findall(unmarked(text)))
    return {word.removesuffix("s") for word in found_words if word not in _COMMON_WORDS}
