"""Read the records of RVTBench and JiTBench: fields, frames, masks and boxes.

A release's own field names are looked up in its `Mapping`. Errors name the record and the key of
the mapping.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from harness.errors import DataError, MaskError, ParseError
from harness.frame_folder import frames_in
from harness.layout import JsonFile, parse_line, path_inside, read_lines
from harness.masks import Rle
from harness.responses import finite_numbers
from harness.tasks.rvos.tracks import sized
from harness.tasks.rvtbench.mapping import Mapping
from harness.types import Box

MAX_LINE_BYTES = 2**28


@dataclass(frozen=True)
class Record:
    """One record, with the mapping for reading it."""

    plain: object
    """The record's JSON value, unchecked."""
    where: str
    """File and line, or number in the list."""
    mapping: Mapping

    def get(self, key: str, allowed_types: type | tuple[type, ...]) -> Any:
        """Return the record's field for `key`, a field of `mapping.Fields`.

        Raises:
            DataError: the mapping names no field, the record lacks it, or it has another type.
        """
        path = getattr(self.mapping.fields, key)
        if not path:
            raise self.error(key, "the name of a field", "none")
        value = self.plain
        for name in path.split("."):
            if not isinstance(value, dict) or name not in value:
                raise self.error(key, "this field", "none")
            value = value[name]
        types = allowed_types if isinstance(allowed_types, tuple) else (allowed_types,)
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise self.error(
                key, " or ".join(allowed.__name__ for allowed in types), repr(value)[:60]
            )
        return value

    def error(self, key: str, expected: str, actual: str) -> DataError:
        """Return a DataError about the field for `key`."""
        path = getattr(self.mapping.fields, key)
        return DataError(
            f"{self.where}: {path or key!r} (fields.{key} of mapping {self.mapping.path})",
            expected=expected,
            found=actual,
        )

    def word(self, key: str, table: str) -> str:
        """Translate a field's value to our word, by the mapping's `table`: our word → theirs."""
        value = self.get(key, (str, int))
        official_words = getattr(self.mapping, table)
        for ours, theirs in official_words.items():
            if any(type(word) is type(value) and word == value for word in theirs):  # 1 is not True
                return str(ours)
        allowed = ", ".join(repr(word) for theirs in official_words.values() for word in theirs)
        raise self.error(key, f"one of [{table}]: {allowed}", repr(value)[:40])

    def text(self, key: str) -> str:
        """Return a text field, which must not be blank."""
        value: str = self.get(key, str)
        if not value.strip():
            raise self.error(key, "a text", "a blank one")
        return value

    @cached_property
    def id(self) -> str:
        """The record's id as text."""
        return str(self.get("id", (str, int)))

    def is_of(self, task: str) -> bool:
        """Return True if the record belongs to a task, or if the mapping has no field for it."""
        return not self.mapping.fields.task or self.word("task", "tasks") == task


def read_records(root: Path, mapping: Mapping, task: str) -> Iterator[Record | DataError]:
    """Yield the records of one task, or their errors, in the order of the file.

    Lines are read as they are needed.

    Raises:
        DataError: the file is missing or damaged.
    """
    path = path_inside(root, mapping.file(task))
    for where, parse in _unparsed_records(path, mapping):
        try:
            record = Record(parse(), where, mapping)
            if record.is_of(task):
                yield record
        except DataError as error:
            yield error


def _unparsed_records(path: Path, mapping: Mapping) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield (position, function that returns the record) for each record of a file."""
    if path.suffix == ".jsonl":
        for where, line in read_lines(path, MAX_LINE_BYTES):
            yield where, partial(parse_line, line, where, MAX_LINE_BYTES)
        return
    keys = tuple(mapping.files.records.split(".")) if mapping.files.records else ()
    for entry in JsonFile(path, keys).items():
        yield f"{path}, record {int(entry.key) + 1}", entry.parse


def frames_of(record: Record, root: Path) -> tuple[list[str], list[Path]]:
    """Return the names of a record's frames, and their image files."""
    video, mapping = record.text("video"), record.mapping
    if mapping.fields.frames:
        names = record.get("frames", list)
        if not names or not all(isinstance(name, str) for name in names):
            raise record.error("frames", "names of frames, at least one", repr(names)[:60])
        if len(set(names)) < len(names):
            raise record.error("frames", "each frame once", "one twice")
    else:
        folder = path_inside(root, mapping.image(video, "x")).parent
        names = [path.stem for path in frames_in(folder)]
    return names, [path_inside(root, mapping.image(video, name)) for name in names]


def masks_of(record: Record, names: Sequence[str], size: tuple[int, int]) -> tuple[Rle, ...]:
    """Return a record's masks of `size` (width, height), one per frame; empty if it names none.

    Raises:
        DataError: masks do not have the mapping's form, name another frame, or have another size.
    """
    width, height = size
    masks = [Rle.empty(height, width)] * len(names)
    for index, plain, frame_where in _iter_frames(record, "masks", names):
        if plain is not None:
            try:
                mask = Rle.from_json(plain, frame_where)
            except MaskError as error:
                raise record.error("masks", "COCO run-lengths", str(error)) from error
            masks[index] = sized(mask, size, f"{record.where}: {frame_where}").union(masks[index])
    return tuple(masks)


def mask_size(record: Record, names: Sequence[str]) -> tuple[int, int]:
    """Return (width, height) of a record's first mask; without masks, of the extent of its boxes.

    It is the size of the placeholder for a lost video, and at least 1 × 1.
    """
    if record.mapping.fields.masks:
        with suppress(DataError):
            for _, plain, frame_where in _iter_frames(record, "masks", names):
                if plain is not None:
                    return Rle.from_json(plain, frame_where).size
    if record.mapping.fields.boxes:
        with suppress(DataError):
            boxes = [box for box in boxes_of(record, names) if box is not None]
            width = max((box.right for box in boxes), default=1)
            height = max((box.bottom for box in boxes), default=1)
            return max(math.ceil(width), 1), max(math.ceil(height), 1)
    return 1, 1


def boxes_of(record: Record, names: Sequence[str]) -> tuple[Box | None, ...]:
    """Return a record's box in each frame, in pixels, right and bottom exclusive; None without one.

    Raises:
        DataError: boxes do not have the mapping's form, name another frame, or have no area.
    """
    boxes: list[Box | None] = [None] * len(names)
    for index, plain, frame_where in _iter_frames(record, "boxes", names):
        if plain is not None:
            boxes[index] = _box(record, plain, frame_where)
    return tuple(boxes)


def _box(record: Record, plain: object, where: str) -> Box:
    """Return the box, right and bottom exclusive, of four numbers in the mapping's order."""
    boxes = record.mapping.boxes
    try:
        left, top, third, fourth = finite_numbers(plain, 4, where)
    except ParseError as error:
        raise record.error("boxes", "four numbers a box", str(error)) from error
    if boxes.order == "xywh":
        third, fourth = left + third, top + fourth
    elif boxes.inclusive:
        third, fourth = third + 1, fourth + 1
    if third <= left or fourth <= top:
        raise record.error(
            "boxes", f"boxes with an area (boxes.order is {boxes.order!r})", f"{where} {plain}"
        )
    return Box(left, top, third, fourth)


def _iter_frames(
    record: Record, key: str, names: Sequence[str]
) -> Iterator[tuple[int, object, str]]:
    """Yield (index of the frame, value, name of the frame for messages) of each value of a field.

    The mapping's form is `track` (a list, one value per frame), `frames` (an object by frame name)
    or `records` (a list of objects with a frame's name and a value).
    """
    form = getattr(record.mapping, key).form
    value = record.get(key, dict if form == "frames" else list)
    if form == "track":
        if len(value) != len(names):
            raise record.error(key, f"{len(names)}, one a frame", f"{len(value)}")
        yield from ((index, entry, f"frame {names[index]!r}") for index, entry in enumerate(value))
        return
    order = {name: index for index, name in enumerate(names)}
    items = value.items() if form == "frames" else (_name_item(record, key, item) for item in value)
    for name, entry in items:
        if name not in order:
            raise record.error(key, "frames of the record", repr(name)[:40])
        yield order[name], entry, f"frame {name!r}"


def _name_item(record: Record, key: str, item: object) -> tuple[str, object]:
    """Return the frame name and the run-length of an item of the form `records`."""
    frame, rle = record.mapping.masks.frame, record.mapping.masks.rle
    if not isinstance(item, dict) or not {frame, rle} <= set(item):
        raise record.error(key, f"objects with {frame!r} and {rle!r}", repr(item)[:60])
    return item[frame], item[rle]
