"""Namespace of generated code; sent to the sandbox as text, before the code.

Frames are named by their numbers in the medium, as the twin prints them. Masks are height × width
of the original image, true on the instance.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


def namespace(data: Mapping[str, Any], emit: Callable[[Any], object]) -> dict[str, Any]:
    """Return `dt`, `load_mask` and `save_mask` for the JSON that the sandbox was given."""
    dt, tables = data["dt"], data["masks"]
    height, width = data["size"]
    shown = [int(entry["frame"]) for entry in dt.get("frames", [])] or [0]

    def load_mask(path: str, frame: int | None = None) -> Mask:
        """Mask of an instance in a frame of the twin; the first one that shows it by default."""
        if path not in tables:
            raise KeyError(f"no mask {path!r} in the digital twin")
        known = tables[path]
        if frame is None:
            frame = next((index for index in shown if len(known[str(index)]) > 1), shown[0])
        if str(frame) not in known:
            raise KeyError(f"frame {frame} is not in the digital twin, which has {shown}")
        runs = known[str(frame)]
        flat = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
        return flat.reshape((width, height)).T.copy()

    def save_mask(mask: Any, name: str) -> str:
        """Keep a mask, or a mask by frame, under a path that an answer may name."""
        several = mask if isinstance(mask, Mapping) else {shown[0]: mask}
        frames = {}
        for frame, frame_mask in several.items():
            array = np.asarray(frame_mask)
            if array.shape != (height, width):
                raise ValueError(f"a mask is {height} × {width}, not {array.shape}")
            frames[str(int(frame))] = _runs(array != 0)
        emit({"mask": str(name), "frames": frames})
        return f"masks/code/{name}"

    return {"dt": dt, "load_mask": load_mask, "save_mask": save_mask}


def _runs(mask: Mask) -> list[int]:
    """Lengths of the alternating runs of false and true, column by column."""
    flat = mask.T.ravel()
    edges = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    runs = np.diff([0, *edges.tolist(), flat.size]).tolist()
    return [0, *runs] if flat[0] else runs
