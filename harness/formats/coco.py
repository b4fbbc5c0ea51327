"""Read COCO's results: a JSON list with an object for each detected box or mask.

    [{"image_id": 42, "category_id": 18, "bbox": [258.2, 41.3, 348.3, 243.8], "score": 0.236},
     {"image_id": 42, "category_id": 18, "segmentation": {"size": [480, 640], "counts": "…"},
      "score": 0.7}]

As pycocotools' `loadRes` and `COCOeval` read them: `bbox` is [left, top, width, height] in pixels,
`segmentation` a run-length, compressed or not, or polygons; if a question asks for boxes and a
record has none, the box is its mask's extent. Results of videos, as YouTube-VIS and MeViS's LMPM
(commit 7c0620b) write them, have `video_id` and `segmentations`, one per frame or null. A sample
without a record has an empty answer: COCO's form cannot distinguish it from a failure.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import sub
from pathlib import Path
from shlex import quote
from typing import Any, TypeAlias

from pycocotools import mask as coco_masks

from harness.coordinates import in_pixels
from harness.errors import DataError, MaskError, raised_as
from harness.files import open_regular
from harness.foreign import HEAD, new_name
from harness.foreign_lines import DATUMARO, OF_LABELME, command
from harness.formats.coco_categories import check_categories, refuse_other_order
from harness.formats.coco_images import numbers_by_stem, refuse_other_image
from harness.formats.matching import Matched
from harness.formats.polygons import check_polygons, mask_of_polygons
from harness.formats.rotated import refuse_rotated
from harness.formats.units import is_probability
from harness.interchange.rows import AS_DOCUMENTED, BYTE_ORDER_MARK, Row, Written
from harness.layout import JsonFile, field
from harness.masks import Rle
from harness.types import AnswerForm, Sample

IMAGES = (".jpg", ".jpeg", ".png")
LEAST_SIDE = 2**-20
"""Pixels to which a box's zero width or height is set: it overlaps nothing, as in COCO's code."""
THRESHOLD = 0.5
NAMES = ("category_name", "category", "label", "class_name")
"""Keys under which other programs write a category's name beside its number."""
OTHER_SCORES = ("scores", "confidence", "conf", "prob", "probability", "predicted_iou")
"""Keys under which other files write a score: such a record is refused, as `score` is missing."""
OF_GROUNDED_SAM = (
    '[(.image_path | split("/") | last) as $image | .box_format as $form | .annotations[] | '
    "{image_id: $image, category_id: .class_name, segmentation, "
    'score: (.score | if type == "array" then max else . end), '
    'bbox: (.bbox | if $form == "xywh" then . '
    'elif $form == "xyxy" then [.[0], .[1], .[2] - .[0], .[3] - .[1]] '
    'else error("box_format \\($form)") end)}]'
)
"""Program of jq for a result of Grounded SAM 2, which is of one image."""
DATA_SET = (
    "[(reduce (.images // [.image])[] as $i ({}; .[$i.id // $i.image_id | tostring] = "
    '($i | {width, height, image_id: (.file_name | split("/") | last)})) '
    "| if (map(.image_id) | unique | length) < length then "
    'error("two images of one name, in several folders") else . end) as $images '
    "| (reduce .categories[]? as $c ({}; .[$c.id | tostring] = $c.name)) as $names "
    "| .annotations[] | .category_id = ($names[.category_id | tostring] // "
    'if $names == {} then .category_id else error("a category that is not listed") end) '
    "| . + ($images[.image_id // ($images | keys[0]) | tostring] // {image_id: null})]"
)
"""jq program for annotations in COCO's or SA-1B's form: each gets its image's file name and size,
and its category's name, since such files number categories in their own order."""
ONE_IMAGE = (
    'map(if has("image_id") or has("video_id") then error("a record with an image") '
    'else .image_id = "ID" end)'
)
DECIMAL = re.compile(r"-?\d{1,20}(?:\.\d{1,20})?(?:[eE][-+]?\d{1,3})?")
BOXES = frozenset({AnswerForm.BOXES, AnswerForm.COUNT})
MASKS = frozenset({AnswerForm.MASK, AnswerForm.MASK_TRACK})
ROUNDED = 1.5
"""Pixels by which a box may differ from that of its record's mask."""
SMALL = 8
"""Pixels of a mask's side below which its box is not compared with it."""
FROM_CORNERS = (
    'map(if .bbox then .bbox |= (if .[2] < .[0] or .[3] < .[1] then error("a box that is not two '
    'corners") else [.[0], .[1], .[2] - .[0], .[3] - .[1]] end) else . end)'
)
Record: TypeAlias = Mapping[str, Any]
Placed: TypeAlias = tuple[str, Record]
"""A record's file and number, for messages, and the record."""


def coco_results(
    path: Path,
    samples: Sequence[Sample],
    requested: Collection[str] | None = None,
    *,
    threshold: float | None = None,
    written: Written = AS_DOCUMENTED,
) -> Matched:
    """Return a row for each sample, from the records of its image and category.

    A record belongs to the sample with id `image_id` (or `video_id`), or `image_id/category_id`.
    Other values of `image_id` may be names of images' files, also without their suffix. If the
    sample's question asks for one mask, records with a score above `threshold` are united; if it
    asks for a count, they are counted.

    Raises:
        DataError: the file is not such a list, or a record is malformed.
    """
    notes: Counter[str] = Counter()
    limit = THRESHOLD if threshold is None else threshold
    by_id = {sample.id: sample for sample in samples}
    by_stem = numbers_by_stem(samples)
    numbers = _numbers_by_name(samples, asked=True)
    stated = _numbers_by_name(samples, asked=False)
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
        _refuse_other_name(record, stated, where)
        placed[_identity(record, where), _category(record) or ""] += 1
        name = next((name for name in _names(record, where, by_stem) if name in by_id), None)
        if name is None or (requested is not None and name not in requested):
            category = f", category {record['category_id']}" if "category_id" in record else ""
            unmatched.append(f"{where}, {_identity(record, where)!r}{category}")
            unknown.append(_identity(record, where))
            if name is None:
                categories[_category(record) or ""] += 1
        else:
            refuse_other_image(record, by_id[name], by_stem, where)
            records_of[name].append((where, record))
    check_categories(categories, by_id.keys(), path, notes)
    refuse_other_order(placed, by_id.keys(), path)
    rows = {}
    for sample in samples if records_of else ():
        if requested is None or sample.id in requested:
            records = records_of.get(sample.id, [])
            rows[sample.id] = _row(sample, records, limit, path, notes, written)
    placed_records = [
        (record, sample.query.size)
        for sample in samples
        if sample.query.media and sample.query.media[0].fault is None
        for _, record in records_of.get(sample.id, ())
    ]
    counted = (f"{count} {what}" for what, count in notes.items())
    coco_notes = (*counted, *check_polygons(placed_records, path))
    return Matched(rows, tuple(unmatched), unknown=tuple(unknown), notes=coco_notes)


def _numbers_by_name(samples: Collection[Sample], *, asked: bool) -> dict[str, str]:
    """Return the numbers of the categories that the samples ask about, by category name.

    A category's name is stated by the sample, or, if `asked`, it may be the whole question.
    """
    numbers: dict[str, set[str]] = defaultdict(set)
    for sample in samples:
        name = sample.categories.get("category") or (sample.query.text if asked else "")
        if name and "/" in sample.id:
            numbers[name.casefold()].add(sample.id.rpartition("/")[2])
    return {name: single for name, (single, *others) in numbers.items() if not others}


def _refuse_other_name(record: Record, numbers: Mapping[str, str], where: str) -> None:
    """Raise DataError if a record's category name and number are of two categories of samples."""
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
    """Raise DataError if a record states another image size than the sample has."""
    masks = record.get("segmentation")
    stated_size, what = (record.get("width"), record.get("height")), where
    if isinstance(masks, dict) and _are_sides(masks.get("size")):
        stated_size, what = (masks["size"][1], masks["size"][0]), f"{where}: 'segmentation'"
    is_of_box = {"x", "y"} <= record.keys()  # beside them, width and height are a box's sides
    if _are_sides([*stated_size]) and not is_of_box and stated_size != sample.query.size:
        width, height = sample.query.size
        raise DataError(
            what,
            expected=f"places in an image of {width} × {height}",
            found=f"those of one of {stated_size[0]} × {stated_size[1]}",
            fix="Scale boxes and polygons to the original image; masks are never resized.",
        )


def _are_sides(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(type(side) is int for side in value)


def _records(path: Path, notes: Counter[str]) -> Iterator[Placed]:
    seen: set[int] = set()
    _refuse_object(path)
    for entry in JsonFile(path).items():
        where = f"{path}, record {entry.key}"
        plain = entry.parse()
        if not isinstance(plain, dict):
            raise DataError(where, expected="one JSON object", found=repr(plain)[:60])
        if (content := hash(entry.text)) in seen:
            notes["records that appear twice, each of which counts, as in COCO's code"] += 1
        seen.add(content)
        if "iscrowd" in plain:
            notes["records with 'iscrowd', as annotations: is image_id the benchmark's?"] += 1
        yield where, plain


def _refuse_object(path: Path) -> None:
    """Raise DataError if the file is an object, as annotations or JSON lines are, not a list."""
    with suppress(OSError), open_regular(path) as file:
        if file.read(HEAD).removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"{"):
            name, to = quote(path.name), f"> {new_name(path.name)}`"
            keys: set[str] = set()
            with suppress(DataError):
                keys = {key for key, _ in JsonFile(path).members()}
            raise DataError(
                f"predictions {path}",
                expected="a list of results",
                found="an object",
                fix=f"`jq {quote(OF_GROUNDED_SAM)} {name} {to} makes one of Grounded SAM 2's."
                if {"image_path", "annotations"} <= keys
                else f"`jq {quote(DATUMARO)} {name} {to} makes one of Datumaro's annotations."
                if {"categories", "items"} <= keys
                else f"Of JSON lines `jq -s . {name} {to} makes one. A data set in COCO's form, "
                "as CVAT and FiftyOne export it, numbers its images and categories itself: "
                f"`jq '{DATA_SET}' {name} {to} lists its annotations by the names of both. Of "
                f"labelme's files, one an image, {OF_LABELME} makes such a list.",
            )


def _file(where: str) -> str:
    return Path(where.rpartition(", record")[0]).name


def _identity(record: Record, where: str) -> str:
    if "video_id" not in record and "image_id" not in record:
        raise DataError(
            where,
            expected="'image_id', as COCO's results have it",
            found=", ".join(record)[:60] or "none",
            fix="Write a record for each box or mask: its image's id, 'category_id', 'bbox' as "
            "[left, top, width, height] in pixels or 'segmentation', and 'score'. Where all are of "
            f"one image, {command(ONE_IMAGE, _file(where))} gives them its id.",
        )
    value = field(record, "video_id" if "video_id" in record else "image_id", object, where)
    if isinstance(value, float) and value.is_integer():  # of a numpy array
        value = int(value)
    if type(value) not in (int, str):
        raise DataError(f"{where}: 'image_id'", expected="a number or text", found=repr(value)[:40])
    return str(value)


def _names(record: Record, where: str, by_stem: Mapping[str, str]) -> Iterator[str]:
    """Yield the sample ids that a record may belong to.

    A number comes before a file of that name, a name with a suffix is first that of a file.
    """
    identity = _identity(record, where)
    stem, dot, suffix = identity.rpartition(".")
    is_file = f"{dot}{suffix}".lower() in IMAGES
    names = [identity, stem] if is_file else [identity]
    numbers = [name.lstrip("0") for name in names if name.isdecimal()]
    of_files = [by_stem[name] for name in names if name in by_stem]
    for name in (*of_files, *names, *numbers) if is_file else (*names, *numbers, *of_files):
        if name:
            yield name
            if category := _category(record):
                yield f"{name}/{category}"


def _category(record: Record) -> str | None:
    """Return the `category_id` of a record as text; None if it has none."""
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
    """Return the row of a sample's records, of which there may be none."""
    where = records[0][0] if records else f"{path}, no record of {sample.id!r}"
    if not records:
        notes["samples without a record: nothing was found there, as COCO's form has it"] += 1
    for origin, record in records:
        _refuse_other_size(record, sample, origin)
    scores = [_score(record, where) for where, record in records]
    stated = tuple(score for score in scores if score is not None)
    if 0 < len(stated) < len(scores):
        raise DataError(where, expected="a score for each record, or for none", found="both")
    if records and not stated and (sample.query.form in BOXES or sample.query.instances):
        notes["records without a score, which count as 1"] += len(records)
    if limit != THRESHOLD and (sample.query.form is AnswerForm.BOXES or sample.query.instances):
        notes["records of boxes or instances, whose scores --threshold does not compare"] += len(
            records
        )
    if sample.query.form is AnswerForm.BOXES:
        boxes = [_box(record, sample, origin, notes, written) for origin, record in records]
        return Row(sample.id, "boxes", boxes, stated or None, where)
    if sample.query.form not in MASKS | BOXES:
        raise DataError(where, expected="questions with boxes or masks", found=sample.query.form)
    if sample.query.instances:
        tracks = [_track(record, sample, origin, written) for origin, record in records]
        plain = [[mask and mask.to_json() for mask in track] for track in tracks]
        return Row(sample.id, "instances", plain, stated or None, where)
    if outside_range := [score for score in stated if not is_probability(score)]:
        raise DataError(
            f"{where}: 'score'",
            expected="from 0 to 1, to be compared with the threshold",
            found=f"{outside_range[0]:g}",
            fix="Divide percentages by 100; logits need a sigmoid first.",
        )
    sure = [score is None or score > limit for score in scores]
    if n_unsure := sure.count(False):
        answer_form = "count" if sample.query.form is AnswerForm.COUNT else "mask"
        notes[f"records whose score is not above {limit:g}, left out of the {answer_form}"] += (
            n_unsure
        )
    kept = [record for record, is_sure in zip(records, sure, strict=True) if is_sure]
    if sample.query.form is AnswerForm.COUNT:
        if len({str(record.get("category_id")) for _, record in kept}) > 1:
            notes["counts of records of several categories, all of which count"] += 1
        boxes = [_box(record, sample, origin, notes, written) for origin, record in kept]
        return Row(sample.id, "boxes", boxes, None, where)
    tracks = [_track(record, sample, origin, written) for origin, record in kept]
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
            unboxed = (
                'map(if .score | type == "array" and length == 1 then .score |= .[0] else . end)'
            )
            file = where.rpartition(", record ")[0].rpartition("/")[2]
            fix = f"{command(unboxed, file)} makes numbers of lists."
        shortened = repr(score)[:40]
        raise DataError(f"{where}: 'score'", expected="a finite number", found=shortened, fix=fix)
    return float(score)


def _number(value: object) -> object:
    """Return a number that is written as a text, "0.7", as a number; other values unchanged."""
    return float(value) if isinstance(value, str) and DECIMAL.fullmatch(value) else value


def _box(
    record: Record, sample: Sample, where: str, notes: Counter[str], written: Written
) -> list[float]:
    """Return [left, top, right, bottom] of a record, in pixels of the sample's image."""
    box = record.get("bbox")
    if not box and record.get("segmentation"):
        (mask,) = _track(record, sample, where, written)
        box = coco_masks.toBbox(mask.to_json()).tolist() if mask else [0.0] * 4
        written = AS_DOCUMENTED  # it is the mask's
    refuse_rotated(record, where, _file(where), "")
    what = f"{where}: 'bbox'"
    if isinstance(box, list):
        box = list(map(_number, box))
    if (
        not isinstance(box, list)
        or len(box) != 4
        or any(isinstance(side, bool) or not isinstance(side, (int, float)) for side in box)
        or not all(map(math.isfinite, box))
        or min(box[2:]) < 0
    ):
        expected = "[left, top, width, height] in pixels"
        raise DataError(what, expected=expected, found=repr(box)[:60], fix=_of_sides(record, where))
    _refuse_corners(box, record, sample, where, written)
    left, top, width, height = in_pixels(box, written.coordinates, sample.query.size)
    if not (width and height):
        notes["boxes without a width or a height, which overlap nothing"] += 1
    return [left, top, left + (width or LEAST_SIDE), top + (height or LEAST_SIDE)]


def _of_sides(record: Record, where: str) -> str:
    """Return the commands for a record with the four sides of its box; "" for others."""
    if "bbox" in record or not {"x", "y", "width", "height"} <= record.keys():
        return ""
    corner, centre = (
        command(f"map(.bbox = [{x}, {y}, .width, .height])", _file(where))
        for x, y in ((".x", ".y"), (".x - .width / 2", ".y - .height / 2"))
    )
    return (
        f"If x and y are the left top corner, {corner} makes one. If they are the centre, as "
        f"Roboflow writes them, {centre}."
    )


def _refuse_corners(
    box: Sequence[float], record: Record, sample: Sample, where: str, written: Written
) -> None:
    """Raise DataError if a box is the two corners of the mask in its own record."""
    mask = None
    with suppress(DataError):  # a mask that cannot be read is not needed for boxes
        masks = _track(record, sample, where, written) if record.get("segmentation") else []
        mask = next(filter(None, masks), None)
    if mask is None:
        return
    left, top, width, height = coco_masks.toBbox(mask.to_json()).tolist()
    corners = (left, top, left + width, top + height)
    difference = max(abs(box[2] - width), abs(box[3] - height))
    from_corners = max(map(abs, map(sub, box, corners)))
    is_small = min(width, height) < SMALL  # where a loose box may be the corners by chance
    if from_corners <= ROUNDED and difference > max(ROUNDED, 4 * from_corners) and not is_small:
        raise DataError(
            f"{where}: 'bbox'",
            expected="[left, top, width, height] in pixels",
            found=f"{box}, the corners of the record's own mask",
            fix=f"If all are corners, {command(FROM_CORNERS, _file(where))} writes their sides.",
        )


def _track(record: Record, sample: Sample, where: str, written: Written) -> list[Rle | None]:
    """Return a record's masks: one for an image; for a video one per frame, None if absent."""
    key = "segmentations" if sample.query.form is AnswerForm.MASK_TRACK else "segmentation"
    segmentation = record.get(key)
    if segmentation is None:
        raise DataError(where, expected=f'"{key}"', found=", ".join(record)[:60])
    masks = segmentation if key == "segmentations" else [segmentation]
    if not isinstance(masks, list) or len(masks) != len(sample.query.media[0]):
        count = len(sample.query.media[0])
        given_masks = f"{len(masks)}" if isinstance(masks, list) else repr(masks)[:40]
        raise DataError(
            f"{where}: {key!r}", expected=f"{count} masks, one a frame", found=given_masks
        )
    size, by_rows = sample.query.size, written.by_rows
    return [None if mask is None else _mask(mask, size, where, by_rows=by_rows) for mask in masks]


def _mask(plain: object, size: tuple[int, int], where: str, *, by_rows: bool) -> Rle:
    """Return the mask of a run-length or of polygons, for an image of (width, height)."""
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
    return mask_of_polygons(plain, size, what)
