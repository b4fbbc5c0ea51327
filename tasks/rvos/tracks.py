"""Masks of objects by annotation id: one run-length a frame, or null where the object is not."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from harness.errors import DataError
from harness.layout import JsonFile, JsonIndex, field
from harness.masks import Rle


def object_track(
    masks: Mapping[str, object],
    annotation: object,
    *,
    size: tuple[int, int],
    frames: int,
    where: str,
) -> list[Rle | None]:
    """One object's masks, checked; None for a frame that it is not in.

    Args:
        masks: A list of run-lengths by annotation id.
        annotation: The object's id, text or a whole number.
        size: (width, height) of the video's images.
        frames: How many there are.
        where: The file, and whose ground truth it is, for messages.

    Raises:
        DataError: there is none of this id, or its masks are not those of the video.
    """
    track = field(masks, str(annotation), list, where)
    if len(track) != frames:
        raise DataError(
            f"{where}: annotation {annotation}",
            found=f"{len(track)} masks",
            expected=f"{frames}, one a frame",
        )
    checked: list[Rle | None] = []
    for index, plain in enumerate(track):
        what = f"{where}: annotation {annotation}, frame {index}"
        checked.append(None if plain is None else sized(Rle.from_json(plain, what), size, what))
    return checked


def sized(mask: Rle, size: tuple[int, int], where: str) -> Rle:
    """`mask` if it has the image's (width, height); a DataError that names it if not."""
    if mask.size != size:
        raise DataError(
            where,
            expected=f"{size[0]} × {size[1]} pixels, as the image has",
            found=f"{mask.width} × {mask.height}",
        )
    return mask


def union_of_tracks(
    tracks: Iterable[Sequence[Rle | None]], *, size: tuple[int, int], frames: int
) -> tuple[Rle, ...]:
    """The pixels of any of the objects in each frame; empty masks of no objects."""
    width, height = size
    whole = [Rle.empty(height, width)] * frames
    for track in tracks:
        for index, mask in enumerate(track):
            if mask is not None:
                whole[index] = mask if whole[index].area == 0 else whole[index].union(mask)
    return tuple(whole)


def instances(
    tracks: Iterable[Sequence[Rle | None]], size: tuple[int, int]
) -> tuple[tuple[Rle, ...], ...]:
    """Each object's own masks, one a frame; an empty one where it is not."""
    empty = Rle.empty(size[1], size[0])
    return tuple(tuple(empty if mask is None else mask for mask in track) for track in tracks)


class TrackFile(JsonIndex):
    """The entries of a JSON file that holds one object, by their keys: masks of all videos.

    ReVOS' masks are some hundred megabytes. The first use walks through the file once, and refuses
    one that was cut.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(JsonFile(path))
