"""Records of boxes in XML of any form: elements with the four sides of a box, of an image or below.

The command that a refusal prints calls `boxes` with the paths of files. A side is an attribute or a
child of the element, which may share a prefix (`box_xmin`), as in Manga109 and HRSC2016.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

from harness.errors import DataError
from harness.tasks.table.regions import Record

SIDES: Mapping[str, tuple[str, str, str, str]] = {
    "XYXY_ABS": ("xmin", "ymin", "xmax", "ymax"),
    "XYWH_ABS": ("x", "y", "width", "height"),
}
"""Names of the sides, with what they hold in Detectron2's words."""
SAME = {"x1": "xmin", "y1": "ymin", "x2": "xmax", "y2": "ymax", "left": "x", "top": "y"}
"""Other names of sides."""
PREFIX = re.compile(r"^(?:b?n?d?box_?)(?=.)")
NAMES = ("name", "label", "class", "category", "class_id", "label_id", "category_id")
"""Names of the class of an object, the best first; without one it is the text or the element."""
OBJECT = re.compile("object|obj|item|target|instance", re.IGNORECASE)
"""Elements around a box that may name it."""
BOX = re.compile("(?:bnd|bounding_?|b)?box|rect(?:angle)?|region|roi|coordinates", re.IGNORECASE)
"""Elements that are not named by what the box shows."""
IMAGE = re.compile("image|img|picture|canvas|size", re.IGNORECASE)
"""Elements whose x, y, width and height are not those of an object."""
ANGLES = ("angle", "ang", "rotation", "theta")
UNNAMED = "CHECK"
"""Question of a box without a name, which `harness data init` then asks for."""
TRUE = ("1", "1.0", "true", "yes", "y")
IGNORED = re.compile("ignore|dont_?care", re.IGNORECASE)


def boxes(paths: Iterable[str]) -> Iterator[Record]:
    """Yield a record for each name in each image, with the values of the elements around its boxes.

    Sides that are all at most 1 are fractions of the image. A box without a name has `UNNAMED`.

    Raises:
        DataError: a side is not a finite number, a box is turned or does not count, or a file has
            no box or boxes of two forms.
    """
    for path in map(Path, paths):
        groups: dict[tuple[object, ...], Record] = {}
        modes, largest = set[str](), 0.0
        for around, parent, entry in _entries(_root(path), {}):
            values = _values(entry)
            mode, sides = _box(entry) or ("", [])
            if not mode:
                continue
            where = f"{path}, <{entry.tag}>"
            box = [_number(side) for side in sides]
            if not all(map(math.isfinite, box)):
                raise DataError(where, expected="4 numbers", found=str(sides))
            lower = {key.lower(): text for key, text in values.items()}
            angles = [lower[key] for key in ANGLES if _number(lower.get(key, "0"))]
            true = [key for key in lower if lower[key].strip().casefold() in TRUE]
            ignored = [key for key in true if IGNORED.search(key)]
            if angles or ignored or IGNORED.search(f"{parent.tag} {entry.tag}"):
                fault = f"{ignored[0]} = {lower[ignored[0]]}" if ignored else f"<{parent.tag}>"
                fault = f"an angle of {angles[0]}" if angles else fault
                raise DataError(where, expected="an upright box that counts", found=fault)
            text = _name(values) or (entry.text or "").strip()
            text = text or (_name(_values(parent)) if OBJECT.fullmatch(parent.tag) else "")
            is_unnamed = BOX.fullmatch(entry.tag) or OBJECT.fullmatch(entry.tag)
            text = text or (UNNAMED if is_unnamed else entry.tag)
            modes.add(mode)
            largest = max(largest, *map(abs, box))
            about: Record = {"file": path.stem, **around, "question": text, "element": entry.tag}
            record = groups.setdefault(
                tuple(about.values()), about | {"boxes": [], "bbox_mode": mode}
            )
            record["boxes"] = [*_listed(record["boxes"]), box]
        if not groups:
            raise DataError(f"file {path}", expected="an element with a box", found="none")
        if len(modes) > 1:
            raise DataError(f"file {path}", expected="boxes of one form", found="corners and sizes")
        for record in groups.values():
            unit = "REL" if largest <= 1 else "ABS"
            yield record | {"bbox_mode": str(record["bbox_mode"]).replace("ABS", unit)}


def has_boxes(path: Path) -> bool:
    """Return True if a file is XML in which an element has a box."""
    try:
        root = _root(path)
    except (ElementTree.ParseError, ValueError):
        return False
    return any(map(_box, root.iter()))


def _root(path: Path) -> ElementTree.Element:
    """Return the root of a file, in which no name has a namespace."""
    root = ElementTree.parse(path).getroot()
    for entry in root.iter():
        entry.tag = str(entry.tag).rpartition("}")[2]
        for key in [key for key in entry.attrib if "}" in key]:
            entry.attrib[key.rpartition("}")[2]] = entry.attrib.pop(key)
    return root


def _number(text: str) -> float:
    """Return the number of a text; NaN of another."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _name(values: Mapping[str, str]) -> str:
    """Return the name of an object among its values; "" without one."""
    lower = {key.lower(): text for key, text in values.items()}
    return next((lower[name] for name in NAMES if lower.get(name)), "")


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _entries(
    entry: ElementTree.Element, around: Record
) -> Iterator[tuple[Record, ElementTree.Element, ElementTree.Element]]:
    """Yield (values of the elements around, parent, element) of all elements below one."""
    own = {key: _plain(text) for key, text in _values(entry).items() if text}
    below = around | {f"{entry.tag}_{key}" if key in around else key: own[key] for key in own}
    for child in entry:
        yield below, entry, child
        yield from _entries(child, below)


def _plain(text: str) -> str | int:
    """Return the number of a text that is one without zeros before it, which a pattern may pad."""
    return int(text) if text.isdecimal() and text == str(int(text)) else text


def _values(entry: ElementTree.Element) -> dict[str, str]:
    """Return the attributes of an element, and the texts of children that have nothing below."""
    leaves = [child for child in entry if not len(child) and not child.attrib]
    texts = {child.tag: (child.text or "").strip() for child in leaves}
    once = {tag: text for tag, text in texts.items() if [c.tag for c in leaves].count(tag) == 1}
    return {**entry.attrib, **once}


def _box(entry: ElementTree.Element) -> tuple[str, list[str]] | None:
    """Return (what the sides hold, their texts) of an element; None without a box."""
    if IMAGE.fullmatch(entry.tag):
        return None
    names = {PREFIX.sub("", key.lower()): text for key, text in _values(entry).items()}
    named = {SAME.get(name, name): text for name, text in names.items()}
    for mode, sides in SIDES.items():
        if all(side in named for side in sides):
            return mode, [named[side] for side in sides]
    return None
