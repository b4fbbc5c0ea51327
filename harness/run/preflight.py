"""Steps before a run: check the benchmark's files, and set an earlier run aside."""

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

from harness.errors import DataError
from harness.media import Media
from harness.plugins import plugin_errors
from harness.run.batching import samples_of
from harness.run.options import Progress
from harness.run.sample_cache import read_once
from harness.store.atomic import writing
from harness.store.lease import lease
from harness.task import Problem, Task

PROBLEMS_SHOWN = 10


def preflight(task: Task, progress: Progress, *, allow_missing: bool) -> Task:
    """Check every file of the benchmark before any work is done; faults are noted if allowed.

    Returns:
        The task, whose samples are not parsed again.

    Raises:
        DataError: files are missing or damaged, unless `allow_missing`; the first are listed.
    """
    task = read_once(task)
    problems = _problems(task)
    if not problems:
        return task
    listed = [problem_line(problem.path, problem.message) for problem in problems[:PROBLEMS_SHOWN]]
    if (rest := len(problems) - PROBLEMS_SHOWN) > 0:
        listed.append(f"… and {rest} more")
    text = "\n  ".join(listed)
    if not allow_missing:
        raise DataError(
            f"{task.name}, split {task.split}: {len(problems)} file(s) are not as they should "
            f"be\n  {text}\nMend them (`harness data check {task.name}` lists all). Where "
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


def set_aside(folder: Path) -> None:
    """Rename an earlier run's folder to `<name>.old<number>`, so that nothing is lost."""
    if not folder.exists():
        return
    number = 1
    while (target := folder.with_name(f"{folder.name}.old{number}")).exists():
        number += 1
    with lease(folder), writing(target):
        folder.rename(target)


def problem_line(path: str, message: str) -> str:
    """Return a problem in one line, which names its path once.

    >>> problem_line("a.png", "is missing"), problem_line("a.json", "file a.json: expected JSON")
    ('a.png: is missing', 'file a.json: expected JSON')
    """
    return message if path in message else f"{path}: {message}"


def undecodable(task: Task, *, every: bool = False) -> Iterator[Problem]:
    """Yield videos that have a header and no frames, by decoding each one's first and last.

    Samples of one group share their media, which are decoded once. Media that are known
    to be lost are left to the task's own check.

    Args:
        task: The task whose media are decoded.
        every: Decode all frames, also of images.
    """
    seen: set[tuple[str, int]] = set()
    for sample in samples_of(task):
        for place, media in enumerate(sample.query.media):
            if media.fault or (sample.group, place) in seen or not (every or media.is_video):
                continue
            seen.add((sample.group, place))
            try:
                _decode(media, every=every)
            except DataError as error:
                yield Problem(sample.group, str(error))


def _decode(media: Media, *, every: bool) -> None:
    for index in range(len(media)) if every else dict.fromkeys((0, len(media) - 1)):
        media.frame(index)
