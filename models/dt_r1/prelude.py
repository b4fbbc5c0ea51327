"""The variables and functions that code of the network can use: `dt`, `load_mask`, `save_mask`.

The source of this module is sent to the sandbox before the code, so it imports numpy only. Frames
are numbers in the medium, as the twin prints them. Masks are booleans (height × width of the
original image), True on the instance.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


def namespace(data: Mapping[str, Any], emit: Callable[[Any], object]) -> dict[str, Any]:
    """Return the namespace for the input of a block (`code.data_for`); `emit` returns a value."""
    dt, tables = data["dt"], data["masks"]
    height, width = data["size"]
    frame_numbers = [int(entry["frame"]) for entry in dt.get("frames", [])] or [0]

    def load_mask(path: str, frame: int | None = None) -> Mask:
        """Return an instance's mask in a frame; by default, in the first frame that shows it."""
        if path not in tables:
            raise KeyError(f"no mask {path!r} in the digital twin")
        runs_by_frame = tables[path]
        if frame is None:  # a mask of more than one run is not empty
            visible = (index for index in frame_numbers if len(runs_by_frame[str(index)]) > 1)
            frame = next(visible, frame_numbers[0])
        if str(frame) not in runs_by_frame:
            raise KeyError(f"frame {frame} is not in the digital twin, which has {frame_numbers}")
        runs = runs_by_frame[str(frame)]
        flat = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
        return flat.reshape((width, height)).T.copy()

    def save_mask(mask: Any, name: str) -> str:
        """Save a mask, or a mapping from frame to mask; return the path for the answer."""
        by_frame = mask if isinstance(mask, Mapping) else {frame_numbers[0]: mask}
        frames = {}
        for frame, frame_mask in by_frame.items():
            array = np.asarray(frame_mask)
            if array.shape != (height, width):
                raise ValueError(f"a mask is {height} × {width}, not {array.shape}")
            frames[str(int(frame))] = _runs(array != 0)
        emit({"mask": str(name), "frames": frames})
        return f"masks/code/{name}"

    return {"dt": dt, "load_mask": load_mask, "save_mask": save_mask}


def _runs(mask: Mask) -> list[int]:
    """Return the lengths of the alternating runs of False and True, column by column."""
    flat = mask.T.ravel()
    edges = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    runs = np.diff([0, *edges.tolist(), flat.size]).tolist()
    return [0, *runs] if flat[0] else runs
