"""Read boxes written as two corners by Qwen-VL and Qwen2-VL: `<box>(x1,y1),(x2,y2)</box>`.

Corners are x first, in the model's own coordinates. Three forms are read: `<box>…</box>` and
`<|box_start|>…<|box_end|>`, each after its label in `<ref>…</ref>` or
`<|object_ref_start|>…<|object_ref_end|>` if it has one; and the text without these tokens, which
some servers drop: `the dog(x1,y1),(x2,y2)`. One corner alone (a point) and four corners in one tag
(perhaps a polygon) are failures.
"""

import re

from harness.errors import ParseError
from harness.models.grammar import MAX_OBJECTS, Item, read_box
from harness.responses import tag_text

_NUMBER = r"(-?\d{1,9}(?:\.\d{1,9})?)"
_CORNER = rf"\(\s?{_NUMBER}\s?,\s?{_NUMBER}\s?\)"
_CORNERS = rf"{_CORNER}\s?,\s?{_CORNER}"  # "(536,509),(588,602)"
_NAME = r"[^<>()\[\]{}\n]{1,200}"
_TAGGED = re.compile(  # "<ref>a dog</ref><box>(536,509),(588,602)</box>"
    rf"(?:(?:<ref>|<\|object_ref_start\|>)({_NAME})(?:</ref>|<\|object_ref_end\|>)\s?)?"
    rf"(?:<box>|<\|box_start\|>)\s?{_CORNERS}\s?(?:</box>|<\|box_end\|>)[\s,;]{{0,9}}"
)
_SENTENCE = re.compile(r"(?i:\b(?:is|are|was|were|at|in|not|near|to|from)\b)")  # in no label
_BARE = re.compile(  # "the dog(536,509),(588,602)", before a space, the next name, or the end
    rf"({_NAME}(?<!\s))?{_CORNERS}(?:\s{{1,9}}|(?=[^\W\d])|(?=[.<(])|\Z)"
)
_END = re.compile(r"\.?\s{0,9}(?:<\|(?:im_end|endoftext)\|>\s{0,9})*\Z")  # ".<|im_end|>"


def boxes_of_corners(response: str) -> tuple[Item, ...]:
    """Return the boxes with their labels, in the response's numbers; () if it begins otherwise.

    Raises:
        ParseError: the response begins with such a box and goes on as something else, or a box has
            no area.

    >>> boxes_of_corners("<ref>a dog</ref><box>(536,509),(588,602)</box>")[0].box
    Box(left=536.0, top=509.0, right=588.0, bottom=602.0)
    """
    answer = tag_text(response, "answer")
    text = (response if answer is None else answer).strip()
    items: list[Item] = []
    end = 0
    pattern = _TAGGED if _TAGGED.match(text) else _BARE
    while len(items) < MAX_OBJECTS and (match := pattern.match(text, end)):
        label, *corners = match.groups()
        if pattern is _BARE and _SENTENCE.search(label or ""):
            raise ParseError("response", expected="a name", found=repr(label[:60]))
        box = read_box([float(corner) for corner in corners], "box")
        items.append(Item(box, label=(label or "").strip()))
        end = match.end()
    if items and not _END.match(text, end):
        raise ParseError("response", expected="boxes of two corners", found=repr(text[end:][:60]))
    return tuple(items)
