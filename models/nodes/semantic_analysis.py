"""The node `semantic_analysis`: a vision-language model describes crops, frames and the whole.

Each instance is shown as a crop around it, in the described frame in which most of it is seen. With
`by_question` the requests name what the question names; they never hold the question.
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

MARGIN = 0.15  # of the box's sides: surroundings that help to name a thing
MIN_SIDE = 56  # pixels; a smaller crop takes more of its surroundings


@dataclass(frozen=True, kw_only=True)
class SemanticAnalysis(Node):
    """A name and a description for each instance, a sentence a frame, and one for a video."""

    kind: ClassVar[NodeKind] = NodeKind(
        produces=Kind.SEMANTICS,
        accepts=frozenset({Kind.INSTANCES, Kind.DETECTIONS, Kind.WORDS}),
        summary="names and descriptions",
    )
    chat: Chat
    by_question: bool
    max_instances: int
    max_new_tokens: int

    name = "semantic_analysis"

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of the backend."""
        return self.chat.devices

    def prepare(self) -> None:
        """Load what the backend loads."""
        self.chat.prepare()

    def describe(self) -> dict[str, Any]:
        """Settings, and those of the backend."""
        return {
            "name": self.name,
            "chat": dict(self.chat.describe()),
            "by_question": self.by_question,
            "max_instances": self.max_instances,
            "max_new_tokens": self.max_new_tokens,
        }

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> Semantics:
        """Ask for every instance, every described frame, and the whole."""
        return self.run_for(media, indices, inputs, ())

    def run_for(
        self,
        media: Media,
        indices: Sequence[int],
        inputs: Sequence[Output],
        phrases: Sequence[str],
    ) -> Semantics:
        """Ask as `run` does, and for what the phrases name."""
        requests = [
            self._request("frame", pixels_of(media.frame(index), f"{media.id}/{index}"), phrases)
            for index in indices
        ]
        shown: list[str] = []
        for instance in instances_of(inputs)[: self.max_instances]:
            crop = crop_of(media, indices, instance)
            if crop is not None:
                image = pixels_of(crop, f"{media.id}/{instance.key}")
                requests.append(self._request("instance", image, phrases))
                shown.append(instance.key)
        if media.is_video:
            request = ChatRequest(
                key=f"{media.id}/video",
                text=_prompt("video", phrases),
                media=(media,),
                frames=(tuple(indices),),
                max_new_tokens=self.max_new_tokens,
            )
            requests.append(request)
        lines = [_line(after_thought(response.text)) for response in self.chat.generate(requests)]
        frames = dict(zip(indices, lines, strict=False))
        named = dict(zip(shown, map(_named, lines[len(indices) :]), strict=False))
        if media.is_video:
            return Semantics(lines[-1], frames, named)
        return Semantics(lines[0], {}, named)

    def _request(self, what: str, image: Media, phrases: Sequence[str]) -> ChatRequest:
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
        by_question: Ask for what the question names, too (docs/twins.md).
        max_instances: Largest number of instances that are described.
        max_new_tokens: Where a description is cut off.

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
    """The surroundings of an instance where most of it is seen; None where it never is."""
    index = clearest_frame(instance, indices)
    box = extent(instance.track[index])
    if box is None:
        return None
    image = media.frame(index)
    left, right = _widened(box.left, box.right, image.shape[1])
    top, bottom = _widened(box.top, box.bottom, image.shape[0])
    return np.ascontiguousarray(image[top:bottom, left:right])


def pixels_of(image: Frame, id: str) -> Media:
    """An image that is decoded already, as a medium."""
    return pixels([image], times=(0.0,), is_video=False, id=id)


def _widened(low: float, high: float, limit: int) -> tuple[int, int]:
    grown = max((high - low) * MARGIN, (MIN_SIDE - (high - low)) / 2)
    return max(0, int(low - grown)), min(limit, int(np.ceil(high + grown)))


def _prompt(what: str, phrases: Sequence[str]) -> str:
    """Return the request for an `instance`, a `frame` or the `video`, and for the phrases."""
    text = text_of("harness.models.nodes", f"semantic_{what}.txt").strip()
    if not phrases:
        return text
    kind = "name" if what == "instance" else "scene"
    asked = text_of("harness.models.nodes", f"semantic_asked_{kind}.txt").strip()
    return f"{text} {asked.replace('{Phrases}', '; '.join(phrases))}"


def _line(text: str) -> str:
    return " ".join(text.split())


def _named(text: str) -> dict[str, Plain]:
    """Name and description from `name: description`; a text without a colon is both."""
    name, colon, description = text.partition(":")
    entry: dict[str, Plain] = {"name": name.strip()[:60] or "object"}
    return entry | {"description": description.strip()} if colon else entry
