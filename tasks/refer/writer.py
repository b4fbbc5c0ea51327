"""Still scenes in the layouts of RefCOCO, RefCOCO+ and RefCOCOg: refer's, and the hub's two."""

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

GAME: Mapping[str, Part] = {
    "train": ("still", "train"),
    "val": ("still", "val"),
    "testA": ("still", "test"),
    "testB": ("count", "test"),
}
"""Splits of benchmarks whose test set has two parts."""
PLAIN: Mapping[str, Part] = {
    "train": ("still", "train"),
    "val": ("still", "val"),
    "test": ("still", "test"),
}

COPY = {
    "image": "image",
    "text": "string",
    "mask": "masks",
    "bbox": "box",
    "image_id": "string",
    "ann_id": "string",
    "img_height": "int32",
    "img_width": "int32",
}
LMMS = {
    "question_id": "string",
    "image": "image",
    "question": "string",
    "answer": "strings",
    "segmentation": "floats",
    "bbox": "floats",
    "iscrowd": "int8",
    "file_name": "string",
}
REQUEST = "Please carefully observe the area circled in the image and come up with a caption"

Mentions = Mapping[str, Sequence[Mention]]


def write_refer(
    world: World,
    root: Path,
    benchmark: Benchmark,
    *,
    kinds: Sequence[Generator],
    divided: Mapping[str, Mapping[str, Part]],
    copied: Sequence[str] = ("val",),
    plain: bool = False,
) -> None:
    """Write one benchmark below `root/refer_seg`.

    Args:
        world: The world.
        root: The data root.
        benchmark: Names and folders.
        kinds: The kinds of expressions.
        divided: The splits of each `split_by`; the first one is copied for the hub.
        copied: Splits that are written as on the hub as well.
        plain: Write JSON in place of pickles.
    """
    place = root / "refer_seg"
    by_part = {
        part: mentions(world, part, kinds, name=benchmark.name)
        for splits in divided.values()
        for part in splits.values()
    }
    scenes = list(
        {mention.scene.id: mention.scene for part in by_part.values() for mention in part}.values()
    )
    write_images(scenes, place / "images/mscoco/images/train2014", named=file_name)
    folder = place / benchmark.folder
    folder.mkdir()
    write_json(folder / "instances.json", instances(scenes, named=file_name))
    for split_by, splits in divided.items():
        entries = referents({split: by_part[part] for split, part in splits.items()})
        if plain:
            write_json(folder / f"refs({split_by}).json", entries)
        else:
            (folder / f"refs({split_by}).p").write_bytes(dumps(entries))
    first = next(iter(divided.values()))
    for split in copied:
        _write_copies(place / f"{benchmark.copies}_{split}", by_part[first[split]])
        rows = [_lmms_row(mention, number) for number, mention in enumerate(by_part[first[split]])]
        write_table(place / "lmms-lab" / benchmark.boxes, split, rows, LMMS)


def write_json(path: Path, plain: object) -> None:
    """Write plain data, equal bytes everywhere."""
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    path.write_text(text + "\n", encoding="utf-8", newline="\n")


def referents(splits: Mentions) -> list[dict[str, object]]:
    """The content of a file of referents."""
    numbers = count(1)
    return [
        _referent(mention, split, ref_id, [next(numbers) for _ in mention.texts])
        for ref_id, (split, mention) in enumerate(
            ((split, mention) for split, several in splits.items() for mention in several), start=1
        )
    ]


def _referent(mention: Mention, split: str, ref_id: int, sent_ids: list[int]) -> dict[str, object]:
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
    """One expression's entry."""
    return {"tokens": text.lower().split(), "raw": text, "sent_id": number, "sent": text.lower()}


def _write_copies(folder: Path, several: Sequence[Mention]) -> None:
    """VisionReasoner's two copies: the first expression of each object, and all of them."""
    every = [(mention, text) for mention in several for text in mention.texts]
    first = [(mention, mention.texts[0]) for mention in several]
    for place, pairs in ((folder, first), (folder.with_name(f"{folder.name}_all"), every)):
        write_table(place, "test", [_copy_row(*pair) for pair in pairs], COPY)


def _copy_row(mention: Mention, text: str) -> dict[str, object]:
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
    scene, (thing,) = mention.scene, mention.things
    x1, y1, x2, y2 = edges(visible_masks(scene)[thing])
    return {
        "question_id": str(number),
        "image": image(scene, file_name(scene)),
        "question": REQUEST,
        "answer": list(mention.texts),
        "segmentation": [],
        "bbox": [float(x1), float(y1), float(x2 - x1), float(y2 - y1)],
        "iscrowd": 0,
        "file_name": file_name(scene),
    }
