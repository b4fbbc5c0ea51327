"""The SAM 3 agent: a VLM that was not trained for it segments by calling SAM 3 with phrases."""

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
from harness.models.sam3_agent.agent import ROUNDS, Agent, AgentRun, say, texts
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

MOST = 100
"""Masks that a written response selects; the official prompt allows no higher number."""

OFFICIAL = ("system_prompt.txt", "system_prompt_iterative_checking.txt")


@dataclass(frozen=True, kw_only=True)
class Sam3Agent(Agent, ConversingModel[AgentRun]):
    """A VLM that calls SAM 3, turn by turn, and picks among the masks that it finds.

    Of a video one frame is shown and segmented, from which its masks are carried to the others; the
    official agent knows images alone. A conversation that it would end with an error is a failure.
    """

    segmenter: Segmenter
    propagator: Propagator
    prompts: Literal["ours", "official"] = "ours"
    """Author of `system` and `judge`."""
    name = "sam3_agent"

    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record: every setting, and what is said."""
        return {
            "name": self.name,
            "chat": dict(self.chat.describe()),
            "prompts": self.prompts,
            "texts": {**texts(), "system": self.system, "judge": self.judge},
            "segmenter": settings(self.segmenter),
            "propagator": settings(self.propagator),
            "max_rounds": self.max_rounds,
            "max_new_tokens": self.max_new_tokens,
            "batch_size": self.batch_size,
        }

    @property
    def forms(self) -> frozenset[AnswerForm]:
        """Forms of answer that it can give."""
        return MASKED

    @property
    def missing_parts(self) -> Mapping[AnswerForm, str]:
        """Forms of videos, without a propagator."""
        return missing_parts(self.segmenter, self.propagator)

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of its parts."""
        return self.chat.devices + self.segmenter.devices + self.propagator.devices

    def prepare(self) -> None:
        """Load all parts, so that a failure to load fails no sample.

        Raises:
            UsageError: the segmenter does not find the objects of a phrase.
        """
        self.segmenter.find_instances(np.zeros((1, 1, 3), dtype=np.uint8), "")
        for part in (self.chat, self.segmenter, self.propagator):
            part.prepare()

    def with_perception(self, segmenter: Segmenter, propagator: Propagator) -> Self:
        """Return the same model with another segmenter and propagator."""
        return replace(self, segmenter=segmenter, propagator=propagator)

    def requests(self, query: Query) -> tuple[ChatRequest, ...]:
        """Return the first request: one, whatever the query's forms of answer are.

        Raises:
            UsageError: this model cannot be asked for such an answer.
        """
        self._check(query)
        return (self.request(AgentRun(query)),)

    def _check(self, query: Query) -> None:
        if unknown := [form for form in query.forms if form not in self.forms]:
            raise UsageError(
                f"{self.name}: a question for {unknown[0]}",
                expected=f"one of {', '.join(sorted(self.forms))}",
                found=str(unknown[0]),
            )

    def looks_at(self, query: Query) -> tuple[tuple[int, ...], ...]:
        """Return the frame that is shown, of the first medium."""
        return ((len(query.media[0]) // 2,), *(() for _ in query.media[1:]))

    def conversation(self, query: Query) -> Conversation[AgentRun]:
        """Converse about one query to the end."""
        self._check(query)
        return self.converse(AgentRun(query))

    def begin(self, query: Query, result: AgentRun) -> Callable[[], Prediction]:
        """Return the function that carries the masks through a video."""
        return lambda: result.result.with_usage(self._prediction(result))

    def read(
        self, query: Query, responses: Sequence[str], calls: Sequence[Call] = ()
    ) -> Prediction:
        """Read a conversation's responses, verdicts included: phrases are segmented again."""
        del calls
        run, left = AgentRun(query), list(responses)
        conversation = ConversationScheduler([self.converse(run)])
        while places := conversation.pending_places():
            if len(left) < len(places):
                run.error = "the conversation has no end"
                break
            for place in places:
                conversation.receive(place, ChatResponse(text=left.pop(0)))
        return self._prediction(run)

    def write(self, query: Query, answer: Answer) -> tuple[str, ...]:
        """Return a conversation that `read` reads as `answer`: the query is the phrase."""
        self._check(query)
        if answer.no_target:
            return (_call("report_no_mask", {}),)
        rule = len(query.media[0]) // 2
        start = key_frame_of(answer, rule)
        named = frame_tag(None if start == rule else start)
        return (
            named + _call("segment_phrase", {"text_prompt": query.text}),
            _call("select_masks_and_return", {"final_answer_masks": list(range(1, MOST + 1))}),
        )

    @cached_property
    def _thread(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, thread_name_prefix="sam3-agent")

    def segment(self, media: Media, frame: int, phrase: str) -> Future[list[Instance]]:
        """Find instances in another thread, those of all conversations one by one."""
        return self._thread.submit(
            lambda: list(self.segmenter.find_instances(media.frame(frame), phrase))
        )

    def _prediction(self, run: AgentRun) -> Prediction:
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
        texts = tuple(storable(response.text + response.stopped) for _, response in run.said)
        answer = None
        if chosen is not None:
            masks = [instance.mask for instance in chosen]
            tracks = [
                cache(partial(carried_masks, self.propagator, media, run.frame, group))
                for group in ([[mask] for mask in masks] if query.instances and masks else [masks])
            ]
            answer = combine_answers(
                [
                    objects_answer(query, form, items, tracks, nothing=not chosen)
                    for form in query.forms
                ]
            )
            if answer.boxes or answer.instances:
                answer = replace(answer, box_scores=tuple(instance.score for instance in chosen))
        count = self.chat.count_tokens
        return Prediction(
            query_id=query.id,
            answer=answer,
            failure=None if chosen is not None else Failure(FailureKind.PARSE, run.error),
            responses=texts,
            parsed=tuple(replace(parsed, form=form) for form in query.forms),
            usage=Usage(
                completion_tokens=sum(map(count, texts)),
                reasoning_tokens=sum(count(reasoning(text)) for text in texts),
                frames=1,
            ),
            notes=(f"phrases: {', '.join(map(repr, run.used))}",) if run.used else (),
        )


def _call(name: str, parameters: Mapping[str, object]) -> str:
    call = json.dumps({"name": name, "parameters": parameters})
    return f"<think></think><tool>{call}</tool>"


def official_prompts(folder: Path) -> tuple[str, str]:
    """Read the official system messages: of the rounds, and about one mask.

    Raises:
        UsageError: they are not there.
    """
    try:
        system, judge = (read_text(folder / name).strip() for name in OFFICIAL)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"sam3_agent(prompts={folder})", expected=" and ".join(OFFICIAL), found=str(error)
        ) from error
    return system, judge


@with_options(
    Composition,
    without=("keyframe", "frames", "system"),
    segmenter=Spec("sam3"),
    max_new_tokens=4096,
)
def sam3_agent(
    parts: Composition, *, max_rounds: int = ROUNDS, prompts: Path | None = None
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
