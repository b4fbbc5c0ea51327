"""Choice of the frames of a video that a model is shown: published rules, as functions of times.

A rule takes the seconds of all frames and returns the indices of those shown. Models take a rule as
their option `frames`, by a SPEC that is kept in the run's record: `uniform(n=8)`,
`fps(rate=2,max_frames=768)`, `linspace(n=32,max_pixels=351232)`. A whole number N is
`uniform(n=N)`.

>>> times = tuple(range(10))
>>> frame_policy(4).choose(times), frame_policy("linspace(n=4)").choose(times)
((0, 3, 6, 9), (0, 3, 6, 9))
>>> frame_policy("fps(rate=0.5)").choose(times)
(0, 3, 6, 9)
"""

import inspect
import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import TypeAlias, get_args

import numpy as np

from harness.errors import UsageError
from harness.pixel_budget import PAIR, PixelBudget, Resample
from harness.spec import Spec, parse

Times: TypeAlias = Sequence[float]
"""Seconds at which the frames of a video are shown, rising."""
Indices: TypeAlias = tuple[int, ...]
"""Numbers of frames, not falling."""


def uniform(times: Times, n: int) -> Indices:
    """Return at most `n` indices, evenly spread from the first to the last; halves are rounded up.

    >>> uniform(range(10), 4), uniform(range(3), 8), uniform(range(9), 1)
    ((0, 3, 6, 9), (0, 1, 2), (0,))
    """
    total = len(times)
    if n >= total:
        return tuple(range(total))
    last = max(n - 1, 1)
    return tuple((2 * index * (total - 1) + last) // (2 * last) for index in range(n))


def linspace(times: Times, n: int) -> Indices:
    """`numpy.linspace(0, total - 1, n, dtype=int)`: cut to whole numbers, as lmms-eval does.

    At most `n` frames; a shorter video is shown whole, not with frames twice.

    >>> linspace(range(100), 4), linspace(range(3), 8)
    ((0, 33, 66, 99), (0, 1, 2))
    """
    total = len(times)
    return tuple(np.linspace(0, total - 1, min(n, total), dtype=int).tolist())


def centres(times: Times, n: int) -> Indices:
    """Return the middle frame of each of `n` equal stretches.

    >>> centres(range(100), 4)
    (12, 37, 62, 87)
    """
    total = len(times)
    if n >= total:
        return tuple(range(total))
    return tuple((2 * index + 1) * total // (2 * n) for index in range(n))


def stride(times: Times, n: int) -> Indices:
    """LongVideoBench: every `total // n`-th frame, with no more frames than whole seconds.

    As `load_video` in `longvideobench_dataset.py` (commit fc3c553), where the length is that of
    the file; a video below one second, which it cannot read, shows its first frame.

    >>> stride([index / 2 for index in range(25)], 4)
    (0, 6, 12, 18)
    """
    rate, total = frame_rate(times), len(times)
    count = max(1, min(n, int(total / rate)))
    return tuple(min(total - 1, total // count * index) for index in range(count))


def qwen(times: Times, n: int) -> Indices:
    """`nframes` of qwen-vl-utils: `n` rounded to an even number, at most all frames.

    >>> qwen(range(10), 5), qwen(range(10), 4)
    ((0, 3, 6, 9), (0, 3, 6, 9))
    """
    total = len(times)
    return _linspace_rounded(total, max(1, min(round(n / PAIR) * PAIR, total)))


def fps(times: Times, *, rate: float = 2.0, min_frames: int = 4, max_frames: int = 768) -> Indices:
    """`fps` of qwen-vl-utils: `rate` frames a second, an even number of them.

    From `min_frames` to `max_frames`.

    As `smart_nframes` and the readers in `vision_process.py` (QwenLM/Qwen2.5-VL, commit f0af299):
    the number follows from the average frame rate, and the frames are spread evenly over the video.
    A video of one frame, which that code refuses, shows it.

    >>> fps([index / 30 for index in range(300)], rate=1)
    (0, 33, 66, 100, 133, 166, 199, 233, 266, 299)
    """
    total = len(times)
    n_frames = total / frame_rate(times) * rate
    lowest = math.ceil(min_frames / PAIR) * PAIR
    highest = math.floor(min(max_frames, total) / PAIR) * PAIR
    even = math.floor(min(max(n_frames, lowest), highest, total) / PAIR) * PAIR
    return _linspace_rounded(total, max(even, 1))


def seconds(times: Times, *, every: float = 1.0, max_frames: int = 768) -> Indices:
    """Return the frame on show at 0, `every`, 2 `every`, … seconds, thinned to `max_frames`.

    The true times decide, also where the frame rate varies.

    >>> seconds([0.0, 0.5, 0.9, 2.5, 3.0]), seconds([0.0, 0.5, 0.9, 2.5, 3.0], max_frames=2)
    ((0, 2, 4), (0, 4))
    """
    ticks = [times[0] + index * every for index in range(int((times[-1] - times[0]) / every) + 1)]
    indices = sorted({max(bisect_right(times, tick + 1e-9) - 1, 0) for tick in ticks})
    return tuple(indices[index] for index in uniform(indices, max_frames))


def linspace_repeated(times: Times, n: int) -> Indices:
    """`linspace` with exactly `n` frames, of which a shorter video shows some several times.

    As `Llava_OneVision.load_video` of lmms-eval (commit 75571cf).

    >>> linspace_repeated(range(3), 5)
    (0, 0, 1, 1, 2)
    """
    return tuple(np.linspace(0, len(times) - 1, n, dtype=int).tolist())


def segments(times: Times, n: int) -> Indices:
    """Exactly `n` frames, one of each stretch, of which a short video shows some several times.

    As `get_index` in `evaluate_mvbench.py` of OpenGVLab/InternVL (commit 2410d1d), for a video
    without bounds: half a stretch after each rounded beginning.

    >>> segments(range(100), 4), segments(range(3), 4)
    ((12, 37, 62, 86), (0, 0, 1, 2))
    """
    stretch = float(len(times) - 1) / n
    return tuple(int(stretch / 2 + np.round(stretch * index)) for index in range(n))


def glm_v(times: Times, *, rate: float = 2.0, max_seconds: int = 300) -> Indices:
    """`rate` frames a second, each the first at or after its moment, and an even number of them.

    A longer video than `max_seconds` shows as many frames as one of that length. As
    `Glm4vVideoProcessor.sample_frames` of transformers 5.23, which GLM-4.1V's and 4.5V's scripts
    call. The last frame stands twice where the number would be odd.

    >>> glm_v([index / 10 for index in range(25)])
    (0, 5, 10, 15, 20, 20)
    """
    total, pace = len(times), frame_rate(times)
    seconds_long = total / pace
    if seconds_long <= max_seconds:
        count = max(math.floor(seconds_long * rate), 1)
        wanted_indices = [math.ceil(index * pace / rate) for index in range(count)]
    elif int(max_seconds * rate) >= total:
        wanted_indices = list(range(total))
    else:
        moments = np.linspace(0, seconds_long, int(max_seconds * rate)).tolist()
        wanted_indices = [math.ceil(moment * pace) for moment in moments]
    indices = tuple(dict.fromkeys(min(total - 1, index) for index in wanted_indices))
    return indices if len(indices) % PAIR == 0 else (*indices, indices[-1])


def molmo2_moments(times: Times, *, rate: float = 2.0, max_frames: int = 384) -> list[float]:
    """Return the seconds at which Molmo2's loader looks: `rate` a second, and the end.

    As `TimeSampler` of allenai/molmo2 (commit f3cb108) in the mode `uniform_last_frame`.
    """
    end = times[-1] - times[0] + 1 / frame_rate(times)
    if (max_frames - 1) / rate < end:
        return list(map(float, np.linspace(0, end, max_frames)))
    return [*np.arange(0, end, 1 / rate).tolist(), end]


def molmo2(times: Times, *, rate: float = 2.0, max_frames: int = 384) -> Indices:
    """Return the frame on show at each of `molmo2_moments`, which are stated to the network.

    >>> molmo2([index / 10 for index in range(12)])
    (0, 5, 10, 11)
    """
    moments = molmo2_moments(times, rate=rate, max_frames=max_frames)
    indices = (bisect_right(times, times[0] + max(moment, 1e-6)) - 1 for moment in moments)
    return tuple(min(index, len(times) - 1) for index in indices)


def frame_rate(times: Times) -> float:
    """Return the average number of frames a second; 1 for a single frame.

    A rate such as 30000/1001 comes out as that quotient, so that counts do not depend on the last
    bit of a time.

    >>> frame_rate([index / 29.97002997 for index in range(1000)])
    29.97002997002997
    """
    span = times[-1] - times[0]
    if len(times) < 2 or span <= 0:
        return 1.0
    exact = (len(times) - 1) / span
    near = float(Fraction(exact).limit_denominator(1001))
    return near if abs(near - exact) <= 1e-4 * exact and near > 0 else exact


def _linspace_rounded(total: int, n: int) -> Indices:
    """`torch.linspace(0, total - 1, n).round()`: 32 bits, from both ends, halves to even."""
    if n == 1:
        return (0,)
    end = np.float32(total - 1)
    step = end / np.float32(n - 1)
    steps = np.arange(n, dtype=np.float32)
    ahead, back = steps * step, end - step * steps[::-1]
    chosen = np.where(np.arange(n) < n // 2, ahead, back)
    return tuple(np.round(chosen).astype(int).tolist())


@dataclass(frozen=True, slots=True, kw_only=True)
class FramePolicy:
    """A rule for frames, and a budget of pixels if it has one."""

    spec: Spec
    """The whole rule, for the record."""
    rule: Callable[..., Indices]
    arguments: Mapping[str, float]
    budget: PixelBudget | None = None
    """Budget of a video's frame."""
    image_budget: PixelBudget | None = None
    """Budget of an image that is not a video's frame; None where frames have none either."""
    resample: Resample = "bilinear"
    """Filter by which frames are brought to their size."""

    def __str__(self) -> str:
        return str(self.spec)

    def choose(self, times: Times) -> Indices:
        """Return the indices of the frames shown, of a video with at least one frame."""
        return self.rule(times, **self.arguments)

    def told(self, times: Times) -> tuple[float, ...]:
        """Seconds stated to the network for the frames it chooses; empty: the frames' own."""
        moments = MOMENTS.get(self.spec.name)
        return () if moments is None else tuple(moments(times, **self.arguments))

    def size(
        self, size: tuple[int, int], *, is_image: bool = False, frames: int = 1
    ) -> tuple[int, int] | None:
        """Return the (width, height) at which a frame of this size is shown; None: no size is set.

        `is_image`: it is an image. If not, it is a video's frame, of which `frames` are shown.
        """
        budget = self.image_budget if is_image else self.budget
        return None if budget is None else budget.size(size, frames)


RULES: Mapping[str, Callable[..., Indices]] = MappingProxyType(
    {
        "uniform": uniform,
        "linspace": linspace,
        "centres": centres,
        "stride": stride,
        "qwen": qwen,
        "fps": fps,
        "seconds": seconds,
        "glm_v": glm_v,
        "molmo2": molmo2,
        "linspace_repeated": linspace_repeated,
        "segments": segments,
    }
)
MOMENTS: Mapping[str, Callable[..., list[float]]] = MappingProxyType({"molmo2": molmo2_moments})
"""Functions of the seconds stated to the network, for rules that do not state the frames' own."""
BUDGET_SETTINGS = ("max_pixels", "min_pixels", "factor")
"""Settings of a frame's budget of pixels (`PixelBudget`)."""
TOTAL = "total_pixels"  # setting of a whole clip's budget
RESAMPLE = "resample"  # setting with the filter
IMAGE_SETTINGS = {"image_max_pixels": "max_pixels", "image_min_pixels": "min_pixels"}
"""Settings of an image's budget, and the settings of a frame's budget that they replace."""
TRAINING_RULE = (
    "fps(rate=2,min_frames=4,max_frames=16,max_pixels=105369,min_pixels=100352,"
    "image_max_pixels=200704,image_min_pixels=3136)"
)
"""Rule of `vision_process.py` of Video-R1 (59d65c3) and SpaceR (b623af5) in training: `FPS`,
`FPS_MIN_FRAMES`, `FPS_MAX_FRAMES`; frames of `VIDEO_MIN_PIXELS` to `int(1.05 * VIDEO_MIN_PIXELS)`,
which is more than `VIDEO_MAX_PIXELS` and replaces it; images of `MIN_PIXELS` to `MAX_PIXELS`."""
PUBLISHED: Mapping[str, str] = MappingProxyType(
    {
        "video_str": "qwen(n=32,max_pixels=351232,min_pixels=100352,image_min_pixels=3136)",
        "video_str_train": TRAINING_RULE,
        "video_r1_train": TRAINING_RULE,
        "qwen2_5_vl": "fps(rate=2,min_frames=4,max_frames=768,max_pixels=602112,min_pixels=100352)",
        "lmms_eval": "linspace(n=32)",
        "long_video_bench": "stride(n=256)",
    }
)
"""Rules by the name of the method, evaluation or benchmark that published them.

Video-STR: at most 16 frames of 128 · 28² pixels in training, 32 of 448 · 28² in evaluation (arXiv
text). Its rule below 16 frames is not given: it descends from SpaceR's code, whose rule is used
here."""


def frame_policy(frames: "int | str | Spec") -> FramePolicy:
    """Return the policy for a number, a published name or a SPEC.

    Raises:
        UsageError: there is no such rule, or a number is out of range.
    """
    if isinstance(frames, int):
        frames = Spec("uniform", {"n": frames})
    spec = parse(frames) if isinstance(frames, str) else frames
    if spec.name in PUBLISHED:
        published = parse(PUBLISHED[spec.name])
        spec = Spec(published.name, {**published.arguments, **spec.arguments})
    if spec.name not in RULES:
        raise UsageError(
            f"frames={spec}",
            found=spec.name,
            expected=f"a number, or one of {', '.join([*RULES, *PUBLISHED])}",
        )
    rule = RULES[spec.name]
    _, *parameters = inspect.signature(rule).parameters.values()  # the first one is the times
    names = [option.name for option in parameters]
    required = [option.name for option in parameters if option.default is option.empty]
    _check(spec, names, required=required)
    numbers = {key: value for key, value in spec.arguments.items() if key in names}
    pixels = {key: value for key, value in spec.arguments.items() if key in BUDGET_SETTINGS}
    total = {key: value for key, value in spec.arguments.items() if key == TOTAL}
    image = {
        IMAGE_SETTINGS[key]: value for key, value in spec.arguments.items() if key in IMAGE_SETTINGS
    }
    return FramePolicy(
        spec=spec,
        rule=rule,
        arguments=numbers,  # type: ignore[arg-type]
        budget=PixelBudget(**pixels, **total) if pixels else None,  # type: ignore[arg-type]
        image_budget=PixelBudget(**{**pixels, **image}) if pixels else None,  # type: ignore[arg-type]
        resample=spec.arguments.get(RESAMPLE, "bilinear"),  # type: ignore[arg-type]
    )


def _check(spec: Spec, known_arguments: Sequence[str], *, required: Sequence[str]) -> None:
    """Raise UsageError for an argument that is unknown, missing or out of range."""
    may_be_fractions = {"rate", "every"}
    pixels = (*BUDGET_SETTINGS, TOTAL, *IMAGE_SETTINGS, RESAMPLE)
    unknown = sorted(set(spec.arguments) - {*known_arguments, *pixels})
    lacking = [name for name in required if name not in spec.arguments]
    if set(spec.arguments) & {*pixels} and "max_pixels" not in spec.arguments:
        lacking.append("max_pixels")
    if unknown or lacking:
        raise UsageError(
            f"frames={spec}",
            expected=f"{', '.join([*known_arguments, *pixels])}",
            found=", ".join([*unknown, *(f"no {name}" for name in lacking)]),
        )
    for key, value in spec.arguments.items():
        if key == RESAMPLE:
            if value not in get_args(Resample):
                expected = " or ".join(get_args(Resample))
                raise UsageError(f"frames={spec}", expected=expected, found=f"{key}={value}")
            continue
        is_count = type(value) is int and 1 <= value < 10**9
        is_rate = key in may_be_fractions and type(value) is float and 1e-4 <= value < 1e4
        if not (is_count or is_rate):
            raise UsageError(
                f"frames={spec}",
                found=f"{key}={value}",
                expected="numbers above 0, whole ones for all but rate and every",
            )
