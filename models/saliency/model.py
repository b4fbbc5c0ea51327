"""The plugin `saliency`: answers with the most salient objects, and never reads the question.

It is a baseline: `salience.py` finds objects by colour and motion, a segmenter makes their masks, a
propagator carries them through the video.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.errors import MediaError
from harness.masks import BoolArray, rles_of
from harness.media import Media
from harness.model import Model
from harness.models.answers import MASKED
from harness.models.factory import FLOW, GRABCUT, at_least, build_propagator, build_segmenter
from harness.models.saliency.salience import clearest, frames_seen, salient_objects
from harness.models.tracks import extent
from harness.segmentation import Propagator, Segmenter, settings
from harness.spec import Spec
from harness.types import (
    Answer,
    AnswerForm,
    FailureKind,
    Prediction,
    Query,
    Usage,
    failed_prediction,
)

MASK_FORMS = MASKED - {AnswerForm.BOX_TRACK}
SEGMENTED_FORMS = MASKED | {AnswerForm.BOXES}
ANSWERED_FORMS = SEGMENTED_FORMS | {AnswerForm.POINTS, AnswerForm.COUNT}
"""All forms of answer. Those of `SEGMENTED_FORMS` need the segmenter, and those of `MASK_FORMS` are
answered with masks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saliency(Model):
    """Answers with salient objects as masks, tracks, boxes, points or their number.

    Masks are the union of all objects, one for each frame, and `box_track` is its tight box. Boxes
    (tight, of the single masks) and points (deepest inside the objects) are in the key frame, in
    pixels, the most salient object first. If nothing is salient, the answer is an empty mask, no
    box, no point, the count 0; it is never NO_TARGET. Of several media only the first is used.
    """

    segmenter: Segmenter
    propagator: Propagator
    candidates: int
    """Number of frames of a video in which objects are searched."""
    batch_size: int

    name = "saliency"

    @property
    def forms(self) -> frozenset[AnswerForm]:
        """Forms of answer that this model can give."""
        return ANSWERED_FORMS

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of the segmenter and the propagator."""
        return (*self.segmenter.devices, *self.propagator.devices)

    def prepare(self) -> None:
        """Load the segmenter and the propagator."""
        self.segmenter.prepare()
        self.propagator.prepare()

    def describe(self) -> Mapping[str, object]:
        """Return the resolved arguments for the record; there are no weights."""
        return {
            "model": self.name,
            "segmenter": settings(self.segmenter),
            "propagator": settings(self.propagator),
            "candidates": self.candidates,
            "batch_size": self.batch_size,
        }

    def predict(self, queries: Sequence[Query]) -> list[Prediction]:
        """Return one prediction for each query; queries about the same medium share the work.

        A form that it cannot answer is a failure of the model; a medium that cannot be decoded is
        a failure of the infrastructure.
        """
        answers: dict[tuple[Media, frozenset[AnswerForm]], Answer] = {}
        return [self._prediction(query, answers) for query in queries]

    def _prediction(
        self, query: Query, answers: dict[tuple[Media, frozenset[AnswerForm]], Answer]
    ) -> Prediction:
        """Return the prediction for a query; `answers` holds those of the batch so far."""
        for form in query.forms:
            if form not in ANSWERED_FORMS:
                return failed_prediction(query, FailureKind.MODEL, f"saliency cannot answer {form}")
        if not query.media:
            return failed_prediction(query, FailureKind.MODEL, "saliency needs an image or a video")
        pair = query.media[0], frozenset(query.forms)
        try:
            if pair not in answers:
                answers[pair] = self._answer(*pair)
        except MediaError as error:
            return failed_prediction(query, FailureKind.INFRASTRUCTURE, str(error))
        usage = Usage(frames=frames_seen(len(query.media[0]), self.candidates))
        return Prediction(query_id=query.id, answer=answers[pair], usage=usage)

    def _answer(self, media: Media, forms: frozenset[AnswerForm]) -> Answer:
        """Return the answer to all of the forms, from the salient objects of the key frame."""
        key = clearest(media, self.candidates)
        objects = salient_objects(key.field, media.size)
        masks: list[BoolArray] = []
        if objects and forms & SEGMENTED_FORMS:
            prompts = [region.prompt for region in objects]
            masks = self.segmenter.segment(media.frame(key.index), prompts)
        track = self._track(media, key.index, masks) if forms & MASKED else []
        parts: dict[str, Any] = {}
        if forms & MASK_FORMS:
            parts["masks"] = rles_of(track)
        if AnswerForm.BOX_TRACK in forms:
            parts["box_track"] = tuple(extent(mask) for mask in track)
        if AnswerForm.BOXES in forms:
            boxes = [extent(mask) for mask in masks]
            parts["boxes"] = tuple(box for box in boxes if box is not None)
            parts["box_scores"] = tuple(
                region.score for region, box in zip(objects, boxes, strict=True) if box is not None
            )
        if AnswerForm.POINTS in forms:
            parts["points"] = tuple(region.prompt.positive[0] for region in objects)
        if AnswerForm.COUNT in forms:
            parts["count"] = len(objects)
        return Answer(**parts)

    def _track(self, media: Media, index: int, masks: Sequence[BoolArray]) -> Sequence[BoolArray]:
        """Return the union of the masks of frame `index`, propagated to every frame."""
        union = np.zeros((media.size[1], media.size[0]), dtype=np.bool_)
        for mask in masks:
            union |= mask
        if len(media) == 1 or not union.any():
            return [union] * len(media)
        return self.propagator.propagate(media, index, [union])[0]


def saliency(
    *,
    segmenter: Spec | Segmenter = GRABCUT,
    propagator: Spec | Propagator = FLOW,
    candidates: int = 8,
    batch_size: int = 8,
) -> Saliency:
    """The object most salient by colour and motion, whatever the question: a classical method.

    Args:
        segmenter: a plugin of the group `harness.segmenters`, or a ready one.
        propagator: a plugin of the group `harness.propagators`, or a ready one.
        candidates: frames of a video in which objects are looked for.
        batch_size: queries at once; answers do not depend on it.
    """
    at_least("saliency", 1, candidates=candidates, batch_size=batch_size)
    return Saliency(
        segmenter=build_segmenter(segmenter),
        propagator=build_propagator(propagator),
        candidates=candidates,
        batch_size=batch_size,
    )
