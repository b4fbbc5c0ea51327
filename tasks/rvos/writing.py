"""Write generated video scenes as frames, masks and JSON, for the video benchmarks' sample data."""

import hashlib
import json
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from pathlib import Path

import numpy as np
from PIL import Image

from harness.masks import BoolArray, Rle
from harness.tasks.rvos.labels import Labels
from harness.world.encode import encode_png, write_jpeg
from harness.world.raster import render, visible_masks
from harness.world.scene import Scene

FRAME_STEP = 2
"""Step between the frames of `sampled_frames`: neighbouring frames are similar."""

QUALITY = 75  # JPEG quality of the sampled frames

SIGNATURE_END, HEADER_END = 8, 33  # offsets in a PNG, in bytes: of the signature, of chunk IHDR


def every_frame(scene: Scene) -> range:
    """Return the indices of all frames of a scene."""
    return range(scene.frames)


def sampled_frames(scene: Scene) -> range:
    """Return the indices of every second frame of a scene."""
    return range(0, scene.frames, FRAME_STEP)


def frame_name(frame: int) -> str:
    """Return the stem of a frame's file name."""
    return f"{frame:05d}"


def video_name(scene: Scene, *, digits: int = 12, salt: int = 0) -> str:
    """Return hexadecimal digits that name a scene, as in MeViS (12) and YouTube-VOS (10).

    Another `salt` gives another name of the same scene.
    """
    seed_text = f"{scene.id}/{salt}" if salt else scene.id
    return hashlib.blake2b(seed_text.encode(), digest_size=digits // 2).hexdigest()


def salted(scene: Scene, accept: Callable[[str], bool], *, digits: int = 12) -> str:
    """Return the first name of a scene (`video_name` with salt 0, 1, …) that `accept` accepts."""
    names = (video_name(scene, digits=digits, salt=salt) for salt in count())
    return next(name for name in names if accept(name))


def mask_tracks(
    scene: Scene, frames: Sequence[int] | None = None
) -> list[list[dict[str, object] | None]]:
    """Return, for each thing, its COCO run-length in each frame; None where it is not visible."""
    masks = [visible_masks(scene, frame) for frame in frames or every_frame(scene)]
    return [
        [Rle.from_array(frame[index]).to_json() if frame[index].any() else None for frame in masks]
        for index in range(len(scene.things))
    ]


def joint_masks(scene: Scene, referents: Iterable[int], frames: Sequence[int]) -> list[BoolArray]:
    """Return the union of the visible masks of some things, one array per frame."""
    indices = list(referents)
    return [np.asarray(visible_masks(scene, frame)[indices].any(axis=0)) for frame in frames]


def write_frames(scene: Scene, folder: Path) -> None:
    """Write `<frame>.jpg` for every frame."""
    folder.mkdir(parents=True)
    for frame in every_frame(scene):
        write_jpeg(folder / f"{frame_name(frame)}.jpg", render(scene, frame))


def write_sampled_frames(scene: Scene, folder: Path) -> None:
    """Write `<frame>.jpg` for every second frame, with the JPEG quality QUALITY.

    An existing folder is left as it is, because the tasks of a benchmark share their videos.
    """
    if folder.exists():
        return
    folder.mkdir(parents=True)
    for frame in sampled_frames(scene):
        image = Image.fromarray(render(scene, frame))
        image.save(folder / f"{frame_name(frame)}.jpg", "JPEG", quality=QUALITY)


def write_labels(
    scene: Scene, folder: Path, frames: Sequence[int], *, values: Sequence[int]
) -> None:
    """Write `<frame>.png` with a palette: each thing's value where it is visible, 0 elsewhere.

    Args:
        scene: The scene.
        folder: Folder of the files.
        frames: Indices of the frames to write.
        values: The value of each thing; 0 makes it background.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for frame in frames:
        masks = visible_masks(scene, frame)
        labels = np.zeros(masks.shape[1:], dtype=np.uint8)
        for mask, value in zip(masks, values, strict=True):
            labels[mask] = value
        (folder / f"{frame_name(frame)}.png").write_bytes(palette_png(labels))


def palette_png(labels: Labels) -> bytes:
    """Encode numbers as a PNG with DAVIS' palette; the bytes are the same on every platform."""
    grey = encode_png(labels)
    header = grey[SIGNATURE_END + 8 : HEADER_END - 4]  # without its length, tag and checksum
    indexed = header[:9] + b"\x03" + header[10:]  # byte 9, the colour type: index into a palette
    signature, body = grey[:SIGNATURE_END], grey[HEADER_END:]
    return b"".join((signature, _chunk(b"IHDR", indexed), _chunk(b"PLTE", palette()), body))


def palette() -> bytes:
    """Return the colours (256 × RGB) of DAVIS' and YouTube-VOS' palette.

    Bits 0, 1 and 2 of a number are the highest bits of its red, green and blue, bits 3, 4 and 5 the
    next ones, and so on.
    """
    colours = np.zeros((256, 3), dtype=np.uint8)
    numbers = np.arange(256)
    for bit in range(8):
        colours[:, bit % 3] |= (((numbers >> bit) & 1) << (7 - bit // 3)).astype(np.uint8)
    return colours.tobytes()


def _chunk(tag: bytes, data: bytes) -> bytes:
    """Return a chunk of a PNG: length, tag, data and checksum."""
    return struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(tag + data))


def write_lines(path: Path, rows: Iterable[object]) -> None:
    """Write one line of JSON per row; create the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, plain: object) -> None:
    """Write plain data as one line of JSON, as in the official files; create the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(plain), encoding="utf-8", newline="\n")
