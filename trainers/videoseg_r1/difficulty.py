"""Difficulty of samples: five ratings by a VLM, or a measure of their ground truth.

    asked = TrainingRequests(drawing=Drawing(seed=0))   # the training's frames
    scores = rated(samples, ChatRater(chat=chat), file, asked.frame)  # goes on after a kill
    Budgets().histogram(…)                                # the paper's Table D2

VideoSeg-R1, appendix D: D is the mean of the five ratings, each from 1 to 10. An unreadable
response makes its sample medium, and is not requested again.
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
    textual_description,
    visual_description,
    words_of,
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

PATIENCE = 86_400.0  # seconds without a new rating; images are looked at before the first
LOOK = 2.0  # seconds between looks


FrameOf: TypeAlias = Callable[[Sample], int]
"""The target segmentation frame of a sample: the one that is trained."""


@dataclass(frozen=True, kw_only=True)
class ChatRater:
    """Rates with a VLM and the paper's prompt; the paper's is Qwen2.5-VL-72B."""

    chat: Chat
    name: str = "network"
    frames: int = 16
    """Frames of the video that are shown after the target frame."""
    size: tuple[int, int] = (840, 840)
    """(width, height) of the target frame."""
    context: tuple[int, int] = (280, 280)
    """(width, height) of the others."""
    max_new_tokens: int = 512

    @property
    def batch_size(self) -> int:
        """The network's."""
        return self.chat.batch_size

    def __call__(self, samples: Sequence[Sample], frames: Sequence[int]) -> list[RatedSample]:
        """Ask about each sample once."""
        shown = list(zip(samples, frames, strict=True))
        responses = self.chat.generate([self.request(*placed_sample) for placed_sample in shown])
        texts = [storable(response.text) for response in responses]
        return [
            RatedSample(key_of(*placed_sample), read_rating(text), text)
            for placed_sample, text in zip(shown, texts, strict=True)
        ]

    def request(self, sample: Sample, frame: int) -> ChatRequest:
        """The paper's prompt about a sample: its target frame, then the whole video."""
        video = sample.query.media[0]
        whole = tuple(uniform(range(len(video)), self.frames)) if len(video) > 1 else ()
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
            media=(video, video) if whole else (video,),
            frames=((frame,), whole) if whole else ((frame,),),
            resize=self.size,
            resize_others=self.context,
            max_new_tokens=self.max_new_tokens,
        )


@dataclass(frozen=True, kw_only=True)
class GeometricRater:
    """Rates by measures of the ground truth, without a VLM: a stand-in, and not the paper's.

    Small, scattered objects are hard to segment and come with many others; what is seen in a few
    frames is ambiguous in time; what moves or comes back has complex motion; long expressions with
    spatial words are hard to read.
    """

    name: str = "measured/3"  # what it rates by has changed: earlier ratings do not count
    batch_size: int = 64

    def __call__(self, samples: Sequence[Sample], frames: Sequence[int]) -> list[RatedSample]:
        """Rate each sample."""
        shown = zip(samples, frames, strict=True)
        return [
            RatedSample(key_of(*placed_sample), geometric_rating(*placed_sample))
            for placed_sample in shown
        ]


Rater: TypeAlias = ChatRater | GeometricRater
"""Rates several samples at once, each with its target frame; its name is recorded."""


def geometric_rating(sample: Sample, frame: int) -> Rating:
    """The ratings that `GeometricRater` gives, of a sample that is marked in this frame."""
    appearance = appearance_of(sample, frame)
    words, spatial = words_of(sample.query.text)
    language = _clip_unit(1 + 0.4 * words + spatial)
    if appearance is None:
        return Rating(
            scene=UNKNOWN, segmentation=UNKNOWN, temporal=UNKNOWN, motion=UNKNOWN, language=language
        )
    return Rating(
        scene=_clip_unit(1 + 2 * (appearance.pieces - 1) + spatial),
        segmentation=_clip_unit(10 - 30 * appearance.share),
        temporal=_clip_unit(10 - 9 * appearance.seen),
        motion=_clip_unit(1 + 150 * appearance.speed + 2 * appearance.gaps),
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
    """The scores of all samples by the keys of sample and frame, from a file as far as it has them.

    Missing ratings are made batch by batch and appended: a killed rating continues where it ended.

    Args:
        samples: The samples to rate.
        rater: The rater. Ratings of another one in the file do not count. None: every rating of the
            file counts, the last of a sample wins, and missing ones are left out.
        file: One JSON object a line.
        frame_of: The frame that each sample is rated for.
        tell: Callback with the numbers of done and of all samples.

    Raises:
        DataError: a line of the file is not a rating.
        StoreError: the file cannot be written.
    """
    known = read_ratings(file, None if rater is None else rater.name)
    placed = [(sample, frame_of(sample)) for sample in samples]
    wanted = {key_of(*placed_sample): placed_sample for placed_sample in placed}
    if rater is not None:
        missing = [placed_sample for key, placed_sample in wanted.items() if key not in known]
        for start in range(0, len(missing), rater.batch_size):
            part = missing[start : start + rater.batch_size]
            batch = rater([sample for sample, _ in part], [frame for _, frame in part])
            append(file, rater.name, batch)
            known |= {rating.sample: rating.score for rating in batch}
            tell(len(wanted) - len(missing) + start + len(batch), len(wanted))
    return {key: known[key] for key in wanted if key in known}


def await_ratings(keys: Collection[str], rater: str, file: Path) -> None:
    """Wait until a file has a rating of every key, which another process writes.

    Processes that train together are not connected yet: to rate takes longer than connected ones
    wait for each other.

    Raises:
        StoreError: nothing is added to it for a day.
    """
    wanted, known, since = set(keys), -1, monotonic()
    while not wanted <= (rated := set(read_ratings(file, rater))):
        if len(rated) != known:
            known, since = len(rated), monotonic()
        if monotonic() - since > PATIENCE:
            raise StoreError(
                f"ratings {file}",
                expected="the first process to rate every sample",
                found=f"nothing new for {PATIENCE:.0f} s, and {len(wanted - rated)} to go",
                fix="All processes need the same files, on a file system that they share.",
            )
        sleep(LOOK)


def _clip_unit(value: float) -> float:
    return float(min(max(value, LOWEST), HIGHEST))


@lru_cache
def _template() -> str:
    text = files("harness.trainers.videoseg_r1").joinpath("difficulty.txt").read_text("utf-8")
    return text.removesuffix("\n")
