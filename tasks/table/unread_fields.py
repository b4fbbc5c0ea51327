"""Refuse records in which a field that is not read changes a question, or what counts."""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain

from harness.errors import DataError
from harness.tasks.table.cells import plain_value

IGNORED = (
    *("ignore", "ignored"),
    *(
        f"{ignored}_{what}{plural}"
        for ignored in ("ignore", "ignored")
        for what in ("mask", "region", "area")
        for plural in ("", "s")
    ),
    *("mask_ignore", "dont_care", "dontcare"),
    *("iscrowd", "is_crowd", "crowd", "void", "void_mask"),
)
"""Names of fields of what is to be ignored, in small letters."""
UNCOUNTED = (*IGNORED, "difficult")
"""Names of fields of an object that an evaluation counts neither way, in small letters."""
NO_OBJECT = re.compile(
    r"(?:to[ _-]?)?ignored?(?:[ _-]?(?:area|mask|region|zone)s?)?|void|(?:do)?n'?t[ _-]?care"
    r"|do[ _-]not[ _-]care",
    re.IGNORECASE,
)
"""Names of a class of regions in which nothing counts."""
TURNED = ("angle", "rotation", "theta", "rotate")
"""Names of fields of an angle by which a box, or its image, is turned, in small letters."""
ORDERS = ("bbox_mode", "box_mode", "bbox_format", "box_format", "bbox_type", "bbox_order")
"""Names of fields of the order in which a box is written, in small letters."""
SIDES = (
    *(("width", "height"), ("image_width", "image_height"), ("img_width", "img_height")),
    *(("imageWidth", "imageHeight"), ("imgWidth", "imgHeight"), ("image_w", "image_h")),
)
"""Names of the two fields of an image's size."""
SHAPES = ("image_size", "img_size", "imsize", "image_shape", "img_shape")
"""Names of a field of an image's size, which has its sides in either order."""
REGIONS = (
    *("bbox", "bboxes", "box", "boxes", "mask", "masks", "region", "regions", "segmentation"),
    *("polygon", "polygons", "points", "pos", "rle"),
)
"""Names of fields that may hold the values of marks."""
CHANNELS = (1, 3, 4)
"""Numbers of channels, which stand before or behind the sides of an image's shape."""
SIZES_OF_IMAGES = frozenset((*chain(*SIDES), *SHAPES))
UNREAD = (*IGNORED, *TURNED, *ORDERS, *SIZES_OF_IMAGES, *REGIONS)
"""Names of all fields that are looked at, beside those of the description."""
NOTHING = ("", "0", "0.0", "false", "no", "n", "none", "null", "nan")
"""Texts, in small letters, by which a field says that there is nothing to ignore."""
CROWD = re.compile(r"[-\d.]+|true|yes|y")
"""Values of a field `crowd` that mark an object; others describe a crowd in words."""
MARK = re.compile(r"<(\w+)>")
"""A mark in a text, such as `<s0>` or `<mask>`."""
MEDIA = re.compile(r"(?:image|img|video|audio|frame)_?\d*", re.IGNORECASE)
"""Marks in whose place an image, a video or a sound stands."""
WORDS = re.compile(
    r"answer|think|br|hr|p|li|ul|ol|tr|td|th|table|div|span|sub|sup|em|strong|h[1-6]|code|pre"
    r"|int|float|str|string",
    re.IGNORECASE,
)
"""Marks that are words of HTML, of a form of response, or of a program."""
FEATURES = re.compile(r"(?:vid|mask|region|depth|pos|roi)s?\d*", re.IGNORECASE)
"""Marks in whose place a network puts what it makes of a region, a depth map or a time."""
CLOZE = ("mask", "pos", "region")
"""Marks that may also stand for a word to find."""
VALUES = re.compile(r"(?:time|time_?stamp|box|bbox|point|obj|object|track)s?\d*", re.IGNORECASE)
"""Marks that may stand for numbers of another field, or be part of a template for the response."""
SIZES = re.compile(r"(?:.*_)?(?:size|width|height|shape|resolution)", re.IGNORECASE)
"""Names of fields of a size."""


def refuse_ignored(
    row: Mapping[str, object], form: str, named: Collection[str], where: str
) -> None:
    """Raise DataError if a record names pixels, regions or objects to ignore.

    A scorer counts all pixels, boxes and points. Fields that the description names are left to it.
    """
    if form not in ("mask", "boxes", "points", "count"):
        return
    for name, value in _fields(row):
        if name not in named and _says_so(name, value, IGNORED):
            key = json.dumps(name) if "." in name else name
            zero = f" = {{ {key} = 0 }}" if type(value) is int else ""
            raise DataError(
                f"{where}: {name!r}",
                expected=f"nothing to ignore beside {form}: everything counts",
                found=repr(value)[:60],
                fix=f"Leave such records out with `where{zero}`, or remove the field if the "
                "ground truth does not depend on it.",
            )


def is_uncounted(entry: Mapping[str, object]) -> bool:
    """Return True if an object, or an object of its attributes, says that it does not count.

    >>> is_uncounted({"iscrowd": 0, "attributes": {"difficult": True}}), is_uncounted({"ignore": 0})
    (True, False)
    """
    return any(_says_so(name, value, UNCOUNTED) for name, value in _fields(entry))


def _fields(row: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the fields of a record, and those of its objects by names with dots."""
    for name, value in row.items():
        yield f"{prefix}{name}", value
        if isinstance(value, Mapping):
            yield from _fields(value, f"{prefix}{name}.")


def _says_so(name: str, value: object, names: Collection[str]) -> bool:
    """Return True if a field has one of these names, and a value in it says that it is so."""
    last = name.rpartition(".")[2].lower()
    if last not in names:
        return False
    texts = [str(leaf).strip().lower() for leaf in _leaves(value)]
    if last == "crowd":
        texts = [text for text in texts if CROWD.fullmatch(text)]
    return any(text not in NOTHING for text in texts)


def _leaves(value: object) -> Iterator[object]:
    """Yield the values in a list or an object, at any depth; any other value itself."""
    plain = plain_value(value)
    parts = plain.values() if isinstance(plain, Mapping) else plain
    if not isinstance(plain, (list, tuple, Mapping)):
        yield plain
        return
    for part in parts:
        yield from _leaves(part)


def refuse_other_boxes(
    row: Mapping[str, object], written: str, has_columns: bool, where: str
) -> None:
    """Raise DataError if a record says that its box is turned, or written in another order.

    A rotation by quarter turns beside a whole box is one of its image, which was turned already;
    beside the sides of a box in columns of their own (`has_columns`) it is one of the box.
    """
    for name, value in row.items():
        angle = value if isinstance(value, (int, float)) and not isinstance(value, bool) else 0
        is_quarter = name.lower() in ("rotation", "rotate") and angle % 90 == 0
        if name.lower() in TURNED and angle and (has_columns or not is_quarter):
            raise DataError(
                f"{where}: {name!r}",
                expected="boxes with sides along the axes, of the image as it is",
                found=f"{value!r}"[:40],
                fix="Leave such records out with `where`, or remove the field if the ground truth "
                "does not depend on it.",
            )
        stated = stated_order(value)
        if name.lower() in ORDERS and stated and stated != written:
            raise DataError(
                f"{where}: {name!r}",
                expected=f"boxes written as {written!r}, as the description has it",
                found=repr(value)[:40],
            )


def stated_order(mode: object) -> str:
    """Return the only order of a box's numbers that a text names, such as "xywh"; else ""."""
    orders = set(re.findall("xyxy|cxcywh|xywh", str(mode).lower().replace("_", "")))
    return orders.pop() if len(orders) == 1 else ""


def stated_size(
    row: Mapping[str, object], image: Sequence[int]
) -> tuple[tuple[str, ...], list[int]] | None:
    """Return (names of the fields, [width, height]) of an image's size; None if there is none.

    Args:
        row: The record.
        image: Width and height of its image, by which the sides of one field are ordered.
    """
    for names in SIDES:
        size = [int(text) for name in names if (text := str(row.get(name))).isdecimal()]
        if len(size) == 2 and min(size) > 0:
            return names, size
    for name in SHAPES:
        sides = plain_value(row.get(name))
        named = [sides.get("width"), sides.get("height")] if isinstance(sides, Mapping) else sides
        size = list(map(_side, named)) if isinstance(named, list) else []
        if len(size) == 3 and {size[0], size[2]} & {*CHANNELS}:
            size = size[:2] if size[2] in CHANNELS else size[1:]
        if len(size) == 2 and all(size):
            is_other_order = named is sides and size[::-1] == [*image]
            return (name,), size[::-1] if is_other_order else size
    return None


def _side(value: object) -> int:
    """Return a side of an image in pixels, from a number or its text; 0 for another value."""
    text = str(value).strip().removesuffix(".0")
    return int(text) if text.isdecimal() else 0


def refuse_marks(
    row: Mapping[str, object],
    texts: Sequence[str],
    truth: str,
    named: Collection[str],
    where: str,
) -> None:
    """Raise DataError if texts have marks, such as `<mask>`, for values of another field.

    A mark with its end, `<b>…</b>`, is part of the text. Another one stands for a value if its name
    says so (`FEATURES`); so does one of `VALUES` beside a list of numbers, and any other mark
    beside a list that has as many numbers as the texts have marks. The only mark of a
    question may be the gap of a cloze (`CLOZE`) if no other field can hold its value.

    Args:
        row: The record.
        texts: The question and its options.
        truth: The right text; empty for other forms of answer.
        named: Fields that the description names; their values are not those of marks.
        where: The place of the record, for messages.
    """
    joined = "\n".join([*texts, truth])
    counts = Counter(
        name
        for name in MARK.findall(joined)
        if not MEDIA.fullmatch(name) and not WORDS.fullmatch(name)
    )
    marks = {name: count for name, count in counts.items() if f"</{name}>" not in joined}
    if not marks:
        return
    others = {name: value for name, value in row.items() if name not in named}
    lists = {
        name: plain
        for name, value in others.items()
        if not SIZES.fullmatch(name) and (plain := _numbers(value))
    }
    totals = {*marks.values(), sum(marks.values())}
    is_cloze = list(marks) in [[name] for name in CLOZE] and not MARK.search(truth)
    if is_cloze and not any(_may_hold(name, value) for name, value in others.items()):
        return
    for mark in marks:
        is_numbered = mark[-1].isdigit()
        holders = [
            name
            for name, plain in lists.items()
            if (VALUES.fullmatch(mark) or len(plain) in totals)
            and (is_numbered or len(_flat(plain)) > 1)
        ]
        if holders or FEATURES.fullmatch(mark):
            beside = f", beside the lists {', '.join(map(repr, holders))}" if holders else ""
            raise DataError(
                where,
                expected="texts without marks for other values",
                found=f"<{mark}>{beside}"[:160],
                fix="Write the values in place of the marks, or leave such records out.",
            )


def _may_hold(name: str, value: object) -> bool:
    """Return True if a field may hold a region: numbers in a list or an object, or a mask."""
    plain = plain_value(value)
    has_numbers = any(type(leaf) in (int, float) for leaf in _leaves(plain))
    return (isinstance(plain, (list, dict)) and has_numbers) or (
        bool(plain) and "mask" in name.lower()
    )


def _flat(plain: Sequence[object]) -> list[object]:
    """Return the members of a list, and those of the lists in it."""
    return [part for entry in plain for part in (entry if isinstance(entry, list) else [entry])]


def _numbers(value: object) -> list[object]:
    """Return a list of numbers, or of lists of numbers; [] for other values."""
    plain = plain_value(value)
    if not isinstance(plain, list):
        return []
    return plain if all(type(part) in (int, float) for part in _flat(plain)) else []
