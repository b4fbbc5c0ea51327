"""Reader of COCO's `instances.json` for RefCOCO, gRefCOCO, COCO detection and tables of samples.

`Instances` finds the entries of images and objects by id; `ObjectEntry` gives an object's box and
masks. Only the entries that a task asks for are checked, because RefCOCO's file has ten times as
many objects as its expressions refer to.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeGuard

from pycocotools import mask as coco

from harness.errors import DataError
from harness.formats.rotated import refuse_rotated
from harness.layout import JsonFile, JsonIndex, field
from harness.layout.places import extent, is_written_as_corners, is_xy_swapped, refuse_outside
from harness.masks import Rle, check_size
from harness.types import Box

MAX_OUTSIDE = 0.99
"""Largest share of an object's polygon corners outside the image.

COCO's code clips polygons to the image; an object is refused only if it lies outside as a whole.
"""


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """The entry of an image."""

    id: int
    file_name: str
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class ObjectEntry:
    """The entry of an object (COCO: annotation); its box and mask are checked on access."""

    id: int
    image_id: int
    category_id: int
    crowd: bool
    plain: Mapping[str, Any]
    """The entry's JSON object, unchecked."""
    where: str
    """File and id, for errors."""

    @property
    def box(self) -> Box:
        """The object's box with edges in pixels; the file has [x, y, width, height].

        Raises:
            DataError: the file's box is not four finite numbers, or it has no area.
        """
        box = self.edges
        if box.right <= box.left or box.bottom <= box.top:
            raise DataError(
                f"{self.where}: 'bbox'", expected="a box with area", found=repr(self.plain["bbox"])
            )
        return box

    @property
    def edges(self) -> Box:
        """The same box as `box`, but its area may be 0, as it is for a few objects of COCO."""
        values = self.plain.get("bbox")
        if not isinstance(values, list) or len(values) != 4 or not all(map(_finite, values)):
            raise DataError(
                f"{self.where}: 'bbox'", expected="[x, y, width, height]", found=repr(values)[:60]
            )
        x, y, width, height = map(float, values)
        refuse_other_order(self.plain, self.where)
        if width < 0 or height < 0:
            raise DataError(
                f"{self.where}: 'bbox'", expected="no negative side", found=repr(values)
            )
        return Box(x, y, x + width, y + height)

    @property
    def area(self) -> float:
        """The annotated area in square pixels; COCO groups objects into small and large by it."""
        area = self.plain.get("area")
        if not _finite(area) or area < 0:
            raise DataError(f"{self.where}: 'area'", expected="a number ≥ 0", found=repr(area)[:40])
        return float(area)

    def parts(self, image: ImageInfo) -> list[Rle]:
        """Return one mask of the image per polygon or run-length, in the order of the file.

        COCO's own code rasterises polygons and clips them to the image. An object without polygons
        has one empty mask.

        Raises:
            DataError: the entry has no segmentation, a polygon has fewer than three corners or a
                coordinate out of range (see `check_polygon`), or a run-length is not of the image's
                size.
        """
        check_size(image.height, image.width, f"{self.where}: size of image {image.id}")
        plain = self.plain.get("segmentation")
        pieces = [plain] if isinstance(plain, dict) else plain
        if not isinstance(pieces, list):
            raise DataError(
                f"{self.where}: 'segmentation'",
                expected="polygons or a run-length",
                found=repr(plain)[:60],
            )
        if not pieces:
            return [Rle.empty(image.height, image.width)]
        masks = [self._part(piece, f"part {n}", image) for n, piece in enumerate(pieces)]
        polygons = [piece for piece in pieces if is_polygon(piece)]
        size = (image.width, image.height)
        refuse_outside(polygons, size, f"{self.where}: 'segmentation'", max_outside=MAX_OUTSIDE)
        return masks

    def _part(self, piece: object, piece_name: str, image: ImageInfo) -> Rle:
        """Return the mask of one polygon or run-length."""
        where = f"{self.where}: 'segmentation', {piece_name}"
        if isinstance(piece, dict):
            mask = Rle.from_json(piece, where)
            if mask.size != (image.width, image.height):
                raise DataError(
                    where,
                    expected=f"{image.width} × {image.height} pixels",
                    found=f"{mask.width} × {mask.height}",
                )
            return mask
        check_polygon(piece, image, where)
        (encoded,) = coco.frPyObjects([piece], image.height, image.width)
        return Rle(image.height, image.width, encoded["counts"].decode("ascii"))


def refuse_other_order(entry: Mapping[str, Any], where: str) -> None:
    """Raise DataError if an object's box is rotated, or its numbers are not in COCO's order.

    The polygons reveal the order: they fit the box only if y is read first, or only if the box is
    read as two corners. Without a segmentation, the stated area does: it fits two corners only.
    """
    refuse_rotated(entry, where)
    sides, pieces = entry.get("bbox"), entry.get("segmentation")
    polygons = [piece for piece in pieces if is_polygon(piece)] if isinstance(pieces, list) else []
    if not isinstance(sides, list) or len(sides) != 4 or not all(map(_finite, sides)):
        return
    if not pieces and _is_area_of_corners(sides, entry.get("area")):
        raise DataError(
            f"{where}: 'bbox'",
            expected="[x, y, width, height]",
            found=f"{sides!r}, which has its area as [left, top, right, bottom]"[:120],
            fix="Write the width and the height in place of right and bottom.",
        )
    if not polygons:
        return
    bounds = extent(polygons)
    if is_xy_swapped(sides, bounds):
        raise DataError(
            f"{where}: 'segmentation'",
            expected="[x, y, x, y, …]",
            found=f"corners that fit the box {sides!r} with y first"[:120],
            fix="Write x before y.",
        )
    if is_written_as_corners(sides, bounds):
        raise DataError(
            f"{where}: 'bbox'",
            expected="[x, y, width, height]",
            found=f"{sides!r}, which fits its polygons as [left, top, right, bottom]"[:120],
            fix="Write the width and the height in place of right and bottom.",
        )


def _is_area_of_corners(sides: Sequence[object], area: object) -> bool:
    """Return True if the stated area fits the box as two corners, but not as corner and size."""
    numbers = [side for side in (*sides, area) if isinstance(side, (int, float))]
    if len(numbers) != 5:
        return False
    left, top, third, fourth, stated = numbers
    area_of_corners = (third - left) * (fourth - top) if third > left and fourth > top else 0
    area_of_size = third * fourth
    tolerance = 1e-6 * abs(stated)
    return abs(area_of_corners - stated) <= tolerance < abs(area_of_size - stated)


def is_polygon(piece: object) -> TypeGuard[list[float]]:
    """Return True for a list of six finite numbers or more."""
    return isinstance(piece, list) and len(piece) >= 6 and all(map(_finite, piece))


def check_polygon(piece: object, image: ImageInfo, where: str) -> None:
    """Raise DataError unless `piece` is [x, y, x, y, x, y, …] with coordinates near the image.

    A coordinate may lie outside the image by the image's width or height at most: COCO's code walks
    along every edge pixel by pixel, so a far corner would take very long. Lists of four numbers are
    refused because COCO's code would read them as a box.
    """
    if not isinstance(piece, list) or len(piece) < 6 or len(piece) % 2:
        raise DataError(
            where,
            expected="[x, y, …] of at least three corners",
            found=f"{len(piece)} numbers" if isinstance(piece, list) else repr(piece)[:40],
        )
    for start, side in ((0, image.width), (1, image.height)):  # x at even indices, y at odd ones
        for value in piece[start::2]:
            if not _finite(value) or not -side <= value <= 2 * side:
                raise DataError(
                    where,
                    expected=f"coordinates from {-side} to {2 * side}",
                    found=repr(value)[:40],
                )


def _finite(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and type(value) is not bool and math.isfinite(value)


@dataclass(frozen=True)
class Instances:
    """An `instances.json`, read entry by entry; only one entry is in memory at a time.

    The file is not read when the object is created. The first use of each part reads it once.
    """

    path: Path

    @cached_property
    def images(self) -> JsonIndex:
        """The entries of images, by id as text."""
        return JsonIndex(JsonFile(self.path, ("images",)), by="id")

    @cached_property
    def object_entries(self) -> JsonIndex:
        """The entries of objects, by id as text."""
        return JsonIndex(JsonFile(self.path, ("annotations",)), by="id")

    @cached_property
    def categories(self) -> Mapping[int, str]:
        """The names of categories, by id."""
        category_index = JsonIndex(JsonFile(self.path, ("categories",)), by="id")
        category_index.walk()
        return {
            int(number): field(category, "name", str, f"{self.path}, category {number}")
            for number, category in category_index.items()
        }

    def walk(self) -> None:
        """Read all parts of the file now.

        Raises:
            DataError: the file is missing, truncated or not COCO's, or an id occurs twice.
        """
        self.images.walk()
        self.object_entries.walk()
        _ = self.categories

    def image(self, number: int, where: str) -> ImageInfo:
        """Return the image with the id `number`, or raise a DataError that names `where`."""
        plain = _find_entry(self.images, number, f"{where}: 'image_id'", f"images of {self.path}")
        image_where = f"{self.path}, image {number}"
        image = ImageInfo(
            number,
            field(plain, "file_name", str, image_where),
            field(plain, "width", int, image_where),
            field(plain, "height", int, image_where),
        )
        check_size(image.height, image.width, image_where)
        return image

    def object_entry(self, number: int, where: str) -> ObjectEntry:
        """Return the object with the id `number`, or raise a DataError that names `where`."""
        plain = _find_entry(
            self.object_entries, number, f"{where}: 'ann_id'", f"annotations of {self.path}"
        )
        object_where = f"{self.path}, annotation {number}"
        return ObjectEntry(
            number,
            field(plain, "image_id", int, object_where),
            field(plain, "category_id", int, object_where),
            bool(plain.get("iscrowd", 0)),
            plain,
            object_where,
        )


def _find_entry(index: JsonIndex, number: int, where: str, listing: str) -> Any:
    """Return the entry with an id; the DataError names `where` the id is, and the `listing`."""
    plain = index.get(str(number))
    if plain is None:
        raise DataError(where, expected=f"one of the {len(index)} {listing}", found=str(number))
    return plain


def union(masks: Sequence[Rle]) -> Rle:
    """Return the union of at least one mask."""
    return masks[0].union(*masks[1:])
