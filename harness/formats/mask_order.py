"""Evidence of the order in which a file's run-lengths go through an image.

COCO's go down the columns; NumPy's `ravel`, and many programs with it, go along the rows. Read in
the wrong order, an object is sheared to slivers: of the pixels in the order of the runs, those one
column apart differ everywhere, while those one row's width apart are mostly equal. Images that are
nearly square do not show it: there a mask is only turned over.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import numpy as np

from harness.errors import DataError, HarnessError
from harness.interchange.answers import row_to_answer
from harness.interchange.rows import Row
from harness.masks import Rle
from harness.types import Sample

LOOKED_AT = 200
"""Masks of a file that are looked at, and not more than `OF_ONE` of one sample."""
OF_ONE = 4
NEARLY = 3
"""Pixels by which the sides of an image differ at most that does not show the order."""
CLEARER = 1.5
"""Least ratio of the pixels that differ in one order to those of the other that shows the order."""


def check_order(rows: Mapping[str, Row], samples: Iterable[Sample], thing: str) -> tuple[str, ...]:
    """Return a note on run-lengths whose order nothing shows.

    Raises:
        DataError: as a whole they go along the rows, and are read down the columns, or vice versa.
    """
    shown = lists = 0

    def showing() -> Iterator[Rle]:
        """Yield the masks that show their order, one in memory at a time."""
        nonlocal shown, lists
        for row, mask in islice(_masks(rows, samples), LOOKED_AT):
            if _shows_order(mask):
                shown += 1
                yield mask
            else:
                lists += _has_lists(row.value)

    if pieces := in_pieces(showing()):
        raise DataError(
            f"{thing}: masks",
            expected="runs that go down the columns, as COCO's do",
            found=f"{pieces} that are in pieces so, and whole along the rows",
            fix="State it: --mask-order rows; or --mask-order columns if they are in pieces.",
        )
    if lists and not shown:
        return (
            f"{lists} lists of runs of square images, which do not show that they go down the "
            "columns, as they are read: --mask-order rows if they go along the rows",
        )
    return ()


def in_pieces(masks: Iterable[Rle]) -> int:
    """Return how many masks show their order, if their runs go along the rows as a whole; else 0.

    Masks without an edge show nothing.
    """
    by_column = by_row = shown = 0
    for mask in filter(_shows_order, masks):
        pixels = mask.pixels
        by_column += int(np.count_nonzero(pixels[mask.height :] != pixels[: -mask.height]))
        by_row += int(np.count_nonzero(pixels[mask.width :] != pixels[: -mask.width]))
        shown += 1
    return shown if by_column > CLEARER * by_row else 0


def _shows_order(mask: Rle) -> bool:
    return abs(mask.width - mask.height) > NEARLY


def _masks(rows: Mapping[str, Row], samples: Iterable[Sample]) -> Iterable[tuple[Row, Rle]]:
    """Yield masks that are neither empty nor full, with their row."""
    for sample in samples:
        if (row := rows.get(sample.id)) is None or row.kind not in ("masks", "instances"):
            continue
        try:
            masks = row_to_answer(row, sample.query).masks or ()
        except HarnessError:  # which is raised where it is scored
            continue
        partly = (mask for mask in masks if 0 < mask.area < mask.width * mask.height)
        yield from ((row, mask) for mask in islice(partly, OF_ONE))


def _has_lists(value: object) -> bool:
    """True for run-lengths that are a list, at any depth."""
    if isinstance(value, dict):
        return isinstance(value.get("counts"), list)
    return isinstance(value, list) and any(map(_has_lists, value))
