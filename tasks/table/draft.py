"""A first description of a table from its fields; what they leave open is marked."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from harness.errors import DataError, HarnessError, raised_as
from harness.formats.tables import DATE
from harness.layout import JsonFile
from harness.media import open_image
from harness.tasks.table.cells import BASE64, BASE64_LENGTH, is_absent, is_empty, plain_value
from harness.tasks.table.description import VIDEOS, AnswerField
from harness.tasks.table.draft_options import are_lettered_lines, letters_of_lines, option_columns
from harness.tasks.table.draft_truth import Size, Values
from harness.tasks.table.layouts import LAYOUTS
from harness.tasks.table.rows import Record, table_records
from harness.tasks.table.truth import mask_of

LOOKED_AT = 200
"""Records from which a description is drafted."""
MASKS = 20
"""Masks that are looked at."""
OBJECTS: Mapping[str, str] = {"coco": "category", "captions": "caption", "odvg": "phrase"}
"""Fields of the question in layouts of objects, whose boxes are known to be (left, top, right,
bottom) in pixels."""
CHECK = "CHECK"
"""Mark of what a draft could not know."""
NAMES: Mapping[str, str] = {
    "image": r"images?(_path|_file|_name)?|img(_path)?|image_\d+|picture|file_?name",
    "video": r"videos?(_path|_file|_name|_id)?|vid",
    "question": r"question|query|prompt|instruction|caption|phrase|expression|sentence|ref|text",
    "options": r"options|choices|candidates",
    "answer": r"answers?|ground_?truth|gt(_answer)?|solution|target|label|correct(_answer)?|"
    r"count|bbox|boxe?s|mask|masks|segmentation|timestamps?|interval|span",
    "id": r"(question_?|sample_?|q)?id|index|idx|uid",
    "category": r"(l2-)?category|task(_type)?|type|question_type|subset|topic|dataset",
}
"""Names of fields by what they hold, in the order of preference."""


@dataclass
class Draft:
    """What is known of a table; values that are guesses have a word on why."""

    layout: str
    root: Path
    """Folder of the table."""
    media: dict[str, object] = field(default_factory=dict)
    question: dict[str, object] = field(default_factory=dict)
    answer: dict[str, object] = field(default_factory=dict)
    scoring: dict[str, object] = field(default_factory=dict)
    doubts: dict[str, str] = field(default_factory=dict)
    """What to check, by `section.key`."""

    def toml(self, name: str) -> str:
        """Return the description's text, with a comment beside each doubt."""
        lines = [f"name = {_plain(name)}"]
        if self.layout != "rows":
            lines.append(f"layout = {_plain(self.layout)}")
        for section in ("media", "question", "answer", "scoring"):
            lines += ["", f"[{section}]"] if getattr(self, section) else []
            for key, value in getattr(self, section).items():
                doubt = self.doubts.get(f"{section}.{key}")
                lines.append(
                    f"{key} = {_plain(value)}" + (f"  # {CHECK}: {doubt}" if doubt else "")
                )
        return "\n".join(lines) + "\n"


def draft(table: Path) -> Draft:
    """Look at the first records of a table.

    Raises:
        DataError: it cannot be read, or holds no record.
    """
    layout = _layout(table)
    if layout == VIDEOS:
        folder = _folder_of(table.parent, ["JPEGImages"], video=True)[0]
        return Draft(
            layout,
            table.parent,
            media={"folder": folder or "."},
            answer={"form": "mask_track"},
            doubts={} if folder else {"media.folder": "the folder that has JPEGImages"},
        )
    columns = _columns(table)
    parsed = [parse for _, parse in islice(LAYOUTS[layout](table, columns, ()), LOOKED_AT)]
    records = [parse() for parse in parsed]
    if not records:
        raise DataError(f"table {table}", expected="records", found="none")
    description = Draft(layout, table.parent)
    _draft_media(description, records)
    if layout in OBJECTS:
        description.question |= {"id": "id", "text": OBJECTS[layout]}
        description.answer |= {"form": "boxes", "field": "boxes", "written": "xyxy"}
        return description
    _draft_question(description, records)
    _draft_answer(description, records)
    return description


def _columns(table: Path) -> Sequence[str]:
    """Return the columns of a Parquet file; () of other tables, which are read whole."""
    if table.suffix.lower() != ".parquet":
        return ()
    from pyarrow import ArrowException, parquet

    with raised_as(DataError, f"table {table}", "a Parquet file", OSError, ArrowException):
        names: list[str] = parquet.read_schema(table).names
    return names


def _layout(table: Path) -> str:
    if table.suffix.lower() == ".json":
        try:
            (keys,) = [{key for key, _ in JsonFile(table).members()}]
        except DataError:
            keys = set()
        if keys == {"videos"}:
            return VIDEOS
        if {"images", "annotations"} <= keys:
            first = next(JsonFile(table, ("images",)).items(), None)
            entry = None if first is None else first.parse()
            return "captions" if isinstance(entry, dict) and "caption" in entry else "coco"
    first_record = next((parse() for _, parse in table_records(table, _columns(table))), {})
    if "conversations" in first_record:
        return "llava"
    if "messages" in first_record:
        return "messages"
    if "filename" in first_record and {"detection", "grounding"} & first_record.keys():
        return "odvg"
    return "rows"


def _named(records: Sequence[Record], what: str) -> list[str]:
    """Return the fields whose name is one for `what` and that have a value, the best first."""
    names = [name for name in records[0] if any(not is_empty(row.get(name)) for row in records)]
    patterns = NAMES[what].split("|") if "(" not in NAMES[what] else [NAMES[what]]
    return [name for pattern in patterns for name in names if re.fullmatch(pattern, name, re.I)]


def _values(records: Sequence[Record], name: str) -> list[object]:
    return [plain_value(row[name]) for row in records if not is_empty(row.get(name))]


def _draft_media(description: Draft, records: Sequence[Record]) -> None:
    for kind, key in (("image", "images"), ("video", "video")):
        fields = list(dict.fromkeys(_named(records, kind)))
        if not fields:
            continue
        numbered = [name for name in fields if re.search(r"\d$", name)]
        description.media[key] = numbered if len(numbered) > 1 and key == "images" else fields[0]
        names = _file_names(_values(records, fields[0]))
        if names:
            folder, suffix = _folder_of(description.root, names, video=key == "video")
            description.media["folder"] = folder or "."
            if suffix:
                description.media[key] = f"{{{fields[0]}}}{suffix}"
            if folder is None:
                description.doubts["media.folder"] = (
                    f"no folder beside the table holds {names[0]!r}"
                )
        return
    description.media["images"] = CHECK
    description.doubts["media.images"] = (
        f"the field of the image, or video = …, of {_fields(records)}"
    )


def _file_names(values: Sequence[object]) -> list[str]:
    flat = [part for value in values for part in (value if isinstance(value, list) else [value])]
    named = [
        part.get("path") if isinstance(part, dict) and not part.get("bytes") else part
        for part in flat
    ]
    return [
        name
        for name in named
        if isinstance(name, str)
        and not name.startswith(("data:", "http"))
        and not name.isdecimal()
        and not (len(name) >= BASE64_LENGTH and BASE64.fullmatch(name))
    ]


def _folder_of(root: Path, names: Sequence[str], *, video: bool) -> tuple[str | None, str]:
    """Return the folder beside the table in which the first names are files, and a suffix that
    they lack; None if there is none.
    """
    folders = [root, *sorted(path for path in root.iterdir() if path.is_dir())]
    folders += [
        path for folder in folders[1:] for path in sorted(folder.iterdir()) if path.is_dir()
    ]
    suffixes = ["", ".mp4", ".webm", ".mkv", ".avi"] if video else ["", ".jpg", ".png", ".jpeg"]
    for suffix in suffixes:
        for folder in folders:
            if all((folder / f"{name}{suffix}").exists() for name in names[:5]):
                return str(folder.relative_to(root)), suffix
    return None, ""


def _draft_question(description: Draft, records: Sequence[Record]) -> None:
    question = description.question
    fields = [
        name
        for name in _named(records, "question")
        if all(isinstance(value, str) for value in _values(records, name))
    ]
    question["text"] = fields[0] if fields else CHECK
    if not fields:
        description.doubts["question.text"] = f"the field of the question, of {_fields(records)}"
    for name in _named(records, "id"):
        values = [str(row.get(name)) for row in records]
        if len(set(values)) == len(values):
            question["id"] = name
            break
    options = next(
        (
            name
            for name in _named(records, "options")
            if all(isinstance(value, (list, dict)) for value in _values(records, name))
        ),
        None,
    )
    columns = option_columns(
        [name for name in records[0] if name not in {question["text"], *question.values()}], records
    )
    lines = next(
        (name for name in _named(records, "options") if are_lettered_lines(_values(records, name))),
        None,
    )
    if options is not None:
        question["options"] = options
        texts = [value for value in _values(records, options) if isinstance(value, list)]
        marked = re.compile(r"\s*\(?[A-Z][.):]")
        if texts and all(marked.match(str(text)) for text in texts[0]):
            question["lettered"] = True
    elif lines is not None:
        question |= {"options": lines, "lettered": True}
    elif columns:
        question["options"] = columns
        cells = [str(row.get(name)) for row in records for name in columns]
        if date := next(filter(DATE.fullmatch, cells), None):
            doubt = f"{date!r} is a date: did a spreadsheet program make it of a text such as 1-2?"
            description.doubts["question.options"] = doubt
    kinds = {
        name: name
        for name in _named(records, "category")
        if 1 < len({str(value) for value in _values(records, name)}) <= len(records) / 2
    }
    if kinds:
        question["categories"] = kinds


def _draft_answer(description: Draft, records: Sequence[Record]) -> None:
    taken = {description.question.get("text"), description.question.get("id")}
    fields = [name for name in _named(records, "answer") if name not in taken]
    if not fields:
        description.answer["form"] = "text"
        doubt = "the form of the answer; no field of a ground truth was found"
        description.doubts["answer.form"] = doubt
        return
    answered = [row for row in records if not is_empty(row.get(fields[0]))]
    truth = Values(
        fields[0],
        _values(answered, fields[0]),
        [_size(description, row) for row in answered],
        _options_of(description, answered),
        "video" in description.media,
        [str(row.get(str(description.question["text"]))) for row in answered],
        columns if isinstance(columns := description.question.get("options"), list) else (),
    ).truth()
    description.answer |= {"form": truth.form, "field": fields[0]} | truth.keys
    description.doubts |= {f"answer.{key}": doubt for key, doubt in truth.doubts.items()}
    if truth.keys.get("written") == "option" and (odd := _not_an_option(description, answered)):
        description.doubts["answer.written"] = f"{odd!r} is not the text of an option"[:120]
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


def _draft_mask_images(description: Draft, records: Sequence[Record]) -> None:
    """Doubt masks of which most are white on more than half of the image."""
    name = str(description.answer["field"])
    folder = Path(description.root, str(description.media.get("folder", ".")))
    field_of_masks = AnswerField(form="mask", field=name, written="image")
    shares = []
    for row in records[:MASKS]:
        try:
            mask = mask_of(row[name], field_of_masks, (0, 0), folder, name).to_array()
        except HarnessError:
            continue  # `data check` names it
        shares.append(mask.mean())
    if shares and sum(share > 0.5 for share in shares) > len(shares) / 2:
        doubt = "most are white on more than half of the image: is white the object?"
        description.doubts["answer.field"] = doubt


def _options_of(description: Draft, records: Sequence[Record]) -> list[int] | None:
    options = description.question.get("options")
    if isinstance(options, list):
        return [sum(not is_absent(row.get(name)) for name in options) for row in records]
    if options is None:
        return None
    return [
        len(value) if isinstance(value, (list, dict)) else letters_of_lines(str(value))
        for row in records
        for value in [plain_value(row[str(options)])]
    ]


def _not_an_option(description: Draft, records: Sequence[Record]) -> str | None:
    """Return the first answer that is not the text of an option of its question."""
    options, field = description.question.get("options"), str(description.answer["field"])
    for row in records:
        texts = plain_value(row.get(options)) if isinstance(options, str) else None
        if isinstance(options, list):
            texts = [row.get(name) for name in options]
        known = {str(text).strip() for text in texts} if isinstance(texts, list) else set()
        if known and str(row[field]).strip() not in known:
            return str(row[field])
    return None


def _size(description: Draft, row: Record) -> Size:
    """Return width and height of a record's image, if it is a file."""
    name = plain_value(row.get(str(description.media.get("images"))))
    name = name[0] if isinstance(name, list) and name else name
    try:
        path = Path(description.root, str(description.media.get("folder")), str(name))
        return open_image(path).size if isinstance(name, str) else None
    except DataError:
        return None


def _fields(records: Sequence[Record]) -> str:
    return ", ".join(records[0])


def _plain(value: object) -> str:
    """Return a value as TOML has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return (
            "{ "
            + ", ".join(f"{_plain(key)} = {_plain(item)}" for key, item in value.items())
            + " }"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_plain, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
