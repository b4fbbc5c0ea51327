"""The digital twin: what a plan's nodes saw, at the levels of video, frame and instance."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from harness.masks import BoolArray, Track
from harness.media import Media
from harness.models.dt_r1.output_cache import NodeFault
from harness.models.dt_r1.plan import Plan
from harness.models.dt_r1.shortening import shortened
from harness.models.tracks import box_overlap, extent
from harness.node import (
    DepthMaps,
    DepthStatistics,
    Detection,
    Detections,
    Features,
    Floats,
    FrameFacts,
    Instance,
    Instances,
    Output,
    Semantics,
    Words,
)
from harness.types import Box

LINKED = 0.3
"""Least IoU of boxes of one label in successive frames that are one object."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Twin:
    """A twin: JSON for the language model and its code, and the pixels behind it.

    Equal pixels, plans and nodes give equal twins.
    """

    data: Mapping[str, Any]
    """`video`, `frames` and `instances`, and `errors` where nodes failed: plain JSON."""
    masks: Mapping[str, Track]
    """Masks in every frame of the medium, by the path in `data`, which is not a file's."""
    plan: Plan
    nodes: Mapping[str, str]
    """SPEC of the node behind each name of the plan."""
    features: Mapping[str, Floats] = field(default_factory=dict)
    """Vectors by the reference in `data`."""
    depth: DepthMaps | None = None
    """Depth of the frames in `data`."""
    faults: Mapping[str, NodeFault] = field(default_factory=dict)
    """Nodes without an output."""

    def text(self, count_tokens: Callable[[str], int], max_tokens: int = 2048) -> str:
        """Return the twin as JSON of at most `max_tokens`, shortened as shortening.py says."""
        return shortened(self.data, count_tokens, max_tokens)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the JSON, the masks and the features."""
        whole = hashlib.blake2b(digest_size=16)
        whole.update(json.dumps(self.data, sort_keys=True).encode())
        for path, track in self.masks.items():
            whole.update(path.encode() + b"".join(rle.counts.encode() for rle in track.rles))
        for path, vector in self.features.items():
            whole.update(path.encode() + vector.tobytes())
        return whole.hexdigest()


def assemble(
    media: Media,
    indices: Sequence[int],
    plan: Plan,
    outputs: Mapping[str, Output | NodeFault],
    nodes: Mapping[str, str],
) -> Twin:
    """Put the outputs of a plan's nodes together.

    An instance of several nodes is one: the last node's masks count. Boxes that no node made masks
    of are instances without a mask.

    Args:
        media: The image or the video.
        indices: Frames that are described.
        plan: The plan.
        outputs: Output or fault of each of its nodes, in its order.
        nodes: SPEC behind each name.
    """
    given = [output for output in outputs.values() if not isinstance(output, NodeFault)]
    faults = {name: output for name, output in outputs.items() if isinstance(output, NodeFault)}
    depth = next((output for output in reversed(given) if isinstance(output, DepthMaps)), None)
    parts = _Parts(media, tuple(indices), given)
    masks: dict[str, Track] = {}
    features: dict[str, Floats] = {}
    instances: list[Json] = []
    for number, instance in enumerate(_instances(plan, outputs), start=1):
        masks[f"masks/{number}"] = instance.track
        entry = parts.of_instance(number, instance)
        vector = parts.vector(instance.key)
        if vector is not None:
            entry["feature"] = f"features/{number}"
            features[f"features/{number}"] = vector
        instances.append(entry)
    for boxes in _linked(_unused_boxes(plan, outputs)):
        instances.append(parts.of_boxes(len(instances) + 1, boxes))
    frames, vectors = parts.frames()
    data: Json = {"video": parts.video(depth), "frames": frames, "instances": instances}
    if faults:
        data["errors"] = {name: fault.reason for name, fault in faults.items()}
    used = {name: nodes[name] for name in plan.nodes}
    return Twin(data, masks, plan, used, {**features, **vectors}, depth, faults)


@dataclass(frozen=True)
class _Parts:
    """Outputs by type, looked up for one object after another."""

    media: Media
    indices: tuple[int, ...]
    given: Sequence[Output]

    def video(self, depth: DepthMaps | None) -> Json:
        """The first level: size and length, facts, and a description."""
        width, height = self.media.size
        video: Json = {"type": "video" if self.media.is_video else "image"}
        video |= {"width": width, "height": height}
        if self.media.is_video:
            times = self.media.times()
            video |= {"frames": len(self.media), "seconds": _short(times[-1], 6)}
        for facts in self._all(FrameFacts):
            video |= facts.video
        words = [semantics.video for semantics in self._all(Semantics) if semantics.video]
        if words:
            video["description"] = " ".join(words)
        if depth is not None:
            video["depth"] = depth.meaning
        return video

    def frames(self) -> tuple[list[Json], dict[str, Floats]]:
        """The second level, an entry a frame; and the vectors that it refers to."""
        frames: list[Json] = []
        vectors: dict[str, Floats] = {}
        times = self.media.times()
        for index in self.indices:
            entry: Json = {"frame": index, "time": _short(times[index], 6)}
            for facts in self._all(FrameFacts):
                entry |= facts.frames.get(index, {})
            words = [
                semantics.frames[index]
                for semantics in self._all(Semantics)
                if semantics.frames.get(index)
            ]
            if words:
                entry["description"] = " ".join(words)
            read = [
                {"text": word.text, "box": _whole(word.box)}
                for words_ in self._all(Words)
                for word in words_.found
                if word.frame == index
            ]
            if read:
                entry["text"] = read
            for features in self._all(Features):
                if index in features.frames:
                    entry["feature"] = f"features/frame_{index}"
                    vectors[entry["feature"]] = features.frames[index]
            frames.append(entry)
        return frames, vectors

    def of_instance(self, number: int, instance: Instance) -> Json:
        """The third level: one object, with an entry a frame."""
        entry = self._named(number, instance.label, instance.key)
        entry["mask"] = f"masks/{number}"
        if instance.score is not None:
            entry["score"] = _short(instance.score, 3)
        if self.media.is_video:
            seen = [index for index, rle in enumerate(instance.track.rles) if rle.area]
            entry["track"] = {"first": seen[0], "last": seen[-1]} if seen else None
        statistics = [
            output.of[instance.key]
            for output in self._all(DepthStatistics)
            if instance.key in output.of
        ]
        entry["frames"] = []
        for index in self.indices:
            frame_entry = {"frame": index, **_geometry(instance.track[index])}
            if statistics:
                moments = statistics[-1].get(index)
                frame_entry["depth"] = moments and {
                    "mean": _short(moments.mean, 4),
                    "std": _short(moments.std, 4),
                }
            entry["frames"].append(frame_entry)
        return entry

    def of_boxes(self, number: int, boxes: Sequence[Detection]) -> Json:
        """An object of which only boxes are known."""
        best = max(boxes, key=lambda detection: detection.score)
        entry = self._named(number, best.label, "")
        entry |= {"mask": None, "score": _short(best.score, 3)}
        if self.media.is_video:
            entry["track"] = {"first": boxes[0].frame, "last": boxes[-1].frame}
        entry["frames"] = [
            {"frame": detection.frame, "box": _whole(detection.box)} for detection in boxes
        ]
        return entry

    def vector(self, key: str) -> Floats | None:
        """The feature of an instance."""
        vectors = [
            features.instances[key] for features in self._all(Features) if key in features.instances
        ]
        return vectors[-1] if vectors else None

    def _named(self, number: int, label: str, key: str) -> Json:
        attributes: Json = {"name": label} if label else {}
        for words in self._all(Semantics):
            attributes |= words.instances.get(key, {})
        named = {"id": number, "name": attributes.pop("name", "object"), **attributes}
        return {**named, "id": number}

    def _all(self, kind: type[Any]) -> list[Any]:
        return [output for output in self.given if isinstance(output, kind)]


def _instances(plan: Plan, outputs: Mapping[str, Output | NodeFault]) -> list[Instance]:
    """Instances in the order in which nodes made them, with the masks of the last node."""
    instances: dict[str, Instance] = {}
    for name in plan.nodes:
        output = outputs[name]
        if isinstance(output, Instances):
            instances.update((instance.key, instance) for instance in output.found)
    return list(instances.values())


def _unused_boxes(plan: Plan, outputs: Mapping[str, Output | NodeFault]) -> list[Detection]:
    """Boxes that no node with masks had among its inputs."""
    used = {
        before
        for name, needed in plan.nodes.items()
        if isinstance(outputs[name], Instances)
        for before in needed
    }
    detections: list[Detection] = []
    for name in plan.nodes:
        output = outputs[name]
        if isinstance(output, Detections) and name not in used:
            detections += output.found
    return detections


def _linked(detections: Sequence[Detection]) -> list[list[Detection]]:
    """Boxes of one label, frame after frame, each the one that overlaps the last most."""
    rows: list[list[Detection]] = []
    for detection in sorted(detections, key=lambda detection: (detection.frame, -detection.score)):
        open_rows = [
            row
            for row in rows
            if row[-1].frame < detection.frame and row[-1].label == detection.label
        ]
        best = max(open_rows, key=lambda row: box_overlap(row[-1].box, detection.box), default=None)
        if best is not None and box_overlap(best[-1].box, detection.box) >= LINKED:
            best.append(detection)
        else:
            rows.append([detection])
    return rows


def _geometry(mask: BoolArray) -> Json:
    """Box (right and bottom exclusive), centroid and area in pixels; null where it is empty."""
    box = extent(mask)
    if box is None:
        return {"box": None, "centroid": None, "area": 0}
    rows, columns = np.nonzero(mask)
    centre = [_short(float(columns.mean()) + 0.5, 4), _short(float(rows.mean()) + 0.5, 4)]
    return {"box": _whole(box), "centroid": centre, "area": int(rows.size)}


def _whole(box: Box) -> list[int]:
    return [round(edge) for edge in box]


def _short(value: float, digits: int) -> float | None:
    """A number with so many significant digits, a whole one without a point; None of NaN."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() else short
