"""Encoded images that requests share: those of a group's rollouts, of retries and of controls."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future

Encoded = tuple[str, bytes]
"""Kind of an image's file (`jpeg`, `png`) and its bytes."""


class EncodedImages:
    """The images encoded last, up to a number of bytes. Safe to use from several threads.

    Threads that want the same image at once wait for the one that encodes it.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._bytes = 0
        self._images: OrderedDict[Hashable, Future[Encoded]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, encode: Callable[[], Encoded]) -> Encoded:
        """Return the image of a key, encoded by `encode` if it is not held; raises as that does."""
        with self._lock:
            image = self._images.get(key)
            if image is not None:
                self._images.move_to_end(key)
            else:
                own = self._images[key] = Future[Encoded]()
        if image is not None:
            return image.result()
        try:
            encoded = encode()
        except BaseException as error:
            with self._lock:
                del self._images[key]
            own.set_exception(error)
            raise
        own.set_result(encoded)
        with self._lock:
            self._bytes += len(encoded[1])
            while self._bytes > self.max_bytes and len(self._images) > 1:
                oldest, dropped = next(iter(self._images.items()))
                if not dropped.done():
                    break
                del self._images[oldest]
                self._bytes -= len(dropped.result()[1])
        return encoded
