"""Replies that exist already, in the place of a network.

With a file, the replies are said again by request key: a run without its network. Without one,
only the coordinates of the network that wrote them are known, which is what a reader of replies
needs: `harness score --model "qwen_vl(backend=stored)"`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import DataError, UsageError
from harness.files import read_text
from harness.model import Chat, ChatReply, ChatRequest, Coordinates
from harness.models.backends.stops import until_stop
from harness.models.canvas import smart_resize
from harness.types import query_id


@dataclass(frozen=True, kw_only=True)
class StoredChat(Chat):
    """Says what a file says, and knows the canvas of the network that wrote it."""

    file: Path | None
    replies: Mapping[str, str] = field(repr=False)
    coordinates: Coordinates
    factor: int
    min_pixels: int
    max_pixels: int
    batch_size: int

    def describe(self) -> Mapping[str, Any]:
        """Plain data for the record."""
        return {
            "backend": "stored",
            "file": None if self.file is None else self.file.name,
            "replies": len(self.replies),
            "coordinates": self.coordinates,
            "factor": self.factor,
            "min_pixels": self.min_pixels,
            "max_pixels": self.max_pixels,
        }

    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatReply]:
        """The stored replies.

        Raises:
            UsageError: there is no file.
            DataError: the file has no reply for a request.
        """
        if self.file is None:
            raise UsageError(
                "backend stored",
                expected="a file of replies to answer from",
                found="none",
                fix="Give stored(file=FILE.jsonl), or use the model to score replies only.",
            )
        return [self._reply(request) for request in requests]

    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        """(width, height) that the network's processor made of the first medium."""
        size = request.resize or request.media[0].size
        return smart_resize(
            size, factor=self.factor, min_pixels=self.min_pixels, max_pixels=self.max_pixels
        )

    def count_tokens(self, text: str) -> int:
        """0: the tokenizer is not known."""
        return 0

    def _reply(self, request: ChatRequest) -> ChatReply:
        if request.key not in self.replies:
            raise DataError(
                f"replies {self.file}", expected=f"a reply for request {request.key}", found="none"
            )
        reply = ChatReply(text=self.replies[request.key], canvases=(self.canvas(request),))
        return until_stop(reply, request)


def stored(
    *,
    file: Path | None = None,
    coordinates: Coordinates = "pixels",
    factor: int = 28,
    min_pixels: int = 3_136,
    max_pixels: int = 12_845_056,
    batch_size: int = 64,
) -> StoredChat:
    """Replies from a file, or none: then a model only reads.

    Args:
        file: One JSON object a line, `{"key": request key, "reply": text}`, or
            `{"id": official id, "reply": text}`.
        coordinates: Of the network that wrote the replies: `pixels` of its canvas (Qwen2.5-VL),
            `normalized_1000` to each side (Qwen3-VL), …: see `harness.model.Coordinates`.
        factor: Patch size times merge size of its processor: 28 for Qwen2.5-VL.
        min_pixels: Smallest canvas; the default is the one of Qwen2.5-VL's checkpoints.
        max_pixels: Largest canvas, likewise.
        batch_size: Requests at once.
    """
    return StoredChat(
        file=file,
        replies={} if file is None else read_replies(file),
        coordinates=coordinates,
        factor=factor,
        min_pixels=min_pixels,
        max_pixels=max_pixels,
        batch_size=batch_size,
    )


def read_replies(path: Path) -> dict[str, str]:
    """Replies by request key.

    Raises:
        DataError: the file or a line of it is not as it should be; the line is named.
    """
    try:
        lines = read_text(path).split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"replies {path}", expected="a UTF-8 text file", found=str(error)
        ) from error
    replies: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if line.strip():
            key, reply = _row(line, f"{path}, line {number}")
            if key in replies:
                raise DataError(f"{path}, line {number}", expected="each key once", found=key)
            replies[key] = reply
    return replies


def _row(line: str, where: str) -> tuple[str, str]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(where, expected="one JSON object", found=str(error)) from error
    if not isinstance(row, dict) or not isinstance(row.get("reply"), str):
        raise DataError(where, expected='an object with a text "reply"', found=repr(row)[:60])
    if isinstance(row.get("key"), str):
        return row["key"], row["reply"]
    if isinstance(row.get("id"), str):
        return query_id(row["id"]), row["reply"]
    raise DataError(where, expected='a text "key" or "id"', found=repr(row)[:60])
