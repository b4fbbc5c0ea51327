"""Find boxes in a list of objects of a record, or in four fields, and say how to read them."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.foreign import to_lines
from harness.tasks.table.cells import plain_value
from harness.tasks.table.description import CHECK
from harness.tasks.table.nested import jq_path
from harness.tasks.table.rows import FILE, per_record
from harness.tasks.table.truth import SIDES

LINE_FILES = "harness.tasks.table.line_files"
"""Module of the command for a table that has a box a row."""
BOXES = (
    *("box2d", "bbox", "box", "boxes", "bndbox", "bounding_box", "boundingbox", "rect"),
    "points",  # of two corners, as SuperAnnotate has them
    "coordinates",  # of the middle and the size, as Apple's Create ML has them
    *("fbox", "vbox", "hbox"),  # of whole and visible persons, and heads, as CrowdHuman has them
)
"""Names of the box of an object, in small letters, in the order of preference."""
MODES = {"coordinates": "CXCYWH_ABS"} | dict.fromkeys(("fbox", "vbox", "hbox"), "XYWH_ABS")
"""Order and frame of boxes by these names, in Detectron2's words."""
PREFIX = re.compile(r"(?:b?box|gt)_(?=.)")
"""Beginning of the names of fields that hold a side of a box each."""
MEDIA = re.compile(r"(?:image|img|video|file)_?(?:id|name|path)?", re.IGNORECASE)
"""Names of the image or the video of an object."""
CLASSES = (
    *(
        "category",
        "label",
        "class",
        "class_name",
        "classname",
        "category_name",
        "tag",
        "name",
        "phrase",
    ),
    *("names", "tags"),  # of one object several
)
"""Names of an object's class, in small letters."""
CLASS_NUMBERS = ("category_id", "class_id", "label_id", "cat_id", "class_index", "category_index")
"""Names of the number of an object's class, in small letters."""
CLASS_LISTS = re.compile(
    r"(?:.*[._])?(?:categor(?:y|ies)|labels?|class(?:es)?|tags?|names?|phrases?)(?:_(?:ids?|names?))?",
    re.IGNORECASE,
)
"""Names of fields that hold a class for each box of another field."""
IGNORED = (
    "[., .extra?, .attributes? | objects | .iscrowd, .is_crowd, .crowd, .ignore, .ignored, "
    ".difficult] | any(. == true or . == 1)"
)
"""Condition of jq for an object that is to be ignored, or that stands for a crowd."""


def of_objects(table: Path, record: Mapping[str, object]) -> str:
    """Return what to do about boxes in a list of objects of a record; "" if it has none.

    The command makes a record for each class of objects, with all their boxes. A prediction of an
    object that is to be ignored would count as wrong: such objects are left out, and counted in a
    field for which `refuse_ignored` refuses the record until its user has chosen.
    """
    for field, cell in record.items():
        listed = plain_value(cell)
        objects = listed if isinstance(listed, list) else []
        first = next((entry for entry in objects if _boxes(entry)), None)
        if first is not None:
            if media := _own_media(objects):
                program = f". as $record | .[{json.dumps(field)}][] | ($record | "
                program += f"del(.[{json.dumps(field)}])) + ."
                makes = per_record(table, program, "makes them")
                return (
                    f"each object of the list {field!r} has a {media} of its own: write a record "
                    f"for each{makes and f'; {makes}'}"
                )
            key, *further = _boxes(first)
            label = next((name for name in first if str(name).lower() in CLASSES), "")
            makes = per_record(
                table,
                _program(field, key, label, first),
                "makes them: `ignored` is the number of objects to ignore in the image, and "
                "where = { ignored = 0 } in [question] leaves out images with some",
            )
            named = repr(key) if key else "objects"
            return (
                f"boxes are {named}{''.join(f' or {name!r}' for name in further)} in the list "
                f"{field!r}: write a record for each question{makes and f'; {makes}'}"
            )
    return ""


def of_lists(table: Path, records: Sequence[Mapping[str, object]], regions: str, form: str) -> str:
    """Return what to do about a list of classes, one for each region of a field; "" without one.

    The records are flat: fields in objects have names with dots.
    """
    listed = [plain_value(record.get(regions)) for record in records]
    for name in filter(CLASS_LISTS.fullmatch, next(iter(records), ())):
        classes = [plain_value(record.get(name)) for record in records]
        pairs = list(zip(listed, classes, strict=True))
        lists = [(a, b) for a, b in pairs if isinstance(a, list) and isinstance(b, list)]
        if not lists or len(lists) < len(pairs) or any(len(a) != len(b) for a, b in lists):
            continue
        if len({str(part) for _, parts in lists for part in parts}) > 1:
            of_regions, of_classes = (jq_path(key) for key in (regions, name))
            program = (
                f". as $record | [getpath({of_regions}), getpath({of_classes})] | transpose "
                f"| group_by(.[1])[] | ($record | delpaths([{of_regions}, {of_classes}])) "
                "+ {question: (.[0][1] | tostring), "
                f"{'bbox' if form == 'boxes' else form}: map(.[0])}}"
            )
            makes = per_record(table, program, "makes a record for each")
            return f"{name} has the class of each of {regions}{makes and f': {makes}'}"
    return ""


def of_columns(table: Path, records: Sequence[Mapping[str, object]]) -> str:
    """Return what to do about records whose box has its sides in four fields; "" about others.

    It is the keys of a description that read the box or, where an image has several records, the
    command that makes one for each class in an image.
    """
    keys = {PREFIX.sub("", key.lower()): key for key in records[0]}
    for written in SIDES:
        sides = [keys.get(side, "") for side in _sides(keys, written)]
        if not all(sides):
            continue
        image = next((n for n, cell in records[0].items() if FILE.fullmatch(str(cell))), "")
        label = next((name for name in records[0] if name.lower() in CLASSES), "")
        n_images = len({str(row.get(image)) for row in records})
        if written == "xyxy" and image and label and n_images < len(records):
            given = ", ".join(map(repr, (image, label, " ".join(sides))))
            typed = to_lines(f"{LINE_FILES}.columns(sys.argv[1], {given})", table.name, LINE_FILES)
            return (
                f"boxes, of which an image has several: {typed}, named NEW.jsonl, makes a record "
                f"for each {label} in an image, in pixels"
            )
        field = ", ".join(f"{{{side}}}" for side in sides)
        return f'a box? form = "boxes", field = "[{field}]", written = "{written}" read it'
    return ""


def _own_media(objects: Sequence[object]) -> str:
    """Return the field by which objects of a list are of several images or videos, or ""."""
    plain = [entry for entry in objects if isinstance(entry, dict)]
    keys = [key for key in (plain or [{}])[0] if MEDIA.fullmatch(str(key))]
    return next((key for key in keys if len({str(entry.get(key)) for entry in plain}) > 1), "")


def _boxes(entry: object) -> list[str]:
    """Return the keys of an object's boxes, the best first; [] for another value.

    The key is "" if the object has the sides of its box itself, as in Visual Genome.
    """
    boxes = entry if isinstance(entry, dict) else {}
    named = [(key, box) for name in BOXES for key, box in boxes.items() if str(key).lower() == name]
    corners = ("coordinates", "points")
    keys = [key for key, box in named if key not in corners or isinstance(box, dict)]
    return keys or [""] * any(all(_sides(boxes, written)) for written in SIDES)


def _sides(box: Mapping[str, object], written: str) -> list[str]:
    """Return the fields of a box's sides in an order; "" for one that it lacks."""
    return [next((k for k in box if str(k).lower() in known), "") for known in SIDES[written]]


def _program(name: str, key: str, label: str, first_object: Mapping[str, object]) -> str:
    """Return the program of jq that makes a record for each class of the objects in a list.

    Args:
        name: The field of the list.
        key: The box of an object.
        label: The class of an object; "" makes a record for each object, without its question.
        first_object: The first object: the sides of its box are put in the order of their names.
            The number of its class is kept where it lacks a name.
    """
    listed, mode = f".[{json.dumps(name)}]", MODES.get(key, "")
    path = jq_path(name) if "." in name else json.dumps([name])
    if "." in name:
        # Encord and others name a part of the path by the record's own hash.
        names = json.loads(path)
        alike = (
            f"([paths(arrays) as $path | select(($path | length) == {len(names)} and "
            f"$path[0] == {json.dumps(names[0])} and $path[-1] == {json.dumps(names[-1])}) "
            "| getpath($path)] | if length == 1 then .[0] else null end)"
        )
        is_own = any(re.search(r"\d", str(part)) for part in names[1:-1])  # a hash
        by_shape = f"{alike} // " if is_own else ""
        listed = f'(getpath({path}) // {by_shape}error("a record without {name}"))'
    sides = first = f".[{json.dumps(key)}]"
    box = first_object[key] if key else first_object
    plain: Mapping[str, object] = box if isinstance(box, Mapping) else {}
    for written in SIDES:
        keys = _sides(plain, written)
        if all(keys) and (len(plain) == 4 or not key):
            first = first if key else f".[{json.dumps(keys[0])}]"
            sides = f"{sides if key else '.'} | [{', '.join(f'.[{json.dumps(k)}]' for k in keys)}]"
            mode = f"{written.upper()}_ABS" if key == "box2d" else mode or written.upper()
            if key:  # a polygon beside boxes
                # An array is a polygon; more than four sides are the corners of a turned box.
                other = f'error("{key}, no box: write such objects as polygons, in masks")'
                is_other = f'(type == "array") or (type == "object" and length != {len(plain)})'
                first = sides = f"({first} | if {is_other} then {other} else . end)"
                sides = f"{sides} | [{', '.join(f'.[{json.dumps(k)}]' for k in keys)}]"
            break
    text = f".[0][{json.dumps(label)}]" if label else json.dumps(CHECK)
    binds = f'(.[{json.dumps(label)}] | if type == "array" then .[] else . end) as $class'
    number = next((name for name in first_object if str(name).lower() in CLASS_NUMBERS), "")
    numbered = f", {json.dumps(number)}: .[0][{json.dumps(number)}]" if number and not label else ""
    grouped = (
        f"map({binds} | . + {{{json.dumps(label)}: $class}}) | group_by(.[{json.dumps(label)}])[]"
        if label
        else f"group_by(.[{json.dumps(number)}])[]"
        if number
        else ".[] | [.]"
    )
    stated = f", bbox_mode: {json.dumps(mode)}" if mode else ""
    return (
        f". as $record | {listed} // [] | map(select({first})) "
        f"| (map(select({IGNORED})) | length) as $ignored | map(select({IGNORED} | not)) "
        f"| {grouped} | ($record | delpaths([{path}])) "
        f"+ {{question: {text}, bbox: map({sides}), ignored: $ignored{numbered}{stated}}}"
    )
