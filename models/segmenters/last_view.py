"""Cache of the last image's embedding, so that several prompts on one image encode it once.

Segmenters of the SAM family use it: encoding an image costs more than decoding its masks.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from harness.media import Frame

View = TypeVar("View")


@dataclass(slots=True)
class LastView(Generic[View]):
    """The embedding of the last image (`View`), with a hash of that image."""

    key: bytes = b""
    """Hash of the image's shape and pixels."""
    view: View | None = None
    """Embedding of the image with that hash."""

    def get(self, image: Frame, encode: Callable[[Frame], View]) -> View:
        """Return the embedding of an image; `encode` computes it if the image has changed."""
        key = hashlib.blake2b(repr(image.shape).encode())
        key.update(np.ascontiguousarray(image).data)
        if self.view is None or self.key != key.digest():
            self.view = encode(image)
            self.key = key.digest()
        return self.view
