"""A server's answer, observed: what a request's body hands over, and what the answer tells of it.

A server of vLLM (0.10.2 or later) returns the tokens of prompt and response if it is asked to; any
server of OpenAI's form may return the log-probabilities of the tokens that it wrote.
"""

import base64
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from PIL import Image

from harness.chat import ChatResponse
from harness.media import Frame
from harness.observation import Floats, Observation

TOLD: Mapping[str, Mapping[str, object]] = {
    **{server: {"logprobs": True} for server in ("sglang", "openai", "plain")},
    "vllm": {"logprobs": True, "return_token_ids": True},
}
"""Fields of a request that ask for log-probabilities and tokens, by the kind of server."""
SECONDS = re.compile(r"<(\d+(?:\.\d+)?) seconds>")


def observed_answer(
    body: Mapping[str, Any], answer: Mapping[str, Any], response: ChatResponse
) -> Observation:
    """Return a response with what its request's body and the server's answer tell."""
    shown, choice = list(_shown(body)), answer["choices"][0]
    tokens = _numbers(choice.get("token_ids"))
    return Observation(
        response=replace(response, tokens=tokens or response.tokens),
        images=tuple(image for image, _ in shown),
        times=tuple(time for _, time in shown),
        prompt=_numbers(answer.get("prompt_token_ids")) or None,
        logprobs=_logprobs(choice),
    )


def _shown(body: Mapping[str, Any]) -> Iterator[tuple[Frame, float | None]]:
    """Yield each image of a request's body with its time, in order."""
    clip = body.get("media_io_kwargs", {}).get("video", {})
    for message in body["messages"]:
        content, time = message["content"], None
        for part in content if isinstance(content, list) else ():
            if part["type"] == "text":
                stated = SECONDS.fullmatch(part["text"])
                time = float(stated[1]) if stated else None
            elif part["type"] == "image_url":
                yield _decoded(part["image_url"]["url"].partition(",")[2]), time
                time = None
            else:
                frames = part["video_url"]["url"].partition(",")[2].split(",")
                numbers = clip.get("frames_indices", [None] * len(frames))
                for data, number in zip(frames, numbers, strict=True):
                    yield _decoded(data), None if number is None else number / clip["fps"]


def _decoded(data: str) -> Frame:
    with Image.open(io.BytesIO(base64.b64decode(data))) as image:
        return np.asarray(image.convert("RGB"))


def _numbers(value: object) -> tuple[int, ...]:
    """Return a list of tokens; empty if it is anything else."""
    several = value if isinstance(value, list) else []
    return tuple(several) if all(type(token) is int for token in several) else ()


def _logprobs(choice: Mapping[str, Any]) -> Floats | None:
    """Return the log-probabilities of an answer's tokens; None: it has none, or not of all."""
    rows = (choice.get("logprobs") or {}).get("content")
    values = [row.get("logprob") for row in rows] if isinstance(rows, list) else []
    if not values or not all(isinstance(value, int | float) for value in values):
        return None
    return np.array(values, dtype=np.float64)
