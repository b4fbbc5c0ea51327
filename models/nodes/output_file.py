"""Outputs of nodes as bytes: arrays of numbers and JSON, never code.

A file is a NumPy archive whose member `json` holds everything but arrays. It is read with
`allow_pickle=False`.
"""

import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError
from harness.masks import Rle, Track
from harness.node import (
    DepthMaps,
    DepthStatistics,
    Detection,
    Detections,
    Features,
    FrameFacts,
    Instance,
    Instances,
    Moments,
    Output,
    Semantics,
    Word,
    Words,
)
from harness.types import Box

Key = TypeVar("Key")
Value = TypeVar("Value")
Array: TypeAlias = NDArray[np.generic]


def write_output(output: Output) -> bytes:
    """Encode an output; equal outputs give equal bytes."""
    arrays: dict[str, Array] = {}
    plain = _WRITERS[type(output)](output, arrays)
    text = json.dumps({"type": type(output).__name__, "value": plain}, ensure_ascii=False)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in [("json", np.frombuffer(text.encode(), np.uint8)), *arrays.items()]:
            member = io.BytesIO()
            np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue())
    return file.getvalue()


def read_output(data: bytes) -> Output:
    """Decode what `write_output` gave.

    Raises:
        DataError: it is something else, or damaged.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            head = json.loads(archive["json"].tobytes())
            output: Output = _READERS[head["type"]](head["value"], archive)
    except MemoryError:
        raise
    except Exception as error:  # a damaged archive has NumPy and zipfile raise many kinds
        raise DataError("output of a node", expected="a whole file", found=str(error)) from error
    return output


def held_bytes(output: Output) -> int:
    """About how much memory an output takes."""
    if isinstance(output, DepthMaps):
        return sum(depth.nbytes for depth in output.maps.values())
    if isinstance(output, Features):
        vectors = (*output.instances.values(), *output.frames.values())
        return 200 + sum(vector.nbytes + 100 for vector in vectors)
    if isinstance(output, Instances):
        texts = (rle.counts for one in output.found for rle in one.track.rles)
        return 200 + sum(len(text) + 60 for text in texts)
    return len(repr(output))


def _track(track: Track) -> dict[str, object]:
    runs = groupby(rle.counts for rle in track.rles)
    counts = [[text, len(list(run))] for text, run in runs]
    return {"size": [track.height, track.width], "runs": counts}


def _read_track(value: Mapping[str, Any]) -> Track:
    rles: list[Rle] = []
    for counts, times in value["runs"]:
        height, width = value["size"]
        rles += [Rle(height, width, counts)] * int(times)
    return Track.from_rles(rles)


def _numbered(mapping: Mapping[Key, Value]) -> list[tuple[Key, Value]]:
    return list(mapping.items())


def _put(arrays: dict[str, Array], prefix: str, mapping: Mapping[Key, Array]) -> list[Key]:
    """Store arrays under numbered names; return the keys, in order."""
    for place, array in enumerate(mapping.values()):
        arrays[f"{prefix}{place}"] = array
    return list(mapping)


def _take(archive: Mapping[str, Value], prefix: str, keys: Sequence[Key]) -> dict[Key, Value]:
    return {key: archive[f"{prefix}{place}"] for place, key in enumerate(keys)}


_WRITERS: Mapping[type, Callable[[Any, dict[str, Array]], object]] = {
    FrameFacts: lambda one, _: {"frames": _numbered(one.frames), "video": dict(one.video)},
    Detections: lambda one, _: [[d.frame, list(d.box), d.label, d.score] for d in one.found],
    Instances: lambda one, _: [[_track(i.track), i.label, i.score, i.key] for i in one.found],
    DepthMaps: lambda one, arrays: {
        "frames": _put(arrays, "depth", one.maps),
        "meaning": one.meaning,
    },
    DepthStatistics: lambda one, _: {
        "of": [[key, _numbered(frames)] for key, frames in one.of.items()],
        "meaning": one.meaning,
    },
    Features: lambda one, arrays: {
        "instances": _put(arrays, "instance", one.instances),
        "frames": _put(arrays, "frame", one.frames),
    },
    Semantics: lambda one, _: {
        "video": one.video,
        "frames": _numbered(one.frames),
        "instances": _numbered(one.instances),
    },
    Words: lambda one, _: [[w.frame, list(w.box), w.text, w.score] for w in one.found],
}

_READERS: Mapping[str, Callable[[Any, Any], Output]] = {
    "FrameFacts": lambda v, _: FrameFacts(dict(v["frames"]), v["video"]),
    "Detections": lambda v, _: Detections(
        tuple(Detection(frame, Box(*box), label, score) for frame, box, label, score in v)
    ),
    "Instances": lambda v, _: Instances(
        tuple(Instance(_read_track(track), label, score, key) for track, label, score, key in v)
    ),
    "DepthMaps": lambda v, archive: DepthMaps(_take(archive, "depth", v["frames"]), v["meaning"]),
    "DepthStatistics": lambda v, _: DepthStatistics(
        {
            key: {frame: None if pair is None else Moments(*pair) for frame, pair in frames}
            for key, frames in v["of"]
        },
        v["meaning"],
    ),
    "Features": lambda v, archive: Features(
        _take(archive, "instance", v["instances"]), _take(archive, "frame", v["frames"])
    ),
    "Semantics": lambda v, _: Semantics(v["video"], dict(v["frames"]), dict(v["instances"])),
    "Words": lambda v, _: Words(
        tuple(Word(frame, Box(*box), text, score) for frame, box, text, score in v)
    ),
}
