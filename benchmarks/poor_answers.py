"""Files of poor answers and of planted mistakes, as `false_alarms.py` draws them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.media import Media, pixels

SIZES = ((160, 120), (120, 160), (200, 150), (128, 128))
LENGTHS = (30, 61, 45, 120, 90, 33)
LETTERS = "ABCD"
TYPES = ("near", "far", "left", "right")
"""Values of a category."""
GOOD = 0.06
"""Part of its size by which a good place is wrong."""

Row: TypeAlias = NDArray[np.float64]
"""A place as shares of its image or video, or a number."""
Rows: TypeAlias = NDArray[np.float64]

IMAGES = [
    pixels([np.zeros((h, w, 3), np.uint8)], times=[0.0], is_video=False, id=f"{w}x{h}")
    for w, h in SIZES
]
VIDEOS = [
    pixels([np.zeros((4, 4, 3), np.uint8)] * n, times=range(n), is_video=True, id=f"{n}s")
    for n in LENGTHS
]
TRACKS = [
    pixels([np.zeros((48, 64, 3), np.uint8)] * 12, times=range(12), is_video=True, id="track")
]


@dataclass
class File:
    """Ground truths of a file, and what its samples have in common."""

    kind: str
    rng: np.random.Generator
    truths: Rows
    """A row a sample: [left, top, right, bottom] or [start, end] as shares, or a number."""
    groups: NDArray[np.int64]
    types: Sequence[Mapping[str, str]]
    ids: list[str] = field(default_factory=list)
    frames: Sequence[int] = range(12)
    """The frame that each mask of a track shows."""

    def media(self, number: int) -> tuple[Media, ...]:
        """Return the image or video of a sample."""
        kinds = {"intervals": VIDEOS, **dict.fromkeys(("masks", "boxes", "points"), IMAGES)}
        kinds["tracks"] = TRACKS
        group = int(self.groups[number])
        return (kinds[self.kind][group % len(kinds[self.kind])],) if self.kind in kinds else ()


def boxes(rng: np.random.Generator, count: int) -> Rows:
    """Draw boxes as shares of images: more in the middle, some large."""
    centres = np.clip(rng.normal(0.5, 0.22, (count, 2)), 0.05, 0.95)
    sides = np.exp(rng.normal(np.log(0.3), 0.5, (count, 2)))
    return inside(np.concatenate([centres - sides / 2, centres + sides / 2], axis=1))


def inside(places: Rows) -> Rows:
    """Return places cut to their images or videos, 1 % long at least."""
    half = places.shape[1] // 2
    low = np.clip(places[:, :half], 0, 0.98)
    return np.concatenate([low, np.clip(places[:, half:], low + 0.01, 1)], axis=1)


def spans(rng: np.random.Generator, count: int) -> Rows:
    """Draw intervals as shares of videos."""
    starts = rng.random(count) * 0.8
    return inside(np.stack([starts, starts + np.exp(rng.normal(np.log(0.2), 0.6, count))], axis=1))


DRAWN: Mapping[str, Callable[[np.random.Generator, int], Rows]] = {
    "masks": boxes,
    "boxes": boxes,
    "points": boxes,
    "intervals": spans,
    "letters": lambda rng, n: rng.integers(0, 4, (n, 1)).astype(float),
    "numbers": lambda rng, n: np.round(np.exp(rng.normal(1, 0.9, (n, 1))), 1) + 0.1,
    "counts": lambda rng, n: rng.poisson(3, (n, 1)) + 1.0,
    "yes_no": lambda rng, n: rng.integers(0, 2, (n, 1)).astype(float),
    "tracks": lambda rng, n: np.concatenate(
        [boxes(rng, n) * 0.6 + 0.2, np.tile(rng.uniform(-0.25, 0.25, (n, 2)), 2)], axis=1
    ),
}
PLACES = ("masks", "boxes", "points", "intervals")


def drawn(kind: str, count: int, rng: np.random.Generator, *, plain: bool = False) -> File:
    """Draw a file's ground truths; `plain`: unsorted, one an image, with all types alike."""
    truths = DRAWN[kind](rng, count)
    if not plain and rng.random() < 0.3:
        truths = truths[np.argsort(truths[:, 0])]
    members = 1 if plain else int(rng.choice([1, 1, 2, 4]))
    groups = np.arange(count) // members
    names = rng.choice(TYPES, count)
    pattern = str(rng.choice(["{}", "{:04}", "q{}", "video{}/1"]))
    types = [{"type": str(name), "half": str(number % 2)} for number, name in enumerate(names)]
    return File(kind, rng, truths, groups, types, [pattern.format(n) for n in range(count)])


def sized(places: Rows, factor: float) -> Rows:
    """Return places of so many times their size, about their middles."""
    half = places.shape[1] // 2
    middle = (places[:, :half] + places[:, half:]) / 2
    reach = (places[:, half:] - places[:, :half]) / 2 * factor
    return inside(np.concatenate([middle - reach, middle + reach], axis=1))


def moved(file: File, steps: Rows) -> Rows:
    """Return the ground truths moved by shares of their own sides."""
    half = file.truths.shape[1] // 2
    sides = file.truths[:, half:] - file.truths[:, :half]
    return inside(file.truths + np.tile(sides * steps, 2))


def of_other_objects(file: File) -> Rows:
    """Return the ground truth of any sample of the same image, in place of a sample's own."""
    members = [np.flatnonzero(file.groups == group) for group in file.groups]
    return file.truths[[int(file.rng.choice(some)) for some in members]]


def partly(file: File) -> Rows:
    """Return answers of which two in five are right, and others random."""
    others = DRAWN[file.kind](file.rng, len(file.truths))
    return np.where(file.rng.random((len(others), 1)) < 0.4, file.truths, others)


def alike(file: File, row: Row) -> Rows:
    """Return the same answer for all samples."""
    return np.tile(row, (len(file.truths), 1))


def half(file: File) -> int:
    """Return the number of axes of a place."""
    return int(file.truths.shape[1]) // 2


Draw: TypeAlias = Callable[[File], Rows]
ANY: Mapping[str, Draw] = {
    "random": lambda f: DRAWN[f.kind](f.rng, len(f.truths)),
    "two in five right": partly,
    "most frequent": lambda f: alike(f, np.median(f.truths, axis=0).round(2)),
    "any sample's": lambda f: alike(f, f.truths[0]),
}
OF_PLACES: Mapping[str, Draw] = {
    **ANY,
    "shifted by half": lambda f: moved(f, np.full((1, half(f)), 0.5)),
    "shifted by its size": lambda f: moved(f, np.full((1, half(f)), 1.0)),
    "shifted in the image": lambda f: inside(f.truths + 0.15),
    "noisy": lambda f: moved(f, f.rng.normal(0, 0.5, (len(f.truths), half(f)))),
    "biased and noisy": lambda f: moved(f, f.rng.normal(0.4, 0.4, (len(f.truths), half(f)))),
    "twice as large": lambda f: sized(f.truths, 2),
    "half as large": lambda f: sized(f.truths, 0.5),
    "whole": lambda f: alike(f, np.repeat([0.0, 1.0], half(f))),
    "other objects": of_other_objects,
}


def scale(low: float, high: float) -> Draw:
    """Return the draw of numbers that are so many times too large."""
    return lambda f: f.truths * f.rng.uniform(low, high, f.truths.shape)


POOR: Mapping[str, Mapping[str, Draw]] = {
    **dict.fromkeys(PLACES, OF_PLACES),
    "letters": {
        **ANY,
        "all A": lambda f: f.truths * 0,
        "never A": lambda f: f.rng.integers(1, 4, f.truths.shape).astype(float),
        "mostly B": lambda f: np.where(f.rng.random(f.truths.shape) < 0.7, 1.0, f.truths),
    },
    "numbers": {
        **ANY,
        "noisy": lambda f: f.truths * np.exp(f.rng.normal(0, 0.5, f.truths.shape)),
        "half": scale(0.5, 0.5),
        "twice": scale(2, 2),
        "a few times": scale(1.5, 4),
        "shifted": lambda f: f.truths + 1,
    },
    "counts": {
        **ANY,
        "often one more": lambda f: f.truths + (f.rng.random(f.truths.shape) < 0.6),
        "about one off": lambda f: f.truths + f.rng.choice([-1, 1, 2], f.truths.shape),
        "never above four": lambda f: np.minimum(f.truths + 1, 4),
    },
    "yes_no": {
        **ANY,
        "all yes": lambda f: alike(f, np.ones(1)),
        "mostly wrong": lambda f: abs(f.truths - (f.rng.random(f.truths.shape) < 0.7)),
    },
    "tracks": {
        "random": lambda f: DRAWN[f.kind](f.rng, len(f.truths)),
        "of the first frame": lambda f: f.truths * np.repeat([1.0, 0.0], 4),
        "of the last frame": lambda f: (
            np.tile(sum(np.split(f.truths, 2, axis=1)), 2) * np.repeat([1.0, 0.0], 4)
        ),
        "slow": lambda f: f.truths * np.repeat([1.0, 0.5], 4),
        "noisy": lambda f: f.truths + f.rng.normal(0, 0.08, f.truths.shape),
    },
}


def good(file: File) -> Rows:
    """Return a good model's answers."""
    if file.kind in PLACES:
        return moved(file, file.rng.normal(0, GOOD, (len(file.truths), half(file))))
    right = file.rng.random(file.truths.shape) < 0.85
    return np.where(right, file.truths, DRAWN[file.kind](file.rng, len(file.truths)))


def in_order(file: File, order: Sequence[int]) -> Rows:
    """Return each sample with the good answer of another; in the same pixels or seconds."""
    answers = good(file)[list(order)]
    if file.kind not in ("boxes", "intervals"):  # a mask of another size is refused
        return answers
    media = [file.media(number)[0] for number in range(len(answers))]
    sides = np.array(
        [[max(m.times())] * 2 if file.kind == "intervals" else [*m.size] * 2 for m in media],
        float,
    )
    cut: Rows = np.minimum(answers * sides[list(order)] / sides, 1)
    return inside(cut)


def shuffled(file: File) -> Rows:
    """Return the answers of other samples, in no order."""
    return in_order(file, file.rng.permutation(len(file.truths)).tolist())


def shifted(step: int) -> Draw:
    """Return the draw of answers of so many samples before."""
    return lambda f: in_order(f, [(n - step) % len(f.truths) for n in range(len(f.truths))])


def as_text(file: File) -> Rows:
    """Return answers in the order of ids that are sorted as text."""
    file.ids[:] = [str(number) for number in range(len(file.truths))]
    return in_order(file, sorted(range(len(file.truths)), key=str))


def of_one_type(file: File) -> Rows:
    """Return numbers that are 100 times too large in one type of question."""
    of_type = np.array([types["half"] == "0" for types in file.types])
    return np.where(of_type[:, None], 100.0, 1.0) * good(file)


def reversed_labels(file: File) -> Rows:
    """Return the places of an image's objects in the opposite order, of three an image."""
    file.groups[:] = np.arange(len(file.truths)) // 3
    order = [3 * (n // 3) + 2 - n % 3 for n in range(len(file.truths))]
    return in_order(file, order)


ORDERS: Mapping[str, Draw] = {
    "shifted by 1": shifted(1),
    "shifted by 3": shifted(3),
    "reversed": lambda f: in_order(f, range(len(f.truths))[::-1]),
    "sorted as text": as_text,
}


def of_frames(order: Sequence[int]) -> Draw:
    """Return the draw of good tracks whose frames are in another order."""

    def draw(file: File) -> Rows:
        file.frames = order
        return file.truths + file.rng.normal(0, 0.01, file.truths.shape)

    return draw


def from_the_end(file: File) -> Rows:
    """Return good intervals counted from the video's end."""
    return 1 - good(file)[:, ::-1]


OF_OBJECTS = {
    **ORDERS,
    "shuffled": shuffled,
    "reversed labels": reversed_labels,
    "of half the size": lambda f: good(f) / 2,
}
MISMADE: Mapping[str, Mapping[str, Draw]] = {
    "masks": OF_OBJECTS,
    "boxes": OF_OBJECTS,
    "intervals": {**OF_OBJECTS, "from the end": from_the_end},
    "letters": ORDERS,
    "counts": {
        **ORDERS,
        "one more": lambda f: f.truths + 1,
        "one less": lambda f: f.truths - 1,
    },
    "yes_no": {"flipped": lambda f: 1 - f.truths},
    "tracks": {
        "reversed frames": of_frames(range(12)[::-1]),
        "frames sorted as text": of_frames(sorted(range(12), key=str)),
        "one frame late": of_frames([max(frame - 1, 0) for frame in range(12)]),
    },
    "numbers": {**ORDERS, "one type of two × 100": of_one_type},
}
