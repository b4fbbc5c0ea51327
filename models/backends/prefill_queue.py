"""Requests that wait until rows are free, and the tensors of the next ones, made meanwhile.

Requests that are equal but for their keys have one prompt: votes, or the rollouts of a question.
They are begun one after the other, so that their prompt is made and read once.
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
"""Places of the requests of each prompt."""


def prompts(requests: Sequence[ChatRequest]) -> Prompts:
    """Return the different prompts among requests, in the order of `batches`."""
    places_of: dict[ChatRequest, list[int]] = {}
    for batch in batches(requests, size=1):
        for place in batch:
            places_of.setdefault(replace(requests[place], key=""), []).append(place)
    return list(places_of.values())


def unique_prompts(requests: Sequence[ChatRequest], places: Sequence[int]) -> Prompts:
    """Return the different prompts among the requests at some places."""
    different = prompts([requests[place] for place in places])
    return [[places[index] for index in several] for several in different]


def cut_off(waiting: deque[list[int]], wanted: int) -> Prompts:
    """Take as many prompts as have `wanted` requests together, or all there are."""
    taken: Prompts = []
    while waiting and sum(map(len, taken)) < wanted:
        taken.append(waiting.popleft())
    return taken


def first_of(waiting: Prompts, *, size: int) -> Prompts:
    """Return the prompts that `PrefillQueue` begins first."""
    return cut_off(deque(waiting), size)


@dataclass(frozen=True, slots=True)
class _PrefillBatch:
    """Prompts whose tensors are made together."""

    prompts: Prompts
    coming: "Future[BatchFeature] | None"
    """Tensors of the prompts; None: they are made when they are needed."""

    @property
    def count(self) -> int:
        """Number of requests."""
        return sum(map(len, self.prompts))


class PrefillQueue:
    """A source for `rolling.responses`: as many requests as there are rows first, then in shares.

    A share is `least_to_begin`. As many of them are begun together as rows are free: all
    rows again where responses end together. More may be added at any time. The choice of those
    that begin together does not depend on the time that their tensors took.
    """

    def __init__(
        self,
        make: "Callable[[Prompts], BatchFeature]",
        part: "Callable[[Prompts, list[BatchFeature]], PromptBatch]",
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
            make: Makes the tensors of prompts.
            part: Makes a part from prompts and their tensors, one share's after another's.
            size: Number of rows.
            small: True if passes of prompts cost many steps (`least_to_begin`).
            worker: In which tensors are made while others are answered, of as many requests as
                there are rows: what waits in memory is bounded. None: when they are needed.
            timer: Counts what has to be waited for.
            started: The tensors of `first_of` what is added first, if they were expected.
            refill: Called before each `take`; adds what has become known meanwhile.
        """
        self._make, self._part, self._worker, self._timer = make, part, worker, timer
        self._refill = refill
        self._size, self._share = size, least_to_begin(size, small=small)
        self._started, self._waiting = started, deque[list[int]]()
        self._next = deque[_PrefillBatch]()
        self._first = True

    def add(self, several: Prompts) -> None:
        """Let these be answered too."""
        self._waiting += several
        self._cut()

    def take(self, free: int) -> PromptBatch | None:
        """Return the next part, as many shares as `free` rows hold; None: fewer rows are free."""
        if self._refill is not None:
            self._refill()
        if not self._next or free < min(self._share, self._next[0].count):
            return None
        taken = [self._next.popleft()]
        while self._next and _has_rows(self._next[0], free - sum(share.count for share in taken)):
            taken.append(self._next.popleft())
        with self._timer.measure():
            inputs = [
                self._make(share.prompts) if share.coming is None else share.coming.result()
                for share in taken
            ]
        self._first = False
        self._cut()
        return self._part([prompt for share in taken for prompt in share.prompts], inputs)

    def _cut(self) -> None:
        """Begin to make the tensors of the next shares; at first of the first prompts alone."""
        if self._first:
            if self._waiting and not self._next:
                self._next.append(self._make_batch(cut_off(self._waiting, self._size)))
            return
        while self._waiting and sum(share.count for share in self._next) < self._size:
            self._next.append(self._make_batch(cut_off(self._waiting, self._share)))

    def _make_batch(self, several: Prompts) -> _PrefillBatch:
        """Return prompts with their tensors, begun in the worker, the processor's only user."""
        if self._first and self._started is not None:
            return _PrefillBatch(several, self._started)
        coming = None if self._worker is None else self._worker.submit(self._make, several)
        return _PrefillBatch(several, coming)


def _has_rows(share: _PrefillBatch, free: int) -> bool:
    """Return True if each prompt gets a row; further requests of the last one may wait."""
    return sum(map(len, share.prompts[:-1])) < free
