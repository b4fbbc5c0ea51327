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

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote

from harness.errors import DataError
from harness.files import open_regular
from harness.foreign import HEAD, new_name
from harness.foreign_lines import DATUMARO, OF_LABELME, command
from harness.formats.coco_categories import check_categories, refuse_other_order
from harness.formats.coco_images import numbers_by_stem, refuse_other_image
from harness.formats.coco_records import (
    Placed,
    Record,
    box_of,
    category_of,
    file_of,
    masks_of,
    score_of,
)
from harness.formats.matching import Matched
from harness.formats.polygons import check_polygons
from harness.formats.units import is_probability
from harness.interchange.rows import AS_DOCUMENTED, BYTE_ORDER_MARK, Row, Written
from harness.layout import JsonFile, field
from harness.masks import Rle
from harness.types import AnswerForm, Sample

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png")
THRESHOLD = 0.5
"""Score above which a record counts, if no threshold is given."""
CATEGORY_NAME_KEYS = ("category_name", "category", "label", "class_name")
"""Keys under which other programs write a category's name beside its number."""
JQ_GROUNDED_SAM = (
    '[(.image_path | split("/") | last) as $image | .box_format as $form | .annotations[] | '
    "{image_id: $image, category_id: .class_name, segmentation, "
    'score: (.score | if type == "array" then max else . end), '
    'bbox: (.bbox | if $form == "xywh" then . '
    'elif $form == "xyxy" then [.[0], .[1], .[2] - .[0], .[3] - .[1]] '
    'else error("box_format \\($form)") end)}]'
)
"""jq program for a result of Grounded SAM 2, which is of one image."""
JQ_DATA_SET = (
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
JQ_ONE_IMAGE = (
    'map(if has("image_id") or has("video_id") then error("a record with an image") '
    'else .image_id = "ID" end)'
)
"""jq program that gives all records the id of one image."""
BOXES = frozenset({AnswerForm.BOXES, AnswerForm.COUNT})
MASKS = frozenset({AnswerForm.MASK, AnswerForm.MASK_TRACK})


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
    numbers_by_any_name = _numbers_by_name(samples, asked=True)
    numbers_by_stated_name = _numbers_by_name(samples, asked=False)
    records_of: dict[str, list[Placed]] = defaultdict(list)
    unmatched: list[str] = []
    unmatched_ids: list[str] = []
    unmatched_of: Counter[str] = Counter()  # records without a question, by category
    n_placed: Counter[tuple[str, str]] = Counter()  # all records, by image and category
    for where, record in _records(path, notes):
        if number := numbers_by_any_name.get((category_of(record) or "").casefold()):
            record = {**record, "category_id": number}
        _refuse_other_name(record, numbers_by_stated_name, where)
        n_placed[_identity(record, where), category_of(record) or ""] += 1
        name = next((name for name in _names(record, where, by_stem) if name in by_id), None)
        if name is None or (requested is not None and name not in requested):
            category = f", category {record['category_id']}" if "category_id" in record else ""
            unmatched.append(f"{where}, {_identity(record, where)!r}{category}")
            unmatched_ids.append(_identity(record, where))
            if name is None:
                unmatched_of[category_of(record) or ""] += 1
        else:
            refuse_other_image(record, by_id[name], by_stem, where)
            records_of[name].append((where, record))
    check_categories(unmatched_of, by_id.keys(), path, notes)
    refuse_other_order(n_placed, by_id.keys(), path)
    rows = {}
    # A file of which no record fits a sample is refused as another benchmark's, without rows.
    for sample in samples if records_of else ():
        if requested is None or sample.id in requested:
            records = records_of.get(sample.id, [])
            rows[sample.id] = _row(sample, records, limit, path, notes, written)
    records_with_sizes = [
        (record, sample.query.size)
        for sample in samples
        if sample.query.media and sample.query.media[0].fault is None
        for _, record in records_of.get(sample.id, ())
    ]
    counted = (f"{count} {what}" for what, count in notes.items())
    coco_notes = (*counted, *check_polygons(records_with_sizes, path))
    return Matched(rows, tuple(unmatched), unknown=tuple(unmatched_ids), notes=coco_notes)


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
    for key in CATEGORY_NAME_KEYS:
        name = record.get(key)
        number = numbers.get(name.casefold()) if isinstance(name, str) else None
        if number is not None and number != category_of(record):
            by_name = f"map(if .{key} then .category_id = .{key} else . end)"
            raise DataError(
                f"{where}: 'category_id'",
                expected=f"{number}, the benchmark's {name!r}",
                found=category_of(record) or "none",
                fix=f"{command(by_name, file_of(where))} takes the names.",
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
                fix=f"`jq {quote(JQ_GROUNDED_SAM)} {name} {to} makes one of Grounded SAM 2's."
                if {"image_path", "annotations"} <= keys
                else f"`jq {quote(DATUMARO)} {name} {to} makes one of Datumaro's annotations."
                if {"categories", "items"} <= keys
                else f"Of JSON lines `jq -s . {name} {to} makes one. A data set in COCO's form, "
                "as CVAT and FiftyOne export it, numbers its images and categories itself: "
                f"`jq '{JQ_DATA_SET}' {name} {to} lists its annotations by the names of both. Of "
                f"labelme's files, one an image, {OF_LABELME} makes such a list.",
            )


def _identity(record: Record, where: str) -> str:
    if "video_id" not in record and "image_id" not in record:
        raise DataError(
            where,
            expected="'image_id', as COCO's results have it",
            found=", ".join(record)[:60] or "none",
            fix="Write a record for each box or mask: its image's id, 'category_id', 'bbox' as "
            "[left, top, width, height] in pixels or 'segmentation', and 'score'. Where all are of "
            f"one image, {command(JQ_ONE_IMAGE, file_of(where))} gives them its id.",
        )
    value = field(record, "video_id" if "video_id" in record else "image_id", object, where)
    if isinstance(value, float) and value.is_integer():  # of a numpy array
        value = int(value)
    if type(value) not in (int, str):
        raise DataError(f"{where}: 'image_id'", expected="a number or text", found=repr(value)[:40])
    return str(value)


def _names(record: Record, where: str, by_stem: Mapping[str, str]) -> Iterator[str]:
    """Yield the sample ids that a record may belong to.

    A name with an image suffix is a file's name first, then an id; any other is an id first.
    """
    identity = _identity(record, where)
    stem, dot, suffix = identity.rpartition(".")
    is_file = f"{dot}{suffix}".lower() in IMAGE_SUFFIXES
    names = [identity, stem] if is_file else [identity]
    numbers = [name.lstrip("0") for name in names if name.isdecimal()]
    of_files = [by_stem[name] for name in names if name in by_stem]
    for name in (*of_files, *names, *numbers) if is_file else (*names, *numbers, *of_files):
        if name:
            yield name
            if category := category_of(record):
                yield f"{name}/{category}"


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
    scores = [score_of(record, origin) for origin, record in records]
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
        for _, record in records:
            name = category_of(record) or ""
            if not name.isdecimal() and name.casefold() not in sample.query.text.casefold():
                notes[f"records of category {name!r}, which their question does not name"] += 1
        boxes = [box_of(record, sample, origin, notes, written) for origin, record in records]
        return Row(sample.id, "boxes", boxes, stated or None, where)
    if sample.query.form not in MASKS | BOXES:
        raise DataError(where, expected="questions with boxes or masks", found=sample.query.form)
    if sample.query.instances:
        tracks = [masks_of(record, sample, origin, written) for origin, record in records]
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
        boxes = [box_of(record, sample, origin, notes, written) for origin, record in kept]
        return Row(sample.id, "boxes", boxes, None, where)
    tracks = [masks_of(record, sample, origin, written) for origin, record in kept]
    frames = [[mask for mask in masks if mask] for masks in zip(*tracks, strict=True)]
    empty: list[list[Rle]] = [[] for _ in range(len(sample.query.media[0]))]
    union = [Rle.union(*masks).to_json() if masks else None for masks in frames or empty]
    return Row(sample.id, "masks", union, None, where)
