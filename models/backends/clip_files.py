"""Write clips as video files, for models that take a path and decode the video themselves.

The files are lossless H.264 of RGB pixels (quantizer 0) without B-frames: decord, PyAV and OpenCV
read the same number of frames in the same order with equal pixels, also when they seek. The backend
`lmms` shows its models clips in this form.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Protocol

from harness.errors import ModelError, raised_as
from harness.files import temporary_prefix
from harness.media import Media
from harness.models.backends.shown_media import squashed
from harness.pixel_budget import Resample


class ClipPath(Protocol):
    """Returns the path of a video file with frames of a medium, resized to (width, height)."""

    def __call__(  # noqa: D102
        self,
        media: Media,
        frames: Sequence[int],
        size: tuple[int, int] | None,
        resample: Resample = "bilinear",
    ) -> str: ...


CODEC = "libx264rgb"
LOSSLESS = {"qp": "0", "preset": "ultrafast", "bf": "0", "threads": "1"}
"""Options of the encoder; with one thread, the bytes do not depend on the number of cores."""
MAX_DENOMINATOR = 30_000
"""Largest denominator of a frame's seconds, as in 1001/30000 (29.97 per second)."""
MAX_FRAME_RATE = 1000  # largest number of frames per second
MAX_FRAME_SECONDS = 100_000  # largest number of seconds between frames; MP4 cannot hold 500 000


@contextmanager
def clip_files() -> Iterator[ClipPath]:
    """Yield a function that writes clips into a private folder, which is removed at the end.

    A clip is written at its first use, equal clips once. Threads may share the function; it raises
    ModelError if a clip cannot be written.
    """
    paths: dict[tuple[object, ...], str] = {}
    lock = Lock()
    with TemporaryDirectory(prefix=temporary_prefix("clips"), ignore_cleanup_errors=True) as folder:

        def path_of(
            media: Media,
            frames: Sequence[int],
            size: tuple[int, int] | None,
            resample: Resample = "bilinear",
        ) -> str:
            rate = mean_rate([media.times()[index] for index in frames])
            if 1 / rate > MAX_FRAME_SECONDS:
                raise ModelError(
                    "the video file of a clip",
                    expected=f"frames at most {MAX_FRAME_SECONDS} seconds apart",
                    found=f"frames that are {float(1 / rate):g} seconds apart in the mean",
                    fix="clips=images shows frames without their times.",
                )
            key = (media.id, tuple(frames), size or media.size, resample, rate)
            with lock:
                if key not in paths:
                    path = Path(folder) / f"{len(paths)}.mp4"
                    _write(path, media, frames, size, resample, rate=rate)
                    paths[key] = str(path)
                return paths[key]

        yield path_of


def mean_rate(times: Sequence[float]) -> Fraction:
    """Return the mean frames per second of frames at these times (seconds); 1 if all are equal.

    >>> mean_rate([0.0, 0.5, 1.0]), mean_rate([3.0, 10.0]), mean_rate([4.0, 0.0, 2.0])
    (Fraction(2, 1), Fraction(1, 7), Fraction(1, 2))
    """
    span = max(times) - min(times)
    if span <= 0:
        return Fraction(1)
    step = Fraction(span / (len(times) - 1)).limit_denominator(MAX_DENOMINATOR)
    return 1 / max(step, Fraction(1, MAX_FRAME_RATE))


def _write(
    path: Path,
    media: Media,
    frames: Sequence[int],
    size: tuple[int, int] | None,
    resample: Resample,
    *,
    rate: Fraction,
) -> None:
    """Write frames of a medium, resized to (width, height), at `rate` frames per second.

    Raises:
        ModelError: FFmpeg or the disk fails.
    """
    import av

    what, expected = "the video file of a clip", f"one that FFmpeg can write with {CODEC}"
    failures = (av.FFmpegError, OSError, ValueError)
    fix = "The disk may be full: TMPDIR names another folder."
    with (
        raised_as(ModelError, what, expected, *failures, fix=fix),
        av.open(str(path), "w", format="mp4") as container,
    ):
        stream = container.add_stream(CODEC, rate=rate)
        assert isinstance(stream, av.VideoStream), "a codec of images"
        stream.width, stream.height = size or media.size
        stream.pix_fmt, stream.options = "rgb24", dict(LOSSLESS)
        for number, index in enumerate(frames):
            image = squashed(media.frame(index), size, resample)
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = number, 1 / rate
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
