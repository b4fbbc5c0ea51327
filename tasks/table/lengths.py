"""Refuse intervals and clips of a table that reach beyond the end of their video."""

from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from harness.errors import DataError
from harness.tasks.qa.videos import Clip, video_or_lost

BEYOND = 1.0
"""Seconds by which a stretch of time may end after its video: annotators round."""


@dataclass
class Lengths:
    """Times of the frames of a folder's videos, of which the last one read is kept."""

    folder: Path
    frames_per_second: float
    """Rate of videos that are folders of frames."""
    _last: tuple[str, tuple[float, ...]] = field(default=("", ()), init=False)
    """Name and times of the video that was read last: its questions often follow each other."""

    def check(self, video: str, clip: Clip, where: str) -> None:
        """Check that a stretch of time ends with its video; one that cannot be read passes.

        Raises:
            DataError: it ends later; the error names the video's length and rate.
        """
        times = self._times(video)
        if not times:
            return
        rate = (len(times) - 1) / (times[-1] - times[0]) if len(times) > 1 else 1.0
        end = times[-1] + 1 / rate
        last = clip.start if clip.end == inf else clip.end
        if clip.start < end and last <= end + BEYOND:
            return
        raise DataError(
            where,
            expected=f"seconds within its video, which ends at {end:.2f} s",
            found=f"{clip.start:g} to {clip.end:g} s",
            fix="If these are numbers of frames, divide them by the frames per second at which "
            "they "
            f"were counted (the video has {rate:.6g}). If they are milliseconds, those of an "
            "interval have "
            'written = "milliseconds"; divide those of a clip by 1000.',
        )

    def _times(self, video: str) -> tuple[float, ...]:
        """Return the times of a video's frames in seconds; () if it cannot be read."""
        if self._last[0] != video:
            media = video_or_lost(
                (self.folder,), video, None, frames_per_second=self.frames_per_second
            )
            self._last = (video, () if media.fault else media.times())
        return self._last[1]
