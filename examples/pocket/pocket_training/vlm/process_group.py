"""Processes that train one network together: each takes its parts of a step, gradients are added.

Each process uses one thread (`training_loop` sets it). At the sizes of this network that is faster
than several threads of one process, and it does not stall while another program takes a core.
"""

import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, distributed

from harness.errors import HarnessError

SECONDS_TO_END = 10
"""Time for a worker to end by itself; one that waits for a process that failed is killed."""


class SingleProcess:
    """One process that does everything."""

    rank, size = 0, 1

    def sum_gradients(self, gradients: Sequence[Tensor], *, stop: bool) -> bool:
        """Leave the gradients as they are; return `stop`."""
        return stop


class ProcessGroup:
    """One process among several."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def sum_gradients(self, gradients: Sequence[Tensor], *, stop: bool) -> bool:
        """Replace gradients by their sums over processes; return True if any has set `stop`.

        One message carries both, so that all processes stop after the same step.

        Raises:
            HarnessError: another process ended.
        """
        flat = torch.cat([*(one.reshape(-1) for one in gradients), torch.tensor([float(stop)])])
        try:
            distributed.all_reduce(flat)
        except RuntimeError as error:
            raise _worker_failed(str(error)) from error
        begin = 0
        for one in gradients:
            one.copy_(flat[begin : begin + one.numel()].view_as(one))
            begin += one.numel()
        return bool(flat[-1] > 0)


Processes: TypeAlias = SingleProcess | ProcessGroup


@contextmanager
def spawn_workers(
    size: int, work: Callable[..., None], arguments: tuple[Any, ...]
) -> Iterator[Processes]:
    """Start `size - 1` processes that run `work(group, *arguments)`; yield the handle of rank 0.

    Raises:
        HarnessError: a worker ended before all had met.
    """
    if size == 1:
        yield SingleProcess()
        return
    context = get_context("spawn")
    workers = []
    with tempfile.TemporaryDirectory() as folder:
        meeting = str(Path(folder) / "meeting")
        try:
            begun = []
            for rank in range(1, size):
                receiver, sender = context.Pipe(duplex=False)
                given = (rank, size, meeting, sender, work, arguments)
                worker = context.Process(target=_run_worker, args=given, daemon=True)
                worker.start()
                sender.close()  # the worker's copy is the last, so that its end is seen
                workers.append(worker)
                begun.append(receiver)
            for receiver in begun:
                # torch would wait for half an hour for a process that cannot be imported.
                try:
                    receiver.recv()
                except EOFError as error:
                    raise _worker_failed("one that ended before it began to work") from error
            _join(0, size, meeting)
            yield ProcessGroup(0, size)
        finally:
            if distributed.is_initialized():
                distributed.destroy_process_group()
            for worker in workers:
                worker.join(timeout=SECONDS_TO_END)
                worker.kill()


def _run_worker(
    rank: int,
    size: int,
    meeting: str,
    sender: Connection,
    work: Callable[..., None],
    arguments: tuple[Any, ...],
) -> None:
    # A terminal sends Ctrl-C to every process; the first one decides when all stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sender.send(rank)
    _join(rank, size, meeting)
    with suppress(KeyboardInterrupt):  # a training that was stopped; the first process tells it
        work(ProcessGroup(rank, size), *arguments)
    distributed.destroy_process_group()


def _join(rank: int, size: int, meeting: str) -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all processes are on this machine
    distributed.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=size
    )


def _worker_failed(found: str) -> HarnessError:
    return HarnessError(
        "training in several processes",
        expected="all of them at work",
        found=found,
        fix="See the workers' messages above.",
    )
