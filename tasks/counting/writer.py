"""Write sample data: counting scenes in the Parquet layouts of PixMo-Count and CountBench.

There are six tables, as on the Hugging Face Hub: VisionReasoner's copies of PixMo-Count
(validation, test) and of CountBench; CountBenchQA; CountBench with captions; and PixMo-Count's own
training table, whose images are files named by their SHA-256.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from harness.tasks.refer.tables import image, write_table
from harness.world.encode import scene_png
from harness.world.language import NUMBER_WORDS
from harness.world.raster import owners
from harness.world.scene import Split
from harness.world.shapes import Example, World

Image: TypeAlias = dict[str, bytes | str]
"""An image as a table cell: the bytes of its file, and its name."""

IMAGE_HOST = "https://shapes.invalid"  # a domain that cannot exist, so that nothing is fetched

REASONER_COPIES: tuple[tuple[str, str, Split], ...] = (
    ("counting_pixmo_validation", "count", "val"),
    ("counting_pixmo_test", "count", "test"),
    ("counting_countbench", "countbench", "test"),
)
"""(Folder, family of scenes, split) of each of VisionReasoner's copies."""
# Columns of the tables, with their types in `refer.tables`.
COPY_COLUMNS = {
    "image": "image",
    "text": "string",
    "image_id": "string",
    "ann_id": "string",
    "img_height": "int64",
    "img_width": "int64",
    "count": "int64",
}
QUESTION_COLUMNS = {"image": "image", "text": "string", "question": "string", "number": "int32"}
CAPTION_COLUMNS = {"image_url": "string", "text": "string", "number": "int64", "image": "image"}
TRAINING_COLUMNS = {
    "image_url": "string",
    "image_sha256": "string",
    "count": "int32",
    "points": "points",
    "label": "string",
}


def write(world: World, root: Path) -> None:
    """Write the six tables below `root/counting`, and the images of the training table."""
    folder = root / "counting"
    for name, family, split in REASONER_COPIES:
        rows = [
            _reasoner_row(example, _image(example)) for example in world.examples_of(family, split)
        ]
        write_table(folder / name, "test", rows, COPY_COLUMNS)
    examples = [(example, _image(example)) for example in world.examples_of("countbench", "test")]
    rows = [_question_row(example, cell) for example, cell in examples]
    write_table(folder / "CountBenchQA", "test", rows, QUESTION_COLUMNS)
    rows = [_caption_row(example, cell) for example, cell in examples]
    write_table(folder / "countbench", "train", [*rows, _lost_row(rows[0])], CAPTION_COLUMNS)
    _write_training(world.examples_of("count", "train"), folder / "pixmo-count")


def _write_training(examples: Sequence[Example], folder: Path) -> None:
    """Write PixMo-Count's own table, and its images as files."""
    images = folder / "images"
    images.mkdir(parents=True)
    rows = []
    for example in examples:
        data = scene_png(example.scene, 0)
        digest = hashlib.sha256(data).hexdigest()
        (images / digest).write_bytes(data)
        rows.append(_training_row(example, digest))
    write_table(folder, "train", rows, TRAINING_COLUMNS)


def _reasoner_row(example: Example, cell: Image) -> dict[str, object]:
    """Return a row of VisionReasoner's copies."""
    scene, question = example.scene, example.questions[0]
    return {
        "image": cell,
        "text": question.text,
        "image_id": str(scene.index),
        "ann_id": str(scene.index),
        "img_height": scene.height,
        "img_width": scene.width,
        "count": question.count,
    }


def _question_row(example: Example, cell: Image) -> dict[str, object]:
    """Return a row of CountBenchQA."""
    question = example.questions[0]
    return {
        "image": cell,
        "text": _caption(example),
        "question": f"How many {question.label} are there in the image?",
        "number": question.count,
    }


def _caption_row(example: Example, cell: Image) -> dict[str, object]:
    """Return a row of CountBench with captions; it has the image's address too."""
    return {
        "image_url": _address(example),
        "text": _caption(example),
        "number": example.questions[0].count,
        "image": cell,
    }


def _lost_row(row: dict[str, object]) -> dict[str, object]:
    """Return a row whose image is no longer available, as in every tenth row of CountBench."""
    return {**row, "image_url": f"{IMAGE_HOST}/lost.png", "image": None}


def _training_row(example: Example, sha256: str) -> dict[str, object]:
    """Return a row of PixMo's training table, whose image is a file named by its hash."""
    question = example.questions[0]
    return {
        "image_url": _address(example),
        "image_sha256": sha256,
        "count": question.count,
        "points": points(example),
        "label": question.label,
    }


def points(example: Example) -> dict[str, list[float]]:
    """Return {"x": …, "y": …}: for each counted thing, its visible pixel nearest to its centre."""
    # `owners` has, for each pixel, the index of the thing that is visible there.
    owner, pixels = owners(example.scene), dict[str, list[float]](x=[], y=[])
    for index in example.questions[0].referents:
        rows, columns = (owner == index).nonzero()
        x, y = example.scene.things[index].centre(0)
        nearest = int(((columns - x) ** 2 + (rows - y) ** 2).argmin())
        pixels["x"].append(float(columns[nearest]))
        pixels["y"].append(float(rows[nearest]))
    return pixels


def _caption(example: Example) -> str:
    question = example.questions[0]
    return f"A picture with {NUMBER_WORDS[question.count]} {question.label}."


def _address(example: Example) -> str:
    return f"{IMAGE_HOST}/{example.scene.id}.png"


def _image(example: Example) -> Image:
    return image(example.scene, f"{example.scene.index:05d}.png")
