"""The zip that servers take: `video/expression/frame.png`, 8-bit grey, 0 or 255."""

import io
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from harness.files import temporary_beside
from harness.masks import BoolArray
from harness.store.atomic import writing
from harness.types import Prediction, Sample

EPOCH = (1980, 1, 1, 0, 0, 0)  # a fixed date, so that equal predictions give equal bytes


def write_submission(
    videos: Mapping[str, Any],
    pairs: Iterable[tuple[Sample, Prediction]],
    folder: Path,
    *,
    prefix: str = "",
) -> Path:
    """Write submission.zip with every listed frame of every expression.

    A failed sample is written as empty masks: the server needs every file. It may score more than
    0 there, in frames where the ground truth is empty as well.

    Args:
        videos: Entries with `frames`, by the video's name.
        pairs: Samples, whose ids are `video/expression`, and their predictions.
        folder: Where the file goes.
        prefix: What comes before each name in the zip, such as `Annotations/`.

    Raises:
        StoreError: the file cannot be written.
    """
    path = folder / "submission.zip"
    temporary = temporary_beside(path)
    try:
        with writing(path):
            with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
                for sample, prediction in pairs:
                    video, expression = sample.id.rsplit("/", 1)
                    masks = _masks(sample, prediction)
                    for frame, mask in zip(videos[video]["frames"], masks, strict=True):
                        name = f"{prefix}{video}/{expression}/{frame}.png"
                        archive.writestr(_member(name), png(mask))
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _member(name: str) -> zipfile.ZipInfo:
    """A file of the archive, the same on every day and machine."""
    member = zipfile.ZipInfo(name, EPOCH)
    member.create_system = 3  # Unix
    member.external_attr = 0o644 << 16
    return member


def _masks(sample: Sample, prediction: Prediction) -> list[BoolArray]:
    if prediction.answer is not None and prediction.answer.masks is not None:
        return [mask.to_array() for mask in prediction.answer.masks]
    media = sample.query.media[0]
    return [np.zeros((media.size[1], media.size[0]), dtype=np.bool_)] * len(media)


def png(mask: BoolArray) -> bytes:
    """An 8-bit grey PNG with 0 and 255."""
    buffer = io.BytesIO()
    Image.fromarray(mask.astype(np.uint8) * 255, mode="L").save(buffer, "PNG")
    return buffer.getvalue()
