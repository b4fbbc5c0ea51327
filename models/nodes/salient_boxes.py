"""The node `salient_boxes`: boxes around salient objects (models/saliency), without classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from harness.media import Media
from harness.models.saliency.salience import salience_map, salient_objects
from harness.node import Detection, Detections, Kind, Node, NodeKind, Output


@dataclass(frozen=True, slots=True, kw_only=True)
class SalientBoxes(Node):
    """Detects salient objects, which all have the label `object`."""

    kind: ClassVar[NodeKind] = NodeKind(
        produces=Kind.DETECTIONS, summary="boxes around what stands out"
    )

    name = "salient_boxes"

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> Detections:
        """Box the salient objects of each described frame."""
        boxes = []
        for index in indices:
            for object_ in salient_objects(salience_map(media, index).field, media.size):
                assert object_.prompt.box is not None, "a salient object has a box"
                boxes.append(Detection(index, object_.prompt.box, "object", object_.score))
        return Detections(tuple(boxes))


def salient_boxes() -> SalientBoxes:
    """Boxes around what stands out by colour and motion; no weights, no classes."""
    return SalientBoxes()
