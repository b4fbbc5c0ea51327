"""Writing of the generated world (`harness.world`) as a data root, in benchmarks' layouts."""

import importlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from harness import plugins
from harness.errors import UsageError
from harness.world.shapes import Writer, make


def make_shapes(
    out: Path, *, tasks: Sequence[str] | None = None, size: int = 8, seed: int = 0
) -> list[str]:
    """Write a world with exact ground truth into the folder `out`, all of it or nothing.

    A world of the same seed, size and version in `out` gets the benchmarks that it lacks.

    Args:
        out: Data root to make: one folder a benchmark, and `shapes.json` with seed, size and a
            digest of each file.
        tasks: Names of the benchmarks; None: every installed one that has a writer.
        size: Samples a split and benchmark; `train` has four times as many.
        seed: Seed of everything in it. A larger world begins with the scenes of a smaller one.

    Returns:
        Names of the benchmarks that were written.

    Raises:
        UsageError: a benchmark has no writer, `out` has anything else, or a number is too small.
    """
    by_task = writers()
    names = sorted(by_task) if tasks is None else sorted(set(tasks))
    for name in names:
        if name not in by_task:
            raise UsageError(
                f"shapes for {name}",
                expected=f"a benchmark with a writer: {', '.join(sorted(by_task))}",
                found=name,
            )
    if size < 1 or seed < 0:
        raise UsageError("shapes", expected="size ≥ 1 and seed ≥ 0", found=f"{size} and {seed}")
    make(out, seed=seed, size=size, writers={name: by_task[name] for name in names})
    return names


def writers() -> dict[str, Writer]:
    """Return the writer of each task that has one: the module `writer` beside the task's module."""
    by_task = {}
    for name, entry in plugins.installed_plugins("tasks").items():
        package = entry.module.rpartition(".")[0]
        try:
            has_writer = bool(package) and find_spec(f"{package}.writer") is not None
        except ModuleNotFoundError:
            has_writer = False
        if has_writer:
            by_task[name] = importlib.import_module(f"{package}.writer").write
    return by_task
