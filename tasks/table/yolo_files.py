"""Records of boxes in YOLO's text files, one an image, and of the names of their classes.

The command that a refusal prints calls `yolo`. The question is the name of a class, and its answer
all its boxes in an image, as xyxy in fractions of the image's width and height, or all its
polygons, in pixels.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path

from harness.errors import DataError, counted
from harness.image_file import header_size
from harness.tasks.table.regions import Record, Region, records_of
from harness.types import Box

DATASET = re.compile(r"^names\s*:", re.MULTILINE)
"""A line of Ultralytics' data.yaml, which names the classes."""
FOLDER = re.compile(
    r"^(?:val|test|train)\s*:\s*['\"]?(?:\.{1,2}/)*([\w./-]*images[\w./-]*)", re.MULTILINE
)
"""The line of data.yaml with the folder of a split's images."""
QUOTED = r"\"(?:[^\"\\\n])*\"|'(?:[^'\n]|'')*'"
COMMENT = r"[^\S\n]+#[^\n]*"
MEMBER = re.compile(
    rf"^\s*(?:(\d+)\s*:|-)\s+({QUOTED}|[^'\"\n][^\n]*?|)[^\S\n]*(?:{COMMENT})?$", re.MULTILINE
)
"""A class of data.yaml in a line of its own: `0: car` or `- car`."""
LISTED = re.compile(
    rf"(?:\s|(?<!\S)#[^\n]*\n)*({QUOTED}|[^\s'\"\[\]{{}},#](?:[^\[\]{{}},\n#]|(?<!\s)#)*)\s*"
    rf"(?:,(?:{COMMENT}\n|\s)*(\])?|(\]))"
)
"""A class in a list of data.yaml, up to the comma or the end of the list."""
KEYPOINTS = re.compile(r"^kpt_shape\s*:\s*\[\s*(\d+)\s*,\s*(\d+)\s*\]", re.MULTILINE)
"""The line of data.yaml that says that labels of poses have keypoints after the box."""
YAML = (".yaml", ".yml")
IMAGES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff")


def yolo(paths: Sequence[str]) -> Iterator[Record]:
    """Yield the records of label files; images without an object are counted on stderr.

    Args:
        paths: The file of the names, classes.txt or data.yaml, and the label files. Images lie
            beside these, or in `images` where these are in `labels`; otherwise they are .jpg.
            Keypoints that data.yaml states (`kpt_shape`) are left out. Without them in a data.yaml,
            an even number of fractions is a polygon.

    Raises:
        DataError: a line is not a class and four fractions, a class has no name, or two label files
            have one name.
    """
    names = class_names(Path(paths[0]))
    shape = KEYPOINTS.search(Path(paths[0]).read_text(encoding="utf-8-sig"))
    n_keypoints = int(shape[1]) * int(shape[2]) if shape else 0
    may_be_polygons = shape is None and Path(paths[0]).suffix.lower() in YAML
    labels = [Path(path) for path in paths[1:] if path != paths[0]]
    stems = [path.stem for path in labels]
    if repeated := next((stem for stem in stems if stems.count(stem) > 1), None):
        raise DataError(f"labels {repeated}.txt", expected="each name once", found="it twice")
    regions = [
        list(_regions(path, names, n_keypoints, may_be_polygons=may_be_polygons)) for path in labels
    ]
    yield from records_of((region for listed in regions for region in listed), "XYXY_REL")
    if n_empty := sum(not listed for listed in regions):
        sys.stderr.write(f"{counted(n_empty, 'image')} without an object left out\n")


def class_names(path: Path) -> list[str]:
    """Return the names of classes in data.yaml, or one from each line of another file.

    Raises:
        DataError: data.yaml has them in another form.
    """
    text = path.read_text(encoding="utf-8-sig")
    if path.suffix.lower() not in YAML:
        return text.splitlines()
    after = text[match.end() :].lstrip(" ") if (match := DATASET.search(text)) else ""
    if after.startswith("["):
        members = _in_list(after)
    else:
        block = re.split(r"^(?=[A-Za-z_])", after, maxsplit=1, flags=re.MULTILINE)[0]
        members = [(match[1], match[2]) for match in MEMBER.finditer(block)]
        n_lines = len(re.findall(r"^\s*[^\s#]", block, re.MULTILINE))
        members = members if len(members) == n_lines else []
    if not members or any(
        number and int(number) != place for place, (number, _) in enumerate(members)
    ):
        raise DataError(
            f"file {path}",
            expected="names: ['car', …], or names: with a line for each class from 0",
            found=repr(after[:60]),
            fix="Give classes.txt in its place, with the name of a class a line.",
        )
    return [_unquoted(name) for _, name in members]


def _in_list(text: str) -> list[tuple[str, str]]:
    """Return ("", name) for each member of a list of YAML; [] if one is not read exactly."""
    members, place = list[tuple[str, str]](), 1
    while match := LISTED.match(text, place):
        members.append(("", match[1].strip()))
        if match[2] or match[3]:
            return members
        place = match.end()
    return []


def _unquoted(name: str) -> str:
    """Return a name of YAML without its quotation marks."""
    if name.startswith("'"):
        return name[1:-1].replace("''", "'")
    return name[1:-1] if name.startswith('"') else name


def _regions(
    path: Path, names: Sequence[str], n_keypoints: int, *, may_be_polygons: bool
) -> Iterator[Region]:
    """Yield a region for each line of a label file: its box, without keypoints, or its polygon.

    Boxes stay in fractions of the image (`records_of` is told `XYXY_REL`); polygons become pixels,
    as `Polygon` has them.
    """
    image, size = _image_of(path)
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            kind, (x, y, w, h, *others) = int(line.split()[0]), map(float, line.split()[1:])
            # An index below 0 would count from the end; `len(names)` is an IndexError.
            name = names[kind if kind >= 0 else len(names)]
        except (ValueError, IndexError) as error:
            raise DataError(
                f"{path}, line {number}",
                expected=f"a class from 0 to {len(names) - 1}, x, y, width and height",
                found=line.strip()[:60],
            ) from error
        values = (x, y, w, h, *others)
        # Trackers write a confidence and a whole number behind a box.
        is_track = len(others) == 2 and line.split()[-1].isdecimal()
        is_polygon = others and len(others) % 2 == 0 and all(0 <= value <= 1 for value in values)
        if size and may_be_polygons and is_polygon and not is_track:
            corners = [v * side for v, side in zip(values, cycle(size))]
            yield Region(image, name, corners, size)
            continue
        if others and len(others) != n_keypoints:
            raise DataError(
                f"{path}, line {number}",
                expected="a class, and the four numbers of a box"
                + (f", and {n_keypoints} of keypoints" if n_keypoints else ""),
                found=f"{4 + len(others)} numbers",
                fix="A fifth number is a model's confidence: such files are predictions. Keypoints "
                "are left out if data.yaml states them: kpt_shape: [17, 3]. Polygons and turned "
                "boxes need their images beside the labels, and a data.yaml without kpt_shape in "
                "place of classes.txt: classes.txt does not say that there are no keypoints.",
            )
        yield Region(image, name, Box(x - w / 2, y - h / 2, x + w / 2, y + h / 2))


def _image_of(path: Path) -> tuple[str, tuple[int, int] | None]:
    """Return the name of a label file's image and, where it exists, its width and height."""
    folder = path.absolute().parent
    parts = ["images" if part == "labels" else part for part in folder.parts]
    for place in (folder, Path(*parts)):
        for suffix in (*IMAGES, *map(str.upper, IMAGES)):
            if (file := place / f"{path.stem}{suffix}").exists():
                return file.name, header_size(file)
    return f"{path.stem}.jpg", None
