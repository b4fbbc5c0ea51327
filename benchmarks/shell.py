"""CPU seconds of the quick commands, each measured in fresh processes.

    python benchmarks/shell.py [--runs 11]

Prints the median of user + system time. What they may cost: `harness --help` 0.10 s, `harness
list tasks` 0.15 s.
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

LIMITS = {("--help",): 0.10, ("list", "tasks"): 0.15, ("list", "models"): 0.15}


def cpu_seconds(arguments: list[str]) -> float:
    """User and system time of one process."""
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{arguments} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=11)
    runs = parser.parse_args().runs
    harness = str(Path(sys.executable).with_name("harness"))
    bare = statistics.median(cpu_seconds([sys.executable, "-c", ""]) for _ in range(runs))
    print(f"{'python -c pass':24} {bare:.3f} s")
    worst = 0
    for arguments, limit in LIMITS.items():
        times = [cpu_seconds([harness, *arguments]) for _ in range(runs)]
        median = statistics.median(times)
        worst = max(worst, int(median > limit))
        name = f"harness {' '.join(arguments)}"
        print(
            f"{name:24} {median:.3f} s  (limit {limit:.2f}, from {min(times):.3f} "
            f"to {max(times):.3f}, {runs} runs)"
        )
    return worst


if __name__ == "__main__":
    raise SystemExit(main())
