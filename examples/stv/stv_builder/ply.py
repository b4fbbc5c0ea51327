"""Vertices of a PLY file, as ScanNet's meshes have them; nothing else of it is read."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.errors import DataError, raised_as
from harness.files import read_bytes
from stv_builder.geometry import Array

TYPES = {
    "char": "i1",
    "uchar": "u1",
    "short": "i2",
    "ushort": "u2",
    "int": "i4",
    "uint": "u4",
    "float": "f4",
    "double": "f8",
    "int8": "i1",
    "uint8": "u1",
    "int16": "i2",
    "uint16": "u2",
    "int32": "i4",
    "uint32": "u4",
    "float32": "f4",
    "float64": "f8",
}
MAX_HEADER = 2**14  # bytes
ORDER = "binary_little_endian"
"""The format of ScanNet's meshes, the only one that is read."""


def read_vertices(path: Path) -> Array:
    """Rows (x, y, z) of a PLY file whose first element are its vertices.

    Raises:
        DataError: it is missing, cut off, or no such file.
    """
    with raised_as(DataError, f"file {path}", "a PLY file", OSError):
        raw = read_bytes(path)
    end = raw.find(b"end_header", 0, MAX_HEADER)
    line_end = raw.find(b"\n", end)
    if not raw.startswith(b"ply") or end < 0 or line_end < 0:
        raise DataError(f"file {path}", expected="a PLY header", found="none")
    count, properties = _header(raw[:end].decode("ascii", "replace").splitlines(), path)
    body = raw[line_end + 1 :]
    kind = np.dtype([(name, "<" + code) for name, code in properties])
    if len(body) < count * kind.itemsize:
        raise DataError(f"file {path}", expected=f"{count} vertices", found="a file that was cut")
    table = np.frombuffer(body, dtype=kind, count=count)
    return np.stack([table[axis].astype(np.float64) for axis in "xyz"], axis=1)


def _header(lines: Sequence[str], path: Path) -> tuple[int, list[tuple[str, str]]]:
    order, count, inside = "", -1, False
    properties: list[tuple[str, str]] = []
    for line in lines:
        words = line.split()
        if words[:1] == ["format"] and len(words) > 1:
            order = words[1]
        elif words[:1] == ["element"]:
            inside = words[1:2] == ["vertex"] and count < 0 and not properties
            if inside and len(words) == 3 and words[2].isdigit():
                count = int(words[2])
            elif count < 0:
                raise DataError(f"file {path}", expected="vertices first", found=line[:60])
        elif words[:1] == ["property"] and inside:
            if len(words) != 3 or words[1] not in TYPES:
                raise DataError(f"file {path}", expected="a property of a vertex", found=line[:60])
            properties.append((words[2], TYPES[words[1]]))
    if order != ORDER or count < 0 or not set("xyz") <= dict(properties).keys():
        raise DataError(
            f"file {path}",
            expected=f"format {ORDER}, vertices with x, y and z",
            found=f"format {order}, {count} vertices",
        )
    return count, properties
