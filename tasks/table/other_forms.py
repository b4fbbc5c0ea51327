"""Refuse JSON in the forms of other programs, and name the command that makes records of it."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote

from harness.errors import DataError
from harness.files import open_regular
from harness.foreign import new_name
from harness.foreign_lines import NAMED, OWN_NAMES
from harness.layout import JsonFile
from harness.tasks.table.cells import plain_value
from harness.tasks.table.tool_files import LABEL_STUDIO, LAYERS, refuse_tool_object, refuse_via2
from harness.tasks.table.unread_fields import NO_OBJECT

VQA = (
    ".[0] as $about | INDEX(.[].annotations // [] | .[]; .question_id) as $annotations "
    "| [.[].questions // [] | .[] | . + ($annotations[.question_id | tostring] // "
    'error("a question without its annotation")) | .answers |= map(.answer) '
    '| if $about.data_type == "mscoco" then .image = "COCO_" + $about.data_subtype + "_" + '
    '("000000000000" + (.image_id | tostring))[-12:] + ".jpg" else . end]'
)
"""Program of jq for VQA's two files, of questions and of annotations, read with `-s`."""
ROWS_OF_COLUMNS = ". as $t | [.[]][0] | keys_unsorted | map(. as $row | $t | map_values(.[$row]))"
"""Program of jq for an object of columns, each an object by the number of the row."""
IN_ORDER = "to_entries | group_by(.value%s) | sort_by(.[0].key)[] | map(.value)"
"""Program of jq that groups a list by a field, each group where its first member is."""
LABELME = (
    f"{OWN_NAMES}"
    'map(.image = (.imagePath | split("/") | last | split("\\\\") | last)) | own_names(.image) '
    "| [.[] | {image, width: .imageWidth, height: .imageHeight} as $about | .shapes "
    f'| map((.label | tostring | test("^(?:{NO_OBJECT.pattern})$"; "i")) as $is_region '
    "| . + {uncounted: ($is_region or ([.difficult, .flags.difficult?, .flags.ignore?] | any))}) "
    "| (map(select(.uncounted)) | length) as $ignored | map(select(.uncounted | not)) "
    f"| {IN_ORDER % '.label'} "
    "| $about + {ignored: $ignored, question: .[0].label, mask: map((.points "
    '| map(.[0])) as $x | (.points | map(.[1])) as $y | if .shape_type == "polygon" then (.points '
    '| flatten) elif .shape_type == "rectangle" then [($x | min), ($y | min), ($x | max), '
    '($y | min), ($x | max), ($y | max), ($x | min), ($y | max)] else error("a shape that is not '
    'a polygon") end)}]'
)
"""Program of jq for labelme's annotations, one file per image, read with `-s`.

A record is all shapes of one label in an image. `ignored` is the number of shapes that are left out
because nothing counts in them.
"""

DATUMARO = (
    f"{OWN_NAMES}{NAMED}[.categories.label.labels as $names "
    '| .items | own_names((.image // .media).path | split("/") | last)[] '
    '| ((.image // .media) | {image: (.path | split("/") | last), width: (.size[1]? // null), '
    "height: (.size[0]? // null)}) as $about | .annotations "
    "| map(if [.attributes | objects | .is_crowd, .ignore, .difficult] | any(. == true) then "
    'error("a crowd, or an object that does not count") elif .type == "bbox" and '
    '(.attributes.rotation // 0) != 0 then error("a box as it is before its rotation") else . end) '
    f"| {IN_ORDER % '.label_id'} "
    "| $about + {question: (.[0] | named($names)), mask: ("
    'if length == 1 and .[0].type == "mask" then .[0].rle else map('
    'if .type == "polygon" then .points elif .type == "bbox" then '
    "(.bbox | [.[0], .[1], .[0] + .[2], .[1], .[0] + .[2], .[1] + .[3], .[0], .[1] + .[3]]) "
    'else error("not a box, a polygon, or the only mask of its label") end) end)}]'
)
"""Program of jq for Datumaro's annotations, which CVAT exports too; a record as for labelme."""
SEGMENT_ANYTHING = (
    '[.[] | .image.file_name as $image | .annotations[] | {image: $image, question: ("the object '
    'at (" + (.point_coords[0] | map(tostring) | join(", ")) + ")"), mask: .segmentation}]'
)
"""Program of jq for SA-1B's files, one per image, read with `-s`."""
ACTIVITYNET = (
    "[to_entries[] | .key as $video | [.value.timestamps, .value.sentences] | transpose "
    '| to_entries[] | {id: ($video + "/" + (.key | tostring)), video: $video, '
    'question: (.value[1] | sub("^ +"; "")), answer: .value[0]}]'
)
"""Program of jq for ActivityNet Captions: an object of moments and sentences by video.

The id is `video/number`, as VTimeLLM's log has it; numbers count from 0 in each video.
"""
TACOS = (
    "if [.[] | select(.num_frames) | (.num_frames / .fps) as $length | .timestamps[][] "
    '| . <= $length] | . != [] and all then error("timestamps that may be seconds") else . end '
    "| [to_entries[] | .key as $video | .value.fps as $fps | [.value.timestamps, .value.sentences] "
    '| transpose | to_entries[] | {id: ($video + "/" + (.key | tostring)), video: $video, '
    "question: .value[1], answer: (.value[0] | map(. / $fps))}]"
)
"""Program of jq for TACoS, the same with moments in numbers of frames.

It ends with an error if all would lie in their videos as seconds too.
"""


SLURP = "-s "
"""Beginning of a program of jq that is given several files, one an image."""
OF_IMAGES = f"{SLURP}."
"""Program of jq that makes a list of the objects in these files."""
IMAGE_NAME = re.compile(r'"[^"\n]+\.(?:jpe?g|png|bmp|tiff?|webp)"', re.IGNORECASE)
"""The name of an image's file in JSON."""
SHAPE = re.compile(r"(?:bnd|bounding_?|b)?box(?:2d)?|points|polygon|segmentation", re.IGNORECASE)
"""Names of the box or the outline of an object."""
OF_MEDIA = re.compile("image|img|file|video|frame", re.IGNORECASE)
"""Parts of the names of fields of an image or a video."""
ASKED = ("questions", "qa", "qas")
"""Keys of an object whose own keys may be the texts of questions."""
OF_TEXTS = (
    f"{SLURP}[.[] as $record | $record.KEY | to_entries[] | ($record | del(.KEY)) "
    "+ {question: .key} + .value]"
)
"""Program of jq for objects of questions by their texts, as AI2D has them."""
WHOLE = "[.]"
"""jq program for an object that is one record."""
RECORDS_BY_KEY = (
    '(map(has("id")) | unique) as $has_id | [to_entries[] | if $has_id == [false] then {id: .key} '
    '+ .value elif $has_id != [true] then error("records with and without an id") elif .value '
    '| has("key") then error("a record with a key of its own") else .value + {key: .key} end]'
)
"""Program of jq for an object of records; a record with an id has its key as `key`."""
LISTS_BY_KEY = (
    '[to_entries[] | select((.value | type == "array") and (.value[0] | type == "object")) '
    '| .key as $key | .value[] | if has("key") then error("a record with a key of its own") else '
    "{key: $key} + . end]"
)
"""Program of jq for an object with several lists of records, each of which gets its list's key."""
OF_ROWS = ". as $t | [range([.[] | length] | max)] | map(. as $row | $t | map_values(.[$row]))"
"""Program of jq for an object of lists of the same length, each of which is a column."""
DATABASE = (
    "[.database | to_entries[] | .key as $video | .value as $of | ($of.annotations // "
    "$of.annotation // []) | "
    f"{IN_ORDER % ' | .label // .sentence'} | "
    "{video: $video, subset: "
    "$of.subset, question: (.[0].label // .[0].sentence), relevant_windows: map(.segment)}]"
)
"""Program of jq for COIN and ActivityNet 1.3: the moments of each label in each video."""
EGO4D = (
    "[.videos[].clips[] | .clip_uid as $clip | .annotations[] | .annotation_uid as $set "
    '| .language_queries | to_entries[] | select((.value.query // "") != "") '
    '| {id: ($set + "/" + (.key | tostring)), '
    "video: $clip, question: .value.query, answer: (if .value.clip_end_sec then "
    "[.value.clip_start_sec, .value.clip_end_sec] else null end)}]"
)
"""Program of jq for Ego4D NLQ: questions by clip, in seconds of the clip; empty ones are left out,
as in its own code."""
LOCATIONS = (
    "[to_entries[] | .key as $video | .value.location | to_entries[] | {video: $video, "
    'id: ($video + "/" + .key), qid: .key, question: "CHECK", relevant_windows: .value}]'
)
"""Program of jq for NExT-GQA: moments by the number of the question, by video."""
V_STAR = (
    '[inputs | if has("target_object") and (has("answer") or has("label") | not) then '
    '{image: (input_filename | sub("[.]json$"; ".jpg"))} + '
    '. + {answer: .options[0]} else error("not of V*Bench") end]'
)
"""Program of jq for V*Bench's files, one an image, whose first option is right."""
CAPTIONS = (
    f"[(.images | INDEX(.id)) as $images | .annotations | {IN_ORDER % '.image_id'} | {{id: "
    ".[0].image_id, image: ($images[.[0].image_id | tostring] | .file_name "
    '// error("a caption without its image")), answers: map(.caption)}]'
)
"""Program of jq for COCO's captions: all of an image are right texts."""
VOTT = (
    "[.assets[] | {image: .asset.name, width: .asset.size.width, height: .asset.size.height, "
    "regions}]"
)
"""Program of jq for VoTT's export."""
FIFTYONE = (
    "[.classes as $classes | .labels | to_entries[] | .key as $image | .value // [] "
    '| map(.label |= if type == "number" then $classes[.] else . end) | group_by(.label)[] '
    '| {image: $image, question: .[0].label, boxes: map(.bounding_box), bbox_mode: "XYWH_REL"}]'
)
"""Program of jq for FiftyOne's labels.json, whose images are files of these names."""
OMNILABEL = (
    "[(.images | INDEX(.id)) as $images | (.annotations | map(. as $of | .description_ids[] "
    '| {key: "\\($of.image_id)/\\(.)", box: $of.bbox}) | group_by(.key) | map({key: .[0].key, '
    "value: map(.box)}) | from_entries) as $boxes | .descriptions[] | . as $of | .image_ids[] | "
    '{image: $images[tostring].file_name, question: $of.text, bbox_mode: "XYWH_ABS", boxes: '
    '($boxes["\\(.)/\\($of.id)"] // [])}]'
)
"""Program of jq for OmniLabel: the boxes of each description in each of its images."""
MEGADETECTOR = (
    "[.detection_categories as $names | .images[] | select(.detections) | .file as $image "
    f"| .detections | {IN_ORDER % '.category'} | {{image: $image, question: "
    '$names[.[0].category], boxes: map(.bbox), bbox_mode: "XYWH_REL"}]'
)
"""Program of jq for MegaDetector's results, whose boxes are in fractions."""
WORDS = (
    '[.imgs as $images | .anns | map(select((.legibility // "legible") == "legible" and '
    '(.utf8_string // ".") != "." and .utf8_string != "")) | group_by([.image_id, .utf8_string])[] '
    "| {image: $images[.[0].image_id | tostring].file_name, question: .[0].utf8_string, "
    'boxes: map(.bbox), bbox_mode: "XYWH_ABS"}]'
)
"""Program of jq for TextOCR and COCO-Text: the boxes of each text in an image."""
FEATURES = (
    "[.features | map(.properties | select(.bounds_imcoords)) | group_by([.image_id, .type_id])[] "
    "| {image: .[0].image_id, question: (.[0].type_id | tostring), boxes: map(.bounds_imcoords "
    '| split(",") | map(tonumber)), bbox_mode: "XYXY_ABS"}]'
)
"""Program of jq for xView's features, with boxes in pixels as texts."""
VIDEO_OBJECTS = (
    "{categories, images: [.videos[] | . as $of | .file_names | to_entries[] | {id: ($of.id "
    "* 100000 + .key), file_name: .value, width: $of.width, height: $of.height}], annotations: "
    "[.annotations[] | . as $of | range(.segmentations // .bboxes | length) "
    "| select(($of.segmentations // $of.bboxes)[.]) | {id: ($of.id * 100000 + .), image_id: "
    "($of.video_id * 100000 + .), category_id: $of.category_id, iscrowd: ($of.iscrowd // 0), "
    "bbox: ($of.bboxes[.]? // null), segmentation: ($of.segmentations[.]? // null)} "
    "| with_entries(select(.value != null))]}"
)
"""Program of jq for YouTube-VIS: COCO's annotations of the frames."""
NOT_EMPTY = 'if . == [] then error("no record") else . end'
OF_SHAPES = "groups, attributes and texts of shapes, and images without a shape"
FORMS: Sequence[tuple[set[str], str, str, str]] = (
    ({"imagePath", "shapes"}, LABELME, "-s *.json", OF_SHAPES),
    ({"categories", "items"}, DATUMARO, "", OF_SHAPES),
    ({"assets", "tags"}, VOTT, "", "its settings"),
    ({"classes", "labels"}, FIFTYONE, "", "the confidence and the attributes of objects"),
    ({"images", "descriptions", "annotations"}, OMNILABEL, "", ""),
    ({"images", "detection_categories"}, MEGADETECTOR, "", "confidences and classifications"),
    ({"imgs", "anns"}, WORDS, "", "illegible texts"),
    ({"type", "features"}, FEATURES, "", "names of types, which are numbers, and coordinates"),
    ({"videos", "categories", "annotations"}, VIDEO_OBJECTS, "", "tracks: each frame is an image"),
    ({"image", "annotations"}, SEGMENT_ANYTHING, "-s *.json", ""),
    (
        {"target_object", "bbox", "question", "options"},
        V_STAR,
        "-n *.json",
        "a check: images are NAME.jpg of NAME.json, and the first option is right, as in V*Bench",
    ),
)
"""Keys of an object, the program that makes records of it, its files, and what the records lack.

The files are "" if it is one, else an option of jq and a pattern.
"""


def refuse_captions(path: Path) -> None:
    """Raise DataError if a file has COCO's captions, and name the command that makes a table."""
    first = next(JsonFile(path, ("annotations",)).items(), None)
    entry = None if first is None else first.parse()
    if isinstance(entry, dict) and {"image_id", "caption"} <= entry.keys():
        raise DataError(
            f"file {path}",
            expected="a list of records",
            found="COCO's captions, several an image",
            fix=f"`jq {quote(f'{CAPTIONS} | {NOT_EMPTY}')} {quote(path.name)} > "
            f"{new_name(path.name, '.json')}` makes one. In its description, `constant` in "
            '[question] is what all ask, and protocol = "text/caption" scores captions.',
        )


def refuse_label_studio(path: Path, records: Sequence[Mapping[str, object]]) -> None:
    """Raise DataError if a column has Label Studio's shapes, as its CSV and JSON-MIN have them."""
    for cell in (plain_value(cell) for record in records for cell in record.values()):
        shape = cell[0] if isinstance(cell, list) and cell else None
        if isinstance(shape, dict) and "original_width" in shape:
            raise LABEL_STUDIO.error(path)


class UnknownObject(DataError):
    """A JSON object of no known form where a list of records is read."""


def refuse_object(path: Path) -> None:
    """Raise DataError if a JSON file is an object, and name the command that makes a list of it.

    It is an `UnknownObject` if the object is of no known form.
    """
    with open_regular(path) as file:
        if not file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
            return
    table = JsonFile(path)
    keys = [key for key, _ in table.members()]
    name, to = quote(path.name), new_name(path.name, ".json")
    refuse_tool_object(path, keys)
    if "objects" in keys and _first_has(table, "objects", "polygon"):
        raise LAYERS.error(path)
    program, left_out = _program(table, keys)
    command = f"jq {quote(f'{program} | {NOT_EMPTY}')} {name} > {to}"
    if program.startswith(SLURP):
        command = f"jq -s {quote(program.removeprefix(SLURP))} *.json > {to}"
    general = command if program in (WHOLE, RECORDS_BY_KEY) else ""
    part = next((part for part in ("questions", "annotations") if part in keys), "")
    if part and {"data_subtype", "data_type"} <= {*keys} and "images" not in keys:
        files = f"{name} ANNOTATIONS.json" if part == "questions" else f"QUESTIONS.json {name}"
        command = f"jq -s {quote(f'{VQA} | {NOT_EMPTY}')} {files} > {to}"
        left_out = "the answers' confidence: it joins the files of questions and of annotations"
    if "videos" in keys and _first_has(table, "videos", "language_queries"):
        command = f"jq {quote(f'{EGO4D} | {NOT_EMPTY}')} {name} > {to}"
        left_out = (
            "empty questions, and times in the whole video: videos are the clips, CLIP_UID.mp4"
        )
    for form, of_form, files, lacks in FORMS:
        if form == {*keys} or (form < {*keys} and of_form not in (SEGMENT_ANYTHING, FIFTYONE)):
            typed = f"jq {files[:2]} {quote(f'{of_form} | {NOT_EMPTY}')} {files[3:] or name}"
            command, left_out = f"{typed} > {'NEW.json' if files else to}", lacks
    ends = f", without {left_out}" if left_out else ""
    error = UnknownObject if command == general else DataError
    raise error(
        f"file {path}",
        expected="a list of records",
        found=f"an object with the keys {', '.join(keys[:5])}"[:120],
        fix=f"`{command}` makes one{ends}.",
    )


def _first_has(table: JsonFile, key: str, name: str) -> bool:
    """Return True if the first member of a list in an object has a key of this name, at any depth.

    Ego4D NLQ has questions in clips of videos so.
    """
    with suppress(DataError):  # not a list
        first = next(JsonFile(table.path, (key,)).items(), None)
        return first is not None and f'"{name}"' in first.text
    return False


def _are_shapes(table: JsonFile, key: str) -> bool:
    """Return True if the first member of a list has a box or a polygon, and names no image."""
    first = next(JsonFile(table.path, (key,)).items(), None)
    shape = None if first is None else first.parse()
    names = shape if isinstance(shape, dict) else {}
    return any(map(SHAPE.fullmatch, names)) and not any(map(OF_MEDIA.search, names))


def _program(table: JsonFile, keys: list[str]) -> tuple[str, str]:
    """Return (jq program that makes a list of records of an object, what the list lacks)."""
    starts = ["".join(entry.text[:1000].split())[:2] for entry in table.entries()]
    values = [start[:1] for start in starts]
    if ("database", "{") in zip(keys, values, strict=True):
        return DATABASE, "all but segments and labels"
    lists = [key for key, start in zip(keys, starts, strict=True) if start in ("[{", "[]")]
    left_out = ", ".join(repr(key) for key in keys if key not in lists)[:120]
    if any(_are_shapes(table, key) for key in lists):
        about = [e.text for k, e in zip(keys, table.entries(), strict=True) if k not in lists]
        if any(map(IMAGE_NAME.search, about)):
            return OF_IMAGES, "loss of their images, a record for each file"
    if len(lists) == 1:
        return f'.["{lists[0]}"]', left_out
    if lists:
        return LISTS_BY_KEY, left_out
    if set(values) == {"["} and len({len(entry.parse()) for entry in table.entries()}) == 1:
        return OF_ROWS, ""
    for key in (
        key for key, start in zip(keys, values, strict=True) if start == "{" and key in ASKED
    ):
        asked = [text for text, _ in JsonFile(table.path, (key,)).members()]
        if asked and all(" " in text for text in asked):
            return OF_TEXTS.replace("KEY", key), "loss of other fields, of one file an image"
    if set(values) != {"{"}:
        return WHOLE, ""
    rows = [key for key, _ in JsonFile(table.path, (keys[0],)).members()]
    refuse_via2(table.path, rows, {"filename", "regions", "file_attributes"})
    if {"timestamps", "sentences", "fps"} <= {*rows}:
        return TACOS, "fps: timestamps are taken for numbers of frames, as TACoS has them"
    if {"timestamps", "sentences"} <= {*rows}:
        return ACTIVITYNET, ""
    if {"duration", "location"} <= {*rows}:
        return LOCATIONS, "duration and texts: replace the questions by those of its CSV"
    if rows and all(row.isdecimal() for row in rows):
        columns = [entry.parse() for entry in table.entries()]
        cells = [cell for column in columns for cell in column.values()]
        are_equal = all(column.keys() == {*rows} for column in columns)
        if are_equal and not all(isinstance(cell, Mapping) for cell in cells):
            return ROWS_OF_COLUMNS, ""
    return RECORDS_BY_KEY, ""
