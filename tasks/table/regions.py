"""Boxes and masks of named objects in images, and the records of a table that are made of them.

An annotation tool stores one region per object. A question of a table is a name in an image, so
its answer is all regions of this name.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

from harness.errors import DataError, counted
from harness.masks import Rle
from harness.tasks.refer.annotations import ImageInfo, ObjectEntry, union
from harness.tasks.table.unread_fields import NO_OBJECT
from harness.types import Box

Record: TypeAlias = dict[str, object]
Polygon: TypeAlias = list[float]
"""Corners x, y, x, y, … in pixels of the image, as COCO has them."""
Object = TypeVar("Object")
UNCOUNTED = "ignored"
"""Name given to an object that counts neither as found nor as missed; `NO_OBJECT` matches it."""


class Region(NamedTuple):
    """A region of an image and the name of what it shows."""

    image: str
    name: str
    shape: Box | Polygon | Rle
    size: tuple[int, int] | None = None
    """Width and height of the image; None: the file does not state them."""


def of_files(
    paths: Iterable[str | Path],
    read: Callable[[Path], Iterable[Object]],
    image_of: Callable[[Object], str],
) -> Iterator[Object]:
    """Yield the objects of files, each of which has images of its own.

    Files without an object are counted on stderr.

    Raises:
        DataError: two files have objects of one image: they would be taken for those of one file.
    """
    files: dict[str, Path] = {}
    n_empty = 0
    for path in map(Path, paths):
        objects = list(read(path))
        n_empty += not objects
        for image in dict.fromkeys(map(image_of, objects)):
            if files.setdefault(image, path) != path:
                raise DataError(
                    f"file {path}",
                    expected="images that no other file has",
                    found=f"{image!r}, as in {files[image]}",
                    fix="Give images unique names, or convert each file by itself.",
                )
        yield from objects
    if n_empty:
        sys.stderr.write(f"{counted(n_empty, 'file')} without an object left out\n")


def image_of(region: Region) -> str:
    """Return the name of a region's image."""
    return region.image


def records_of(regions: Iterable[Region], bbox_mode: str = "XYXY_ABS") -> Iterator[Record]:
    """Yield the boxes, or the mask, of each name in each image, in the order of the file.

    Regions in which nothing counts (`NO_OBJECT`) are left out. If there are some, the field
    `ignored` of all records is their number in the image: `refuse_ignored` refuses a record with
    some until the user leaves such records out or removes the field.
    Masks are polygons, or run-lengths of the union if some region of the files is a run-length.
    Records keep the size that a file states for an image, so that one of another size is refused,
    and say in Detectron2's words that boxes are xyxy in pixels, or in fractions (`XYXY_REL`).

    Raises:
        DataError: a name has boxes and masks in one image.

    >>> left, right = Box(0, 0, 2, 2), Box(4, 0, 6, 2)
    >>> regions = [Region("a.png", "cat", left), Region("a.png", "cat", right)]
    >>> [(record["question"], record["boxes"]) for record in records_of(regions)]
    [('cat', [[0, 0, 2, 2], [4, 0, 6, 2]])]
    """
    groups: dict[tuple[str, str], list[Region]] = {}
    ignored = Counter[str]()
    for region in regions:
        if NO_OBJECT.fullmatch(region.name):
            ignored[region.image] += 1
        else:
            groups.setdefault((region.image, region.name), []).append(region)
    paint = any(isinstance(item.shape, Rle) for group in groups.values() for item in group)
    for (image, name), group in groups.items():
        boxes = [list(region.shape) for region in group if isinstance(region.shape, Box)]
        if boxes and len(boxes) < len(group):
            raise DataError(
                f"image {image!r}, {name!r}",
                expected="boxes or masks",
                found="both",
                fix="Keep the shapes of one kind in the tool, and export again.",
            )
        record: Record = {"image": image, "question": name}
        if boxes:
            record |= {"boxes": boxes, "bbox_mode": bbox_mode}
        else:
            record["mask"] = _mask(group, paint=paint)
        if ignored:
            record["ignored"] = ignored[image]
        size = group[0].size
        yield record | (dict(zip(("width", "height"), size, strict=True)) if size else {})


def _mask(group: Sequence[Region], *, paint: bool) -> object:
    if not paint:
        return [region.shape for region in group]
    return union([_painted(region) for region in group]).to_json()


def _painted(region: Region) -> Rle:
    """Return a region's pixels; COCO's own code rasterises polygons."""
    if isinstance(region.shape, Rle):
        return region.shape
    assert region.size is not None, "tools that write run-lengths state the size of images"
    where = f"image {region.image!r}, {region.name!r}"
    image = ImageInfo(id=0, file_name=region.image, width=region.size[0], height=region.size[1])
    entry = ObjectEntry(0, 0, 0, crowd=False, plain={"segmentation": [region.shape]}, where=where)
    return union(entry.parts(image))


def refuse_shape(where: str, kind: str) -> DataError:
    """Return the error for a shape that is neither a box nor an area."""
    return DataError(
        where,
        expected="boxes without rotation, polygons and masks",
        found=kind,
        fix="Delete such shapes in the tool, and export again.",
    )
