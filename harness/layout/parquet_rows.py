"""Read the rows of a benchmark's Parquet tables a few at a time.

Parquet compresses: a small file can hold values that fill the memory. Limits on the sizes that its
metadata states, and on the sizes of decoded values, refuse such a file.
"""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import DataError
from harness.files import refuse_other
from harness.foreign import reading

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

MAX_ROWS = 2**20
"""Largest number of rows of one Parquet file.

The largest benchmark has a quarter of a million; ten times as many would take minutes to read.
"""
MAX_TEXT_BYTES = 2**28
"""Largest number of bytes of one column's text in one row group, which may be one cell."""
MAX_VALUES = 2**29
"""Largest number of values of one column in one row group; a mask has one value per pixel."""
BATCH_ROWS = 16
"""Number of rows that are decoded at once."""
MAX_TEXT_EXPANSION = 100
"""Largest number of decoded bytes of text per byte of a file, in addition to `MAX_TEXT_BYTES`."""
MAX_OTHER_EXPANSION = 2000
"""Largest number of decoded bytes of other values per byte of a file, likewise."""


def _check_sizes(
    path: Path, file: "ParquetFile", columns: Collection[str]
) -> tuple[list[str], int]:
    """Refuse a Parquet file that is too large by its own metadata, before any value is decoded.

    Returns:
        The paths of the text columns that are encoded as dictionaries, and the largest number of
        bytes that one cell of text can have.
    """
    # A cell of text is at most as long as all text of its row group.
    dictionaries, longest = set(), 0
    for row_group in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(row_group)
        for number in range(group.num_columns):
            column, chunk = file.schema.column(number), group.column(number)
            if column.path.split(".")[0] not in columns:
                continue
            if chunk.num_values > MAX_VALUES:
                raise _too_much(
                    path, f"{MAX_VALUES} values of {column.path!r} in a row group", chunk.num_values
                )
            if chunk.physical_type != "BYTE_ARRAY":
                continue
            if any("DICTIONARY" in encoding for encoding in chunk.encodings):
                dictionaries.add(column.path)
            if column.logical_type.type == "STRING":
                if chunk.total_uncompressed_size > MAX_TEXT_BYTES:
                    raise _too_much(
                        path,
                        f"{MAX_TEXT_BYTES} bytes of text of {column.path!r} in a row group",
                        chunk.total_uncompressed_size,
                    )
                longest = max(longest, chunk.total_uncompressed_size)
    return sorted(dictionaries), longest


def _too_much(path: Path, limit: str, size: object) -> DataError:
    return DataError(f"file {path}", expected=f"at most {limit}", found=str(size))


def _decoded_size(array: Any) -> tuple[int, int]:
    """Return lower bounds of an Arrow array's bytes as Python objects: (texts, other values).

    Arrow holds a repeated text of a dictionary once; as Python objects each repetition counts.
    """
    from pyarrow import compute, types

    if types.is_dictionary(array.type):
        lengths = compute.binary_length(array.dictionary).take(array.indices)
        return compute.sum(lengths).as_py() or 0, 0
    if types.is_list(array.type) or types.is_large_list(array.type):
        parts = [array.flatten()]  # all elements of all lists
    elif types.is_struct(array.type):
        parts = array.flatten()  # an array for each field
    elif types.is_string(array.type) or types.is_large_string(array.type):
        return compute.sum(compute.binary_length(array)).as_py() or 0, 0
    else:
        return 0, max(array.nbytes, 8 * len(array))
    sizes = [_decoded_size(part) for part in parts]
    return sum(text for text, _ in sizes), sum(others for _, others in sizes)


def rows(
    path: Path, columns: Collection[str], *, optional: Collection[str] = ()
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file as plain data, decoding a few at a time.

    Args:
        path: The file.
        columns: Names of the required columns. Others are not read.
        optional: Names of columns that are read if the file has them.

    Raises:
        DataError: the file is not Parquet or too large, or a column is missing.
    """
    from pyarrow import ArrowException, parquet

    unfit = (ArrowException, OSError, UnicodeDecodeError)
    with reading(path, DataError, f"file {path}", "a complete Parquet file", *unfit):
        refuse_other(path, DataError, f"file {path}")
        with parquet.ParquetFile(path) as file:
            names = set(file.schema_arrow.names)
            if missing := [name for name in columns if name not in names]:
                raise DataError(
                    f"file {path}",
                    expected=f"columns {', '.join(columns)}",
                    found=f"none named {', '.join(missing)}, but {', '.join(sorted(names))}",
                )
            if file.metadata.num_rows > MAX_ROWS:
                raise _too_much(path, f"{MAX_ROWS} rows", file.metadata.num_rows)
            column_names = [*columns, *(name for name in optional if name in names)]
            dictionaries, longest = _check_sizes(path, file, column_names)
        text_left = MAX_TEXT_BYTES + MAX_TEXT_EXPANSION * path.stat().st_size
        others_left = MAX_TEXT_BYTES + MAX_OTHER_EXPANSION * path.stat().st_size
        at_once = min(BATCH_ROWS, max(1, MAX_TEXT_BYTES // max(longest, 1)))
        # Texts that are encoded as a dictionary are not expanded until they have been counted.
        with parquet.ParquetFile(path, read_dictionary=dictionaries) as file:
            for batch in file.iter_batches(batch_size=at_once, columns=column_names):
                for column in batch.columns:
                    text, others = _decoded_size(column)
                    text_left -= text
                    others_left -= others
                if min(text_left, others_left) < 0:
                    expansion = MAX_TEXT_EXPANSION if text_left < 0 else MAX_OTHER_EXPANSION
                    raise _too_much(
                        path, f"{MAX_TEXT_BYTES} bytes and {expansion} times its own", "more"
                    )
                yield from batch.to_pylist()
