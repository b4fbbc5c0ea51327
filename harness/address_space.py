"""A check of the address space (`ulimit -v`) before a command loads NumPy and SciPy.

Their OpenBLAS reserves memory for each of its threads while it is loaded. If it gets none, it
retries for ever and ignores signals, so `main` checks the limit before.
"""

import os
from contextlib import suppress

from harness.errors import MissingDependency

BASE = 384 * 2**20
"""Bytes of addresses of Python and the packages, above the 330 MiB that were measured."""
THREAD = 256 * 2**20
"""Bytes for each thread of two copies of OpenBLAS, above the 210 MiB that were measured."""
MOST_THREADS = 64
"""Threads that the OpenBLAS of NumPy's and SciPy's wheels is built for."""
VARIABLES = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
"""Variables with OpenBLAS' number of threads; the first that is set counts."""


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
    if limit < (needed := BASE + THREAD * threads):
        raise MissingDependency(
            "memory",
            expected=f"{needed >> 20} MiB of addresses for OpenBLAS with {threads} thread(s)",
            found=f"{limit >> 20} MiB",
            fix="Give it more (`ulimit -v` limits it), or fewer threads: OPENBLAS_NUM_THREADS=1.",
        )


def _threads() -> int:
    """Return the number of threads that OpenBLAS will start."""
    cores = min(os.cpu_count() or 1, MOST_THREADS)
    for name in VARIABLES:
        with suppress(ValueError):
            if (threads := int(os.environ.get(name, ""))) > 0:
                return min(threads, cores)
    return cores
