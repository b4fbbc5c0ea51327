"""A task's samples before a run: the benchmark's files checked and read once, samples counted.

A run walks over its samples several times: to look at them, to count them, to hash their media, to
cut them into batches, to score. Holding them in memory would take as much as the benchmark has of
masks. So each sample is pickled, as it is read, into a temporary file without a name, which no
other process can open or change: what is unpickled is what this process wrote.
"""

import hashlib
import pickle
import re
import tempfile
import threading
import weakref
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count, islice
from shlex import quote

from harness.errors import DataError, counted
from harness.files import ReadHashes
from harness.formats.ground_truth import GroundTruthCount
from harness.image_file import read_header, refuse_cut
from harness.media import Media, files_of
from harness.plugins import plugin_errors
from harness.run.batching import Selection, lost_image, samples_of
from harness.run.options import Progress
from harness.task import Problem, Task
from harness.types import AnswerForm, Sample

PROBLEMS_SHOWN = 10
LINE_NUMBER = re.compile(r"\bline \d+")
MAX_BYTES = 2**30
"""Size limit of the file. Samples of a larger benchmark, as one whose tables hold its images, are
read anew for each walk."""
IN_MEMORY = 2**24
"""Bytes up to which there is no file yet."""
UNFIT = (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError, OSError)
"""Errors of a sample that cannot be pickled, and of a full disk."""


def preflight(task: Task, progress: Progress, *, allow_missing: bool, spec: str = "") -> Task:
    """Check every file of the benchmark, once; faults are noted if allowed.

    Args:
        task: The task whose files are checked.
        progress: Shows the faults that are allowed.
        allow_missing: Go on where files are missing or damaged.
        spec: The task as it was typed, for the commands that are named; "": its name.

    Returns:
        The task, whose samples are not parsed again.

    Raises:
        DataError: files are missing or damaged, unless `allow_missing`; the first are listed.
    """
    task = read_once(task)
    assert isinstance(task.samples, SampleCache), "samples are read once"
    if task.samples.checked:
        return task
    problems = _problems(task)
    task.samples.checked = allow_missing or not problems
    if not problems:
        return task
    text = "\n  ".join(problem_lines(problems, PROBLEMS_SHOWN))
    if not allow_missing:
        raise DataError(
            f"{task.name}, split {task.split}: {counted(len(problems), 'problem')}\n  {text}\n"
            f"Mend them (`harness data check {quote(spec or task.name)}` lists all). Where "
            "images are missing or damaged, --allow-missing counts their samples as failed"
        )
    progress.note(
        f"{len(problems)} faulty file(s); samples without an image count as failed\n  {text}"
    )
    return task


def _problems(task: Task) -> list[Problem]:
    """Return all that is wrong; where reading the samples tells that, `check` only lists it."""
    faults: list[Problem] = []
    if task.check_samples is not None:
        numbers = count()
        walk = (sample for sample, _ in zip(samples_of(task), numbers))  # noqa: B905 - as they come
        try:
            with plugin_errors(f"the check of {task.name}"):
                faults = list(islice(task.check_samples(walk), 1))
        except DataError as error:
            faults = [Problem(task.name, str(error))]
        if next(numbers) > 0 and not faults:
            return []
    with plugin_errors(f"the check of {task.name}"):
        return list(task.check()) or faults


def problem_lines(problems: Sequence[Problem], limit: int) -> list[str]:
    """Return a line for each problem; one for all that differ in the number of a line alone.

    Args:
        problems: What is wrong.
        limit: Number of lines after which the rest is counted.
    """
    kinds: dict[str, list[str]] = {}
    for problem in problems:
        line = problem_line(problem.path, problem.message)
        kinds.setdefault(LINE_NUMBER.sub("line", line), []).append(line)
    lines = [
        first + (f" (and {counted(len(others), 'line')} like it)" if others else "")
        for first, *others in kinds.values()
    ]
    rest = f"… and {len(lines) - limit} more"
    return [*lines[:limit], *([rest] if len(lines) > limit else [])]


def problem_line(path: str, message: str) -> str:
    """Return a problem in one line, which names its path once.

    >>> problem_line("a.png", "is missing"), problem_line("a.json", "file a.json: expected JSON")
    ('a.png: is missing', 'file a.json: expected JSON')
    """
    return message if path in message else f"{path}: {message}"


def undecodable(task: Task, *, every: bool = False) -> Iterator[Problem]:
    """Yield videos that have a header and no frames, and images without their end.

    Of a video the first and last frame are decoded, of an image file the end is looked at.

    Samples of one group share their media, which are decoded once. Media that are known
    to be lost are left to the task's own check.

    Args:
        task: The task whose media are decoded.
        every: Decode all frames, also of images, instead.
    """
    seen: set[tuple[str, int]] = set()
    for sample in samples_of(task):
        for place, media in enumerate(sample.query.media):
            if media.fault or (sample.group, place) in seen:
                continue
            seen.add((sample.group, place))
            try:
                for path in () if every else files_of(media):
                    refuse_cut(path)
                if every or media.is_video:
                    _decode(media, every=every)
            except DataError as error:
                yield Problem(sample.group, str(error))


def _decode(media: Media, *, every: bool) -> None:
    for index in range(len(media)) if every else dict.fromkeys((0, len(media) - 1)):
        media.frame(index)


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
        self.hashes = ReadHashes()
        """Hashes of the files that `read` has read."""
        self.checked = False
        """True once `preflight` has checked the benchmark's files."""
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

    def fill(self) -> None:
        """Read what no walk has read yet; an error of it is raised in a walk."""
        with self._lock, suppress(Exception, SystemExit):
            while not self._whole and not self._given_up:
                self._next()

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
            with self.hashes.recorded():
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


@dataclass(frozen=True, slots=True)
class Survey:
    """Counts and hashes of a run's samples, from one pass in which no image is decoded."""

    n_total: int
    fingerprint: str
    """A hash of the annotation files' content and of every sample's id, question and size."""
    images: str
    """A hash of every sample's group and its images' sizes in bytes.

    Separate from `fingerprint`, because mending a damaged image does not change a benchmark's
    data: a run goes on with it, and notes it. Boards and gates compare both.
    """
    ids: str
    """A hash of the samples' ids alone, in any order: equal for equal choices, however named."""
    forms: Mapping[frozenset[AnswerForm], int] = field(default_factory=dict)
    """Number of samples by the set of answer forms that they ask for."""
    conversions: Mapping[str, int] = field(default_factory=dict)
    """Number of images and videos by what they lose when they are shown."""
    odd: tuple[str, ...] = ()
    """Notes on the ground truth and the options, for people: no part of the record."""


def survey(
    task: Task, selection: Selection, *, allow_missing: bool = False, every_frame: bool = False
) -> Survey:
    """Walk over the samples once, and return their counts and hashes.

    Args:
        task: The task.
        selection: Choice of its samples.
        allow_missing: Pass over images that are lost.
        every_frame: Look at the header of every image of a video for what it loses, and not of the
            first one alone.

    Raises:
        DataError: an id occurs twice, a unit's samples do not follow each other, or there is
            nothing to do; an image is lost, unless that is allowed; or masks of the ground truth
            are in another order.
    """
    whole, images = hashlib.blake2b(digest_size=16), hashlib.blake2b(digest_size=16)
    read = ReadHashes()
    if isinstance(task.samples, SampleCache):
        task.samples.fill()
        read = task.samples.hashes
    for path in task.annotations:
        whole.update(read.content_hash(path))
    ids: set[str] = set()
    closed: set[str] = set()
    forms: Counter[frozenset[AnswerForm]] = Counter()
    conversions: Counter[str] = Counter()
    odd = GroundTruthCount(task.name)
    shown: set[tuple[str, int]] = set()
    unit: str | None = None
    for sample in selection.samples(task):
        if sample.id in ids:
            raise DataError(
                f"{task.name}: sample {sample.id!r}", expected="each id once", found="it twice"
            )
        ids.add(sample.id)
        forms[frozenset(sample.query.forms)] += 1
        odd.add(sample)
        if sample.unit != unit:
            if sample.unit in closed:
                raise DataError(
                    f"{task.name}: unit {sample.unit!r}",
                    expected="its samples in a row",
                    found="others between them",
                )
            if unit is not None:
                closed.add(unit)
            unit = sample.unit
        if not allow_missing and (fault := lost_image(sample.query)):
            raise DataError(f"{task.name}, sample {sample.id!r}: {fault}")
        sizes = [(media.size, len(media)) for media in sample.query.media]
        whole.update(repr((sample.id, sample.query.text, sizes)).encode())
        weights = [_weight(media) for media in sample.query.media]
        for place, media in enumerate(sample.query.media):
            if (sample.group, place) not in shown:
                shown.add((sample.group, place))
                conversions.update(_conversions(media, every_frame=every_frame))
        images.update(repr((sample.group, weights)).encode())
    if not ids:
        raise DataError(
            f"{task.name}, split {task.split}", expected="at least one sample", found="none"
        )
    hashes = whole.hexdigest(), images.hexdigest(), hash_of_ids(ids)
    return Survey(len(ids), *hashes, forms, dict(sorted(conversions.items())), odd.notes())


def _conversions(media: Media, *, every_frame: bool) -> set[str]:
    """Losses of a medium when it is shown."""
    lost = set(media.conversions)
    if every_frame and len(paths := files_of(media)) > 1:
        for path in paths[1:]:
            with suppress(DataError):  # told elsewhere
                lost |= {*read_header(path, str(path)).conversions}
    return lost


def odd_text(odd: Sequence[str]) -> str:
    """Return notes on the ground truth as a sentence; empty for none."""
    return f"ground truth: {'; '.join(odd)}" if odd else ""


def conversion_text(conversions: Mapping[str, int]) -> str:
    """Return the number of images and videos by what they lose, as a sentence; empty for none.

    >>> conversion_text({"CMYK, converted to RGB by Pillow": 2})
    'converted images or videos: 2 with CMYK, converted to RGB by Pillow'
    """
    counted = "; ".join(f"{count:,} with {what}" for what, count in conversions.items())
    return f"converted images or videos: {counted}" if counted else ""


def hash_of_ids(ids: Iterable[str]) -> str:
    """Return a hash of a set of ids, which identifies a choice of samples."""
    whole = hashlib.blake2b(digest_size=16)
    for sample_id in sorted(ids):
        whole.update(f"{sample_id}\n".encode())
    return whole.hexdigest()


def _weight(media: Media) -> int:
    try:
        return media.weight
    except OSError:  # some of its frames are missing, which --allow-missing has let pass
        return -1
