"""Parts of a composition, built from SPECs: one place for all adapters."""

from harness import plugins
from harness.backend import Chat
from harness.coordinates import Coordinates
from harness.errors import UsageError
from harness.frames import FramePolicy, frame_policy
from harness.segmentation import Propagator, Segmenter
from harness.spec import Spec, Value

GRABCUT, FLOW = Spec("grabcut"), Spec("flow")
FRAMES = 8


def at_least(owner: str, minimum: int, **numbers: float) -> None:
    """Raise UsageError for an option of `owner` that is below a minimum."""
    for name, number in numbers.items():
        if not number >= minimum:
            raise UsageError(
                f"{owner}({name}=…)", expected=f"at least {minimum}", found=str(number)
            )


def build_chat(
    backend: Spec | Chat,
    *,
    checkpoint: str | None,
    batch_size: int,
    seed: int = 0,
    coordinates: Coordinates | None = None,
) -> Chat:
    """Return the network behind `backend`; its own SPEC wins over the arguments given here.

    `seed` reaches a backend that samples, `checkpoint` one that has a network: stored responses
    have none. `checkpoint` and `coordinates` are left out where none are given.
    """
    if not isinstance(backend, Spec):
        return backend
    given: dict[str, Value] = {"batch_size": batch_size}
    if checkpoint is not None and plugins.accepts("backends", backend.name, "checkpoint"):
        given["checkpoint"] = checkpoint
    if plugins.accepts("backends", backend.name, "seed"):
        given["seed"] = seed
    if coordinates is not None and plugins.accepts("backends", backend.name, "coordinates"):
        given["coordinates"] = coordinates
    built: Chat = plugins.build("backends", backend.with_defaults(**given))
    return built


def build_segmenter(part: Spec | Segmenter) -> Segmenter:
    """Return the segmenter that a SPEC names."""
    built: Segmenter = plugins.build("segmenters", part) if isinstance(part, Spec) else part
    return built


def build_propagator(part: Spec | Propagator) -> Propagator:
    """Return the propagator that a SPEC names."""
    built: Propagator = plugins.build("propagators", part) if isinstance(part, Spec) else part
    return built


def build_frame_policy(frames: int | Spec | FramePolicy | None) -> int | FramePolicy:
    """Return the number of frames to show of a video, or a SPEC's rule; None: `FRAMES`."""
    if frames is None:
        return FRAMES
    return frame_policy(frames) if isinstance(frames, Spec) else frames
