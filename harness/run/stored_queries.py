"""Store the queries of an unfinished run in its folder, so that a resumed run predicts at once.

Reading a benchmark takes about a millisecond a sample: annotations are parsed, headers of images
read, masks drawn. `queries.jsonl` holds each sample's query, without the ground truth. It is used
while the sizes and times of all annotations, images and their folders are unchanged. A run that was
resumed by it reads and checks the whole benchmark before it writes a score.

Lines have the journal's form. The first identifies the samples and has their survey; the last is a
hash of the sizes and times of all files.
"""

import hashlib
import json
import os
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from harness.errors import StoreError
from harness.files import status_marks, temporary_beside
from harness.media import media_from_json, media_to_json
from harness.plain import from_plain, to_plain
from harness.record import RESULTS
from harness.run.batching import Selection
from harness.run.contents import MEDIA
from harness.run.options import Options
from harness.run.survey import Survey
from harness.store.atomic import sync, writing
from harness.store.journal import line, parse_line
from harness.task import Task
from harness.types import AnswerForm, Query

QUERIES = "queries.jsonl"
VERSION = 1  # of that file
MIN_SAMPLES = 1000
"""Smallest number of samples for which a resumed run saves more time than the file costs."""


@dataclass(frozen=True, slots=True)
class StoredQueries:
    """The queries of a run whose files have not changed since they were stored."""

    path: Path
    survey: Survey
    selection: Selection
    ids: tuple[str, ...]
    """Ids of the queries, in the task's order."""
    _starts: "array[int]"
    """Position of each query's line in the file, in bytes."""

    def since(self, number: int) -> Iterator[Query]:
        """Yield the queries from number `number` on (0: all).

        Raises:
            StoreError: the file was changed since it was read.
        """
        with self.path.open("rb") as file:
            for start in self._starts[number:]:
                file.seek(start)
                record = parse_line(file.readline())
                if record is None:
                    raise StoreError(
                        f"file {self.path}",
                        expected="the queries that were stored",
                        found="other bytes",
                        fix="Delete it, and run the same command again.",
                    )
                yield _query(record["query"])


def _query(plain: Mapping[str, Any]) -> Query:
    """Return a query from plain data; its media are opened, but not read."""
    query = from_plain(Query, {**plain, "media": []})
    return replace(query, media=tuple(map(media_from_json, plain["media"])))


def store_queries(
    folder: Path, task: Task, selection: Selection, survey: Survey, root: str
) -> None:
    """Write the queries of a run, unless it is small or some media are not files.

    Args:
        folder: The run folder.
        task: The task.
        selection: Its samples.
        survey: The survey of these samples.
        root: The data root, resolved.
    """
    if survey.n_total < MIN_SAMPLES:
        return
    path = folder / QUERIES
    files = _Marks(task)
    temporary = temporary_beside(path)
    try:
        with writing(path):
            with temporary.open("wb") as file:
                file.write(line(_head(task, selection.name, root) | {"survey": _plain(survey)}))
                for sample in selection.samples(task):
                    media = [media_to_json(medium) for medium in sample.query.media]
                    for medium in media:
                        files.add(medium["files"])  # type: ignore[arg-type]  # paths
                    query = to_plain(replace(sample.query, media=()))
                    again = from_plain(Query, {**query, "media": []})
                    if replace(again, media=sample.query.media) != sample.query:
                        raise ValueError(
                            "expected plain text, found an unpaired surrogate (half of a character)"
                        )
                    file.write(line({"query": {**query, "media": media}, "unit": sample.unit}))
                file.write(line({"marks": files.hash()}))
            sync(temporary)
            temporary.replace(path)
    except (ValueError, OSError):  # media without files, or a file that was removed
        temporary.unlink(missing_ok=True)


def stored_survey(folder: Path, task: Task, options: Options) -> Survey | None:
    """Return the survey of a run with stored queries for these options; None without them.

    It does not check whether files have changed; `stored_queries` does.
    """
    is_whole = options.until is None and options.shard is None and not options.restart
    if not is_whole or (folder / RESULTS).exists() or not (folder / MEDIA).exists():
        return None
    with suppress(OSError, ValueError, KeyError, TypeError), (folder / QUERIES).open("rb") as file:
        head = parse_line(file.readline()) or {}
        plain = head.pop("survey")
        if head == _head(task, options.subset, options.data_root):
            return _survey(plain)
    return None


def stored_queries(folder: Path, task: Task, options: Options) -> StoredQueries | None:
    """Return a run's stored queries; None if it has none, or a file has changed since then."""
    survey = stored_survey(folder, task, options)
    if survey is None:
        return None
    ids: list[str] = []
    units: set[str] = set()
    starts, last = array("q"), None
    with suppress(OSError, KeyError, TypeError), (folder / QUERIES).open("rb") as file:
        files = _Marks(task)
        start = len(file.readline())
        for raw in file:
            last = parse_line(raw)
            if last is None or "marks" in last:
                break
            for media in last["query"]["media"]:
                files.add(media["files"])
            ids.append(last["query"]["id"])
            if options.subset is not None:
                units.add(last["unit"])
            starts.append(start)
            start += len(raw)
        if last == {"marks": files.hash()} and len(ids) == survey.n_total:
            chosen = None if options.subset is None else frozenset(units)
            selection = Selection(options.subset, chosen)
            return StoredQueries(folder / QUERIES, survey, selection, tuple(ids), starts)
    return None


def _head(task: Task, subset: str | None, root: str) -> dict[str, object]:
    """Return the identity of a run's samples, as it is read from JSON."""
    identity = {
        "version": VERSION,
        "task": [task.name, task.version, task.split, task.protocol.name, dict(task.arguments)],
        "subset": subset,
        "root": root,
    }
    head: dict[str, object] = json.loads(json.dumps(identity))
    return head


def _plain(survey: Survey) -> dict[str, object]:
    """Return a survey as plain data; `_survey` reads it."""
    forms = [[sorted(forms), count] for forms, count in survey.forms.items()]
    return {field.name: getattr(survey, field.name) for field in fields(Survey)} | {"forms": forms}


def _survey(plain: Mapping[str, Any]) -> Survey:
    forms = {frozenset(map(AnswerForm, forms)): count for forms, count in plain["forms"]}
    return replace(from_plain(Survey, {**plain, "forms": {}}), forms=forms)


class _Marks:
    """A hash of the sizes and times of a benchmark's files and of the folders of its images."""

    def __init__(self, task: Task) -> None:
        self._digest = hashlib.blake2b(digest_size=16)
        self._added: set[str] = set()
        self.add(map(str, task.annotations))

    def add(self, paths: Iterable[str]) -> None:
        """Add files and their folders, each once; raise OSError if one is missing."""
        for path in paths:
            for marked in (path, path.rpartition(os.sep)[0]):
                if marked not in self._added:
                    self._added.add(marked)
                    self._digest.update(f"{marked} {status_marks(Path(marked).stat())}\n".encode())

    def hash(self) -> str:
        return self._digest.hexdigest()
