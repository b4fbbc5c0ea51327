"""Samples of a task on disk: however often a run walks over them, their files are parsed once.

A run walks over its samples several times: to look at them, to count them, to hash their media, to
cut them into batches, to score. Holding them in memory would take as much as the benchmark has of
masks. So each sample is pickled, as it is read, into a temporary file without a name, which no
other process can open or change: what is unpickled is what this process wrote.
"""

import pickle
import tempfile
import threading
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice

from harness.task import Task
from harness.types import Sample

MAX_BYTES = 2**30
"""Size limit of the file. Samples of a larger benchmark, as one whose tables hold its images, are
read anew for each walk."""
IN_MEMORY = 2**24
"""Bytes up to which there is no file yet."""
UNFIT = (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError, OSError)
"""Errors of a sample that cannot be pickled, and of a full disk."""


def read_once(task: Task) -> Task:
    """Return the task with samples that are parsed in the first walk over them, and then cached."""
    if isinstance(task.samples, SampleCache):
        return task
    return replace(task, samples=SampleCache(task.samples))


class SampleCache:
    """Samples in the order in which `read` gives them; any number of walks at once, from threads.

    Each call is a walk. It takes from the cache what an earlier walk has read, and reads on from
    there. Where a sample cannot be kept, or `read` raises, the cache is given up: walks read anew.
    """

    def __init__(self, read: Callable[[], Iterable[Sample]], *, max_bytes: int = MAX_BYTES) -> None:
        self._read = read
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._ends = array("q")
        """End of each sample in the file, in bytes."""
        self._source: Iterator[Sample] | None = None
        self._whole = False
        self._given_up = False

    def __call__(self) -> Iterator[Sample]:
        """Walk over all samples."""
        number = 0
        while True:
            with self._lock:
                if self._given_up:
                    break
                if number == len(self._ends) and self._whole:
                    return
                sample = self._get(number) if number < len(self._ends) else self._next()
            if sample is None:
                return
            yield sample
            number += 1
        yield from islice(self._read(), number, None)

    def _get(self, number: int) -> Sample:
        start = self._ends[number - 1] if number else 0
        self._file.seek(start)
        # The file has no name and holds what this process wrote: no foreign bytes are loaded.
        sample: Sample = pickle.loads(self._file.read(self._ends[number] - start))
        return sample

    def _next(self) -> Sample | None:
        """Read one more sample and keep it; None after the last."""
        if self._source is None:
            self._source = iter(self._read())
        try:
            sample = next(self._source, None)
        except BaseException:
            self._give_up()
            raise
        if sample is None:
            self._whole, self._source = True, None
        else:
            self._keep(sample)
        return sample

    def _keep(self, sample: Sample) -> None:
        start = self._ends[-1] if self._ends else 0
        try:
            kept = pickle.dumps(sample, pickle.HIGHEST_PROTOCOL)
            if start + len(kept) > self._max_bytes:
                self._give_up()
                return
            self._file.seek(start)
            self._file.write(kept)
        except UNFIT:
            self._give_up()
            return
        self._ends.append(start + len(kept))

    def _give_up(self) -> None:
        self._given_up, self._source = True, None
        self._file.close()
