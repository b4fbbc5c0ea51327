"""Threads for the stages of a prediction (`pipeline`): a pool for each stage."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class StageThreads:
    """A pool of threads for each stage, started by the first call of the stage."""

    pools: dict[str, ThreadPoolExecutor] = field(default_factory=dict)

    def submit(
        self, stage: str, call: Callable[..., T], *arguments: object, threads: int = 1
    ) -> "Future[T]":
        """Call a function in a thread of a stage, which has `threads` threads."""
        if stage not in self.pools:
            pool = ThreadPoolExecutor(threads, thread_name_prefix=stage)
            self.pools.setdefault(stage, pool)  # another thread may have been faster
        return self.pools[stage].submit(call, *arguments)

    def close(self) -> None:
        """Cancel the calls that wait for a thread; do not wait for running calls."""
        for pool in list(self.pools.values()):
            pool.shutdown(wait=False, cancel_futures=True)
