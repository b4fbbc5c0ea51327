"""Encoding of frames as small MP4 files (H.264), the format of video benchmarks.

The bytes depend on the installed FFmpeg; decoded frames are close to the originals, not equal.
"""

import io
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from harness.media import Frame
from harness.video.index import library

STEPS_PER_SECOND = 1000  # time steps a second
RATE_FACTOR = "26"  # x264's constant rate factor: shapes keep their edges and colours


def write_mp4(path: Path, frames: Sequence[Frame], *, times: Sequence[float]) -> None:
    """Write frames into a file as `encode_mp4` packs them."""
    path.write_bytes(encode_mp4(frames, times=times))


def encode_mp4(frames: Sequence[Frame], *, times: Sequence[float]) -> bytes:
    """Return the MP4 file of frames of one size, both sides even.

    Args:
        frames: Images, height × width × 3, uint8, RGB.
        times: Seconds at which each is shown, rising; the last is shown as long as the one before.

    Raises:
        MissingDependency: the package av is not installed.
    """
    av = library()
    height, width = frames[0].shape[:2]
    step = (times[-1] - times[0]) / max(len(times) - 1, 1) or 1.0
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=Fraction(1 / step).limit_denominator(1000))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.time_base = Fraction(1, STEPS_PER_SECOND)
        # One thread, so that the bytes do not depend on the number of cores. No look-ahead: x264's
        # reads memory beside its pictures, of any content, if sides are not multiples of 16.
        stream.options = {
            **{"crf": RATE_FACTOR, "preset": "fast", "threads": "1"},
            "x264-params": "rc-lookahead=0:mbtree=0",
        }
        for image, time in zip(frames, times, strict=True):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = (
                round(time * STEPS_PER_SECOND),
                Fraction(1, STEPS_PER_SECOND),
            )
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return file.getvalue()
