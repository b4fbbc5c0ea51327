"""COCO's results: a JSON list with an object for each box or mask that was detected.

    [{"image_id": 42, "category_id": 18, "bbox": [258.2, 41.3, 348.3, 243.8], "score": 0.236},
     {"image_id": 42, "category_id": 18, "segmentation": {"size": [480, 640], "counts": "…"},
      "score": 0.7}]

As pycocotools' `loadRes` and `COCOeval` read them: `bbox` is [left, top, width, height] in pixels,
`segmentation` a run-length, compressed or not, or polygons; where boxes are asked and a record has
none, it is the extent of its mask. Results of videos, as YouTube-VIS and MeViS's LMPM (commit
7c0620b) write them, have `video_id` and `segmentations`, one a frame or null. What has no record
was searched in vain there: COCO's form cannot tell a failure from it.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Any, TypeAlias

from pycocotools import mask as coco_masks

from harness.coordinates import in_pixels
from harness.errors import DataError, MaskError, raised_as
from harness.files import open_regular
from harness.foreign import HEAD
from harness.foreign_lines import OF_LABELME, command
from harness.formats.coco_categories import check_categories, refuse_other_order
from harness.formats.matching import Matched
from harness.formats.units import is_probability
from harness.interchange.rows import AS_DOCUMENTED, BYTE_ORDER_MARK, Row, Written
from harness.layout import JsonFile, field
from harness.masks import Rle
from harness.types import AnswerForm, Sample

IMAGES = (".jpg", ".jpeg", ".png")
LEAST_SIDE = 2**-20
"""Pixels that a box of no width or height gets: it overlaps nothing, as in COCO's evaluation."""
THRESHOLD = 0.5
NAMES = ("category_name", "category", "label", "class_name")
"""Keys under which other programs write a category's name beside its number."""
OTHER_SCORES = ("scores", "confidence", "conf", "prob", "probability", "predicted_iou")
"""Names that other files have for a score, which would not be read."""
DATA_SET = (
    "[(reduce (.images // [.image])[] as $i ({}; .[$i.id // $i.image_id | tostring] = "
    '($i | {width, height, image_id: (.file_name | split("/") | last)}))) as $images '
    "| (reduce .categories[]? as $c ({}; .[$c.id | tostring] = $c.name)) as $names "
    "| .annotations[] | .category_id = ($names[.category_id | tostring] // .category_id) "
    "| . + ($images[.image_id // ($images | keys[0]) | tostring] // {image_id: null})]"
)
"""jq's program for annotations in COCO's form or SA-1B's: each gets its image's file name and size,
and its category's name, as such files number categories in an order of their own."""
DECIMAL = re.compile(r"-?\d{1,20}(?:\.\d{1,20})?(?:[eE][-+]?\d{1,3})?")
BOXES = frozenset({AnswerForm.BOXES, AnswerForm.COUNT})
MASKS = frozenset({AnswerForm.MASK, AnswerForm.MASK_TRACK})
Record: TypeAlias = Mapping[str, Any]
Placed: TypeAlias = tuple[str, Record]
"""File and number of a record for messages, and the record."""


def coco_results(
    path: Path,
    samples: Sequence[Sample],
    requested: Collection[str] | None = None,
    *,
    threshold: float | None = None,
    written: Written = AS_DOCUMENTED,
) -> Matched:
    """Return a row for each sample, from the records of its image and category.

    A record is a sample's whose id is the `image_id` (or `video_id`), or it and the `category_id`
    with a slash between them. Where one mask is asked, records whose score is above `threshold` are
    united; where a count is asked, they are counted.

    Raises:
        DataError: the file is no such list, or a record is malformed.
    """
    notes: Counter[str] = Counter()
    limit = THRESHOLD if threshold is None else threshold
    known = {sample.id for sample in samples}
    numbers = _numbers_by_name(samples)
    records_of: dict[str, list[Placed]] = defaultdict(list)
    unmatched: list[str] = []
    unknown: list[str] = []
    categories: Counter[str] = Counter()
    """Records without a question, by their category."""
    placed: Counter[tuple[str, str]] = Counter()
    """All records, by their image and category."""
    for where, record in _records(path, notes):
        if number := numbers.get((_category(record) or "").casefold()):
            record = {**record, "category_id": number}
        _refuse_other_name(record, numbers, where)
        placed[_identity(record, where), _category(record) or ""] += 1
        name = next((name for name in _names(record, where) if name in known), None)
        if name is None or (requested is not None and name not in requested):
            category = f", category {record['category_id']}" if "category_id" in record else ""
            unmatched.append(f"{where}, {_identity(record, where)!r}{category}")
            unknown.append(_identity(record, where))
            categories[_category(record) or ""] += name is None
        else:
            records_of[name].append((where, record))
    check_categories(categories, known, path, notes)
    refuse_other_order(placed, known, path)
    rows = {}
    for sample in samples if records_of else ():
        if requested is None or sample.id in requested:
            records = records_of.get(sample.id, [])
            rows[sample.id] = _row(sample, records, limit, path, notes, written)
    counted = tuple(f"{count} {what}" for what, count in notes.items())
    return Matched(rows, tuple(unmatched), unknown=tuple(unknown), notes=counted)


def _numbers_by_name(samples: Collection[Sample]) -> dict[str, str]:
    """Return the number of each category that the questions are about, by its name."""
    return {
        sample.categories["category"].casefold(): sample.id.rpartition("/")[2]
        for sample in samples
        if "category" in sample.categories and "/" in sample.id
    }


def _refuse_other_name(record: Record, numbers: Mapping[str, str], where: str) -> None:
    """Raise DataError if a record names another category of the benchmark than it numbers."""
    for key in NAMES:
        name = record.get(key)
        number = numbers.get(name.casefold()) if isinstance(name, str) else None
        if number is not None and number != _category(record):
            by_name = f"map(if .{key} then .category_id = .{key} else . end)"
            raise DataError(
                f"{where}: 'category_id'",
                expected=f"{number}, the benchmark's {name!r}",
                found=_category(record) or "none",
                fix=f"{command(by_name, _file(where))} takes the names.",
            )


def _refuse_other_size(record: Record, sample: Sample, where: str) -> None:
    """Raise DataError if a record says that its image has another size than the sample's."""
    masks = record.get("segmentation")
    given, what = (record.get("width"), record.get("height")), where
    if isinstance(masks, dict) and _are_sides(masks.get("size")):
        given, what = (masks["size"][1], masks["size"][0]), f"{where}: 'segmentation'"
    if _are_sides([*given]) and given != sample.query.size:
        width, height = sample.query.size
        raise DataError(
            what,
            expected=f"places in an image of {width} × {height}",
            found=f"those of one of {given[0]} × {given[1]}",
            fix="Scale boxes and polygons to the original image; masks are never resized.",
        )


def _are_sides(given: object) -> bool:
    return isinstance(given, list) and len(given) == 2 and all(type(side) is int for side in given)


def _records(path: Path, notes: Counter[str]) -> Iterator[Placed]:
    seen: set[int] = set()
    _refuse_object(path)
    for entry in JsonFile(path).items():
        where = f"{path}, record {entry.key}"
        plain = entry.parse()
        if not isinstance(plain, dict):
            raise DataError(where, expected="one JSON object", found=repr(plain)[:60])
        if (content := hash(entry.text)) in seen:
            notes["records that come again, each of which counts, as in COCO's code"] += 1
        seen.add(content)
        if "iscrowd" in plain:
            notes["records with 'iscrowd', as annotations: is image_id the benchmark's?"] += 1
        yield where, plain


def _refuse_object(path: Path) -> None:
    """Raise DataError for an object in the place of the list: annotations, or one a line."""
    with suppress(OSError), open_regular(path) as file:
        if file.read(HEAD).removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"{"):
            name = quote(path.name)
            raise DataError(
                f"predictions {path}",
                expected="a list of results",
                found="an object",
                fix=f"Of JSON lines `jq -s . {name} > NEW` makes one. A data set in COCO's form, "
                "as CVAT and FiftyOne export it, numbers its images and categories itself: "
                f"`jq '{DATA_SET}' {name} > NEW` lists its annotations by the names of both. Of "
                f"labelme's files, one an image, {OF_LABELME} makes such a list.",
            )


def _file(where: str) -> str:
    return quote(Path(where.rpartition(", record")[0]).name)


def _identity(record: Record, where: str) -> str:
    if "video_id" not in record and "image_id" not in record:
        raise DataError(
            where,
            expected="'image_id', as COCO's results have it",
            found=", ".join(record)[:60] or "none",
            fix="Write a record for each box or mask: its image's id, 'category_id', 'bbox' as "
            "[left, top, width, height] in pixels or 'segmentation', and 'score'. Where all are of "
            f"one image, `jq 'map(.image_id = \"ID\")' {_file(where)} > NEW` gives them its id.",
        )
    value = field(record, "video_id" if "video_id" in record else "image_id", object, where)
    if isinstance(value, float) and value.is_integer():  # of a numpy array
        value = int(value)
    if type(value) not in (int, str):
        raise DataError(f"{where}: 'image_id'", expected="a number or text", found=repr(value)[:40])
    return str(value)


def _names(record: Record, where: str) -> Iterator[str]:
    """Yield the ids that a record may be about."""
    given = _identity(record, where)
    stem, dot, suffix = given.rpartition(".")
    names = [given, stem] if f"{dot}{suffix}".lower() in IMAGES else [given]
    for name in (*names, *(name.lstrip("0") for name in names if name.isdecimal())):
        if name:
            yield name
            if category := _category(record):
                yield f"{name}/{category}"


def _category(record: Record) -> str | None:
    """Return the category of a record; None if it has none."""
    category = record.get("category_id")
    if isinstance(category, float) and category.is_integer():  # of a numpy array
        category = int(category)
    return str(category) if type(category) in (int, str) else None


def _row(
    sample: Sample,
    records: Sequence[Placed],
    limit: float,
    path: Path,
    notes: Counter[str],
    written: Written,
) -> Row:
    """The row of a sample's records, of which there may be none."""
    where = records[0][0] if records else f"{path}, no record of {sample.id!r}"
    if not records:
        notes["samples without a record: nothing was found there, as COCO's form has it"] += 1
    for place, record in records:
        _refuse_other_size(record, sample, place)
    scores = [_score(record, where) for where, record in records]
    stated = tuple(score for score in scores if score is not None)
    if 0 < len(stated) < len(scores):
        raise DataError(where, expected="a score for each record, or for none", found="both")
    if records and not stated and (sample.query.form in BOXES or sample.query.instances):
        notes["records without a score, which count as 1"] += len(records)
    if sample.query.form is AnswerForm.BOXES:
        boxes = [_box(record, sample, place, notes, written) for place, record in records]
        return Row(sample.id, "boxes", boxes, stated or None, where)
    if sample.query.form not in MASKS | BOXES:
        raise DataError(where, expected="questions with boxes or masks", found=sample.query.form)
    if sample.query.instances:
        tracks = [_track(record, sample, place, written) for place, record in records]
        plain = [[mask and mask.to_json() for mask in track] for track in tracks]
        return Row(sample.id, "instances", plain, stated or None, where)
    if odd := [score for score in stated if not is_probability(score)]:
        raise DataError(
            f"{where}: 'score'",
            expected="from 0 to 1, to be compared with the threshold",
            found=f"{odd[0]:g}",
            fix="Divide percentages by 100; logits need a sigmoid first.",
        )
    sure = [score is None or score > limit for score in scores]
    if left := sure.count(False):
        of = "count" if sample.query.form is AnswerForm.COUNT else "mask"
        notes[f"records whose score is not above {limit:g}, left out of the {of}"] += left
    kept = [record for record, is_sure in zip(records, sure, strict=True) if is_sure]
    if sample.query.form is AnswerForm.COUNT:
        if len({str(record.get("category_id")) for _, record in kept}) > 1:
            notes["counts of records of several categories, all of which count"] += 1
        boxes = [_box(record, sample, place, notes, written) for place, record in kept]
        return Row(sample.id, "boxes", boxes, None, where)
    tracks = [_track(record, sample, place, written) for place, record in kept]
    frames = [[mask for mask in masks if mask] for masks in zip(*tracks, strict=True)]
    empty: list[list[Rle]] = [[] for _ in range(len(sample.query.media[0]))]
    union = [Rle.union(*masks).to_json() if masks else None for masks in frames or empty]
    return Row(sample.id, "masks", union, None, where)


def _score(record: Record, where: str) -> float | None:
    score = record.get("score")
    if score is None:
        if other_name := next((name for name in OTHER_SCORES if name in record), None):
            raise DataError(
                where, expected="'score', as COCO's results call it", found=repr(other_name)
            )
        return None
    score = _number(score)
    if isinstance(score, bool) or not isinstance(score, (int, float)) or not math.isfinite(score):
        fix = ""
        if isinstance(score, list) and len(score) == 1:
            unboxed = 'map(if .score | type == "array" then .score |= .[0] else . end)'
            file = where.rpartition(", record ")[0].rpartition("/")[2]
            fix = f"{command(unboxed, file)} makes numbers of lists."
        shown = repr(score)[:40]
        raise DataError(f"{where}: 'score'", expected="a finite number", found=shown, fix=fix)
    return float(score)


def _number(value: object) -> object:
    """Return the number of a text that is one, as programs write it that write texts alone."""
    return float(value) if isinstance(value, str) and DECIMAL.fullmatch(value) else value


def _box(
    record: Record, sample: Sample, where: str, notes: Counter[str], written: Written
) -> list[float]:
    """[left, top, right, bottom] of a record."""
    given = record.get("bbox")
    if not given and record.get("segmentation"):
        (mask,) = _track(record, sample, where, written)
        given = coco_masks.toBbox(mask.to_json()).tolist() if mask else [0.0] * 4
        written = AS_DOCUMENTED  # it is the mask's
    what = f"{where}: 'bbox'"
    if isinstance(given, list):
        given = list(map(_number, given))
    if (
        not isinstance(given, list)
        or len(given) != 4
        or any(isinstance(side, bool) or not isinstance(side, (int, float)) for side in given)
        or not all(map(math.isfinite, given))
        or min(given[2:]) < 0
    ):
        expected = "[left, top, width, height] in pixels"
        raise DataError(what, expected=expected, found=repr(given)[:60])
    left, top, width, height = in_pixels(given, written.coordinates, sample.query.size)
    if not (width and height):
        notes["boxes without a width or a height, which overlap nothing"] += 1
    return [left, top, left + (width or LEAST_SIDE), top + (height or LEAST_SIDE)]


def _track(record: Record, sample: Sample, where: str, written: Written) -> list[Rle | None]:
    """The masks of a record: that of an image, or one a frame or None."""
    key = "segmentations" if sample.query.form is AnswerForm.MASK_TRACK else "segmentation"
    given = record.get(key)
    if given is None:
        raise DataError(where, expected=f'"{key}"', found=", ".join(record)[:60])
    masks = given if key == "segmentations" else [given]
    if not isinstance(masks, list) or len(masks) != len(sample.query.media[0]):
        count = len(sample.query.media[0])
        given_masks = f"{len(masks)}" if isinstance(masks, list) else repr(masks)[:40]
        raise DataError(
            f"{where}: {key!r}", expected=f"{count} masks, one a frame", found=given_masks
        )
    size, by_rows = sample.query.size, written.by_rows
    return [None if mask is None else _mask(mask, size, where, by_rows=by_rows) for mask in masks]


def _mask(plain: object, size: tuple[int, int], where: str, *, by_rows: bool) -> Rle:
    """The mask of a run-length or of polygons, of an image of (width, height)."""
    width, height = size
    what = f"{where}: 'segmentation'"
    if not isinstance(plain, list):
        with raised_as(DataError, what, "a run-length or polygons", MaskError):
            mask = Rle.from_json(plain, by_rows=by_rows)
        if mask.size != size:
            expected, given_size = (
                f"[{height}, {width}] as its size",
                f"[{mask.height}, {mask.width}]",
            )
            raise DataError(
                what, expected=expected, found=given_size, fix="Masks are never resized."
            )
        return mask
    for polygon in plain:
        if (
            not isinstance(polygon, list)
            or len(polygon) < 6
            or len(polygon) % 2
            or not all(_is_near(value, max(size)) for value in polygon)
        ):
            expected = "[x, y, …] of at least three corners within reach of the image"
            raise DataError(what, expected=expected, found=repr(polygon)[:60])
    if plain and all(0 <= value <= 1 for polygon in plain for value in polygon):
        raise DataError(
            what,
            expected="corners in pixels",
            found=f"{repr(plain[0])[:60]}, as fractions of the image",
            fix="Multiply them by the image's width and height.",
        )
    if not plain:
        return Rle.empty(height, width)
    encoded = coco_masks.merge(coco_masks.frPyObjects(plain, height, width))
    return Rle(height, width, encoded["counts"].decode("ascii"))


def _is_near(value: object, side: int) -> bool:
    """Return True for a coordinate that COCO's code can walk to."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return -side <= value <= 2 * side
