"""Build the parts of a method from what the user gave: a SPEC, or an object that is built already.

`Composition`, `mask_model` and the trainers call these, so that all adapters share the rules for
defaults such as checkpoint, batch size and seed.
"""

from harness import plugins
from harness.backend import Chat
from harness.coordinates import Coordinates
from harness.errors import UsageError
from harness.frames import FramePolicy, frame_policy
from harness.segmentation import Propagator, Segmenter
from harness.spec import Spec, Value

GRABCUT, FLOW = Spec("grabcut"), Spec("flow")  # a segmenter and a propagator without weights
FRAMES = 8
"""Frames of a video to show where neither the user nor the method states a number."""


def at_least(owner: str, minimum: int, **numbers: float) -> None:
    """Raise UsageError if an option of the plugin `owner`, given by name, is below a minimum."""
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
    """Return the network behind `backend`; arguments in its SPEC win over those given here.

    A backend receives only the options that it has: `stored`, for example, has no `checkpoint` and
    no `seed`. A `checkpoint` or `coordinates` of None is left to the backend's default.
    """
    if not isinstance(backend, Spec):
        return backend
    defaults: dict[str, Value] = {"batch_size": batch_size}
    if checkpoint is not None and plugins.accepts("backends", backend.name, "checkpoint"):
        defaults["checkpoint"] = checkpoint
    if plugins.accepts("backends", backend.name, "seed"):
        defaults["seed"] = seed
    if coordinates is not None and plugins.accepts("backends", backend.name, "coordinates"):
        defaults["coordinates"] = coordinates
    built: Chat = plugins.build("backends", backend.with_defaults(**defaults))
    return built


def build_segmenter(part: Spec | Segmenter) -> Segmenter:
    """Return the segmenter that a SPEC names; a segmenter as it is."""
    built: Segmenter = plugins.build("segmenters", part) if isinstance(part, Spec) else part
    return built


def build_propagator(part: Spec | Propagator) -> Propagator:
    """Return the propagator that a SPEC names; a propagator as it is."""
    built: Propagator = plugins.build("propagators", part) if isinstance(part, Spec) else part
    return built


def build_frame_policy(frames: int | Spec | FramePolicy | None) -> int | FramePolicy:
    """Return how many frames of a video to show, or the rule that a SPEC names; None: `FRAMES`."""
    if frames is None:
        return FRAMES
    return frame_policy(frames) if isinstance(frames, Spec) else frames
