"""Clips as video files, for models that take a path and decode the video themselves.

H.264 of RGB pixels at quantizer 0 and without B-frames: decord, PyAV and OpenCV read back as many
frames as were written, in their order and equal in every pixel, also where they seek.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TypeAlias

from harness.errors import ModelError, raised_as
from harness.files import temporary_prefix
from harness.media import Media
from harness.models.backends.shown_media import squashed

ClipPath: TypeAlias = Callable[[Media, Sequence[int], tuple[int, int] | None], str]
"""Gives the path of a file with these frames of a medium, brought to (width, height)."""

CODEC = "libx264rgb"
# One thread: the bytes do not depend on the number of cores.
EXACT = {"qp": "0", "preset": "ultrafast", "bf": "0", "threads": "1"}
FINEST = 30_000  # parts of a second: 1001 of them are a frame of 29.97 a second
FASTEST = 1000  # frames a second
SLOWEST = 100_000  # seconds a frame; MP4 can hold no 500 000


@contextmanager
def clip_files() -> Iterator[ClipPath]:
    """Video files in a folder that only this user can read, all removed at the end.

    Files are written when they are first asked for, equal clips once. Threads may share it.
    What it gives raises ModelError for a clip that cannot be written.
    """
    paths: dict[tuple[object, ...], str] = {}
    lock = Lock()
    with TemporaryDirectory(prefix=temporary_prefix("clips"), ignore_cleanup_errors=True) as folder:

        def path_of(media: Media, frames: Sequence[int], size: tuple[int, int] | None) -> str:
            rate = mean_rate([media.times()[index] for index in frames])
            if 1 / rate > SLOWEST:
                raise ModelError(
                    "the video file of a clip",
                    expected=f"frames at most {SLOWEST} seconds apart",
                    found=f"frames that are {float(1 / rate):g} seconds apart in the mean",
                    fix="clips=images shows frames without their times.",
                )
            key = (media.id, tuple(frames), size or media.size, rate)
            with lock:
                if key not in paths:
                    path = Path(folder) / f"{len(paths)}.mp4"
                    _write(path, media, frames, size, rate=rate)
                    paths[key] = str(path)
                return paths[key]

        yield path_of


def mean_rate(times: Sequence[float]) -> Fraction:
    """Frames a second at which frames of these times (seconds) last as long; 1 if all are equal.

    >>> mean_rate([0.0, 0.5, 1.0]), mean_rate([3.0, 10.0]), mean_rate([4.0, 0.0, 2.0])
    (Fraction(2, 1), Fraction(1, 7), Fraction(1, 2))
    """
    span = max(times) - min(times)
    if span <= 0:
        return Fraction(1)
    step = Fraction(span / (len(times) - 1)).limit_denominator(FINEST)
    return 1 / max(step, Fraction(1, FASTEST))


def _write(
    path: Path,
    media: Media,
    frames: Sequence[int],
    size: tuple[int, int] | None,
    *,
    rate: Fraction,
) -> None:
    import av

    what, expected = "the video file of a clip", f"one that FFmpeg can write with {CODEC}"
    failed = (av.FFmpegError, OSError, ValueError)
    fix = "Is there room for it? TMPDIR names another folder."
    with (
        raised_as(ModelError, what, expected, *failed, fix=fix),
        av.open(str(path), "w", format="mp4") as container,
    ):
        stream = container.add_stream(CODEC, rate=rate)
        assert isinstance(stream, av.VideoStream), "a codec of images"
        stream.width, stream.height = size or media.size
        stream.pix_fmt, stream.options = "rgb24", dict(EXACT)
        for place, index in enumerate(frames):
            image = squashed(media.frame(index), size)
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = place, 1 / rate
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
