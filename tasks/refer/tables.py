"""Write sample data's tables as Parquet files with the metadata of Hugging Face `datasets`."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.world.encode import scene_png
from harness.world.scene import Scene

if TYPE_CHECKING:
    import pyarrow as pa


def image(scene: Scene, name: str) -> dict[str, bytes | str]:
    """Return the first frame of a scene as a table cell: PNG bytes and a file name."""
    return {"bytes": scene_png(scene, 0), "path": name}


def write_table(
    folder: Path, split: str, rows: Sequence[Mapping[str, object]], columns: Mapping[str, str]
) -> None:
    """Write `folder/data/SPLIT-00000-of-00001.parquet`.

    Args:
        folder: The folder of the data set.
        split: First part of the file's name.
        rows: The cells of each row, by column.
        columns: The type of each column: `image`, `string`, `int64`, `int32`, `int8`, `masks`
            (rows of booleans), `strings`, `floats`, `points` (a list x and a list y of numbers),
            `box` (whole numbers) or `boxes`.
    """
    import pyarrow as pa
    from pyarrow import parquet

    types = _types()
    features = {name: types[type_name][1] for name, type_name in columns.items()}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    fields = [(name, types[type_name][0]) for name, type_name in columns.items()]
    table = pa.Table.from_pylist(list(rows), schema=pa.schema(fields, metadata=metadata))
    (folder / "data").mkdir(parents=True, exist_ok=True)
    parquet.write_table(
        table, folder / "data" / f"{split}-00000-of-00001.parquet", compression="zstd"
    )


def _types() -> "dict[str, tuple[pa.DataType, object]]":
    """Return {type of `write_table`: (Arrow type, feature in Hugging Face's metadata)}."""
    import pyarrow as pa

    def value(dtype: str) -> dict[str, str]:
        return {"dtype": dtype, "_type": "Value"}

    def list_type(inner: object) -> dict[str, object]:
        return {"feature": inner, "_type": "List"}

    floats = (pa.list_(pa.float32()), list_type(value("float32")))
    return {
        "image": (pa.struct([("bytes", pa.binary()), ("path", pa.string())]), {"_type": "Image"}),
        "string": (pa.string(), value("string")),
        "int64": (pa.int64(), value("int64")),
        "int32": (pa.int32(), value("int32")),
        "int8": (pa.int8(), value("int8")),
        "strings": (pa.list_(pa.string()), list_type(value("string"))),
        "floats": floats,
        "points": (
            pa.struct([("x", floats[0]), ("y", floats[0])]),
            {"x": floats[1], "y": floats[1]},
        ),
        "box": (pa.list_(pa.int32()), list_type(value("int32"))),
        "boxes": (pa.list_(pa.list_(pa.float64())), list_type(list_type(value("float64")))),
        "masks": (pa.list_(pa.list_(pa.bool_())), list_type(list_type(value("bool")))),
    }
