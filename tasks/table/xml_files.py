"""Records of boxes in XML of any form: elements with the four sides of a box, of an image or below.

The command that a refusal prints calls `boxes` with the paths of files. A side is an attribute or a
child of the element, which may share a prefix (`box_xmin`), as in Manga109, HRSC2016 and UA-DETRAC.
"""

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


def boxes(paths: Iterable[str]) -> Iterator[Record]:
    """Yield a record for each name in each image, with the values of the elements around its boxes.

    Raises:
        DataError: a side is not a number, or a file has no box.
    """
    for path in map(Path, paths):
        groups: dict[tuple[object, ...], Record] = {}
        for around, entry in _entries(ElementTree.parse(path).getroot(), {}):
            values = _values(entry)
            mode, sides = _box(values) or ("", [])
            if not mode:
                continue
            where = f"{path}, <{entry.tag}>"
            try:
                box = [float(side) for side in sides]
            except ValueError as error:
                raise DataError(where, expected="4 numbers", found=str(sides)) from error
            lower = {key.lower(): text for key, text in values.items()}
            text = next((lower[name] for name in NAMES if lower.get(name)), "")
            text = text or (entry.text or "").strip() or entry.tag
            about: Record = {"file": path.stem, **around, "question": text, "element": entry.tag}
            record = groups.setdefault(
                tuple(about.values()), about | {"boxes": [], "bbox_mode": mode}
            )
            record["boxes"] = [*_listed(record["boxes"]), box]
        if not groups:
            raise DataError(f"file {path}", expected="an element with a box", found="none")
        yield from groups.values()


def has_boxes(path: Path) -> bool:
    """Return True if a file is XML in which an element has a box."""
    try:
        root = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, ValueError):
        return False
    return any(_box(_values(entry)) for entry in root.iter())


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _entries(
    entry: ElementTree.Element, around: Record
) -> Iterator[tuple[Record, ElementTree.Element]]:
    """Yield (values of the elements around, element) of all elements below one."""
    own = {key: _plain(text) for key, text in _values(entry).items() if text}
    below = around | {f"{entry.tag}_{key}" if key in around else key: own[key] for key in own}
    for child in entry:
        yield below, child
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


def _box(values: Mapping[str, str]) -> tuple[str, list[str]] | None:
    """Return (what the sides hold, their texts) of an element; None without a box."""
    names = {PREFIX.sub("", key.lower()): text for key, text in values.items()}
    named = {SAME.get(name, name): text for name, text in names.items()}
    for mode, sides in SIDES.items():
        if all(side in named for side in sides):
            return mode, [named[side] for side in sides]
    return None
