"""Recognise run-lengths that go along the rows of an image instead of down its columns.

COCO's go down the columns; NumPy's `ravel`, and many programs with it, go along the rows. Read in
the wrong order, an object falls apart into slivers: pixels that are a column's height apart in the
runs differ often, while pixels a row's width apart are mostly equal. An image that is nearly square
does not show the order: there the wrong one only transposes the mask.
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
"""Most masks of a file that are tested, at most `OF_ONE` of them from one sample."""
OF_ONE = 4
NEARLY = 3
"""Difference between an image's sides, in pixels, up to which it does not show the order."""
CLEARER = 1.5
"""Ratio of the differing pixels in one order to those in the other from which it is clear."""


def check_order(rows: Mapping[str, Row], samples: Iterable[Sample], thing: str) -> tuple[str, ...]:
    """Return a note if the run-lengths' order cannot be recognised; otherwise nothing.

    Args:
        rows: The file's rows with masks, by the id of their sample.
        samples: The samples.
        thing: The kind of file and its path, for messages.

    Raises:
        DataError: as a whole they go along the rows, but are read down the columns, or vice versa.
    """
    n_shown = lists = 0

    def showing() -> Iterator[Rle]:
        """Yield the masks that show their order, one in memory at a time."""
        nonlocal n_shown, lists
        for row, mask in islice(_masks(rows, samples), LOOKED_AT):
            if _shows_order(mask):
                n_shown += 1
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
    if lists and not n_shown:
        return (
            f"{lists} lists of runs of square images, which do not show that they go down the "
            "columns, as they are read: --mask-order rows if they go along the rows",
        )
    return ()


def in_pieces(masks: Iterable[Rle]) -> int:
    """Return the number of masks that show their order if, as a whole, it is along the rows.

    0: the runs go down the columns, or no mask shows its order. Masks without an edge do not count.
    """
    by_column = by_row = n_shown = 0
    for mask in filter(_shows_order, masks):
        pixels = mask.pixels
        by_column += int(np.count_nonzero(pixels[mask.height :] != pixels[: -mask.height]))
        by_row += int(np.count_nonzero(pixels[mask.width :] != pixels[: -mask.width]))
        n_shown += 1
    return n_shown if by_column > CLEARER * by_row else 0


def _shows_order(mask: Rle) -> bool:
    return abs(mask.width - mask.height) > NEARLY


def _masks(rows: Mapping[str, Row], samples: Iterable[Sample]) -> Iterable[tuple[Row, Rle]]:
    """Yield each mask that is neither empty nor full, with its row."""
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
    """Return True if a value contains uncompressed run-lengths (a list), at any depth."""
    if isinstance(value, dict):
        return isinstance(value.get("counts"), list)
    return isinstance(value, list) and any(map(_has_lists, value))
