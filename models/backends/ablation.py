"""The backend `ablation`: another backend with changed images or reasoning, to test if they matter.

    harness eval --model "qwen_vl(checkpoint=…,backend=ablation(images=grey),
        segmenter=…,propagator=…)" …

If a model's score stays the same with grey images or those of another question, it does not use
the images. If it stays when the answer has to follow another question's reasoning, it does not use
its reasoning. `harness audit` runs all ablations and judges them.
"""

import hashlib
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Literal, TypeAlias, TypeVar

import numpy as np

from harness import plugins
from harness.backend import Chat
from harness.chat import ChatRequest, ChatResponse
from harness.media import Frame, Media, pixels
from harness.models.backends.shown_media import frames_shown
from harness.models.factory import build_chat
from harness.spec import Spec
from harness.thoughts import reasoning

GREY = 128  # value of red, green and blue
THINK_END = "</think>"

TILES = 4
"""Tiles of a shuffled image along each side."""

Images: TypeAlias = Literal["own", "grey", "swapped", "shuffled", "omitted"]
"""Images that the network is shown instead of its own; see `ablation`."""
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class AblationChat(Chat):
    """A backend that lets `chat` answer with changed images, or go on from changed reasoning.

    Properties that the changes do not affect are those of `chat`.
    """

    chat: Chat
    images: Images
    reasoning: Literal["own", "swapped"]

    batch_size = property(attrgetter("chat.batch_size"))
    turns = property(attrgetter("chat.turns"))
    coordinates = property(attrgetter("chat.coordinates"))
    wait_seconds = property(attrgetter("chat.wait_seconds"))
    devices = property(attrgetter("chat.devices"))
    opening = property(attrgetter("chat.opening"))

    @property
    def greedy(self) -> bool:
        """Return True if a repeated request gets the same response in any batch."""
        return self.chat.greedy and self._is_independent

    @property
    def goes_on(self) -> bool:
        """Return True if `chat` continues from a prefix, and responses are independent."""
        return self.chat.goes_on and self._is_independent

    @property
    def _is_independent(self) -> bool:
        """True if a response does not depend on the other requests of its batch."""
        return self.images != "swapped" and self.reasoning == "own"

    @property
    def why_not_adaptable(self) -> str:
        """Reason why test-time methods cannot adapt this network."""
        return "an ablation, which changes the requests of a batch together"

    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record."""
        return {
            "backend": "ablation",
            "images": self.images,
            "reasoning": self.reasoning,
            "chat": dict(self.chat.describe()),
        }

    def prepare(self) -> None:
        """Load the inner backend."""
        self.chat.prepare()

    def halt(self) -> None:
        """Make the inner backend abandon its requests."""
        self.chat.halt()

    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        """Return the (width, height) of the request's own image, as the network would see it."""
        return self.chat.canvas(request)

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text."""
        return self.chat.count_tokens(text)

    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        """Return one response for each changed request, in order.

        Swapped images and reasoning come from other requests of the same call.
        """
        if self.images == "grey":
            requests = [
                replace(request, media=tuple(map(_grey, request.media))) for request in requests
            ]
        elif self.images == "swapped":
            requests = _with_others_images(requests)
        elif self.images == "shuffled":
            requests = list(map(_with_shuffled_images, requests))
        elif self.images == "omitted":
            requests = list(map(_without_images, requests))
        responses = [
            replace(response, calls=response.calls_of(request))
            for request, response in zip(requests, self.chat.generate(requests), strict=True)
        ]
        if self.reasoning == "own":
            return responses
        return self._on_others_reasoning(requests, responses)

    def _on_others_reasoning(
        self, requests: Sequence[ChatRequest], responses: Sequence[ChatResponse]
    ) -> list[ChatResponse]:
        """Return responses that continue from the reasoning of the next different response.

        A response without reasoning stays.
        """
        thoughts = [reasoning(response.text) for response in responses]
        # for each response the next thought that differs from its own
        others = _next_other(thoughts, operator.ne)
        changed: dict[int, ChatRequest] = {}
        for index, (request, response, thought) in enumerate(
            zip(requests, responses, others, strict=True)
        ):
            before, opened, _ = response.text.partition("<think>")
            if opened and thought is not None:
                prefix = f"{before}{opened}{thought}{THINK_END}"
                changed[index] = replace(request, prefix=prefix)
        continued = self.chat.generate(list(changed.values()))
        output = list(responses)
        for (index, request), response in zip(changed.items(), continued, strict=True):
            calls = (*responses[index].calls, *response.calls_of(request))
            output[index] = replace(response, calls=calls)
        return output


def _grey(media: Media) -> Media:
    """Return a grey medium of the same size, number of frames and times."""
    width, height = media.size
    frame = np.full((height, width, 3), GREY, dtype=np.uint8)
    return pixels(
        [frame] * len(media), times=media.times(), is_video=media.is_video, id=f"grey/{media.size}"
    )


def _without_images(request: ChatRequest) -> ChatRequest:
    """Return the request without media, and earlier turns without theirs."""
    earlier = tuple(replace(turn, media=0) for turn in request.earlier)
    return replace(request, media=(), frames=(), earlier=earlier)


def _with_shuffled_images(request: ChatRequest) -> ChatRequest:
    """Return the request with the tiles of images, or the frames of videos, in another order.

    Its media hold only the frames that are shown; the order depends on the medium only.
    """
    media = []
    for media_index, medium in enumerate(request.media):
        frame_indices, times = frames_shown(request, media_index), medium.times()
        seed = int.from_bytes(hashlib.blake2b(medium.id.encode(), digest_size=8).digest(), "big")
        random = np.random.default_rng(seed)
        frames = [medium.frame(frame) for frame in frame_indices]
        if len(frames) > 1:
            frames = [frames[index] for index in _shuffled_order(random, len(frames))]
        else:
            frames = [_shuffled_tiles(random, frames[0])]
        media.append(
            pixels(
                frames,
                times=[times[frame] for frame in frame_indices],
                is_video=medium.is_video,
                id=f"shuffled/{medium.id}",
            )
        )
    return replace(request, media=tuple(media), frames=())


def _shuffled_order(random: np.random.Generator, n_items: int) -> list[int]:
    """Return a random permutation of `n_items` numbers (at least 2) that is not the identity."""
    order = list(range(n_items))
    while order == list(range(n_items)):
        order = random.permutation(n_items).tolist()
    return order


def _shuffled_tiles(random: np.random.Generator, image: Frame) -> Frame:
    """Return an image with its tiles in another order; rows and columns left over stay.

    A side of fewer than `TILES` pixels has as many tiles as pixels.
    """
    rows, columns = (min(TILES, side) for side in image.shape[:2])
    height, width = image.shape[0] // rows, image.shape[1] // columns
    shuffled = image.copy()
    if rows * columns == 1:
        return shuffled  # there is only one tile
    # (y, x) of the top left corner of each tile
    corners = [(row * height, column * width) for row in range(rows) for column in range(columns)]
    order = _shuffled_order(random, len(corners))
    for (row, column), (y, x) in zip(corners, (corners[tile] for tile in order), strict=True):
        shuffled[row : row + height, column : column + width] = image[y : y + height, x : x + width]
    return shuffled


def _with_others_images(requests: Sequence[ChatRequest]) -> list[ChatRequest]:
    """Return each request with the images of the next request whose images can be swapped in.

    A request without such a partner gets grey images.
    """
    others = _next_other(list(requests), _can_swap)
    return [
        replace(request, media=tuple(map(_grey, request.media)))
        if donor is None
        else replace(request, media=donor.media, frames=donor.frames)
        for request, donor in zip(requests, others, strict=True)
    ]


def _can_swap(first: ChatRequest, second: ChatRequest) -> bool:
    """Return True if two requests show different media, equal in number and frames shown."""

    def frames(request: ChatRequest) -> list[int]:
        return [len(frames_shown(request, index)) for index in range(len(request.media))]

    shows_other_media = [media.id for media in first.media] != [media.id for media in second.media]
    return shows_other_media and frames(first) == frames(second)


def _next_other(items: Sequence[T], fits: Callable[[T, T], bool]) -> list[T | None]:
    """Return for each item the next one, cyclically, that fits it; None if none does."""
    partners: list[T | None] = []
    for index, item in enumerate(items):
        following = [*items[index + 1 :], *items[:index]]
        partners.append(next((candidate for candidate in following if fits(item, candidate)), None))
    return partners


def ablation(
    *,
    chat: Spec | Chat = Spec("transformers"),  # noqa: B008 - a Spec is frozen
    images: Images = "own",
    reasoning: Literal["own", "swapped"] = "own",
    checkpoint: str | None = None,
    batch_size: int = 8,
    temperature: float | None = None,
    seed: int = 0,
) -> AblationChat:
    """Another backend with its images or its reasoning changed, to measure what the score loses.

    Args:
        chat: The backend that is asked.
        images: `own`; `grey`: a grey field of the same size; `swapped`: those of another
            question of the batch (grey where all show the same); `shuffled`: tiles of an image, or
            frames of a video, in another order; `omitted`: the text alone.
        reasoning: `own`; `swapped`: the answer goes on from the reasoning of another response.
        checkpoint: Handed to the backend within.
        batch_size: Handed to the backend within.
        temperature: Handed to the backend within, if it takes one; its own SPEC wins. None: the
            backend's.
        seed: Handed to the backend within, if it takes one.
    """
    takes = isinstance(chat, Spec) and plugins.accepts("backends", chat.name, "temperature")
    if isinstance(chat, Spec) and takes and temperature is not None:
        chat = chat.with_defaults(temperature=temperature)
    built = build_chat(chat, checkpoint=checkpoint, batch_size=batch_size, seed=seed)
    return AblationChat(chat=built, images=images, reasoning=reasoning)
