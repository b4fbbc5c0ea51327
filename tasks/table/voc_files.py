"""Records of boxes in the XML of Pascal VOC, which others extend by elements of their own.

The command that a refusal prints calls `voc` with the paths of files. The question is the name of a
class, and its answer all objects of the class in an image but the difficult ones, which VOC's own
evaluation counts neither way; or the text of an object's own element, as DIOR-RSVG's
`<description>`, and its answer this object.
"""

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from shlex import quote
from xml.etree import ElementTree

from harness.errors import DataError, counted
from harness.tasks.table.regions import Record, Region, of_files, records_of
from harness.types import Box

KNOWN = frozenset(
    "name pose truncated difficult occluded bndbox part point actions id deleted verified".split()
)
"""Elements of an object in files of VOC, and of the programs that write them."""
SIDES = ("xmin", "ymin", "xmax", "ymax")


def voc(
    paths: Iterable[str], question: str = "name", left_out: Collection[str] = ()
) -> Iterator[Record]:
    """Yield the records of VOC's files, in pixels as they are.

    Args:
        paths: The files, one an image.
        question: The element of an object whose text is the question.
        left_out: Elements beyond VOC's own that are not read.

    Raises:
        DataError: an object has another element, or lacks its question or its box.
    """
    read = partial(_objects, question=question, left_out=left_out)
    objects = of_files(paths, read, lambda item: item[1].image)
    if question == "name":
        yield from _by_class(objects)
        return
    for entry, region in objects:
        (record,) = records_of([region])
        yield {**record, "name": _text(entry, "name")}


def _by_class(objects: Iterable[tuple[ElementTree.Element, Region]]) -> Iterator[Record]:
    """Yield a record for each class in each image, with the number of difficult objects left out.

    Their number in all files is printed to stderr at the end.
    """
    listed, difficult = [], Counter[tuple[str, str]]()
    for entry, region in objects:
        if _text(entry, "difficult") in ("", "0"):
            listed.append(region)
        else:
            difficult[region.image, region.name] += 1
    for record in records_of(listed):
        yield {**record, "difficult": difficult[str(record["image"]), str(record["question"])]}
    if number := difficult.total():
        sys.stderr.write(f"{counted(number, 'difficult object')} left out\n")


def _objects(
    path: Path, question: str, left_out: Collection[str]
) -> Iterator[tuple[ElementTree.Element, Region]]:
    """Yield each object of a file with its region, which is called by the text of the question."""
    root = ElementTree.parse(path).getroot()
    sides = [_text(root, f"size/{side}") for side in ("width", "height")]
    width, height = (int(side) if side.isdecimal() else 0 for side in sides)
    size = (width, height) if width and height else None
    for number, entry in enumerate(root.iter("object"), start=1):
        where = f"{path}, object {number}"
        if unknown := {part.tag for part in entry} - KNOWN - {question, *left_out}:
            raise DataError(
                where,
                expected=f"VOC's elements, and {', '.join((question, *left_out))}",
                found=", ".join(f"<{name}>" for name in sorted(unknown)),
                fix=f"`harness data init {quote(str(path))}` prints the command for such elements.",
            )
        if several := [tag for tag in (question, "bndbox") if len(entry.findall(tag)) > 1]:
            raise DataError(where, expected=f"one <{several[0]}>", found="several in one object")
        corners = [_text(entry, f"bndbox/{side}") for side in SIDES]
        texts = {"filename": _text(root, "filename"), question: _text(entry, question)}
        if missing := [name for name, text in texts.items() if not text]:
            raise DataError(where, expected=f"a text in <{missing[0]}>", found="none")
        try:
            box = Box(*map(float, corners))
        except ValueError as error:
            numbers = ", ".join(corners)
            raise DataError(where, expected="4 numbers in <bndbox>", found=numbers) from error
        yield entry, Region(texts["filename"], texts[question], box, size)


def _text(entry: ElementTree.Element, name: str) -> str:
    return (entry.findtext(name) or "").strip()


def other_elements(path: Path) -> tuple[str, list[str]]:
    """Return (the element that asks, the elements beyond VOC's own that do not) of a VOC file.

    An element asks if it has several words somewhere, all objects have it, and it is the only one.
    """
    objects = list(ElementTree.parse(path).getroot().iter("object"))
    texts: dict[str, list[str]] = {}
    for entry in objects:
        for part in entry:
            if part.tag not in KNOWN:
                texts.setdefault(part.tag, []).append((part.text or "").strip())
    asking = [
        name
        for name, given in texts.items()
        if len(given) == len(objects) and all(given) and any(" " in text for text in given)
    ]
    question = asking[0] if len(asking) == 1 else "name"
    return question, sorted(texts.keys() - {question})
