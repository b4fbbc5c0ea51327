"""The plugin `one_thinker`: one VLM for questions, grounding in time and space, and masks by SAM 2.

It replaces what `PromptedModel` does for answers about places (boxes, tracks and masks): these are
JSON with OneThinker's keys, with times in seconds instead of frame numbers, and the response itself
states the boxes of a track.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from harness.chat import ChatRequest
from harness.models.answers import Pending, objects_answer
from harness.models.canvas import Canvas
from harness.models.composition import Composition
from harness.models.frame_selection import pixel_budget
from harness.models.grammar import Item, numerals, read_box
from harness.models.one_thinker.grammar import (
    Places,
    Prompted,
    Wording,
    fields_of,
    official_templates,
    read_prompt,
    read_track,
    write_prompt,
)
from harness.models.pipeline import PromptedModel
from harness.models.places import refuse_other_meaning, refuse_other_scale
from harness.models.response_writer import key_frame_of, objects_in
from harness.models.tracks import box_at, carried_masks
from harness.models.video_str.grammar import answer_response
from harness.options import with_options
from harness.segmentation import ObjectPrompt
from harness.spec import parse
from harness.thoughts import after_thought
from harness.types import Answer, AnswerForm, Call, Parsed, ParsedObject, Point, Query

FORM = AnswerForm
FRAMES = parse("fps(rate=2,max_frames=128,max_pixels=262144,factor=32,image_max_pixels=1048576)")
"""The official rule: two frames a second, at most 128, of at most 256 · 32² pixels; images of at
most 1024 · 32² pixels."""


@dataclass(frozen=True, kw_only=True)
class OneThinker(PromptedModel):
    """A `PromptedModel` whose answers are JSON with OneThinker's keys.

    Every question about a video shows frames of the whole video. A mask is of one object: its box
    and points together prompt the segmenter, in the frame nearest to the time that the answer
    states.
    """

    words: Wording

    @property
    def forms(self) -> frozenset[AnswerForm]:
        """Forms of answer that the wording can ask for."""
        return self.words.forms

    @property
    def missing_parts(self) -> Mapping[AnswerForm, str]:
        """Forms that lack a segmenter or propagator; box tracks need neither."""
        missing = super().missing_parts
        return {form: reason for form, reason in missing.items() if form is not FORM.BOX_TRACK}

    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record, which says whether the words are the official ones."""
        source = "ours" if self.words.official is None else "official"
        return {**super().describe(), "prompts": source, "words": dict(self.words.templates.form)}

    def must_name(self, query: Query, form: AnswerForm) -> bool:
        """Return False: answers state a time instead of a frame number."""
        del query, form
        return False

    def _request(self, query: Query, form: AnswerForm) -> ChatRequest:
        """Return the request for one form, in OneThinker's wording, with all frames."""
        return replace(
            super()._request(query, form),
            text=self.words.render(query, form),
            frames=self._shown_frames(query, located=False),
            resize=pixel_budget(query, self.frames),
        )

    def _shown_frames(self, query: Query, *, located: bool) -> tuple[tuple[int, ...], ...]:
        del located
        return super()._shown_frames(query, located=False)

    def _part(
        self, query: Query, form: AnswerForm, response: str, calls: Sequence[Call]
    ) -> tuple[Pending[Answer], Parsed, tuple[str, ...]]:
        """Return one form's answer, what was parsed, and no notes; ParseError as in the base."""
        if form not in (FORM.MASK, FORM.MASK_TRACK, FORM.BOXES, FORM.BOX_TRACK):
            return super()._part(query, form, response, calls)
        canvas, media = self._canvas(query, form, calls), query.media[0]
        times, span = media.times(), None
        if form is FORM.BOX_TRACK:
            by_second, span = read_track(response)
            prompts = [Prompted(box=box, time=second) for second, box in sorted(by_second.items())]
        elif form is FORM.BOXES:
            prompts = [Prompted(box=read_box(fields_of(response).get("boxes"), "boxes"))]
        else:
            prompts = [read_prompt(response)]
        items = [item for prompt in prompts for item in _items(prompt)]
        refuse_other_scale(items, canvas)
        refuse_other_meaning(after_thought(response), canvas)
        objects = [_in_image(prompt, canvas) for prompt in prompts]
        target = objects[0]  # the only object; of a track, its first box
        outside = sum(map(canvas.count_outside, items))
        parsed = Parsed(form=form, objects=(target,), outside=outside)
        boxes = [parsed_object.box for parsed_object in objects if parsed_object.box is not None]
        if form is FORM.BOXES:
            return lambda: Answer(boxes=tuple(boxes)), parsed, ()
        if form is FORM.BOX_TRACK:
            box_times = {prompt.time: box for prompt, box in zip(prompts, boxes, strict=True)}
            track = tuple(
                box_at(box_times, time) if span is None or span.start <= time <= span.end else None
                for time in times
            )
            return lambda: Answer(box_track=track), parsed, ()
        # the frame nearest to the time that the answer states
        start = min(range(len(media)), key=lambda index: abs(times[index] - prompts[0].time))
        prompt = ObjectPrompt(box=target.box, positive=target.positive, negative=target.negative)
        masks = self.segmenter.segment(media.frame(start), [prompt])
        # Propagated when the answer is made, and only once.
        tracks = [cache(partial(carried_masks, self.propagator, media, start, masks))]
        # OneThinker has no words for "no target".
        answer = objects_answer(query, form, [Item(target.box)], tracks, nothing=False)
        return answer, replace(parsed, frame=start if media.is_video else None), ()

    def _located_text(self, query: Query, form: AnswerForm, answer: Answer) -> str:
        """Return the response that expresses an answer about places."""
        canvas, times = self._canvas(query, form), query.media[0].times()
        if form is FORM.BOX_TRACK and answer.box_track is not None:
            boxes = {
                str(time): numerals(canvas.to_canvas(Item(box)).bounds)
                for time, box in zip(times, answer.box_track, strict=False)
                if box is not None
            }
            moments = [time for time, box in zip(times, answer.box_track, strict=False) if box]
            span = [moments[0], moments[-1]] if moments else [0.0, 0.0]
            return answer_response(json.dumps({"time": span, "boxes": boxes}))
        if form is FORM.BOXES:
            box = next(iter(answer.boxes or ()), None)  # an answer names one object
            numbers = [] if box is None else numerals(canvas.to_canvas(Item(box)).bounds)
            return answer_response(json.dumps({"boxes": numbers}))
        start = key_frame_of(answer, self._key_frame(query.media[0]))
        items = [canvas.to_canvas(item) for item in objects_in(answer, start)]
        return write_prompt(items, time=times[start] if form is FORM.MASK_TRACK else None)


def _items(prompt: Prompted) -> list[Item]:
    """Return the box and every point of a prompt, each as an item of its own."""
    points = [Item(point=point) for point in (*prompt.positive, *prompt.negative)]
    return points if prompt.box is None else [Item(prompt.box), *points]


def _in_image(prompt: Prompted, canvas: Canvas) -> ParsedObject:
    """Return a prompt in pixels of the image."""

    def points(on_canvas: Sequence[Point]) -> tuple[Point, ...]:
        return tuple(canvas.to_image(Item(point=point)).place for point in on_canvas)

    return ParsedObject(
        box=None if prompt.box is None else canvas.to_image(Item(prompt.box)).bounds,
        positive=points(prompt.positive),
        negative=points(prompt.negative),
    )


@with_options(Composition, without=("keyframe",), frames=FRAMES, max_new_tokens=8192)
def one_thinker(parts: Composition, *, prompts: Path | None = None) -> OneThinker:
    """OneThinker (arXiv 2512.03043): questions, grounding, segmentation, in `<think>`, `<answer>`.

    Args:
        frames: Number of frames of a video to show, or a rule; the default is the official rule.
        prompts: The file Evaluation/Eval/eval_bench.py of a checkout of tulerfeng/OneThinker, which
            supplies the prompts' wording; None: this project's wording.
        max_new_tokens: Largest number of tokens of a response; 8192 as in the official evaluation.
    """
    wording = Wording(official=None if prompts is None else official_templates(prompts))
    return OneThinker(
        name="one_thinker",
        prompt=Places(wording),
        words=wording,
        coordinates="normalized_1000",
        **parts.build("normalized_1000", method="one_thinker"),
    )
