"""A prompted model whose segmenter knows the answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness import media, plugins
from harness.masks import Rle
from harness.models.grammar import Item
from harness.models.pipeline import PromptedModel
from harness.models.questions import Questions
from harness.models.response_writer import parts
from harness.models.visionreasoner.grammar import VisionReasoner
from harness.segmentation import Propagator, Segmenter
from harness.testing import ScriptedChat
from harness.types import (
    AnswerForm,
    Box,
    Point,
    Query,
)

FORM = AnswerForm


@dataclass(frozen=True)
class Knows(Segmenter, Propagator):
    """Perception that has the ground truth: the part whose box is nearest, the track of what it
    knows.
    """

    ground_truth: tuple[Rle, ...]
    name: str = "knows"

    def segment(self, image, prompts):
        frame = next(i for i, mask in enumerate(self.ground_truth) if image[0, 0, 0] == i)
        known = parts(self.ground_truth[frame])
        masks = []
        for prompt in prompts:
            nearest = min(known, key=lambda part: np.abs(np.subtract(part.box, prompt.box)).max())
            masks.append(only(self.ground_truth[frame], nearest))
        return masks

    def propagate(self, video, start, masks):
        assert np.array_equal(np.logical_or.reduce(masks), self.ground_truth[start].to_array())
        return [[mask.to_array() for mask in self.ground_truth]] * len(masks)


def only(mask: Rle, part: Item):
    import cv2

    _, labels = cv2.connectedComponents(mask.to_array().astype(np.uint8), connectivity=8)
    return labels == labels[int(part.point.y), int(part.point.x)]


def model(*says: str, prompt: Any = None, **given: Any) -> PromptedModel:
    own = {name: given.pop(name) for name in ("size", "coordinates") if name in given}
    chat = ScriptedChat(responses=says, **{"size": (840, 840), **own})
    return PromptedModel(
        name="test",
        chat=chat,
        prompt=prompt or VisionReasoner(),
        words=Questions(),
        segmenter=given.pop("segmenter", None) or plugins.build("segmenters", "box"),
        propagator=given.pop("propagator", None) or plugins.build("propagators", "still"),
        **given,
    )


def query(form=FORM.MASK, *, size=(420, 210), frames=1, **given: Any) -> Query:
    shape = (size[1], size[0], 3)
    images = [np.full(shape, index, dtype=np.uint8) for index in range(frames)]
    shown = media.pixels(images, times=range(frames), is_video=frames > 1, id="x")
    forms = form if isinstance(form, tuple) else (form,)
    return Query(id="q", text="the dog", media=(shown,), forms=forms, **given)


def response(*boxes: Sequence[int], frame: int | None = None) -> str:
    items = [Item(Box(*box), Point(box[0] + 1, box[1] + 1)) for box in boxes]
    return VisionReasoner().write(items, frame=frame)
