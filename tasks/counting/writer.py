"""Counting scenes in the Parquet layouts of PixMo-Count and CountBench.

Six tables, as the hub has them: VisionReasoner's copies of PixMo-Count (validation, test) and of
CountBench, CountBenchQA, the older CountBench with captions, and PixMo-Count's own table for
training, whose images lie in files named by their SHA-256.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from harness.world.encode import encode_png
from harness.world.language import NUMBER_WORDS
from harness.world.raster import owners, render
from harness.world.scene import Split
from harness.world.shapes import Example, World

if TYPE_CHECKING:
    import pyarrow as pa

Image: TypeAlias = dict[str, bytes | str]
"""An image inside a table: its file's bytes and its name."""

PART = "-00000-of-00001.parquet"
ADDRESS = "https://shapes.invalid"  # a domain that can never exist: nothing is to be fetched

REASONER_COPIES: tuple[tuple[str, str, Split], ...] = (
    ("counting_pixmo_validation", "count", "val"),
    ("counting_pixmo_test", "count", "test"),
    ("counting_countbench", "countbench", "test"),
)
"""Folder, and the family and split of its scenes."""


def write(world: World, root: Path) -> None:
    """Write the six tables below `root/counting`, and the images of the training table."""
    folder = root / "counting"
    for name, family, split in REASONER_COPIES:
        rows = [
            _reasoner_row(example, _image(example)) for example in world.examples_of(family, split)
        ]
        _write_table(folder / name, "test", rows, _reasoner_schema())
    examples = [(example, _image(example)) for example in world.examples_of("countbench", "test")]
    rows = [_question_row(example, image) for example, image in examples]
    _write_table(folder / "CountBenchQA", "test", rows, _question_schema())
    rows = [_caption_row(example, image) for example, image in examples]
    _write_table(folder / "countbench", "train", [*rows, _lost_row(rows[0])], _caption_schema())
    _write_training(world.examples_of("count", "train"), folder / "pixmo-count")


def _write_training(examples: Sequence[Example], folder: Path) -> None:
    images = folder / "images"
    images.mkdir(parents=True)
    rows = []
    for example in examples:
        data = encode_png(render(example.scene))
        digest = hashlib.sha256(data).hexdigest()
        (images / digest).write_bytes(data)
        rows.append(_training_row(example, digest))
    _write_table(folder, "train", rows, _training_schema())


def _reasoner_row(example: Example, image: Image) -> dict[str, object]:
    scene, question = example.scene, example.questions[0]
    return {
        "image": image,
        "text": question.text,
        "image_id": str(scene.index),
        "ann_id": str(scene.index),
        "img_height": scene.height,
        "img_width": scene.width,
        "count": question.count,
    }


def _question_row(example: Example, image: Image) -> dict[str, object]:
    question = example.questions[0]
    return {
        "image": image,
        "text": _caption(example),
        "question": f"How many {question.label} are there in the image?",
        "number": question.count,
    }


def _caption_row(example: Example, image: Image) -> dict[str, object]:
    return {
        "image_url": _address(example),
        "text": _caption(example),
        "number": example.questions[0].count,
        "image": image,
    }


def _lost_row(row: dict[str, object]) -> dict[str, object]:
    """Return a row whose image can no longer be fetched, as every tenth of the original."""
    return {**row, "image_url": f"{ADDRESS}/lost.png", "image": None}


def _training_row(example: Example, sha256: str) -> dict[str, object]:
    question = example.questions[0]
    return {
        "image_url": _address(example),
        "image_sha256": sha256,
        "count": question.count,
        "points": points(example),
        "label": question.label,
    }


def points(example: Example) -> dict[str, list[float]]:
    """Columns and rows of a pixel on each thing that is counted: the visible one nearest to its
    centre.
    """
    owner, found = owners(example.scene), dict[str, list[float]](x=[], y=[])
    for index in example.questions[0].referents:
        rows, columns = (owner == index).nonzero()
        x, y = example.scene.things[index].centre(0)
        nearest = int(((columns - x) ** 2 + (rows - y) ** 2).argmin())
        found["x"].append(float(columns[nearest]))
        found["y"].append(float(rows[nearest]))
    return found


def _caption(example: Example) -> str:
    question = example.questions[0]
    return f"A picture with {NUMBER_WORDS[question.count]} {question.label}."


def _address(example: Example) -> str:
    return f"{ADDRESS}/{example.scene.id}.png"


def _image(example: Example) -> Image:
    """Return an image as Hugging Face datasets stores it inside a table."""
    scene = example.scene
    return {"bytes": encode_png(render(scene)), "path": f"{scene.index:05d}.png"}


def _reasoner_schema() -> "pa.Schema":
    import pyarrow as pa

    return _schema(
        {
            "image": _image_type(),
            "text": pa.string(),
            "image_id": pa.string(),
            "ann_id": pa.string(),
            "img_height": pa.int64(),
            "img_width": pa.int64(),
            "count": pa.int64(),
        }
    )


def _question_schema() -> "pa.Schema":
    import pyarrow as pa

    return _schema(
        {
            "image": _image_type(),
            "text": pa.string(),
            "question": pa.string(),
            "number": pa.int32(),
        }
    )


def _caption_schema() -> "pa.Schema":
    import pyarrow as pa

    return _schema(
        {
            "image_url": pa.string(),
            "text": pa.string(),
            "number": pa.int64(),
            "image": _image_type(),
        }
    )


def _training_schema() -> "pa.Schema":
    import pyarrow as pa

    side = pa.list_(pa.float32())
    return _schema(
        {
            "image_url": pa.string(),
            "image_sha256": pa.string(),
            "count": pa.int32(),
            "points": pa.struct([("x", side), ("y", side)]),
            "label": pa.string(),
        }
    )


def _image_type() -> "pa.DataType":
    import pyarrow as pa

    return pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def _schema(columns: "dict[str, pa.DataType]") -> "pa.Schema":
    """Return a schema whose metadata mark the column of images for Hugging Face datasets."""
    import pyarrow as pa

    features = {name: _feature(kind) for name, kind in columns.items()}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    return pa.schema(list(columns.items()), metadata=metadata)


def _feature(kind: "pa.DataType") -> object:
    import pyarrow as pa

    if kind == _image_type():
        return {"_type": "Image"}
    if pa.types.is_list(kind):
        return {"feature": _feature(kind.value_type), "_type": "List"}
    if pa.types.is_struct(kind):
        return {field.name: _feature(field.type) for field in kind}
    name = {"float": "float32"}.get(str(kind), str(kind))
    return {"dtype": name, "_type": "Value"}


def _write_table(
    folder: Path, split: str, rows: Sequence[dict[str, object]], schema: "pa.Schema"
) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    data = folder / "data"
    data.mkdir(parents=True)
    table = pa.Table.from_pylist(list(rows), schema=schema)
    parquet.write_table(table, data / f"{split}{PART}", compression="zstd")
