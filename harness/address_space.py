"""A check of the address space (`ulimit -v`) before a command loads NumPy and SciPy.

OpenBLAS, which both contain, reserves memory for each of its threads while it is loaded. If the
reservation fails, OpenBLAS retries for ever and ignores signals, so `main` checks the limit first.
"""

import os
from contextlib import suppress

from harness.errors import MissingDependency

BASE_BYTES = 384 * 2**20
"""Address space of Python and the packages; 330 MiB were measured."""
BYTES_PER_THREAD = 256 * 2**20
"""Address space of one thread in both copies of OpenBLAS; 210 MiB were measured."""
MOST_THREADS = 64
"""Threads that the OpenBLAS of NumPy's and SciPy's wheels is built for."""
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
"""Environment variables with OpenBLAS' number of threads; the first that is set counts."""


def check_address_space() -> None:
    """Raise MissingDependency if a limit (`ulimit -v`) leaves no room to load OpenBLAS."""
    try:
        import resource
    except ModuleNotFoundError:  # there is no such limit on Windows
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return
    threads = _threads()
    needed = BASE_BYTES + BYTES_PER_THREAD * threads
    if limit < needed:
        raise MissingDependency(
            "memory",
            expected=f"{needed // 2**20} MiB of addresses for OpenBLAS with {threads} thread(s)",
            found=f"{limit // 2**20} MiB",
            fix="Give it more (`ulimit -v` limits it), or fewer threads: OPENBLAS_NUM_THREADS=1.",
        )


def _threads() -> int:
    """Return the number of threads that OpenBLAS will start."""
    cores = min(os.cpu_count() or 1, MOST_THREADS)
    for name in THREAD_VARIABLES:
        with suppress(ValueError):
            if (threads := int(os.environ.get(name, ""))) > 0:
                return min(threads, cores)
    return cores
