"""Check a benchmark's files before a run, so that faults are listed before a model is loaded."""

import re
from collections.abc import Iterator, Sequence
from io import BytesIO
from shlex import quote

from harness.errors import DataError, counted
from harness.image_file import refuse_cut
from harness.media import Media, encoded_frame, files_of
from harness.plugins import plugin_errors
from harness.run.batching import samples_of
from harness.run.options import Progress
from harness.run.sample_cache import SampleCache, read_once
from harness.task import Problem, Task
from harness.types import Sample

PROBLEMS_SHOWN = 10  # lines of problems in a message
LINE_NUMBER = re.compile(r"\bline \d+")  # line 17


def preflight(task: Task, progress: Progress, *, allow_missing: bool, spec: str = "") -> Task:
    """Check every file of the benchmark, unless that was done.

    Args:
        task: The task whose files are checked.
        progress: Receives a note on faults that are accepted.
        allow_missing: Accept missing and damaged files.
        spec: The task as typed, for commands in messages; "": its name.

    Returns:
        The task with cached samples.

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
            f"Correct them (`harness data check {quote(spec or task.name)}` lists all). Where "
            "images are missing or damaged, --allow-missing counts their samples as failed"
        )
    progress.note(
        f"{len(problems)} faulty file(s); samples without an image count as failed\n  {text}"
    )
    return task


def _problems(task: Task) -> list[Problem]:
    """Return all problems of a benchmark's files.

    First look for one problem while the samples are read, if the task supports that. If samples
    were read and none is faulty, return no problems. Otherwise call the slower `check`, which lists
    all of them.
    """
    first: Problem | None = None
    if task.check_samples is not None:
        n_read = 0

        def walk() -> Iterator[Sample]:
            nonlocal n_read
            for sample in samples_of(task):
                n_read += 1
                yield sample

        try:
            with plugin_errors(f"the check of {task.name}"):
                first = next(iter(task.check_samples(walk())), None)
        except DataError as error:
            first = Problem(task.name, str(error))
        if n_read > 0 and first is None:
            return []
    with plugin_errors(f"the check of {task.name}"):
        return list(task.check()) or ([] if first is None else [first])


def problem_lines(problems: Sequence[Problem], limit: int) -> list[str]:
    """Return a line for each problem; problems that differ only in a line number share one.

    Args:
        problems: The problems.
        limit: Largest number of lines; the others are counted in a further line.
    """
    lines_by_form: dict[str, list[str]] = {}
    for problem in problems:
        line = problem_line(problem.path, problem.message)
        lines_by_form.setdefault(LINE_NUMBER.sub("line", line), []).append(line)
    lines = [
        first + (f" (and {counted(len(others), 'line')} like it)" if others else "")
        for first, *others in lines_by_form.values()
    ]
    if len(lines) <= limit:
        return lines
    return [*lines[:limit], f"… and {len(lines) - limit} more"]


def problem_line(path: str, message: str) -> str:
    """Return a problem as one line that names its path once.

    >>> problem_line("a.png", "is missing"), problem_line("a.json", "file a.json: expected JSON")
    ('a.png: is missing', 'file a.json: expected JSON')
    """
    return message if path in message else f"{path}: {message}"


def undecodable(task: Task, *, every: bool = False) -> Iterator[Problem]:
    """Yield videos that have a header but no frames, and images that are cut off.

    The first and last frame of a video are decoded; of an image the end is checked. Media of one
    group are decoded once. Media that are known to be lost are left to the task's own check.

    Args:
        task: The task whose media are decoded.
        every: Decode all frames of videos and images instead.
    """
    seen: set[tuple[str, int]] = set()
    for sample in samples_of(task):
        for medium_index, media in enumerate(sample.query.media):
            if media.fault or (sample.group, medium_index) in seen:
                continue
            seen.add((sample.group, medium_index))
            try:
                for path in () if every else files_of(media):
                    refuse_cut(path)
                if every or media.is_video:
                    _decode(media, every=every)
                elif data := None if files_of(media) else encoded_frame(media, 0):
                    refuse_cut(BytesIO(data), f"of question {sample.id!r}")
            except DataError as error:
                yield Problem(f"question {sample.id!r}", str(error))


def _decode(media: Media, *, every: bool) -> None:
    for index in range(len(media)) if every else dict.fromkeys((0, len(media) - 1)):
        media.frame(index)
