"""Write predictions for the evaluation servers of MeViS and Ref-YouTube-VOS.

The zip has `video/expression/frame.png`, 8-bit grey images with the values 0 and 255.
"""

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

FIXED_DATE = (1980, 1, 1, 0, 0, 0)  # a fixed date, so that equal predictions give equal bytes


def write_submission(
    videos: Mapping[str, Any],
    pairs: Iterable[tuple[Sample, Prediction]],
    folder: Path,
    *,
    prefix: str = "",
) -> Path:
    """Write submission.zip with every frame of every expression, and return its path.

    A failed sample is written as empty masks, because the server needs every file. The server may
    score such masks above 0, in frames whose ground truth is empty.

    Args:
        videos: Entries with the list `frames`, by name of the video.
        pairs: Samples, whose ids are `video/expression`, with their predictions.
        folder: Folder of the zip.
        prefix: Put before each file name in the zip, such as `Annotations/`.

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
    """Return the header of a file in the archive, with a fixed date and fixed permissions."""
    member = zipfile.ZipInfo(name, FIXED_DATE)
    member.create_system = 3  # Unix
    member.external_attr = 0o644 << 16
    return member


def _masks(sample: Sample, prediction: Prediction) -> list[BoolArray]:
    """Return the mask of each frame; empty masks for a failure."""
    if prediction.answer is not None and prediction.answer.masks is not None:
        return [mask.to_array() for mask in prediction.answer.masks]
    media = sample.query.media[0]
    return [np.zeros((media.size[1], media.size[0]), dtype=np.bool_)] * len(media)


def png(mask: BoolArray) -> bytes:
    """Encode a mask as an 8-bit grey PNG with the values 0 and 255."""
    buffer = io.BytesIO()
    Image.fromarray(mask.astype(np.uint8) * 255, mode="L").save(buffer, "PNG")
    return buffer.getvalue()
