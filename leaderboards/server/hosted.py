"""A task that the test server scores, and the two steps of an upload: `check` and `score`.

The check does not see the ground truth. Checks are free for participants, so that their messages
must follow from the questions alone; otherwise uploads could probe the labels by them. Both steps
run in a child process (`children`) whose current folder is the working folder of the upload.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, get_args

from harness import plugins
from harness.coordinates import Coordinates
from harness.errors import DataError, UsageError, counted
from harness.formats.mask_tree import mask_tree
from harness.interchange.rows import AS_DOCUMENTED, Written
from harness.leaderboards.server.archive import is_zip, unpack
from harness.leaderboards.server.release import default_step
from harness.record import Run
from harness.run.batching import samples_of, select, units
from harness.run.external_predictions import SHOWN, Submission, match_rows, units_with_predictions
from harness.run.judging import unjudged
from harness.run.options import NullProgress
from harness.run.preflight import preflight
from harness.run.sample_cache import read_once
from harness.run.score import predictions_hash, score_file
from harness.run.survey import survey
from harness.scores import Better
from harness.spec import Spec, parse, slug
from harness.task import Task
from harness.types import FailureKind, Sample

UPLOAD, CONTENT, RUN = Path("upload"), Path("content"), Path("run")
"""Paths in the working folder: the uploaded file, the folder for its unpacked files, and the run
folder of its score."""
SINGLE = ("jsonl", "coco")
"""Formats that are one file."""
FORMATS = (*SINGLE, "mask-tree")
SHOWN_NAME = "FILE"
"""Name of the uploaded file in messages. The server does not know the participant's own name for
it, unless it came in a zip."""
THRESHOLD = 0.5
"""Probability above which a pixel or an object counts, in formats that hold probabilities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Statements of a participant about a file."""

    format: str = "jsonl"
    coordinates: Coordinates | None = None
    mask_order: str | None = None
    """`columns` or `rows`."""

    def __post_init__(self) -> None:
        """Raise UsageError for an unknown value."""
        for name, allowed in (
            ("format", FORMATS),
            ("coordinates", (None, *get_args(Coordinates))),
            ("mask_order", (None, "columns", "rows")),
        ):
            if (value := getattr(self, name)) not in allowed:
                raise UsageError(
                    name, expected=" or ".join(filter(None, allowed)), found=repr(value)[:60]
                )

    @property
    def written(self) -> Written | None:
        """Meaning of the file's numbers; None if nothing is stated."""
        if self.coordinates is None and self.mask_order is None:
            return None
        return Written(self.coordinates or "pixels", by_rows=self.mask_order == "rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosted:
    """A task with labels, and the public facts about it."""

    key: str
    """Its name in addresses."""
    spec: str
    labels: Path
    """Folder of the benchmarks' data with ground truth."""
    name: str
    split: str
    protocol: str
    headline: str
    better: Better
    samples: int
    units: int
    step: float
    """Smallest improvement by which a shown score moves (`release`); 0: exact scores."""
    data: str
    """Hash of the samples and their ground truth; never shown to participants."""

    @property
    def identity(self) -> Mapping[str, str]:
        """Facts that must stay equal for scores under one key to be comparable."""
        names = ("name", "split", "protocol", "headline", "data")
        return {name: getattr(self, name) for name in names}

    @property
    def module(self) -> str:
        """The module of the task's plugin."""
        return plugins.installed_plugins("tasks")[parse(self.spec).name].module

    def build(self) -> Task:
        """Build the task."""
        task: Task = plugins.build("tasks", parse(self.spec), self.labels)
        return task


def host(specs: Sequence[Spec], labels: Path, step: float | None = None) -> dict[str, Hosted]:
    """Build tasks, check their files, and return them by their names in addresses.

    Args:
        specs: The tasks.
        labels: Folder of the benchmarks' data with their ground truth.
        step: Step of the shown scores; None: `default_step` of each task.

    Raises:
        DataError: files or ground truth are missing or damaged.
        UsageError: a task needs a judge, or a step has to be given.
    """
    labels = labels.resolve()
    tasks = [(spec, plugins.build("tasks", spec, labels)) for spec in specs]
    names = [task.name for _, task in tasks]
    all_hosted = (
        _checked(spec, task, labels, step, is_only=names.count(task.name) == 1)
        for spec, task in tasks
    )
    return {hosted.key: hosted for hosted in all_hosted}


def _checked(spec: Spec, task: Task, labels: Path, step: float | None, *, is_only: bool) -> Hosted:
    """Check that a task can be served, and return it with the step of its Ladder (`release`).

    `is_only`: no other served task has its name, which then is its name in addresses.
    """
    protocol = task.protocol
    if protocol.rubric is not None:
        raise unjudged(protocol.rubric)
    task = preflight(task, NullProgress(), allow_missing=False, spec=str(spec))
    if task.submission or any(sample.target is None for sample in samples_of(task)):
        raise DataError(
            f"task {spec}", expected="ground truth", found="none: the organisers keep it"
        )
    outside = (path for path in task.annotations if not path.resolve().is_relative_to(labels))
    if (path := next(outside, None)) is not None:
        raise UsageError(
            f"task {spec}", expected=f"files below {labels} (--labels)", found=str(path)
        )
    better = protocol.metric(protocol.headline).better
    if better == "lower" and step is None:
        raise UsageError(
            f"task {spec}: --step",
            expected=f"a step of {protocol.headline}, whose range is not from 0 to 1",
            found="none",
        )
    count = sum(1 for _ in units(samples_of(task)))
    surveyed = survey(task, select(task, None))
    return Hosted(
        key=task.name if is_only else slug(str(spec)),
        spec=str(spec),
        labels=labels,
        name=task.name,
        split=task.split,
        protocol=protocol.name,
        headline=protocol.headline,
        better=better,
        samples=surveyed.n_total,
        units=count,
        step=default_step(count) if step is None else step,
        data=surveyed.fingerprint,
    )


def check(task: Task, *, hosted: Hosted, settings: Settings, max_bytes: int) -> str:
    """Check the upload in the working folder without ground truth; return its predictions' hash.

    Raises:
        DataError: the upload is malformed, lacks a sample, or has responses instead of answers.
    """
    path = _unpack_upload(settings, max_bytes)
    blind = read_once(replace(task, samples=partial(_without_targets, task)))
    submission = _submission(settings, path, settings.written)
    samples = partial(samples_of, blind)
    matched = None if submission.tree else match_rows(blind, submission, samples, hosted.key)
    for row in () if matched is None else (matched.rows.get(sample.id) for sample in samples()):
        if row is not None and row.responses is not None:
            raise DataError(
                f'{row.where}: a "response"',
                expected="an answer, as no model runs on the server",
                found="the text of a model",
                fix="Write what your model's parser reads of it; null where it reads nothing.",
            )
    missing = [
        sample.id
        for unit, predictions in units_with_predictions(submission, samples, matched)
        for sample, prediction in zip(unit, predictions, strict=True)
        if prediction.failure and prediction.failure.kind is FailureKind.INFRASTRUCTURE
    ]
    if missing:
        raise DataError(
            f"predictions {path}",
            expected=f"one for each of {counted(hosted.samples, 'sample')}",
            found=f"none for {len(missing):,}, such as {', '.join(missing[:SHOWN])}",
            fix='In JSON lines {"id": …, "response": null} is a sample without an answer.',
        )
    return predictions_hash(path)


def score(
    task: Task, *, hosted: Hosted, settings: Settings, name: str, max_bytes: int
) -> float | None:
    """Score the upload in the working folder, and write its run folder; return the headline.

    Raises:
        DataError: the labels are not those with which the server started.
    """
    path = _unpack_upload(settings, max_bytes)
    # The meaning of the numbers is never inferred from labels: a refusal here would be a hint.
    submission = _submission(settings, path, settings.written or AS_DOCUMENTED)
    submission = replace(submission, name=name, data_root=str(hosted.labels))
    results: dict[str, Any] = score_file(task, submission, folder=RUN, task_spec=hosted.spec)
    fingerprint = Run.open(RUN).manifest["data"]["fingerprint"]
    if fingerprint != hosted.data:
        raise DataError(
            f"task {hosted.key}: data",
            expected=f"{hosted.data}, with which the server started",
            found=fingerprint,
            fix="Put the files below --labels back, or start a server with another --state.",
        )
    value: float | None = results["metrics"][hosted.headline]
    return value


def _without_targets(task: Task) -> Iterator[Sample]:
    return (replace(sample, target=None) for sample in samples_of(task))


def _submission(settings: Settings, path: Path, written: Written | None) -> Submission:
    is_tree = settings.format not in SINGLE
    return Submission(
        path=path,
        name="check",
        data_root="ROOT",  # a participant's own
        allow_extra=None,
        format=settings.format,
        written=None if is_tree else written,
        tree=partial(mask_tree, threshold=THRESHOLD) if is_tree else None,
        threshold=None if settings.format == "jsonl" else THRESHOLD,
    )


def _unpack_upload(settings: Settings, max_bytes: int) -> Path:
    """Return the path of the uploaded file or, from a zip, of its one file or folder of masks.

    Raises:
        DataError: the upload does not fit the format.
    """
    is_single = settings.format in SINGLE
    if not is_zip(UPLOAD):
        if not is_single:
            raise DataError("upload", expected="a zip of masks", found="another file")
        return UPLOAD.rename(SHOWN_NAME)
    CONTENT.mkdir()
    files = unpack(UPLOAD, CONTENT, max_bytes)
    if not is_single:
        return CONTENT
    if len(files) != 1:
        names = ", ".join(str(file.relative_to(CONTENT)) for file in islice(files, SHOWN))
        raise DataError(
            "zip upload",
            expected=f"one file, for the format {settings.format}",
            found=f"{len(files):,}" + (f": {names}" if files else ""),
            fix="Masks as files need format=mask-tree." if len(files) > 1 else "",
        )
    return files[0]
