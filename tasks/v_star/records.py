"""Read and check the items of `V_STaR_test.json`; `v_star.task` shows one."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import DataError
from harness.layout import JsonFile, field
from harness.tasks.qa.tables import number, text
from harness.types import Box, Interval

SHORT_BELOW, MEDIUM_BELOW = 60, 180
"""Lengths in seconds below which a video is Short, or Medium."""


@dataclass(frozen=True, slots=True)
class Record:
    """One item: a question about an event, with its interval and its boxes."""

    id: str
    """The video's id, followed by `#2`, `#3`, … for further items of the video."""
    video: str
    domain: str
    size: tuple[int, int]
    """(width, height) in pixels."""
    length: float
    """Length of the video in seconds, rounded to two decimals as in the official code."""
    question: str
    answer: str
    temporal_question: str
    interval: Interval
    spatial_question: str
    spatial_question_2: str
    boxes: tuple[tuple[float, Box], ...]
    """Time in seconds and box in pixels, in the order of the file."""

    @property
    def duration(self) -> str:
        """Class of the video's length: Short, Medium or Long."""
        if self.length < SHORT_BELOW:
            return "Short"
        return "Medium" if self.length < MEDIUM_BELOW else "Long"

    @property
    def seconds(self) -> range:
        """The whole seconds inside the interval."""
        return range(math.ceil(self.interval.start), math.floor(self.interval.end) + 1)

    def track(self, frames: int) -> tuple[Box | None, ...]:
        """Return one box per second from 0 to frames - 1; None for a second without a box."""
        box_of_second = {time: box for time, box in self.boxes if float(time).is_integer()}
        return tuple(box_of_second.get(second) for second in range(frames))


def read_records(path: Path) -> Iterator[Record | DataError]:
    """Yield the record of every item in order, or the error of an invalid item."""
    n_by_video: Counter[str] = Counter()
    for entry in JsonFile(path).items():
        try:
            yield _record(entry.parse(), f"{path}, item {entry.key}", n_by_video)
        except DataError as error:
            yield error


def _record(item: object, where: str, n_by_video: Counter[str]) -> Record:
    """Return the record of an item after a check; count it in `n_by_video`, the items by video."""
    video = field(item, "vid", (str, int), where)
    assert isinstance(item, Mapping), "`field` raises for anything else"
    n_by_video[str(video)] += 1
    number_of_video = n_by_video[str(video)]
    width, height = (field(item, side, int, where) for side in ("width", "height"))
    rate, frames = number(item, "fps", where), number(item, "frame_count", where)
    if rate <= 0 or frames <= 0 or width <= 0 or height <= 0:
        raise DataError(
            f"{where}: 'fps', 'frame_count', 'width', 'height'",
            expected="more than 0",
            found=f"{rate}, {frames}, {width}, {height}",
        )
    domain = item.get("domain")
    return Record(
        id=str(video) if number_of_video == 1 else f"{video}#{number_of_video}",
        video=str(video),
        domain=domain if isinstance(domain, str) and domain else "unknown",
        size=(width, height),
        length=round(frames / rate, 2),
        question=text(item, "question", where),
        answer=text(item, "answer", where),
        temporal_question=text(item, "temporal_question", where),
        interval=_interval(field(item, "timestamps", list, where), where),
        spatial_question=text(item, "spatial_question", where),
        spatial_question_2=text(item, "spatial_question_2", where),
        boxes=tuple(
            _box(entry, f"{where}, box {index}")
            for index, entry in enumerate(field(item, "bboxes", list, where))
        ),
    )


def _interval(value: list[object], where: str) -> Interval:
    """Return the interval of `[start, end]`, in seconds, after a check."""
    plain = dict(enumerate(value))
    if len(value) != 2:
        raise DataError(f"{where}: 'timestamps'", expected="two numbers", found=repr(value)[:60])
    start, end = (number({"timestamps": plain[k]}, "timestamps", where) for k in (0, 1))
    if end < start:
        raise DataError(f"{where}: 'timestamps'", expected="start ≤ end", found=repr(value)[:60])
    return Interval(start, end)


def _box(value: object, where: str) -> tuple[float, Box]:
    """Return (time in seconds, box in pixels) of one entry of `bboxes`."""
    if not isinstance(value, Mapping):
        raise DataError(where, expected="an object", found=repr(value)[:40])
    sides = (number(value, side, where) for side in ("xmin", "ymin", "xmax", "ymax"))
    return number(value, "timestamp", where), Box(*sides)
