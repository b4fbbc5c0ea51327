"""A prompted model: prompt → network → response → coordinates → segmenter → propagator.

    query ─request─▶ Chat ─response─▶ Prompt.parse ─▶ Canvas ─▶ Segmenter ─▶ Propagator ─▶ answer

Adapters of methods build a `PromptedModel`. It inherits the making of requests from
`prompted_requests` and the reading of responses from `prompted_reader`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from harness.backend import Chat
from harness.chat import ChatRequest, Conversation
from harness.model import ReaderPart
from harness.models.answers import MASKED, Pending
from harness.models.chat_result import ChatResult
from harness.models.default_parts import missing_parts
from harness.models.prompted_reader import PromptedReader
from harness.models.prompted_requests import LOCATED
from harness.models.retry import RetryRequest, merge_second, retry_requests, retry_unreadable
from harness.segmentation import Propagator, Segmenter, settings
from harness.types import AnswerForm, Prediction, Query

EXAMPLE_QUERY = Query(id="", text="QUESTION", media=(), forms=(), options=("OPTION",))
"""Query whose requests for answers in words stand in a model's description."""


@dataclass(frozen=True, kw_only=True)
class PromptedModel(PromptedReader):
    """A model that sends a query's requests to a VLM, and makes masks of the places it names.

    `PromptedRequests` makes the requests, `PromptedReader` reads the responses. The engine calls
    three stages: `generate` (network), `begin` (parse and segment), and the function that `begin`
    returns (propagate through the video).
    """

    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record: every setting, and the prompt as it is sent."""
        return {
            "name": self.name,
            "chat": dict(self.chat.describe()),
            "prompt": self.prompt.name,
            "prompt_text": self.prompt.render("QUESTION"),
            "words_text": {
                form.value: self.words.render(replace(EXAMPLE_QUERY, forms=(form,)), form)
                for form in sorted(self.words.forms)
            },
            "resize": self.prompt.resize and list(self.prompt.resize),
            "words_resize": self.words_resize and list(self.words_resize),
            "system": self.system,
            "coordinates": self.coordinates or self.chat.coordinates,
            "segmenter": settings(self.segmenter),
            "propagator": settings(self.propagator),
            "keyframe": self.keyframe,
            "frames": self.frames if isinstance(self.frames, int) else str(self.frames),
            "max_new_tokens": self.max_new_tokens,
            "batch_size": self.batch_size,
            **({"retry": True} if self.asks_again else {}),
            **({} if self.vendor is None else {"vendor": self.vendor.describe()}),
        }

    @property
    def forms(self) -> frozenset[AnswerForm]:
        """Forms of answer that this model can give."""
        return LOCATED | self.words.forms

    @property
    def missing_parts(self) -> Mapping[AnswerForm, str]:
        """Forms of answer that need a segmenter or propagator that is missing, with the reason."""
        return missing_parts(self.segmenter, self.propagator)

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of its parts."""
        return tuple(device for part in self._parts for device in part.devices)

    def prepare(self) -> None:
        """Load all parts, so that a failure to load fails no sample."""
        for part in self._parts:
            part.prepare()

    def with_perception(self, segmenter: Segmenter, propagator: Propagator) -> Self:
        """Return the same model with another segmenter and propagator."""
        return replace(self, segmenter=segmenter, propagator=propagator)

    def with_part(self, part: ReaderPart, donor: "PromptedModel") -> Self:
        """Return the same model with one part taken from `donor`."""
        if part == "coordinates":
            return replace(self, coordinates=donor.meaning)
        if part == "segmenter":
            return replace(self, segmenter=donor.segmenter)
        return replace(self, propagator=donor.propagator)

    def reads_pixels(self, query: Query) -> bool:
        """Return True if the backend, or a part that this query's masks need, reads pixels."""
        perception = (self.segmenter, self.propagator) if MASKED.intersection(query.forms) else ()
        return any(part.reads_pixels for part in (self.chat, *perception))

    @property
    def wait_seconds(self) -> float | None:
        """Seconds that the network has waited for images so far; None: not measured."""
        return self.chat.wait_seconds

    @property
    def asks_again(self) -> bool:
        """Return True if `retry` is set and the backend can continue from a prefix."""
        return self.retry and self.chat.goes_on

    def prepare_next(self, queries: Sequence[Query]) -> None:
        """Start to prepare the network's inputs for these queries, while it works on others."""
        self.chat.prepare_next([request for query in queries for request in self.requests(query)])

    def generate(self, queries: Sequence[Query]) -> list[ChatResult]:
        """Send the requests of all queries in one call: the first stage of `predict`."""
        requests = [self.requests(query) for query in queries]
        responses = self.chat.generate(
            [request for query_requests in requests for request in query_requests]
        )
        if self.asks_again:
            tries = [
                attempt
                for query, query_requests in zip(queries, requests, strict=True)
                for attempt in self._retry_requests(query, query_requests)
            ]
            responses = retry_unreadable(self.chat, tries, responses)
        output = iter(responses)
        return [
            ChatResult.from_calls(query, query_requests, [next(output) for _ in query_requests])
            for query, query_requests in zip(queries, requests, strict=True)
        ]

    def _goes_on(self, queries: Sequence[Query]) -> bool:
        """Return False: conversations have two turns at most, and large batches are faster."""
        return False

    @property
    def _parts(self) -> tuple[Chat | Segmenter | Propagator, ...]:
        return self.chat, self.segmenter, self.propagator

    def conversation(self, query: Query) -> Conversation[ChatResult]:
        """Yield the requests of one query, then second requests for responses that are unreadable.

        The caller sends back one response a request; the result joins all of them.
        """
        requests = self.requests(query)
        responses = list((yield requests))
        if self.asks_again:
            tries = self._retry_requests(query, requests)
            retries = retry_requests(tries, responses, greedy=self.chat.greedy)
            if retries:
                responses = merge_second(tries, responses, retries, (yield list(retries.values())))
        return ChatResult.from_calls(query, requests, responses)

    def _retry_requests(self, query: Query, requests: Sequence[ChatRequest]) -> list[RetryRequest]:
        """Return, for each form, the request with what judging its response and asking again need.

        This is the test whether the response can be read, and the frames of which it must name one.
        """
        return [
            RetryRequest(
                request,
                partial(self._is_readable, query, form),
                request.frames[0] if self.must_name(query, form) else (),
            )
            for form, request in zip(query.forms, requests, strict=True)
        ]

    def objects(self, query: Query, result: ChatResult) -> int:
        """Return the largest number of objects that any form's response names.

        The engine estimates the memory of propagation from it, as forms are propagated one by one.
        """
        # earlier responses are votes or turns
        last = result.responses[-len(query.forms) :]
        n_objects = [
            self._count_objects(form, response.text)
            for form, response in zip(query.forms, last, strict=False)
        ]
        return max(n_objects, default=0)

    def begin(self, query: Query, result: ChatResult) -> Pending[Prediction]:
        """Parse and segment (second stage); return the function that propagates (third stage)."""
        reading = self.reading(query, [response.text for response in result.responses])
        return lambda: result.with_usage(reading())
