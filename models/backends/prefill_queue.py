"""Queue of requests that wait for free rows; the tensors of the next ones are made meanwhile.

Requests that differ only in their keys (votes, or the rollouts of a question) have one prompt. They
are begun one after the other, so that the prompt's tensors are made, and read by the network, once.
`continuous_generation` fills the queue, and `continuous_batching.responses` takes from it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from harness.chat import ChatRequest
from harness.models.backends.batching import WaitTimer, batches
from harness.models.backends.continuous_batching import PromptBatch, least_to_begin

if TYPE_CHECKING:
    from transformers import BatchFeature

Prompts: TypeAlias = list[list[int]]
"""Different prompts, each as the indices of its requests."""


def prompts(requests: Sequence[ChatRequest]) -> Prompts:
    """Return the different prompts among requests, in the order of `batching.batches`."""
    indices_of: dict[ChatRequest, list[int]] = {}
    for batch in batches(requests, size=1):
        for index in batch:
            indices_of.setdefault(replace(requests[index], key=""), []).append(index)
    return list(indices_of.values())


def unique_prompts(requests: Sequence[ChatRequest], indices: Sequence[int]) -> Prompts:
    """Return the different prompts among the requests at these indices."""
    different = prompts([requests[index] for index in indices])
    return [[indices[position] for position in prompt] for prompt in different]


def _take_prompts(waiting: deque[list[int]], min_requests: int) -> Prompts:
    """Remove prompts from the front until they have `min_requests` or more, and return them."""
    taken: Prompts = []
    while waiting and sum(map(len, taken)) < min_requests:
        taken.append(waiting.popleft())
    return taken


def first_of(waiting: Prompts, *, size: int) -> Prompts:
    """Return the prompts that a `PrefillQueue` of `size` rows begins first."""
    return _take_prompts(deque(waiting), size)


@dataclass(frozen=True, slots=True)
class _PrefillBatch:
    """Prompts whose tensors are made together."""

    prompts: Prompts
    tensors: "Future[BatchFeature] | None"
    """The prompts' tensors, made in a worker; None: they are made when they are needed."""

    @property
    def n_requests(self) -> int:
        """Number of requests."""
        return sum(map(len, self.prompts))


class PrefillQueue:
    """A source for `continuous_batching.responses`: first a request for every row, then shares.

    A share is `least_to_begin` requests. As many shares are begun together as rows are free.
    Prompts may be added at any time. Which requests begin together does not depend on the time
    that their tensors take, so that responses are the same in every run.
    """

    def __init__(
        self,
        make_tensors: "Callable[[Prompts], BatchFeature]",
        join: "Callable[[Prompts, list[BatchFeature]], PromptBatch]",
        *,
        size: int,
        small: bool = False,
        worker: ThreadPoolExecutor | None,
        timer: WaitTimer,
        started: "Future[BatchFeature] | None" = None,
        refill: Callable[[], None] | None = None,
    ) -> None:
        """Begin with nothing waiting.

        Args:
            make_tensors: Makes the tensors of prompts.
            join: Makes one batch of prompts, given the tensors of each share of them.
            size: Number of rows.
            small: True if reading a prompt costs as much as many steps (`least_to_begin`).
            worker: Makes tensors while other requests are answered, of at most as many requests as
                there are rows, to bound memory. None: tensors are made when they are needed.
            timer: Counts the time of waiting for tensors.
            started: Tensors of the prompts that begin first (`first_of`), if they were begun
                before.
            refill: Called before each `take`; may `add` new prompts.
        """
        self._make_tensors, self._join, self._refill = make_tensors, join, refill
        self._worker, self._timer = worker, timer
        self._size = size
        self._share = least_to_begin(size, small=small)
        """Number of requests of a share."""
        self._started, self._waiting = started, deque[list[int]]()
        self._next = deque[_PrefillBatch]()
        """Shares whose tensors are made, or being made."""
        self._first = True
        """True until the first requests, one for every row, have begun."""

    def add(self, new: Prompts) -> None:
        """Append prompts to the queue."""
        self._waiting += new
        self._cut_shares()

    def take(self, free: int) -> PromptBatch | None:
        """Return as many shares as `free` rows hold, as one batch; None: not even one fits."""
        if self._refill is not None:
            self._refill()
        if not self._next or free < min(self._share, self._next[0].n_requests):
            return None
        taken = [self._next.popleft()]
        while self._next and _fits(self._next[0], free - sum(share.n_requests for share in taken)):
            taken.append(self._next.popleft())
        with self._timer.measure():
            inputs = [
                self._make_tensors(share.prompts)
                if share.tensors is None
                else share.tensors.result()
                for share in taken
            ]
        self._first = False
        self._cut_shares()
        return self._join([prompt for share in taken for prompt in share.prompts], inputs)

    def _cut_shares(self) -> None:
        """Cut the next shares and begin to make their tensors; at first, those for all rows."""
        if self._first:
            if self._waiting and not self._next:
                self._next.append(self._make_batch(_take_prompts(self._waiting, self._size)))
            return
        while self._waiting and sum(share.n_requests for share in self._next) < self._size:
            self._next.append(self._make_batch(_take_prompts(self._waiting, self._share)))

    def _make_batch(self, share: Prompts) -> _PrefillBatch:
        """Return prompts with their tensors, which the worker begins to make."""
        if self._first and self._started is not None:
            return _PrefillBatch(share, self._started)
        if self._worker is None:
            return _PrefillBatch(share, None)
        return _PrefillBatch(share, self._worker.submit(self._make_tensors, share))


def _fits(share: _PrefillBatch, free: int) -> bool:
    """Return True if each prompt gets a row; further requests of the last prompt may wait."""
    return sum(map(len, share.prompts[:-1])) < free
