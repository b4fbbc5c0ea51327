"""Backend `stored`: answer requests with recorded responses, without a network.

With a file, responses are looked up by request key. Without one, the backend only states the
coordinates and the canvas of the network that wrote the responses, which is what a grammar needs to
read them: `harness score --model "qwen_vl(backend=stored)"`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from harness.backend import Chat
from harness.chat import ChatRequest, ChatResponse
from harness.coordinates import Coordinates
from harness.errors import DataError, UsageError, raised_as
from harness.files import read_text
from harness.models.backends.stop_strings import until_stop
from harness.models.canvas import smart_resize
from harness.options import with_options
from harness.types import query_id


@dataclass(frozen=True, kw_only=True)
class StoredOptions:
    """Options of the backend: what is known of the network that wrote the responses."""

    coordinates: Coordinates = "pixels"
    """`pixels` of its canvas (Qwen2.5-VL), `normalized_1000` to each side (Qwen3-VL), …: see
    `harness.coordinates.Coordinates`."""
    factor: int = 28
    """Patch size times merge size of its processor: 28 for Qwen2.5-VL."""
    min_pixels: int = 3_136
    """Smallest canvas; the default is the one of Qwen2.5-VL's checkpoints."""
    max_pixels: int = 12_845_056
    """Largest canvas, likewise."""
    batch_size: int = 64
    """Requests at once."""


@dataclass(frozen=True, kw_only=True)
class StoredChat(StoredOptions, Chat):
    """Answers from a file, and computes the canvas of the network that wrote the responses."""

    file: Path | None
    responses: Mapping[str, str] = field(repr=False)
    reads_pixels = False

    @property
    def why_not_adaptable(self) -> str:
        """Reason why the network's weights cannot learn here."""
        return "stored responses, which have no network"

    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record."""
        return {
            "backend": "stored",
            "file": None if self.file is None else self.file.name,
            "responses": len(self.responses),
            "coordinates": self.coordinates,
            "factor": self.factor,
            "min_pixels": self.min_pixels,
            "max_pixels": self.max_pixels,
        }

    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        """Return the stored response of each request, in order.

        Raises:
            UsageError: there is no file.
            DataError: the file has no response for a request.
        """
        if self.file is None:
            raise UsageError(
                "backend stored",
                expected="a file of responses to answer from",
                found="none",
                fix="Give stored(file=FILE.jsonl), or use the model only in `harness score`.",
            )
        return [self._response(request) for request in requests]

    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        """(width, height) in pixels that the network's processor made of the first medium."""
        size = request.resize or request.media[0].size
        return smart_resize(
            size, factor=self.factor, min_pixels=self.min_pixels, max_pixels=self.max_pixels
        )

    def count_tokens(self, text: str) -> int:
        """0: the tokenizer is not known."""
        return 0

    def _response(self, request: ChatRequest) -> ChatResponse:
        """Return the recorded response of a request; DataError if there is none."""
        if request.key not in self.responses:
            raise DataError(
                f"responses {self.file}",
                expected=f"a response for request {request.key}",
                found="none",
            )
        response = ChatResponse(text=self.responses[request.key], canvases=(self.canvas(request),))
        return until_stop(response, request)


@with_options(StoredOptions)
def stored(options: StoredOptions, *, file: Path | None = None) -> StoredChat:
    """Responses from a file, or none: then a model only reads.

    Args:
        options: Facts about the network that wrote the responses.
        file: One JSON object a line, `{"key": request key, "response": text}`, or
            `{"id": official id, "response": text}`.
    """
    responses = {} if file is None else read_responses(file)
    return StoredChat(file=file, responses=responses, **asdict(options))


def read_responses(path: Path) -> dict[str, str]:
    """Return the responses of a JSON Lines file by request key.

    Raises:
        DataError: the file cannot be read, or a line is malformed or repeats a key; the error names
            the line.
    """
    unreadable = OSError, UnicodeDecodeError
    with raised_as(DataError, f"responses {path}", "a UTF-8 text file", *unreadable):
        lines = read_text(path).split("\n")
    responses: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if line.strip():
            key, response = _row(line, f"{path}, line {number}")
            if key in responses:
                raise DataError(f"{path}, line {number}", expected="each key once", found=key)
            responses[key] = response
    return responses


def _row(line: str, where: str) -> tuple[str, str]:
    """Return (request key, response) of a line; DataError, which names `where`, if malformed."""
    with raised_as(DataError, where, "one JSON object", ValueError, RecursionError):
        row = json.loads(line)
    if not isinstance(row, dict) or not isinstance(row.get("response"), str):
        raise DataError(where, expected='an object with a text "response"', found=repr(row)[:60])
    if isinstance(row.get("key"), str):
        return row["key"], row["response"]
    if isinstance(row.get("id"), str):
        return query_id(row["id"]), row["response"]
    raise DataError(where, expected='a text "key" or "id"', found=repr(row)[:60])
