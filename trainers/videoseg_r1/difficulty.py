"""Rate the difficulty of samples: by a VLM, or by measures of their ground truth.

    requests = TrainingRequests(drawing=Drawing(seed=0))  # draws the training's frames
    scores = rate_samples(samples, ChatRater(chat=chat), file, requests.frame)

VideoSeg-R1, appendix D: the score D is the mean of five ratings, each from 1 to 10. A sample with
an unreadable response is medium, and is not rated again. Ratings are kept in `file`, so that a
killed rating continues.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from time import monotonic, sleep
from typing import TypeAlias

from harness.backend import Chat
from harness.chat import ChatRequest
from harness.errors import StoreError
from harness.frames import uniform
from harness.models.prompts import fill
from harness.responses import storable
from harness.trainers.videoseg_r1.budgets import UNKNOWN
from harness.trainers.videoseg_r1.descriptions import (
    appearance_of,
    count_words,
    textual_description,
    visual_description,
)
from harness.trainers.videoseg_r1.ratings import (
    HIGHEST,
    LOWEST,
    RatedSample,
    Rating,
    append,
    read_rating,
    read_ratings,
)
from harness.trainers.videoseg_r1.samples import key_of
from harness.types import Sample

PATIENCE_SECONDS = 86_400.0
"""Seconds to wait for a new rating: loading a model and images takes long."""
POLL_SECONDS = 2.0  # seconds between two looks at the file


FrameOf: TypeAlias = Callable[[Sample], int]
"""Returns the target frame of a sample: the one whose mask is trained."""


@dataclass(frozen=True, kw_only=True)
class ChatRater:
    """Rates with a VLM and the paper's prompt; the paper's is Qwen2.5-VL-72B."""

    chat: Chat
    name: str = "network"
    frames: int = 16
    """Number of frames of the whole video that are shown after the target frame."""
    size: tuple[int, int] = (840, 840)
    """(width, height) to which the target frame is resized."""
    context: tuple[int, int] = (280, 280)
    """(width, height) to which the frames of the whole video are resized."""
    max_new_tokens: int = 512

    @property
    def batch_size(self) -> int:
        """Number of samples that are rated at once: the network's batch size."""
        return self.chat.batch_size

    def __call__(self, samples: Sequence[Sample], frames: Sequence[int]) -> list[RatedSample]:
        """Rate samples, each for its target frame, by one request each."""
        pairs = list(zip(samples, frames, strict=True))
        responses = self.chat.generate([self.request(sample, frame) for sample, frame in pairs])
        rating_texts = [storable(response.text) for response in responses]
        return [
            RatedSample(key_of(sample, frame), read_rating(text), text)
            for (sample, frame), text in zip(pairs, rating_texts, strict=True)
        ]

    def request(self, sample: Sample, frame: int) -> ChatRequest:
        """Return the paper's prompt about a sample: its target frame, then the whole video."""
        video = sample.query.media[0]
        video_frames = tuple(uniform(range(len(video)), self.frames)) if len(video) > 1 else ()
        text = fill(
            _template(),
            **{
                "Visual Description": visual_description(sample, frame),
                "Textual Description": textual_description(sample.query.text),
                "Question": f"'{sample.query.text}'",
            },
        )
        return ChatRequest(
            key=f"{key_of(sample, frame)}:difficulty",
            text=text,
            media=(video, video) if video_frames else (video,),
            frames=((frame,), video_frames) if video_frames else ((frame,),),
            resize=self.size,
            resize_others=self.context,
            max_new_tokens=self.max_new_tokens,
        )


@dataclass(frozen=True, kw_only=True)
class GeometricRater:
    """Rates by measures of the ground truth, without a VLM: our stand-in, not the paper's.

    Small, scattered objects are hard to segment; an object that is seen in few frames is ambiguous
    in time; one that moves or comes back has complex motion; long expressions with spatial words
    are hard to understand.
    """

    name: str = "measured/3"  # the number rises with each change, so that old ratings do not count
    batch_size: int = 64

    def __call__(self, samples: Sequence[Sample], frames: Sequence[int]) -> list[RatedSample]:
        """Rate samples, each for its target frame."""
        return [
            RatedSample(key_of(sample, frame), geometric_rating(sample, frame))
            for sample, frame in zip(samples, frames, strict=True)
        ]


Rater: TypeAlias = ChatRater | GeometricRater
"""Rates several samples at once, each with its target frame; its name is recorded."""


def geometric_rating(sample: Sample, frame: int) -> Rating:
    """Return the ratings of `GeometricRater` for a sample with this target frame.

    The weights are ours: they spread the ratings of usual samples over 1 to 10.
    """
    appearance = appearance_of(sample, frame)
    n_words, n_spatial = count_words(sample.query.text)
    language = _clip_rating(1 + 0.4 * n_words + n_spatial)
    if appearance is None:
        return Rating(
            scene=UNKNOWN, segmentation=UNKNOWN, temporal=UNKNOWN, motion=UNKNOWN, language=language
        )
    return Rating(
        scene=_clip_rating(1 + 2 * (appearance.pieces - 1) + n_spatial),
        segmentation=_clip_rating(10 - 30 * appearance.share),
        temporal=_clip_rating(10 - 9 * appearance.seen),
        motion=_clip_rating(1 + 150 * appearance.speed + 2 * appearance.gaps),
        language=language,
    )


def rate_samples(
    samples: Sequence[Sample],
    rater: Rater | None,
    file: Path,
    frame_of: FrameOf,
    *,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, float]:
    """Return the scores of samples, by `key_of` sample and frame; rate those that the file lacks.

    New ratings are appended batch by batch: a killed rating continues where it ended.

    Args:
        samples: The samples.
        rater: The rater; the file's ratings by another one do not count. None: nothing is rated,
            every rating of the file counts, and the last one of a sample wins.
        file: File of ratings, one JSON object a line.
        frame_of: Returns the target frame of a sample.
        tell: Called with the number of rated and of all samples.

    Raises:
        DataError: a line of the file is not a rating.
        StoreError: the file cannot be written.
    """
    scores = read_ratings(file, None if rater is None else rater.name)
    pairs = [(sample, frame_of(sample)) for sample in samples]
    pair_of_key = {key_of(sample, frame): (sample, frame) for sample, frame in pairs}
    if rater is not None:
        missing = [pair for key, pair in pair_of_key.items() if key not in scores]
        for start in range(0, len(missing), rater.batch_size):
            part = missing[start : start + rater.batch_size]
            batch = rater([sample for sample, _ in part], [frame for _, frame in part])
            append(file, rater.name, batch)
            scores |= {rating.sample: rating.score for rating in batch}
            tell(len(pair_of_key) - len(missing) + start + len(batch), len(pair_of_key))
    return {key: scores[key] for key in pair_of_key if key in scores}


def await_ratings(keys: Collection[str], rater: str, file: Path) -> None:
    """Wait until another process has written a rating of every key into a file.

    The processes of a training are not connected yet: rating takes longer than connected ones wait
    for each other.

    Raises:
        StoreError: the file has not grown for a day.
    """
    due, n_rated, since = set(keys), -1, monotonic()
    while True:
        rated = set(read_ratings(file, rater))
        if due <= rated:
            return
        if len(rated) != n_rated:
            n_rated, since = len(rated), monotonic()
        if monotonic() - since > PATIENCE_SECONDS:
            raise StoreError(
                f"ratings {file}",
                expected="the first process to rate every sample",
                found=f"nothing new for {PATIENCE_SECONDS:.0f} s, and {len(due - rated)} to go",
                fix="All processes need the same files, on a file system that they share.",
            )
        sleep(POLL_SECONDS)


def _clip_rating(value: float) -> float:
    return float(min(max(value, LOWEST), HIGHEST))


@lru_cache
def _template() -> str:
    """Return the paper's prompt for ratings (difficulty.txt)."""
    text = files("harness.trainers.videoseg_r1").joinpath("difficulty.txt").read_text("utf-8")
    return text.removesuffix("\n")
