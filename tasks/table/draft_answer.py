"""The ground truth of a description: its field, form and convention, and what is doubtful."""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path

from harness.errors import DataError, HarnessError
from harness.media import open_image
from harness.tasks.qa.questions import fill_pattern, filled
from harness.tasks.table.alternatives import marked_text
from harness.tasks.table.cells import is_absent, is_empty, plain_value, right_texts
from harness.tasks.table.conventions import by_marks
from harness.tasks.table.description import AnswerField
from harness.tasks.table.draft_boxes import PADDED, are_in_padded
from harness.tasks.table.draft_fields import NAMES, Draft, columns_of, named, values_of
from harness.tasks.table.draft_options import (
    by_keys,
    kept,
    lack_answers,
    places_in_lists,
    with_answer,
    without_letters,
)
from harness.tasks.table.draft_truth import Values
from harness.tasks.table.draft_values import Size, Truth
from harness.tasks.table.frame_numbers import frame_fields, in_seconds
from harness.tasks.table.joined import several_answers
from harness.tasks.table.nested import at_path, jq_path
from harness.tasks.table.object_lists import of_columns, of_lists, of_objects
from harness.tasks.table.rows import Record, has_semicolons, per_record
from harness.tasks.table.truth import mask_of, objects_of
from harness.tasks.table.unread_fields import ORDERS

MASKS = 20
"""Number of mask images that are read to find out whether white is the object."""
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
WEAK_NAMES = re.compile(r"(?:.*[._])?(?:affordance|target|label)", re.IGNORECASE)
"""Names of fields that may say of what kind a record is, in place of its answer."""
OF_MODEL = re.compile(
    r"(?:.*[._])?(?:model|m?llm|vlm)(?:_?(?:id|name|version))?|generated_by", re.I
)
"""Names of fields of the model that wrote something."""
OF_PERSON = re.compile(
    r"(?:.*_)?(?:rad|radiologist|reader|rater|annotator|worker)s?(?:_?(?:id|name))?", re.I
)
"""Names of fields of the person who marked an object."""
PLAIN_NUMBER = "(?<![0-9.])-?[0-9]+(?:[.][0-9]+)?"
LABEL = re.compile(r"[A-Za-z]\w{0,11}\s?:\s*")
"""A word before an answer that says what it is, such as `A: `."""


def draft_answer(description: Draft, records: Sequence[Record]) -> None:
    """Fill in the sections `answer` and `scoring`, and letters of options in the questions."""
    taken = {description.question.get("text"), description.question.get("id")}
    listed = str(description.question.get("options"))
    beside = f"{_object_of(listed)}." if _object_of(listed) else ""  # as ARC's `choices.label`
    fields = [
        name
        for name in named(records, "answer")
        if name not in taken and not (beside and name.startswith(beside))
    ]
    if description.layout == "messages" and not fields and values_of(records, "labels"):
        fields = ["labels"]
    boxes = of_objects(description.table, records[0]) or of_columns(description.table, records)
    if not fields or (boxes and fields == ["timestamp"]):  # the time of the image
        _draft_no_field(description, records, boxes)
        return
    if description.layout == "llava":
        fields.sort(key=lambda name: name != "answer")  # the conversation's own
    field, table = fields[0], description.table
    others = [n for n in _others(records, fields, taken) if not (beside and n.startswith(beside))]
    if others:
        doubt = f"or {', '.join(others)}? Each may be the ground truth, or part of the question"
        description.doubts["answer.field"] = doubt
        description.described = others
    if any(map(_repeats, values_of(records, field))):
        doubt = "lists repeat texts, as of several people: each counts fully, also one person's"
        description.doubt("answer.field", doubt)
    answered = [
        row
        for row in records
        if not is_empty(row.get(field)) and plain_value(row.get(listed)) != []
    ]
    values, sizes = values_of(answered, field), [_size(description, row) for row in answered]
    options = _options_of(description, answered)
    truth = Values(
        field,
        values,
        sizes,
        options,
        "video" in description.media,
        [_question_of(description, row) for row in answered],
        columns if isinstance(columns := description.question.get("options"), list) else (),
        frozenset(str(row[name]) for row in answered for name in row if name.lower() in ORDERS),
        has_semicolons(table),
    ).truth()
    description.answer |= {"form": truth.form, "field": field} | truth.keys
    description.doubts |= {f"answer.{key}": doubt for key, doubt in truth.doubts.items()}
    if truth.protocol:
        description.scoring["protocol"] = truth.protocol
    if truth.letters:
        description.question["letters"] = truth.letters
    if doubt := of_objects(table, {field: values_of(records, field)[0]}):
        description.doubts["answer.form"] = doubt
    if truth.form in ("mask", "boxes"):
        _doubt_regions(description, records, answered, truth)
    elif truth.form == "interval":
        _doubt_windows(description, truth, values)
    elif truth.form in ("number", "count"):
        if doubt := _doubt_about_units(description, answered):
            description.doubts["answer.form"] = doubt
        if options is None and (doubt := places_in_lists(answered, field)):
            description.doubt("answer.form", doubt)
    elif truth.form == "choice":
        _doubt_options(description, answered, values, options or ())
    elif truth.form == "text":
        _doubt_texts(description, answered, field, others)
    if truth.form in ("text", "number") and (sides := of_columns(table, records)):
        description.doubt("answer.form", sides)
    is_in_llava = description.layout in ("llava", "messages")
    is_relative = truth.keys.get("coordinates") == "relative"
    if is_in_llava and is_relative and are_in_padded(values, sizes):
        description.doubts["answer.coordinates"] = PADDED


def _others(
    records: Sequence[Record], fields: Sequence[str], taken: Collection[object]
) -> list[str]:
    """Return the fields that may hold the ground truth in place of the first of `fields`."""
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
    return [
        name
        for name in dict.fromkeys(candidates)
        if name not in taken
        and values_of(records, name) != given
        and not (name == "timestamp" and isinstance(given[0], list))  # the time of the image
    ]


def _doubt_regions(
    description: Draft, records: Sequence[Record], answered: Sequence[Record], truth: Truth
) -> None:
    """Add doubts about boxes and masks: points in them, lists beside them, what is white."""
    if any(map(_asks_points, records[:MASKS])):
        doubt = 'are points inside it the answer? form = "points" scores them'
        description.doubts.setdefault("answer.form", doubt)
    field = str(description.answer["field"])
    if doubt := of_lists(description.table, answered, field, truth.form):
        description.doubt("answer.field", doubt)
    image = next(iter(named(records, "image")), "")
    asked = {
        (str(row[image]), _question_of(description, row), str(row.get(field)))
        for row in records
        if isinstance(row.get(image), (str, int))
    }
    if len({what[:2] for what in asked}) < len(asked):
        doubt = "records of one image ask the same: put all right regions of a question into one"
        is_box = all(
            isinstance(cell, list) and len(cell) == 4 for cell in values_of(records, field)
        )
        is_box &= truth.form == "boxes" and "text" in description.question
        same = [str(description.question["text"]), image]
        if is_box and (command := several_answers(description.table, records, field, same)):
            doubt = f"records of one image ask the same: {command}"
        description.doubt("answer.field", doubt)
    if truth.form == "mask" and truth.keys["written"] == "image":
        _draft_mask_images(description, answered)


def _doubt_windows(description: Draft, truth: Truth, values: Sequence[object]) -> None:
    """Add to the doubt about several windows of a record the command that keeps the others."""
    doubted = truth.doubts.get("form", "")
    are_several = all(isinstance(v, list) and len(v) > 1 and isinstance(v[0], list) for v in values)
    if doubted and "pieces" not in doubted and not are_several:
        windows = f"getpath({jq_path(str(description.answer['field']))})"
        single = f'select(({windows}[0] | type) != "array" or ({windows} | length) == 1)'
        description.doubts["answer.form"] += f"; {kept(description.table, single)}"


def _doubt_options(
    description: Draft,
    records: Sequence[Record],
    values: Sequence[object],
    options: Sequence[Sequence[str]],
) -> None:
    """Add doubts about answers that name no option, or name it by a key; fill in their letters."""
    field, listed = str(description.answer["field"]), description.question.get("options")
    if description.answer.get("written") == "option":
        pairs = list(zip(values, options, strict=False))
        odd = [str(value) for value, texts in pairs if str(value).strip() not in texts]
        if odd:
            description.doubts["answer.written"] = f"{odd[0]!r} is not the text of an option"[:120]
        if isinstance(listed, (str, list)) and lack_answers(pairs):
            description.doubts["question.options"] = with_answer(description.table, listed, field)
    is_text = description.answer.get("written") == "option"
    if isinstance(listed, list) and not (is_text and "answer.written" not in description.doubts):
        written, doubt = by_keys(description.table, listed, field, records)
        if written or doubt:
            description.answer["written"] = written or "option"
            description.doubts.pop("answer.written", None)
            description.doubts |= {"answer.written": doubt} if doubt else {}
    if not (listed or description.question.get("letters")):
        description.question["letters"] = "ABCD"
        doubt = "the letters of the options, which stand in the question's text"
        description.doubts["question.letters"] = doubt


def _doubt_texts(
    description: Draft, records: Sequence[Record], field: str, others: Sequence[str]
) -> None:
    """Add doubts about texts that may be several, or boxes; `others` are fields like `field`."""
    values, table = values_of(records, field), description.table
    path = f"getpath({jq_path(field)})"
    if model := next(filter(OF_MODEL.fullmatch, columns_of(records)), ""):
        description.doubt("answer.field", f"did a model ({model}) write it?")
    if WEAK_NAMES.fullmatch(field):
        description.doubt("answer.field", f"is {field} the answer, or what kind of record it is?")
    different = {str(value).strip().lower() for value in values}
    if different <= {"accept", "reject", "ignore"}:
        description.doubt("answer.field", "does it say what an annotator decided, as in Prodigy?")
    if len(values) > 2 and len(different) == 1 and not different & {"yes", "no"}:
        description.doubt("answer.field", f"all are {values[0]!r:.40}: does it say what is right?")
    if several := next((v for v in values if len({*map(str, right_texts(v))}) > 1), None):
        listed = ", ".join(f"{text!r:.30}" for text in right_texts(several)[:3])
        doubt = f"is each of {listed} right alone? They count so, and are not parts of one answer"
        description.doubt("answer.field", doubt)
    further = [n for n in others if all(_are_texts(value) for value in values_of(records, n))]
    if further:
        doubt = f"also = {json.dumps(further)} adds their texts to the right ones"
        description.doubt("answer.field", doubt)
    same = [str(description.question["text"]), *named(records, "image"), *named(records, "video")]
    if records and (again := several_answers(table, records, field, same)):
        description.doubt("answer.field", again)
    are_four = all(len(re.findall(PLAIN_NUMBER, str(value))) == 4 for value in values)
    if are_four and "several numbers" in description.doubts.get("answer.form", ""):
        program = f"{path} |= [scan({json.dumps(PLAIN_NUMBER)}) | tonumber]"
        doubt = per_record(table, program, "has boxes of them, if they are some")
        description.doubt("answer.form", doubt)
    begins = {match[0] if (match := LABEL.match(str(value))) else "" for value in values}
    if len(values) > 1 and len(begins) == 1 and (label := begins.pop()):
        program = f"{path} |= ltrimstr({json.dumps(label)})"
        leaves = per_record(table, program, "leaves it out") or "leave it out"
        description.doubt("answer.form", f"all begin with {label!r}: {leaves}")
    if marked := marked_text(values):
        mark, text = marked
        description.answer["separator"] = ""
        description.doubts["answer.separator"] = (
            f"{text!r:.60} may be several right texts: separator = {json.dumps(mark)} reads them "
            'so, "" as one'
        )


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
        field: object = name if window == [f"{name}.0", f"{name}.1"] else window
        if field is window and any("." in str(side) for side in window):
            field = " - ".join(f"{{{side}}}" for side in window)
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
    person = next(filter(OF_PERSON.fullmatch, columns_of(records)), "")
    if boxes and len({str(value) for value in values_of(records, person)}) > 1:
        doubt = f"boxes are of several people ({person}), and all count: keep those of one of them"
        description.doubt("answer.form", doubt)


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
        description.doubt("answer.field", doubt)
    if several:
        listed = ", ".join(map(str, several[:4]))
        doubt = f"are all objects of an image the answer? One has {listed}: they are one mask"
        description.doubt("answer.field", doubt)


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
        value = by_marks(value)
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
