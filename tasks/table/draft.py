"""Draft the description of a table from its first records; doubtful values are marked."""

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from harness.errors import DataError, HarnessError
from harness.layout import JsonFile
from harness.media import open_image
from harness.tasks.qa.questions import fill_pattern, filled
from harness.tasks.table.alternatives import marked_text
from harness.tasks.table.annotation_files import refuse_boxes
from harness.tasks.table.cells import (
    BASE64,
    BASE64_LENGTH,
    is_absent,
    is_empty,
    plain_value,
    right_texts,
)
from harness.tasks.table.description import CHECK, VIDEOS, AnswerField
from harness.tasks.table.draft_fields import (
    NAMES,
    Draft,
    columns_of,
    field_names,
    named,
    values_of,
)
from harness.tasks.table.draft_options import (
    by_keys,
    kept,
    lack_answers,
    places_in_lists,
    with_answer,
    without_letters,
)
from harness.tasks.table.draft_question import draft_question
from harness.tasks.table.draft_truth import PADDED, Size, Values, are_in_padded
from harness.tasks.table.frame_numbers import frame_fields, in_seconds
from harness.tasks.table.image_fields import has_image, numbered_beside, with_images
from harness.tasks.table.joined import of_second_file, refuse_half, several_answers
from harness.tasks.table.layouts import LAYOUTS
from harness.tasks.table.nested import at_path, flat
from harness.tasks.table.object_lists import of_columns, of_lists, of_objects
from harness.tasks.table.other_forms import UnknownObject, refuse_captions, refuse_label_studio
from harness.tasks.table.question_lists import of_questions, refuse_nested
from harness.tasks.table.rows import (
    Record,
    file_columns,
    has_semicolons,
    per_record,
    table_records,
)
from harness.tasks.table.truth import are_points, mask_of, objects_of
from harness.tasks.table.unread_fields import ORDERS

LOOKED_AT = 200
"""Number of records from which a description is drafted."""
MASKS = 20
"""Number of mask images that are read to find out whether white is the object."""
OBJECTS: Mapping[str, str] = {"coco": "category", "captions": "caption", "odvg": "phrase"}
"""Field of the question in each layout of objects; their boxes are always xyxy in pixels."""
COCO_DIGITS = 12
"""Digits to which COCO pads the numbers of images in their files' names."""
UNITS = re.compile(r"(?:.*[_ ])?units?(?:[_ ].*)?", re.IGNORECASE)
"""Names of fields that hold the unit of a number."""
OF_ANSWERS = re.compile(
    r"(?!wrong|incorrect|false|candidate|model|pred|is_|has_|no_).+[_ ]answers?", re.IGNORECASE
)
"""Names of further fields that may hold the ground truth, as VQA's `multiple_choice_answer`."""
FURTHER_TEXTS = re.compile(r".*(?:alias|synonym|variant|alternative|accept).*", re.IGNORECASE)
"""Names of fields, beside the ground truth, of further right texts."""
ASKS_POINTS = re.compile(r"\s(?:points?|tuples|\(x, ?y\))\b|\bpoint (?:to|out|at)\b", re.IGNORECASE)
"""Words of a request for points."""
PART = re.compile(r"(?:(?:video|clip)_)?segment|(?:video_)?clip", re.IGNORECASE)
"""Names of fields of the part of a video that a question is about."""
PLAIN_NUMBER = "(?<![0-9.])-?[0-9]+(?:[.][0-9]+)?"
INSIDE = 'if type == "string" then sub("^(?:[.]{0,2}/)+"; "") else . end'
"""Program of jq that leaves out what leads to the root or out of the folder."""
LABEL = re.compile(r"[A-Za-z]\w{0,11}\s?:\s*")
"""A word before an answer that says what it is, such as `A: `."""
VIDEO_SUFFIXES = (".mp4", ".webm", ".mkv", ".avi")
IMAGE_SUFFIXES = (".jpg", ".png", ".jpeg", ".tif", ".webp", ".bmp")

OUTPUT = re.compile(
    r"responses?|predict(ion|ed|s)?|(model_)?outputs?|generat(ed|ion)(_text)?", re.IGNORECASE
)
"""Names of fields of what a model wrote."""


def draft(table: Path) -> Draft:
    """Draft the description of a table from its first records.

    Raises:
        DataError: it cannot be read, or holds no record.
    """
    layout = _layout(table)
    if layout == VIDEOS:
        folder = next(iter(_folders_of(table.parent, ["JPEGImages"], video=True)[0]), "")
        return Draft(
            layout,
            table,
            media={"folder": folder or "."},
            answer={"form": "mask_track"},
            doubts={} if folder else {"media.folder": "the folder that has JPEGImages"},
        )
    columns = file_columns(table)
    parsed = [parse for _, parse in islice(LAYOUTS[layout](table, columns, ()), LOOKED_AT)]
    records = [parse() for parse in parsed]
    if not records:
        raise DataError(f"table {table}", expected="records", found="none")
    refuse_label_studio(table, records)
    refuse_boxes(table, records[0])
    output = _output(records) if layout == "messages" else ""
    if output and values_of(records, "labels"):  # in results of ms-swift
        records = [{n: cell for n, cell in row.items() if n != "reply"} for row in records]
    if layout == "rows":
        records = list(map(flat, records))
    description = Draft(layout, table, columns=columns_of(records))
    _draft_media(description, records)
    if layout in OBJECTS:
        description.question |= {"id": "id", "text": OBJECTS[layout]}
        if n_crowded := sum(bool(row.get("iscrowd")) for row in records):
            description.question["where"] = {"iscrowd": 0}
            description.doubts["question.where"] = (
                f"leaves out {n_crowded} of the first {len(records)} questions: right boxes in "
                "a crowd of the same category would count as wrong"
            )
        if layout == "captions" and any(row["phrase"] != row["caption"] for row in records):
            asked = {(row["image"], row["caption"]) for row in records}
            description.question["text"] = "phrase" if len(asked) < len(records) else "caption"
            description.doubts["question.text"] = "phrase, or caption? Phrases are parts of it"
        description.answer |= {"form": "boxes", "field": "boxes", "written": "xyxy"}
        return description
    draft_question(description, records)
    _leave_out_texts(description, records)
    turns = [row["conversations"] for row in records] if layout == "llava" else []
    if any(isinstance(listed, list) and len(listed) > 2 for listed in turns):
        doubt = "the first turn alone: a system's and later ones of a conversation are left out"
        description.doubts["question.text"] = doubt
    if description.layout == "messages" and any(len(_spoken(row)) > 1 for row in records):
        doubt = "the last message of the user alone: a system's and earlier ones are left out"
        description.doubts["question.text"] = doubt
    _draft_answer(description, records)
    if output and description.answer.get("field") == "reply":
        _add_doubt(description, "answer.field", f"or did a model write it, as {output}?")
    if listed := of_questions(table, records):
        description.doubts["question.text"] = listed
    elif second := of_second_file(table, records):
        _add_doubt(description, "answer.form", second)
    _doubt_context(description, records)
    _doubt_points(description, records)
    text = description.question["text"]
    if text != CHECK and any(not is_absent(row.get("hint")) for row in records):
        text = text if "{" in str(text) else f"{{{text}}}"
        description.question["text"] = f"{{hint}}\n{text}"  # as in VLMEvalKit's MMBench
    return description


def _output(records: Sequence[Record]) -> str:
    """Return the field of a model's outputs that all replies of messages repeat; "" for none."""
    replied = [row for row in records if row.get("reply")]
    outputs = [name for name in columns_of(records) if OUTPUT.fullmatch(name)] if replied else []
    return next(
        (
            name
            for name in outputs
            if all(str(row.get(name)).strip() == row["reply"] for row in replied)
        ),
        "",
    )


def _leave_out_texts(description: Draft, records: Sequence[Record]) -> None:
    """Leave out the records without an image, where others have one; with a doubt."""
    images = description.media.get("images", [])
    listed = images if isinstance(images, list) else [images]
    fields = [re.findall(r"\{([^{}:]+)", str(name)) or [str(name)] for name in listed]
    have = [has_image(row, fields) for row in records]
    if not any(have) or all(have):
        return
    where = description.question.get("where", {})
    assert isinstance(where, dict), "values by fields"
    chosen, way = with_images(description.table, description.layout, fields, where)
    if not chosen:
        _add_doubt(description, "media.images", way)
        return
    description.question["where"] = chosen
    doubt = f"leaves out {have.count(False)} of the first {len(have)} records, without an image"
    _add_doubt(description, "question.where", doubt)


def _spoken(row: Record) -> list[object]:
    """Return the messages of the system and the user in a record of chat messages."""
    listed = plain_value(row.get("messages", row.get("conversations")))
    messages = listed if isinstance(listed, list) else []
    roles = [message.get("role") for message in messages if isinstance(message, dict)]
    return [role for role in roles if role in ("system", "user")]


def _doubt_context(description: Draft, records: Sequence[Record]) -> None:
    """Add a doubt if records have a text, a region or a time that the question may be about."""
    used = [*description.question.values(), description.answer.get("field")]
    names = [name for name in named(records, "context") if name not in used]
    if names and "question.text" not in description.doubts:
        description.doubts["question.text"] = (
            f"is {', '.join(names)} part of the question? A pattern asks it: "
            f'"{{{names[0]}}}\\n{{{description.question["text"]}}}"'
        )


def _doubt_points(description: Draft, records: Sequence[Record]) -> None:
    """Add a doubt if records have points, which are not read as ground truth."""
    field = description.answer.get("field")
    for name in (name for name in columns_of(records) if "point" in name.lower() and name != field):
        if any(map(are_points, values_of(records, name))):
            doubt = f"{name} alone are not scored: are boxes or masks around them, or their number?"
            description.doubts.setdefault("answer.form", doubt)


def _layout(table: Path) -> str:
    """Return the layout that the keys of a file or of its first record show."""
    if table.suffix.lower() == ".json":
        try:
            (keys,) = [{key for key, _ in JsonFile(table).members()}]
        except DataError:
            keys = set()
        if keys == {"videos"}:
            return VIDEOS
        if {"images", "annotations"} <= keys and "categories" not in keys:
            refuse_captions(table)
        if {"images", "annotations"} <= keys:
            first = next(JsonFile(table, ("images",)).items(), None)
            entry = None if first is None else first.parse()
            return "captions" if isinstance(entry, dict) and "caption" in entry else "coco"
        if len(keys) == 1:
            refuse_half(table)
    try:
        first_record = next((parse() for _, parse in table_records(table, file_columns(table))), {})
    except UnknownObject:
        refuse_nested(table)
        raise
    turns = plain_value(first_record.get("conversations"))
    has_roles = isinstance(turns, list) and all(isinstance(t, dict) and "role" in t for t in turns)
    if "conversations" in first_record and not has_roles:
        return "llava"
    if {"messages", "conversations"} & first_record.keys():
        return "messages"
    if "filename" in first_record and {"detection", "grounding"} & first_record.keys():
        return "odvg"
    return "rows"


def _draft_media(description: Draft, records: Sequence[Record]) -> None:
    """Fill in the section `media`: the fields of images or of the video, and their folder."""
    for kind, key in (("image", "images"), ("video", "video")):
        fields = named(records, kind) or _of_files(records, kind)
        if kind == "image":  # TimeChat's `image_id` names a video
            fields = [name for name in fields if name not in _of_files(records, "video")]
        if not fields:
            continue
        fields += numbered_beside(fields, columns_of(records))  # the first record may lack some
        numbered = [name for name in fields if re.search(r"\d$", name)]
        chosen = numbered if len(numbered) > 1 and kind == "image" else fields[:1]
        pattern = _draft_folder(description, values_of(records, fields[0]), fields[0], kind)
        unused = {*_of_files(records, "image")} - {*chosen, *named(records, "answer")}
        shown = values_of(records, chosen[0])
        others = [n for n in sorted(unused) if kind == "image" and values_of(records, n) != shown]
        if others:
            listed = json.dumps([*chosen, *others])
            description.doubts["media.images"] = f"this one alone? images = {listed} shows all"
        names = _file_names(shown)
        if names and all(name.startswith(("/", "../")) for name in names):
            paths = ", ".join(f"getpath({json.dumps(n.split('.'))})" for n in (*chosen, *others))
            program = f"({paths}) |= walk({INSIDE})"
            does = "has names without / and ../ before them: folder is where these lie"
            _add_doubt(description, "media.folder", per_record(description.table, program, does))
        named_so = [pattern.replace("{", f"{{{name}") or name for name in chosen]
        description.media[key] = named_so if len(chosen) > 1 else named_so[0]
        if kind == "video":
            _draft_clip(description, records)
        return
    description.media["images"] = CHECK
    description.doubts["media.images"] = (
        f"the field of the image, or video = …, of {field_names(records)}"
    )


def _draft_clip(description: Draft, records: Sequence[Record]) -> None:
    """Fill in the part of the video, where records have a start and an end beside it."""
    for name in filter(PART.fullmatch, records[0]):
        pairs = values_of(records, name)
        if pairs and all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            description.media["clip"] = [f"{name}.0", f"{name}.1"]
            description.doubts["media.clip"] = (
                "is the question about this part of the video, in seconds? Otherwise leave the "
                "line out"
            )
            return
    starts, ends = named(records, "clip start"), named(records, "clip end")
    if starts and ends:
        end = next((name for name in ends if name.startswith(starts[0][:4])), ends[0])
        description.media["clip"] = [starts[0], end]
        description.doubts["media.clip"] = (
            "is the question about this part of the video, in seconds? Otherwise leave the line out"
        )
        if others := [name for name in (*starts[1:], *ends) if name != end]:
            description.doubts["media.clip"] += f"; or is it {', '.join(others)}?"


def _draft_folder(description: Draft, values: Sequence[object], name: str, kind: str) -> str:
    """Fill in the folder of media; return what makes their files of the names in a field.

    Args:
        description: The draft.
        values: The values of the field.
        name: The field.
        kind: "image" or "video".

    Returns:
        Braces with a suffix, such as `{}.jpg`, or "" if the names are those of the files.
    """
    names, is_video = _file_names(values), kind == "video"
    are_numbers = len(names) == len(values) and all(map(str.isdecimal, names))
    if not (is_video or are_numbers):
        names = [text for text in names if not text.isdecimal()]  # other records of VLMEvalKit
    if not names:
        return ""
    folders, pattern = _folders_of(description.table.parent, names, video=is_video)
    if not folders and all(type(value) is int for value in values):
        padded = [f"{value:0{COCO_DIGITS}}" for value in values]
        folders, pattern = _folders_of(description.table.parent, padded, video=is_video)
        pattern = (pattern or "{}").replace("{", f"{{:0{COCO_DIGITS}") if folders else ""
    description.media["folder"] = folders[0] if len(folders) == 1 else "."
    if are_numbers and not (folders or is_video):
        doubt = f'numbers name images: a pattern such as "{{{name}}}.jpg"'
        description.doubts["media.images"] = doubt
    elif len(folders) != 1:
        description.doubts["media.folder"] = (
            f"{' and '.join(folders[:2]) or 'no folder beside the table'} "
            f"{'hold' if folders else 'holds'} {names[0]!r}"
        )
    return pattern


def _of_files(records: Sequence[Record], kind: str) -> list[str]:
    """Return the fields whose values all are names of image or video files, by the suffix."""
    suffixes = VIDEO_SUFFIXES if kind == "video" else IMAGE_SUFFIXES
    return [
        name
        for name in records[0]
        if (values := values_of(records, name))
        and all(isinstance(value, str) and value.lower().endswith(suffixes) for value in values)
    ]


def _file_names(values: Sequence[object]) -> list[str]:
    """Return the names of files among values, which may be numbers."""
    flat = [part for value in values for part in (value if isinstance(value, list) else [value])]
    named = [
        str(part)
        if type(part) is int
        else part.get("path")
        if isinstance(part, dict) and not part.get("bytes")
        else part
        for part in flat
    ]
    return [
        name
        for name in named
        if isinstance(name, str)
        and not name.startswith(("data:", "http"))
        and not (len(name) >= BASE64_LENGTH and BASE64.fullmatch(name))
    ]


def _folders_of(root: Path, names: Sequence[str], *, video: bool) -> tuple[list[str], str]:
    """Return (folders that have the first files, braces with a suffix that their names lack).

    Looked through are the table's folder and those at most two levels below it.
    """
    folders = [root, *sorted(path for path in root.iterdir() if path.is_dir())]
    folders += [
        path for folder in folders[1:] for path in sorted(folder.iterdir()) if path.is_dir()
    ]
    for suffix in ("", *(VIDEO_SUFFIXES if video else IMAGE_SUFFIXES)):
        paths = [f"{name}{suffix}" for name in names[:5]]
        holding = [path for path in folders if all(_exists(path / name) for name in paths)]
        if holding:
            return [str(path.relative_to(root)) for path in holding], suffix and f"{{}}{suffix}"
    return [], ""


def _exists(path: Path) -> bool:
    """Return True for a path that is there; a text that is too long for a name is not."""
    with suppress(OSError):
        return path.exists()
    return False


def _draft_answer(description: Draft, records: Sequence[Record]) -> None:
    """Fill in the sections `answer` and `scoring`, and letters of options in the questions."""
    taken = {description.question.get("text"), description.question.get("id")}
    fields = [name for name in named(records, "answer") if name not in taken]
    if description.layout == "messages" and not fields and values_of(records, "labels"):
        fields = ["labels"]
    boxes = of_objects(description.table, records[0]) or of_columns(records[0])
    if not fields or (boxes and fields == ["timestamp"]):  # the time of the image
        _draft_no_field(description, records, boxes)
        return
    if description.layout == "llava":
        fields.sort(key=lambda name: name != "answer")  # the conversation's own
    given = values_of(records, fields[0])
    first_values = {
        name: values[0] for name in columns_of(records) if (values := values_of(records, name))
    }
    known = {*fields, *named([first_values], "answer")}
    candidates = [*fields[1:], *(name for name in first_values if name in known - {*fields})]
    candidates += [
        name for name in first_values if name not in known and OF_ANSWERS.fullmatch(name)
    ]
    beside = [name for name in first_values if FURTHER_TEXTS.fullmatch(name.rpartition(".")[2])]
    candidates += [name for name in beside if _object_of(name) == _object_of(fields[0])]
    if others := [
        name
        for name in dict.fromkeys(candidates)
        if name not in taken
        and values_of(records, name) != given
        and not (name == "timestamp" and isinstance(given[0], list))  # the time of the image
    ]:
        doubt = f"or {', '.join(others)}? Each may be the ground truth, or part of the question"
        description.doubts["answer.field"] = doubt
    if any(_repeats(value) for value in given):
        doubt = "lists repeat texts, as of several people: each counts fully, also one person's"
        _add_doubt(description, "answer.field", doubt)
    listed = str(description.question.get("options"))
    answered = [
        row
        for row in records
        if not is_empty(row.get(fields[0])) and plain_value(row.get(listed)) != []
    ]
    options = _options_of(description, answered)
    truth = Values(
        fields[0],
        values_of(answered, fields[0]),
        [_size(description, row) for row in answered],
        options,
        "video" in description.media,
        [_question_of(description, row) for row in answered],
        columns if isinstance(columns := description.question.get("options"), list) else (),
        frozenset(str(row[name]) for row in answered for name in row if name.lower() in ORDERS),
        has_semicolons(description.table),
    ).truth()
    description.answer |= {"form": truth.form, "field": fields[0]} | truth.keys
    description.doubts |= {f"answer.{key}": doubt for key, doubt in truth.doubts.items()}
    if truth.form in ("mask", "boxes") and any(map(_asks_points, records[:MASKS])):
        doubt = 'are points inside it the answer? form = "points" scores them'
        description.doubts.setdefault("answer.form", doubt)
    doubted = truth.doubts.get("form", "") if truth.form == "interval" else ""
    if doubted and "pieces" not in doubted:
        windows = f".{json.dumps(fields[0])}"
        single = f'select(({windows}[0] | type) != "array" or ({windows} | length) == 1)'
        description.doubts["answer.form"] += f"; {kept(description.table, single)}"
    if given and (doubt := of_objects(description.table, {fields[0]: given[0]})):
        description.doubts["answer.form"] = doubt
    doubt = of_lists(description.table, answered, fields[0], truth.form)
    if truth.form in ("boxes", "mask") and doubt:
        _add_doubt(description, "answer.field", doubt)
    if truth.form in ("number", "count") and (doubt := _doubt_about_units(description, answered)):
        description.doubts["answer.form"] = doubt
    is_number = truth.form in ("number", "count") and options is None
    if is_number and (doubt := places_in_lists(answered, fields[0])):
        _add_doubt(description, "answer.form", doubt)
    if truth.keys.get("written") == "option":
        pairs = zip(values_of(answered, fields[0]), options or (), strict=False)
        odd = [str(value) for value, texts in pairs if str(value).strip() not in texts]
        if odd:
            description.doubts["answer.written"] = f"{odd[0]!r} is not the text of an option"[:120]
        listed_options = description.question.get("options")
        pairs = zip(values_of(answered, fields[0]), options or (), strict=False)
        if isinstance(listed_options, (str, list)) and lack_answers(pairs):
            doubt = with_answer(description.table, listed_options, fields[0])
            description.doubts["question.options"] = doubt
    is_text = truth.keys.get("written") == "option" and "answer.written" not in description.doubts
    if truth.form == "choice" and isinstance(columns, list) and not is_text:
        written, doubt = by_keys(description.table, columns, fields[0], answered)
        if written or doubt:
            description.answer["written"] = written or "option"
            description.doubts.pop("answer.written", None)
            description.doubts |= {"answer.written": doubt} if doubt else {}
    if (
        description.layout in ("llava", "messages")
        and truth.keys.get("coordinates") == "relative"
        and are_in_padded(
            values_of(answered, fields[0]), [_size(description, row) for row in answered]
        )
    ):
        description.doubts["answer.coordinates"] = PADDED
    if truth.form == "text":
        _doubt_texts(description, answered, fields[0], others)
    if truth.protocol:
        description.scoring["protocol"] = truth.protocol
    if truth.letters:
        description.question["letters"] = truth.letters
    if truth.form == "mask" and truth.keys["written"] == "image":
        _draft_mask_images(description, answered)
    if truth.form == "choice" and not description.question.keys() & {"options", "letters"}:
        description.question["letters"] = "ABCD"
        doubt = "the letters of the options, which stand in the question's text"
        description.doubts["question.letters"] = doubt


def _doubt_texts(
    description: Draft, records: Sequence[Record], field: str, others: Sequence[str]
) -> None:
    """Add doubts about texts that may be several, or boxes; `others` are fields like `field`."""
    values, table = values_of(records, field), description.table
    path = f".{'.'.join(map(json.dumps, field.split('.')))}"
    further = [n for n in others if all(_are_texts(value) for value in values_of(records, n))]
    if further:
        doubt = f"also = {json.dumps(further)} adds their texts to the right ones"
        _add_doubt(description, "answer.field", doubt)
    same = [str(description.question["text"]), *named(records, "image"), *named(records, "video")]
    if records and (again := several_answers(table, records, field, same)):
        _add_doubt(description, "answer.field", again)
    are_four = all(len(re.findall(PLAIN_NUMBER, str(value))) == 4 for value in values)
    if are_four and "several numbers" in description.doubts.get("answer.form", ""):
        program = f"{path} |= [scan({json.dumps(PLAIN_NUMBER)}) | tonumber]"
        doubt = per_record(table, program, "has boxes of them, if they are some")
        _add_doubt(description, "answer.form", doubt)
    begins = {match[0] if (match := LABEL.match(str(value))) else "" for value in values}
    if len(values) > 1 and len(begins) == 1 and (label := begins.pop()):
        program = f"{path} |= ltrimstr({json.dumps(label)})"
        leaves = per_record(table, program, "leaves it out") or "leave it out"
        _add_doubt(description, "answer.form", f"all begin with {label!r}: {leaves}")
    if marked := marked_text(values):
        mark, text = marked
        description.answer["separator"] = ""
        description.doubts["answer.separator"] = (
            f"{text!r:.60} may be several right texts: separator = {json.dumps(mark)} reads them "
            'so, "" as one'
        )


def _add_doubt(description: Draft, key: str, doubt: str) -> None:
    """Add a doubt about a key behind one that it has."""
    description.doubts[key] = "; ".join(filter(None, (description.doubts.get(key), doubt)))


def _object_of(name: str) -> str:
    """Return the name of the object that a field with dots lies in; "" for the record itself."""
    return name.rpartition(".")[0]


def _are_texts(value: object) -> bool:
    """Return True for a right text, or a list of right texts."""
    return all(isinstance(part, str) for part in right_texts(value))


def _repeats(value: object) -> bool:
    """Return True for a list of right texts of which some are equal."""
    texts = right_texts(value)
    return _are_texts(value) and len({*texts}) < len(texts)


def _asks_points(row: Record) -> bool:
    """Return True if a text of a record asks for points, as RefSpatial's `suffix` does."""
    return any(isinstance(cell, str) and ASKS_POINTS.search(cell) for cell in row.values())


def _draft_no_field(description: Draft, records: Sequence[Record], boxes: str) -> None:
    """Fill in the section `answer` of records without such a field; `boxes`: how to read boxes."""
    sides = [named(records, what) for what in ("clip start", "clip end")]
    in_answer = [
        next((n for n in names if re.fullmatch(NAMES["answer"], _object_of(n), re.I)), "")
        for names in sides
    ]
    clip = description.media.pop("clip", None)
    window = clip if isinstance(clip, list) else in_answer if all(in_answer) else []
    if window:
        others = description.doubts.pop("media.clip", "").partition("; ")[2]
        name = str(window[0]).removesuffix(".0")
        field = name if window == [f"{name}.0", f"{name}.1"] else window
        description.answer |= {"form": "interval", "field": field, "written": "seconds"}
        description.doubts["answer.field"] = (
            "is this time the answer, in seconds? If the question is about this part of the video, "
            "clip = … in [media] names it" + (f"; {others}" if others else "")
        )
        return
    description.answer["form"] = "text"
    doubt = "the form of the answer; no field of a ground truth was found"
    if "video" in description.media and (pair := frame_fields(description.columns)):
        seconds = in_seconds(description.table, pair, description.columns)
        doubt = f"are {' and '.join(pair)} the answer? Numbers of frames are not read: {seconds}"
    description.doubts["answer.form"] = boxes or doubt


def _draft_mask_images(description: Draft, records: Sequence[Record]) -> None:
    """Add a doubt if most masks are white on more than half of their image."""
    name = str(description.answer["field"])
    folder = Path(description.table.parent, str(description.media.get("folder", ".")))
    field_of_masks = AnswerField(form="mask", field=name, written="image")
    shares, several = [], list[int]()
    for row in records[:MASKS]:
        try:
            mask = mask_of(row[name], field_of_masks, None, folder, name).to_array()
            numbers = objects_of(row[name], folder, name)
        except HarnessError as error:
            fault = str(error).removeprefix(f"{name}: ")
            description.doubts.setdefault("answer.written", f"a mask is not read: {fault}"[:200])
            continue
        shares.append(mask.mean())
        several = several or (numbers[1:] and numbers)
    if shares and sum(share > 0.5 for share in shares) > len(shares) / 2:
        doubt = "most are white on more than half of the image: is white the object?"
        _add_doubt(description, "answer.field", doubt)
    if several:
        listed = ", ".join(map(str, several[:4]))
        doubt = f"are all objects of an image the answer? One has {listed}: they are one mask"
        _add_doubt(description, "answer.field", doubt)


def _doubt_about_units(description: Draft, records: Sequence[Record]) -> str:
    """Return what to check about a field of units beside numbers; "" if questions name the unit."""
    for name in filter(UNITS.fullmatch, records[0]):
        units = list(dict.fromkeys(str(value) for value in values_of(records, name)))
        asked = re.compile(rf"\b{re.escape(units[0])}\b" if units else "", re.IGNORECASE)
        if len(units) > 1 or not all(asked.search(_question_of(description, r)) for r in records):
            listed = ", ".join(units[:4])
            return f"numbers are in {name} ({listed}): write all in the unit that its question asks"
    return ""


def _question_of(description: Draft, row: Record) -> str:
    """Return the text of a record's question."""
    name = str(description.question["text"])
    return str(row.get(name)) if "{" not in name else filled(name, defaultdict(str, row))


def _options_of(description: Draft, records: Sequence[Record]) -> list[list[str]] | None:
    """Return the texts of each record's options; None where the records have none."""
    options = description.question.get("options")
    if options is None:
        return None
    listed = [_texts(options, row) for row in records]
    return list(map(without_letters, listed)) if description.question.get("lettered") else listed


def _texts(options: object, row: Record) -> list[str]:
    """Return the texts of a record's options, in their order."""
    if isinstance(options, list):
        cells = [(row[name],) if name in row else at_path(row, name) for name in options]
        return [str(cell[0]).strip() for cell in cells if cell and not is_absent(cell[0])]
    value = plain_value(row.get(str(options), ""))
    if isinstance(value, dict):  # by letter
        value = [value[letter] for letter in sorted(value)]
    lines = value if isinstance(value, list) else str(value).split("\n")
    return [str(line).strip() for line in lines]


def _size(description: Draft, row: Record) -> Size:
    """Return (width, height) of a record's image; None if it is not a file that can be read."""
    field = str(description.media.get("images"))
    try:
        cell = fill_pattern(field, row, "") if "{" in field else row.get(field)
    except DataError:
        return None
    name = plain_value(cell)
    name = name[0] if isinstance(name, list) and name else name
    try:
        path = Path(description.table.parent, str(description.media.get("folder")), str(name))
        return open_image(path).size if isinstance(name, str) else None
    except DataError:
        return None
