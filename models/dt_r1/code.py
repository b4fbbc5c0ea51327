"""One block of generated code over a twin: its input, what it printed, and the masks it made."""

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
from harness.models.tracks import nearest_place
from harness.run_lengths import encode_runs
from harness.sandbox.pool import Sandbox

NOTHING = "(no output)"
SHOWN = 1_024
"""Characters of output that are injected; longer output loses its middle."""
NAME = 64
"""Longest name of a mask that code saves."""
MADE = "masks/code/"
"""Beginning of the paths of masks that code made."""


@dataclass(frozen=True, slots=True)
class CodeResult:
    """Outcome of a block."""

    text: str
    """Text for `<results>`: the output, or the last line of the error."""
    error: str | None = None
    """The error's last line; None: it ran."""
    refused: str | None = None
    """Name of the system call that it was refused."""
    masks: Mapping[str, Track] = field(default_factory=dict)
    """Masks that it saved, by path."""
    infrastructure: str | None = None
    """Reason why the sandbox could not run it, where the code is not at fault; None: it could."""


@cache
def prelude_text() -> str:
    """Return the trusted code that runs before a block."""
    return f"{inspect.getsource(prelude)}\n\nglobals().update(namespace(data, emit))\n"


def data_for(twin: Twin, media: Media) -> dict[str, Any]:
    """Return what code is given: the twin, and its masks in the frames that it describes."""
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
    """Run a block; never raises on what a network wrote.

    Args:
        sandbox: Where it runs.
        code: The block.
        twin: What it computes with.
        media: Medium of the twin.
        before: Earlier blocks to run first, in the same namespace, with their output left out.
        timeout: Seconds for all of it.

    Raises:
        SandboxFault: the sandbox could not run it.
    """
    mark = "\x1e"
    whole = "\n".join([*before, f"print({mark!r})", code]) if before else code
    done = sandbox.run(whole, data=data_for(twin, media), prelude=prelude_text(), timeout=timeout)
    masks, wrong = _masks(done.values, media)
    error = _last_line(done.error) or wrong
    if done.timed_out:
        error = f"TimeoutError: more than {timeout:g} s"
    if error is not None:
        line = shortened(harmless(error))
        return CodeResult(line, error=line, refused=done.refused)
    output = done.output.rpartition(f"{mark}\n")[2] if before else done.output
    text = shortened(harmless(output.strip()), SHOWN) or NOTHING
    return CodeResult(text, masks=masks)


def _last_line(error: str | None) -> str | None:
    lines = (error or "").strip().splitlines()
    return lines[-1].strip() if lines else None


def _masks(values: Sequence[Any], media: Media) -> tuple[dict[str, Track], str | None]:
    """Return the masks among emitted values, and the fault of the first value that is not a mask.

    In frames of a video that were not given, a mask is that of the nearest frame that was.
    """
    tracks: dict[str, Track] = {}
    width, height = media.size
    saved = [value for value in values if isinstance(value, dict) and "mask" in value]
    if len(saved) > MAX_INSTANCES:  # more than an answer may name
        return {}, f"ValueError: more than {MAX_INSTANCES} masks are saved"
    for value in saved:
        name, given = value["mask"], value.get("frames")
        if not (isinstance(name, str) and 0 < len(name) <= NAME and isinstance(given, dict)):
            return {}, f"ValueError: a mask's name has 1 to {NAME} characters"
        try:
            given_frames = {
                int(frame): Rle.from_json({"size": [height, width], "counts": runs})
                for frame, runs in given.items()
            }
        except (MaskError, ValueError, TypeError) as error:
            return {}, f"ValueError: mask {name!r}: {shortened(str(error))}"
        known = sorted(given_frames)
        if not known or known[0] < 0 or known[-1] >= len(media):
            return {}, f"ValueError: mask {name!r} is of frames 0 to {len(media) - 1}"
        frames = {frame: _canonical(rle) for frame, rle in given_frames.items()}
        nearest = (known[nearest_place(known, index)] for index in range(len(media)))
        tracks[f"{MADE}{name}"] = Track.from_rles([frames[frame] for frame in nearest])
    return tracks, None


def _canonical(rle: Rle) -> Rle:
    """Return the same mask in the runs of `Rle.from_array`, of which only the first may be empty.

    Pixels are not decoded: code may save a mask of every frame of a long video, and no limit of
    time ends what is done here.
    """
    ends = np.cumsum(rle.runs)
    places, counts = np.unique(ends[:-1], return_counts=True)
    changes = places[(counts % 2 == 1) & (places < ends[-1])]
    runs = np.diff([0, *changes.tolist(), int(ends[-1])])
    return Rle(rle.height, rle.width, encode_runs(runs.tolist()))
