"""Test against the ground truth whether a file has the masks of its videos in another frame order.

Other orders are reversed, late or early by one frame, or sorted as text (0, 1, 10, 11, …). An order
is reported if it agrees better than the file's in nearly all videos that show a difference, which
is hardly chance. `Agreement` calls it with each video's predicted and true masks.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from harness.formats.evidence import CHANCE, HALF, LEAST, MARGIN, TIMES, Finding, tail
from harness.formats.pairs import grid
from harness.masks import Rle

LOOKED_AT = 100
"""Most videos that are compared."""
FRAMES = 6
"""Most frames of each video that are compared."""
SHORTEST = 3
"""Least frames of a video that shows an order."""
CLEAR = 0.05
"""Difference of agreement (0 to 1) by which one order is better than another in a video."""
NEARLY = 0.85
"""Agreement of masks that are exactly one frame late; a slow tracker's masks agree less."""
REVERSED, LATE, EARLY = "in the opposite order of frames", "one frame late", "one frame early"
LIMITS: Mapping[str, tuple[float, float]] = {
    REVERSED: (MARGIN / 2, HALF),
    **dict.fromkeys((LATE, EARLY), (MARGIN / 2, NEARLY)),
}
"""Difference by which an order must be better, and its least agreement, for orders whose limits are
not the usual ones."""
Places = NDArray[np.int64]


def _orders(count: int) -> Iterator[tuple[str, Places]]:
    """Yield the name of each order of `count` masks, and the frame of each mask in it."""
    places = np.arange(count)
    yield REVERSED, places[::-1]
    yield LATE, np.maximum(places - 1, 0)
    yield EARLY, np.minimum(places + 1, count - 1)
    for first, second in ((0, 10), (1, 11)):
        if count + first <= 10:
            continue  # up to 9, numbers sort as texts do
        names = [str(frame + first) for frame in range(count)]
        by_text = np.array(sorted(range(count), key=names.__getitem__))
        name = f"of frames {first}, {10 if first else 1}, {second}, …, 2"
        yield f"{name} (were names sorted as text?)", by_text
        yield f"{name} (were they sorted as text before?)", np.argsort(by_text)


class FrameOrder:
    """Agreement of the masks of videos with the ground truth, for each order of frames."""

    def __init__(self) -> None:
        self.before: dict[str, list[float]] = {}
        self.after: dict[str, list[float]] = {}
        self.seen = 0

    def add(self, predicted: Sequence[Rle] | None, truth: Sequence[Rle] | None) -> None:
        """Compare the masks of one video with its ground truth, in each order."""
        if not predicted or not truth or len(predicted) != len(truth) or len(truth) < SHORTEST:
            return
        if self.seen >= LOOKED_AT:
            return
        self.seen += 1
        sampled_frames = np.unique(np.linspace(0, len(truth) - 1, FRAMES).astype(int))
        masks = {frame: grid(predicted[frame]) for frame in sampled_frames}
        true: dict[int, NDArray[np.float64]] = {}
        for name, order in _orders(len(truth)):
            moved = [frame for frame in sampled_frames if order[frame] != frame]
            for true_frames, agreements_by_order in (
                (np.arange(len(truth)), self.before),
                (order, self.after),
            ):
                agreements = [
                    _agreement(masks[frame], _cached(true, truth, int(true_frames[frame])))
                    for frame in moved
                ]
                agreements_by_order.setdefault(name, []).append(float(np.mean(agreements)))

    def finding(self) -> Finding | None:
        """Return the best of the orders that beat the file's own; None if none does."""
        best_finding: Finding | None = None
        highest = 0.0
        for name, means in self.after.items():
            before, after = np.array(self.before[name]), np.array(means)
            better = int((after > before + CLEAR).sum())
            worse = int((before > after + CLEAR).sum())
            margin, minimum = LIMITS.get(name, (MARGIN, HALF))
            is_better = after.mean() >= max(before.mean() + margin, minimum)
            if better < max(LEAST, TIMES * worse) or not is_better or after.mean() <= highest:
                continue
            if tail(better, better + worse, 0.5) <= CHANCE:
                hits = [int((values >= HALF).sum()) for values in (after, before)]
                best_finding, highest = Finding(hits[0], hits[1], len(after), name), after.mean()
        return best_finding


def _cached(
    grids: dict[int, NDArray[np.float64]], masks: Sequence[Rle], frame: int
) -> NDArray[np.float64]:
    if frame not in grids:
        grids[frame] = grid(masks[frame])
    return grids[frame]


def _agreement(mask: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    shared = float((mask * truth).sum())
    union = float((mask**2).sum() + (truth**2).sum()) - shared
    return shared / union if union > 0 else 1.0
