"""ScanNet (Dai et al., 2017): rooms as labelled meshes, and images of a camera moving in them.

Below `scannet/scans/SCAN`:

    SCAN.aggregation.json                    {"segGroups": [{"objectId", "segments", "label"}, …]}
    SCAN_vh_clean_2.0.010000.segs.json       {"segIndices": [segment of each vertex]}
    SCAN_vh_clean_2.ply                      the vertices
    SCAN.txt                                 `axisAlignment = 16 numbers`, and more
    color/K.jpg pose/K.txt intrinsic/intrinsic_color.txt   as ScanNet's SensReader exports them
    depth/K.png                              if exported: what is behind something is not seen

A pose is world from camera (x right, y down, z ahead); one of infinities is lost. The world is
turned by `axisAlignment`, so that z points up and walls follow x and y; boxes are along these axes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.spatial import ConvexHull, QhullError

from harness.errors import DataError, raised_as
from harness.files import open_regular, read_text
from harness.foreign import listed
from harness.image_file import header_size
from harness.layout import field, read_json
from harness.masks import BoolArray
from stv_builder.clips import Clip, ObjectView
from stv_builder.geometry import (
    NEAR,
    Array,
    Place,
    bounds,
    box_around,
    corners_of,
    flip_y,
    inverse,
    place,
    project,
    transform_points,
)
from stv_builder.ply import read_vertices

RATE = 30.0  # frames a second
POINTS = 400  # of an object that are looked for in each image
BEHIND = 0.15  # metres that a point may lie behind what the depth image shows
VAGUE = frozenset(
    {
        "wall",
        "floor",
        "ceiling",
        "object",
        "unknown",
        "remove",
        "doorframe",
        "misc",
        "otherfurniture",
        "otherstructure",
        "otherprop",
        "structure",
    }
)
"""Labels that do not identify an object."""


@dataclass(frozen=True, slots=True)
class Thing:
    """An object of a room, in the aligned world."""

    track: str
    category: str
    points: Array
    """Rows (x, y, z): at most `POINTS` of its vertices, evenly chosen."""
    low: Array
    high: Array


@dataclass(frozen=True, slots=True)
class Room:
    """A scan without its images."""

    things: tuple[Thing, ...]
    area: float | None
    """Square metres."""
    alignment: Array
    """Aligned world from the scan's own, 4 × 4."""


def read_scannet(
    data: Path, *, frames: int = 16, step: int = 30, without: frozenset[str] = frozenset()
) -> Iterator[Clip]:
    """Every scan, cut into clips of at most `frames` frames, `step` frames apart.

    Args:
        data: The data root.
        frames: Most frames of a clip.
        step: Frames from one to the next.
        without: Names of scans to leave out, such as those that a benchmark asks about.

    Raises:
        DataError: a file is missing or not in its layout.
    """
    for folder in sorted((data / "scannet" / "scans").glob("scene*")):
        if folder.is_dir() and folder.name not in without:
            yield from _scan(folder, frames=frames, step=step)


def _scan(folder: Path, *, frames: int, step: int) -> Iterator[Clip]:
    room = read_room(folder)
    numbers = sorted(
        int(path.stem) for path in listed(folder / "color", "*.jpg") if path.stem.isdigit()
    )[::step]
    if not numbers:
        raise DataError(
            f"folder {folder / 'color'}", expected="images, 0.jpg and so on", found="none"
        )
    size = header_size(folder / "color" / f"{numbers[0]}.jpg")
    intrinsics = read_matrix(folder / "intrinsic" / "intrinsic_color.txt")
    for start in range(0, len(numbers), frames):
        window = numbers[start : start + frames]
        sights = [
            tuple(_object_views(room, folder, number, intrinsics=intrinsics, size=size))
            for number in window
        ]
        shown = [f"scannet/scans/{folder.name}/color/{number}.jpg" for number in window]
        yield Clip(
            id=f"scannet/{folder.name}/{window[0]}",
            source="scannet",
            rate=RATE / step,
            images=tuple(shown),
            size=size,
            sights=tuple(sights),
            room=room.area,
            still=True,
        )


def read_room(folder: Path) -> Room:
    """The objects of a scan.

    Raises:
        DataError: a file is missing or damaged, or they do not belong together.
    """
    name = folder.name
    alignment = read_alignment(folder / f"{name}.txt")
    vertices = transform_points(alignment, read_vertices(folder / f"{name}_vh_clean_2.ply"))
    path = folder / f"{name}_vh_clean_2.0.010000.segs.json"
    segments = np.asarray(field(read_json(path), "segIndices", list, str(path)))
    if segments.shape != (len(vertices),) or segments.dtype.kind not in "iu":
        raise DataError(
            f"{path}: 'segIndices'",
            expected=f"{len(vertices)} whole numbers, one a vertex",
            found=f"{segments.size}",
        )
    path = folder / f"{name}.aggregation.json"
    things, floor = [], vertices
    for group in field(read_json(path), "segGroups", list, str(path)):
        label = field(group, "label", str, f"{path}, a group").strip().lower()
        mine = vertices[np.isin(segments, field(group, "segments", list, f"{path}, {label}"))]
        if label == "floor" and len(mine):
            floor = mine
        if len(mine):
            track = str(field(group, "objectId", int, f"{path}, {label}"))
            things.append(_make_thing(track, label, mine))
    return Room(tuple(things), room_area(floor), alignment)


def _make_thing(track: str, label: str, vertices: Array) -> Thing:
    chosen = np.linspace(0, len(vertices) - 1, min(len(vertices), POINTS)).astype(int)
    return Thing(
        track=track,
        category="" if label in VAGUE else label,
        points=vertices[chosen],
        low=vertices.min(axis=0),
        high=vertices.max(axis=0),
    )


def room_area(floor: Array) -> float | None:
    """Square metres of the convex hull of the floor seen from above; None of a line or a point."""
    try:
        return float(ConvexHull(floor[:, :2]).volume)
    except (QhullError, ValueError):
        return None


def read_alignment(path: Path) -> Array:
    """`axisAlignment` of a scan's text file; none leaves the scan as it is.

    Raises:
        DataError: the file is missing, or has another number of numbers.
    """
    with raised_as(DataError, f"file {path}", "a scan's text file", OSError, UnicodeDecodeError):
        lines = read_text(path).splitlines()
    found = [line.partition("=")[2] for line in lines if line.startswith("axisAlignment")]
    return _matrix(found[0].split(), f"{path}: axisAlignment") if found else np.eye(4)


def read_matrix(path: Path) -> Array:
    """The 4 × 4 numbers of a text file; infinities of a lost pose are kept.

    Raises:
        DataError: it is missing, or has other numbers.
    """
    with raised_as(DataError, f"file {path}", "16 numbers", OSError, UnicodeDecodeError):
        return _matrix(read_text(path).split(), f"file {path}")


def _matrix(words: Sequence[str], where: str) -> Array:
    with raised_as(DataError, where, "16 numbers", ValueError):
        numbers = np.array([float(word) for word in words])
    if numbers.size != 16:
        raise DataError(where, expected="16 numbers", found=str(numbers.size))
    return numbers.reshape(4, 4)


def _object_views(
    room: Room, folder: Path, number: int, *, intrinsics: Array, size: tuple[int, int]
) -> Iterator[ObjectView]:
    pose = read_matrix(folder / "pose" / f"{number}.txt")
    if not np.isfinite(pose).all():
        return  # the camera was lost: nothing is known of this frame
    # Poses are of the scan's own world, objects lie in the aligned one.
    camera = inverse(pose) @ inverse(room.alignment)
    depth = _depth(folder / "depth" / f"{number}.png")
    for thing in room.things:
        sight = sight_of(thing, camera, intrinsics, size, depth)
        if sight is not None:
            yield sight


def _depth(path: Path) -> Array | None:
    """Metres of a depth image in thousandths; None where none was exported."""
    if not path.is_file():
        return None
    cut = raised_as(DataError, f"image {path}", "a complete PNG", OSError, SyntaxError, ValueError)
    with cut, open_regular(path) as file, Image.open(file, formats=("PNG",)) as image:
        if not image.mode.startswith("I"):
            raise DataError(
                f"image {path}",
                expected="depth in thousandths of a metre, grey of 16 bits",
                found=f"mode {image.mode}, which has lost it",
                fix="Export it again: SensReader writes 16 bits.",
            )
        return np.asarray(image).astype(np.float64) / 1000


def sight_of(
    thing: Thing,
    camera: Array,
    intrinsics: Array,
    size: tuple[int, int],
    depth: Array | None = None,
) -> ObjectView | None:
    """An object as a camera sees it; None if no point of it lies in the image.

    The visible share is that of its points which lie in the image and, where there is a depth
    image, not behind what that shows.
    """
    width, height = size
    points = transform_points(camera, thing.points)
    ahead = points[:, 2] > NEAR
    pixels = np.full((len(points), 2), -1.0)
    pixels[ahead] = project(intrinsics, points[ahead])
    u, v = pixels.T
    seen = ahead & (u >= 0) & (u < width) & (v >= 0) & (v < height)
    if depth is not None:
        seen &= ~_is_hidden(points[:, 2], u / width, v / height, seen, depth)
    if not seen.any():
        return None
    middle = (thing.low + thing.high) / 2
    length, across, upwards = (float(side) for side in thing.high - thing.low)
    return ObjectView(
        track=thing.track,
        category=thing.category,
        box=bounds(pixels[seen]),
        visible=float(seen.mean()),
        centre=place(flip_y(transform_points(camera, middle[None]))[0]),
        extent=box_around(flip_y(transform_points(camera, corners_of(thing.low, thing.high)))),
        ground=Place(float(middle[0]), float(middle[1]), 0.0),
        world=place(middle),
        sides=(length, across, upwards),
    )


def _is_hidden(away: Array, across: Array, down: Array, seen: BoolArray, depth: Array) -> BoolArray:
    """Return the points behind the surface of the depth image; its gaps (0) hide nothing."""
    rows = np.clip((down * depth.shape[0]).astype(int), 0, depth.shape[0] - 1)
    columns = np.clip((across * depth.shape[1]).astype(int), 0, depth.shape[1] - 1)
    shown = depth[rows, columns]
    hidden: BoolArray = seen & (shown > 0) & (away > shown + BEHIND)
    return hidden
