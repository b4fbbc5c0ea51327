"""The second request of T-GRPO: the same question, the frames of its video in another order."""

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from harness.chat import ChatRequest
from harness.models.backends.shown_media import frames_shown
from harness.models.pipeline import PromptedModel
from harness.trainers.grpo.method import Rollout, request_of
from harness.types import Sample


@dataclass(frozen=True, slots=True)
class ShuffledFrames:
    """Builds the second request of each rollout: the same question with shuffled frames.

    The order depends on the seed and the sample alone, so that all rollouts of a group share it.
    The official code draws half as many shuffled rollouts as ordered ones; here there are as many,
    because all processes must generate equally often, and the mean accuracy is only less noisy. For
    an image one token is generated and not used.
    """

    model: PromptedModel
    seed: int
    max_new_tokens: int

    def __call__(self, sample: Sample, rollout: Rollout) -> ChatRequest:
        """Return the second request; it does not depend on the rollout's text."""
        del rollout
        request = request_of(self.model, sample)
        frames = tuple(
            shuffle_frames(frames_shown(request, media_index), self.seed, sample.id)
            for media_index in range(len(request.media))
        )
        has_video = any(len(indices) > 1 for indices in frames)
        limit = self.max_new_tokens if has_video else 1
        return replace(request, frames=frames, max_new_tokens=limit)


def shuffle_frames(frames: tuple[int, ...], seed: int, sample: str) -> tuple[int, ...]:
    """Return a permutation of frames by seed and sample; it differs from `frames` if possible.

    >>> sorted(shuffle_frames((0, 3, 6), 0, "a"))
    [0, 3, 6]
    >>> shuffle_frames((4, 7), 0, "a"), shuffle_frames((5,), 0, "a")
    ((7, 4), (5,))
    """
    digest = hashlib.blake2b(f"{seed}\x00{sample}".encode(), digest_size=16).digest()
    key = np.frombuffer(digest, dtype=np.uint64)
    order = tuple(
        int(frame)
        for frame in np.random.Generator(np.random.Philox(key=key)).permutation(np.array(frames))
    )
    # A random permutation may be the identity; then the first frame moves to the end.
    return order if order != frames else (*frames[1:], frames[0])
