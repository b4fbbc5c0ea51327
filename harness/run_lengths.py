"""COCO's compressed text of run lengths, there and back, and what is given in its place."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harness.errors import MaskError

RUNS = "COCO's run-length: runs of 0 and 1 in turn, as a list, or compressed as a text"
OTHER_RUNS = (
    "docs/predictions.md has the lines that make it of pairs of start and length, as Kaggle's are."
)


def refuse_pairs(counts: Sequence[int], pixels: int, what: str) -> None:
    """Raise MaskError for pairs of start and length in the place of runs, as far as they show it.

    Pairs rise, do not overlap, and do not add up to the image.
    """
    starts, lengths = counts[::2], counts[1::2]
    ends = [start + length for start, length in zip(starts, lengths, strict=False)]
    rise = all(end <= start for end, start in zip(ends, starts[1:], strict=False))
    if len(starts) == len(lengths) > 1 and rise and sum(counts) != pixels:
        shown = f"pairs, {str(list(counts[:6]))[:40]}"
        raise MaskError(what, expected=RUNS, found=shown, fix=OTHER_RUNS)


def parse_counts(text: str, pixels: int) -> NDArray[np.int64]:
    """Decode COCO's compressed counts to run lengths, refusing whatever is not well formed.

    Six bits a character from '0' on: five of the number, one saying that more follow; from the
    fourth run on, the difference to the run before last is stored (`rleToString` of COCO's
    maskApi.c).
    """
    # Text beyond ASCII becomes NUL, which is not a digit of a run-length ("replace" gives "?").
    plain = text if text.isascii() else "\0"
    raw = np.frombuffer(plain.encode("ascii"), dtype=np.uint8).astype(np.int64) - 48
    if raw.size == 0 or raw.min() < 0 or raw.max() > 63:
        raise MaskError(
            "run-length text",
            expected="characters from '0' to 'o'",
            found=repr(text[:24]) if text else "nothing",
        )
    last = (raw & 0x20) == 0
    if not last[-1]:
        raise MaskError(
            "run-length text", expected="a complete last number", found="a text that was cut"
        )
    ends = np.flatnonzero(last)
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts + 1
    if ends.size > pixels + 2 or int(lengths.max()) > 7:
        raise MaskError(
            "run-length text",
            expected=f"numbers for at most {pixels} pixels",
            found=f"{ends.size} runs, a number of {int(lengths.max())} characters",
        )
    place = np.arange(raw.size) - np.repeat(starts, lengths)
    numbers = np.add.reduceat((raw & 0x1F) << (5 * place), starts)
    negative = (raw[ends] & 0x10) != 0
    numbers = np.where(negative, numbers - (np.int64(1) << (5 * lengths)), numbers)
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
            done = number == (-1 if bits & 0x10 else 0)
            text.append(chr((bits if done else bits | 0x20) + 48))
            if done:
                break
    return "".join(text)
