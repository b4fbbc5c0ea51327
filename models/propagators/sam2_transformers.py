"""SAM 2's video model through transformers: the class behind `sam2_video` and `pocket_sam_video`.

It propagates masks by its memory of earlier frames. The method is SAM 2 (Ravi et al.: "SAM 2:
Segment Anything in Images and Videos", 2024).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness.masks import BoolArray, Track
from harness.media import Media
from harness.models.backends import sam2 as checkpoints
from harness.models.backends.checkpoint_part import CheckpointPart
from harness.models.backends.loading import memory
from harness.models.propagators.walks import Walker

if TYPE_CHECKING:
    import torch
    from transformers import Sam2VideoInferenceSession, Sam2VideoProcessor


@dataclass(frozen=True, kw_only=True)
class Sam2Video(CheckpointPart, Walker):
    """SAM 2's video model, loaded at the first use.

    Each direction is one session, which propagates all objects in one pass over the frames. An
    empty mask stays empty. Frames are decoded one by one, and memory that later frames cannot use
    is removed. Memory: the network, each object's mask in one frame, and the run-lengths of the
    result.
    """

    family: ClassVar[str] = "Sam2Video"
    compiled: bool = False
    name: str = "sam2_video"
    """Name of the plugin, for records."""

    def propagate(self, video: Media, start: int, masks: Sequence[BoolArray]) -> list[Track]:
        """Propagate each mask of frame `start`; see `Walker.propagate`."""
        with memory():
            return super().propagate(video, start, masks)

    def _walk(
        self, video: Media, order: range, masks: Sequence[BoolArray]
    ) -> Iterator[tuple[int, list[BoolArray]]]:
        """Propagate all masks in one session over the frames of `order`."""
        start, reverse = order[0], order.step < 0
        session = self._session(video)
        self.processor.add_inputs_to_inference_session(
            session,
            frame_idx=start,
            obj_ids=list(range(len(masks))),
            input_masks=[np.ascontiguousarray(mask) for mask in masks],
        )
        size = [session.video_height, session.video_width]
        steps = self.network.propagate_in_video_iterator(
            session, start_frame_idx=start, reverse=reverse
        )
        for step in steps:
            self._forget(session, step.frame_idx)
            if step.frame_idx != start:
                logits = step.pred_masks.float()
                (resized,) = self.processor.post_process_masks([logits], original_sizes=[size])
                yield step.frame_idx, list(resized[:, 0].cpu().numpy())

    def _session(self, video: Media) -> "Sam2VideoInferenceSession":
        """Return a session without any prompt, whose frames are decoded on access."""
        import transformers

        network = self.network
        session_class = getattr(transformers, f"{self.family}InferenceSession")
        session: Sam2VideoInferenceSession = session_class(
            video_height=video.size[1],
            video_width=video.size[0],
            inference_device=network.device,
            inference_state_device=network.device,
            dtype=network.dtype,
        )
        session.processed_frames = Frames(video, self.processor, network.dtype)
        return session

    def _forget(self, session: "Sam2VideoInferenceSession", frame: int) -> None:
        """Remove the state that no later frame of this propagation can use."""
        config = self.network.config
        reach = max(config.num_maskmem, config.max_object_pointers_in_encoder)
        for outputs in session.output_dict_per_obj.values():
            tracked = outputs["non_cond_frame_outputs"]
            for old in [index for index in tracked if abs(frame - index) >= reach]:
                del tracked[old]
            for output in (*tracked.values(), *outputs["cond_frame_outputs"].values()):
                output.pop("high_res_masks", None)


@dataclass(frozen=True, slots=True)
class Frames:
    """Frames of a video, preprocessed for the network on access."""

    video: Media
    processor: "Sam2VideoProcessor"
    dtype: "torch.dtype"

    def __len__(self) -> int:
        return len(self.video)

    def __getitem__(self, index: int) -> "torch.Tensor":
        """Return a frame as normalised floats (3 × side × side)."""
        pixels = checkpoints.pixels(self.processor.image_processor, self.video.frame(index))
        return pixels[0].to(self.dtype)
