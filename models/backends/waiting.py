"""Requests that wait until rows are free, and the tensors of the next ones, made meanwhile.

Requests that are equal but for their keys have one prompt: votes, or the rollouts of a question.
They are begun one after the other, so that their prompt is made and read once.
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeAlias

from harness.model import ChatRequest
from harness.models.backends.batching import batches
from harness.models.backends.rolling import Part, share_of

Prompts: TypeAlias = list[list[int]]
"""For each prompt the places of its requests."""


def prompts(requests: Sequence[ChatRequest]) -> Prompts:
    """The different prompts among requests, in the order in which `batches` has them."""
    found: dict[ChatRequest, list[int]] = {}
    for batch in batches(requests, size=1):
        for place in batch:
            found.setdefault(replace(requests[place], key=""), []).append(place)
    return list(found.values())


def placed(requests: Sequence[ChatRequest], places: Sequence[int]) -> Prompts:
    """The different prompts among some of the requests."""
    some = prompts([requests[place] for place in places])
    return [[places[one] for one in several] for several in some]


def cut_off(waiting: deque[list[int]], wanted: int) -> Prompts:
    """Take as many prompts as have `wanted` requests together, or all there are."""
    taken: Prompts = []
    while waiting and sum(map(len, taken)) < wanted:
        taken.append(waiting.popleft())
    return taken


def first_of(waiting: Prompts, *, size: int) -> Prompts:
    """What `Waiting` begins with."""
    return cut_off(deque(waiting), size)


class Waiting:
    """A source for `rolling.replies`: as many requests as there are rows first, then a quarter.

    Where more rows are free at once, the rest of them is taken together; after all of them were,
    as with replies of one length, as many are expected to be again. More may be added at any time.
    Which ones are read together does not hang on how long their tensors took.
    """

    def __init__(
        self,
        make: Callable[[Prompts], Any],
        part: Callable[[Prompts, Any], Part],
        *,
        size: int,
        worker: ThreadPoolExecutor | None,
        begun: "Future[Any] | None" = None,
    ) -> None:
        """Nothing waits at first.

        Args:
            make: The tensors of prompts.
            part: What is begun, from prompts and their tensors.
            size: Rows.
            worker: In which tensors are made while others are answered, those of one part at a
                time: what waits in memory is bounded. None: when they are needed.
            begun: The tensors of `first_of` what is added first, if they were expected.
        """
        self._make, self._part, self._worker = make, part, worker
        self._size, self._wanted, self._share = size, size, share_of(size)
        self._begun = self._refilling = False
        self._freed = 0
        """Rows that were free when the last refill began."""
        self._waiting: deque[list[int]] = deque()
        self._next: Prompts = []
        self._coming = begun

    def add(self, several: Prompts) -> None:
        """Let these be answered too."""
        self._waiting += several
        self._cut()

    def take(self, free: int) -> Part | None:
        """The next part, once a share of the rows is free."""
        chosen, coming = self._next, self._coming
        if not chosen or free < min(self._share, sum(map(len, chosen))):
            return None
        fitting = cut_off(deque(chosen), free)
        if len(fitting) < len(chosen):  # all rows were expected to be free
            self._waiting.extendleft(reversed(chosen[len(fitting) :]))
            chosen, coming = fitting, self._made(fitting)
        made = self._make(chosen) if coming is None else coming.result()
        self._next, self._coming = [], None
        self._expect(free, left=free - sum(map(len, chosen)))
        self._cut()
        return self._part(chosen, made)

    def _expect(self, free: int, *, left: int) -> None:
        """Settle how many are wanted next: `left` of the `free` rows are still free."""
        if self._begun and not self._refilling:
            self._freed = free
        self._refilling = self._begun and left >= self._share
        if self._refilling:
            self._wanted = left
        else:
            self._wanted = self._size if self._freed == self._size else self._share
        self._begun = True

    def _cut(self) -> None:
        """Settle what is next, unless that is settled."""
        if self._next or not self._waiting:
            return
        self._next = cut_off(self._waiting, self._wanted)
        if self._coming is None:
            self._coming = self._made(self._next)

    def _made(self, several: Prompts) -> "Future[Any] | None":
        """The tensors of prompts, begun in the worker, which alone may use the processor."""
        return None if self._worker is None else self._worker.submit(self._make, several)
