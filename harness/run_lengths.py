"""Decoding and encoding of COCO's compressed run lengths, for `harness.masks.Rle`.

A mask's run lengths are the numbers of pixels in alternating runs of 0 and 1, column by column,
0 first. Text that is not well formed, and Kaggle's pairs of start and length, are a MaskError.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harness.errors import MaskError

RUNS_EXPECTED = "COCO's run-length: runs of 0 and 1 in turn, as a list, or compressed as a text"
PAIRS_HINT = (
    "docs/predictions.md has the lines that make it of pairs of start and length, as Kaggle's are."
)


def refuse_pairs(runs: Sequence[int], pixels: int, what: str) -> None:
    """Raise MaskError if counts look like Kaggle's pairs of start and length instead of runs.

    Such pairs rise, do not overlap, and do not add up to the image's pixels.

    Args:
        runs: Whole numbers ≥ 0.
        pixels: Height times width.
        what: The mask, for messages.
    """
    starts, lengths = runs[::2], runs[1::2]
    if len(starts) != len(lengths) or len(starts) < 2 or sum(runs) == pixels:
        return
    ends = [start + length for start, length in zip(starts, lengths, strict=True)]
    if all(end <= next_start for end, next_start in zip(ends, starts[1:], strict=False)):
        description = f"pairs, {str(list(runs[:6]))[:40]}"
        raise MaskError(what, expected=RUNS_EXPECTED, found=description, fix=PAIRS_HINT)


def parse_counts(text: str, pixels: int) -> NDArray[np.int64]:
    """Decode COCO's compressed counts to run lengths.

    Each character holds six bits, as its code less that of '0' (48): 0x20 is set if the number
    continues in the next character, and the other five are bits of the number, lowest first; the
    last character's 0x10 is the sign. From the fourth run on, the number is the difference to the
    run before last (`rleToString` of COCO's maskApi.c).

    Args:
        text: The compressed counts.
        pixels: Height times width.

    Raises:
        MaskError: the text is not well formed, or a run is longer than the image.
    """
    # Text beyond ASCII is read as NUL, which is not a character of counts.
    plain = text if text.isascii() else "\0"
    raw = np.frombuffer(plain.encode("ascii"), dtype=np.uint8).astype(np.int64) - 48
    if raw.size == 0 or raw.min() < 0 or raw.max() > 63:
        raise MaskError(
            "run-length text",
            expected="characters from '0' to 'o'",
            found=repr(text[:24]) if text else "nothing",
        )
    is_last = (raw & 0x20) == 0  # of its number
    if not is_last[-1]:
        raise MaskError(
            "run-length text", expected="a complete last number", found="a text that was cut"
        )
    ends = np.flatnonzero(is_last)
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts + 1
    if ends.size > pixels + 2 or int(lengths.max()) > 7:  # 7 characters hold 35 bits
        raise MaskError(
            "run-length text",
            expected=f"numbers for at most {pixels} pixels",
            found=f"{ends.size} runs, a number of {int(lengths.max())} characters",
        )
    digit = np.arange(raw.size) - np.repeat(starts, lengths)  # place of a character in its number
    numbers = np.add.reduceat((raw & 0x1F) << (5 * digit), starts)
    negative = (raw[ends] & 0x10) != 0
    numbers = np.where(negative, numbers - (np.int64(1) << (5 * lengths)), numbers)
    # Runs of 1 add up from the second run, runs of 0 from the third: the first is not added.
    runs = numbers.copy()
    runs[1::2] = np.cumsum(numbers[1::2])
    if runs.size > 2:
        runs[2::2] = np.cumsum(numbers[2::2])
    if int(runs.min()) < 0 or int(runs.max()) > pixels:
        raise MaskError(
            "run-length text",
            expected=f"runs from 0 to {pixels}",
            found=f"a run of {int(runs.min() if runs.min() < 0 else runs.max())}",
        )
    return runs


def encode_runs(runs: Sequence[int]) -> str:
    """Compress run lengths to COCO's text; the inverse of `parse_counts`."""
    text = []
    for index, run in enumerate(runs):
        number = int(run) - (int(runs[index - 2]) if index > 2 else 0)
        while True:
            bits, number = number & 0x1F, number >> 5
            is_last = number == (-1 if bits & 0x10 else 0)
            text.append(chr((bits if is_last else bits | 0x20) + 48))
            if is_last:
                break
    return "".join(text)
