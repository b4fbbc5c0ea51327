"""Make prediction lines of Kaggle's run-lengths.

They are pairs: the number of the first pixel, from 1, and the number of pixels. The command that
messages print calls `masks_of_pairs`.
"""

import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from harness.errors import DataError, raised_as
from harness.masks import Rle
from harness.types import Sample


def masks_of_pairs(path: Path | str, samples: Iterable[Sample]) -> Iterator[dict[str, object]]:
    """Yield a prediction line for each sample in a table; its mask is the union of its rows.

    Args:
        path: CSV with the columns ImageId and EncodedPixels. An ImageId is a sample's id, with or
            without a suffix. EncodedPixels are pairs; pixels are numbered down the columns.
        samples: The benchmark's samples.

    Raises:
        DataError: a row belongs to no sample, does not hold pairs of whole numbers, or has pixels
            outside its image.
    """
    by_id = {sample.id: sample for sample in samples}
    pairs: dict[str, list[int]] = defaultdict(list)
    unknown: list[str] = []
    with Path(path).open(newline="", encoding="utf-8-sig") as file:
        for row in csv.DictReader(file):
            image = row["ImageId"]
            name = image if image in by_id else image.rpartition(".")[0]
            if name not in by_id:
                unknown.append(image)
                continue
            where = f"{path}, image {image!r}"
            with raised_as(DataError, where, "whole numbers", ValueError):
                numbers = list(map(int, (row["EncodedPixels"] or "").split()))
            if len(numbers) % 2:
                raise DataError(
                    where, expected="pairs of start and length", found=f"{len(numbers)} numbers"
                )
            pairs[name] += numbers
    if unknown:
        n_known = len(by_id.keys() & pairs.keys())
        raise DataError(
            f"table {path}",
            expected=f"ids of the samples, such as {next(iter(by_id), 'none')!r}",
            found=f"others in {len(unknown)} rows, such as {', '.join(map(repr, unknown[:3]))}; "
            f"{n_known} samples have rows",
            fix="No row is converted. Correct the ids, or remove rows of no sample.",
        )
    for name, numbers in pairs.items():
        width, height = by_id[name].query.media[0].size
        pixels = np.zeros(width * height, bool)
        for start, length in zip(numbers[::2], numbers[1::2], strict=True):
            if start < 1 or length < 1 or start - 1 + length > pixels.size:
                raise DataError(
                    f"{path}, sample {name!r}",
                    expected=f"pixels from 1 to {pixels.size}, of an image of {width}×{height}",
                    found=f"{length} from {start}",
                    fix="Add 1 to starts that count from 0, or make the mask in the image's size.",
                )
            pixels[start - 1 : start - 1 + length] = True
        mask = pixels.reshape((width, height)).T
        yield {"id": name, "masks": [Rle.from_array(mask).to_json()]}
