"""Assemble the digital twin: JSON about video, frames and instances, from the outputs of nodes.

The executor calls `assemble` with each node's output. The language model reads the JSON
(`Twin.text`), its code gets the JSON and the masks. Coordinates are pixels of the original image.
"""

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

MIN_LINK_IOU = 0.3
"""Lowest IoU at which boxes of the same label in successive frames are one object."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Twin:
    """A digital twin: JSON for the language model and its code, and the arrays that it refers to.

    Equal pixels, plans and nodes give equal twins.
    """

    data: Mapping[str, Any]
    """Plain JSON: `video`, `frames` and `instances`, and `errors` if nodes failed."""
    masks: Mapping[str, Track]
    """Masks in every frame of the medium, by the name in `data`, such as `masks/1`."""
    plan: Plan
    nodes: Mapping[str, str]
    """SPEC of the node of each role in the plan."""
    features: Mapping[str, Floats] = field(default_factory=dict)
    """Feature vectors by the name in `data`, such as `features/1`."""
    depth: DepthMaps | None = None
    """Depth of the frames in `data`."""
    faults: Mapping[str, NodeFault] = field(default_factory=dict)
    """Fault of each node that gave no output."""

    def text(self, count_tokens: Callable[[str], int], max_tokens: int = 2048) -> str:
        """Return the twin as JSON of at most `max_tokens`, shortened by `shortening`."""
        return shortened(self.data, count_tokens, max_tokens)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the JSON, the masks and the features."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update(json.dumps(self.data, sort_keys=True).encode())
        for path, track in self.masks.items():
            digest.update(path.encode() + b"".join(rle.counts.encode() for rle in track.rles))
        for path, vector in self.features.items():
            digest.update(path.encode() + vector.tobytes())
        return digest.hexdigest()


def assemble(
    media: Media,
    indices: Sequence[int],
    plan: Plan,
    outputs: Mapping[str, Output | NodeFault],
    nodes: Mapping[str, str],
) -> Twin:
    """Return the twin that the outputs of a plan's nodes make.

    An instance in the output of several nodes (the same key) appears once, with the last node's
    masks. Boxes that no node made masks of become instances without a mask.

    Args:
        media: The image or video.
        indices: Numbers of the frames that are described.
        plan: The plan.
        outputs: Output or fault of each node of the plan, in its order.
        nodes: SPEC of the node of each role.
    """
    succeeded = [output for output in outputs.values() if not isinstance(output, NodeFault)]
    faults = {name: output for name, output in outputs.items() if isinstance(output, NodeFault)}
    depths = [output for output in succeeded if isinstance(output, DepthMaps)]
    depth = depths[-1] if depths else None
    entries = _Entries(media, tuple(indices), succeeded)
    masks: dict[str, Track] = {}
    features: dict[str, Floats] = {}
    instances: list[Json] = []
    for number, instance in enumerate(_instances(plan, outputs), start=1):
        masks[f"masks/{number}"] = instance.track
        entry = entries.of_instance(number, instance)
        vector = entries.vector(instance.key)
        if vector is not None:
            entry["feature"] = f"features/{number}"
            features[f"features/{number}"] = vector
        instances.append(entry)
    for boxes in _linked(_unused_boxes(plan, outputs)):
        instances.append(entries.of_boxes(len(instances) + 1, boxes))
    frames, vectors = entries.frames()
    data: Json = {"video": entries.video(depth), "frames": frames, "instances": instances}
    if faults:
        data["errors"] = {name: fault.reason for name, fault in faults.items()}
    used = {name: nodes[name] for name in plan.nodes}
    return Twin(data, masks, plan, used, {**features, **vectors}, depth, faults)


@dataclass(frozen=True)
class _Entries:
    """Makes the JSON of each level from the outputs of all nodes."""

    media: Media
    indices: tuple[int, ...]
    outputs: Sequence[Output]

    def video(self, depth: DepthMaps | None) -> Json:
        """Return the video level: size, length (seconds), facts, and a description."""
        width, height = self.media.size
        video: Json = {"type": "video" if self.media.is_video else "image"}
        video |= {"width": width, "height": height}
        if self.media.is_video:
            times = self.media.times()
            video |= {"frames": len(self.media), "seconds": _short(times[-1], 6)}
        for facts in self._all(FrameFacts):
            video |= facts.video
        descriptions = [semantics.video for semantics in self._all(Semantics) if semantics.video]
        if descriptions:
            video["description"] = " ".join(descriptions)
        if depth is not None:
            video["depth"] = depth.meaning
        return video

    def frames(self) -> tuple[list[Json], dict[str, Floats]]:
        """Return the frame level, one entry for each frame, and the vectors that it refers to."""
        frames: list[Json] = []
        vectors: dict[str, Floats] = {}
        times = self.media.times()
        for index in self.indices:
            entry: Json = {"frame": index, "time": _short(times[index], 6)}
            for facts in self._all(FrameFacts):
                entry |= facts.frames.get(index, {})
            descriptions = [
                semantics.frames[index]
                for semantics in self._all(Semantics)
                if semantics.frames.get(index)
            ]
            if descriptions:
                entry["description"] = " ".join(descriptions)
            text_entries = [
                {"text": word.text, "box": _whole_pixels(word.box)}
                for ocr in self._all(Words)
                for word in ocr.found
                if word.frame == index
            ]
            if text_entries:
                entry["text"] = text_entries
            for features in self._all(Features):
                if index in features.frames:
                    entry["feature"] = f"features/frame_{index}"
                    vectors[entry["feature"]] = features.frames[index]
            frames.append(entry)
        return frames, vectors

    def of_instance(self, number: int, instance: Instance) -> Json:
        """Return the entry of an instance with a mask, which holds an entry for each frame."""
        entry = self._entry_start(number, instance.label, instance.key)
        entry["mask"] = f"masks/{number}"
        if instance.score is not None:
            entry["score"] = _short(instance.score, 3)
        if self.media.is_video:
            visible = [index for index, rle in enumerate(instance.track.rles) if rle.area]
            entry["track"] = {"first": visible[0], "last": visible[-1]} if visible else None
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
                frame_entry["depth"] = (
                    None
                    if moments is None
                    else {"mean": _short(moments.mean, 4), "std": _short(moments.std, 4)}
                )
            entry["frames"].append(frame_entry)
        return entry

    def of_boxes(self, number: int, boxes: Sequence[Detection]) -> Json:
        """Return the entry of an object with boxes (one for each frame), but no mask."""
        best = max(boxes, key=lambda detection: detection.score)
        entry = self._entry_start(number, best.label, "")
        entry |= {"mask": None, "score": _short(best.score, 3)}
        if self.media.is_video:
            entry["track"] = {"first": boxes[0].frame, "last": boxes[-1].frame}
        entry["frames"] = [
            {"frame": detection.frame, "box": _whole_pixels(detection.box)} for detection in boxes
        ]
        return entry

    def vector(self, key: str) -> Floats | None:
        """Return the feature vector of an instance; None if no node gave one."""
        vectors = [
            features.instances[key] for features in self._all(Features) if key in features.instances
        ]
        return vectors[-1] if vectors else None

    def _entry_start(self, number: int, label: str, key: str) -> Json:
        """Return id, name and semantic attributes of an object, in that order."""
        attributes: Json = {"name": label} if label else {}
        for semantics in self._all(Semantics):
            attributes |= semantics.instances.get(key, {})
        entry = {"id": number, "name": attributes.pop("name", "object"), **attributes}
        return {**entry, "id": number}  # an attribute `id` does not replace the number

    def _all(self, output_class: type[Any]) -> list[Any]:
        """Return the outputs of one class, such as all `Semantics`."""
        return [output for output in self.outputs if isinstance(output, output_class)]


def _instances(plan: Plan, outputs: Mapping[str, Output | NodeFault]) -> list[Instance]:
    """Return the instances in the order in which nodes made them, with the last node's masks."""
    instances: dict[str, Instance] = {}
    for name in plan.nodes:
        output = outputs[name]
        if isinstance(output, Instances):
            instances.update((instance.key, instance) for instance in output.found)
    return list(instances.values())


def _unused_boxes(plan: Plan, outputs: Mapping[str, Output | NodeFault]) -> list[Detection]:
    """Return the boxes that were not an input of a node that makes masks."""
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
    """Group boxes into objects: a box joins the object of its label whose last box overlaps most.

    Frames are taken in order, and in a frame the boxes by descending score. A box whose IoU with
    every object's last box is below `MIN_LINK_IOU` begins an object.
    """
    chains: list[list[Detection]] = []
    for detection in sorted(detections, key=lambda detection: (detection.frame, -detection.score)):
        candidates = [
            chain
            for chain in chains
            if chain[-1].frame < detection.frame and chain[-1].label == detection.label
        ]
        overlaps = [box_overlap(chain[-1].box, detection.box) for chain in candidates]
        if overlaps and max(overlaps) >= MIN_LINK_IOU:
            candidates[overlaps.index(max(overlaps))].append(detection)
        else:
            chains.append([detection])
    return chains


def _geometry(mask: BoolArray) -> Json:
    """Return box (right and bottom exclusive), centroid and area of a mask in pixels.

    Box and centroid of an empty mask are None.
    """
    box = extent(mask)
    if box is None:
        return {"box": None, "centroid": None, "area": 0}
    rows, columns = np.nonzero(mask)
    centre = [_short(float(columns.mean()) + 0.5, 4), _short(float(rows.mean()) + 0.5, 4)]
    return {"box": _whole_pixels(box), "centroid": centre, "area": int(rows.size)}


def _whole_pixels(box: Box) -> list[int]:
    """Return left, top, right and bottom, rounded."""
    return [round(edge) for edge in box]


def _short(value: float, digits: int) -> float | None:
    """Return a number with `digits` significant digits; None if it is NaN or infinite."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() else short
