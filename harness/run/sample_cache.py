"""Read a benchmark's samples once, for several walks over them.

A run walks over its samples several times: to check, count, hash, batch and score them. In memory
they would take as much as all masks of the benchmark. So each sample is pickled, as it is read,
into a temporary file without a name, which no other process can open or change: only what this
process wrote is unpickled.
"""

import pickle
import tempfile
import threading
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from harness.files import ReadHashes
from harness.task import Task
from harness.types import Sample

MAX_BYTES = 2**30
"""Largest size of the cache in bytes. Samples of a larger benchmark, such as one whose tables hold
its images, are read again for each walk."""
MAX_MEMORY_BYTES = 2**24
"""Size in bytes up to which the cache is held in memory."""
CACHE_ERRORS = (
    pickle.PicklingError,
    TypeError,
    AttributeError,
    ValueError,
    RecursionError,
    OSError,
)
"""Errors for which the cache is given up: a sample cannot be pickled, or the disk is full."""


def read_once(task: Task) -> Task:
    """Return the task with samples that are parsed in the first walk, and then cached."""
    if isinstance(task.samples, SampleCache):
        return task
    return replace(task, samples=SampleCache(task.samples))


class SampleCache:
    """A cache of samples in their order; several walks at once, also from threads, are possible.

    Each call is a walk. It yields cached samples, and reads on where earlier walks have ended. If a
    sample cannot be stored, or `read` raises, the cache is given up, and walks call `read` again.
    """

    def __init__(self, read: Callable[[], Iterable[Sample]], *, max_bytes: int = MAX_BYTES) -> None:
        self.hashes = ReadHashes()
        """Hashes of the files that `read` has read."""
        self.checked = False
        """True once `preflight` has checked the benchmark's files."""
        self._read = read
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._file = tempfile.SpooledTemporaryFile(max_size=MAX_MEMORY_BYTES)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._ends = array("q")
        """End of each sample in the file, in bytes."""
        self._source: Iterator[Sample] | None = None
        self._is_complete = False
        self._given_up = False

    def __call__(self) -> Iterator[Sample]:
        """Walk over all samples."""
        number = 0
        while True:
            with self._lock:
                if self._given_up:
                    break
                if number == len(self._ends) and self._is_complete:
                    return
                sample = self._get(number) if number < len(self._ends) else self._next()
            if sample is None:
                return
            yield sample
            number += 1
        yield from islice(self._read(), number, None)

    def fill(self) -> None:
        """Read the samples that no walk has read yet; an error is raised again in a walk."""
        with self._lock, suppress(Exception, SystemExit):
            while not self._is_complete and not self._given_up:
                self._next()

    def _get(self, number: int) -> Sample:
        start = self._ends[number - 1] if number else 0
        self._file.seek(start)
        # The file has no name and holds only what this process wrote: no foreign bytes are loaded.
        sample: Sample = pickle.loads(self._file.read(self._ends[number] - start))
        return sample

    def _next(self) -> Sample | None:
        """Read one more sample and store it; None after the last."""
        if self._source is None:
            self._source = iter(self._read())
        try:
            with self.hashes.recorded():
                sample = next(self._source, None)
        except BaseException:
            self._give_up()
            raise
        if sample is None:
            self._is_complete, self._source = True, None
        else:
            self._keep(sample)
        return sample

    def _keep(self, sample: Sample) -> None:
        """Append a sample to the file; give up if it cannot be pickled, or does not fit."""
        start = self._ends[-1] if self._ends else 0
        try:
            pickled = pickle.dumps(sample, pickle.HIGHEST_PROTOCOL)
            if start + len(pickled) > self._max_bytes:
                self._give_up()
                return
            self._file.seek(start)
            self._file.write(pickled)
        except CACHE_ERRORS:
            self._give_up()
            return
        self._ends.append(start + len(pickled))

    def _give_up(self) -> None:
        self._given_up, self._source = True, None
        self._file.close()
