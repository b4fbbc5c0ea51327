"""Compare the size of an image that a record states with the image itself."""

from collections.abc import Callable, Sequence

from harness.errors import DataError
from harness.media import Media
from harness.tasks.table.cells import plain_value
from harness.tasks.table.description import WRITTEN, AnswerField
from harness.tasks.table.layouts import SIZE
from harness.tasks.table.patterns import names_in, pattern_of
from harness.tasks.table.rows import Record
from harness.tasks.table.unread_fields import SIZES_OF_IMAGES, stated_size

WRITTEN_IN_PIXELS = ("boxes", "points", "mask")


def check_size(row: Record, answer: AnswerField, opened: Callable[[], Media], where: str) -> None:
    """Raise DataError if a record states another size for its image than the image has."""
    in_pixels = answer.form in WRITTEN_IN_PIXELS and answer.coordinates == "pixels"
    are_of_box = {"width", "height"} & {*names_in(pattern_of(answer.field))}
    names: tuple[str, ...] = ("width", "height")
    stated = row.get(SIZE)
    is_beside = in_pixels and answer.written != "image" and not are_of_box
    if not isinstance(stated, list) and not (is_beside and SIZES_OF_IMAGES & row.keys()):
        return
    media = opened()
    if stated is None:
        names, stated = stated_size(row, media.size) or (names, None)
    if not isinstance(stated, list):
        return
    is_other = media.fault is None and tuple(stated) != media.size
    if is_other and not (names == ("width", "height") and _are_sides(row, stated, answer)):
        width, height = media.size
        raise DataError(
            f"{where}: {' and '.join(map(repr, names))}",
            expected=f"the size of its image, {width} × {height}",
            found=" × ".join(map(str, stated)),
            fix="Was the image resized or turned? Its boxes and masks are in pixels of the "
            "original. If the stated size is wrong, remove it.",
        )


def _are_sides(row: Record, size: Sequence[int], answer: AnswerField) -> bool:
    """Return True if [width, height] are the extent of the record's only box, in pixels."""
    box = plain_value(row.get(answer.field))
    if isinstance(box, list) and len(box) == 1:
        box = box[0]
    if answer.written not in WRITTEN["boxes"] or not isinstance(box, list) or len(box) != 4:
        return False
    if not all(type(side) in (int, float) for side in box):
        return False
    first, extent = box[:2], box[2:]
    if answer.written == "xyxy":
        extent = [end - start for start, end in zip(first, extent, strict=True)]
    return all(abs(side - of_box) < 1 for side, of_box in zip(size, extent, strict=True))
