"""A network that says what a test of VideoSeg-R1 wants, and its queries."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness import media, plugins
from harness.backend import Chat
from harness.chat import ChatRequest, ChatResponse
from harness.models.videoseg_r1.model import videoseg_r1
from harness.types import AnswerForm, Query

FORM = AnswerForm
GOOD = '<think>the red one</think><answer>[{"bbox_2d": [84, 84, 168, 420], "point_pos": [126, 252, 1], "point_neg": [200, 252, 0]}]</answer>'  # noqa: E501


@dataclass(frozen=True)
class Script(Chat):
    """A chat that answers by what it is asked for, on a canvas of its own."""

    says: Mapping[str, Sequence[str]]
    """By a part of the request's key: responses, the last of which is said again."""
    coordinates: str = "pixels"
    asked: list[ChatRequest] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    batch_size: int = 4

    def describe(self) -> Mapping[str, Any]:
        return {"backend": "script"}

    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        self.calls.append(len(requests))
        return [self._response(request) for request in requests]

    def _response(self, request: ChatRequest) -> ChatResponse:
        kind = next((kind for kind in ("segment", "frame") if f":{kind}:" in request.key), "reason")
        before = sum(f":{kind}:" in one.key or kind == "reason" for one in self.asked)
        self.asked.append(request)
        output = self.says[kind]
        return ChatResponse(
            text=output[min(before, len(output) - 1)], prompt_tokens=7, completion_tokens=3
        )

    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        return request.resize or request.media[0].size

    def count_tokens(self, text: str) -> int:
        return len(text.split())


def video(frames: int, *, size: tuple[int, int] = (420, 210), rate: float = 2.0) -> media.Media:
    images = [
        np.full((size[1], size[0], 3), index % 256, dtype=np.uint8) for index in range(frames)
    ]
    times = [index / rate for index in range(frames)]
    return media.pixels(images, times=times, is_video=frames > 1, id=f"v{frames}")


def query(form: AnswerForm = FORM.MASK_TRACK, *, frames: int = 20, name: str = "q") -> Query:
    return Query(id=name, text="the dog?", media=(video(frames),), forms=(form,))


def model(says: Mapping[str, Sequence[str]], **given: Any) -> Any:
    made = {
        "segmenter": plugins.build("segmenters", "box"),
        "propagator": plugins.build("propagators", "still"),
        "backend": Script(says),
    }
    return videoseg_r1(**{**made, **given})


def interval(start: float, end: float) -> str:
    return json.dumps({"start": start, "end": end})
