"""Threads that the stages of a prediction work in: a pool of its own for each stage."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class StageThreads:
    """A pool of threads for each stage, begun with the first call of the stage."""

    pools: dict[str, ThreadPoolExecutor] = field(default_factory=dict)

    def submit(
        self, stage: str, call: Callable[..., T], *given: object, threads: int = 1
    ) -> "Future[T]":
        """Call in a thread of a stage, which has `threads` of them."""
        if stage not in self.pools:
            pool = ThreadPoolExecutor(threads, thread_name_prefix=stage)
            self.pools.setdefault(stage, pool)  # of two threads that come here one is first
        return self.pools[stage].submit(call, *given)

    def close(self) -> None:
        """Cancel the calls that wait for a thread, and wait for none that runs."""
        for pool in list(self.pools.values()):
            pool.shutdown(wait=False, cancel_futures=True)
