"""Questions that show what backends get wrong: images of many sizes, several, clips, text alone."""

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
"""Frames a second of the clips: none is a default that a processor falls back to."""
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
WORDS = (AnswerForm.TEXT, AnswerForm.CHOICE, AnswerForm.NUMBER, AnswerForm.BOXES)
OPTIONS = ("a circle", "a square", "a star", "nothing")


def battery(size: int, forms: frozenset[AnswerForm] | None) -> list[Query]:
    """Return the first questions of the battery, in a form that a model gives.

    Args:
        size: Number of questions.
        forms: Those that the models have in common; None: not known.
    """
    form = next((form for form in WORDS if forms is None or form in forms), AnswerForm.MASK)
    return list(islice(_queries(form), size))


def _queries(form: AnswerForm) -> Iterator[Query]:
    index = 0
    while True:
        kind = KINDS[index % len(KINDS)]
        clip = kind == "clip"
        text = f"Question {index}: what is there, and where{' and when' if clip else ''}?"
        yield Query(
            id=query_id(f"battery/{index}"),
            text=text,
            media=_media(kind, index),
            forms=(form,),
            options=OPTIONS if form == AnswerForm.CHOICE else (),
        )
        index += 1


def _media(kind: str, index: int) -> tuple[Media, ...]:
    name = f"battery/{index}"
    if kind == "clip":
        scene = draw_scene(0, family="video", split=SPLIT, index=index)
        frames = [render(scene, frame) for frame in range(scene.frames)]
        rate = RATES[index % len(RATES)]
        times = [frame / rate for frame in range(len(frames))]
        return (pixels(frames, times=times, is_video=True, id=name),)
    if kind == "images":
        return tuple(
            _image(_still(place), f"{name}/{place}")
            for place in range(index, index + 2 + index % 2)
        )
    if kind == "transparent":
        return (image_bytes(encode_with_alpha(_still(index)), name),)
    if kind == "large":
        return (_image(np.repeat(np.repeat(_still(index), 2, 0), 2, 1), name),)
    return () if kind == "text" else (_image(_still(index), name),)


def _still(index: int) -> Frame:
    return render(draw_scene(0, family="still", split=SPLIT, index=index))


def _image(frame: Frame, name: str) -> Media:
    return image_bytes(encode_png(frame), name)


def encode_with_alpha(frame: Frame) -> bytes:
    """Return a PNG whose left half is transparent above other colours."""
    alpha = np.full(frame.shape[:2], 255, dtype=np.uint8)
    alpha[:, : frame.shape[1] // 2] = 0
    file = io.BytesIO()
    Image.fromarray(np.dstack([frame, alpha])).save(file, "PNG")
    return file.getvalue()
