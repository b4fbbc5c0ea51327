"""Write sample data: generated still scenes in the three layouts of RefCOCO, RefCOCO+ and RefCOCOg.

The layouts are that of the package `refer` (`refs(….)p` and `instances.json`), VisionReasoner's
copy on the hub (Parquet with masks), and lmms-lab's copy on the hub (Parquet with boxes).
"""

import json
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path

from harness.tasks.refer.pickle_writer import dumps
from harness.tasks.refer.tables import image, write_table
from harness.tasks.refer.task import Benchmark
from harness.tasks.refer.world import (
    Mention,
    Part,
    category,
    file_name,
    instances,
    mentions,
    number_of,
    thing_number,
    write_images,
)
from harness.world.language import Generator
from harness.world.raster import edges, visible_masks
from harness.world.shapes import World

TWO_TEST_SETS: Mapping[str, Part] = {
    "train": ("still", "train"),
    "val": ("still", "val"),
    "testA": ("still", "test"),
    "testB": ("count", "test"),
}
"""(World family, world split) of each split of a benchmark with `testA` and `testB`."""
ONE_TEST_SET: Mapping[str, Part] = {
    "train": ("still", "train"),
    "val": ("still", "val"),
    "test": ("still", "test"),
}
"""(World family, world split) of each split of a benchmark with one test set."""

COPY_COLUMNS = {
    "image": "image",
    "text": "string",
    "mask": "masks",
    "bbox": "box",
    "image_id": "string",
    "ann_id": "string",
    "img_height": "int32",
    "img_width": "int32",
}
"""Columns of VisionReasoner's copies, with their types in `tables`."""
LMMS_COLUMNS = {
    "question_id": "string",
    "image": "image",
    "question": "string",
    "answer": "strings",
    "segmentation": "floats",
    "bbox": "floats",
    "iscrowd": "int8",
    "file_name": "string",
}
"""Columns of lmms-lab's copies, with their types in `tables`."""
LMMS_QUESTION = "Please carefully observe the area circled in the image and come up with a caption"

Mentions = Mapping[str, Sequence[Mention]]
"""Mentions by split of the benchmark."""


def write_refer(
    world: World,
    root: Path,
    benchmark: Benchmark,
    *,
    generators: Sequence[Generator],
    divided: Mapping[str, Mapping[str, Part]],
    copied: Sequence[str] = ("val",),
    plain: bool = False,
) -> None:
    """Write one benchmark below `root/refer_seg`.

    Args:
        world: The generated world.
        root: The data root.
        benchmark: Names and folders of the benchmark.
        generators: Generators of the expressions.
        divided: For each `split_by` (the annotators of a division into splits, such as `unc`), the
            parts of the world by split.
        copied: Splits of the first `split_by` that are also written in the hub's two layouts.
        plain: Write JSON files of referents instead of pickles.
    """
    refer_root = root / "refer_seg"
    mentions_of_part = {
        part: mentions(world, part, generators, name=benchmark.name)
        for splits in divided.values()
        for part in splits.values()
    }
    scenes = list(  # each once, although several mentions may be about it
        {
            mention.scene.id: mention.scene
            for part in mentions_of_part.values()
            for mention in part
        }.values()
    )
    write_images(scenes, refer_root / "images/mscoco/images/train2014", name_of=file_name)
    folder = refer_root / benchmark.folder
    folder.mkdir()
    write_json(folder / "instances.json", instances(scenes, name_of=file_name))
    for split_by, splits in divided.items():
        refs = referents({split: mentions_of_part[part] for split, part in splits.items()})
        if plain:
            write_json(folder / f"refs({split_by}).json", refs)
        else:
            (folder / f"refs({split_by}).p").write_bytes(dumps(refs))
    first_splits = next(iter(divided.values()))
    for split in copied:
        _write_copies(
            refer_root / f"{benchmark.copies}_{split}", mentions_of_part[first_splits[split]]
        )
        rows = [
            _lmms_row(mention, number)
            for number, mention in enumerate(mentions_of_part[first_splits[split]])
        ]
        write_table(refer_root / "lmms-lab" / benchmark.boxes, split, rows, LMMS_COLUMNS)


def write_json(path: Path, plain: object) -> None:
    """Write plain data as one line of JSON; the bytes are the same on every platform."""
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    path.write_text(text + "\n", encoding="utf-8", newline="\n")


def referents(splits: Mentions) -> list[dict[str, object]]:
    """Return the entries of a `refs` file: one per mention, with ids counted from 1."""
    sent_ids, ref_ids = count(1), count(1)
    entries = []
    for split, mentions_of_split in splits.items():
        for mention in mentions_of_split:
            own_ids = [next(sent_ids) for _ in mention.texts]
            entries.append(_referent(mention, split, next(ref_ids), own_ids))
    return entries


def _referent(mention: Mention, split: str, ref_id: int, sent_ids: list[int]) -> dict[str, object]:
    """Return the entry of an object in the official file of referents."""
    (thing,) = mention.things
    stem = file_name(mention.scene).removesuffix(".jpg")
    return {
        "sent_ids": sent_ids,
        "file_name": f"{stem}_{thing_number(mention.scene, thing)}.jpg",  # not a file, officially
        "ann_id": thing_number(mention.scene, thing),
        "ref_id": ref_id,
        "image_id": number_of(mention.scene),
        "split": split,
        "sentences": [sentence(*pair) for pair in zip(sent_ids, mention.texts, strict=True)],
        "category_id": category(mention.scene, thing),
    }


def sentence(number: int, text: str) -> dict[str, object]:
    """Return the entry of one expression in its referent's `sentences`."""
    return {"tokens": text.lower().split(), "raw": text, "sent_id": number, "sent": text.lower()}


def _write_copies(folder: Path, group: Sequence[Mention]) -> None:
    """Write VisionReasoner's two copies: one row per object (its first expression), and `_all`."""
    all_expressions = [(mention, text) for mention in group for text in mention.texts]
    first_expressions = [(mention, mention.texts[0]) for mention in group]
    for target, pairs in (
        (folder, first_expressions),
        (folder.with_name(f"{folder.name}_all"), all_expressions),
    ):
        write_table(target, "test", [_copy_row(*pair) for pair in pairs], COPY_COLUMNS)


def _copy_row(mention: Mention, text: str) -> dict[str, object]:
    """Return a row of VisionReasoner's copies: one expression."""
    scene, (thing,) = mention.scene, mention.things
    mask = visible_masks(scene)[thing]
    return {
        "image": image(scene, file_name(scene)),
        "text": text,
        "mask": mask.tolist(),
        "bbox": list(edges(mask)),
        "image_id": str(number_of(scene)),
        "ann_id": str(thing_number(scene, thing)),
        "img_height": scene.height,
        "img_width": scene.width,
    }


def _lmms_row(mention: Mention, number: int) -> dict[str, object]:
    """Return a row of lmms-lab's copy: one object with all its expressions."""
    scene, (thing,) = mention.scene, mention.things
    x1, y1, x2, y2 = edges(visible_masks(scene)[thing])
    return {
        "question_id": str(number),
        "image": image(scene, file_name(scene)),
        "question": LMMS_QUESTION,
        "answer": list(mention.texts),
        "segmentation": [],
        "bbox": [float(x1), float(y1), float(x2 - x1), float(y2 - y1)],
        "iscrowd": 0,
        "file_name": file_name(scene),
    }
