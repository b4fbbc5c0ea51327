"""TAO (Dave et al., 2020): boxes of tracks in annotated frames, one a second; no depth.

`tao/annotations/SPLIT.json`, in the form of COCO with videos and tracks:

    {"images": [{"id": 1, "video_id": 1, "file_name": "train/…/frame0001.jpg", "width": 640,
                 "height": 480, "frame_index": 0}, …],
     "videos": [{"id": 1, "name": "train/…", "neg_category_ids": [],
                 "not_exhaustive_category_ids": []}, …],
     "tracks": [{"id": 1, "category_id": 95, "video_id": 1}, …],
     "annotations": [{"image_id": 1, "track_id": 1, "bbox": [x, y, width, height]}, …],
     "categories": [{"id": 95, "name": "baby"}, …]}

Images lie at `tao/frames/<file_name>`. Boxes enclose the visible part, so that the visible share
is the part of the box inside the image.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import DataError
from harness.layout import field, path_inside, read_json
from harness.types import Box
from stv_builder.clips import Clip, ObjectView
from stv_builder.geometry import share_inside

RATE = 1.0  # annotated frames a second
QUALIFIER = re.compile(r"_?\([^)]*\)")


def read_tao(data: Path, *, split: str = "train", frames: int = 16) -> Iterator[Clip]:
    """Every video of a split, cut into clips of at most `frames` annotated frames.

    Raises:
        DataError: the file is missing, cut off, or not in its layout; an id is not known.
    """
    path = data / "tao" / "annotations" / f"{split}.json"
    plain = read_json(path)
    words = words_of(field(plain, "categories", list, str(path)), str(path))
    tracks = _by_id(plain, "tracks", path)
    boxes = _boxes(plain, tracks, words, path)
    images: dict[int, list[object]] = defaultdict(list)
    for image in field(plain, "images", list, str(path)):
        images[field(image, "video_id", int, f"{path}, images")].append(image)
    for number, video in _by_id(plain, "videos", path).items():
        where = f"{path}, video {number}"
        ordered = sorted(images[number], key=lambda one: field(one, "frame_index", int, where))
        listed = field(video, "not_exhaustive_category_ids", list, where)
        partly = frozenset(words[one] for one in listed if one in words)
        for start in range(0, len(ordered), frames):
            yield _clip(number, start, ordered[start : start + frames], boxes, partly, data, where)


def words_of(categories: Sequence[object], where: str) -> dict[int, str]:
    """Return each category's name for readers; "" for a name that several categories share.

    TAO's names are LVIS': `car_(automobile)` is a car. Two that become the same word say too
    little, and so does none.
    """
    found = {
        field(one, "id", int, where): plain_name(field(one, "name", str, where))
        for one in categories
    }
    names = list(found.values())
    return {number: name if names.count(name) == 1 else "" for number, name in found.items()}


def plain_name(name: str) -> str:
    """A category's name in words.

    >>> plain_name("car_(automobile)"), plain_name("polar_bear")
    ('car', 'polar bear')
    """
    return QUALIFIER.sub("", name).replace("_", " ").strip().lower()


def _by_id(plain: object, key: str, path: Path) -> dict[int, object]:
    listed = field(plain, key, list, str(path))
    found = {field(one, "id", int, f"{path}, {key}"): one for one in listed}
    if len(found) != len(listed):
        raise DataError(f"{path}, {key}", expected="each id once", found="one that comes again")
    return found


def _boxes(
    plain: object, tracks: Mapping[int, object], words: Mapping[int, str], path: Path
) -> dict[int, list[tuple[str, str, Box]]]:
    """(track, category, box) of every annotation, by the id of its image."""
    found: dict[int, list[tuple[str, str, Box]]] = defaultdict(list)
    for number, one in enumerate(field(plain, "annotations", list, str(path))):
        where = f"{path}, annotation {number}"
        track = field(one, "track_id", int, where)
        category = field(tracks.get(track), "category_id", int, f"{where}: track {track}")
        if category not in words:
            raise DataError(
                f"{where}: 'category_id'", expected="one of 'categories'", found=str(category)
            )
        box = _box(field(one, "bbox", list, where), f"{where}: 'bbox'")
        found[field(one, "image_id", int, where)].append((str(track), words[category], box))
    return found


def _box(plain: Sequence[Any], where: str) -> Box:
    if len(plain) != 4 or not all(type(one) in (int, float) and abs(one) < 1e6 for one in plain):
        raise DataError(where, expected="[x, y, width, height]", found=repr(plain)[:60])
    left, top, width, height = map(float, plain)
    if width < 0 or height < 0:
        raise DataError(where, expected="width and height from 0", found=repr(plain)[:60])
    return Box(left, top, left + width, top + height)


def _clip(
    number: int,
    start: int,
    images: Sequence[object],
    boxes: Mapping[int, Sequence[tuple[str, str, Box]]],
    partly: frozenset[str],
    data: Path,
    where: str,
) -> Clip:
    first = images[0]
    size = (field(first, "width", int, where), field(first, "height", int, where))
    files, sights = [], []
    for image in images:
        name = field(image, "file_name", str, where)
        path_inside(data / "tao" / "frames", name)
        files.append(f"tao/frames/{name}")
        sights.append(
            tuple(
                ObjectView(track=track, category=category, box=box, visible=share_inside(box, size))
                for track, category, box in boxes.get(field(image, "id", int, where), ())
            )
        )
    return Clip(
        id=f"tao/{number}/{start}",
        source="tao",
        images=tuple(files),
        rate=RATE,
        size=size,
        sights=tuple(sights),
        uncounted=(partly,) * len(images),
        unnamed=(partly,) * len(images),
    )
