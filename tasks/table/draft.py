"""Draft the description of a table from its first records; doubtful values are marked."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from operator import itemgetter
from pathlib import Path
from random import Random
from shlex import quote
from typing import TypeVar

from harness.errors import DataError
from harness.files import lines_of
from harness.foreign import new_name
from harness.layout import JsonFile
from harness.tasks.table.annotation_files import MAX_LINE, refuse_boxes
from harness.tasks.table.cells import (
    is_absent,
    plain_value,
)
from harness.tasks.table.description import CHECK, VIDEOS
from harness.tasks.table.draft_answer import draft_answer
from harness.tasks.table.draft_fields import (
    Draft,
    columns_of,
    named,
    sentences_in,
    values_of,
)
from harness.tasks.table.draft_media import draft_media, folders_of, leave_out_texts
from harness.tasks.table.draft_question import draft_question
from harness.tasks.table.joined import of_second_file, refuse_half
from harness.tasks.table.layouts import LAYOUTS
from harness.tasks.table.nested import flat
from harness.tasks.table.other_forms import UnknownObject, refuse_captions, refuse_label_studio
from harness.tasks.table.question_lists import of_questions, refuse_nested
from harness.tasks.table.rows import (
    Record,
    file_columns,
    table_records,
)
from harness.tasks.table.truth import are_points
from harness.tasks.table.unread_fields import NOTHING

T = TypeVar("T")
LOOKED_AT = 200
"""Number of records from which a description is drafted: the first, and as many of `SCANNED`."""
SCANNED = 5_000
"""Number of records of which some are drawn, since later ones may have other values."""
OBJECTS: Mapping[str, str] = {"coco": "category", "captions": "caption", "odvg": "phrase"}
"""Field of the question in each layout of objects; their boxes are always xyxy in pixels."""
OF_SEGMENTS = (
    "{images, categories, annotations: [.annotations[] | .image_id as $image | .segments_info[] "
    "| . + {image_id: $image}]}"
)
"""Program of jq for COCO's panoptic file."""
OF_LISTS = (
    ".[0] as $names | .[1:][] | [$names, .] | transpose | map({key: .[0], value: .[1]}) "
    "| from_entries"
)
"""Program of jq for lists of values below a list of their names."""
OF_WORDS = re.compile("text|caption|sentence|description", re.IGNORECASE)
"""Names of texts that need not be questions."""
ASKS = re.compile(
    r"[?？]|\A\W*(?:what|which|who|where|when|why|how|is|are|does|do|did|can|name|give|find|list|"
    r"describe|count|select|choose|identify|answer|tell)\b|<image>",
    re.IGNORECASE,
)
"""Signs of a text that asks something."""
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
        folder = next(iter(folders_of(table.parent, ["JPEGImages"], video=True)[0]), "")
        return Draft(
            layout,
            table,
            media={"folder": folder or "."},
            answer={"form": "mask_track"},
            doubts={} if folder else {"media.folder": "the folder that has JPEGImages"},
        )
    columns = file_columns(table)
    parsers = (parse for _, parse in LAYOUTS[layout](table, columns, ()))
    records = [parse() for parse in _drawn(parsers)]
    if not records:
        raise DataError(f"table {table}", expected="records", found="none")
    refuse_label_studio(table, records)
    refuse_boxes(table, records[0])
    output = _output(records) if layout == "messages" else ""
    if output and values_of(records, "labels"):  # in results of ms-swift
        records = [{n: cell for n, cell in row.items() if n != "reply"} for row in records]
    if layout == "rows":
        records = list(map(flat, records))
    columns = columns_of(records)
    empty = [
        name
        for name in columns
        if all(str(value).strip().lower() in NOTHING for value in values_of(records, name))
    ]
    of_layout = columns if layout in OBJECTS else [*empty, "conversations", "messages"]
    description = Draft(layout, table, columns=columns, of_layout=of_layout)
    description.sentences = sentences_in(records)
    draft_media(description, records)
    if layout in OBJECTS:
        description.question |= {"id": "id", "text": OBJECTS[layout]}
        if n_crowded := sum(bool(row.get("iscrowd")) for row in records):
            description.question["where"] = {"iscrowd": 0}
            description.doubts["question.where"] = (
                f"leaves out {n_crowded} of the first {len(records)} questions: right boxes in "
                "a crowd of the same category would count as wrong"
            )
        first = next(JsonFile(table, ("annotations",)).items(), None) if layout == "coco" else None
        if texts := named([first.parse()], "question") if first else []:
            doubt = f"annotations have {texts[0]}: is it asked? Then write a record for each"
            description.doubts["question.text"] = doubt
        if layout == "captions" and any(row["phrase"] != row["caption"] for row in records):
            asked = {(row["image"], row["caption"]) for row in records}
            description.question["text"] = "phrase" if len(asked) < len(records) else "caption"
            description.doubts["question.text"] = "phrase, or caption? Phrases are parts of it"
        description.answer |= {"form": "boxes", "field": "boxes", "written": "xyxy"}
        return description
    draft_question(description, records)
    leave_out_texts(description, records)
    turns = [row["conversations"] for row in records] if layout == "llava" else []
    if any(isinstance(listed, list) and len(listed) > 2 for listed in turns):
        doubt = "the first turn alone: a system's and later ones of a conversation are left out"
        description.doubts["question.text"] = doubt
    if description.layout == "messages" and any(len(_spoken(row)) > 1 for row in records):
        doubt = "the last message of the user alone: a system's and earlier ones are left out"
        description.doubts["question.text"] = doubt
    draft_answer(description, records)
    if output and description.answer.get("field") == "reply":
        description.doubt("answer.field", f"or did a model write it, as {output}?")
    _doubt_points(description, records)
    _doubt_words(description, records)
    if listed := of_questions(table, records):
        description.doubts["question.text"] = listed
    elif second := of_second_file(table, records):
        description.doubt("answer.form", second)
    text = description.question["text"]
    if text != CHECK and any(not is_absent(row.get("hint")) for row in records):
        text = text if "{" in str(text) else f"{{{text}}}"
        description.question["text"] = f"{{hint}}\n{text}"  # as in VLMEvalKit's MMBench
        if not {"A", "B"} <= {*columns}:
            description.doubt(
                "question.text", "is the hint shown, or does it give the answer away?"
            )
    return description


def _drawn(parsers: Iterator[T]) -> list[T]:
    """Return the first `LOOKED_AT` members, and as many of the next ones to `SCANNED`, in order."""
    first = list(islice(parsers, LOOKED_AT))
    random, drawn = Random(0), list[tuple[int, T]]()
    for number, parser in enumerate(islice(parsers, SCANNED - LOOKED_AT)):
        if len(drawn) < LOOKED_AT:
            drawn.append((number, parser))
        elif (slot := random.randrange(number + 1)) < LOOKED_AT:
            drawn[slot] = number, parser
    return first + [parser for _, parser in sorted(drawn, key=itemgetter(0))]


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


def _spoken(row: Record) -> list[object]:
    """Return the messages of the system and the user in a record of chat messages."""
    listed = plain_value(row.get("messages", row.get("conversations")))
    messages = listed if isinstance(listed, list) else []
    roles = [message.get("role") for message in messages if isinstance(message, dict)]
    return [role for role in roles if role in ("system", "user")]


def _doubt_points(description: Draft, records: Sequence[Record]) -> None:
    """Add a doubt if records have points, which are not read as ground truth."""
    field = description.answer.get("field")
    for name in (name for name in columns_of(records) if "point" in name.lower() and name != field):
        if any(map(are_points, values_of(records, name))):
            doubt = f"{name} alone are not scored: are boxes or masks around them, or their number?"
            if re.search(r"-1(?:\.0*)?\W+-1\b", str(values_of(records, name))):
                doubt += " Points of -1 and -1 stand for none, and do not count"
            if not field:
                description.doubts["answer.form"] = doubt
            description.doubts.setdefault("answer.form", doubt)


def _doubt_words(description: Draft, records: Sequence[Record]) -> None:
    """Add a doubt about texts that ask nothing: the words on a meme, beside its label."""
    name = str(description.question["text"])
    places = ("boxes", "points", "mask", "interval", "mask_track")
    if OF_WORDS.fullmatch(name.rpartition(".")[2]) and description.answer["form"] not in places:
        texts = list(map(str, values_of(records, name)))
        if 2 * sum(bool(ASKS.search(text)) for text in texts) < len(texts):
            description.doubt(
                "question.text",
                "is it asked, or are they words of the image? constant = … in place of text asks "
                "one question of all",
            )


def _refuse_panoptic(table: Path) -> None:
    """Raise DataError for COCO's panoptic file, whose annotations are lists of segments."""
    first = next(JsonFile(table, ("annotations",)).items(), None)
    annotation = None if first is None else first.parse()
    if not isinstance(annotation, dict) or "segments_info" not in annotation:
        return
    typed = f"`jq {quote(OF_SEGMENTS)} {quote(table.name)} > {new_name(table.name, '.json')}`"
    raise DataError(
        f"file {table}",
        expected="an annotation for each object",
        found="COCO's panoptic segments, whose masks lie in images beside",
        fix=f"{typed} makes one for each segment, with its box: the masks of the images are not "
        "read.",
    )


def _refuse_first_line(table: Path) -> None:
    """Raise DataError for JSON lines below one that is not a record: names of lists, or others."""
    plain = []
    with suppress(ValueError, FileNotFoundError):  # said where the lines are read
        plain = [json.loads(line) for _, _, line in islice(lines_of(table, MAX_LINE), 2)]
    kind = type(plain[0]) if len(plain) == 2 and type(plain[0]) is type(plain[1]) else None
    fix = f"`tail -n +2 {quote(table.name)} > {new_name(table.name, '.jsonl')}` leaves it out."
    if kind is list:
        typed = f"`jq -cs {quote(OF_LISTS)} {quote(table.name)} > {new_name(table.name)}`"
        fix = f"{typed}, named NEW.jsonl, makes records, if it has the names of the values."
    elif kind is not dict or {*plain[0]} & {*plain[1]} or not plain[0]:
        return
    elif named(plain[:1], "question") and named(plain[:1], "answer"):
        return  # a record with other names
    found = str([*plain[0]])[:80]
    raise DataError(f"{table}, line 1", expected="a record as below", found=found, fix=fix)


def _layout(table: Path) -> str:
    """Return the layout that the keys of a file or of its first record show."""
    if table.suffix.lower() == ".json":
        try:
            (keys,) = [{key for key, _ in JsonFile(table).members()}]
        except DataError:
            keys = set()
        if keys == {"videos"}:
            return VIDEOS
        is_coco = {"images", "annotations"} <= keys
        is_coco &= "descriptions" not in keys or "categories" in keys
        if is_coco and "categories" not in keys:
            refuse_captions(table)
        if is_coco:
            _refuse_panoptic(table)
            first = next(JsonFile(table, ("images",)).items(), None)
            entry = None if first is None else first.parse()
            return "captions" if isinstance(entry, dict) and "caption" in entry else "coco"
        if len(keys) == 1:
            refuse_half(table)
    if table.suffix.lower() == ".jsonl":
        _refuse_first_line(table)
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
