"""Divide requests into batches, and make a batch's tensors while another one is computed.

The `transformers` backend uses it: `batches` plans a call, `with_inputs` prefetches within a call,
`PreparedInputs` across calls.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from time import perf_counter
from typing import TYPE_CHECKING

from harness.chat import ChatRequest
from harness.models.backends.inputs import length

if TYPE_CHECKING:
    from transformers import BatchFeature

MAX_CALLS = 2  # calls whose first tensors are kept: the present one and the next


def batches(requests: Sequence[ChatRequest], *, size: int) -> list[list[int]]:
    """Return the indices of requests by batch, of at most `size` requests each.

    All requests of a batch have the same token limit, temperature and top-p. Requests of similar
    length are in the same batch, so that there is little padding; the longest come first, so that a
    batch that does not fit into memory fails early.
    """
    order = sorted(
        range(len(requests)),
        key=lambda index: (*_settings(requests[index]), -length(requests[index])),
    )
    plan: list[list[int]] = []
    for _, same_settings in groupby(order, key=lambda index: _settings(requests[index])):
        group = list(same_settings)
        plan += [group[start : start + size] for start in range(0, len(group), size)]
    return plan


def _settings(request: ChatRequest) -> tuple[int, bool, float, float]:
    """Return the settings that are equal in a batch, for sorting.

    These are the token limit, True if the request has a temperature of its own, that temperature,
    and top-p (0 if the request has none).
    """
    has_temperature = request.temperature is not None
    return (
        request.max_new_tokens,
        has_temperature,
        request.temperature_or(0.0),
        request.top_p_or(0.0),
    )


def input_worker(name: str, *, device: str = "cpu") -> ThreadPoolExecutor:
    """Return a pool of one thread that makes tensors while a network computes on `device`.

    Beside a network on the CPU, torch uses no further threads in it: with more threads than cores,
    every matrix product would wait for a thread that is not running.
    """
    single_threaded = torch_alone if device == "cpu" else None
    return ThreadPoolExecutor(1, thread_name_prefix=name, initializer=single_threaded)


def torch_alone() -> None:
    """Let torch compute in this thread alone; threads that start later use as many as before."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # this also sets the number for threads that start later
    restoring = threading.Thread(target=torch.set_num_threads, args=(threads,))
    restoring.start()
    restoring.join()


@dataclass(slots=True)
class WaitTimer:
    """Seconds that a network has waited for its next inputs."""

    seconds: float = 0.0

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Add the seconds of a `with` block."""
        start = perf_counter()
        try:
            yield
        finally:
            self.seconds += perf_counter() - start


@dataclass(slots=True)
class PreparedInputs:
    """The tensors of a call's first requests, made while the call before it is computed.

    One thread may call `make` for the next call while another calls `take_if_same` for the present
    one.
    """

    device: str = "cpu"
    """Device of the network."""
    _threads: ThreadPoolExecutor = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _coming: "list[tuple[list[ChatRequest], Future[BatchFeature]]]" = field(default_factory=list)
    """Requests and their tensors, oldest first."""

    def __post_init__(self) -> None:
        self._threads = input_worker("expected", device=self.device)

    def make(
        self, requests: Sequence[ChatRequest], make_inputs: "Callable[[], BatchFeature]"
    ) -> None:
        """Start to make the tensors of requests; of more than `MAX_CALLS`, drop the oldest."""
        entry = [*requests], self._threads.submit(make_inputs)
        with self._lock:
            self._coming.append(entry)
            dropped = self._coming[:-MAX_CALLS]
            del self._coming[:-MAX_CALLS]
        for _, future in dropped:
            future.cancel()

    def take_if_same(self, requests: Sequence[ChatRequest]) -> "Future[BatchFeature] | None":
        """Return the tensors of exactly these requests, once; None if there are none.

        Tensors of other requests stay for later calls, because second tries may come in between.
        None is also returned if making them failed: the call then makes them itself and raises.
        """
        with self._lock:
            matching = (entry for entry in self._coming if _same_requests(entry[0], requests))
            expected = next(matching, None)
            self._coming = [entry for entry in self._coming if entry is not expected]
        # `exception()` waits until the tensors are made.
        return None if expected is None or expected[1].exception() else expected[1]


def _same_requests(first: Sequence[ChatRequest], second: Sequence[ChatRequest]) -> bool:
    """Return True if the requests are equal and their media are the same objects."""
    return len(first) == len(second) and all(
        [*map(id, ours.media)] == [*map(id, theirs.media)]
        and replace(ours, media=()) == replace(theirs, media=())
        for ours, theirs in zip(first, second, strict=True)
    )


def with_inputs(
    plan: Sequence[list[int]],
    make_inputs: "Callable[[list[int]], BatchFeature]",
    *,
    ahead: bool,
    timer: WaitTimer,
    device: str = "cpu",
    started: "Future[BatchFeature] | None" = None,
) -> "Iterator[tuple[list[int], BatchFeature]]":
    """Yield each batch of a plan with its tensors.

    Args:
        plan: Indices of the requests of each batch.
        make_inputs: Makes the tensors of the requests at some indices.
        ahead: Make the tensors of the next batch in another thread; never of two, to save memory.
        timer: Counts the time of waiting for tensors.
        device: Device of the network.
        started: Tensors of the first batch that are being made already, if any.
    """
    coming = started
    with input_worker("inputs", device=device) as worker:
        for number, indices in enumerate(plan, start=1):
            with timer.measure():
                inputs = make_inputs(indices) if coming is None else coming.result()
            more = ahead and number < len(plan)
            coming = worker.submit(make_inputs, plan[number]) if more else None
            yield indices, inputs
