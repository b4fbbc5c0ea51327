"""The node `semantic_analysis`: a vision-language model describes instances, frames and the video.

Each instance is shown as a crop from the described frame with its largest mask. With `by_question`
the prompts contain the phrases of the question, but never the question itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from harness import plugins
from harness.backend import Chat
from harness.chat import ChatRequest
from harness.errors import UsageError
from harness.media import Frame, Media, pixels
from harness.models.nodes.instances import clearest_frame
from harness.models.prompts import text_of
from harness.models.tracks import extent
from harness.node import (
    Instance,
    Kind,
    Node,
    NodeKind,
    Output,
    Plain,
    Semantics,
    instances_of,
)
from harness.spec import Spec
from harness.thoughts import after_thought

MARGIN = 0.15
"""Margin of a crop on each side of the box, as a share of the box's side."""
MIN_SIDE = 56
"""Smallest side of a crop in pixels; the margin of a smaller box is larger."""


@dataclass(frozen=True, kw_only=True)
class SemanticAnalysis(Node):
    """Asks a VLM for a name and description of each instance, a sentence on frames and video."""

    kind: ClassVar[NodeKind] = NodeKind(
        produces=Kind.SEMANTICS,
        accepts=frozenset({Kind.INSTANCES, Kind.DETECTIONS, Kind.WORDS}),
        summary="names and descriptions",
    )
    chat: Chat
    by_question: bool
    """True if the engine gives the phrases of the question to `run_for`."""
    max_instances: int
    """Largest number of instances that are described."""
    max_new_tokens: int
    """Longest description, in tokens."""

    name = "semantic_analysis"

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of the backend."""
        return self.chat.devices

    def prepare(self) -> None:
        """Load the backend."""
        self.chat.prepare()

    def describe(self) -> dict[str, Any]:
        """Return the settings of the node and of its backend."""
        return {
            "name": self.name,
            "chat": dict(self.chat.describe()),
            "by_question": self.by_question,
            "max_instances": self.max_instances,
            "max_new_tokens": self.max_new_tokens,
        }

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> Semantics:
        """Describe every instance, every described frame, and the video."""
        return self.run_for(media, indices, inputs, ())

    def run_for(
        self,
        media: Media,
        indices: Sequence[int],
        inputs: Sequence[Output],
        phrases: Sequence[str],
    ) -> Semantics:
        """Describe as `run` does; the prompts also ask for the objects that `phrases` name."""
        frame_requests = [
            self._request("frame", pixels_of(media.frame(index), f"{media.id}/{index}"), phrases)
            for index in indices
        ]
        instance_requests = {
            instance.key: self._request(
                "instance", pixels_of(crop, f"{media.id}/{instance.key}"), phrases
            )
            for instance in instances_of(inputs)[: self.max_instances]
            if (crop := crop_of(media, indices, instance)) is not None
        }
        video_request = ChatRequest(
            key=f"{media.id}/video",
            text=_prompt("video", phrases),
            media=(media,),
            frames=(tuple(indices),),
            max_new_tokens=self.max_new_tokens,
        )
        responses = self.chat.generate(
            [
                *frame_requests,
                *instance_requests.values(),
                *([video_request] if media.is_video else []),
            ]
        )
        lines = (_line(after_thought(response.text)) for response in responses)
        frames = {index: next(lines) for index in indices}
        attributes = {key: _parse_name(next(lines)) for key in instance_requests}
        if media.is_video:
            return Semantics(next(lines), frames, attributes)
        return Semantics(frames[indices[0]], {}, attributes)

    def _request(self, what: str, image: Media, phrases: Sequence[str]) -> ChatRequest:
        """Return the request to describe an image; `what` is `instance` or `frame`."""
        return ChatRequest(
            key=f"{image.id}/{what}",
            text=_prompt(what, phrases),
            media=(image,),
            max_new_tokens=self.max_new_tokens,
        )


def semantic_analysis(
    *,
    backend: Spec | None = None,
    by_question: bool = False,
    max_instances: int = 24,
    max_new_tokens: int = 64,
) -> SemanticAnalysis:
    """Names and descriptions by a vision-language model, such as Qwen2.5-VL.

    Args:
        backend: The model, such as transformers(checkpoint=Qwen/Qwen2.5-VL-7B-Instruct) or
            openai(…). It must be given.
        by_question: Ask for the objects that the question names, too (docs/twins.md).
        max_instances: Largest number of instances that are described.
        max_new_tokens: Largest number of tokens of a description.

    Raises:
        UsageError: no backend is named.
    """
    if backend is None:
        raise UsageError(
            "node semantic_analysis",
            expected="backend=, the vision-language model",
            found="none",
            fix="For example semantic_analysis(backend=transformers("
            "checkpoint=Qwen/Qwen2.5-VL-7B-Instruct)). Without a download, there is the node "
            "colour_and_shape.",
        )
    chat: Chat = plugins.build("backends", backend)
    return SemanticAnalysis(
        chat=chat,
        by_question=by_question,
        max_instances=max_instances,
        max_new_tokens=max_new_tokens,
    )


def crop_of(media: Media, indices: Sequence[int], instance: Instance) -> Frame | None:
    """Return a crop around an instance in its clearest frame; None if all its masks are empty."""
    index = clearest_frame(instance, indices)
    box = extent(instance.track[index])
    if box is None:
        return None
    image = media.frame(index)
    left, right = _widened(box.left, box.right, image.shape[1])
    top, bottom = _widened(box.top, box.bottom, image.shape[0])
    return np.ascontiguousarray(image[top:bottom, left:right])


def pixels_of(image: Frame, id: str) -> Media:
    """Return a decoded image as a medium with one frame."""
    return pixels([image], times=(0.0,), is_video=False, id=id)


def _widened(low: float, high: float, limit: int) -> tuple[int, int]:
    """Return the interval with its margin on both sides, clipped to 0 … `limit`."""
    margin = max((high - low) * MARGIN, (MIN_SIDE - (high - low)) / 2)
    return max(0, int(low - margin)), min(limit, int(np.ceil(high + margin)))


def _prompt(what: str, phrases: Sequence[str]) -> str:
    """Return the prompt for an `instance`, a `frame` or the `video`, with the phrases if any."""
    text = text_of("harness.models.nodes", f"semantic_{what}.txt").strip()
    if not phrases:
        return text
    subject = "name" if what == "instance" else "scene"
    request = text_of("harness.models.nodes", f"semantic_asked_{subject}.txt").strip()
    return f"{text} {request.replace('{Phrases}', '; '.join(phrases))}"


def _line(text: str) -> str:
    """Return a text on one line."""
    return " ".join(text.split())


def _parse_name(text: str) -> dict[str, Plain]:
    """Return the parts of `name: description`; a text without a colon is the name alone."""
    name, colon, description = text.partition(":")
    entry: dict[str, Plain] = {"name": name.strip()[:60] or "object"}
    return entry | {"description": description.strip()} if colon else entry
