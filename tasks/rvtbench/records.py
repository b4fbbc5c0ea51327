"""Records of an annotation file, read by a mapping; errors name record and key of the mapping."""

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

MAX_LINE = 2**28  # bytes


@dataclass(frozen=True)
class Record:
    """One record, with the mapping and folders for reading it."""

    plain: object
    where: str
    """File and line (or place in the list)."""
    mapping: Mapping

    def get(self, key: str, kind: type | tuple[type, ...]) -> Any:
        """The field that the mapping names for `key`.

        Raises:
            DataError: the mapping names none, the record lacks it, or it is of another type.
        """
        path = getattr(self.mapping.fields, key)
        if not path:
            raise self.error(key, "the name of a field", "none")
        value = self.plain
        for part in path.split("."):
            if not isinstance(value, dict) or part not in value:
                raise self.error(key, "this field", "none")
            value = value[part]
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise self.error(
                key, " or ".join(allowed.__name__ for allowed in kinds), repr(value)[:60]
            )
        return value

    def error(self, key: str, expected: str, actual: str) -> DataError:
        """A DataError about the field of `key`."""
        path = getattr(self.mapping.fields, key)
        return DataError(
            f"{self.where}: {path or key!r} (fields.{key} of mapping {self.mapping.path})",
            expected=expected,
            found=actual,
        )

    def word(self, key: str, table: str) -> str:
        """Return our word for a field's value, by a table of the mapping."""
        value = self.get(key, (str, int))
        known = getattr(self.mapping, table)
        for ours, theirs in known.items():
            if any(type(word) is type(value) and word == value for word in theirs):
                return str(ours)
        every = ", ".join(repr(word) for words in known.values() for word in words)
        raise self.error(key, f"one of [{table}]: {every}", repr(value)[:40])

    def text(self, key: str) -> str:
        """A text that is not blank."""
        value: str = self.get(key, str)
        if not value.strip():
            raise self.error(key, "a text", "a blank one")
        return value

    @cached_property
    def id(self) -> str:
        """The record's id as text."""
        return str(self.get("id", (str, int)))

    def is_of(self, task: str) -> bool:
        """Return True if the record belongs to a task; all do where records name no task."""
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
    if path.suffix == ".jsonl":
        for where, line in read_lines(path, MAX_LINE):
            yield where, partial(parse_line, line, where, MAX_LINE)
        return
    keys = tuple(mapping.files.records.split(".")) if mapping.files.records else ()
    for entry in JsonFile(path, keys).items():
        yield f"{path}, record {int(entry.key) + 1}", entry.parse


def frames_of(record: Record, root: Path) -> tuple[list[str], list[Path]]:
    """The names of a record's frames, and their images."""
    video, mapping = record.text("video"), record.mapping
    if mapping.fields.frames:
        names = record.get("frames", list)
        if not names or not all(isinstance(name, str) for name in names):
            raise record.error("frames", "names of frames, at least one", repr(names)[:60])
        if len(set(names)) < len(names):
            raise record.error("frames", "each frame once", "one twice")
    else:
        place = path_inside(root, mapping.image(video, "x")).parent
        names = [path.stem for path in frames_in(place)]
    return names, [path_inside(root, mapping.image(video, name)) for name in names]


def masks_of(record: Record, names: Sequence[str], size: tuple[int, int]) -> tuple[Rle, ...]:
    """A record's masks, one a frame; a frame that is not named has none.

    Raises:
        DataError: they have not the mapping's form, name another frame, or have another size.
    """
    width, height = size
    masks = [Rle.empty(height, width)] * len(names)
    for index, plain, what in _iter_frames(record, "masks", names):
        if plain is not None:
            try:
                mask = Rle.from_json(plain, what)
            except MaskError as error:
                raise record.error("masks", "COCO run-lengths", str(error)) from error
            masks[index] = sized(mask, size, f"{record.where}: {what}").union(masks[index])
    return tuple(masks)


def mask_size(record: Record, names: Sequence[str]) -> tuple[int, int]:
    """Return (width, height) of a record's first mask, where no image can be read; without masks
    what its boxes reach, at least 1 × 1.
    """
    if record.mapping.fields.masks:
        with suppress(DataError):
            for _, plain, what in _iter_frames(record, "masks", names):
                if plain is not None:
                    return Rle.from_json(plain, what).size
    if record.mapping.fields.boxes:
        with suppress(DataError):
            boxes = [box for box in boxes_of(record, names) if box is not None]
            width, height = (max((box[side] for box in boxes), default=1) for side in (2, 3))
            return max(math.ceil(width), 1), max(math.ceil(height), 1)
    return 1, 1


def boxes_of(record: Record, names: Sequence[str]) -> tuple[Box | None, ...]:
    """Return a record's box in each frame, in pixels, right and bottom exclusive; None without one.

    Raises:
        DataError: they have not the mapping's form, name another frame, or have no area.
    """
    boxes: list[Box | None] = [None] * len(names)
    for index, plain, what in _iter_frames(record, "boxes", names):
        if plain is not None:
            boxes[index] = _box(record, plain, what)
    return tuple(boxes)


def _box(record: Record, plain: object, what: str) -> Box:
    boxes = record.mapping.boxes
    try:
        left, top, third, fourth = finite_numbers(plain, 4, what)
    except ParseError as error:
        raise record.error("boxes", "four numbers a box", str(error)) from error
    if boxes.order == "xywh":
        third, fourth = left + third, top + fourth
    elif boxes.inclusive:
        third, fourth = third + 1, fourth + 1
    if third <= left or fourth <= top:
        raise record.error(
            "boxes", f"boxes with an area (boxes.order is {boxes.order!r})", f"{what} {plain}"
        )
    return Box(left, top, third, fourth)


def _iter_frames(
    record: Record, key: str, names: Sequence[str]
) -> Iterator[tuple[int, object, str]]:
    """Yield (index of the frame, value, its name for messages), in the mapping's form."""
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
    frame, rle = record.mapping.masks.frame, record.mapping.masks.rle
    if not isinstance(item, dict) or not {frame, rle} <= set(item):
        raise record.error(key, f"objects with {frame!r} and {rle!r}", repr(item)[:60])
    return item[frame], item[rle]
