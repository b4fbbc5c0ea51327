"""Records of what was drawn in annotation tools: Supervisely, CVAT, Label Studio and VIA.

The commands that refusals print call these functions with the paths of files. They yield records of
boxes (left, top, right, bottom) or masks in pixels, or of moments in seconds.
"""

import base64
import csv
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
from PIL import Image, ImageDraw

from harness.errors import DataError
from harness.masks import BoolArray, Rle
from harness.metrics.polygons import fill_poly
from harness.tasks.table.cells import plain_value
from harness.tasks.table.regions import (
    UNCOUNTED,
    Polygon,
    Record,
    Region,
    image_of,
    of_files,
    records_of,
    refuse_shape,
)
from harness.tasks.table.unread_fields import is_uncounted
from harness.types import Box

FILES = re.compile(r".*\.(?:jpe?g|png|bmp|webp|tiff?|gif)", re.IGNORECASE)
"""Name of an image."""
MAX_PNG = 2**26
"""Bytes to which a bitmap of Supervisely may unpack."""
SIDES = ("Width", "Height")
OF_CITYSCAPES = "_gtFine_polygons"
VIA3 = re.compile(r'^# CSV_HEADER|"fid_list"', re.MULTILINE)
"""Text that a file of VIA 3 has, and none of VIA 2."""
RECTANGLE, POLYGON = 2, 7
"""Numbers of VIA 3's shapes."""
ONE = "Export one annotation a task: the one that is right."
FREE_TEXT = 1
"""Number of VIA 3's attributes without options."""


def supervisely(paths: Iterable[str]) -> Iterator[Record]:
    """Yield the records of Supervisely's annotations, `ann/<image>.json`, one an image.

    Corners are whole pixels that belong to the shape, so that a polygon is filled with its outline,
    holes are cut with theirs, and a rectangle ends behind its last pixel.
    """
    return records_of(of_files(paths, _of_supervisely, image_of))


def _of_supervisely(path: Path) -> Iterator[Region]:
    """Yield the shapes of one of Supervisely's files."""
    plain = json.loads(path.read_text(encoding="utf-8"))
    width, height = plain["size"]["width"], plain["size"]["height"]
    for entry in plain["objects"]:
        kind, name = entry["geometryType"], entry["classTitle"]
        tags = {tag["name"]: tag.get("value") or "yes" for tag in entry.get("tags", ())}
        name = UNCOUNTED if is_uncounted(tags) else name
        shape: Box | Rle
        if kind == "rectangle":
            xs, ys = map(sorted, zip(*entry["points"]["exterior"], strict=True))
            shape = Box(xs[0], ys[0], xs[1] + 1, ys[1] + 1)
        elif kind == "polygon":
            outer, holes = entry["points"]["exterior"], entry["points"]["interior"]
            mask = _filled(outer, height, width)
            for hole in holes:
                mask &= ~_filled(hole, height, width)
            shape = Rle.from_array(mask)
        elif kind == "bitmap":
            mask = np.zeros((height, width), bool)
            part, (left, top) = _bitmap(entry["bitmap"]["data"]), entry["bitmap"]["origin"]
            mask[top : top + part.shape[0], left : left + part.shape[1]] = part
            shape = Rle.from_array(mask)
        else:
            raise refuse_shape(f"{path}, {name!r}", kind)
        yield Region(path.name.removesuffix(".json"), name, shape, (width, height))


def _filled(corners: Sequence[Sequence[float]], height: int, width: int) -> BoolArray:
    return fill_poly(np.array(corners).round().astype(int), height, width, version="4.11")


def _bitmap(data: str) -> BoolArray:
    """Return the mask of a PNG that is packed by zlib and in base64: its opacity, or its grey."""
    unpacked = zlib.decompressobj().decompress(base64.b64decode(data), MAX_PNG)
    image = Image.open(BytesIO(unpacked), formats=("PNG",))
    is_opacity = "A" in image.getbands() or "transparency" in image.info
    grey = image.convert("RGBA").getchannel("A") if is_opacity else image.convert("L")
    return np.asarray(grey) > 0


def cvat(paths: Iterable[str]) -> Iterator[Record]:
    """Yield the records of CVAT's XML for images."""
    return records_of(of_files(paths, _of_cvat, image_of))


def _of_cvat(path: Path) -> Iterator[Region]:
    """Yield the shapes of one of CVAT's files."""
    images = list(ElementTree.parse(path).getroot().iter("image"))
    _refuse_one_name([image.attrib["name"] for image in images], path)
    for image in images:
        size = int(image.attrib["width"]), int(image.attrib["height"])
        for entry in image:
            given, where = entry.attrib, f"{path}, image {image.attrib['name']!r}"
            shape: Box | Polygon | Rle
            if entry.tag == "tag":
                continue
            if entry.tag == "box" and float(given.get("rotation", 0)) == 0:
                shape = Box(*(float(given[side]) for side in ("xtl", "ytl", "xbr", "ybr")))
            elif entry.tag == "polygon":
                shape = [float(number) for number in re.split("[,;]", given["points"])]
            elif entry.tag == "mask":
                shape = Rle.from_array(_of_rows(given, size))
            else:
                raise refuse_shape(where, f"a {entry.tag}" + " with rotation" * ("xtl" in given))
            about = {part.attrib["name"]: part.text for part in entry.iter("attribute")}
            name = UNCOUNTED if is_uncounted(about) else given["label"]
            yield Region(image.attrib["name"], name, shape, size)


def _of_rows(given: Mapping[str, str], size: tuple[int, int]) -> BoolArray:
    """Return a mask of runs along the rows of its rectangle, the first of which is background."""
    left, top, width, height = (int(given[key]) for key in ("left", "top", "width", "height"))
    runs = [int(run) for run in given["rle"].split(",")]
    mask = np.zeros(size[::-1], bool)
    part = np.repeat(np.arange(len(runs)) % 2 == 1, runs).reshape(height, width)
    mask[top : top + height, left : left + width] = part
    return mask


OF_VIDEOS = ("timelinelabels", "videorectangle")
"""Types of Label Studio's results that name frames of a video by their numbers."""


def label_studio(path: str) -> Iterator[Record]:
    """Yield the records of Label Studio's JSON, JSON-MIN or CSV, whose shapes are in percent.

    Raises:
        DataError: an image has several annotations, or a shape is rotated or of another kind.
    """
    return records_of(_of_label_studio(Path(path)))


def _of_label_studio(path: Path) -> Iterator[Region]:
    """Yield the shapes of one export of Label Studio."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file)) if path.suffix.lower() == ".csv" else json.load(file)
    places: dict[str, str] = {}
    annotated: set[str] = set()
    for number, row in enumerate(rows):
        where = f"{path}, record {number}"
        fields, shapes = _shapes(row, where)
        files = list(filter(None, map(_file_of, fields)))
        if shapes and len(files) != 1:
            found = ", ".join(files)[:80] or "none"
            raise DataError(where, expected="one field with an image's file", found=found)
        image = unquote(re.split("[/=]", files[0])[-1]) if files else ""
        if shapes and places.setdefault(image, files[0]) != files[0]:
            raise DataError(
                where,
                expected=f"one image called {image!r}",
                found=f"{places[image]} and {files[0]}"[:120],
                fix="Give the images unique names, in the export too.",
            )
        if shapes and image in annotated:  # JSON-MIN has a record for each annotation of a task
            raise DataError(where, expected=f"one annotation of {image!r}", found="two", fix=ONE)
        annotated |= {image} if shapes else set()
        for shape in shapes:
            key = next((key for key in shape if key.endswith("labels")), "")
            if shape.get("rotation") or shape.get("image_rotation"):
                raise refuse_shape(where, f"rotated {key}")
            size = shape["original_width"], shape["original_height"]
            region = _of_percent(key, shape, size)
            if region is None:
                raise refuse_shape(where, key or ", ".join(shape))
            for name in shape[key]:
                yield Region(image, name, region, size)


def _file_of(text: str) -> str:
    """Return a text that names an image's file, without what signs a URL; "" for another text."""
    return next((part for part in (text, text.partition("?")[0]) if FILES.fullmatch(part)), "")


def _shapes(row: Mapping[str, Any], where: str) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the texts of a task's fields, and its shapes with the size of their image."""
    fields = row.get("data", row)
    texts = [text for text in fields.values() if isinstance(text, str)]
    if "annotations" in row:
        kept = [entry for entry in row["annotations"] if not entry.get("was_cancelled")]
        if len(kept) > 1:
            raise DataError(where, expected="one annotation", found=f"{len(kept)}", fix=ONE)
        results = [result for entry in kept for result in entry["result"]]
        for kind in (str(result.get("type")) for result in results):
            if kind in OF_VIDEOS:
                raise DataError(
                    where,
                    expected="shapes on an image",
                    found=f"{kind}: numbers of frames of a video",
                    fix="Write a record for each: the video, the question, and the moment, its "
                    "frames divided by the frames per second of the video.",
                )
        regions = [result for result in results if {"value", "original_width"} <= result.keys()]
        return texts, [{**result, **result["value"]} for result in regions]
    cells = [cell for cell in map(plain_value, fields.values()) if isinstance(cell, list)]
    return texts, [shape for cell in cells for shape in cell if "original_width" in shape]


def _of_percent(
    key: str, shape: Mapping[str, Any], size: tuple[int, int]
) -> Box | Polygon | Rle | None:
    """Return a shape in pixels; None of another kind."""
    width, height = size
    match key:
        case "rectanglelabels":
            left, top = shape["x"] * width / 100, shape["y"] * height / 100
            across, down = shape["width"] * width / 100, shape["height"] * height / 100
            return Box(left, top, left + across, top + down)
        case "polygonlabels":
            return [
                v * side / 100 for p in shape["points"] for v, side in zip(p, size, strict=True)
            ]
        case "brushlabels" if shape.get("format") == "rle":
            opacity = brush_bytes(shape["rle"], width * height * 4).reshape(height, width, 4)[
                ..., 3
            ]
            return Rle.from_array(opacity > 0)
    return None


def brush_bytes(packed: Sequence[int], count: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the bytes of a brush's image, four a pixel, that Label Studio packs as runs of bits.

    32 bits are the number of bytes, 5 the bits of one less 1, and four times 4 the bits of a run's
    length less 1. A run has a bit that says if one byte is repeated, two that choose the bits of
    its length, the length less 1, and its byte or bytes.

    Raises:
        DataError: the number of bytes is not `count`.
    """
    bits = "".join(f"{byte:08b}" for byte in packed)
    place = 0

    def read(width: int) -> int:
        nonlocal place
        place += width
        return int(bits[place - width : place], 2)

    total, word = read(32), read(5) + 1
    lengths = [read(4) + 1 for _ in range(4)]
    if total != count:
        raise DataError("brush", expected=f"{count} bytes, four a pixel", found=str(total))
    values = bytearray()
    while len(values) < count:
        repeated, length = read(1), read(lengths[read(2)]) + 1
        values += bytes([read(word)] * length if repeated else (read(word) for _ in range(length)))
    return np.frombuffer(bytes(values[:count]), np.uint8)


def layers(paths: Iterable[str]) -> Iterator[Record]:
    """Yield the masks of each label in Cityscapes' files; later objects cover earlier ones."""
    return records_of(of_files(paths, _of_layers, image_of))


def _of_layers(path: Path) -> Iterator[Region]:
    """Yield the visible pixels of each label of a file."""
    plain = json.loads(path.read_text(encoding="utf-8"))
    width, height = (plain.get(f"img{side}", plain.get(side.lower())) for side in SIDES)
    if type(width) is not int or type(height) is not int:
        sides = f"{width!r} and {height!r}"
        raise DataError(f"file {path}", expected="numbers in imgWidth and imgHeight", found=sides)
    size = width, height
    image = f"{path.stem}.jpg"
    if path.stem.endswith(OF_CITYSCAPES):
        image = f"{path.stem.removesuffix(OF_CITYSCAPES)}_leftImg8bit.png"
    for number, entry in enumerate(plain["objects"]):
        corners = entry.get("polygon")
        if "label" not in entry or not isinstance(corners, list) or len(corners) < 3:
            raise DataError(
                f"{path}, object {number}",
                expected="a label, and a polygon of at least 3 corners",
                found=str(entry)[:80],
            )
    labels = list(dict.fromkeys(entry["label"] for entry in plain["objects"]))
    canvas = Image.new("I", size)
    for entry in plain["objects"]:
        if not entry.get("deleted"):
            corners = [tuple(corner) for corner in entry["polygon"]]
            ImageDraw.Draw(canvas).polygon(corners, fill=labels.index(entry["label"]) + 1)
    for number, label in enumerate(labels, start=1):
        if (pixels := np.asarray(canvas) == number).any():
            yield Region(image, label, Rle.from_array(pixels), size)


def via2(path: str, name: str) -> Iterator[Record]:
    """Yield the records of VIA 2's regions, in CSV or JSON; `name` is the attribute that names."""
    return records_of(_of_via2(Path(path), name))


def _of_via2(path: Path, name: str) -> Iterator[Region]:
    """Yield the shapes of one of VIA 2's files; the attribute `name` is the object's name."""
    for image, given, attributes in _via2_entries(path):
        where = f"{path}, image {image!r}"
        shape: Box | Polygon
        if given["name"] == "rect":
            left, top = given["x"], given["y"]
            shape = Box(left, top, left + given["width"], top + given["height"])
        elif given["name"] == "polygon":
            corners = zip(given["all_points_x"], given["all_points_y"], strict=True)
            shape = [number for corner in corners for number in corner]
        else:
            raise refuse_shape(where, f"a {given['name']}")
        yield Region(image, _named(attributes, name, where), shape)


def _via2_entries(path: Path) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield the image, the shape and the attributes of each region."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        if path.suffix.lower() == ".csv":
            rows = [(row.get("filename") or row["#filename"], row) for row in csv.DictReader(file)]
            files = {(image, str(row.get("file_size"))) for image, row in rows}
            _refuse_one_name([image for image, _ in sorted(files)], path)
            for image, row in rows:
                if shape := json.loads(row["region_shape_attributes"]):
                    yield image, shape, json.loads(row["region_attributes"])
            return
        plain = json.load(file)
    entries = list(plain.get("_via_img_metadata", plain).values())
    _refuse_one_name([entry["filename"] for entry in entries], path)
    for entry in entries:
        regions = entry["regions"]
        for region in regions.values() if isinstance(regions, dict) else regions:
            yield entry["filename"], region["shape_attributes"], region["region_attributes"]


def _refuse_one_name(names: Sequence[str], path: Path) -> None:
    """Raise DataError if two images of a project have one name, as in several tasks or folders."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DataError(
            f"file {path}",
            expected=f"one image called {repeated[0]!r}",
            found=str(names.count(repeated[0])),
            fix="Give the images unique names in the tool too, or export each task by itself.",
        )


def _named(attributes: Mapping[str, Any], name: str, where: str) -> str:
    """Return the text of an attribute; of checkboxes the only one that is set."""
    value = attributes.get(name)
    if is_uncounted({key: given for key, given in attributes.items() if key != name}):
        return UNCOUNTED
    if isinstance(value, Mapping):
        chosen = [key for key, is_set in value.items() if is_set]
        value = chosen[0] if len(chosen) == 1 else None
    if not isinstance(value, str) or not value:
        texts = ", ".join(f"{key} = {text!r}" for key, text in attributes.items()) or "none"
        raise DataError(where, expected=f"a text of the attribute {name!r}", found=texts[:80])
    return value


def via3(path: str, name: str) -> Iterator[Record]:
    """Yield the records of a VIA 3 project, or of its CSV; `name` is the attribute that names.

    A segment of a video is a record of a moment, a region of an image one of boxes or of a mask.

    Raises:
        DataError: a region is of a frame of a video, or of several files.
    """
    regions: list[Region] = []
    moments: list[Record] = []
    for files, times, drawn, attributes in _of_via3(Path(path)):
        where = f"{path}, {', '.join(files)}"
        text = _named(attributes, name, where)
        if len(files) != 1 or (times and drawn):
            kind = "a region of a frame" if times else "several files in one view"
            fix = "Save such frames as images, and draw the regions there."
            raise DataError(where, expected="an image or a video", found=kind, fix=fix)
        if times:
            moments.append({"video": files[0], "question": text, "answer": times})
        elif drawn[0] == RECTANGLE:
            left, top, width, height = drawn[1:]
            regions.append(Region(files[0], text, Box(left, top, left + width, top + height)))
        elif drawn[0] == POLYGON:
            regions.append(Region(files[0], text, drawn[1:]))
        else:
            raise refuse_shape(where, f"shape {drawn[0]}")
    yield from moments
    yield from records_of(regions)


def _of_via3(
    path: Path,
) -> Iterator[tuple[list[str], list[float], list[float], dict[str, object]]]:
    """Yield files, seconds, shape and attributes of each entry with seconds or a shape."""
    text = path.read_text(encoding="utf-8-sig")
    if path.suffix.lower() == ".csv":
        heads = re.search(r"^# ATTRIBUTES? = (.*)$", text, re.MULTILINE)
        attributes = json.loads(heads[1]) if heads else {}
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        cells = [[json.loads(cell) for cell in row[1:]] for row in csv.reader(lines)]
        entries = [(files, times, drawn, given) for files, _, times, drawn, given in cells]
    else:
        plain = json.loads(text)
        attributes = plain["attribute"]
        entries = [
            (
                [
                    plain["file"][str(file)]["fname"]
                    for file in plain["view"][entry["vid"]]["fid_list"]
                ],
                entry["z"],
                entry["xy"],
                entry["av"],
            )
            for entry in plain["metadata"].values()
        ]
    for files, times, drawn, given in entries:
        if times or drawn:
            yield files, times, drawn, dict(_texts(attributes, given))


def first_attribute(path: Path) -> str:
    """Return the first attribute that has a text in a file of VIA 2 or 3; "" if none has."""
    is_via3 = VIA3.search(path.read_text(encoding="utf-8-sig"))
    entries = _of_via3(path) if is_via3 else _via2_entries(path)
    filled = (key for *_, given in entries for key, value in given.items() if value)
    return next((key for key in filled), "")


def _texts(attributes: Mapping[str, Any], given: Mapping[str, str]) -> Iterator[tuple[str, object]]:
    """Yield the name and the text of each attribute; an option's number is that of its text.

    Several options at once have no text.
    """
    for number, value in given.items():
        attribute = attributes.get(number, number)
        if isinstance(attribute, str):  # older files have names alone
            yield attribute, value
        elif attribute["type"] == FREE_TEXT:
            yield attribute["aname"], value
        else:
            yield attribute["aname"], attribute["options"].get(value)
