"""The plugin `sam3_agent`: an untrained VLM that segments by calling SAM 3 with phrases.

`agent.py` has the conversation; this module connects it to the backend, reads recorded responses,
and makes predictions of the chosen masks.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Literal, Self

import numpy as np

from harness.chat import ChatRequest, ChatResponse, Conversation
from harness.errors import UsageError
from harness.files import read_text
from harness.media import Media
from harness.models.answers import MASKED, combine_answers, objects_answer
from harness.models.composition import Composition
from harness.models.default_parts import missing_parts
from harness.models.grammar import Item, frame_tag
from harness.models.multi_turn import ConversationScheduler, ConversingModel
from harness.models.response_writer import key_frame_of
from harness.models.sam3_agent.agent import MAX_ROUNDS, Agent, AgentRun, message_templates, say
from harness.models.tracks import carried_masks, extent
from harness.options import with_options
from harness.responses import storable
from harness.segmentation import Instance, Propagator, Segmenter, settings
from harness.spec import Spec
from harness.thoughts import reasoning
from harness.types import (
    Answer,
    AnswerForm,
    Call,
    Failure,
    FailureKind,
    Parsed,
    ParsedObject,
    Prediction,
    Query,
    Usage,
)

MAX_SELECTED = 100
"""Number of masks that a written response selects, the largest in the official prompt."""

OFFICIAL_FILES = ("system_prompt.txt", "system_prompt_iterative_checking.txt")
"""Files of the official system messages: of the rounds, and about a single mask."""


@dataclass(frozen=True, kw_only=True)
class Sam3Agent(Agent, ConversingModel[AgentRun]):
    """A VLM that calls SAM 3, turn by turn, and selects among the masks that it finds.

    The official agent is for images only. In a video, one frame is shown and segmented, and the
    propagator carries the masks to the others. A conversation that the official code would end with
    an error is a failure.
    """

    segmenter: Segmenter
    propagator: Propagator
    prompts: Literal["ours", "official"] = "ours"
    """Origin of `system` and `judge`: this project's texts, or those of a checkout."""
    name = "sam3_agent"

    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record: every setting, and the texts of all messages."""
        return {
            "name": self.name,
            "chat": dict(self.chat.describe()),
            "prompts": self.prompts,
            "texts": {**message_templates(), "system": self.system, "judge": self.judge},
            "segmenter": settings(self.segmenter),
            "propagator": settings(self.propagator),
            "max_rounds": self.max_rounds,
            "max_new_tokens": self.max_new_tokens,
            "batch_size": self.batch_size,
        }

    @property
    def forms(self) -> frozenset[AnswerForm]:
        """Forms of answer that this model can give."""
        return MASKED

    @property
    def missing_parts(self) -> Mapping[AnswerForm, str]:
        """Forms of answer that need a segmenter or propagator that is missing, with the reason."""
        return missing_parts(self.segmenter, self.propagator)

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of the VLM, the segmenter and the propagator."""
        return self.chat.devices + self.segmenter.devices + self.propagator.devices

    def prepare(self) -> None:
        """Load all parts, so that a failure to load fails no sample.

        Raises:
            UsageError: the segmenter cannot be prompted with a phrase.
        """
        # Raises for a segmenter without phrases; others find no instance of a blank phrase.
        self.segmenter.find_instances(np.zeros((1, 1, 3), dtype=np.uint8), "")
        for part in (self.chat, self.segmenter, self.propagator):
            part.prepare()

    def with_perception(self, segmenter: Segmenter, propagator: Propagator) -> Self:
        """Return the same model with another segmenter and propagator."""
        return replace(self, segmenter=segmenter, propagator=propagator)

    def requests(self, query: Query) -> tuple[ChatRequest, ...]:
        """Return the first request; there is one, however many forms of answer a query has.

        Raises:
            UsageError: this model cannot be asked for such an answer.
        """
        self._check(query)
        return (self.request(AgentRun(query)),)

    def _check(self, query: Query) -> None:
        """Raise UsageError if the query asks for a form that is not answered with masks."""
        if unknown := [form for form in query.forms if form not in self.forms]:
            raise UsageError(
                f"{self.name}: a question for {unknown[0]}",
                expected=f"one of {', '.join(sorted(self.forms))}",
                found=str(unknown[0]),
            )

    def looks_at(self, query: Query) -> tuple[tuple[int, ...], ...]:
        """Return the frames that are shown: the middle one of the first medium."""
        return ((len(query.media[0]) // 2,), *(() for _ in query.media[1:]))

    def conversation(self, query: Query) -> Conversation[AgentRun]:
        """Return the conversation about one query."""
        self._check(query)
        return self.converse(AgentRun(query))

    def begin(self, query: Query, result: AgentRun) -> Callable[[], Prediction]:
        """Return the function that propagates the chosen masks and gives the prediction."""
        return lambda: result.result.with_usage(self._prediction(result))

    def read(
        self, query: Query, responses: Sequence[str], calls: Sequence[Call] = ()
    ) -> Prediction:
        """Return the prediction of a conversation's responses; its phrases are segmented again.

        `responses` includes the verdicts on single masks, in the order of the requests.
        """
        del calls
        run, remaining = AgentRun(query), list(responses)
        conversation = ConversationScheduler([self.converse(run)])
        while pending := conversation.pending_indices():
            if len(remaining) < len(pending):
                run.error = "the conversation has no end"
                break
            for index in pending:
                conversation.receive(index, ChatResponse(text=remaining.pop(0)))
        return self._prediction(run)

    def write(self, query: Query, answer: Answer) -> tuple[str, ...]:
        """Return the responses that would give `answer` with a perfect segmenter.

        The query's text is the phrase, and all masks are selected.
        """
        self._check(query)
        if answer.no_target:
            return (_call("report_no_mask", {}),)
        middle = len(query.media[0]) // 2
        start = key_frame_of(answer, middle)
        tag = frame_tag(None if start == middle else start)
        return (
            tag + _call("segment_phrase", {"text_prompt": query.text}),
            _call("select_masks_and_return", {"final_answer_masks": [*range(1, MAX_SELECTED + 1)]}),
        )

    @cached_property
    def _thread(self) -> ThreadPoolExecutor:
        """The only thread that segments."""
        return ThreadPoolExecutor(1, thread_name_prefix="sam3-agent")

    def segment(self, media: Media, frame: int, phrase: str) -> Future[list[Instance]]:
        """Find instances in a thread, which segments for one conversation at a time."""
        return self._thread.submit(
            lambda: list(self.segmenter.find_instances(media.frame(frame), phrase))
        )

    def _prediction(self, run: AgentRun) -> Prediction:
        """Return the prediction of a finished conversation; without an answer it is a failure."""
        query, media, chosen = run.query, run.query.media[0], run.chosen
        items = [Item(box=extent(instance.mask), phrase=run.phrase) for instance in chosen or ()]
        parsed = Parsed(
            form=query.form,
            objects=tuple(
                ParsedObject(box=item.box, phrase=storable(run.phrase)) for item in items
            ),
            frame=run.frame if media.is_video else None,
            error=storable(run.error, 2000),
        )
        responses = tuple(
            storable(response.text + response.stopped) for _, response in run.exchanges
        )
        answer = None
        if chosen is not None:
            masks = [instance.mask for instance in chosen]
            groups = [[mask] for mask in masks] if query.instances and masks else [masks]
            tracks = [
                cache(partial(carried_masks, self.propagator, media, run.frame, group))
                for group in groups
            ]
            answer = combine_answers(
                [
                    objects_answer(query, form, items, tracks, nothing=not chosen)
                    for form in query.forms
                ]
            )
            if answer.boxes or answer.instances:
                answer = replace(answer, box_scores=tuple(instance.score for instance in chosen))
        count_tokens = self.chat.count_tokens
        return Prediction(
            query_id=query.id,
            answer=answer,
            failure=None if chosen is not None else Failure(FailureKind.PARSE, run.error),
            responses=responses,
            parsed=tuple(replace(parsed, form=form) for form in query.forms),
            usage=Usage(
                completion_tokens=sum(map(count_tokens, responses)),
                reasoning_tokens=sum(count_tokens(reasoning(text)) for text in responses),
                frames=1,
            ),
            notes=(f"phrases: {', '.join(map(repr, run.used))}",) if run.used else (),
        )


def _call(name: str, parameters: Mapping[str, object]) -> str:
    """Return the response, without reasoning, that calls a tool."""
    call = json.dumps({"name": name, "parameters": parameters})
    return f"<think></think><tool>{call}</tool>"


def official_prompts(folder: Path) -> tuple[str, str]:
    """Return the official system messages: of the rounds, and about a single mask.

    Raises:
        UsageError: the files cannot be read.
    """
    try:
        system, judge = (read_text(folder / name).strip() for name in OFFICIAL_FILES)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"sam3_agent(prompts={folder})", expected=" and ".join(OFFICIAL_FILES), found=str(error)
        ) from error
    return system, judge


@with_options(
    Composition,
    without=("keyframe", "frames", "system"),
    segmenter=Spec("sam3"),
    max_new_tokens=4096,
)
def sam3_agent(
    parts: Composition, *, max_rounds: int = MAX_ROUNDS, prompts: Path | None = None
) -> Sam3Agent:
    """The agent of the SAM 3 repository: any VLM, without training, calls SAM 3 with phrases.

    Args:
        max_rounds: Results of tools that are sent back, at most.
        prompts: The folder sam3/agent/system_prompts of a checkout of facebookresearch/sam3, whose
            system messages take the place of ours.
        segmenter: Finds all objects of a phrase, which `sam3` does.
        propagator: Carries the masks of a video's middle frame through it; the agent knows no
            videos.
        max_new_tokens: Longest response of a round; 4096 as in the official client.
    """
    system, judge = (say("system"), say("judge")) if prompts is None else official_prompts(prompts)
    built = parts.build(method="sam3_agent")
    return Sam3Agent(
        system=system,
        judge=judge,
        prompts="ours" if prompts is None else "official",
        chat=built["chat"],
        segmenter=built["segmenter"],
        propagator=built["propagator"],
        max_rounds=max_rounds,
        max_new_tokens=parts.max_new_tokens,
        batch_size=parts.batch_size,
    )
