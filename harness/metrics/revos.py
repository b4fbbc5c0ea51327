"""ReVOS: J, F, the share of right pixels A and the robustness R, as VISA and Sa2VA compute them.

VISA's scorer reads predictions as bytes of 0 and 255, Sa2VA's as 0 and 1. Both add the masks of an
expression's objects as bytes, and compute A and R from these bytes, with their overflows. So A and
R of the two forms cannot be compared, and no board may mix them.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.errors import MaskError
from harness.masks import Rle
from harness.metrics.boundary import boundary_f_measure
from harness.metrics.overlap import check_masks, check_tracks, overlap, region_similarity

EPSILON = 1e-6  # added to the foreground's pixels in R

Form: TypeAlias = Literal["visa255", "binary", "strict"]
"""Bytes of pixels. `visa255`: a predicted pixel is 255; `binary`: it is 1; in both a pixel of the
ground truth is the number of objects that cover it. `strict`: all pixels are 0 or 1.
"""

PixelTable: TypeAlias = NDArray[np.int64]
"""Numbers of pixels, (k, 2): `table[k, 1]` pixels are covered by k true objects and predicted,
`table[k, 0]` are covered by k and not predicted."""


class RevosScores(NamedTuple):
    """Means over the frames of one expression, from 0 to 1."""

    j: float
    f: float
    a: float
    r: float


def revos_scores(
    ground_truth: Sequence[Sequence[Rle]],
    predicted: Sequence[Rle],
    foreground: Sequence[Rle],
    *,
    form: Form,
) -> RevosScores:
    """Return J, F, A and R of one expression; official scorers average `in_percent` of each.

    J and F compare the union of the objects, whatever the form. Equal bit for bit to `eval_queue`
    in `tools/eval_revos.py` of VISA (commit ec158fd, `visa255`) and in `tools/eval/eval_revos.py`
    of Sa2VA (commit 9832e1a, `binary`). There an expression whose prediction is missing or cannot
    be read scores 0 four times.

    Args:
        ground_truth: One track of run-lengths for each object of the expression, at least one.
        predicted: A run-length for each frame.
        foreground: The union of all objects of the video's expressions; see `foreground_track`.
        form: The bytes of pixels in A and R.

    Raises:
        MaskError: no object, or tracks of different lengths or sizes.

    >>> top, left = np.array([[1, 1], [0, 0]]) > 0, np.array([[1, 0], [1, 0]]) > 0
    >>> ground_truth, predicted, both = ([Rle.from_array(mask)] for mask in (top, left, top | left))
    >>> revos_scores([ground_truth], predicted, both, form="binary")._replace(f=0.0)
    RevosScores(j=0.3333333333333333, f=0.0, a=0.5, r=0.6666667777777407)
    """
    union = foreground_track(ground_truth)
    for track in (predicted, foreground):
        check_tracks(union, track)
    a, r = [], []
    objects_by_frame = zip(*ground_truth, strict=True)
    for frame, output, context in zip(objects_by_frame, predicted, foreground, strict=True):
        check_masks(frame[0], context)
        table = pixel_table(frame, output)
        a.append(accuracy(table, form=form))
        r.append(robustness(table, context.area, form=form))
    return RevosScores(
        float(region_similarity(union, predicted).mean()),
        float(boundary_f_measure(union, predicted).mean()),
        float(np.mean(a)),
        float(np.mean(r)),
    )


def pixel_table(ground_truth: Sequence[Rle], predicted: Rle) -> PixelTable:
    """Count the pixels of one frame by how many objects cover them, and whether predicted.

    Objects that do not overlap, as in nearly all frames, are counted without decoding a mask.

    >>> mask, all_ = Rle.from_array(np.eye(2, dtype=bool)), Rle.full(2, 2)
    >>> pixel_table([mask], all_).tolist(), pixel_table([mask, all_], mask).tolist()
    ([[0, 2], [0, 2]], [[0, 0], [2, 0], [0, 2]])
    """
    union = ground_truth[0].union(*ground_truth[1:])
    shared, either = overlap(union, predicted)
    if union.area == sum(mask.area for mask in ground_truth):
        background = union.height * union.width - either
        return np.array(
            [[background, either - union.area], [union.area - shared, shared]], dtype=np.int64
        )
    covered = np.asarray(np.sum([mask.to_array() for mask in ground_truth], axis=0, dtype=np.uint8))
    output = predicted.to_array()
    levels = int(covered.max()) + 1
    return np.stack(
        [
            np.bincount(covered[~output], minlength=levels),
            np.bincount(covered[output], minlength=levels),
        ],
        axis=1,
    )


def accuracy(table: PixelTable, *, form: Form) -> float:
    """Return A of one frame: the share of pixels whose bytes are equal.

    In `visa255` a predicted pixel is never equal to one of the ground truth, so that only
    background is right; in `binary` a pixel of two objects is never right. Source:
    `get_r2vos_accuracy` in `tools/metrics.py` of VISA (commit ec158fd).

    >>> table = np.array([[1, 1], [0, 1], [0, 1]])  # the last pixel is of two objects
    >>> [accuracy(table, form=form) for form in ("visa255", "binary", "strict")]
    [0.25, 0.5, 0.75]
    """
    true, predicted = _bytes(table, form)
    return float(table[true[:, None] == predicted].sum() / table.sum())


def robustness(table: PixelTable, foreground: int, *, form: Form) -> float:
    """Return R of one frame: 1 less wrongly predicted pixels over foreground pixels, at least 0.

    It is `max(1 - sum((1 - ground_truth) · predicted) / (foreground + 1e-6), 0)`, where the
    products are bytes, modulo 256: in `visa255` a wrong pixel counts 255 times, and a predicted
    pixel of k ≥ 2 objects k - 1 times; in `binary` a wrong pixel counts once, and a predicted pixel
    of k ≥ 2 objects 257 - k times. A frame without foreground scores 1 if nothing is predicted,
    otherwise 0.

    Source: `get_r2vos_robustness` in `tools/metrics.py` of VISA (commit ec158fd), which Sa2VA
    copies. `foreground` is the number of pixels of the video's objects in the frame.

    >>> table = np.array([[1, 1], [0, 1], [0, 1]])
    >>> [round(robustness(table, 512, form=form), 3) for form in ("visa255", "binary", "strict")]
    [0.5, 0.5, 0.998]
    """
    true, predicted = _bytes(table, form)
    wrong = ((np.uint8(1) - true) * predicted[1]).astype(np.int64) @ table[:, 1]
    return float(max(1 - wrong / (foreground + EPSILON), 0.0))


def foreground_track(tracks: Sequence[Sequence[Rle]]) -> tuple[Rle, ...]:
    """Return the union of all objects in each frame: the masks of `mask_dict_foreground.json`.

    Source: `merge_rle` in `tools/generate_foreground_mask.py` of VISA (commit ec158fd), which takes
    the annotations of all expressions of a video.

    Raises:
        MaskError: no track, or tracks of different lengths or sizes.

    >>> masks = [[Rle.from_array(row)] for row in np.eye(2, dtype=bool)[:, None]]
    >>> foreground_track(masks)[0].area
    2
    """
    if not tracks:
        raise MaskError("objects of a video", expected="at least one track", found="none")
    for track in tracks:
        check_tracks(tracks[0], track)
    return tuple(first.union(*rest) for first, *rest in zip(*tracks, strict=True))


def in_percent(score: float) -> float:
    """Return a score as the official scorers average it: times 100, rounded to two places.

    The benchmark prints the mean over the expressions of a type (0 referring, 1 reasoning).
    "Overall" is the mean of these two means, whatever their numbers of expressions; expressions of
    type 2 are left out.

    >>> in_percent(0.123456), in_percent(2 / 3)
    (12.35, 66.67)
    """
    return float(np.round(np.float64(100) * score, 2))


def _bytes(table: PixelTable, form: Form) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return (the true byte of each row of the table, the predicted byte of each column)."""
    levels = np.arange(len(table), dtype=np.uint8)
    true = (levels > 0).astype(np.uint8) if form == "strict" else levels
    return true, np.array([0, 255 if form == "visa255" else 1], dtype=np.uint8)
