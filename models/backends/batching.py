"""Which requests are answered together, and their tensors, made while others are answered."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any

from harness.model import ChatRequest
from harness.models.backends.inputs import length


def batches(requests: Sequence[ChatRequest], *, size: int) -> list[list[int]]:
    """Places of the requests by batch: of at most `size`, with equal limits, the longest first.

    Alike ones stand together, so that little is padded, and what does not fit into memory is
    known at once.
    """
    order = sorted(
        range(len(requests)),
        key=lambda place: (requests[place].max_new_tokens, -length(requests[place])),
    )
    cut: list[list[int]] = []
    for _, same in groupby(order, key=lambda place: requests[place].max_new_tokens):
        group = list(same)
        cut += [group[at : at + size] for at in range(0, len(group), size)]
    return cut


def with_inputs(
    plan: Sequence[list[int]], made: Callable[[list[int]], Any], *, ahead: bool
) -> Iterator[tuple[list[int], Any]]:
    """Each batch of a plan with what `made` makes of it.

    With `ahead`, another thread makes one batch more than is asked for, and never two: what waits
    in memory is bounded.
    """
    if not ahead or len(plan) < 2:
        yield from ((places, made(places)) for places in plan)
        return
    with ThreadPoolExecutor(1, thread_name_prefix="inputs") as worker:
        coming = worker.submit(made, plan[0])
        for number, places in enumerate(plan, start=1):
            inputs = coming.result()
            if number < len(plan):
                coming = worker.submit(made, plan[number])
            yield places, inputs
