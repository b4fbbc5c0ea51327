"""Cache of the last image's embedding: it costs more than the masks decoded from it."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.media import Frame


@dataclass(slots=True)
class LastView:
    """A network's view of the last picture, such as its embeddings."""

    key: bytes = b""
    """A hash of the picture's shape and pixels."""
    view: Any = None

    def of(self, picture: Frame, look: Callable[[Frame], Any]) -> Any:
        """The view of a picture; `look` makes it where the last picture was another."""
        key = hashlib.blake2b(repr(picture.shape).encode())
        key.update(np.ascontiguousarray(picture).data)
        if self.key != key.digest():
            view = look(picture)
            self.key, self.view = key.digest(), view
        return self.view
