"""The node `opencv_objects`: flat regions of drawings, salient objects of photographs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from harness.media import Media
from harness.models.factory import FLOW, GRABCUT, build_propagator, build_segmenter
from harness.models.nodes.flat_regions import flat_regions, is_drawing
from harness.models.nodes.instances import Seen, prompted, renewed
from harness.models.nodes.linking import linked
from harness.models.saliency.salience import salience_map, salient_objects
from harness.node import Instance, Instances, Kind, Node, NodeKind, Output, detections_of
from harness.segmentation import Propagator, Segmenter
from harness.spec import Spec

ImageKind: TypeAlias = Literal["auto", "drawing", "photograph"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCVObjects(Node):
    """Finds instances: the objects in a detector's boxes, or else the objects that stand out.

    Objects in boxes are segmented and propagated through the whole video. Without boxes, the flat
    regions of a drawing are segmented in every frame and linked; the salient objects of a
    photograph are segmented in each described frame and propagated in between.
    """

    kind: ClassVar[NodeKind] = NodeKind(
        produces=Kind.INSTANCES,
        accepts=frozenset({Kind.DETECTIONS}),
        summary="objects that stand out",
    )
    segmenter: Segmenter
    propagator: Propagator
    image: ImageKind
    max_objects: int

    name = "opencv_objects"

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> Instances:
        """Find the objects, and their masks in all frames."""
        if detections_of(inputs):
            return prompted(self.segmenter, self.propagator, media, indices, inputs)
        if self._is_drawing(media, indices):
            masks = [
                flat_regions(media.frame(index))[: self.max_objects] for index in range(len(media))
            ]
            tracks = linked(media, masks)[: self.max_objects]
            return Instances(tuple(map(Instance, tracks)))
        return renewed(lambda index: self._salient(media, index), self.propagator, media, indices)

    def _is_drawing(self, media: Media, indices: Sequence[int]) -> bool:
        """Return what the option `image` says, or what the first described frame shows."""
        if self.image != "auto":
            return self.image == "drawing"
        frame = media.frame(indices[0])
        return is_drawing(frame, flat_regions(frame))

    def _salient(self, media: Media, index: int) -> list[Seen]:
        """Return the segmented salient objects of a frame, the most salient first."""
        objects = salient_objects(salience_map(media, index).field, media.size)[: self.max_objects]
        masks = self.segmenter.segment(media.frame(index), [object_.prompt for object_ in objects])
        return [
            Seen(mask, score=object_.score) for mask, object_ in zip(masks, objects, strict=True)
        ]


def opencv_objects(
    *,
    segmenter: Spec = GRABCUT,
    propagator: Spec = FLOW,
    image: ImageKind = "auto",
    max_objects: int = 24,
) -> OpenCVObjects:
    """Flat regions of drawings, salient objects of photographs, by OpenCV; no weights.

    Args:
        segmenter: Segments salient objects and the objects in a detector's boxes.
        propagator: Propagates their masks through a video.
        image: `auto` decides by the first frame: a drawing's regions have one colour each.
        max_objects: Largest number of objects, in total and in one frame.
    """
    return OpenCVObjects(
        segmenter=build_segmenter(segmenter),
        propagator=build_propagator(propagator),
        image=image,
        max_objects=max_objects,
    )
