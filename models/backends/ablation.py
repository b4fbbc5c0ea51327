"""Does it look, and does it mean what it reasons? A backend with images or reasoning changed.

`harness audit` runs all of these and judges them.

harness eval --model "qwen_vl(checkpoint=…,backend=ablation(images=grey),
    segmenter=…,propagator=…)" …

A model whose score stays when its images are grey, or another question's, does not look. One
whose score stays when its answer has to follow another question's reasoning does not use it.
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

GREY = 128
CLOSED = "</think>"

TILES = 4
"""Tiles of a shuffled image along each side."""

Images: TypeAlias = Literal["own", "grey", "swapped", "shuffled", "omitted"]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class AblationChat(Chat):
    """Another backend, shown other images or made to go on from other reasoning."""

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
        """Return True if a repeated request would get the same response, whatever is beside it."""
        return self.chat.greedy and self._alone

    @property
    def goes_on(self) -> bool:
        """Return True if the inner backend continues from a prefix and no other request matters."""
        return self.chat.goes_on and self._alone

    @property
    def _alone(self) -> bool:
        """True if a response depends on its own request alone."""
        return self.images != "swapped" and self.reasoning == "own"

    @property
    def why_not_adaptable(self) -> str:
        """Reason why the network's weights cannot learn here."""
        return "an ablation, which changes the requests of a batch together"

    def describe(self) -> Mapping[str, object]:
        """Plain data for the record."""
        return {
            "backend": "ablation",
            "images": self.images,
            "reasoning": self.reasoning,
            "chat": dict(self.chat.describe()),
        }

    def prepare(self) -> None:
        """Load what the backend within loads."""
        self.chat.prepare()

    def halt(self) -> None:
        """Make the inner backend abandon its requests."""
        self.chat.halt()

    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        """The canvas of the request's own image."""
        return self.chat.canvas(request)

    def count_tokens(self, text: str) -> int:
        """Tokens of a text."""
        return self.chat.count_tokens(text)

    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        """One response a request, in order. What is swapped comes from a request of the
        same call.
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
        return (
            responses if self.reasoning == "own" else self._on_others_reasoning(requests, responses)
        )

    def _on_others_reasoning(
        self, requests: Sequence[ChatRequest], responses: Sequence[ChatResponse]
    ) -> list[ChatResponse]:
        """Answers that go on from the reasoning of another response."""
        thoughts = [reasoning(response.text) for response in responses]
        others = _next_other(thoughts, operator.ne)
        changed: dict[int, ChatRequest] = {}
        for place, (request, response, thought) in enumerate(
            zip(requests, responses, others, strict=True)
        ):
            before, opened, _ = response.text.partition("<think>")
            if opened and thought is not None:
                prefix = f"{before}{opened}{thought}{CLOSED}"
                changed[place] = replace(request, prefix=prefix)
        output = self.chat.generate(list(changed.values()))
        whole = list(responses)
        for (place, request), response in zip(changed.items(), output, strict=True):
            calls = (*responses[place].calls, *response.calls_of(request))
            whole[place] = replace(response, calls=calls)
        return whole


def _grey(media: Media) -> Media:
    """A grey medium of the same size, frames and times."""
    width, height = media.size
    frame = np.full((height, width, 3), GREY, dtype=np.uint8)
    return pixels(
        [frame] * len(media), times=media.times(), is_video=media.is_video, id=f"grey/{media.size}"
    )


def _without_images(request: ChatRequest) -> ChatRequest:
    """The text of a request and of the turns before it."""
    earlier = tuple(replace(turn, media=0) for turn in request.earlier)
    return replace(request, media=(), frames=(), earlier=earlier)


def _with_shuffled_images(request: ChatRequest) -> ChatRequest:
    """A request that shows the tiles of its images, or the frames of its videos, in another order.

    Media hold only the frames that were to be shown; the order depends on the medium alone.
    """
    media = []
    for place, medium in enumerate(request.media):
        shown, times = frames_shown(request, place), medium.times()
        seed = int.from_bytes(hashlib.blake2b(medium.id.encode(), digest_size=8).digest(), "big")
        random = np.random.default_rng(seed)
        frames = [medium.frame(frame) for frame in shown]
        if len(frames) > 1:
            frames = [frames[index] for index in _other_order(random, len(frames))]
        else:
            frames = [_other_tiles(random, frames[0])]
        media.append(
            pixels(
                frames,
                times=[times[frame] for frame in shown],
                is_video=medium.is_video,
                id=f"shuffled/{medium.id}",
            )
        )
    return replace(request, media=tuple(media), frames=())


def _other_order(random: np.random.Generator, count: int) -> list[int]:
    """Return an order of several things that is not their own."""
    order = list(range(count))
    while order == list(range(count)):
        order = random.permutation(count).tolist()
    return order


def _other_tiles(random: np.random.Generator, image: Frame) -> Frame:
    """An image with its tiles in another order; rows and columns that are left over stay.

    An image of fewer than `TILES` pixels along a side has a tile a pixel there.
    """
    rows, columns = (min(TILES, side) for side in image.shape[:2])
    height, width = image.shape[0] // rows, image.shape[1] // columns
    shuffled = image.copy()
    if rows * columns == 1:
        return shuffled  # one pixel has no order
    corners = [(row * height, column * width) for row in range(rows) for column in range(columns)]
    order = _other_order(random, len(corners))
    for (row, column), (y, x) in zip(corners, (corners[tile] for tile in order), strict=True):
        shuffled[row : row + height, column : column + width] = image[y : y + height, x : x + width]
    return shuffled


def _with_others_images(requests: Sequence[ChatRequest]) -> list[ChatRequest]:
    """Each request with the images of the next one that has others of the same make."""
    others = _next_other(list(requests), _can_swap)
    return [
        replace(request, media=tuple(map(_grey, request.media)))
        if donor is None
        else replace(request, media=donor.media, frames=donor.frames)
        for request, donor in zip(requests, others, strict=True)
    ]


def _can_swap(left: ChatRequest, right: ChatRequest) -> bool:
    """Return True if two requests show different media, equal in number and frames shown."""

    def frames(request: ChatRequest) -> list[int]:
        return [len(frames_shown(request, place)) for place in range(len(request.media))]

    different = [media.id for media in left.media] != [media.id for media in right.media]
    return different and frames(left) == frames(right)


def _next_other(items: Sequence[T], fits: Callable[[T, T], bool]) -> list[T | None]:
    """Return for each item the next one, cyclically, that fits it; None where none does."""
    partners: list[T | None] = []
    for place, item in enumerate(items):
        following = [*items[place + 1 :], *items[:place]]
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
