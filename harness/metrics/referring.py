"""Masks of RefCOCO, RefCOCO+ and RefCOCOg from several polygons, strictly or as LISA reads them."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from harness.errors import MaskError
from harness.masks import Rle
from harness.metrics.overlap import check_masks


def referring_mask(parts: Sequence[Rle], *, form: Literal["strict", "compat"]) -> Rle:
    """Return one mask of an object whose annotation is several polygons, each already a mask.

    LISA's reader adds the polygons' masks, and its scorer counts only the values 0 and 1: a pixel
    in two polygons, with the value 2, counts as background. `compat` returns the pixels of exactly
    one polygon, whose `overlap` with a prediction gives the official counts; `strict` returns the
    pixels of any polygon. The two differ where polygons of one object overlap.

    Source: `ValDataset` in `utils/dataset.py` and `intersectionAndUnionGPU` in `utils/utils.py` of
    LISA (commit 3cb2d43).

    Args:
        parts: The masks of the polygons, at least one, all of one size.
        form: `strict` or `compat`.

    Raises:
        MaskError: there is no mask, or sizes differ.

    >>> left, both = np.array([[1, 1, 0]]) > 0, np.array([[0, 1, 1]]) > 0
    >>> parts = [Rle.from_array(left), Rle.from_array(both)]
    >>> referring_mask(parts, form="strict").to_array().astype(int)
    array([[1, 1, 1]])
    >>> referring_mask(parts, form="compat").to_array().astype(int)
    array([[1, 0, 1]])
    """
    if not parts:
        raise MaskError("mask of an annotation", expected="at least one polygon", found="none")
    for part in parts[1:]:
        check_masks(parts[0], part)
    if form == "strict" or len(parts) == 1:
        return parts[0].union(*parts[1:])
    n_polygons = np.zeros((parts[0].height, parts[0].width), dtype=np.uint8)
    for part in parts:
        n_polygons += part.to_array()
    return Rle.from_array(n_polygons == 1)
