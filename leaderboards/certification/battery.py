"""Make the questions that `harness certify` asks two ways of calling one VLM.

They reveal errors of backends by their media, which are rendered scenes: an image, several images,
a large one, one with transparency, a clip at an unusual frame rate, or none.
"""

import io
from collections.abc import Iterator
from itertools import islice

import numpy as np
from PIL import Image

from harness.media import Frame, Media, image_bytes, pixels
from harness.types import AnswerForm, Query, query_id
from harness.world.encode import encode_png
from harness.world.families import draw_scene
from harness.world.raster import render
from harness.world.scene import Split

SPLIT: Split = "test"
RATES = (0.5, 1.0, 3.0, 12.5)
"""Frames a second of the clips; processors that lose frame times assume other rates."""
KINDS = (
    "image",
    "clip",
    "images",
    "clip",
    "transparent",
    "clip",
    "large",
    "images",
    "clip",
    "text",
)
"""Kinds of questions, in turn."""
PREFERRED_FORMS = (AnswerForm.TEXT, AnswerForm.CHOICE, AnswerForm.NUMBER, AnswerForm.BOXES)
OPTIONS = ("a circle", "a square", "a star", "nothing")


def battery(size: int, forms: frozenset[AnswerForm] | None) -> list[Query]:
    """Return the first `size` questions of the battery.

    Args:
        size: Number of questions.
        forms: Forms of answer that both models give; None: not known. The questions ask for the
            first of `PREFERRED_FORMS` among them, or else for a mask.
    """
    usable = [form for form in PREFERRED_FORMS if forms is None or form in forms]
    form = usable[0] if usable else AnswerForm.MASK
    return list(islice(_queries(form), size))


def _queries(form: AnswerForm) -> Iterator[Query]:
    """Yield questions with one form of answer for ever, with media of each kind in turn."""
    index = 0
    while True:
        media_kind = KINDS[index % len(KINDS)]
        clip = media_kind == "clip"
        text = f"Question {index}: what is there, and where{' and when' if clip else ''}?"
        yield Query(
            id=query_id(f"battery/{index}"),
            text=text,
            media=_media(media_kind, index),
            forms=(form,),
            options=OPTIONS if form == AnswerForm.CHOICE else (),
        )
        index += 1


def _media(media_kind: str, index: int) -> tuple[Media, ...]:
    """Return the media of a question of a kind; the scenes depend on its index."""
    name = f"battery/{index}"
    if media_kind == "clip":
        scene = draw_scene(0, family="video", split=SPLIT, index=index)
        frames = [render(scene, frame) for frame in range(scene.frames)]
        rate = RATES[index % len(RATES)]
        times = [frame / rate for frame in range(len(frames))]
        return (pixels(frames, times=times, is_video=True, id=name),)
    if media_kind == "images":
        return tuple(
            _image(_still(scene_index), f"{name}/{scene_index}")
            for scene_index in range(index, index + 2 + index % 2)
        )
    if media_kind == "transparent":
        return (image_bytes(encode_with_alpha(_still(index)), name),)
    if media_kind == "large":
        return (_image(np.repeat(np.repeat(_still(index), 2, 0), 2, 1), name),)
    return () if media_kind == "text" else (_image(_still(index), name),)


def _still(index: int) -> Frame:
    return render(draw_scene(0, family="still", split=SPLIT, index=index))


def _image(frame: Frame, name: str) -> Media:
    return image_bytes(encode_png(frame), name)


def encode_with_alpha(frame: Frame) -> bytes:
    """Return (height, width, 3) pixels as a PNG whose left half is transparent (alpha 0).

    A reader that ignores alpha shows the colours beneath.
    """
    alpha = np.full(frame.shape[:2], 255, dtype=np.uint8)
    alpha[:, : frame.shape[1] // 2] = 0
    file = io.BytesIO()
    Image.fromarray(np.dstack([frame, alpha])).save(file, "PNG")
    return file.getvalue()
