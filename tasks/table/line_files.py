"""Records of files with an object a line: DOTA, ICDAR, WIDER FACE, TensorFlow, Open Images.

The commands that refusals print call these functions with the paths of files. An object that does
not count in the official evaluation (difficult, illegible, invalid) would count as wrong if a model
finds it: the question that it belongs to is left out.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from harness.errors import DataError
from harness.tasks.table.regions import Record, Region, of_files, records_of
from harness.tasks.table.rows import table_records
from harness.types import Box

LANGUAGES = frozenset(
    "Arabic Latin Chinese Japanese Korean Bangla Hindi Symbols Mixed None".split()
)
"""Scripts that ICDAR MLT names before each text."""
ILLEGIBLE = "###"
MORE_CORNERS = re.compile(r"(?:-?\d+,\s*){4}")
"""The beginning of what follows four corners in files of polygons, as of CTW1500."""
FACE = "face"
CORNERS = 8  # numbers of a quadrilateral
Object: TypeAlias = tuple[Region, bool]
"""A region, and True if it counts."""


def dota(paths: Iterable[str]) -> Iterator[Record]:
    """Yield the records of DOTA's files: x, y of four corners, class, difficult; images are PNG."""
    return _counted(paths, _of_dota)


def icdar(paths: Iterable[str]) -> Iterator[Record]:
    """Yield the records of ICDAR's files `gt_<image>.txt`: x,y of four corners and a text.

    The question is the text. A script before all texts of a file (MLT) is left out.
    """
    return _counted(paths, _of_icdar)


def wider(path: str) -> Iterator[Record]:
    """Yield the records of WIDER FACE's list: an image, the number of faces, and a face a line.

    Images without faces are left out.
    """
    return _counted([path], _of_wider)


def columns(
    path: str, image: str, name: str, sides: str, suffix: str = "", mode: str = "XYXY_ABS"
) -> Iterator[Record]:
    """Yield the records of a table that has a box a row, by its columns.

    Names of images lack the suffix. A label with a box of a group (`IsGroupOf`, as in Open Images)
    in an image is left out of it.
    """
    objects: list[Object] = []
    for where, parse in table_records(Path(path), (image, name, *sides.split())):
        row = parse()
        width, height = (str(row.get(side)) for side in ("width", "height"))
        size = (int(width), int(height)) if width.isdecimal() and height.isdecimal() else None
        texts = [str(row[side]) for side in sides.split()]
        try:
            box = Box(*map(float, texts))
        except ValueError as error:
            raise DataError(where, expected=f"numbers in {sides}", found=str(texts)) from error
        region = Region(f"{row[image]}{suffix}", str(row[name]), box, size)
        objects.append((region, str(row.get("IsGroupOf")).lower() not in ("1", "1.0", "true")))
    return records_of(_all_counted(objects), mode)


def locations(path: str, field: str) -> Iterator[Record]:
    """Yield the records of a table whose `field` has boxes as words, each beside its name.

    Raises:
        DataError: a box lacks its name, or has a mask (`<seg…>`).
    """
    for where, parse in table_records(Path(path), (field,)):
        row = parse()
        text, regions = str(row[field]), list[Region]()
        is_florence = "<loc_" in text
        form = r"([^<>;]+)((?:<loc_\d+>)+)" if is_florence else r"((?:<loc\d+>)+)([^<>;]+)(?:;|\Z)"
        if re.sub(form, "", text).strip(" ;") or "<seg" in text:
            raise DataError(where, expected="a name beside each box", found=text[:80])
        for pair in re.findall(form, text):
            name, words = pair if is_florence else reversed(pair)
            numbers = [int(number) for number in re.findall(r"\d+", words)]
            if len(numbers) != 4:  # eight may be two boxes or a polygon
                raise DataError(where, expected="4 location words a box", found=words[:80])
            a, b, c, d = (number / (1000 if is_florence else 1024) for number in numbers)
            box = Box(a, b, c, d) if is_florence else Box(b, a, d, c)
            regions.append(Region("", name.strip(), box))
        others = {key: cell for key, cell in row.items() if key != field}
        for record in records_of(regions, "XYXY_REL"):
            yield {**others, **{key: cell for key, cell in record.items() if key != "image"}}


def _counted(
    paths: Iterable[str], objects_of: Callable[[Path], Iterator[Object]]
) -> Iterator[Record]:
    """Yield the records of names in images of which all objects count."""
    objects = of_files(paths, objects_of, lambda entry: entry[0].image)
    return records_of(_all_counted(list(objects)))


def _all_counted(objects: Sequence[Object]) -> Iterator[Region]:
    """Yield the regions of names in images of which all objects count."""
    left_out = {(region.image, region.name) for region, counts in objects if not counts}
    for region, _ in objects:
        if (region.image, region.name) not in left_out:
            yield region


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (place for errors, line) of each line that is not blank."""
    for number, line in enumerate(path.read_text("utf-8-sig").splitlines(), start=1):
        if line.strip():
            yield f"{path}, line {number}", line.strip()


def _numbers(fields: list[str], where: str, count: int) -> list[float]:
    try:
        numbers = [float(field) for field in fields[:count]]
    except ValueError:
        numbers = []
    if len(numbers) != count:
        raise DataError(where, expected=f"{count} numbers", found=" ".join(fields)[:60])
    return numbers


def _of_dota(path: Path) -> Iterator[Object]:
    for where, line in _lines(path):
        if re.match(r"(?:imagesource|gsd):", line):
            continue
        fields = line.split()
        corners = _numbers(fields, where, CORNERS)
        if len(fields) != CORNERS + 2:
            raise DataError(where, expected="a class and a difficulty", found=line[-40:])
        yield Region(f"{path.stem}.png", fields[8], corners), fields[9] == "0"


def _of_icdar(path: Path) -> Iterator[Object]:
    rows = [(where, line.split(",", CORNERS)) for where, line in _lines(path)]
    texts = [fields[-1].partition(",") for _, fields in rows]
    has_scripts = all(script.strip() in LANGUAGES and comma for script, comma, _ in texts)
    for (where, fields), (_, _, text) in zip(rows, texts, strict=True):
        corners = _numbers(fields, where, CORNERS)
        if len(fields) != CORNERS + 1 or MORE_CORNERS.match(fields[-1]):
            raise DataError(where, expected="a text after four corners", found=",".join(fields))
        said = (text if has_scripts else fields[-1]).strip()
        image = f"{path.stem.removeprefix('gt_')}.jpg"
        yield Region(image, said, corners), said != ILLEGIBLE


def _of_wider(path: Path) -> Iterator[Object]:
    lines = _lines(path)
    for _, image in lines:
        where, count = next(lines, (str(path), ""))
        if not count.isdecimal():
            raise DataError(where, expected="the number of faces", found=repr(count)[:40])
        for _ in range(max(int(count), 1)):  # without faces, there is a line of zeros
            where, line = next(lines, (str(path), ""))
            fields = line.split()
            left, top, width, height = _numbers(fields, where, 4)
            is_valid = len(fields) < 8 or fields[7] == "0"
            if int(count):
                box = Box(left, top, left + width, top + height)
                yield Region(image, FACE, box), is_valid and width > 0 < height
