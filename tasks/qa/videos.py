"""Find and open the videos of a benchmark, files or folders of frames, and choose their frames."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TypeAlias

from harness.errors import MediaError
from harness.files import open_regular
from harness.foreign import in_place_of
from harness.frame_folder import frames_in
from harness.frames import frame_policy
from harness.layout import path_inside
from harness.media import Media, frame_files, placeholder_media, select_frames
from harness.spec import Spec
from harness.video import video_file

GIF = (b"GIF87a", b"GIF89a")
"""First bytes of a GIF."""
TOLERANCE = 1e-6
"""Seconds by which the time of a frame may miss the bound of a clip: times are binary fractions."""

Choose: TypeAlias = Callable[[Sequence[float]], Sequence[int]]
"""Function from the times (s) of all frames to the indices of the chosen ones."""


@dataclass(frozen=True, slots=True)
class FrameSelection:
    """The frames of a question: those of a rule of `harness.frames`, or all (`rule` is None)."""

    rule: int | Spec | None

    def __post_init__(self) -> None:
        if self.rule is not None:
            frame_policy(self.rule)  # only for its error

    @property
    def choose(self) -> Choose | None:
        """The rule as a function; None: all frames, of which the model chooses."""
        return None if self.rule is None else frame_policy(self.rule).choose

    def __str__(self) -> str:
        return "all" if self.rule is None else str(frame_policy(self.rule))


@dataclass(frozen=True, slots=True)
class Clip:
    """A part of a video, in seconds from its beginning."""

    start: float
    end: float = math.inf

    def choose(self, choose_within: Choose | None) -> Choose:
        """Return a choice among the frames whose times are in this part, `end` included.

        If no frame begins in the part, it is the frame on screen at `start`.

        Args:
            choose_within: Chooses among the part's frames, by their times; None: all of them.
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
            part_times = times[first:last]
            indices = range(len(part_times)) if choose_within is None else choose_within(part_times)
            return [first + index for index in indices]

        return chosen


def find(folders: Iterable[Path], name: str, *, patterns: Sequence[str] = ("{}",)) -> Path:
    """Return the path of a video: a file, or a folder of frames named as the file without suffix.

    Args:
        folders: Folders to look in, in this order.
        name: Name of the video in an annotation file.
        patterns: File names to try, in this order, with braces for `name`.

    Raises:
        DataError: the name leaves the folder.
        MediaError: no folder has the video.
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
    # Such as a pointer of Git LFS, or an archive beside the place.
    instead = next(filter(None, map(in_place_of, tried)), None)
    raise MediaError(
        f"video {name}",
        expected=f"{' or '.join(map(str, tried))}, or a folder of its frames",
        found=instead.found if instead else "none",
        fix=instead.fix if instead else "Unpack the benchmark's archive of videos.",
    )


def open_video(path: Path, choose: Choose | None, *, frames_per_second: float = 1.0) -> Media:
    """Open the chosen frames of a video, or all; only its header is read now.

    Args:
        path: A file, or a folder of images in the order of the numbers in their names.
        choose: Chooses the frames of the medium by their times; None: all.
        frames_per_second: Frame rate of a folder of images.

    Raises:
        MediaError: it is not a video, or a folder without an image, or without an order of them.
    """
    if not path.is_dir():
        try:
            return video_file(path, choose=choose)
        except MediaError:
            _refuse_gif(path)
            raise
    video = frame_files(frames_in(path), frames_per_second=frames_per_second)
    return video if choose is None else select_frames(video, choose(video.times()))


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
    """Open the video that `find` finds, or a placeholder if it is missing or damaged.

    `size` (width, height) and `frames` are those of the placeholder: the ground truth's, if known.
    """
    try:
        path = find(folders, name, patterns=patterns)
        return open_video(path, choose, frames_per_second=frames_per_second)
    except MediaError as error:
        return placeholder_media(error, size=size, frames=frames)


def _refuse_gif(path: Path) -> None:
    """Raise MediaError for a GIF, which may be sound but is not opened as a video."""
    with suppress(OSError, ValueError), open_regular(path) as file:
        if file.read(len(GIF[0])) not in GIF:
            return
        fix = f"`ffmpeg -i {quote(path.name)} {quote(f'{path.stem}.mp4')}` makes a video of it."
        raise MediaError(f"video {path}", expected="a video, such as MP4", found="a GIF", fix=fix)
