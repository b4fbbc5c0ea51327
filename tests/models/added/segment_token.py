"""A network with <SEG> tokens, in its authors' own class, as a model."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from harness.chat import ChatRequest
from harness.models.backends.checkpoint import fingerprint
from harness.models.mask_model import MaskModel
from harness.segmentation import MaskResponse


class SegmentToken:
    def __init__(self, folder: Path) -> None:
        from segment_network import SegmentNetwork  # its authors' code

        self.network = SegmentNetwork(folder)

    def generate(self, requests: Sequence[ChatRequest]) -> list[MaskResponse]:
        return [self.respond(request) for request in requests]

    def respond(self, request: ChatRequest) -> MaskResponse:
        media = request.media[0]  # an image has one frame
        frames = [media.frame(place) for place in range(len(media))]
        text, masks = self.network.segment(frames, request.text)
        return MaskResponse(text=text, masks=masks, frames=1)


def segment_token(*, checkpoint: Path, batch_size: int = 4) -> MaskModel:
    """A VLM and SAM 2, joined by a token."""
    return MaskModel(
        name="segment_token",
        load=partial(SegmentToken, checkpoint),
        settings={part: fingerprint(checkpoint / part) for part in ("vlm", "sam2")},
        prompt="Please segment this: {Question}",
        batch_size=batch_size,
    )
