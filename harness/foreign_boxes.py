"""Boxes in other programs' files of detections, as lines of predictions.

The command that a refusal prints calls `lines` with the paths of files: JSON, or JSON lines, in any
nesting. An image is named by a field beside or above its boxes, by a key, or by the file's name.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from harness.errors import DataError

Line: TypeAlias = dict[str, object]
IMAGES = (
    *("id", "image_id", "image_name", "file_name", "filename", "image_path", "img_path"),
    *("image", "img", "file", "path"),
)
"""Fields of an image's name, the best first."""
LABELS = (
    "label",
    "labels",
    "rectanglelabels",
    "class_name",
    "name",
    "category",
    "phrases",
    "class",
    "Name",
)
SCORES = ("score", "scores", "confidence", "conf", "Confidence", "logits", "box_scores")
LISTS = ("bboxes", "boxes", "pred_boxes")
"""Fields of a list of boxes, beside lists of their classes and scores."""
SINGLE = ("box", "bbox", "bounding_box", "BoundingBox", "box_2d", "bbox_2d")
"""Fields of the box of one object."""
SIDES: Sequence[tuple[tuple[str, ...], str]] = (
    (("xmin", "ymin", "xmax", "ymax"), "xyxy"),
    (("x1", "y1", "x2", "y2"), "xyxy"),
    (("left", "top", "right", "bottom"), "xyxy"),
    (("left", "top", "width", "height"), "xywh"),
)
OF_COCO = frozenset({"category_id", "conf"})
"""Fields of objects whose `bbox` is left, top, width and height: COCO's, MegaDetector's."""
ORDERS = {"bounding_box": "xywh", "BoundingBox": "xywh", "box_2d": "yxyx"}
"""Order of the numbers in fields of these names: FiftyOne's, AWS Rekognition's, Gemini's."""
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
YOLO = re.compile(r"\s*\d+(?:\s+[\d.eE+-]+){4,}")
"""The beginning of YOLO's labels."""
OUTSIDE = re.compile(r"gts?|gt_.*|ground_?truths?|annotations?|target", re.IGNORECASE)
"""Names of what may be the ground truth."""


class Detection(NamedTuple):
    """A box [left, top, right, bottom] in the unit of its file, with its class and its score."""

    image: str
    box: list[float]
    label: str
    score: float | None


def lines(paths: Iterable[str], label: str = "") -> Iterator[Line]:
    """Yield a line for each image: its boxes and, if all have some, their scores.

    Args:
        paths: The files; without a field or a key, the name of a file is that of its image.
        label: The class whose boxes count; "": all boxes are of one.

    Raises:
        DataError: boxes of one image have several classes.
    """
    boxes: dict[str, list[Detection]] = {}
    for path in map(Path, paths):
        plain = _values(path.read_text(encoding="utf-8-sig"))
        for image, detections in _of_images(plain, file=path.stem):
            boxes.setdefault(image, []).extend(detections)
    for image, found in boxes.items():
        detections = [entry for entry in found if label in ("", entry.label)]
        if len(names := sorted({entry.label for entry in detections})) > 1:
            raise DataError(
                f"image {image!r}",
                expected="boxes of the class that is asked",
                found=", ".join(names)[:80],
                fix=f"lines(sys.argv[1:], {names[0]!r}) in the command keeps one class.",
            )
        line: Line = {"id": image, "boxes": [entry.box for entry in detections]}
        scores = [entry.score for entry in detections]
        yield line | ({"box_scores": scores} if scores and None not in scores else {})


def has_boxes(plain: object) -> bool:
    """Return True if a value of JSON has boxes of objects in a form that `lines` reads."""
    return any(detections for _, detections in _of_images(plain, file="?"))


def _values(text: str) -> object:
    """Return the value of a text of JSON, or the list of those of its lines or of YOLO's."""
    if YOLO.match(text) or not text.strip():
        return {"detections": [_of_yolo(line) for line in text.splitlines() if line.strip()]}
    try:
        return json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]


def _of_yolo(line: str) -> dict[str, object]:
    """Return the object of a line: a class, the middle and the size, and the confidence if any."""
    try:
        label, x, y, width, height, *score = line.split()
        sides = dict(
            zip(("x", "y", "width", "height"), map(float, (x, y, width, height)), strict=True)
        )
        confidence = {"confidence": float(score[0]) if score else 1.0}
    except ValueError as error:
        raise DataError("line", expected="a class and 4 or 5 numbers", found=line[:60]) from error
    if len(score) > 1:
        raise DataError("line", expected="a class and 4 or 5 numbers", found=line[:60])
    return {**sides, "class": label, **confidence}


def _of_images(
    plain: object, image: str = "", file: str = ""
) -> Iterator[tuple[str, list[Detection]]]:
    """Yield (image, its boxes) of each object that has an image, also of one without a box.

    `image` is named by an object or a key above, or else by the file.
    """
    name = image or file
    if isinstance(plain, list):
        if name and (boxes := _entities(plain, name)):
            yield name, boxes
            return
        for entry in plain:
            yield from _of_images(entry, image, file)
    if not isinstance(plain, dict):
        return
    if not image:
        image = next((plain[key] for key in IMAGES if isinstance(plain.get(key), str)), "")
        image = str(image or _of_task(plain))
        name = image or file
    if boxes := _detections(plain, name):
        yield name, boxes
        return
    below = {key: value for key, value in plain.items() if not OUTSIDE.fullmatch(key)}
    if image and [] in below.values():
        yield image, []
    are_images = not image and _are_ids(plain)
    for key, value in below.items():
        yield from _of_images(value, key if are_images else image, file)


def _of_task(plain: Mapping[str, Any]) -> str:
    """Return the name of the image of Label Studio's task; "" for others."""
    data = plain.get("data")
    name = data.get("image") if isinstance(data, dict) else None
    return name if isinstance(name, str) else ""


def _are_ids(plain: Mapping[str, Any]) -> bool:
    """Return True if the keys of an object may be names of images, not of fields."""
    known = {*LISTS, *SINGLE, *LABELS, *SCORES, "predictions", "detections", "images", "entities"}
    return known.isdisjoint(plain) and not any(key.startswith("<") for key in plain)


def _detections(plain: Mapping[str, Any], image: str) -> list[Detection]:
    """Return the boxes that an object has itself: parallel lists, one box, or its own sides."""
    for key in LISTS:
        boxes = plain.get(key)
        if isinstance(boxes, list) and boxes and all(map(_is_box, boxes)):
            names, scores = (_beside(plain, keys, len(boxes)) for keys in (LABELS, SCORES))
            return [
                Detection(image, list(map(float, box)), str(name), _number(score))
                for box, name, score in zip(boxes, names, scores, strict=True)
            ]
    label = _label(plain)
    score = next((_number(plain[key]) for key in SCORES if key in plain), None)
    if (box := _of_label_studio(plain)) is not None:
        return [Detection(image, box, _label(plain["value"]), None)]
    for key in SINGLE:
        # MegaDetector's `conf` is beside left, top, width and height.
        order = (
            "xywh" if key == "bbox" and not OF_COCO.isdisjoint(plain) else ORDERS.get(key, "xyxy")
        )
        if (box := _box(plain.get(key), order)) is not None:
            return [Detection(image, box, label, score)]
    if (own := _box(plain, "")) is not None:
        return [Detection(image, own, label, score)]
    if not {"class", "confidence"} <= plain.keys():
        return []
    sides = _sides(plain, ("x", "y", "width", "height"))  # of Roboflow: the middle
    if _is_box(sides):
        x, y, width, height = map(float, sides)  # type: ignore[arg-type]
        box = [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
        return [Detection(image, box, label, score)]
    return []


def _of_label_studio(plain: Mapping[str, Any]) -> list[float] | None:
    """Return the box in pixels of a rectangle in percent of its image; None for another value."""
    value, size = (
        plain.get("value"),
        [plain.get(f"original_{side}") for side in ("width", "height")],
    )
    if not isinstance(value, dict) or value.get("rotation") or None in size:
        return None
    sides: list[Any] = [value.get(key) for key in ("x", "y", "width", "height")]
    if not _is_box(sides):
        return None
    parts = [part * side / 100 for part, side in zip(sides, [*size, *size], strict=True)]
    return _box(parts, "xywh")


def _entities(plain: Sequence[object], image: str) -> list[Detection]:
    """Return the boxes of Kosmos-2's entities: [text, [start, end], [box, …]] each."""
    return [
        Detection(image, list(map(float, box)), str(entry[0]), None)
        for entry in plain
        if isinstance(entry, list) and len(entry) == 3 and isinstance(entry[2], list)
        for box in entry[2]
        if isinstance(entry[0], str) and _is_box(box)
    ]


def _label(plain: Mapping[str, Any]) -> str:
    value = next((plain[key] for key in LABELS if key in plain), "")
    return str(value[0] if isinstance(value, list) and value else value)


def _beside(plain: Mapping[str, Any], keys: Iterable[str], count: int) -> list[object]:
    """Return the list beside boxes with a member for each; without one, nothing for each."""
    lists = (plain[key] for key in keys if isinstance(plain.get(key), list))
    return next((value for value in lists if len(value) == count), [""] * count)


def _number(value: object) -> float | None:
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    value = float(value) if isinstance(value, str) and NUMBER.fullmatch(value) else value
    return float(value) if type(value) in (int, float) else None  # type: ignore[arg-type]


def _sides(plain: Mapping[str, Any], names: Sequence[str]) -> list[object]:
    """Return the values of fields, in any case; texts of numbers, as in CSV, are numbers."""
    values = {key.lower().replace("_", ""): value for key, value in plain.items()}
    return [
        float(side) if isinstance(side, str) and NUMBER.fullmatch(side) else side
        for side in map(values.get, names)
    ]


def _is_box(value: object) -> bool:
    return (
        isinstance(value, list) and len(value) == 4 and all(type(v) in (int, float) for v in value)
    )


def _box(value: object, order: str) -> list[float] | None:
    """Return the corners of a box with named sides, or of four numbers in an order; else None."""
    if isinstance(value, dict):
        for names, written in SIDES:
            if _is_box(sides := _sides(value, names)):
                return _box(sides, written)
        return None
    if not order or not _is_box(value):
        return None
    a, b, c, d = map(float, value)  # type: ignore[call-overload]
    return {"xyxy": [a, b, c, d], "xywh": [a, b, a + c, b + d], "yxyx": [b, a, d, c]}[order]
