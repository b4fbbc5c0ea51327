"""The node `opencv`: brightness, sharpness and colour of frames, cuts and camera motion."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import cv2
import numpy as np

from harness.media import Frame, Media
from harness.models.nodes.colour_and_shape import colour_name
from harness.models.propagators.flow import dense_flow
from harness.models.saliency.salience import camera_motion, shrink_frame
from harness.node import FrameFacts, Kind, Node, NodeKind, Output, Plain

MIN_CUT_DISTANCE = 0.5
"""Bhattacharyya distance (0 to 1) of two frames' colours above which there is a cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCV(Node):
    """Measures brightness, sharpness and main colour of frames, cuts and camera motion of videos.

    Between two described frames there is either a cut or a camera motion.
    """

    kind: ClassVar[NodeKind] = NodeKind(
        produces=Kind.FRAMES, summary="frame-level processing: light, sharpness, cuts, camera"
    )

    name = "opencv"

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> FrameFacts:
        """Measure the described frames, and the changes from one to the next."""
        frames: dict[int, dict[str, Plain]] = {}
        before: Frame | None = None
        cuts: list[int] = []
        for index in indices:
            frame = shrink_frame(media.frame(index))
            frames[index] = _frame_facts(frame)
            if before is not None:
                if _colour_distance(before, frame) > MIN_CUT_DISTANCE:
                    cuts.append(index)
                    frames[index]["cut"] = True
                else:
                    right, down = _camera_shift(before, frame, media.size[0] / frame.shape[1])
                    frames[index]["camera"] = f"moves {right:+d}, {down:+d}"
            before = frame
        video: Mapping[str, Any] = {"cuts": len(cuts)} if len(indices) > 1 else {}
        return FrameFacts(frames, video)


def opencv() -> OpenCV:
    """Light, sharpness, colours, cuts and camera motion of frames; no weights."""
    return OpenCV()


def _frame_facts(frame: Frame) -> dict[str, Plain]:
    """Return brightness (0 to 1), sharpness (of the Laplacian) and the name of the main colour."""
    grey = cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY)
    lab = cv2.cvtColor(frame.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    return {
        "brightness": round(float(grey.mean()) / 255, 2),
        "sharpness": round(float(cv2.Laplacian(grey, cv2.CV_64F).std()), 1),
        "main_colour": colour_name(np.median(lab.reshape(-1, 3), axis=0)),
    }


def _colour_distance(first: Frame, second: Frame) -> float:
    """Return the Bhattacharyya distance of two images' colour histograms (8 bins per channel)."""
    histograms = [
        cv2.calcHist([image], [0, 1, 2], None, [8, 8, 8], [0, 256] * 3) for image in (first, second)
    ]
    return float(cv2.compareHist(histograms[0], histograms[1], cv2.HISTCMP_BHATTACHARYYA))


def _camera_shift(before: Frame, frame: Frame, scale: float) -> tuple[int, int]:
    """Return the median camera motion (right, down) in pixels of the medium.

    `scale` is the size of the medium divided by that of the frames.
    """
    flow = camera_motion(dense_flow(before, frame, max_side=max(frame.shape[:2])))
    right, down = np.median(flow.reshape(-1, 2), axis=0) * scale
    return round(float(right)), round(float(down))
