"""A cache of values that boards compute from runs, so that unchanged runs are not read again.

The cache is in the index of runs. A value is stored by its run's folder and its name, and begins
with a hash of the value, the sizes and times of the run's files, harness's code and further inputs.
A value that is out of date or damaged does not match its hash, and is computed again.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from harness.errors import HarnessError, MissingDependency, StoreError
from harness.files import cache_folder, folder_marks, status_marks
from harness.leaderboards.history import FILE
from harness.record import Run
from harness.scores import Mean, UnitScore, from_json

if TYPE_CHECKING:
    from harness.leaderboards.history.database import Database

MAX_BYTES = 2**20
"""Size in bytes of the largest value that is stored; larger runs are read from their files."""
HASH_BYTES = 16
RECORD = "record"
"""Name of the value that holds all that a board reads of a run."""
RUNS_AT_ONCE = 500
"""Runs whose records are loaded together, which bounds memory."""
NOT_USED_NOTE = "the index of runs is not used: {}"


@dataclass(frozen=True)
class KnownRun(Run):
    """A run with the state of its files, and with its record if the cache has it."""

    state: str = field(default="", compare=False)
    """Hash of its files' sizes and times and of the code; empty: its values are not cached."""

    def units(self) -> Iterator[UnitScore]:
        """Scores of all units, in the task's order."""
        if not self.is_read:
            return super().units()
        return (_unit(*values) for values in self.__dict__["scores"])

    @property
    def unit_names(self) -> list[str]:
        """Names of all units, in the task's order."""
        if not self.is_read:
            return [unit.unit for unit in self.units()]
        return [sys.intern(values[0]) for values in self.__dict__["scores"]]

    @property
    def is_read(self) -> bool:
        """True if the run's record came from the cache."""
        return "scores" in self.__dict__

    def record(self, units: Iterable[UnitScore]) -> dict[str, Any]:
        """Return all that a board reads of the run, as plain data; `read` takes it back."""
        return {
            **{name: getattr(self, name) for name in ("manifest", "results", "timing")},
            "scores": [list(unit.to_json().values()) for unit in units],
        }

    def read(self, record: Mapping[str, Any]) -> None:
        """Use a record (`record`) in place of the run's files."""
        self.__dict__.update(record)


def _unit(
    unit: str,
    group: str,
    samples: Sequence[str],
    categories: Mapping[str, str],
    failed: int,
    scores: Mapping[str, Any],
) -> UnitScore:
    """Build a scored unit from its stored fields; equal names share one string in memory."""
    return UnitScore(
        unit=sys.intern(unit),
        group=sys.intern(group),
        samples=tuple(samples),
        categories=categories,
        failed=failed,
        scores={
            sys.intern(name): Mean(*plain)
            if isinstance(plain, list)
            else from_json({"": plain})[""]
            for name, plain in scores.items()
        },
    )


def find_index(url: str | None, note: Callable[[str], None]) -> "KnownValues | None":
    """Return the cache in the index of a URL, of `$HARNESS_DB` or of this machine.

    None: there is no index, or it cannot be opened, which `note` tells.

    Raises:
        UsageError: the URL is not of a supported database.
        MissingDependency: a URL is given, and the extra `db` is not installed.
    """
    chosen = url or os.environ.get("HARNESS_DB")
    if not chosen and not (cache_folder() / FILE).is_file():
        return None
    try:
        from harness.leaderboards.history.database import Database, default_url

        return KnownValues(Database(chosen or default_url(), write=True), note)
    except ModuleNotFoundError as error:
        if not chosen:
            return None
        raise MissingDependency.package(error.name, extra="db") from error
    except StoreError as error:
        note(NOT_USED_NOTE.format(error))
        return None


class KnownValues:
    """The cache. After an error of its database nothing is loaded or saved any more."""

    def __init__(self, database: "Database", note: Callable[[str], None]) -> None:
        self._database: Database | None = database
        self._note = note
        self._versions = f"{np.__version__} {scipy.__version__} {code_marks('harness')}"

    def runs(self, folders: Mapping[Path, Path]) -> list[KnownRun]:
        """Open runs with the state of their files, and with their records if they are cached.

        `folders` are by their absolute paths without links.
        """
        runs = [self._run(folder_key, folder) for folder_key, folder in folders.items()]
        for start in range(0, len(runs), RUNS_AT_ONCE):
            for run, record in self.load(RECORD, runs[start : start + RUNS_AT_ONCE]).items():
                run.read(record)
        return runs

    def _run(self, path: Path, folder: Path) -> KnownRun:
        """Open the run in a folder, whose absolute path without links is `path`."""
        marks = None
        with suppress(OSError):  # whoever reads the run reports the error
            marks = folder_marks(folder)
        run = KnownRun(folder, "" if marks is None else f"{marks} {self._versions}")
        run.__dict__["place"] = path
        return run

    def save_records(
        self, runs: Iterable[Run], units_of: Callable[[Run], Iterable[UnitScore]]
    ) -> None:
        """Store the records and scores of validated runs, unless they came from the cache."""
        new = {
            run: run.record(units_of(run))
            for run in runs
            if isinstance(run, KnownRun) and not run.is_read
        }
        self.save(RECORD, new)

    def load(self, name: str, runs: Iterable[KnownRun], inputs: str = "") -> dict[KnownRun, Any]:
        """Return the cached values of a name that are up to date.

        Args:
            name: Name of the values.
            runs: The runs.
            inputs: Text of everything besides the runs' files that decides the values.
        """
        folders = {_folder_key(run): run for run in runs if run.state}
        stored = self._used(lambda database: database.values(name, list(folders))) or {}
        values = {}
        for folder_key, content in stored.items():
            run, head, value = folders.get(folder_key), content[:HASH_BYTES], content[HASH_BYTES:]
            if run is not None and head == _hash(folder_key, name, run, inputs, value):
                values[run] = json.loads(value)
        return values

    def save(self, name: str, values: Mapping[KnownRun, Any], inputs: str = "") -> None:
        """Store a value of each run; see `load`."""
        contents = {}
        for run, value in values.items():
            content = json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
            if run.state and len(content) <= MAX_BYTES:
                folder_key = _folder_key(run)
                contents[folder_key] = _hash(folder_key, name, run, inputs, content) + content
        if contents:
            self._used(lambda database: database.keep_values(name, contents))

    def _used(self, use: "Callable[[Database], Any]") -> Any:
        """Return the result of a query; after an error return None and give up the database."""
        if self._database is None:
            return None
        try:
            return use(self._database)
        except (HarnessError, ValueError, TypeError, OSError) as error:
            self._database = None
            self._note(NOT_USED_NOTE.format(error))
            return None


def _folder_key(run: Run) -> str:
    """Return a run's folder as UTF-8 text, which any database accepts."""
    return str(run.place).encode("utf-8", "backslashreplace").decode()


def _hash(folder_key: str, name: str, run: KnownRun, inputs: str, content: bytes) -> bytes:
    head = "\0".join((folder_key, name, run.state, inputs)).encode()
    return hashlib.blake2b(head + content, digest_size=HASH_BYTES).digest()


def code_marks(package: str) -> str:
    """Return a hash of the sizes and times of a package's source files, or of a module's file."""
    spec = find_spec(package)
    assert spec is not None, "it is imported"
    marks = []
    for folder in spec.submodule_search_locations or ():
        for root, _, names in sorted(os.walk(folder, followlinks=True)):
            paths = [Path(root, name) for name in sorted(names) if name.endswith((".py", ".toml"))]
            marks += [(str(path), status_marks(path.stat())) for path in paths]
    if spec.origin and not marks:
        marks.append((spec.origin, status_marks(Path(spec.origin).stat())))
    return hashlib.blake2b(repr(marks).encode(), digest_size=HASH_BYTES).hexdigest()
