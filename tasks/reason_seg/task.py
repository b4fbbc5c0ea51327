"""ReasonSeg (Lai et al., 2024): one mask for the object that a phrase or a question implies.

A sample has two files, `x.jpg` and `x.json` (points are (x, y) in pixels):

    {"text": ["the item used to keep rain off the person"], "is_sentence": true,
     "shapes": [{"label": "target", "points": [[102.4, 55.0], [180.2, 54.1], [176.0, 140.9]]},
                {"label": "ignore", "points": [[10, 10], [30, 10], [30, 40], [10, 40]]}]}

VisionReasoner's copies on the hub, in which regions to ignore became foreground, are read as well.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from harness.errors import DataError
from harness.foreign import absence
from harness.image_file import header_size
from harness.layout import Files, field, folder, read_json
from harness.layout.places import refuse_outside
from harness.masks import MAX_SIDE, Rle
from harness.media import Media, image_or_placeholder
from harness.metrics.polygons import FillVersion, rasterise
from harness.task import Problem, Task, choose, lost_media
from harness.tasks.reason_seg.hub import copied_task
from harness.tasks.segmentation.protocols import PROTOCOLS
from harness.types import Answer, AnswerForm, Query, Sample, Target, query_id

FIX = "`harness list tasks reason_seg` prints the source of the data."
VERSION = 2
OPENCV_VERSIONS: dict[str, FillVersion] = {"seg/lisa@cv4.11": "4.11"}
"""Version of OpenCV whose polygon filling a protocol uses, if it is not LISA's, 4.8."""
IGNORED_IS_FOREGROUND = ("seg/visionreasoner", "seg/segzero")
"""Protocols of evaluations on the hub's copies, where regions to ignore became foreground."""
ENCODINGS = ("utf-8", "cp1252")  # tried in this order, as LISA does


def reason_seg(
    data: Path,
    *,
    split: Literal["train", "val", "test"] = "val",
    protocol: str = "seg/lisa",
    layout: Literal["auto", "lisa", "hub"] = "auto",
) -> Task:
    """One sample for each image, with the first of its texts.

    Args:
        protocol: `seg/lisa`, `seg/lisa@cv4.11`, `seg/visionreasoner` or `seg/segzero`; see the
            card.
        layout: LISA's files, or VisionReasoner's copy on the hub; `auto` takes the copy only where
            LISA's are not there.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    root = data / "reason_seg"
    split_folder, copy = root / "ReasonSeg" / split, root / f"ReasonSeg_{split}"
    if layout == "hub" or (layout == "auto" and not split_folder.is_dir() and copy.is_dir()):
        return copied_task(copy, split, scoring, fix=FIX)
    folder(split_folder, fix=FIX)
    # Sorted by file name with suffix, as the hub's copies are: `a-1.jpg` comes before `a.jpg`.
    # An annotation without its image is a sample, too: leaving it out would change the score.
    # Hidden files, which macOS adds to archives, are skipped, as by LISA's glob.
    annotated: dict[str, bool] = {}  # by the image's name: True if there is an annotation
    with os.scandir(split_folder) as entries:
        for entry in entries:
            stem, _, suffix = entry.name.rpartition(".")
            if stem and suffix.lower() in ("jpg", "json") and not stem.startswith("."):
                image = f"{stem}.jpg"
                annotated[image] = annotated.get(image, False) or suffix.lower() == "json"
    stems = tuple(name.removesuffix(".jpg") for name in sorted(annotated))
    with_annotation = stems
    if not all(annotated.values()):
        with_annotation = tuple(stem for stem in stems if annotated[f"{stem}.jpg"])
    return Task(
        name="reason_seg",
        version=VERSION,
        split=split,
        forms=(AnswerForm.MASK,),
        protocol=scoring,
        samples=partial(_samples, split_folder, stems, protocol),
        annotations=Files(split_folder, with_annotation, ".json"),
        check=partial(_check, split_folder, stems),
        check_samples=lost_media,
        arguments={"split": split, "protocol": protocol},
    )


def _samples(split_folder: Path, stems: Sequence[str], protocol: str) -> Iterator[Sample]:
    """Yield the sample of each pair of files, with the first of its texts."""
    for stem in stems:
        text, is_sentence, shapes = read_annotation(split_folder / f"{stem}.json")
        media = image_or_placeholder(split_folder / f"{stem}.jpg", size=_extent(shapes))
        yield Sample(
            id=stem,
            query=Query(
                id=query_id(stem), text=text[0].strip(), media=(media,), forms=(AnswerForm.MASK,)
            ),
            target=_target(shapes, media, protocol, str(split_folder / f"{stem}.json")),
            group=media.id,  # two files may hold the same image, with two questions
            categories={"length": "long" if is_sentence else "short"},
        )


def _extent(shapes: Sequence[object]) -> tuple[int, int]:
    """Return (width, height) of the smallest image that holds all polygons.

    It is the size of the placeholder for an image that cannot be read.
    """
    sides = [1.0, 1.0]
    for shape in shapes:
        points = shape.get("points") if isinstance(shape, dict) else None
        for point in points if isinstance(points, list) else ():
            if isinstance(point, list) and len(point) == 2:
                for axis, coordinate in enumerate(point):
                    if type(coordinate) in (int, float):
                        sides[axis] = max(sides[axis], coordinate + 1)
    width, height = (int(min(side, MAX_SIDE)) for side in sides)
    return width, height


def read_annotation(path: Path) -> tuple[list[str], bool, list[dict[str, object]]]:
    """Return (texts, is_sentence, shapes) of one JSON file.

    Raises:
        DataError: a field is missing or of another type.
    """
    plain = read_json(path, encodings=ENCODINGS)
    texts = field(plain, "text", list, str(path))
    if not texts or not all(isinstance(text, str) for text in texts) or not texts[0].strip():
        raise DataError(
            f"{path}: 'text'",
            expected="at least one text, the first not blank",
            found=repr(texts)[:60],
        )
    shapes = field(plain, "shapes", list, str(path))
    return texts, field(plain, "is_sentence", bool, str(path)), shapes


def _target(shapes: list[dict[str, object]], media: Media, protocol: str, where: str) -> Target:
    """Return the ground truth for a protocol; see IGNORED_IS_FOREGROUND."""
    width, height = media.size
    try:  # 0: background, 1: target, 255: ignored
        painted = rasterise(shapes, height, width, opencv=OPENCV_VERSIONS.get(protocol, "4.8"))
    except DataError as error:
        raise DataError(f"{where}: {error}") from error
    if media.fault is None:
        _refuse_outside(shapes, media.size, where)
    if protocol in IGNORED_IS_FOREGROUND:
        return Target(answer=Answer(masks=(Rle.from_array(painted > 0),)))
    ignored = painted == 255
    return Target(
        answer=Answer(masks=(Rle.from_array(painted == 1),)),
        ignore=(Rle.from_array(ignored),) if ignored.any() else None,
    )


def _refuse_outside(
    shapes: Sequence[Mapping[str, object]], size: tuple[int, int], where: str
) -> None:
    """Raise DataError if corners lie outside an image of `size`: they belong to another image."""
    coordinates: list[Any] = []
    for shape in shapes:
        points = shape.get("points") if isinstance(shape, dict) else None
        for point in points if isinstance(points, list) else ():
            coordinates += point if isinstance(point, list) else []
    # `rasterise` reports coordinates that are not numbers.
    if all(type(coordinate) in (int, float) for coordinate in coordinates):
        refuse_outside([coordinates], size, f"{where}: 'shapes'")


def _check(split_folder: Path, stems: Sequence[str]) -> Iterator[Problem]:
    """Yield the faults of each pair of files."""
    if not stems:
        yield Problem(str(split_folder), "holds no images and annotations, x.jpg and x.json")
    for stem in stems:
        image, annotation = split_folder / f"{stem}.jpg", split_folder / f"{stem}.json"
        if not annotation.is_file():
            yield Problem(str(annotation), absence(annotation, "the image is there"))
        if not image.exists():
            yield Problem(str(image), absence(image, "its annotation is there"))
            continue
        try:
            width, height = header_size(image)
            if annotation.is_file():
                _, _, shapes = read_annotation(annotation)
                rasterise(shapes, height, width)
                _refuse_outside(shapes, (width, height), str(annotation))
                yield from _other_shapes(annotation, shapes)
        except DataError as error:
            yield Problem(str(split_folder / stem), str(error))


def _other_shapes(path: Path, shapes: Sequence[dict[str, object]]) -> Iterator[Problem]:
    """Yield a problem for each rectangle or circle of labelme, which has only two points.

    LISA's `get_mask_from_json` ignores `shape_type`, and draws the two points as a line.
    """
    for number, shape in enumerate(shapes):
        shape_type, points = shape.get("shape_type"), shape.get("points")
        if shape_type in ("rectangle", "circle") and isinstance(points, list) and len(points) < 3:
            yield Problem(
                str(path),
                f"shape {number} is a {shape_type} of {len(points)} points, which is drawn as a "
                "line, as LISA does: give the corners of a polygon",
            )
