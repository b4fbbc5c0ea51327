"""Refuse annotation files of other programs, and name the command that makes records of each.

The constants are texts of the programs in these commands, in Python or for jq.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote

from harness.errors import DataError
from harness.files import open_regular
from harness.foreign import UTF_16, new_name, to_lines
from harness.tasks.table.tool_files import refuse_tool_record, refuse_tool_text
from harness.tasks.table.tracking_files import NUMBER
from harness.tasks.table.yolo_files import DATASET, FOLDER

HEAD = 4096
"""Bytes at the beginning of a text file that its form is recognised by."""
LINES = 'open(sys.argv[1], encoding="utf-8-sig")'
CHARADES = (
    '({"video": video + ".mp4", "question": text, "answer": [float(start), float(end)]} for line '
    f'in filter(str.strip, {LINES}) for head, text in [line.strip().split("##", 1)] for video, '
    "start, end in [head.split()])"
)


OF_IMAGES = (
    '[inputs | {image: (input_filename | sub("[.]txt$"; ".jpg")), row: [scan("[^[:space:],]+")]} '
    '| select(.row != [])] | group_by(.image, .row[4:])[] | {image: .[0].image, question: "CHECK", '
    'class: (.[0].row[4:] | join(" ")), boxes: map(.row[:4] | map(tonumber))}'
)
"""Program of jq for files of an image each that have a box and its class a line."""
BOX = re.compile(rf"\s*(?:{NUMBER}[\s,]+){{4}}(?:\d+\s*\Z|(?!{NUMBER}(?:[\s,]|\Z))\S)")
OF_ONES = (
    "makes lines of boxes by class, of .jpg images: write the questions; are boxes xyxy or xywh?"
)
OF_YOLO = (
    "makes lines of boxes (xyxy) in fractions, without keypoints, and counts images without an "
    "object"
)

MAX_LINE = 2**26
"""Bytes of a line of JSON that is read to recognise it."""
JSON = re.compile(r'\s*(?:\{\s*"[^"\n]*"\s*:|\[\s*\{\s*")')
"""The beginning of an object, or of a list of objects, over several lines."""
A_LINE_A_QUESTION = (
    'A table has a record for each question, such as the line {"image": "a.jpg", "question": '
    '"car", "boxes": [[10, 20, 60, 80]]} in a .jsonl file; other shapes are "mask": [[x, y, …]].'
)


LOCATIONS = re.compile(r"(?:<loc_?\d+>){4}")
"""A box as words of PaliGemma (`<loc0102>`, y first, of 1,024) or of Florence-2 (`<loc_102>`)."""
SWIFT = (
    'if type == "array" then .[] else . end '
    "| if (.objects.ref | length) == 1 and (.images | length) == 1 "
    'then (if has("id") then {id} else {} end) + {image: (.images[0] | .path? // .), '
    'question: .objects.ref[0], boxes: .objects.bbox, bbox_mode: (.objects.bbox_type // "real" | '
    'if . == "norm1" then "XYXY_REL" elif . == "real" then "XYXY_ABS" else '
    'error("bbox_type \\(.)") end)} else error("several images or names") end'
)
"""Program of jq for a line of ms-swift's grounding data with one image and one name."""


def refuse_text(path: Path) -> None:
    """Raise DataError if a file of text that is not a table has JSON or annotations."""
    suffix = path.suffix.lower()
    with open_regular(path) as file:
        line = file.readline(MAX_LINE)
        raw = (line + file.read(HEAD))[:HEAD]
    head = raw.decode("utf-8", "replace").lstrip("\ufeff")
    if raw.startswith(UTF_16):
        table = new_name(path.name, ".tsv" if b"\t" in raw else ".csv")
        fix = f"`iconv -f utf-16 -t utf-8 {quote(path.name)} > {table}` makes a table of it."
        raise DataError(f"file {path}", expected="a table", found="text in UTF-16", fix=fix)
    refuse_tool_text(path, head)
    if like := _json_suffix(line.decode("utf-8", "replace"), head):
        name, table = path.name, path.with_suffix(like).name
        if path.with_name(table).exists():  # which `cp` would replace
            table = new_name(name, like)
        raise DataError(
            f"file {path}",
            expected="a table whose name says its format",
            found="JSON lines" if like == ".jsonl" else "JSON",
            fix=f"`cp {quote(name)} {quote(table)}` gives it the name.",
        )
    header, *after = head.splitlines()[:2] or [""]
    is_named = suffix in (".csv", ".tsv")
    if after and not is_named and "\t" in header and header.count("\t") == after[0].count("\t"):
        fix = f"`cp {quote(path.name)} {quote(path.with_suffix('.tsv').name)}` gives it the name."
        content = f"cells between tabs in a file named {suffix}"
        raise DataError(f"file {path}", expected="a table", found=content, fix=fix)
    first = header.split()
    below = after[0].split() if after else []
    if not is_named and len(first) == len(below) > 1 and _are_columns(first, below):
        fix = f"`tr -s ' ' '\\t' < {quote(path.name)} > {new_name(path.name, '.tsv')}` makes one."
        raise DataError(f"file {path}", expected="a table", found="cells between blanks", fix=fix)
    if suffix == ".txt" and "##" in header:
        form, end = "lines of Charades-STA", "makes lines of intervals in seconds"
        typed = to_lines(CHARADES, path.name)
    elif suffix == ".txt" and len(first) > 4 and all(map(_is_fraction, first[1:5])):
        form, end = "boxes of an image, as YOLO has them", OF_YOLO
        if dataset := _yolo_dataset(path):
            raise DataError(
                f"file {path}",
                expected="a table",
                found=form,
                fix=f"`harness data init {quote(str(dataset))}` prints the command for all.",
            )
        end += "; classes.txt has the name of a class a line"
        typed = _yolo_command("classes.txt *.txt")
    elif suffix == ".txt" and BOX.match(header):
        form, end = "a box and its class a line", OF_ONES
        typed = f"`jq -Rnc {quote(OF_IMAGES)} *.txt > {new_name(path.name)}`"
    elif suffix in (".yaml", ".yml") and DATASET.search(head):
        form, end = "a data set of YOLO (Ultralytics)", OF_YOLO
        stated = FOLDER.search(head)
        labels = stated[1].rstrip("/").replace("images", "labels") if stated else "labels"
        typed = _yolo_command(f"{quote(path.name)} {labels}/*.txt")
        end += "; it names the labels of one split"
    else:
        return
    raise DataError(
        f"file {path}", expected="a table", found=form, fix=f"{typed}, named NEW.jsonl, {end}."
    )


def _yolo_command(given: str) -> str:
    """Return the command for the files of names and labels that are given to it."""
    module = "harness.tasks.table.yolo_files"
    return to_lines(f"{module}.yolo(sys.argv[1:])", "FILES", module).replace(
        " FILES ", f" {given} "
    )


def _yolo_dataset(labels: Path) -> Path | None:
    """Return the data.yaml of a file of labels, which is in a folder above; None without one."""
    above = labels.absolute().parents[:4]
    places = (folder / name for folder in above for name in ("data.yaml", "data.yml"))
    return next((path for path in places if path.is_file()), None)


def _json_suffix(line: str, head: str) -> str:
    """Return the suffix of a table for a file of JSON by its first line and beginning; else ""."""
    try:
        plain = json.loads(line.lstrip("\ufeff"))
    except (ValueError, RecursionError):
        return ".json" if JSON.match(head) else ""
    if isinstance(plain, dict):
        lists = [value for value in plain.values() if isinstance(value, list) and value]
        is_whole = not head[len(line) :].strip() and any(isinstance(v[0], dict) for v in lists)
        return ".json" if is_whole else ".jsonl"
    is_list = isinstance(plain, list) and bool(plain) and isinstance(plain[0], dict)
    return ".json" if is_list else ""


def _are_columns(names: Sequence[str], cells: Sequence[str]) -> bool:
    """Return True for names of columns above cells, of which some are numbers."""
    number = re.compile(NUMBER)
    return all(map(str.isidentifier, names)) and any(map(number.fullmatch, cells))


def _is_fraction(text: str) -> bool:
    """Return True for the text of a number from 0 to 1."""
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False


def refuse_locations(path: Path, record: Mapping[str, object]) -> None:
    """Raise DataError if a text of the first record has boxes as PaliGemma or Florence-2 do."""
    field = next((name for name, cell in record.items() if LOCATIONS.search(str(cell))), "")
    if field and path.suffix.lower() == ".jsonl":
        module = "harness.tasks.table.line_files"
        rows = f"{module}.locations(sys.argv[1], {field!r})"
        raise DataError(
            f"table {path}: {field!r}",
            expected="an answer",
            found="boxes as words of PaliGemma or Florence-2",
            fix=f"{to_lines(rows, path.name, module)}, named NEW.jsonl, makes lines of boxes "
            "(xyxy) in fractions, by name.",
        )


def refuse_boxes(path: Path, record: Mapping[str, object]) -> None:
    """Raise DataError if the first record of a table is a box, or a line of ms-swift's objects."""
    refuse_tool_record(path, record)
    refuse_locations(path, record)
    objects = record.get("objects")
    if isinstance(objects, Mapping) and {"ref", "bbox"} <= objects.keys():
        command = f"`jq -c {quote(SWIFT)} {quote(path.name)} > {new_name(path.name)}`"
        raise DataError(
            f"table {path}: 'objects'",
            expected="an answer",
            found="boxes by the order of names, as ms-swift has them",
            fix=f"{command}, named NEW.jsonl, makes lines of boxes (xyxy).",
        )
