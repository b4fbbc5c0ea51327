"""Read responses into answers: grammar → canvas → segmenter → propagator → answer; and write them.

Reading does not depend on who wrote a response: `read` is used for the network's responses, for
stored ones, and for perfect ones that `write` made from the ground truth.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain

from harness.errors import ParseError
from harness.models.answers import MASKED, Pending, box_answer, combine_answers, objects_answer
from harness.models.around_places import refuse_other_subject
from harness.models.canvas import Canvas
from harness.models.grammar import Item, ParseResult, several_answers
from harness.models.places import refuse_other_meaning, refuse_other_objects, refuse_other_scale
from harness.models.prompted_requests import LOCATED, PromptedRequests
from harness.models.questions import stated_count
from harness.models.response_writer import key_frame_of, objects_of
from harness.models.signs import families_of
from harness.models.tracks import joint_masks, prompts_of
from harness.responses import Which, storable
from harness.stated.corrections import answer_lines
from harness.stated.numerals import numerals
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

LOCATE = "qwen_vl(backend=stored,prompt=locate)"
"""Model that counts in words, and boxes and points as Qwen-VL writes them."""
PLACES = re.compile(r"[(\[]\s*\d+(?:\.\d+)?\s*,\s*\d+(?:\.\d+)?\s*[,)\]]")
"""The beginning of a box or of a point."""
OWN_MASK = re.compile(
    r"(?i:[\"'](?:(?:\w{1,20}_)?masks?|segmentations?|rle|polygons?)[\"'])\s{0,9}:\s{0,9}"
    r"(?:[\"'](?:data:image/|iVBOR|<(?:start_of_mask|seg)|[A-Za-z0-9+/]{40})|\[\s{0,9}[\[\d]"
    r"|\{\s{0,9}[\"'](?:counts|size))"
)
"""The beginning of a mask in a response, beside a box: `"mask": "data:image/png;…"`."""


@dataclass(frozen=True, kw_only=True)
class PromptedReader(PromptedRequests):
    """Reads the responses to its requests, and writes the response that would read as an answer.

    The segmenter makes one mask for each object on the original image; masks are joined by OR. In
    a video each object is first propagated from the key frame forward and backward. A response
    without objects is NO_TARGET (empty masks, no boxes, or a count of 0); a response outside the
    grammar is a failure.
    """

    def read(
        self, query: Query, responses: Sequence[str], calls: Sequence[Call] = ()
    ) -> Prediction:
        """Return the prediction that responses give: one response for each form, in that order.

        The text is read in its storable form, so that reading it again from a record gives the
        same answer. If a query has several forms and some responses are unreadable, the others
        still count and notes name the problems; if none is readable, the prediction is a failure.

        Args:
            query: The question; it holds the media and the forms.
            responses: The network's texts.
            calls: Calls of a record; the canvas sizes in them are preferred to the model's own.
        """
        return self.reading(query, responses, calls)()

    def reading(
        self, query: Query, responses: Sequence[str], calls: Sequence[Call] = ()
    ) -> Pending[Prediction]:
        """Parse and segment now; return a function that propagates and gives the prediction.

        Arguments are those of `read`.
        """
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
                which: Which = "first" if form in LOCATED else self.words.answer_tag
                answer_text = after_thought(text)
                lines = 0 if form in LOCATED else len(answer_lines(answer_text))
                notes.extend((*repairs, *several_answers(answer_text.count("<answer>"), which)))
                notes.extend(several_answers(lines, "last"))
        is_failure = len(problems) >= len(query.forms) or len(texts) != len(query.forms)
        failure = Failure(FailureKind.PARSE, "; ".join(problems)) if is_failure else None
        usage = self._usage(query, texts)
        return lambda: Prediction(
            query_id=query.id,
            answer=None if is_failure else combine_answers(parts),
            failure=failure,
            responses=texts,
            parsed=tuple(parsed),
            usage=usage,
            notes=(*notes, *([] if is_failure else problems)),
        )

    def write(self, query: Query, answer: Answer) -> tuple[str, ...]:
        """Return the responses that `read` reads as `answer`, up to rounding; one for each form.

        Each instance of a mask becomes one object, or each connected part if the answer has no
        instances. A count becomes that many boxes. A track is written for the model's key frame;
        if it is empty there, for the frame where it is largest, and the response names that frame.
        """
        return tuple(
            self._located_text(query, form, answer)
            if form in LOCATED
            else self.words.write(form, answer)
            for form in query.forms
        )

    def _is_readable(self, query: Query, form: AnswerForm, response: str) -> bool:
        """Return True if `read` finds an answer of this form; nothing is segmented."""
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

    def _counted(self, n_objects: int) -> Answer:
        """Return the answer for a count that a response states in words ("There are 9 dogs.").

        Raises:
            ParseError: this model, as its authors use it, counts the places that it names.
        """
        if not self.counts_in_words:
            raise ParseError(
                "count",
                expected="places, which are counted",
                found=f"{n_objects} in words",
                fix=f"{LOCATE} reads counts in words.",
            )
        return Answer(count=n_objects)

    def _canvas(self, query: Query, form: AnswerForm, calls: Sequence[Call] = ()) -> Canvas:
        """Return the canvas of the response's numbers: the recorded one, or else the model's own.

        A record holds the size in which the network saw the image, by the key of the call.
        """
        key = "" if len(query.forms) == 1 else f":{form}"
        requests = [call.request for call in calls if call.key in (key, f"{key}:again")]
        recorded = [request.shown[0].canvas for request in requests if request.shown]
        size = recorded[-1] if recorded else None
        if size is None:
            return self.canvas(self._request(query, form))
        return Canvas.for_image(self.meaning, query.size, seen=lambda: size)

    def _usage(self, query: Query, responses: Sequence[str]) -> Usage:
        media_frames = chain.from_iterable(
            self._shown_frames(query, located=form in LOCATED) for form in query.forms
        )
        return Usage(
            completion_tokens=sum(map(self.chat.count_tokens, responses)),
            reasoning_tokens=sum(
                self.chat.count_tokens(reasoning(response)) for response in responses
            ),
            frames=sum(map(len, media_frames)),
        )

    def _part(
        self, query: Query, form: AnswerForm, response: str, calls: Sequence[Call]
    ) -> tuple[Pending[Answer], Parsed, tuple[str, ...]]:
        """Return one form's answer, what was parsed of its response, and notes of repairs.

        Raises:
            ParseError: the response has no answer of this form.
        """
        if form not in LOCATED:
            answer = self.words.read(query, form, response)
            return lambda: answer, Parsed(form=form), ()
        try:
            output, start, canvas = self._read_places(query, form, response, calls)
        except ParseError:
            n_stated = stated_count(response, query.text) if form is AnswerForm.COUNT else None
            if n_stated is None:
                raise
            counted = self._counted(n_stated)
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
        """Return the objects of a response, the frame they are in, and the canvas of their numbers.

        Raises:
            ParseError: the response is outside the grammar, its numbers contradict the canvas, or
                its words say that the places are not those of the object asked for.
        """
        if form in MASKED and (own := OWN_MASK.search(after_thought(response))):
            raise ParseError(
                "response",
                expected="places, from which the segmenter makes masks",
                found=f"a mask of the model's own, {own[0]}…",
                fix="Write it as `masks` (docs/predictions.md).",
            )
        output = self.prompt.parse(response)
        if output.error is not None:
            is_count = form is AnswerForm.COUNT and not self.counts_in_words
            said = after_thought(response)
            is_in_words = not {*"{[<"} & {*said} and next(numerals(said), None) is not None
            hint = ""
            if is_count and PLACES.search(response):
                hint = f". {LOCATE} reads Qwen's own form of boxes and points"
            elif is_count and is_in_words:
                hint = f". {LOCATE} reads counts in words"
            if form is AnswerForm.COUNT and self.counts_in_words:
                hint = ", and no certain count in words"
            raise ParseError(f"{output.error}{hint}{self._other_families(response)}")
        start, canvas = self._start(query, form, output), self._canvas(query, form, calls)
        if output.items:
            try:
                refuse_other_scale(output.items, canvas)
            except ParseError as error:
                raise ParseError(f"{error}{self._other_families(response)}") from error
            answer_text = after_thought(response)
            refuse_other_meaning(answer_text, canvas)
            refuse_other_subject(query.text, answer_text)
            refuse_other_objects(query.text, output.items)
        return output, start, canvas

    def _other_families(self, response: str) -> str:
        """Return which dialects read the form of a response, unless the prompt's does; else ""."""
        families = families_of(response)
        if not families or self.prompt.name in families:
            return ""
        models = " or ".join(f"vlm(backend=stored,dialect={name})" for name in families)
        return f". {models} reads this form"

    def _locate(
        self, query: Query, form: AnswerForm, start: int, items: Sequence[Item], phrase: str
    ) -> Pending[Answer]:
        """Return the answer that objects (in pixels of frame `start`) and a phrase give.

        Objects are segmented together, or one by one if the query asks for instances.
        """
        if form not in MASKED:
            return box_answer(form, items, phrase=phrase)
        media, nothing = query.media[0], not items and not phrase
        groups = [[item] for item in items] if query.instances and items else [items]
        masks = [
            cache(joint_masks(self.segmenter, self.propagator, media, start, group, phrase=phrase))
            for group in groups
        ]
        return objects_answer(query, form, items, masks, nothing=nothing)

    def _count_objects(self, form: AnswerForm, response: str) -> int:
        """Return the number of objects of a response that get masks; 0 if it is unreadable."""
        if form not in MASKED:
            return 0
        try:
            output = self.prompt.parse(storable(response))
        except ParseError:
            return 0
        return len(prompts_of(output.items, output.phrase)) if output.ok else 0

    def _start(self, query: Query, form: AnswerForm, output: ParseResult) -> int:
        """Return the frame that the objects are in: the one that is named, or the key frame.

        Raises:
            ParseError: the named frame does not exist, or the response had to name one.
        """
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
        """Return the response that names the objects of `answer` in the grammar."""
        key_frame = self._key_frame(query.media[0])
        start = key_frame_of(answer, key_frame)
        items = [] if answer.no_target else objects_of(form, answer, start, query.size)
        canvas = self._canvas(query, form)
        names_frame = start != key_frame or self.must_name(query, form)
        return self.prompt.write(
            [canvas.to_canvas(item._replace(phrase=query.text)) for item in items],
            frame=start if names_frame else None,
        )


def _to_parsed(item: Item) -> ParsedObject:
    """Return an object for the record; `item` is in pixels of the image."""
    return ParsedObject(
        box=item.box,
        positive=tuple(point for point in (item.point, item.second) if point is not None),
        negative=() if item.negative is None else (item.negative,),
        phrase=storable(item.phrase),
    )
