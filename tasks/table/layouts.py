"""Make rows of files that do not have a record per row, each layout with fields of its own.

| layout | a row is | its fields |
|---|---|---|
| `llava` | the first question of a conversation | the record's own, `question`, `answer` |
| `messages` | the last user message of a record | its own, `question`, `images`, `reply` |
| `coco` | a category in an image | `image`, `category`, `boxes`, `masks`, `count`, `iscrowd` |
| `captions` | a phrase of a caption (MDETR's) | `image`, `caption`, `phrase`, `boxes`, `masks` |
| `odvg` | a phrase or a category of an image | as `captions`, but masks; `count`, `iscrowd` |

Boxes are (left, top, right, bottom) in pixels; masks are COCO's segmentations.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from harness.errors import DataError
from harness.foreign_lines import command
from harness.layout import JsonFile, field
from harness.tasks.refer.annotations import refuse_other_order
from harness.tasks.table.cells import numbers, plain_value
from harness.tasks.table.nested import nested_records
from harness.tasks.table.rows import Record, table_records
from harness.tasks.table.unread_fields import MEDIA, NO_OBJECT, is_uncounted, refuse_marks

Rows: TypeAlias = Iterator[tuple[str, Callable[[], Record]]]
Columns: TypeAlias = Collection[str]
Layout: TypeAlias = Callable[[Path, Columns, Columns], Rows]
IMAGE = "<image>"
CONVERSATIONS = "conversations"
PLACEHOLDER = re.compile(r"<\w+>")
"""A mark in a text, such as `<s0>`, whose value VTimeLLM has in another field."""
FILLED = (
    '(if type == "array" then .[] else . end) | getpath(%s) as $values | .conversations[].value '
    "|= reduce ($values | to_entries[]) as $entry (.; split($entry.key) "
    "| join($entry.value | tostring))"
)
"""Program of jq that writes values, which lie at a path of keys, in place of their marks."""
TYPES: Mapping[str, tuple[type, ...]] = {"bbox": (list,), "file_name": (str,), "caption": (str,)}
"""Types of fields of COCO's entries; ids and names are texts or numbers."""
SIZE = "stated size"
"""Key of a row for [width, height] of its image as the file has them, or None."""


def llava(path: Path, columns: Columns = (), optional: Columns = ()) -> Rows:
    """Yield the first question of each conversation of a LLaVA file, and its answer."""
    for where, parse in table_records(path, ("conversations",), (*columns, *optional)):
        yield where, partial(_first_turn, parse, where, path, {*columns, *optional})


def _first_turn(parse: Callable[[], Record], where: str, table: Path, named: Columns) -> Record:
    """Return a record with its first question and answer as fields.

    Fields of its own with these names are called `own_question` and `own_answer`. The values of
    marks are not looked for in the fields `named`, which the description reads.
    """
    record = parse()
    turns = field(record, "conversations", list, where)
    if turns and isinstance(turns[0], dict) and turns[0].get("from") == "system":
        turns = turns[1:]
    texts = [field(turn, "value", str, f"{where}: 'conversations'") for turn in turns[:2]]
    speakers = [turn.get("from") for turn in turns[:2]]
    if len(turns) < 2 or speakers[0] not in ("human", "user"):
        raise DataError(
            f"{where}: 'conversations'",
            expected="a turn of human, and one of gpt",
            found=", ".join(map(repr, speakers)) or "none",
        )
    for path, values in _objects(record):
        marks = [name for name in values if _is_placeholder(name)]
        if used := [mark for mark in marks if any(mark in text for text in texts)]:
            raise DataError(
                f"{where}: 'conversations'",
                expected="texts without marks for other values",
                found=f"{used[0]}, whose value is in {'.'.join(path)!r}",
                fix=f"{command(FILLED % json.dumps(path), table.name)}, named NEW.jsonl, fills "
                "them in.",
            )
    refuse_marks(record, texts[:1], texts[1], named, f"{where}: 'conversations'")
    turn = {
        "question": texts[0].replace("<video>", "").replace(IMAGE, "").strip(),
        "answer": texts[1].strip(),
    }
    own = {f"own_{name}": record[name] for name in turn if name in record}
    return {**record, **own, **turn}


def _is_placeholder(name: str) -> bool:
    """Return True for a mark of a value; `<image>` is one of a medium."""
    return bool(PLACEHOLDER.fullmatch(name)) and not MEDIA.fullmatch(name[1:-1])


def _objects(
    plain: object, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Mapping[str, object]]]:
    """Yield (keys that lead to it, object) for each object below `plain`."""
    for name, value in plain.items() if isinstance(plain, dict) else ():
        if isinstance(value, dict):
            yield (*path, name), value
            yield from _objects(value, (*path, name))


def messages(path: Path, columns: Columns = (), optional: Columns = ()) -> Rows:
    """Yield the last user message of each record of chat messages, as OpenAI's API has them."""
    listed = ("messages", CONVERSATIONS)
    for where, parse in table_records(path, (), (*listed, *columns, *optional)):
        yield where, partial(_last_user_message, parse, where)


def _last_user_message(parse: Callable[[], Record], where: str) -> Record:
    """Return a record with the texts and images of its last user message as fields."""
    record = parse()
    key = "messages" if "messages" in record else CONVERSATIONS
    listed = plain_value(record.get(key))
    messages = [
        entry for entry in (listed if isinstance(listed, list) else ()) if _is_spoken(entry)
    ]
    users = [place for place, entry in enumerate(messages) if entry["role"] == "user"]
    if not users:
        raise DataError(
            f"{where}: {key!r}", expected="a message of the user", found=repr(listed)[:60]
        )
    parts = _parts(messages[users[-1]], f"{where}: {key!r}")
    images = [image for part in parts if (image := _part_image(part)) is not None]
    row = {**record, "question": _said(parts), "images": images or record.get("images")}
    if "image" in record and not row["images"]:
        del row["images"]
    spoken = [entry for entry in messages[users[-1] + 1 :] if entry["role"] == "assistant"]
    replies = [text for entry in spoken[-1:] if (text := _said(_parts(entry, where)).strip())]
    return row | ({"reply": replies[0]} if replies else {})


def _is_spoken(entry: object) -> bool:
    """Return True for a message of someone."""
    return isinstance(entry, dict) and isinstance(entry.get("role"), str)


def _parts(message: Mapping[str, Any], where: str) -> Sequence[Mapping[str, Any]]:
    """Return the parts of a message; a text is the only one, and null has none."""
    content = message.get("content")
    parts: object = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if isinstance(parts, list) and all(isinstance(part, dict) for part in parts):
        return parts
    if parts is None:
        return []
    raise DataError(
        f"{where}: 'content'",
        expected="a text, or a list of parts, which are objects",
        found=repr(content)[:60],
    )


def _said(parts: Sequence[Mapping[str, Any]]) -> str:
    """Return the texts of a message's parts."""
    texts = [part.get("text") for part in parts if part.get("type") == "text"]
    return "\n".join(str(text) for text in texts if text is not None)


def _part_image(part: Mapping[str, Any]) -> object:
    """Return the image of a part of a message; None if it has none."""
    image = part.get("image_url", part.get("image"))
    return image.get("url") if isinstance(image, dict) else image


def coco(path: Path, columns: Columns = (), optional: Columns = ()) -> Rows:
    """Yield a row for each category of an image in COCO's instances.

    Crowds, and objects to ignore, are not among its boxes and masks; `iscrowd` is 1 beside them.
    So it is for all questions of an image with a region to ignore, and for a category of which an
    image has objects that are not annotated, as LVIS says, and TAO of its video.
    """
    named = _by_id(path, "categories", ("id", "name"))
    names = {number: str(entry["name"]) for number, (_, entry) in named.items()}
    objects: dict[tuple[object, object], list[Any]] = {}
    crowds, images_with_regions = set(), set()
    for where, entry in _entries(path, "annotations", ("image_id", "category_id", "bbox")):
        if entry["category_id"] not in names:
            raise DataError(
                f"{where}: 'category_id'",
                expected="an id of categories",
                found=repr(entry["category_id"])[:40],
            )
        key = (entry["image_id"], entry["category_id"])
        if NO_OBJECT.fullmatch(names[entry["category_id"]]):
            images_with_regions.add(entry["image_id"])
        elif is_uncounted(entry):
            crowds.add(key)
        else:
            objects.setdefault(key, []).append(entry)
    listed = _by_id(path, "images").items()
    images = {number: _with_file(entry, where) for number, (where, entry) in listed}
    videos: dict[str, Mapping[str, Any]] = {}
    with suppress(DataError):  # most files have none
        videos = {str(entry["id"]): entry for _, entry in _entries(path, "videos")}
    for (image, category), entries in objects.items():
        where = f"{path}, image {image!r}, category {names[category]!r}"
        if image not in images:
            raise DataError(where, expected="an image of this id", found="none")
        is_open = any(
            isinstance(incomplete, list) and category in incomplete
            for part in (images[image], videos.get(str(images[image].get("video_id")), {}))
            for incomplete in [part.get("not_exhaustive_category_ids")]
        )
        is_open |= image in images_with_regions or (image, category) in crowds
        row = {
            "id": f"{image}/{category}",
            "image": images[image]["file_name"],
            "category": names[category],
            "count": len(entries),
            "iscrowd": int(is_open),
        }
        yield where, partial(_with_objects, row, images[image], entries, where)


def captions(path: Path, columns: Columns = (), optional: Columns = ()) -> Rows:
    """Yield a row for each phrase of a COCO file whose images have captions, as MDETR's have.

    Objects with the same `tokens_positive`, which are parts of the caption, are of one phrase. An
    object without them has the caption.
    """
    listed = _by_id(path, "images", ("id", "file_name", "caption")).items()
    images = {number: entry for number, (_, entry) in listed}
    objects: dict[tuple[object, str], list[tuple[str, Mapping[str, Any]]]] = {}
    for where, entry in _entries(path, "annotations", ("id", "image_id", "bbox")):
        if entry["image_id"] not in images:
            raise DataError(
                f"{where}: 'image_id'", expected="an id of images", found=repr(entry["image_id"])
            )
        key = str(entry.get("tokens_positive") or f"object {entry['id']}")
        objects.setdefault((entry["image_id"], key), []).append((where, entry))
    for (image_id, _), group in objects.items():
        (where, first), image = group[0], images[image_id]
        row = {**image, "id": first["id"], "image": image["file_name"]}
        row["phrase"] = _phrase(first.get("tokens_positive"), image["caption"], where)
        yield where, partial(_with_objects, row, image, [entry for _, entry in group], where)


def _phrase(spans: object, caption: str, where: str) -> str:
    """Return the parts of a caption, each from a character to another; without parts, all of it."""
    if not spans:
        return caption
    parts: list[Any] = spans if isinstance(spans, list) else [spans]
    if not all(
        isinstance(part, list)
        and len(part) == 2
        and all(type(place) is int for place in part)
        and 0 <= part[0] < part[1] <= len(caption)
        for part in parts
    ):
        raise DataError(
            f"{where}: 'tokens_positive'",
            expected=f"pairs of places in a caption of {len(caption)} characters",
            found=repr(spans)[:60],
        )
    return " ".join(caption[start:end] for start, end in parts)


def _with_objects(
    row: Record, image: Mapping[str, Any], entries: Sequence[Mapping[str, Any]], where: str
) -> Record:
    """Return a row with the boxes and masks of its objects, and the size stated for its image."""
    boxes = []
    for entry in entries:
        sides = entry["bbox"]
        numbers(sides, 4, f"{where}: 'bbox'")
        refuse_other_order(entry, where)
        boxes.append([sides[0], sides[1], sides[0] + sides[2], sides[1] + sides[3]])
    parts = [entry.get("segmentation") or [] for entry in entries]
    masks = [piece for part in parts for piece in (part if isinstance(part, list) else [part])]
    return {**row, "boxes": boxes, "masks": masks, SIZE: _stated_size(image)}


def _stated_size(image: Mapping[str, Any]) -> object:
    """Return the [width, height] that a file states for an image; None if it states none."""
    size = [image.get(side) for side in ("width", "height")]
    return size if all(type(side) is int and side > 0 for side in size) else None


def odvg(path: Path, columns: Columns = (), optional: Columns = ()) -> Rows:
    """Yield a row for each phrase, or each category, of an image in lines of ODVG."""
    for where, parse in table_records(path, ("filename",)):
        try:
            rows = _of_odvg(parse(), where)
        except DataError as error:
            yield where, partial(_raise, error)
            continue
        for row in rows:
            yield where, partial(dict, row)


def _of_odvg(record: Record, where: str) -> list[Record]:
    """Return the rows of one line of ODVG."""
    grounding, detection = (plain_value(record.get(name)) for name in ("grounding", "detection"))
    if isinstance(grounding, dict):
        regions, caption, phrase = field(grounding, "regions", list, where), grounding, "phrase"
    elif isinstance(detection, dict):
        regions, caption, phrase = field(detection, "instances", list, where), {}, "category"
    else:
        raise DataError(where, expected="'grounding' or 'detection'", found="neither")
    boxes: dict[str, list[object]] = {}
    crowds = set()
    for region in regions:
        text = field(region, phrase, str, where)
        if is_uncounted(region):
            crowds.add(text)
            continue
        box = field(region, "bbox", list, where)
        listed = box if box and isinstance(box[0], list) else [box]
        boxes.setdefault(text, []).extend(listed)
    return [
        {
            "id": f"{record['filename']}/{text}",
            "image": record["filename"],
            "caption": caption.get("caption", ""),
            "phrase": text,
            "boxes": places,
            "count": len(places),
            "iscrowd": int(text in crowds),
            SIZE: _stated_size(record),
        }
        for text, places in boxes.items()
    ]


def _raise(error: DataError) -> Record:
    """Raise the error; in place of a function that returns a record."""
    raise error


def _with_file(image: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Return an image with its file, which LVIS has as the end of an address: `val2017/1.jpg`."""
    if "file_name" in image:
        field(image, "file_name", str, where)
        return image
    if not isinstance(image.get("coco_url"), str):
        raise DataError(where, expected="file_name", found=repr(image)[:80])
    return {**image, "file_name": "/".join(image["coco_url"].split("/")[-2:])}


def _by_id(
    path: Path, name: str, keys: Sequence[str] = ("id",)
) -> dict[object, tuple[str, Mapping[str, Any]]]:
    """Return (place for errors, entry) by the entry's id, of a list in which no id is of two."""
    entries: dict[object, tuple[str, Mapping[str, Any]]] = {}
    for where, entry in _entries(path, name, keys):
        if entries.setdefault(entry["id"], (where, entry))[1] != entry:
            raise DataError(
                f"{where}: 'id'",
                expected=f"an id that no other entry of {name} has",
                found=repr(entry["id"])[:40],
                fix="Were files joined? Give each entry a number of its own, also in annotations.",
            )
    return entries


def _entries(
    path: Path, name: str, keys: Sequence[str] = ("id",)
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (place for errors, entry) of a list in a JSON file; every entry must have `keys`."""
    for entry in JsonFile(path, (name,)).items():
        where = f"{path}, {name} {entry.key}"
        plain = entry.parse()
        if not isinstance(plain, dict) or not set(keys) <= plain.keys():
            raise DataError(where, expected=", ".join(keys), found=repr(plain)[:80])
        for key in keys:
            field(plain, key, TYPES.get(key, (str, int, float)), where)
        yield where, plain


LAYOUTS: Mapping[str, Layout] = {
    "rows": nested_records,
    "llava": llava,
    "messages": messages,
    "coco": coco,
    "captions": captions,
    "odvg": odvg,
}
"""Readers of a table by the name that `layout` takes, given the file and the fields to read."""
