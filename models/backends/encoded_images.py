"""Cache encoded images (JPEG, PNG): many requests to a server show the same image.

The rollouts of a group do, second tries, and the controls of an audit. The backends of servers use
it.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future

Encoded = tuple[str, bytes]
"""Format of an image file (`jpeg`, `png`) and its bytes."""


class EncodedImages:
    """The most recently used encoded images, up to `max_bytes` together; safe for threads.

    Threads that need the same image at the same time wait for the one that encodes it.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._bytes = 0
        self._images: OrderedDict[Hashable, Future[Encoded]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, encode: Callable[[], Encoded]) -> Encoded:
        """Return the image of a key; if it is not cached, `encode` makes it, or raises."""
        with self._lock:
            image = self._images.get(key)
            if image is not None:
                self._images.move_to_end(key)
            else:
                new_image = self._images[key] = Future[Encoded]()
        if image is not None:
            return image.result()
        try:
            encoded = encode()
        except BaseException as error:
            with self._lock:
                del self._images[key]
            new_image.set_exception(error)
            raise
        new_image.set_result(encoded)
        with self._lock:
            self._bytes += len(encoded[1])
            while self._bytes > self.max_bytes and len(self._images) > 1:
                oldest, dropped = next(iter(self._images.items()))
                if not dropped.done():
                    break
                del self._images[oldest]
                self._bytes -= len(dropped.result()[1])
        return encoded
