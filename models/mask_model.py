"""A model as a composition: prompt → network → masks, for networks that emit masks themselves.

    query ─request─▶ MaskNetwork ─text and masks─▶ answer

LISA, GLaMM, Sa2VA and UniPixel are of this kind: a token of the response stands for an object, and
a decoder beside the language network makes its mask. A plugin gives its network (`MaskNetwork`) to
`MaskModel`, which makes the requests and checks shape and dtype of the masks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import itemgetter
from typing import Any, Self

import numpy as np

from harness.chat import ChatRequest, ChatResponse
from harness.errors import ModelError, ParseError, UsageError
from harness.masks import BoolArray, Track
from harness.model import StagedModel
from harness.models.answers import MASKED, Pending, combine_answers, mask_answer
from harness.models.chat_result import calls_of
from harness.models.factory import at_least
from harness.models.grammar import Item
from harness.models.prompted_requests import AnswerPrompt
from harness.models.tracks import extent, joint_track
from harness.responses import storable
from harness.segmentation import MaskNetwork, MaskResponse
from harness.types import (
    Answer,
    AnswerForm,
    Call,
    Failure,
    FailureKind,
    Parsed,
    Prediction,
    Query,
    Usage,
    failed_prediction,
)

QUESTION = "{Question}"  # its place in the prompt


@dataclass(frozen=True, slots=True)
class Emitted:
    """The network's responses to one query, and the calls that led to them."""

    responses: tuple[MaskResponse, ...]
    calls: tuple[Call, ...]


@dataclass(frozen=True, kw_only=True)
class MaskModel(StagedModel[Emitted]):
    """A network that emits masks, and the wording of its requests.

    It gets one request for each form of answer, about all frames of the media. The masks of a
    response's objects are joined by OR; a response without objects is NO_TARGET.
    """

    name: str
    load: Callable[[], MaskNetwork]
    """Makes the network, before the first batch."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Plain data for the record: checkpoint, fingerprint of the weights, …"""
    prompt: str = QUESTION
    """The request for masks, with the question in place of `{Question}`."""
    words: AnswerPrompt | None = None
    """Wording and parser of questions that are answered in words; None: it gives masks only."""
    max_new_tokens: int = 1024
    batch_size: int = 1
    device: str = "cpu"
    """Device that the network computes on, for the record."""

    def __post_init__(self) -> None:
        if QUESTION not in self.prompt:
            raise UsageError(f"{self.name}(prompt=…)", expected=QUESTION, found=repr(self.prompt))
        at_least(self.name, 1, batch_size=self.batch_size)

    @cached_property
    def network(self) -> MaskNetwork:
        """Network, made when it is first needed."""
        return self.load()

    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record."""
        return {
            **self.settings,
            "name": self.name,
            "prompt_text": self.prompt,
            "max_new_tokens": self.max_new_tokens,
            "batch_size": self.batch_size,
        }

    @property
    def forms(self) -> frozenset[AnswerForm]:
        """Forms of answer that this model can give."""
        return MASKED if self.words is None else MASKED | self.words.forms

    @property
    def devices(self) -> tuple[str, ...]:
        """The network's device, as the settings name it."""
        return (self.device,)

    def prepare(self) -> None:
        """Load the network, so that a failure to load fails no sample."""
        assert self.network is not None

    def with_network(self, network: MaskNetwork) -> Self:
        """Return the same model with another network."""
        return replace(self, load=lambda: network)

    def requests(self, query: Query) -> tuple[ChatRequest, ...]:
        """Return the requests to the network, one a form of answer.

        Raises:
            UsageError: this model cannot be asked for such an answer.
        """
        return tuple(
            ChatRequest(
                key=query.id if len(query.forms) == 1 else f"{query.id}:{form}",
                text=self._request_text(query, form),
                media=query.media,
                max_new_tokens=self.max_new_tokens,
            ).with_generation(query.generation)
            for form in query.forms
        )

    def _request_text(self, query: Query, form: AnswerForm) -> str:
        """Return the text of the request for one form."""
        if form in MASKED:
            return self.prompt.replace(QUESTION, query.text, 1)
        return self._answer_prompt(form).render(query, form)

    def _answer_prompt(self, form: AnswerForm) -> AnswerPrompt:
        """Return the wording of questions in words; UsageError if it lacks this form."""
        if self.words is None or form not in self.words.forms:
            raise UsageError(
                f"{self.name}: a question for {form}",
                expected=f"one of {', '.join(sorted(self.forms))}",
                found=str(form),
            )
        return self.words

    def generate(self, queries: Sequence[Query]) -> list[Emitted]:
        """Return the network's responses to each query, one a form.

        Raises:
            ModelError: the number of responses differs from that of the requests, or a response is
                not a `MaskResponse`.
        """
        requests = [self.requests(query) for query in queries]
        flat = [request for query_requests in requests for request in query_requests]
        responses = self.network.generate(flat)
        if len(responses) != len(flat):
            raise ModelError(
                f"model {self.name}",
                expected=f"{len(flat)} responses",
                found=str(len(responses)),
            )
        if wrong := [response for response in responses if not isinstance(response, MaskResponse)]:
            raise ModelError(
                f"model {self.name}",
                expected="responses of harness.segmentation.MaskResponse",
                found=type(wrong[0]).__name__,
            )
        output = iter(responses)
        emitted = []
        for query, query_requests in zip(queries, requests, strict=True):
            query_responses = tuple(next(output) for _ in query_requests)
            text_responses = [ChatResponse(text=response.text) for response in query_responses]
            emitted.append(
                Emitted(query_responses, calls_of(query, query_requests, text_responses))
            )
        return emitted

    def begin(self, query: Query, output: Emitted) -> Pending[Prediction]:
        """Return the function that checks and encodes the masks of the responses."""
        return lambda: replace(self._prediction(query, output.responses), calls=output.calls)

    def _prediction(self, query: Query, responses: Sequence[MaskResponse]) -> Prediction:
        """Return the prediction of a query; a failure if no form could be read."""
        texts = tuple(storable(response.text) for response in responses)
        usage = _usage(query, responses)
        parts: list[Pending[Answer]] = []
        parsed: list[Parsed] = []
        problems: list[str] = []
        for form, response, text in zip(query.forms, responses, texts, strict=True):
            try:
                parts.append(self._pending_answer(query, form, response, text))
                parsed.append(Parsed(form=form))
            except ParseError as error:
                problems.append(f"{form}: {error}")
                parsed.append(Parsed(form=form, error=storable(str(error), 2000)))
            except ModelError as error:
                return failed_prediction(
                    query, FailureKind.MODEL, str(error), responses=texts, usage=usage
                )
        return Prediction(
            query_id=query.id,
            answer=combine_answers(parts) if parts else None,
            failure=None if parts else Failure(FailureKind.PARSE, "; ".join(problems)),
            responses=texts,
            parsed=tuple(parsed),
            usage=usage,
            notes=tuple(problems) if parts else (),
        )

    def _pending_answer(
        self, query: Query, form: AnswerForm, response: MaskResponse, text: str
    ) -> Pending[Answer]:
        """Return the answer of one form: read from `text`, or made of the response's masks.

        Raises:
            ParseError: the text has no answer of this form.
            ModelError: number, shape or dtype of the masks is wrong, or the scores are.
        """
        if form not in MASKED:
            answer = self._answer_prompt(form).read(query, form, text)
            return lambda: answer
        media = query.media[0]
        tracks = [
            track if isinstance(track, Track) else [self._checked_mask(mask) for mask in track]
            for track in response.masks
        ]
        joint = joint_track(f"model {self.name}", tracks, media)
        scores = tuple(response.scores)
        if scores and (len(scores) != len(tracks) or not all(0 <= score <= 1 for score in scores)):
            raise ModelError(
                f"model {self.name}",
                expected=f"{len(tracks)} scores from 0 to 1",
                found=str(scores)[:60],
            )
        # A score belongs to a box or an instance: for an image, each mask's box is answered too.
        scored_image = len(media) == 1 and bool(scores)
        items = [Item(box=extent(track[0])) for track in tracks] if scored_image else []
        # one function for each object, which returns its track
        instances = [partial(itemgetter(number), tracks) for number in range(len(tracks))]
        pending = mask_answer(
            form,
            items,
            lambda: joint,
            nothing=not tracks,
            is_image=scored_image,
            instances=instances if query.instances else (),
        )

        def with_scores() -> Answer:
            answer = pending()
            has_objects = answer.boxes or answer.instances
            return replace(answer, box_scores=scores) if scores and has_objects else answer

        return with_scores

    def _checked_mask(self, mask: object) -> BoolArray:
        """Return a mask as an array; raise ModelError if its dtype is not bool."""
        array = np.asarray(mask)
        if array.dtype != np.bool_:
            raise ModelError(
                f"model {self.name}",
                expected="masks of booleans",
                found=f"one of {array.dtype}",
                fix="Compare logits with 0, or confidences with 0.5, on the original image.",
            )
        return array

    def write(self, query: Query, answer: Answer) -> tuple[str, ...]:
        """Return the texts of responses that express `answer`, one a form; empty for masks.

        Raises:
            UsageError: this model cannot be asked for such an answer.
        """
        return tuple(
            "" if form in MASKED else self._answer_prompt(form).write(form, answer)
            for form in query.forms
        )


def _usage(query: Query, responses: Sequence[MaskResponse]) -> Usage:
    """Sum tokens and frames over the responses; one that states no frames saw all of them."""
    all_frames = sum(map(len, query.media))
    return Usage(
        prompt_tokens=sum(response.prompt_tokens for response in responses),
        completion_tokens=sum(response.completion_tokens for response in responses),
        frames=sum(
            all_frames if response.frames is None else response.frames for response in responses
        ),
    )
