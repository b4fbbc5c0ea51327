"""The plugin `sam3`: SAM 3 prompted with the query's text, without a VLM.

It finds every instance of a concept in an image, each with a score; in a video, in the middle
frame, and a propagator carries the masks from there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.chat import ChatRequest
from harness.models.factory import FLOW, build_propagator, build_segmenter
from harness.models.mask_model import MaskModel
from harness.segmentation import MaskResponse, Propagator, Segmenter, settings
from harness.spec import Spec


@dataclass(frozen=True)
class ByPhrase:
    """A `MaskNetwork` for `MaskModel`: a segmenter that finds a phrase, and a propagator."""

    segmenter: Segmenter
    propagator: Propagator

    def generate(self, requests: Sequence[ChatRequest]) -> list[MaskResponse]:
        """Return the instances of each request's text, by descending score, without empty masks.

        Raises:
            UsageError: the segmenter cannot be prompted with a phrase.
        """
        return [self._find(request) for request in requests]

    def _find(self, request: ChatRequest) -> MaskResponse:
        """Return the instances of one request's text; in a video, those of the middle frame."""
        media = request.media[0]
        start = len(media) // 2
        instances = self.segmenter.find_instances(media.frame(start), request.text)
        visible = [instance for instance in instances if instance.mask.any()]
        masks = [instance.mask for instance in visible]
        return MaskResponse(
            masks=[[mask] for mask in masks]
            if len(media) == 1
            else self.propagator.propagate(media, start, masks),
            scores=tuple(instance.score for instance in visible),
            frames=1,
        )


def sam3(
    *,
    segmenter: Spec | Segmenter = Spec("sam3"),  # noqa: B008 - a frozen value
    propagator: Spec | Propagator = FLOW,
    batch_size: int = 1,
) -> MaskModel:
    """SAM 3 by phrase: all instances of the query's text with scores, joined where one mask is due.

    Args:
        segmenter: Finds all objects of a phrase, which `sam3` does: its checkpoint and threshold.
        propagator: Carries the masks of a video's middle frame through it, such as `sam3_video`.
        batch_size: Number of queries at once.
    """
    parts = build_segmenter(segmenter), build_propagator(propagator)
    return MaskModel(
        name="sam3",
        load=lambda: ByPhrase(*parts),
        settings={"segmenter": settings(parts[0]), "propagator": settings(parts[1])},
        batch_size=batch_size,
        device=next(iter(parts[0].devices), "cpu"),
    )
