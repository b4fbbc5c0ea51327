"""What a sample is drawn from in training, and what it is known by."""

import hashlib
from dataclasses import dataclass

import numpy as np

from harness.errors import DataError, UsageError
from harness.model import ChatRequest
from harness.models.compose import PromptedModel
from harness.models.videoseg_r1.model import VideoSegR1
from harness.models.videoseg_r1.references import spread
from harness.models.videoseg_r1.sampler import Place, Segment
from harness.trainers.grpo.examples import asked
from harness.trainers.visionreasoner.objects import check
from harness.types import Sample


def key_of(sample: Sample) -> str:
    """Names a sample in files and lookups: its native id and its question, hashed."""
    text = f"{sample.id}\x00{sample.query.text}"
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def visible(sample: Sample) -> list[int]:
    """The frames of a video in which something that is meant is seen; all, if nothing is meant."""
    assert sample.target is not None, "samples without targets are left out"
    answer = sample.target.answer
    if answer.masks is not None and not answer.no_target:
        return [index for index, mask in enumerate(answer.masks) if mask.area]
    if answer.box_track is not None and not answer.no_target:
        return [index for index, box in enumerate(answer.box_track) if box is not None]
    return list(range(len(sample.query.media[0])))


def usable(sample: Sample) -> None:
    """Raise a HarnessError for a sample whose reward has no truth.

    Raises:
        ParseError: the answer names no places.
        DataError: what is meant is seen in no frame.
    """
    check(sample)
    if not visible(sample):
        raise DataError(f"sample {sample.id}", expected="a frame with what is meant", found="none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Draws target frame, key segment and reference frames of a sample: the same ones each time.

    The sampler of frames is not used in training (appendix F): the target is any frame with what
    is meant, the key segment is drawn around it, as long as the number of references but at most
    `delta` of the video, and the references are drawn from outside it.
    """

    seed: int
    fewest: int = 8
    """Reference frames at least, where the video has them."""
    most: int = 12
    """Reference frames at most."""
    delta: float = 0.3

    def __post_init__(self) -> None:
        if not 0 <= self.fewest <= self.most:
            raise UsageError("fewest_references, most_references", expected="0 or more, in order",
                             found=f"{self.fewest}, {self.most}")  # fmt: skip

    def drawn(self, sample: Sample) -> tuple[Place, tuple[int, ...]]:
        """Where a video's sample is looked at, and the reference frames."""
        digest = hashlib.blake2b(f"{self.seed}\x00{key_of(sample)}".encode(), digest_size=16)
        draw = np.random.Generator(np.random.Philox(key=int.from_bytes(digest.digest(), "little")))
        total = len(sample.query.media[0])
        seen = visible(sample)
        target = seen[int(draw.integers(len(seen)))]
        wanted = int(draw.integers(self.fewest, self.most + 1))
        length = max(1, min(wanted, int(self.delta * total)))
        earliest, latest = max(0, target - length + 1), min(target, total - length)
        start = int(draw.integers(earliest, latest + 1))
        segment = Segment(start, start + length - 1)
        outside = [frame for frame in range(total) if frame not in segment.frames()]
        chosen = draw.permutation(len(outside))[:wanted]
        return Place(segment, target), tuple(sorted(outside[int(index)] for index in chosen))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRequests:
    """What is asked of a sample in training: the reasoner's request, for a place that is drawn."""

    drawing: Drawing

    def __call__(self, model: PromptedModel, sample: Sample) -> ChatRequest:
        """The request; that for a picture is the one that evaluation makes."""
        assert isinstance(model, VideoSegR1), "the trainer has made it one"
        request = asked(model, sample)
        if len(sample.query.media[0]) == 1:
            return request
        place, beside = self.drawing.drawn(sample)
        shown = spread(beside, model.showing.reference_frames)
        return model.placed(sample.query, place, shown)[0]
