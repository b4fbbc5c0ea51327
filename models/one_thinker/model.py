"""OneThinker: one VLM for questions, grounding in time and space, and segmentation by SAM 2."""

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
"""The official rule: two frames a second, at most 128 of 256 · 32² pixels; images of 1024 · 32²."""


@dataclass(frozen=True, kw_only=True)
class OneThinker(PromptedModel):
    """A `PromptedModel` whose answers are JSON with OneThinker's keys.

    Every question about a video shows frames of all of it. A mask is of one object: its box and its
    points, all together, prompt the segmenter in the frame at the time that the answer names.
    """

    words: Wording

    @property
    def forms(self) -> frozenset[AnswerForm]:
        """Forms of answer that it has a wording for."""
        return self.words.forms

    @property
    def missing_parts(self) -> Mapping[AnswerForm, str]:
        """Forms with masks: boxes of a video are the response's own."""
        missing = super().missing_parts
        return {form: why for form, why in missing.items() if form is not FORM.BOX_TRACK}

    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record, with whose words it asks in."""
        whose = "ours" if self.words.official is None else "official"
        return {**super().describe(), "prompts": whose, "words": dict(self.words.templates.form)}

    def must_name(self, query: Query, form: AnswerForm) -> bool:
        """Return False: a time takes the place of a frame's number."""
        del query, form
        return False

    def _request(self, query: Query, form: AnswerForm) -> ChatRequest:
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
        if form not in (FORM.MASK, FORM.MASK_TRACK, FORM.BOXES, FORM.BOX_TRACK):
            return super()._part(query, form, response, calls)
        canvas, media = self._canvas(query, form, calls), query.media[0]
        times, span = media.times(), None
        if form is FORM.BOX_TRACK:
            known, span = read_track(response)
            prompts = [Prompted(box=box, time=second) for second, box in sorted(known.items())]
        elif form is FORM.BOXES:
            prompts = [Prompted(box=read_box(fields_of(response).get("boxes"), "boxes"))]
        else:
            prompts = [read_prompt(response)]
        items = [item for prompt in prompts for item in _items(prompt)]
        refuse_other_scale(items, canvas)
        refuse_other_meaning(after_thought(response), canvas)
        first, *more = (_in_image(prompt, canvas) for prompt in prompts)
        outside = sum(map(canvas.count_outside, items))
        parsed = Parsed(form=form, objects=(first,), outside=outside)
        boxes = [target.box for target in (first, *more) if target.box is not None]
        if form is FORM.BOXES:
            return lambda: Answer(boxes=tuple(boxes)), parsed, ()
        if form is FORM.BOX_TRACK:
            placed = {prompt.time: box for prompt, box in zip(prompts, boxes, strict=True)}
            track = tuple(
                box_at(placed, second) if span is None or span.start <= second <= span.end else None
                for second in times
            )
            return lambda: Answer(box_track=track), parsed, ()
        start = min(range(len(media)), key=lambda index: abs(times[index] - prompts[0].time))
        given = ObjectPrompt(box=first.box, positive=first.positive, negative=first.negative)
        masks = self.segmenter.segment(media.frame(start), [given])
        tracks = [cache(partial(carried_masks, self.propagator, media, start, masks))]
        answer = objects_answer(query, form, [Item(first.box)], tracks, nothing=False)
        return answer, replace(parsed, frame=start if media.is_video else None), ()

    def _located_text(self, query: Query, form: AnswerForm, answer: Answer) -> str:
        canvas, times = self._canvas(query, form), query.media[0].times()
        if form is FORM.BOX_TRACK and answer.box_track is not None:
            seen = [place for place, box in enumerate(answer.box_track) if box is not None]
            boxes = {
                str(times[place]): numerals(canvas.to_canvas(Item(answer.box_track[place])).bounds)
                for place in seen
            }
            span = [times[seen[0]], times[seen[-1]]] if seen else [0.0, 0.0]
            return answer_response(json.dumps({"time": span, "boxes": boxes}))
        if form is FORM.BOXES:
            boxes_of = [numerals(canvas.to_canvas(Item(box)).bounds) for box in answer.boxes or ()]
            return answer_response(json.dumps({"boxes": boxes_of[0] if boxes_of else []}))
        start = key_frame_of(answer, self._key_frame(query.media[0]))
        items = [canvas.to_canvas(item) for item in objects_in(answer, start)]
        return write_prompt(items, time=times[start] if form is FORM.MASK_TRACK else None)


def _items(prompt: Prompted) -> list[Item]:
    points = [Item(point=point) for point in (*prompt.positive, *prompt.negative)]
    return points if prompt.box is None else [Item(prompt.box), *points]


def _in_image(prompt: Prompted, canvas: Canvas) -> ParsedObject:
    def points(several: Sequence[Point]) -> tuple[Point, ...]:
        return tuple(canvas.to_image(Item(point=point)).place for point in several)

    return ParsedObject(
        box=None if prompt.box is None else canvas.to_image(Item(prompt.box)).bounds,
        positive=points(prompt.positive),
        negative=points(prompt.negative),
    )


@with_options(Composition, without=("keyframe",), frames=FRAMES, max_new_tokens=8192)
def one_thinker(parts: Composition, *, prompts: Path | None = None) -> OneThinker:
    """OneThinker (arXiv 2512.03043): questions, grounding, segmentation, in `<think>`, `<answer>`.

    Args:
        frames: How many frames of a video are shown, or a rule; by default the official one.
        prompts: The file Evaluation/Eval/eval_bench.py of a checkout of tulerfeng/OneThinker, whose
            words are asked in; None: in ours.
        max_new_tokens: Longest response; 8192 as in the official evaluation.
    """
    words = Wording(official=None if prompts is None else official_templates(prompts))
    return OneThinker(
        name="one_thinker",
        prompt=Places(words),
        words=words,
        coordinates="normalized_1000",
        **parts.build("normalized_1000", method="one_thinker"),
    )
