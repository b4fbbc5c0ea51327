"""The options that every prompted method shares, and the parts that are built from them.

A method's plugin function takes the options (SPECs such as `segmenter=sam2`, numbers) as one
`Composition`; `build` returns the constructor arguments of a `PromptedModel`.
"""

from dataclasses import dataclass
from typing import TypedDict

from harness.backend import Chat
from harness.coordinates import Coordinates
from harness.frames import FramePolicy
from harness.models.default_parts import default_propagator, default_segmenter
from harness.models.factory import build_chat, build_frame_policy, build_propagator, build_segmenter
from harness.models.prompted_requests import KeyFrame
from harness.options import Carried
from harness.segmentation import Propagator, Segmenter
from harness.spec import Spec, Value

TRANSFORMERS = Spec("transformers")


class Parts(TypedDict):
    """Parts and settings of a `PromptedModel`, as its constructor takes them."""

    chat: Chat
    segmenter: Segmenter
    propagator: Propagator
    keyframe: KeyFrame
    frames: int | FramePolicy
    max_new_tokens: int
    system: str | None
    batch_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """Parts of an adapter: the network behind a backend, and the perception after it.

    An adapter takes these by `harness.options.with_options` and adds its prompt and grammar. A
    checkpoint records the `Carried` options that it was trained with.
    """

    checkpoint: str | None = None
    """A folder, or a name that the Hugging Face cache holds; handed to the backend."""
    backend: Spec | Chat = TRANSFORMERS
    """Backend that calls the network. `stored` reads responses that exist already."""
    segmenter: Spec | Segmenter | None = None
    """Makes a mask from an object's box, points or phrase; None: the paper's (`paper.toml`)."""
    propagator: Spec | Propagator | None = None
    """Carries masks from the key frame through a video; None: the paper's."""
    keyframe: Carried[KeyFrame] = "middle"
    """The frame of a video that is marked: `first`, `middle`, or `named` by the response."""
    frames: Carried[int | Spec | FramePolicy | None] = 8
    """Number of frames of a video to show where more than the key frame is, or a rule such as
    `fps(rate=2,max_frames=64)`, see docs/data.md; None: by the method's own rule, or 8."""
    max_new_tokens: Carried[int] = 1024
    """Longest response, in tokens."""
    batch_size: int = 8
    """Number of queries at once."""
    system: Carried[str | None] = None
    """System message; None leaves it to the checkpoint's chat template."""
    seed: int = 0
    """Seed of a backend that samples, unless the backend's SPEC names one."""

    def build(
        self, coordinates: Coordinates | None = None, *, method: str = "", **where: Value
    ) -> Parts:
        """Build the parts from their SPECs; a part that was not chosen is the one of the paper.

        Args:
            coordinates: Meaning of the numbers in the method's grammar; None: the network's own.
            method: Name of the plugin whose `paper.toml` states the paper's parts.
            where: Settings of the method on which the paper's segmenter depends; no paper's
                propagator depends on any.
        """
        return Parts(
            chat=self.chat(self.backend, coordinates),
            segmenter=default_segmenter(method, **where)
            if self.segmenter is None
            else build_segmenter(self.segmenter),
            propagator=default_propagator(method)
            if self.propagator is None
            else build_propagator(self.propagator),
            keyframe=self.keyframe,
            frames=build_frame_policy(self.frames),
            max_new_tokens=self.max_new_tokens,
            system=self.system,
            batch_size=self.batch_size,
        )

    def chat(self, backend: Spec | Chat, coordinates: Coordinates | None = None) -> Chat:
        """Build the backend, with this composition's checkpoint, batch size and seed."""
        return build_chat(
            backend,
            checkpoint=self.checkpoint,
            batch_size=self.batch_size,
            seed=self.seed,
            coordinates=coordinates,
        )
