"""Read the masks of objects in videos from JSON, for MeViS, ReVOS and Ref-SAV.

A file has, by annotation id, a list with one run-length per frame, null in frames without the
object.
"""

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
    """Return one object's masks after a check; None for a frame without the object.

    Args:
        masks: Lists of run-lengths by annotation id.
        annotation: The object's id, as text or a number.
        size: (width, height) of the video.
        frames: Number of the video's frames.
        where: Name of the file and the sample in messages.

    Raises:
        DataError: the id is missing, or the masks differ from the video in number or size.
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
        frame_where = f"{where}: annotation {annotation}, frame {index}"
        checked.append(
            None if plain is None else sized(Rle.from_json(plain, frame_where), size, frame_where)
        )
    return checked


def sized(mask: Rle, size: tuple[int, int], where: str) -> Rle:
    """Return `mask`; raise DataError unless its (width, height) is `size`."""
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
    """Return the union of the objects' masks in each frame; it may be empty."""
    width, height = size
    masks = [Rle.empty(height, width)] * frames
    for track in tracks:
        for index, mask in enumerate(track):
            if mask is not None:
                masks[index] = mask if masks[index].area == 0 else masks[index].union(mask)
    return tuple(masks)


def instances(
    tracks: Iterable[Sequence[Rle | None]], size: tuple[int, int]
) -> tuple[tuple[Rle, ...], ...]:
    """Return each object's masks, one per frame; a mask is empty in a frame without the object."""
    empty = Rle.empty(size[1], size[0])
    return tuple(tuple(empty if mask is None else mask for mask in track) for track in tracks)


class TrackFile(JsonIndex):
    """The masks of all videos in a JSON file that is one object, by annotation id.

    ReVOS' file has several hundred megabytes. The first use reads the file once to index it, and
    refuses a truncated file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(JsonFile(path))
