"""The question of a description: its text, its id, its options and its categories."""

import json
import re
from collections.abc import Sequence
from string import ascii_uppercase

from harness.formats.tables import DATE
from harness.tasks.table.description import CHECK
from harness.tasks.table.draft_fields import NAMES, Draft, field_names, named, values_of
from harness.tasks.table.draft_options import (
    are_lettered,
    are_lettered_lines,
    letters_in,
    objects_texts,
    option_columns,
    with_answer,
    with_options,
)
from harness.tasks.table.nested import OPTIONS, at_path
from harness.tasks.table.rows import FILE, Record

SPLIT = re.compile(r"(?:.*_)?(?:split|subset|partition)", re.IGNORECASE)
"""Names of fields of a record's split."""
OF_ANSWER = re.compile(f"{NAMES['answer']}|{OPTIONS}", re.IGNORECASE)
"""Names of objects whose index is not that of the question."""
OWN_ID = re.compile(r"(?:question_?|sample_?|q_?)?u?id", re.IGNORECASE)
"""Names of the id of a question, by which predictions may name it."""
OF_WRONG = re.compile(
    r"(?:.*_)?(?:foil|neg(?:ative)?|false|wrong|incorrect|distractor)s?(?:_\w+)?", re.IGNORECASE
)
"""Names of a wrong text beside the right one."""
SPLITS = ("test", "val", "dev", "train")
"""Beginnings of the names of splits, those that are evaluated first."""


def draft_question(description: Draft, records: Sequence[Record]) -> None:
    """Fill in what is known of the question."""
    question = description.question
    fields = [
        name
        for name in named(records, "question")
        if all(isinstance(value, str) for value in values_of(records, name))
    ]
    question["text"] = fields[0] if fields else CHECK
    answered = [name for name in named(records, "answer") if name not in fields]
    texts = [name for name, value in records[0].items() if isinstance(value, str)]
    if not fields:
        description.doubts["question.text"] = (
            f"the field of the question, of {field_names(records)}; or constant = … in place of "
            "text, if all ask the same"
        )
    elif fields[0].rpartition(".")[2].lower() == "description":
        description.doubts["question.text"] = "is it what the model is asked to find?"
    elif wrong := "" if answered else next(filter(OF_WRONG.fullmatch, texts), ""):
        right = f"is {fields[0]} right, and {wrong} wrong? Then "
        description.doubts["question.text"] = right + with_answer(
            description.table, [wrong], fields[0]
        )
    elif len(fields) > 1 and fields[0].rpartition(".")[2].lower() != "question":
        description.doubts["question.text"] = f"or {' or '.join(fields[1:])}?"
    for name in named(records, "id"):
        if OF_ANSWER.fullmatch(name.rpartition(".")[0].rpartition(".")[2]):
            continue
        values = [str(row.get(name)) for row in records]
        if len(set(values)) == len(values) and not values[0].startswith("["):  # of objects
            question["id"] = name
            break
    else:
        _draft_joint_id(description, records)
        repeated = [name for name in named(records, "id") if OWN_ID.fullmatch(name)]
        if repeated and "id" not in question:
            doubt = f"{repeated[0]} repeats: ids are the numbers of records, from 0"
            description.doubt("question.text", doubt)
    _draft_options(description, records)
    _draft_split(description, records)
    kinds = {
        name: name
        for name in named(records, "category")
        if 1 < len({str(value) for value in values_of(records, name)}) <= len(records) / 2
    }
    if kinds:
        question["categories"] = kinds


def _draft_split(description: Draft, records: Sequence[Record]) -> None:
    """Keep the records of one split where a table has those of several."""
    for name in filter(SPLIT.fullmatch, records[0]):
        values = list(dict.fromkeys(str(value) for value in values_of(records, name)))
        splits = [value for value in values if value.lower().startswith(SPLITS)]
        if len(splits) > 1 and splits == values:
            kept = next(v for split in SPLITS for v in splits if v.lower().startswith(split))
            description.question["where"] = {name: kept}
            description.doubts["question.where"] = (
                f"records are of {', '.join(splits)}: this keeps {kept}; without the line, all stay"
            )
            return


def _draft_joint_id(description: Draft, records: Sequence[Record]) -> None:
    """Join the name of the image or video to an id that is unique in it alone, as in NExT-QA."""
    media = named(records, "video") or named(records, "image")
    for name in (name for name in named(records, "id") if re.search("id$", name, re.I)):
        if any(isinstance(value, list) for value in values_of(records, name)):
            continue
        values = [f"{row.get(media[0])}_{row.get(name)}" for row in records] if media else []
        if values and len(set(values)) == len(values) and name != media[0]:
            description.question["id"] = f"{{{media[0]}}}_{{{name}}}"
            return


def _draft_options(description: Draft, records: Sequence[Record]) -> None:
    """Look for options in lists, in lettered texts, or in a column each."""
    question, listed = description.question, named(records, "options")
    taken = {question["text"], *question.values()}
    columns = option_columns([name for name in records[0] if name not in taken], records)
    lists = [
        name
        for name in listed
        if all(isinstance(value, (list, dict)) for value in values_of(records, name))
    ]
    lines = [name for name in listed if are_lettered_lines(values_of(records, name))]
    if lists:
        values = values_of(records, lists[0])
        if names := objects_texts(lists[0], [v for v in values if isinstance(v, list)]):
            question["options"] = names
            listed_texts = [[t for n in names for t in at_path(row, n)] for row in records]
            if all(map(are_lettered, listed_texts)):
                question["lettered"] = True
            return
        question["options"] = lists[0]
        _draft_list(description, lists[0], values, len(records))
        _doubt_lists(description, values)
        if all(letters_in(str(row.get(str(question["text"])))) for row in records):
            doubt = "the question's text has options too: are they asked twice?"
            description.doubt("question.options", doubt)
    elif lines:
        question |= {"options": lines[0], "lettered": True}
    elif columns:
        question["options"] = columns
        if all(FILE.fullmatch(str(row.get(name))) for row in records for name in columns):
            doubt = "they name images, and are asked as these texts: show the images in [media]"
            description.doubts["question.options"] = doubt
        if all(are_lettered([row.get(name) for name in columns]) for row in records):
            question["lettered"] = True
        cells = [str(row.get(name)) for row in records for name in columns]
        if date := next(filter(DATE.fullmatch, cells), None):
            doubt = f"{date!r} is a date: did a spreadsheet program make it of a text such as 1-2?"
            description.doubts["question.options"] = doubt
    elif listed and question["text"] != CHECK:
        counts = [letters_in(str(value)) for value in values_of(records, listed[0])]
        if all(counts):
            question["text"] = f"{{{question['text']}}}\n{{{listed[0]}}}"
            question["letters"] = ascii_uppercase[: max(counts)]
        else:
            question["options"] = listed[0]
            doubt = 'texts are not read: write lists, ["cat", "dog"], or lines with A., B., …'
            description.doubts["question.options"] = doubt


def _doubt_lists(description: Draft, values: Sequence[object]) -> None:
    """Doubt options that are lists, such as words or boxes, and not texts."""
    members = [part for value in values if isinstance(value, list) for part in value]
    if odd := next((part for part in members if isinstance(part, (list, dict))), None):
        doubt = f"{json.dumps(odd)[:60]} is not a text, and is asked as it is here: write texts"
        description.doubt("question.options", doubt)


def _draft_list(description: Draft, name: str, values: Sequence[object], n_records: int) -> None:
    """Say if all lists of options have letters; doubt them if some lack letters or are empty."""
    lists = [value for value in values if isinstance(value, list)]
    lettered = [are_lettered(value) for value in lists if value]
    if lettered and all(lettered):
        description.question["lettered"] = True
    elif any(lettered):
        doubt = f"{sum(lettered)} of {len(lettered)} lists begin with A., B., …: write all alike"
        description.doubts["question.options"] = doubt
    if empty := n_records - len(values) + len(lists) - len(lettered):
        doubt = f"{empty} of {n_records} records have none, which are questions of another form: "
        description.doubts["question.options"] = doubt + with_options(description.table, name)
