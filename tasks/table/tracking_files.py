"""Records of files of tracked objects: KITTI, MOT, MOTS, SA-V, VisDrone; frames are images.

The commands that refusals print call these functions with the paths of files. The question is the
name of a class, and its answer all objects of the class in a frame.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from harness.errors import DataError
from harness.layout.mask_image import read_mask_image
from harness.masks import Rle
from harness.tasks.table.regions import UNCOUNTED, Record, Region, image_of, of_files, records_of
from harness.types import Box

CLASSES = {1: "car", 2: "pedestrian", 10: UNCOUNTED}
"""Numbers of classes in MOTS; 10 marks pixels to ignore."""
OBJECTS = 1000
"""Numbers of objects of one class in an image of MOTS."""
PEDESTRIAN = "1"
NEUTRAL = ("2", "6", "7", "8", "12")
"""Classes that count neither way: on a vehicle, a bicycle, standing still, alike, a reflection."""
NUMBER = r"-?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]\d+)?"
SIDES = rf"{NUMBER}(?:,{NUMBER}){{3}}"
TRACK = rf"\d+,-?\d+,{SIDES}"
MOT_LINE = re.compile(rf"{TRACK},{NUMBER}(?:(?:,-1(?:\.0*)?){{3}})?")
"""A box of MOTChallenge's detections and results: frame, object, sides, score, three times -1."""
MOT_TRUTH = re.compile(rf"{TRACK},[01],(?:[1-9]|1[0-3]),(?:[01]|[01]?\.\d+|\d(?:\.\d+)?[eE]-\d+)")
"""A box of its ground truth, `gt.txt`: frame, object, sides, flag, class, visibility."""
STATE = r"(?:\d|1[01]),(?:-1|0|1),(?:-1|0|1|2),?"
VISDRONE_IMAGE = re.compile(rf"{SIDES},{NUMBER},{STATE}")
"""A box of VisDrone DET: sides, score, category, truncation, occlusion."""
VISDRONE_VIDEO = re.compile(rf"{TRACK},{NUMBER},{STATE}")
"""A box of VisDrone VID and MOT: frame, object, and the same."""
VISDRONE = (
    "ignored regions",
    "pedestrian",
    "people",
    "bicycle",
    "car",
    "van",
    "truck",
    "tricycle",
    "awning-tricycle",
    "bus",
    "motor",
    "others",
)
"""VisDrone's categories by their number."""
EVERY = 4
"""Frames of a video of SA-V, 24 per second, of which one is annotated."""


def mots(paths: Iterable[str]) -> Iterator[Record]:
    """Yield the records of MOTS' text files: frame, object, class, height, width, run-length.

    Frames of `0002.txt` are called as KITTI's (`0002/000000.png`), those of other files as
    MOTChallenge's (`img1/000001.jpg`). Pixels to ignore are counted as ignored.
    """
    files = list(map(Path, paths))
    if len([file for file in files if not file.stem.isdecimal()]) > 1:
        raise DataError(
            "the text files of MOTS",
            expected="one, since frames of each are called img1/000001.jpg",
            found=", ".join(file.name for file in files)[:80],
            fix="Convert each file by itself, and put its table beside the folder img1.",
        )
    return records_of(of_files(files, _of_mots, image_of))


def _of_mots(path: Path) -> Iterator[Region]:
    """Yield the masks of one text file of MOTS."""
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip():
            continue
        if len(fields := line.split()) != 6:
            raise DataError(
                f"{path}, line {number}", expected="6 fields of MOTS", found=str(len(fields))
            )
        frame, _, kind, height, width, counts = fields
        mask = Rle(int(height), int(width), counts)
        name = _class(int(kind), f"{path}, line {number}")
        yield Region(_frame(path, int(frame)), name, mask, (int(width), int(height)))


def _frame(path: Path, frame: int) -> str:
    """Return the file of a frame of a sequence."""
    is_kitti = path.stem.isdecimal()
    return f"{path.stem}/{frame:06}.png" if is_kitti else f"img1/{frame:06}.jpg"


def _class(number: int, where: str) -> str:
    if number not in CLASSES:
        raise DataError(where, expected="class 1, 2 or 10", found=f"class {number}")
    return CLASSES[number]


def mots_images(paths: Iterable[str]) -> Iterator[Record]:
    """Yield the records of MOTS' images, `<sequence>/<frame>.png` of class * 1000 + object."""
    return records_of(of_files(paths, _of_mots_image, image_of))


def _of_mots_image(path: Path) -> Iterator[Region]:
    """Yield the union of each class's objects in one image of MOTS."""
    values = read_mask_image(path, str(path)).values
    for kind in np.unique(values // OBJECTS):
        if kind:
            mask = Rle.from_array(values // OBJECTS == kind)
            image = f"{path.parent.name}/{path.name}"
            yield Region(image, _class(int(kind), str(path)), mask, values.shape[::-1])


def kitti(paths: Iterable[str]) -> Iterator[Record]:
    """Yield the records of KITTI's labels of images (`000012.txt`) or of sequences (`0002.txt`).

    Boxes are in pixels as they are. Regions that are called DontCare are counted as ignored.
    """
    return records_of(of_files(paths, _of_kitti, image_of))


def _of_kitti(path: Path) -> Iterator[Region]:
    """Yield the boxes of one file of KITTI's labels."""
    for line in filter(str.strip, path.read_text().splitlines()):
        fields = line.split()
        image = f"{path.stem}.png"
        if fields[0].isdecimal():  # the frame and the track come first
            image, fields = _frame(path, int(fields[0])), fields[2:]
        yield Region(image, fields[0], Box(*map(float, fields[4:8])))


def mot(path: str) -> Iterator[Record]:
    """Yield the records of MOTChallenge's files: frame, object, left, top, width, height, ….

    Its pixels are counted from 1. Of ground truth (nine columns, in 2015 ten) the pedestrians that
    count are kept, and those that count neither way are counted as ignored. Boxes are cut at the
    image where `seqinfo.ini` beside the folder of the file has its size.
    """
    return records_of(_of_mot(Path(path)))


def _of_mot(path: Path) -> Iterator[Region]:
    """Yield the boxes of one of MOTChallenge's files."""
    information = path.resolve().parent.parent / "seqinfo.ini"
    stated = information.read_text() if information.is_file() else ""
    sides = re.findall(r"^im(?:Width|Height)\s*=\s*(\d+)", stated, re.MULTILINE)
    size = (int(sides[0]), int(sides[1])) if len(sides) == 2 else None
    with path.open(encoding="utf-8-sig", newline="") as file:
        for row in filter(None, csv.reader(file)):
            is_counted, kind = float(row[6]) != 0, row[7] if len(row) == 9 else PEDESTRIAN
            if kind not in (PEDESTRIAN, *NEUTRAL):
                continue
            name = "pedestrian" if is_counted and kind == PEDESTRIAN else UNCOUNTED
            left, top, width, height = (float(cell) for cell in row[2:6])
            box = Box(left - 1, top - 1, left - 1 + width, top - 1 + height)
            if size:
                box = Box(*(min(max(v, 0), end) for v, end in zip(box, 2 * size, strict=True)))
            yield Region(_frame(path, int(row[0])), name, box, size)


def is_mot(path: Path) -> bool:
    """Return True if all lines are of MOTChallenge; UAVDT's nine columns fit, but not its name."""
    is_truth = path.name.startswith("gt")
    return _all_fit(path, MOT_LINE) or (is_truth and _all_fit(path, MOT_TRUTH))


def is_visdrone(path: Path) -> bool:
    """Return True if all lines are of VisDrone's images, or all of its videos."""
    return _all_fit(path, VISDRONE_IMAGE) or _all_fit(path, VISDRONE_VIDEO)


def _all_fit(path: Path, pattern: re.Pattern[str]) -> bool:
    with path.open(encoding="utf-8-sig") as file:
        return all(pattern.fullmatch(line) for line in map(_without_blanks, file) if line)


def _without_blanks(line: str) -> str:
    return "".join(line.split())


def visdrone(paths: Iterable[str]) -> Iterator[Record]:
    """Yield the records of VisDrone's files, in pixels as they are: one an image, or one a video.

    Frames of the video `a.txt` are called `a/0000001.jpg`. Ignored regions, and boxes whose score
    is 0, are counted as ignored.

    Raises:
        DataError: a file is neither.
    """
    return records_of(of_files(paths, _of_visdrone, image_of))


def _of_visdrone(path: Path) -> Iterator[Region]:
    """Yield the boxes of one of VisDrone's files."""
    if not is_visdrone(path):
        raise DataError(f"file {path}", expected="8 or 10 columns of VisDrone", found="others")
    for line in filter(None, map(_without_blanks, path.read_text("utf-8-sig").splitlines())):
        cells = line.rstrip(",").split(",")
        frame = f"{path.stem}/{int(cells[0]):07}.jpg" if len(cells) > 8 else f"{path.stem}.jpg"
        left, top, width, height, score = map(float, cells[-8:-3])
        name = VISDRONE[int(cells[-3])] if score else UNCOUNTED
        yield Region(frame, name, Box(left, top, left + width, top + height))


def sa_v(path: str) -> Iterator[Record]:
    """Yield the records of SA-V's masklets: an object in each annotated frame that shows it.

    Every fourth frame is annotated. Frames are called `<video>/00004.jpg`, as those of SA-V's val
    and test, and questions `object 0`, because SA-V has no texts.
    """
    plain = json.loads(Path(path).read_text(encoding="utf-8"))
    for index, masks in enumerate(plain["masklet"]):
        for number, counts in zip(plain["masklet_id"], masks, strict=True):
            mask = Rle.from_json(counts, f"{path}, frame {index}, object {number}")
            if mask.area:
                image = f"{plain['video_id']}/{EVERY * index:05}.jpg"
                yield {"image": image, "question": f"object {number}", "mask": mask.to_json()}
