"""Several processes that train one network: each takes its parts of a step, gradients are added.

One thread a process is faster than several threads of one process at the sizes of this network,
and does not stand still where another program takes a core for a while.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import torch
from torch import Tensor, distributed

from harness.errors import HarnessError


class SingleProcess:
    """One process that does everything."""

    rank, size = 0, 1

    def sum_gradients(self, gradients: Sequence[Tensor], *, stop: bool) -> bool:
        """Leave the gradients as they are; return True if the training is to stop."""
        return stop


class ProcessGroup:
    """One process among several."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def sum_gradients(self, gradients: Sequence[Tensor], *, stop: bool) -> bool:
        """Replace gradients by their sums over processes; return True if one is to stop."""
        flat = torch.cat([*(one.reshape(-1) for one in gradients), torch.tensor([float(stop)])])
        distributed.all_reduce(flat)
        place = 0
        for one in gradients:
            one.copy_(flat[place : place + one.numel()].view_as(one))
            place += one.numel()
        return bool(flat[-1] > 0)


@contextmanager
def processes(
    size: int, follow: Callable[..., None], arguments: tuple[object, ...]
) -> Iterator[SingleProcess | ProcessGroup]:
    """Be the first of `size` processes; the others run `follow(together, *arguments)`.

    Raises:
        HarnessError: another process failed.
    """
    if size == 1:
        yield SingleProcess()
        return
    with tempfile.TemporaryDirectory() as folder:
        meeting = str(Path(folder) / "meeting")
        given = (size, meeting, follow, arguments)
        context = get_context("spawn")
        others = [
            context.Process(target=_join, args=(rank, *given), daemon=True)
            for rank in range(1, size)
        ]
        for one in others:
            one.start()
        _rendezvous(0, size, meeting)
        try:
            yield ProcessGroup(0, size)
        except RuntimeError as error:
            raise HarnessError(
                "training in several processes",
                expected="all of them at work",
                found=str(error),
                fix="What the others said stands above.",
            ) from error
        finally:
            distributed.destroy_process_group()
            for one in others:
                one.join(timeout=10)
                one.kill()


def _join(
    rank: int, size: int, meeting: str, follow: Callable[..., None], arguments: tuple[object, ...]
) -> None:
    _rendezvous(rank, size, meeting)
    follow(ProcessGroup(rank, size), *arguments)
    distributed.destroy_process_group()


def _rendezvous(rank: int, size: int, meeting: str) -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    distributed.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=size
    )
