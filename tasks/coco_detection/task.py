"""COCO detection in VisionReasoner's form: one question for each category in an image.

Ground truth is COCO's own `instances_val2017.json`. Questions are either made from it, or are those
of VisionReasoner's copy on the hub, one row a question:

    {"image": {"bytes": …}, "text": "person", "image_id": "139", "ann_id": "139_1", "cat_id": 1,
     "bbox": [[412.8, 157.61, 465.85, 295.62]], "img_height": 426, "img_width": 640}
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError
from harness.layout import field, file, folder
from harness.metrics.detection import Library
from harness.task import Protocol, Task, check_by_reading, choose, lost_media
from harness.tasks.coco_detection.scoring import protocols
from harness.tasks.refer.annotations import Instances, ObjectEntry
from harness.tasks.refer.copies import Copy, parquet_files, read_copies
from harness.tasks.refer.source import media_of
from harness.types import Answer, AnswerForm, Query, Sample, Target, query_id

FIX = "`harness list tasks coco_detection` prints the source of the data."
PROTOCOLS = protocols("pycocotools")


def coco_detection(
    data: Path,
    *,
    split: Literal["val"] = "val",
    protocol: str = "coco/visionreasoner",
    layout: Literal["auto", "coco", "hub"] = "auto",
    library: Library = "pycocotools",
) -> Task:
    """One sample per image and category.

    Args:
        split: COCO's val2017.
        protocol: `coco/visionreasoner` or `coco/scores`; see the card.
        layout: Questions from COCO's own files, or VisionReasoner's; `auto` takes the latter if
            they are there.
        library: The package that computes AP; both give equal numbers.
    """
    scoring: Protocol = choose("protocol", protocols(library), protocol)
    root = folder(data / "coco_detection", fix=FIX)
    copies = root / "coco_val"
    source = layout if layout != "auto" else "hub" if copies.is_dir() else "coco"
    path = root / "annotations" / "instances_val2017.json"
    ground_truth = GroundTruth(file(path, expected="COCO's annotations", fix=FIX))
    files = tuple(parquet_files(copies, "test", fix=FIX)) if source == "hub" else ()
    samples = (
        partial(_copied_questions, ground_truth, files)
        if files
        else partial(_questions, ground_truth, root / "val2017")
    )
    return Task(
        name="coco_detection",
        version=2,
        split=split,
        forms=(AnswerForm.BOXES,),
        protocol=scoring,
        samples=samples,
        annotations=(path, *files),
        check=partial(check_by_reading, samples, root),
        check_samples=lost_media,
        arguments={"split": split, "protocol": protocol, "layout": source, "library": library},
    )


@dataclass(frozen=True)
class GroundTruth:
    """COCO's annotations grouped into questions: one for each image and category.

    Only the ids of all objects and the entries of one question are in memory.
    """

    path: Path

    @cached_property
    def instances(self) -> Instances:
        """Images, objects and categories of the file, by id."""
        return Instances(self.path)

    @cached_property
    def _numbers(self) -> NDArray[np.int64]:
        """Ids (image, category, object), one row per object, sorted by image and category."""
        numbers = array("q")
        for number, plain in self.instances.object_entries.items():
            where = f"{self.path}, annotation {number}"
            category = field(plain, "category_id", int, where)
            if category not in self.instances.categories:
                raise DataError(
                    f"{where}: 'category_id'", expected="a known category", found=str(category)
                )
            numbers.extend((field(plain, "image_id", int, where), category, int(number)))
        rows = np.array(numbers, np.int64).reshape(-1, 3)
        return rows[np.lexsort((rows[:, 1], rows[:, 0]))]

    def questions(self) -> Iterator[tuple[int, int, list[ObjectEntry]]]:
        """Yield (image id, category id, objects) of each question, sorted by the ids."""
        rows = self._numbers
        starts = np.flatnonzero(np.any(np.diff(rows[:, :2], axis=0), axis=1)) + 1
        bounds = (0, *starts.tolist(), len(rows)) if len(rows) else ()
        for first, last in pairwise(bounds):
            image_id, category = rows[first, :2].tolist()
            yield image_id, category, self._objects_in(rows[first:last])

    def objects_of(self, image_id: int, category: int) -> list[ObjectEntry]:
        """Return the objects of one image and category."""
        rows = self._numbers
        first, last = (np.searchsorted(rows[:, 0], image_id, side) for side in ("left", "right"))
        group = rows[first:last]
        return self._objects_in(group[group[:, 1] == category])

    def _objects_in(self, rows: NDArray[np.int64]) -> list[ObjectEntry]:
        """Read the objects of some rows of `_numbers`."""
        return [self.instances.object_entry(int(number), str(self.path)) for number in rows[:, 2]]


def _questions(ground_truth: GroundTruth, images: Path) -> Iterator[Sample]:
    """Yield one sample for each image and category; its text is the category's name."""
    for image_id, category, objects in ground_truth.questions():
        media = media_of(ground_truth.instances.image(image_id, objects[0].where), images)
        name = ground_truth.instances.categories[category]
        id = f"{image_id}/{category}"
        query = Query(id=query_id(id), text=name, media=(media,), forms=(AnswerForm.BOXES,))
        yield _sample(id, query, objects, (image_id, category), name, requested=True)


def _copied_questions(ground_truth: GroundTruth, files: Sequence[Path]) -> Iterator[Sample]:
    """Yield the questions of VisionReasoner's copy.

    The true boxes come from COCO's file; a row's own boxes only show that it lists an object.
    """
    for copy in read_copies(files, boxes=True, category=True):
        image_id, category = _numbers(copy)
        objects = ground_truth.objects_of(image_id, category)
        if (
            str(image_id) not in ground_truth.instances.images
            or category not in ground_truth.instances.categories
        ):
            raise DataError(
                f"{copy.where}: 'image_id' and 'cat_id'",
                expected=f"numbers of {ground_truth.path}",
                found=f"{image_id}, {category}",
            )
        id = f"{image_id}/{category}"
        query = Query(
            id=query_id(id), text=copy.text, media=(copy.media(),), forms=(AnswerForm.BOXES,)
        )
        name = ground_truth.instances.categories[category]
        yield _sample(id, query, objects, (image_id, category), name, requested=bool(copy.boxes))


def _numbers(copy: Copy) -> tuple[int, int]:
    """Return the ids of a copied row's image and category."""
    assert copy.category is not None
    if not copy.image_id.isdigit() or len(copy.image_id) > 12:
        raise DataError(
            f"{copy.where}: 'image_id'",
            expected="an image's number",
            found=repr(copy.image_id)[:40],
        )
    return int(copy.image_id), copy.category


def _sample(
    id: str,
    query: Query,
    objects: Sequence[ObjectEntry],
    question_key: tuple[int, int],
    name: str,
    *,
    requested: bool,
) -> Sample:
    """Return the sample of a question.

    Args:
        id: Id of the sample.
        query: The question as the model gets it.
        objects: The true objects.
        question_key: Ids of image and category.
        name: Name of the category.
        requested: True if the row of the question lists a box; VisionReasoner's confidences depend
            on it.
    """
    image_id, category = question_key
    extra = {
        "image": image_id,
        "category": category,
        "asked": requested,
        "crowd": [entry.crowd for entry in objects],
        "areas": [entry.area for entry in objects],
        "sizes": [tuple(map(float, entry.plain["bbox"][2:])) for entry in objects],
    }
    return Sample(
        id=id,
        query=query,
        target=Target(answer=Answer(boxes=tuple(entry.edges for entry in objects)), extra=extra),
        group=str(image_id),
        categories={"category": name},
    )
