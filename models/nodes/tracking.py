"""The perception node `tracking`: propagates instances from one frame to all frames."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from harness.media import Media
from harness.models.factory import FLOW, build_propagator
from harness.models.nodes.instances import clearest_frame, propagated
from harness.node import Instance, Instances, Kind, Node, NodeKind, Output, instances_of
from harness.segmentation import Propagator
from harness.spec import Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracking(Node):
    """Propagates every instance from the described frame with its largest mask."""

    kind: ClassVar[NodeKind] = NodeKind(
        produces=Kind.INSTANCES,
        requires=frozenset({Kind.INSTANCES}),
        summary="follows instances through the frames of a video",
    )
    propagator: Propagator

    name = "tracking"

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> Instances:
        """Return the same instances with propagated masks; unchanged in an image."""
        instances = instances_of(inputs)
        if len(media) == 1:
            return Instances(instances)
        tracked: dict[str, Instance] = {}
        by_start: dict[int, list[Instance]] = {}
        for instance in instances:
            by_start.setdefault(clearest_frame(instance, indices), []).append(instance)
        for start, group in by_start.items():
            tracks = propagated(
                self.propagator, media, start, [instance.track[start] for instance in group]
            )
            for instance, track in zip(group, tracks, strict=True):
                tracked[instance.key] = replace(instance, track=track)
        return Instances(tuple(tracked[instance.key] for instance in instances))


def tracking(*, propagator: Spec = FLOW) -> Tracking:
    """Instances followed through a video by a propagator, such as flow, sam2_video or xmem."""
    return Tracking(propagator=build_propagator(propagator))
