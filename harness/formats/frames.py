"""Evidence from the ground truth that the masks of a video are in another order of frames.

Each order is compared with the frames as they are: where it agrees better in nearly all videos that
show a difference, that is hardly chance.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from harness.formats.evidence import CHANCE, HALF, LEAST, MARGIN, TIMES, Finding, tail
from harness.formats.pairs import grid
from harness.masks import Rle

LOOKED_AT = 100
"""Videos that are looked at."""
FRAMES = 6
"""Frames of each that are compared."""
SHORTEST = 3
"""Frames of the shortest video that shows an order."""
CLEAR = 0.05
"""Agreement by which one order is better than another in a video."""
NEARLY = 0.85
"""Agreement of masks that are only a frame late; those of a slow tracker are less right."""
REVERSED, LATE, EARLY = "in the opposite order of frames", "one frame late", "one frame early"
LIMITS: Mapping[str, tuple[float, float]] = {
    REVERSED: (MARGIN / 2, HALF),
    **dict.fromkeys((LATE, EARLY), (MARGIN / 2, NEARLY)),
}
"""Agreement by which an order is better, and least one, where these are not those of any."""
Places = NDArray[np.int64]


def _orders(count: int) -> Iterator[tuple[str, Places]]:
    """Yield the name of each order, and the frame that each of so many masks is of."""
    places = np.arange(count)
    yield REVERSED, places[::-1]
    yield LATE, np.maximum(places - 1, 0)
    yield EARLY, np.minimum(places + 1, count - 1)
    for first, second in ((0, 10), (1, 11)):
        if count + first <= 10:
            continue  # up to 9, numbers sort as texts do
        names = [str(place + first) for place in range(count)]
        by_text = np.array(sorted(range(count), key=names.__getitem__))
        name = f"of frames {first}, {10 if first else 1}, {second}, …, 2"
        yield f"{name} (were names sorted as text?)", by_text
        yield f"{name} (were they sorted as text before?)", np.argsort(by_text)


class FrameOrder:
    """Agreement of tracks of masks with the ground truth, by the order of frames."""

    def __init__(self) -> None:
        self.before: dict[str, list[float]] = {}
        self.after: dict[str, list[float]] = {}
        self.seen = 0

    def add(self, predicted: Sequence[Rle] | None, truth: Sequence[Rle] | None) -> None:
        """Compare the masks of a video with its ground truth, in each order."""
        if not predicted or not truth or len(predicted) != len(truth) or len(truth) < SHORTEST:
            return
        if self.seen >= LOOKED_AT:
            return
        self.seen += 1
        shown = np.unique(np.linspace(0, len(truth) - 1, FRAMES).astype(int))
        masks = {place: grid(predicted[place]) for place in shown}
        true: dict[int, NDArray[np.float64]] = {}
        for name, order in _orders(len(truth)):
            moved = [place for place in shown if order[place] != place]
            for meant, means in ((np.arange(len(truth)), self.before), (order, self.after)):
                agreements = [
                    _agreement(masks[place], _cached(true, truth, int(meant[place])))
                    for place in moved
                ]
                means.setdefault(name, []).append(float(np.mean(agreements)))

    def finding(self) -> Finding | None:
        """Return the best of the orders that are better than the frames as they are; else None."""
        best: Finding | None = None
        highest = 0.0
        for name, means in self.after.items():
            before, after = np.array(self.before[name]), np.array(means)
            better = int((after > before + CLEAR).sum())
            worse = int((before > after + CLEAR).sum())
            margin, least = LIMITS.get(name, (MARGIN, HALF))
            is_better = after.mean() >= max(before.mean() + margin, least)
            if better < max(LEAST, TIMES * worse) or not is_better or after.mean() <= highest:
                continue
            if tail(better, better + worse, 0.5) <= CHANCE:
                hits = [int((values >= HALF).sum()) for values in (after, before)]
                best, highest = Finding(hits[0], hits[1], len(after), name), after.mean()
        return best


def _cached(
    grids: dict[int, NDArray[np.float64]], masks: Sequence[Rle], place: int
) -> NDArray[np.float64]:
    if place not in grids:
        grids[place] = grid(masks[place])
    return grids[place]


def _agreement(mask: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    shared = float((mask * truth).sum())
    union = float((mask**2).sum() + (truth**2).sum()) - shared
    return shared / union if union > 0 else 1.0
