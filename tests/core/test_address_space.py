"""A space of addresses that is too small for OpenBLAS ends a command before it is loaded."""

import resource
import subprocess
import sys

import pytest

from harness import address_space
from harness.errors import MissingDependency

MIB = 2**20


@pytest.mark.parametrize(
    ("variables", "cores", "limit", "room"),
    [
        ({}, 2, 895 * MIB, False),
        ({}, 2, 897 * MIB, True),
        ({}, 64, 4_000 * MIB, False),
        ({"OPENBLAS_NUM_THREADS": "1"}, 64, 700 * MIB, True),
        ({"OMP_NUM_THREADS": "1"}, 64, 700 * MIB, True),
        ({"OPENBLAS_NUM_THREADS": "x", "OMP_NUM_THREADS": "0"}, 4, 1_400 * MIB, False),
        ({}, 64, resource.RLIM_INFINITY, True),
    ],
)
def test_the_room_that_is_wanted_grows_with_threads(monkeypatch, variables, cores, limit, room):
    for name in address_space.THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(address_space.os, "cpu_count", lambda: cores)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limit, limit))
    if room:
        address_space.check_address_space()
    else:
        with pytest.raises(MissingDependency, match=r"memory: expected .* found .*ulimit"):
            address_space.check_address_space()


def test_a_start_in_little_room_ends_at_once_and_listing_goes_on():
    def command(*arguments):
        line = f"ulimit -v 400000; exec {sys.executable} -m harness {' '.join(arguments)}"
        return subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=30)

    done = command("board", "build", "--runs", "none", "--out", "none")
    assert done.returncode == 6 and "memory" in done.stderr
    assert command("list", "boards").returncode == 0
