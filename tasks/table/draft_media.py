"""The media of a description: fields of images or of a video, their folder, parts of videos."""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from PIL import Image

from harness.errors import DataError
from harness.media import open_image
from harness.tasks.table.cells import BASE64, BASE64_LENGTH
from harness.tasks.table.description import CHECK
from harness.tasks.table.draft_fields import Draft, columns_of, field_names, named, values_of
from harness.tasks.table.image_fields import has_image, numbered_beside, with_images
from harness.tasks.table.nested import jq_path
from harness.tasks.table.rows import Record, per_record

COCO_DIGITS = 12
"""Digits to which COCO pads the numbers of images in their files' names."""
PART = re.compile(r"(?:(?:video|clip)_)?segment|(?:video_)?clip", re.IGNORECASE)
"""Names of fields of the part of a video that a question is about."""
INSIDE = 'if type == "string" then sub("^(?:[.]{0,2}/)+"; "") else . end'
"""Program of jq that leaves out what leads to the root or out of the folder."""
VIDEO_SUFFIXES = (".mp4", ".webm", ".mkv", ".avi")
PICTURES = 5
"""Number of images that are looked at to find out whether they are masks."""
TEXT_ROLES = ("question", "options", "answer", "id", "category")
"""Roles of the fields of a table without images."""
IMAGE_SUFFIXES = (".jpg", ".png", ".jpeg", ".tif", ".webp", ".bmp")


def leave_out_texts(description: Draft, records: Sequence[Record]) -> None:
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
        description.doubt("media.images", way)
        return
    description.question["where"] = chosen
    doubt = f"leaves out {have.count(False)} of the first {len(have)} records, without an image"
    description.doubt("question.where", doubt)


def draft_media(description: Draft, records: Sequence[Record]) -> None:
    """Fill in the section `media`: the fields of images or of the video, and their folder."""
    for kind, key in (("image", "images"), ("video", "video")):
        fields = named(records, kind) or _of_files(records, kind)
        if kind == "image":  # TimeChat's `image_id` names a video
            fields = [name for name in fields if name not in _of_files(records, "video")]
        if not fields:
            continue
        fields += numbered_beside(fields, columns_of(records))  # the first record may lack some
        numbered = [name for name in fields if re.search(r"\d$", name)]
        numbered.sort(key=lambda name: int(re.findall(r"\d+", name)[-1]))  # 2 before 10
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
            paths = ", ".join(f"getpath({jq_path(n)})" for n in (*chosen, *others))
            program = f"({paths}) |= walk({INSIDE})"
            does = "has names without / and ../ before them: folder is where these lie"
            description.doubt("media.folder", per_record(description.table, program, does))
        if kind == "image" and _are_black_and_white(description, names, pattern):
            doubt = "all are black and one colour: are they masks, and the pictures elsewhere?"
            description.doubt("media.images", doubt)
        named_so = [pattern.replace("{", f"{{{name}") or name for name in chosen]
        description.media[key] = named_so if len(chosen) > 1 else named_so[0]
        if kind == "video":
            root = Path(description.table.parent, str(description.media["folder"]))
            if any((root / (pattern.replace("{}", n) or n)).is_dir() for n in names[:1]):
                description.media["frames_per_second"] = 1.0
                doubt = "videos are folders of frames: how many are of one second?"
                description.doubts["media.frames_per_second"] = doubt
            _draft_clip(description, records)
        elif videos := [name for name in named(records, "video") if name not in chosen]:
            description.doubt(
                "media.images", f'or video = "{videos[0]}", of which it shows a part?'
            )
        return
    description.media["images"] = CHECK
    description.doubts["media.images"] = (
        f"the field of the image, or video = …, of {field_names(records)}, or a pattern of files' "
        'names such as "{_index}.jpg"'
    )
    known = {name for role in TEXT_ROLES for name in named(records, role)}
    if known.issuperset(columns_of(records)):
        blank = per_record(description.table, '.image = "blank.png"', "names a blank image")
        way = blank or "add a column that names a blank one"
        description.doubt("media.images", f"questions of text alone need an image too: {way}")


def _are_black_and_white(description: Draft, names: Sequence[str], pattern: str) -> bool:
    """Return True if the first images have black and one other colour, as masks have."""
    folder = Path(description.table.parent, str(description.media.get("folder", ".")))
    colours = []
    for name in names[:PICTURES]:
        with suppress(DataError, OSError):
            media = open_image(folder / (pattern.replace("{}", name) or name))
            colours.append(Image.fromarray(media.frame(0)).getcolors(maxcolors=2) or [])
    return bool(colours) and all(
        len(pair) == 2 and (0, 0, 0) in [colour for _, colour in pair] for pair in colours
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
    folders, pattern = folders_of(description.table.parent, names, video=is_video)
    if not folders and all(type(value) is int for value in values):
        padded = [f"{value:0{COCO_DIGITS}}" for value in values]
        folders, pattern = folders_of(description.table.parent, padded, video=is_video)
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


def folders_of(root: Path, names: Sequence[str], *, video: bool) -> tuple[list[str], str]:
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
