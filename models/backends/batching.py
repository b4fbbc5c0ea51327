"""Batches of requests, and their tensors, made while other batches are answered."""

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

WAITING = 2  # calls whose beginnings are kept: what is asked for now, and what is next


def batches(requests: Sequence[ChatRequest], *, size: int) -> list[list[int]]:
    """Return the places of requests by batch: of at most `size`, the longest first.

    All requests of a batch have one limit of new tokens, one temperature and one nucleus. Requests
    of similar length stand together, so that little is padded; the longest come first, so that a
    batch which does not fit into memory fails at once.
    """
    order = sorted(
        range(len(requests)),
        key=lambda place: (*_settings(requests[place]), -length(requests[place])),
    )
    cut: list[list[int]] = []
    for _, same in groupby(order, key=lambda place: _settings(requests[place])):
        group = list(same)
        cut += [group[at : at + size] for at in range(0, len(group), size)]
    return cut


def _settings(request: ChatRequest) -> tuple[int, bool, float, float]:
    """Return what the requests of a batch have in common, sorted with the backend's own
    temperature first: the limit of new tokens, True for a temperature of its own, and that, and
    the nucleus, which is more than 0.
    """
    own = request.temperature is not None
    return request.max_new_tokens, own, request.temperature_or(0.0), request.top_p_or(0.0)


def input_worker(name: str, *, device: str = "cpu") -> ThreadPoolExecutor:
    """Return a thread in which tensors are made while a network computes on `device`.

    On a CPU it computes alone: torch would give it as many threads as the network has, and where
    there are more threads than cores, each product waits for one that is not running.
    """
    beside = torch_alone if device == "cpu" else None
    return ThreadPoolExecutor(1, thread_name_prefix=name, initializer=beside)


def torch_alone() -> None:
    """Let torch compute in this thread alone, and in threads that begin later as before."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # also the number of threads that begin later
    restoring = threading.Thread(target=torch.set_num_threads, args=(threads,))
    restoring.start()
    restoring.join()


@dataclass(slots=True)
class WaitTimer:
    """Seconds that a network has waited for its next inputs."""

    seconds: float = 0.0

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Count the time within."""
        start = perf_counter()
        try:
            yield
        finally:
            self.seconds += perf_counter() - start


@dataclass(slots=True)
class PreparedInputs:
    """The tensors of a call's first requests, made while the call before it is answered.

    One thread may call `make` for the next call while another calls `take_if_same` for the present
    one.
    """

    device: str = "cpu"
    """Where the network computes."""
    _threads: ThreadPoolExecutor = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _coming: "list[tuple[list[ChatRequest], Future[BatchFeature]]]" = field(default_factory=list)

    def __post_init__(self) -> None:
        self._threads = input_worker("expected", device=self.device)

    def make(
        self, requests: Sequence[ChatRequest], make_inputs: "Callable[[], BatchFeature]"
    ) -> None:
        """Begin to make the tensors of requests; drop the oldest of more than `WAITING`."""
        coming = [*requests], self._threads.submit(make_inputs)
        with self._lock:
            self._coming.append(coming)
            dropped = self._coming[:-WAITING]
            del self._coming[:-WAITING]
        for _, done in dropped:
            done.cancel()

    def take_if_same(self, requests: Sequence[ChatRequest]) -> "Future[BatchFeature] | None":
        """Return the tensors of exactly these requests, once; None if others were expected.

        Others stay for later calls, as second tries may come between. Tensors that could not be
        made are made again by the call itself, which then raises the error.
        """
        with self._lock:
            matching = (entry for entry in self._coming if _same_requests(entry[0], requests))
            expected = next(matching, None)
            self._coming = [entry for entry in self._coming if entry is not expected]
        return None if expected is None or expected[1].exception() else expected[1]


def _same_requests(left: Sequence[ChatRequest], right: Sequence[ChatRequest]) -> bool:
    """Return True if these are the same requests about identical objects as media."""
    return len(left) == len(right) and all(
        [*map(id, ours.media)] == [*map(id, theirs.media)]
        and replace(ours, media=()) == replace(theirs, media=())
        for ours, theirs in zip(left, right, strict=True)
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
    """Yield each batch of a plan with the tensors that `make_inputs` makes of it.

    With `ahead`, another thread makes one batch ahead, and never two, which bounds memory.
    `started` is the first one, if it was expected. `timer` counts the time of waiting. The network
    computes on `device`.
    """
    coming = started
    with input_worker("inputs", device=device) as worker:
        for number, places in enumerate(plan, start=1):
            with timer.measure():
                inputs = make_inputs(places) if coming is None else coming.result()
            more = ahead and number < len(plan)
            coming = worker.submit(make_inputs, plan[number]) if more else None
            yield places, inputs
