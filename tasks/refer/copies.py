"""Reader of VisionReasoner's copies of benchmarks on the Hugging Face Hub: one row per question.

The copies of RefCOCO, ReasonSeg and COCO are Parquet files with such rows:

    {"image": {"bytes": …}, "text": "lady in black", "mask": [[false, …], …], "bbox": [x1, y1, x2,
     y2], "image_id": "581857", "ann_id": "1719310", "img_height": 428, "img_width": 640}

`bbox` holds the edges in pixels; ReasonSeg's copies do not have it. The only split of a copy is
called `test`. Masks are read from Arrow's memory row by row, because the mask of a large image
takes gigabytes as Python lists.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.errors import DataError
from harness.files import refuse_other
from harness.foreign import listed
from harness.layout import rows
from harness.masks import MAX_PIXELS, BoolArray, Rle, check_size
from harness.media import Media, image_or_placeholder
from harness.types import Box

if TYPE_CHECKING:
    from pyarrow import ListArray

COLUMNS = {
    "image": "image",
    "text": "question",
    "image_id": "image's number",
    "ann_id": "object's",
    "img_height": "size",
    "img_width": "size",
}
"""Columns of all copies, each with a word on its content."""


@dataclass(frozen=True, slots=True)
class Copy:
    """One checked row; its image is read by `media`."""

    image_id: str
    ann_id: str
    text: str
    size: tuple[int, int]
    """(width, height) as the row states it."""
    encoded: bytes
    """Bytes of the image file."""
    where: str
    mask: Rle | None = None
    boxes: tuple[Box, ...] = ()
    category: int | None = None

    def media(self) -> Media:
        """Return the image, or a placeholder if it cannot be read.

        Raises:
            DataError: the image does not have the row's size.
        """
        media = image_or_placeholder(self.encoded, f"of {self.where}", size=self.size)
        if media.size != self.size:
            raise DataError(
                f"{self.where}: 'image'",
                expected="{} × {} pixels".format(*self.size),
                found="{} × {}".format(*media.size),
            )
        return media


def parquet_files(folder: Path, split: str, *, fix: str) -> list[Path]:
    """Return the files of a split in order; raise DataError if there are none."""
    files = listed(folder / "data", f"{split}-*.parquet")
    if not files:
        raise DataError(
            f"folder {folder / 'data'}",
            expected=f"{split}-*.parquet",
            found="no such file",
            fix=fix,
        )
    return files


def read_copies(
    files: Sequence[Path], *, mask: bool = False, boxes: bool = False, category: bool = False
) -> Iterator[Copy]:
    """Yield the rows of all files in order, with the selected optional columns.

    Raises:
        DataError: a file is damaged or lacks a column, or a value is invalid.
    """
    extra = {"bbox": "boxes"} if boxes else {}
    extra |= {"cat_id": "category"} if category else {}
    for path in files:
        masks = read_masks(path) if mask else None
        for number, row in enumerate(rows(path, {**COLUMNS, **extra})):
            where = f"{path}, row {number}"
            yield _copy(row, where, None if masks is None else next(masks))


def _copy(row: Mapping[str, Any], where: str, mask: BoolArray | None) -> Copy:
    """Return a row as a Copy after a check; `mask` is its mask if masks are read."""
    height, width = row["img_height"], row["img_width"]
    check_size(height, width, f"{where}: 'img_height', 'img_width'")
    if mask is not None and mask.shape != (height, width):
        raise DataError(
            f"{where}: 'mask'",
            expected=f"{height} rows of {width}",
            found=" × ".join(map(str, mask.shape)),
        )
    encoded = row["image"].get("bytes") if isinstance(row["image"], dict) else None
    if not isinstance(encoded, bytes) or not isinstance(row["text"], str):
        raise DataError(
            f"{where}: 'image' and 'text'",
            expected="an image's bytes and text",
            found="something else",
        )
    return Copy(
        image_id=_id(row, "image_id", where),
        ann_id=_id(row, "ann_id", where),
        text=row["text"].strip(),
        size=(width, height),
        encoded=encoded,
        where=where,
        mask=None if mask is None else Rle.from_array(mask),
        boxes=tuple(read_boxes(row["bbox"], where)) if "bbox" in row else (),
        category=int(_id(row, "cat_id", where)) if "cat_id" in row else None,
    )


def _id(row: Mapping[str, object], column: str, where: str) -> str:
    """Return an id as text; some copies store it as a number. A `cat_id` has at most 9 digits."""
    value = row[column]
    is_in_range = column != "cat_id" or (str(value).isdigit() and len(str(value)) < 10)
    if type(value) not in (str, int) or value == "" or not is_in_range:
        raise DataError(
            f"{where}: {column!r}", expected="text or a whole number", found=repr(value)[:40]
        )
    return str(value)


def read_boxes(value: object, where: str) -> Iterator[Box]:
    """Yield the boxes of a cell: one box [x1, y1, x2, y2], or a list of boxes."""
    boxes = [value] if isinstance(value, list) and value and _is_number(value[0]) else value
    if not isinstance(boxes, list):
        raise DataError(f"{where}: 'bbox'", expected="boxes", found=repr(value)[:60])
    for sides in boxes:
        if not (
            isinstance(sides, list)
            and len(sides) == 4
            and all(map(_is_number, sides))
            and sides[0] < sides[2]
            and sides[1] < sides[3]
        ):
            raise DataError(
                f"{where}: 'bbox'",
                expected="[x1, y1, x2, y2] with x1 < x2, y1 < y2",
                found=repr(sides)[:60],
            )
        yield Box(*map(float, sides))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and type(value) is not bool and abs(value) < 2**31


def read_masks(path: Path, column: str = "mask") -> Iterator[BoolArray]:
    """Yield the mask of each row of a file (height × width, boolean).

    Raises:
        DataError: the file is not a Parquet file, it has no such column of masks, or the lines of
            a mask differ in length.
    """
    from pyarrow import ArrowException, parquet

    try:
        refuse_other(path, DataError, f"file {path}")
        with parquet.ParquetFile(path) as file:
            column_type = (
                file.schema_arrow.field(column).type if column in file.schema_arrow.names else ""
            )
            if str(column_type) not in MASK_TYPES:
                raise DataError(
                    f"file {path}",
                    expected=f"a column {column!r} of rows of booleans",
                    found=str(column_type) or "none",
                )
            row_number = 0
            for batch in file.iter_batches(batch_size=1, columns=[column]):  # masks are large
                for scalar in batch.column(0):
                    yield _mask(scalar.values, f"{path}, row {row_number}: {column!r}")
                    row_number += 1
    except (ArrowException, OSError) as error:
        raise DataError(
            f"file {path}", expected="a complete Parquet file", found=str(error).split("\n")[0]
        ) from error


MASK_TYPES = tuple(
    f"{outer}<{name}: {inner}<{name}: bool>>"
    for outer in ("list", "large_list")
    for inner in ("list", "large_list")
    for name in ("element", "item")
)
"""Arrow's names of the types of a column of masks, such as `list<element: list<element: bool>>`."""


def _mask(lines: "ListArray | None", where: str) -> BoolArray:
    """Return a mask (height, width) from Arrow's list of its rows."""
    if lines is None or not len(lines):
        raise DataError(where, expected="rows of pixels", found="none")
    lengths = set(lines.value_lengths().to_pylist())
    flat = lines.flatten()
    if len(flat) > MAX_PIXELS:
        raise DataError(where, expected=f"at most {MAX_PIXELS} pixels", found=str(len(flat)))
    if len(lengths) != 1 or None in lengths or flat.null_count:
        raise DataError(where, expected="rows of one length", found="several lengths, or gaps")
    pixels = np.asarray(flat.to_numpy(zero_copy_only=False), dtype=np.bool_)
    return pixels.reshape(len(lines), -1)
