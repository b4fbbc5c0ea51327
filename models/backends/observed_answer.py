"""Read from a server's answer, and its request's body, what the network saw and how sure it was.

These are the images and their times, the tokens, and the log-probabilities (`Observation`).
vLLM (0.10.2 or later) returns the tokens of prompt and response on request; any server of OpenAI's
interface may return the log-probabilities of the response's tokens.
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

OBSERVED_FIELDS: Mapping[str, Mapping[str, object]] = {
    **{server: {"logprobs": True} for server in ("sglang", "openai", "plain")},
    "vllm": {"logprobs": True, "return_token_ids": True},
}
"""Fields of a request that ask for log-probabilities and tokens, by the type of server."""
SECONDS = re.compile(r"<(\d+(?:\.\d+)?) seconds>")  # such as "<1.5 seconds>", before a frame


def observed_answer(
    body: Mapping[str, Any], answer: Mapping[str, Any], response: ChatResponse
) -> Observation:
    """Return a response with images and times from its request's body, and data of the answer.

    Args:
        body: Body of the request, as JSON.
        answer: The server's answer, as JSON.
        response: The response that was read from the answer.
    """
    images_and_times, choice = list(_images_with_times(body)), answer["choices"][0]
    tokens = _numbers(choice.get("token_ids"))
    return Observation(
        response=replace(response, tokens=tokens or response.tokens),
        images=tuple(image for image, _ in images_and_times),
        times=tuple(time for _, time in images_and_times),
        prompt=_numbers(answer.get("prompt_token_ids")) or None,
        logprobs=_logprobs(choice),
    )


def _images_with_times(body: Mapping[str, Any]) -> Iterator[tuple[Frame, float | None]]:
    """Yield each image or frame of a request's body with its time in seconds, in order."""
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
    """Return the pixels (height × width × 3, uint8) of an image file in Base64."""
    with Image.open(io.BytesIO(base64.b64decode(data))) as image:
        return np.asarray(image.convert("RGB"))


def _numbers(value: object) -> tuple[int, ...]:
    """Return a list of token ids; empty if the value is anything else."""
    tokens = value if isinstance(value, list) else []
    return tuple(tokens) if all(type(token) is int for token in tokens) else ()


def _logprobs(choice: Mapping[str, Any]) -> Floats | None:
    """Return the log-probabilities of an answer's tokens; None unless every token has one."""
    rows = (choice.get("logprobs") or {}).get("content")
    values = [row.get("logprob") for row in rows] if isinstance(rows, list) else []
    if not values or not all(isinstance(value, int | float) for value in values):
        return None
    return np.array(values, dtype=np.float64)
