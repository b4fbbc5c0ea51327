"""Boxes as two corners, as Qwen-VL and Qwen2-VL write them: `<box>(x1,y1),(x2,y2)</box>`.

Read, x first, in the model's own coordinates: `<box>…</box>` and `<|box_start|>…<|box_end|>`, each
after its `<ref>…</ref>` or `<|object_ref_start|>…<|object_ref_end|>` if it has one; and what is
left where a server drops these tokens: `the dog(x1,y1),(x2,y2)`. Four corners in one mark may be a
polygon, and one alone is a point: both are failures.
"""

import re

from harness.errors import ParseError
from harness.models.grammar import MAX_OBJECTS, Item, read_box
from harness.responses import tag_text

_NUMBER = r"(-?\d{1,9}(?:\.\d{1,9})?)"
_CORNER = rf"\(\s?{_NUMBER}\s?,\s?{_NUMBER}\s?\)"
_CORNERS = rf"{_CORNER}\s?,\s?{_CORNER}"
_NAME = r"[^<>()\[\]{}\n]{1,200}"
_MARKED = re.compile(
    rf"(?:(?:<ref>|<\|object_ref_start\|>)({_NAME})(?:</ref>|<\|object_ref_end\|>)\s?)?"
    rf"(?:<box>|<\|box_start\|>)\s?{_CORNERS}\s?(?:</box>|<\|box_end\|>)[\s,;]{{0,9}}"
)
_SENTENCE = re.compile(r"(?i:\b(?:is|are|was|were|at|in|not|near|to|from)\b)")
_BARE = re.compile(rf"({_NAME}(?<!\s))?{_CORNERS}(?:\s{{1,9}}|(?=[^\W\d])|(?=[.<])|\Z)")
_END = re.compile(r"\.?\s{0,9}(?:<\|(?:im_end|endoftext)\|>\s{0,9})*\Z")


def boxes_of_corners(said: str) -> tuple[Item, ...]:
    """Return the boxes, with their labels, of a response that holds nothing else; () for others.

    Raises:
        ParseError: it begins as such a response and goes on as something else, or a box has
            no area.

    >>> boxes_of_corners("<ref>a dog</ref><box>(536,509),(588,602)</box>")[0].box
    Box(left=536.0, top=509.0, right=588.0, bottom=602.0)
    """
    answer = tag_text(said, "answer")
    text = (said if answer is None else answer).strip()
    items: list[Item] = []
    at = 0
    form = _MARKED if _MARKED.match(text) else _BARE
    while len(items) < MAX_OBJECTS and (match := form.match(text, at)):
        label, *corners = match.groups()
        if form is _BARE and _SENTENCE.search(label or ""):
            raise ParseError("response", expected="a name", found=repr(label[:60]))
        box = read_box([float(corner) for corner in corners], "box")
        items.append(Item(box, label=(label or "").strip()))
        at = match.end()
    if items and not _END.match(text, at):
        raise ParseError("response", expected="boxes of two corners", found=repr(text[at:][:60]))
    return tuple(items)
