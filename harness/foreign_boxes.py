"""Boxes in other programs' files of detections, as lines of predictions.

The command that a refusal prints calls `lines` with the paths of files: JSON, or JSON lines, in any
nesting. An image is named by a field beside or above its boxes, by a key, or by the file's name.
The order of four numbers is the one that their keys state; where they do not, it is an argument.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from harness.errors import DataError

Line: TypeAlias = dict[str, object]
IMAGES = (
    *("id", "image_id", "image_name", "file_name", "filename", "filepath", "image_path"),
    *("img_path", "image", "img", "file", "path"),
)
"""Fields of an image's name, the best first."""
LABELS = (
    *("label", "labels", "rectanglelabels", "class_name", "name", "category", "phrases", "class"),
    *("Name", "pred_classes", "classes", "class_ids", "class_id", "category_id"),
)
ASKED = (
    *("phrase", "question", "query", "expression", "caption", "sentence", "text", "ref"),
    *("prompt", "text_prompt"),
)
"""Fields of what an object was searched by: boxes of two such texts answer two questions."""
SCORES = ("score", "scores", "confidence", "conf", "Confidence", "logits", "box_scores")
STATED = ("xyxy", "xywh", "cxcywh")
"""Names of fields that state the order of the numbers in them."""
LISTS = ("bboxes", "boxes", "pred_boxes", *STATED)
"""Fields of a list of boxes, beside lists of their classes and scores."""
SINGLE = (
    *("box", "bbox", "bounding_box", "BoundingBox", "box_2d", "bbox_2d", "relative_coordinates"),
    *STATED,
)
"""Fields of the box of one object."""
SIDES: Sequence[tuple[tuple[str, ...], str]] = (
    (("xmin", "ymin", "xmax", "ymax"), "xyxy"),
    (("x1", "y1", "x2", "y2"), "xyxy"),
    (("left", "top", "right", "bottom"), "xyxy"),
    (("left", "top", "width", "height"), "xywh"),
    (("centerx", "centery", "width", "height"), "cxcywh"),
)
OF_COCO = ({"image_id", "category_id", "score"}, {"category", "conf"})
"""Fields beside a `bbox` of left, top, width and height: COCO's results, MegaDetector's."""
ORDERS = {
    **{name: name for name in STATED},
    **{"bounding_box": "xywh", "box_2d": "yxyx", "bbox_2d": "xyxy"},
}
"""Order of the numbers in fields of these names: FiftyOne's, Gemini's and Qwen's last."""
ORDER_KEYS = ("bbox_mode", "format", "bbox_format", "box_format", "bbox_type")
"""Fields of the order, beside or above boxes: `xywh`, `XYWH_ABS`, or Detectron2's number."""
MODES = ("xyxy", "xywh", "xyxy", "xywh")
"""Orders of Detectron2's numbers of `BoxMode`."""
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
YOLO = re.compile(r"\s*\d+(?:[ \t]+(?:0?\.\d+(?:e-?\d+)?|[01](?:\.0*)?)){4,5}\s*$", re.I | re.M)
"""The first line of YOLO's labels: a class and fractions."""
OUTSIDE = re.compile(r"gts?|gt_.*|ground_?truths?|annotations?|target", re.IGNORECASE)
"""Names of what may be the ground truth."""


class Detection(NamedTuple):
    """Four numbers of a box in the unit of its file, and what stands with them."""

    image: str
    box: list[float]
    order: str
    """Order of the numbers, as `_corners` reads it; "": not stated."""
    label: str
    score: float | None
    asked: str = ""


class About(NamedTuple):
    """The values of the objects above a box."""

    image: str = ""
    file: str = ""
    order: str = ""
    label: str = ""
    asked: str = ""


def lines(paths: Iterable[str], label: str = "", order: str = "") -> Iterator[Line]:
    """Yield a line for each image: its boxes and, if all have some, their scores.

    Args:
        paths: The files; without a field or a key, the name of a file is that of its image.
        label: The class, or the phrase, whose boxes count; "": all boxes are of one.
        order: Order of the numbers of boxes that do not state it: xyxy, xywh (left and top first)
            or cxcywh (the middle first).

    Raises:
        DataError: boxes of one image have several classes or phrases, an order is not stated or
            unknown, a number is not finite, or a file is not JSON.
    """
    boxes: dict[str, list[Detection]] = {}
    for path in map(Path, paths):
        try:
            plain = _values(path.read_text(encoding="utf-8-sig"))
            for image, detections in _of_images(plain, About(file=path.stem)):
                boxes.setdefault(image, []).extend(detections)
        except (ValueError, RecursionError) as error:
            raise DataError(f"file {path}", expected="JSON", found=str(error)[:80]) from error
    for image, all_detections in boxes.items():
        where = f"image {image!r}"
        detections = [entry for entry in all_detections if label in ("", entry.label, entry.asked)]
        for what in ("label", "asked"):
            if len(names := sorted({getattr(entry, what) for entry in detections})) > 1:
                raise DataError(
                    where,
                    expected="boxes of the class or the phrase that is asked",
                    found=", ".join(map(repr, names))[:80],
                    fix=f"lines(sys.argv[1:], {json.dumps(names[-1])}) in the command keeps one.",
                )
        line: Line = {"id": image, "boxes": [_corners(entry, order) for entry in detections]}
        scores = [entry.score for entry in detections]
        if not all(math.isfinite(score) for score in scores if score is not None):
            raise DataError(where, expected="finite scores", found=str(scores)[:80])
        yield line | ({"box_scores": scores} if scores and None not in scores else {})


def has_boxes(plain: object) -> bool:
    """Return True if a value of JSON has boxes of objects in a form that `lines` reads."""
    return bool(_found(plain))


def lacks_order(plain: object) -> bool:
    """Return True if the keys of a box do not state the order of its numbers."""
    return "" in _found(plain)


def _found(plain: object) -> set[str]:
    """Return the orders of the boxes in a value of JSON; of lists that do not fit, a mark."""
    try:
        images = _of_images(plain, About(file="?"))
        return {entry.order for _, detections in images for entry in detections}
    except DataError:
        return {"?"}
    except RecursionError:
        return set()


def _corners(detection: Detection, given: str) -> list[float]:
    """Return left, top, right and bottom of a box; `given` is the order if it states none."""
    a, b, c, d = detection.box
    orders = {
        "xyxy": [a, b, c, d],
        "xywh": [a, b, a + c, b + d],
        "cxcywh": [a - c / 2, b - d / 2, a + c / 2, b + d / 2],
        "yxyx": [b, a, d, c],
    }
    corners = orders.get(detection.order or given)
    if corners is None or not all(map(math.isfinite, corners)):
        raise DataError(
            f"image {detection.image!r}",
            expected=f"four finite numbers in an order of {', '.join(orders)}",
            found=f"{detection.box}, in the order {detection.order or given!r}",
            fix='lines(sys.argv[1:], order="xyxy") in the command states left, top, right, bottom; '
            '"xywh" left, top, width, height; "cxcywh" the middle first.',
        )
    return corners


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


def _of_images(plain: object, above: About) -> Iterator[tuple[str, list[Detection]]]:
    """Yield (image, its boxes) of each object that has an image, also of one without a box.

    An image is named by an object or a key above, or else by the file.
    """
    name = above.image or above.file
    if isinstance(plain, list):
        if name and (boxes := _entities(plain, name)):
            yield name, boxes
            return
        for entry in plain:
            yield from _of_images(entry, above)
    if not isinstance(plain, dict):
        return
    about = above._replace(
        image=above.image or _image(plain),
        order=_order(plain) or above.order,
        asked=next((plain[key] for key in ASKED if isinstance(plain.get(key), str)), above.asked),
        # AWS Rekognition names objects above their instances.
        label=str(plain.get("Name", "")) if "Instances" in plain else above.label,
    )
    if boxes := _detections(plain, about):
        yield about.image or about.file, boxes
        return
    below = {key: value for key, value in plain.items() if not OUTSIDE.fullmatch(key)}
    if about.image and [] in below.values():
        yield about.image, []
    are_images = not about.image and _are_ids(plain)
    for key, value in below.items():
        is_class = about.image and not about.label and isinstance(value, list)
        further = {"image": key} if are_images else {"label": key} if is_class else {}
        yield from _of_images(value, about._replace(**further))


def _image(plain: Mapping[str, Any]) -> str:
    """Return the name or the number of an object's image; "" without one.

    A number `id` beside a box may be the box's.
    """
    texts = (plain[key] for key in IMAGES if isinstance(plain.get(key), str))
    keys = ("image_id", "id") if set(SINGLE).isdisjoint(plain) else ("image_id",)
    numbers = (str(plain[key]) for key in keys if type(plain.get(key)) is int)
    return next(texts, "") or next(numbers, "") or _of_task(plain)


def _order(plain: Mapping[str, Any]) -> str:
    """Return the order that an object states for its boxes and those below; "" without one."""
    known = plain.get("format") in STATED  # other formats are those of files
    stated = next(
        (plain[key] for key in ORDER_KEYS if key in plain and (key != "format" or known)), ""
    )
    if type(stated) is int and 0 <= stated < len(MODES):
        return MODES[stated]
    return re.sub(r"^boxmode\.|_(?:abs|rel)$", "", str(stated).lower())


def _of_task(plain: Mapping[str, Any]) -> str:
    """Return the name of the image of Label Studio's task; "" for others."""
    data = plain.get("data")
    name = data.get("image") if isinstance(data, dict) else None
    return name if isinstance(name, str) else ""


def _are_ids(plain: Mapping[str, Any]) -> bool:
    """Return True if the keys of an object may be names of images, not of fields."""
    known = {*LISTS, *SINGLE, *LABELS, *SCORES, "predictions", "detections", "images", "entities"}
    return known.isdisjoint(plain) and not any(key.startswith("<") for key in plain)


def _detections(plain: Mapping[str, Any], about: About) -> list[Detection]:
    """Return the boxes that an object has itself: parallel lists, one box, or its own sides."""
    image = about.image or about.file
    label = _label(plain) or about.label
    for key in LISTS:
        boxes = plain.get(key)
        if isinstance(boxes, list) and boxes and all(map(_is_box, boxes)):
            order = about.order or ORDERS.get(key, "")
            names = _beside(plain, LABELS, len(boxes)) or [label] * len(boxes)
            scores = _beside(plain, SCORES, len(boxes)) or [None] * len(boxes)
            return [
                Detection(image, box, order, str(name), _number(score), about.asked)
                for box, name, score in zip(boxes, names, scores, strict=True)
            ]
    score = next((_number(plain[key]) for key in SCORES if key in plain), None)
    if (box := _of_label_studio(plain)) is not None:
        return [Detection(image, box, "xywh", _label(plain["value"]), None, about.asked)]
    for key in SINGLE:
        order = about.order or ORDERS.get(key, "")
        if key == "bbox" and any(fields <= plain.keys() for fields in OF_COCO):
            order = about.order or "xywh"
        if (entry := _box(plain.get(key), order)) is not None:
            return [Detection(image, *entry, label, score, about.asked)]
    if (entry := _box(plain)) is not None:
        return [Detection(image, *entry, label, score, about.asked)]
    sides = _sides(plain, ("x", "y", "width", "height"))  # of Roboflow: the middle
    if {"class", "confidence"} <= plain.keys() and _is_box(sides):
        return [Detection(image, sides, about.order or "cxcywh", label, score, about.asked)]
    return []


def _of_label_studio(plain: Mapping[str, Any]) -> list[float] | None:
    """Return left, top, width and height in pixels of a rectangle in percent; else None."""
    value, size = (
        plain.get("value"),
        [plain.get(f"original_{side}") for side in ("width", "height")],
    )
    if not isinstance(value, dict) or value.get("rotation") or None in size:
        return None
    sides: list[Any] = [value.get(key) for key in ("x", "y", "width", "height")]
    if not _is_box(sides):
        return None
    return [part * side / 100 for part, side in zip(sides, [*size, *size], strict=True)]


def _entities(plain: Sequence[object], image: str) -> list[Detection]:
    """Return the boxes of Kosmos-2's entities: [text, [start, end], [box, …]] each."""
    return [
        Detection(image, box, "xyxy", str(entry[0]), None)
        for entry in plain
        if isinstance(entry, list) and len(entry) == 3 and isinstance(entry[2], list)
        for box in entry[2]
        if isinstance(entry[0], str) and _is_box(box)
    ]


def _label(plain: Mapping[str, Any]) -> str:
    value = next((plain[key] for key in LABELS if key in plain), "")
    return str(value[0] if isinstance(value, list) and value else value)


def _beside(plain: Mapping[str, Any], keys: Iterable[str], count: int) -> list[object]:
    """Return the list beside boxes with a member for each; [] without one.

    Raises:
        DataError: the lists beside them have other numbers of members.
    """
    lists = {key: plain[key] for key in keys if isinstance(plain.get(key), list)}
    fitting: list[object] = next((value for value in lists.values() if len(value) == count), [])
    if lists and not fitting:
        lengths = ", ".join(f"{len(value)} {key}" for key, value in lists.items())
        raise DataError("lists", expected=f"{count}, one for each box", found=lengths)
    return fitting


def _number(value: object) -> float | None:
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    value = float(value) if isinstance(value, str) and NUMBER.fullmatch(value) else value
    return float(value) if type(value) in (int, float) else None  # type: ignore[arg-type]


def _sides(plain: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
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


def _box(value: object, order: str = "") -> tuple[list[float], str] | None:
    """Return (numbers, their order) of a box with named sides, or of four in `order`; else None."""
    if isinstance(value, dict):
        for names, written in SIDES:
            if _is_box(sides := _sides(value, names)):
                return sides, written
        return None
    return (value, order) if isinstance(value, list) and _is_box(value) else None
