"""Benchmarks of still images: a small world in their layouts, and files made by hand."""

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from harness.world.shapes import make

NAMES = (
    "reason_seg",
    "refcoco",
    "refcoco_plus",
    "refcocog",
    "grefcoco",
    "llm_seg40k",
    "coco_detection",
)
MADE = {"seed": 20250102, "size": 6}


@pytest.fixture(scope="session")
def stills(shared: Callable[[str], AbstractContextManager[Path]]) -> Path:
    """The generated world of the golden files, in these layouts; read only, for all workers."""
    writers = {name: import_module(f"harness.tasks.{name}.writer").write for name in NAMES}
    with shared("stills") as out:
        if not out.exists():
            make(out, **MADE, writers=writers)
    return out


REFERENT = {
    "ref_id": 1,
    "ann_id": 70,
    "category_id": 3,
    "image_id": 5,
    "split": "val",
    "sent_ids": [4],
    "file_name": "x.jpg",
    "sentences": [{"sent_id": 4, "sent": "it", "raw": "It", "tokens": []}],
}
THING = {
    "id": 70,
    "image_id": 5,
    "category_id": 3,
    "iscrowd": 0,
    "area": 12.0,
    "bbox": [2, 3, 4, 5],
    "segmentation": [[2, 3, 6, 3, 6, 8, 2, 8]],
}


@pytest.fixture
def refer_files(tmp_path: Path) -> Callable[..., Path]:
    """Write the files of a referring benchmark by hand; each entry with some fields changed."""

    def written(
        folder: str = "refcoco",
        name: str = "refs(unc).json",
        *,
        refs: list[Mapping[str, Any]] | None = None,
        things: list[Mapping[str, Any]] | None = None,
        image: Mapping[str, Any] | None = None,
        size: tuple[int, int] = (30, 20),
    ) -> Path:
        root = tmp_path / "refer_seg"
        images = root / "images/mscoco/images/train2014"
        images.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size).save(images / "five.jpg")
        entry = {"id": 5, "file_name": "five.jpg", "width": 30, "height": 20, **(image or {})}
        instances = {
            "images": [entry],
            "annotations": [{**THING, **one} for one in things or [{}]],
            "categories": [{"id": 3, "name": "thing"}],
        }
        place = root / folder
        place.mkdir(exist_ok=True)
        (place / "instances.json").write_text(json.dumps(instances))
        plain = [{**REFERENT, **one} for one in refs or [{}]]
        (place / name).write_text(json.dumps(plain))
        return tmp_path

    return written
