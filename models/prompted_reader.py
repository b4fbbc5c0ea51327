"""Responses read and written: grammar → canvas → segmenter → propagator → answer.

Reading a response does not depend on who wrote it: `read` is used for the network's responses, for
stored ones, and for perfect ones that `write` wrote from the ground truth.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from harness.errors import ParseError
from harness.models.answers import MASKED, Pending, box_answer, combine_answers, objects_answer
from harness.models.around_places import refuse_other_subject
from harness.models.canvas import Canvas
from harness.models.grammar import Item, ParseResult, several_answers
from harness.models.places import refuse_other_meaning, refuse_other_objects, refuse_other_scale
from harness.models.prompted_requests import LOCATED, PromptedRequests
from harness.models.questions import stated_count
from harness.models.response_writer import key_frame_of, objects_of
from harness.models.tracks import joint_masks, prompts_of
from harness.responses import Which, storable
from harness.stated.corrections import answer_lines
from harness.thoughts import after_thought, reasoning
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


@dataclass(frozen=True, kw_only=True)
class PromptedReader(PromptedRequests):
    """Reads the responses to its requests, and writes the response that reads as an answer.

    Masks are made on the original image, one prompt an object, and joined by OR; in a video
    every object is propagated from the key frame both ways first. A response without objects is
    NO_TARGET (with empty masks, no boxes, or a count of 0); one outside the grammar is a failure.
    """

    def read(
        self, query: Query, responses: Sequence[str], calls: Sequence[Call] = ()
    ) -> Prediction:
        """Read responses, one a form of the query, in the order of its forms.

        The text is read as it can be stored, so that reading it again from a record gives the same
        answer. A product of forms is answered as far as its responses can be read; notes name the
        others.
        """
        return self.reading(query, responses, calls)()

    def reading(
        self, query: Query, responses: Sequence[str], calls: Sequence[Call] = ()
    ) -> Pending[Prediction]:
        """Read and segment at once; return a function that propagates and gives the result."""
        texts = tuple(storable(response) for response in responses)
        parts: list[Pending[Answer]] = []
        parsed: list[Parsed] = []
        problems: list[str] = []
        notes: list[str] = []
        if len(texts) != len(query.forms):
            problems = [f"expected {len(query.forms)} responses, found {len(texts)}"]
        for form, text in zip(query.forms, texts, strict=False):
            try:
                part, read, repairs = self._part(query, form, text, calls)
            except ParseError as error:
                problems.append(f"{form}: {error}")
                parsed.append(Parsed(form=form, error=storable(str(error), 2000)))
            else:
                parts.append(part)
                parsed.append(read)
                which: Which = "first" if form in LOCATED else self.words.counts
                said = after_thought(text)
                lines = 0 if form in LOCATED else len(answer_lines(said))
                notes.extend((*repairs, *several_answers(said.count("<answer>"), which)))
                notes.extend(several_answers(lines, "last"))
        unread = len(problems) >= len(query.forms) or len(texts) != len(query.forms)
        failure = Failure(FailureKind.PARSE, "; ".join(problems)) if unread else None
        usage = self._usage(query, texts)
        return lambda: Prediction(
            query_id=query.id,
            answer=None if unread else combine_answers(parts),
            failure=failure,
            responses=texts,
            parsed=tuple(parsed),
            usage=usage,
            notes=(*notes, *([] if unread else problems)),
        )

    def write(self, query: Query, answer: Answer) -> tuple[str, ...]:
        """Return the responses that `read` reads as `answer`: its inverse, up to rounding.

        A mask is written as one object an instance, or a connected part where the answer does not
        tell instances apart; COUNT as so many boxes. A track is written for the key frame of the
        rule; if it is empty there, for the frame where it is largest, which the response then
        names.
        """
        return tuple(
            self._located_text(query, form, answer)
            if form in LOCATED
            else self.words.write(form, answer)
            for form in query.forms
        )

    def _is_readable(self, query: Query, form: AnswerForm, response: str) -> bool:
        text = storable(response)
        try:
            if form not in LOCATED:
                self.words.read(query, form, text)
                return True
            self._read_places(query, form, text)
        except ParseError:
            is_count = form is AnswerForm.COUNT and self.counts_in_words
            return is_count and stated_count(text, query.text) is not None
        return True

    def _counted(self, count: int) -> Answer:
        """Return the answer of a count in words.

        Raises:
            ParseError: this model counts by the places of its grammar, as its authors read it.
        """
        if not self.counts_in_words:
            raise ParseError(
                "count",
                expected="places, which are counted",
                found=f"{count} in words",
                fix="qwen_vl(backend=stored,prompt=locate) reads counts in words.",
            )
        return Answer(count=count)

    def _canvas(self, query: Query, form: AnswerForm, calls: Sequence[Call] = ()) -> Canvas:
        """Return the canvas in the record of the calls, or else this model's own."""
        key = "" if len(query.forms) == 1 else f":{form}"
        own = (call.request for call in calls if call.key in (key, f"{key}:again"))
        seen = [request.shown[0].canvas for request in own if request.shown]
        if seen and (size := seen[-1]) is not None:
            return Canvas.for_image(self.meaning, query.size, seen=lambda: size)
        return self.canvas(self._request(query, form))

    def _usage(self, query: Query, responses: Sequence[str]) -> Usage:
        shown = (self._shown_frames(query, located=form in LOCATED) for form in query.forms)
        return Usage(
            completion_tokens=sum(map(self.chat.count_tokens, responses)),
            reasoning_tokens=sum(
                self.chat.count_tokens(reasoning(response)) for response in responses
            ),
            frames=sum(len(frames) for media in shown for frames in media),
        )

    def _part(
        self, query: Query, form: AnswerForm, response: str, calls: Sequence[Call]
    ) -> tuple[Pending[Answer], Parsed, tuple[str, ...]]:
        if form not in LOCATED:
            answer = self.words.read(query, form, response)
            return lambda: answer, Parsed(form=form), ()
        try:
            output, start, canvas = self._read_places(query, form, response, calls)
        except ParseError:
            count = stated_count(response, query.text) if form is AnswerForm.COUNT else None
            if count is None:
                raise
            counted = self._counted(count)
            return lambda: counted, Parsed(form=form), ("the count is read from words",)
        items = [canvas.to_image(item) for item in output.items]
        parsed = Parsed(
            form=form,
            objects=tuple(map(_to_parsed, items)),
            phrase=storable(output.phrase),
            frame=start if len(query.media[0]) > 1 else None,
            outside=sum(map(canvas.count_outside, output.items)),
            repairs=output.notes,
        )
        return self._locate(query, form, start, items, output.phrase), parsed, output.notes

    def _read_places(
        self, query: Query, form: AnswerForm, response: str, calls: Sequence[Call] = ()
    ) -> tuple[ParseResult, int, Canvas]:
        """Return what a response says about places, in which frame, and the canvas of its numbers.

        Raises:
            ParseError: it is not in the grammar, or its places are not what was asked for.
        """
        output = self.prompt.parse(response)
        if output.error is not None:
            raise ParseError(output.error)
        start, canvas = self._start(query, form, output), self._canvas(query, form, calls)
        if output.items:
            refuse_other_scale(output.items, canvas)
            said = after_thought(response)
            refuse_other_meaning(said, canvas)
            refuse_other_subject(query.text, said)
            refuse_other_objects(query.text, output.items)
        return output, start, canvas

    def _locate(
        self, query: Query, form: AnswerForm, start: int, items: Sequence[Item], phrase: str
    ) -> Pending[Answer]:
        if form not in MASKED:
            return box_answer(form, items, phrase=phrase)
        media, nothing = query.media[0], not items and not phrase
        apart = [[item] for item in items] if query.instances and items else [items]
        masks = [
            cache(joint_masks(self.segmenter, self.propagator, media, start, group, phrase=phrase))
            for group in apart
        ]
        return objects_answer(query, form, items, masks, nothing=nothing)

    def _count_objects(self, form: AnswerForm, response: str) -> int:
        """Return the number of objects in a response that masks are made of."""
        if form not in MASKED:
            return 0
        try:
            output = self.prompt.parse(storable(response))
        except ParseError:
            return 0
        return len(prompts_of(output.items, output.phrase)) if output.ok else 0

    def _start(self, query: Query, form: AnswerForm, output: ParseResult) -> int:
        media = query.media[0]
        if output.frame is not None:
            if output.frame >= len(media):
                raise ParseError(
                    "frame", expected=f"0 to {len(media) - 1}", found=str(output.frame)
                )
            return output.frame
        if self.must_name(query, form) and (output.items or output.phrase):
            raise ParseError("response", expected="<frame>k</frame> at its beginning", found="none")
        return self._key_frame(media)

    def _located_text(self, query: Query, form: AnswerForm, answer: Answer) -> str:
        rule = self._key_frame(query.media[0])
        start = key_frame_of(answer, rule)
        items = [] if answer.no_target else objects_of(form, answer, start, query.size)
        canvas = self._canvas(query, form)
        named = start != rule or self.must_name(query, form)
        return self.prompt.write(
            [canvas.to_canvas(item._replace(phrase=query.text)) for item in items],
            frame=start if named else None,
        )


def _to_parsed(item: Item) -> ParsedObject:
    """Return an object for the record; `item` is in pixels of the image."""
    return ParsedObject(
        box=item.box,
        positive=tuple(point for point in (item.point, item.second) if point is not None),
        negative=() if item.negative is None else (item.negative,),
        phrase=storable(item.phrase),
    )
