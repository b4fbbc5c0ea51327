"""Time executions in each tier of the sandbox: `python benchmarks/sandbox.py [TIER …]`.

The code is what a rollout runs between two turns: it reads a mask of 480x854 as JSON run-lengths,
sums it with NumPy, finds its box with OpenCV and emits both. Latency is that of one execution after
another; the rate is that of two workers and as many threads.
"""

import platform
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

from harness.errors import SandboxUnavailable
from harness.sandbox.pool import Sandbox, open_sandbox
from harness.sandbox.tiers import TIERS

CODE = """
import cv2
import numpy as np
flat = np.repeat(np.arange(len(data["counts"])) % 2, data["counts"]).astype(np.uint8)
mask = flat.reshape(data["size"][::-1]).T
emit({"area": int(mask.sum()), "box": cv2.boundingRect(np.ascontiguousarray(mask))})
"""
DATA = {"size": [480, 854], "counts": [100_000, *[80, 400] * 299, 80, 166_320]}
EXECUTIONS, WORKERS = 300, 2


def seconds_of(sandbox: Sandbox) -> float:
    """Return the seconds of one execution."""
    began = perf_counter()
    done = sandbox.run(CODE, DATA)
    assert done.value["area"] == 24_000, done
    return perf_counter() - began


def main() -> None:
    """Print a line a tier."""
    print(f"{platform.machine()}, Linux {platform.release()}, Python {platform.python_version()}")
    for tier in sys.argv[1:] or TIERS:
        began = perf_counter()
        try:
            sandbox = open_sandbox(tier, WORKERS)
        except SandboxUnavailable as lacking:
            print(f"{tier}: {lacking}")
            continue
        with sandbox, ThreadPoolExecutor(WORKERS) as threads:
            opened = perf_counter() - began
            # Both workers run before the clock does.
            [*threads.map(seconds_of, [sandbox] * 2 * WORKERS)]
            alone = sorted(seconds_of(sandbox) for _ in range(EXECUTIONS))
            began = perf_counter()
            [*threads.map(seconds_of, [sandbox] * EXECUTIONS)]
            rate = EXECUTIONS / (perf_counter() - began)
        print(
            f"{tier}: opened in {opened:.2f} s, median {1e3 * statistics.median(alone):.1f} ms, "
            f"95th percentile {1e3 * alone[int(0.95 * EXECUTIONS)]:.1f} ms, {rate:.0f} a second"
        )


if __name__ == "__main__":
    main()
