"""The perception node `owlv2`: open-vocabulary detection by OWLv2 through transformers.

The words to detect are the setting `words`, by default a list of everyday objects. With
`by_question` the phrases of the question come first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import ClassVar

import numpy as np

from harness.errors import UsageError
from harness.media import Frame, Media
from harness.models.backends.checkpoint_part import CheckpointPart, Computing
from harness.models.backends.loading import memory
from harness.models.nodes.networks import find_weights
from harness.models.tracks import box_overlap
from harness.node import Detection, Detections, Kind, Node, NodeKind, Output
from harness.options import with_options
from harness.types import Box

MAX_IOU = 0.5
"""IoU of two boxes in a frame above which the box with the lower score is dropped."""


@dataclass(frozen=True, kw_only=True)
class OWLv2(CheckpointPart, Node):
    """Detects the named objects in each described frame; boxes are in pixels of the image."""

    kind: ClassVar[NodeKind] = NodeKind(produces=Kind.DETECTIONS, summary="object detection")
    words: str
    """Names of the objects, separated by |."""
    by_question: bool
    threshold: float
    """Smallest score of a box."""
    max_boxes: int
    """Largest number of boxes per frame."""

    name = "owlv2"
    classes = ("Owlv2ForObjectDetection", "Owlv2Processor")

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> Detections:
        """Detect the settings' words in each described frame."""
        return self.run_for(media, indices, inputs, ())

    def run_for(
        self,
        media: Media,
        indices: Sequence[int],
        inputs: Sequence[Output],
        phrases: Sequence[str],
    ) -> Detections:
        """Detect the phrases, and the settings' words, in each described frame."""
        object_names = list(dict.fromkeys([*phrases, *self.words.split("|")]))
        detections: list[Detection] = []
        for index in indices:
            detections += self._boxes(media.frame(index), index, object_names)
        return Detections(tuple(detections))

    def _boxes(self, image: Frame, index: int, names: Sequence[str]) -> list[Detection]:
        """Return the detections in one frame by descending score, without overlapping doubles."""
        import torch

        network, processor = self.network, self.processor
        inputs = processor(
            text=[[f"a photo of a {word}" for word in names]],
            images=np.array(image),
            return_tensors="pt",
            # Long names, such as those in other scripts, exceed the network's text length.
            padding="max_length",
            truncation=True,
            max_length=network.config.text_config.max_position_embeddings,
        )
        inputs["pixel_values"] = inputs["pixel_values"].to(network.dtype)
        with memory(), torch.inference_mode():
            output = network(**inputs.to(network.device))
        height, width = image.shape[:2]
        # OWLv2 pads the image to a square at its right and bottom before it resizes it.
        side = max(height, width)
        (result,) = processor.post_process_grounded_object_detection(
            output, threshold=self.threshold, target_sizes=[(side, side)]
        )
        detections: list[Detection] = []
        order = result["scores"].argsort(descending=True).tolist()
        for rank in order:
            left, top, right, bottom = result["boxes"][rank].float().tolist()
            box = Box(max(left, 0.0), max(top, 0.0), min(right, width), min(bottom, height))
            is_double = any(box_overlap(box, detection.box) > MAX_IOU for detection in detections)
            if box.left < box.right and box.top < box.bottom and not is_double:
                score = float(result["scores"][rank])
                detections.append(Detection(index, box, names[int(result["labels"][rank])], score))
        return detections[: self.max_boxes]


@with_options(Computing, without=("compiled",))
def owlv2(
    computing: Computing,
    *,
    checkpoint: str | None = None,
    words: str | None = None,
    by_question: bool = False,
    threshold: float = 0.2,
    max_boxes: int = 32,
) -> OWLv2:
    """OWLv2: boxes of the objects that words name.

    Args:
        checkpoint: A folder, or a name such as google/owlv2-base-patch16-ensemble. It must be
            given.
        words: Objects to detect, separated by |; None: the everyday objects of vocabulary.txt.
        by_question: Detect the objects that the question names, too (docs/twins.md).
        threshold: Smallest score of a box.
        max_boxes: Largest number of boxes per frame.

    Raises:
        UsageError: no checkpoint or no word is named.
        ModelError: the checkpoint is missing, incomplete, unsafe to load, or not OWLv2.
    """
    if words is None:
        vocabulary = files(__package__).joinpath("vocabulary.txt").read_text(encoding="utf-8")
        words = "|".join(vocabulary.split("\n"))
    word_list = [word.strip() for word in words.split("|") if word.strip()]
    if not word_list:
        raise UsageError("owlv2(words=…)", expected="words with | between", found=repr(words))
    checkpoint_files = find_weights(
        "owlv2",
        checkpoint,
        model_type="owlv2",
        example="google/owlv2-base-patch16-ensemble",
        instead="salient_boxes",
    )
    return OWLv2(
        **checkpoint_files,
        words="|".join(word_list),
        by_question=by_question,
        threshold=threshold,
        max_boxes=max_boxes,
        dtype=computing.dtype,
        device=computing.device,
    )
