"""Run one block of code that the network wrote over a digital twin, in the sandbox.

The code gets the twin's data and masks (`data_for`) and helper functions (`prelude`). `run_code`
returns what it printed, shortened for injection into the rollout, and the masks that it saved.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from harness.errors import MaskError
from harness.masks import Rle, Track
from harness.media import Media
from harness.models.dt_r1 import prelude
from harness.models.dt_r1.grammar import MAX_INSTANCES, harmless, shortened
from harness.models.dt_r1.twin import Twin
from harness.models.tracks import nearest_index
from harness.run_lengths import encode_runs
from harness.sandbox.pool import Sandbox

NO_OUTPUT = "(no output)"
MAX_OUTPUT = 1_024
"""Characters of output that are injected; longer output loses its middle."""
MAX_NAME_LENGTH = 64
"""Longest name of a mask that code saves."""
SAVED_MASKS = "masks/code/"
"""Prefix of the paths of masks that code saved."""


@dataclass(frozen=True, slots=True)
class CodeResult:
    """The outcome of one block of code."""

    text: str
    """Text for `<results>`: the output, or the last line of the error."""
    error: str | None = None
    """The last line of the error; None: the block ran to its end."""
    refused: str | None = None
    """Name of the system call that the sandbox refused, if any."""
    masks: Mapping[str, Track] = field(default_factory=dict)
    """Masks that the block saved, by path."""
    infrastructure: str | None = None
    """Reason why the sandbox could not run the block; None: it ran, with or without an error."""


@cache
def prelude_text() -> str:
    """Return the source of this project's code that runs before a block: its helper functions."""
    return f"{inspect.getsource(prelude)}\n\nglobals().update(namespace(data, emit))\n"


def data_for(twin: Twin, media: Media) -> dict[str, Any]:
    """Return the input of a block as plain data: the twin, and its masks in the twin's frames."""
    frames = [int(entry["frame"]) for entry in twin.data.get("frames", [])] or [0]
    width, height = media.size
    return {
        "dt": dict(twin.data),
        "size": [height, width],
        "masks": {
            path: {str(frame): track.rle(frame).runs.tolist() for frame in frames}
            for path, track in twin.masks.items()
        },
    }


def run_code(
    sandbox: Sandbox,
    code: str,
    twin: Twin,
    media: Media,
    *,
    before: Sequence[str] = (),
    timeout: float = 10.0,
) -> CodeResult:
    """Run a block; an error of the code is part of the result and is not raised.

    Args:
        sandbox: Sandbox to run it in.
        code: The block, as the network wrote it.
        twin: Digital twin that the code computes with.
        media: The image or video of the twin.
        before: Earlier blocks to run first in the same namespace; their output is left out.
        timeout: Seconds for all blocks together.

    Raises:
        SandboxFault: the sandbox could not run it.
    """
    separator = "\x1e"  # printed between the earlier blocks and this one
    script = "\n".join([*before, f"print({separator!r})", code]) if before else code
    run = sandbox.run(script, data=data_for(twin, media), prelude=prelude_text(), timeout=timeout)
    masks, mask_error = _saved_masks(run.values, media)
    error = _last_line(run.error) or mask_error
    if run.timed_out:
        error = f"TimeoutError: more than {timeout:g} s"
    if error is not None:
        line = shortened(harmless(error))
        return CodeResult(line, error=line, refused=run.refused)
    output = run.output.rpartition(f"{separator}\n")[2] if before else run.output
    text = shortened(harmless(output.strip()), MAX_OUTPUT) or NO_OUTPUT
    return CodeResult(text, masks=masks)


def _last_line(error: str | None) -> str | None:
    """Return the last line of a traceback, which names the exception; None without one."""
    lines = (error or "").strip().splitlines()
    return lines[-1].strip() if lines else None


def _saved_masks(values: Sequence[Any], media: Media) -> tuple[dict[str, Track], str | None]:
    """Return the saved masks by path, and an error line if one of them is malformed (else None).

    `values` are the values that code emitted; a mask is `{"mask": name, "frames": {frame: runs}}`.
    A frame of the video that is not given gets the mask of the nearest given frame.
    """
    tracks: dict[str, Track] = {}
    width, height = media.size
    saved = [value for value in values if isinstance(value, dict) and "mask" in value]
    if len(saved) > MAX_INSTANCES:  # more than an answer may name
        return {}, f"ValueError: more than {MAX_INSTANCES} masks are saved"
    for value in saved:
        name, raw_frames = value["mask"], value.get("frames")
        is_named = isinstance(name, str) and 0 < len(name) <= MAX_NAME_LENGTH
        if not (is_named and isinstance(raw_frames, dict)):
            return {}, f"ValueError: a mask's name has 1 to {MAX_NAME_LENGTH} characters"
        try:
            given_frames = {
                int(frame): Rle.from_json({"size": [height, width], "counts": runs})
                for frame, runs in raw_frames.items()
            }
        except (MaskError, ValueError, TypeError) as error:
            return {}, f"ValueError: mask {name!r}: {shortened(str(error))}"
        given = sorted(given_frames)
        if not given or given[0] < 0 or given[-1] >= len(media):
            return {}, f"ValueError: mask {name!r} is of frames 0 to {len(media) - 1}"
        frames = {frame: _canonical(rle) for frame, rle in given_frames.items()}
        nearest = (given[nearest_index(given, frame)] for frame in range(len(media)))
        tracks[f"{SAVED_MASKS}{name}"] = Track.from_rles([frames[frame] for frame in nearest])
    return tracks, None


def _canonical(rle: Rle) -> Rle:
    """Return the same mask with the runs of `Rle.from_array`, where only the first may be empty.

    Pixels are not decoded, because code may save a mask of every frame of a long video, and the
    time limit of the sandbox does not cover this step.
    """
    ends = np.cumsum(rle.runs)
    # Where an even number of runs end, all but the first are empty, and the value stays the same.
    positions, n_ends = np.unique(ends[:-1], return_counts=True)
    changes = positions[(n_ends % 2 == 1) & (positions < ends[-1])]
    runs = np.diff([0, *changes.tolist(), int(ends[-1])])
    return Rle(rle.height, rle.width, encode_runs(runs.tolist()))
