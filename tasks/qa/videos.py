"""A benchmark's videos, as files or as folders of frames, and the choice of their frames."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from harness.errors import MediaError
from harness.foreign import in_place_of
from harness.frame_folder import frames_in
from harness.frames import frame_policy
from harness.layout import path_inside
from harness.media import Media, frame_files, placeholder_media, select_frames
from harness.spec import Spec
from harness.video import video_file

TOLERANCE = 1e-6
"""Seconds by which the time of a frame may miss the bound of a clip: times are binary fractions."""

Choose: TypeAlias = Callable[[Sequence[float]], Sequence[int]]
"""Numbers of frames, by the seconds of all."""


@dataclass(frozen=True, slots=True)
class FrameSelection:
    """Frames that a question has: those of a rule of `harness.frames`, or all of them."""

    rule: int | Spec | None

    def __post_init__(self) -> None:
        if self.rule is not None:
            frame_policy(self.rule)  # a mistake in it is told now

    @property
    def choose(self) -> Choose | None:
        """Rule as a function; None: all frames, of which the model chooses."""
        return None if self.rule is None else frame_policy(self.rule).choose

    def __str__(self) -> str:
        return "all" if self.rule is None else str(frame_policy(self.rule))


@dataclass(frozen=True, slots=True)
class Clip:
    """A part of a video, in seconds from its beginning."""

    start: float
    end: float = math.inf

    def choose(self, within: Choose | None) -> Choose:
        """Restrict a choice of frames to those that begin from `start` to `end`, both included;
        where none does, to the one that is on screen.

        Args:
            within: Chooses among the times of the part's frames; None: all of them.
        """

        def chosen(times: Sequence[float]) -> Sequence[int]:
            first = bisect_left(times, self.start - TOLERANCE)
            last = bisect_right(times, self.end + TOLERANCE)
            if 0 < first == last < len(times):
                first -= 1
            if first >= last:
                raise MediaError(
                    f"part of a video from {self.start:g} to {self.end:g} s",
                    expected=f"a part with a frame, of a video of {times[-1]:g} s",
                    found="no frame",
                )
            part = times[first:last]
            places = range(len(part)) if within is None else within(part)
            return [first + place for place in places]

        return chosen


def find(folders: Iterable[Path], name: str, *, patterns: Sequence[str] = ("{}",)) -> Path:
    """Return the place of a video: a file `name`, or a folder of frames with that name less its
    suffix.

    Args:
        folders: Where it is looked for, in turn.
        name: The file's name, from an annotation file.
        patterns: Names of the file to try, in turn, with braces for `name`.

    Raises:
        DataError: the name leaves the folder.
        MediaError: there is neither, in any of the folders.
    """
    tried = []
    for folder in folders:
        for pattern in patterns:
            path = path_inside(folder, pattern.format(name))
            if path.is_file():
                return path
            if path.with_suffix("").is_dir():
                return path.with_suffix("")
        tried.append(path_inside(folder, patterns[0].format(name)))
    beside = next(filter(None, map(in_place_of, tried)), None)
    raise MediaError(
        f"video {name}",
        expected=f"{' or '.join(map(str, tried))}, or a folder of its frames",
        found=beside.found if beside else "none",
        fix=beside.fix if beside else "Unpack the benchmark's archive of videos.",
    )


def open_video(path: Path, choose: Choose | None, *, frames_per_second: float = 1.0) -> Media:
    """A video's chosen frames, or all; reads no more than its header.

    Args:
        path: A file, or a folder of images in the order of the numbers in their names.
        choose: Which frames the medium consists of, by their times.
        frames_per_second: Of the images in a folder.

    Raises:
        MediaError: it is not a video, or a folder without an image, or without an order of them.
    """
    if not path.is_dir():
        return video_file(path, choose=choose)
    whole = frame_files(frames_in(path), frames_per_second=frames_per_second)
    return whole if choose is None else select_frames(whole, choose(whole.times()))


def video_or_lost(
    folders: Sequence[Path],
    name: str,
    choose: Choose | None,
    *,
    patterns: Sequence[str] = ("{}",),
    frames_per_second: float = 1.0,
    size: tuple[int, int] = (1, 1),
    frames: int = 1,
) -> Media:
    """Open the video that `find` finds, or a stand-in if it is missing or damaged.

    `size` and `frames` are what ground truth is compared in, where that is known.
    """
    try:
        path = find(folders, name, patterns=patterns)
        return open_video(path, choose, frames_per_second=frames_per_second)
    except MediaError as error:
        return placeholder_media(error, size=size, frames=frames)
