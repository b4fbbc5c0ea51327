"""A run on disk: its configuration, predictions and scores, written by `harness.run`.

manifest.json                  everything needed to repeat the run; written before it starts
samples.<worker>.<attempt>.jsonl   the journal of predictions (store/journal.py)
scores.jsonl                   one `UnitScore` a line, in the task's order
results.json                   the numbers; equal runs give equal bytes, so no clock in it
checksums.json                 hashes of the four above (store/checksums.py)
timing.json                    seconds, which are never equal
submission.zip                 instead of numbers, where the organisers keep the ground truth

A file that is missing, damaged or changed is a StoreError that says which command repairs it.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from harness.errors import StoreError, raised_as
from harness.files import open_regular
from harness.interchange.journal_form import stored_prediction
from harness.plain import from_plain, json_scalar
from harness.scores import Better, UnitScore
from harness.store import checksums
from harness.store.atomic import json_bytes, read_json, write_bytes
from harness.store.journal import Journal
from harness.types import Prediction, query_id

VERSION = 2  # of run folders
MANIFEST, RESULTS, SCORES, TIMING = "manifest.json", "results.json", "scores.jsonl", "timing.json"

MANIFEST_FIELDS = (
    "task.spec",
    "task.name",
    "task.version",
    "task.split",
    "task.protocol",
    "subset",
    "model.spec",
    "model.name",
    "model.description",
    "data.root",
    "data.fingerprint",
    "data.n_total",
    "seed",
    "provenance.commit",
    "provenance.packages",
    "provenance.python",
    "provenance.platform",
    "provenance.device",
    "config_hash",
)
RESULTS_FIELDS: Mapping[str, Any] = {
    "headline": str,
    "better": dict[str, Better],
    "metrics": dict[str, float | None],
    "intervals": dict[str, tuple[float, float] | None],
    "breakdowns": dict[str, dict[str, dict[str, Any]]],
    "n_total": int,
}
"""Fields of `results.json` that every reader needs, with their types."""
METRIC_TABLES = ("metrics", "intervals", "better", "about")
"""Tables of results with an entry for each metric."""
WORDS_TEXT = "words_text"
"""Setting of a model with its requests in words, by form of answer."""
RESTART_HINT = "`harness eval … --restart` renames the folder and starts again."
REPEAT_HINT = "The same `harness eval` writes it again, from the predictions that are kept."
RESCORE_HINT = (
    "`harness score RUN` shows what the predictions score and in what the record differs; the same "
    "`harness eval` with --rescore writes the record again."
)


def read_fields(path: Path, names: Sequence[str], fix: str = "") -> dict[str, Any]:
    """Read the object in a JSON file; raise StoreError if it lacks one of the fields.

    `task.name` is the field `name` of the object in the field `task`.
    """
    plain = read_json(path, fix=fix)
    for name in names:
        inner = plain
        for part in name.split("."):
            if not isinstance(inner, dict) or part not in inner:
                raise StoreError(
                    f"file {path}", expected=f"the field {name}", found="none", fix=fix
                )
            inner = inner[part]
    assert isinstance(plain, dict), "an object of JSON"
    return plain


@dataclass(frozen=True)
class Run:
    """A run folder, for reading."""

    folder: Path

    @classmethod
    def open(cls, folder: Path) -> "Run":
        """Open a run folder; raise StoreError if it is not one, or is of another version."""
        run = cls(folder)
        run.check_opened()
        return run

    def check_opened(self) -> None:
        """Raise StoreError if this is not a run folder, or one of another version."""
        if not (self.folder / MANIFEST).is_file():
            raise StoreError(
                f"run folder {self.folder}",
                expected=MANIFEST,
                found="none",
                fix=_runs_near(self.folder)
                or "Name the folder of one run, which holds that file; the same "
                "`harness eval` writes it again where it was lost.",
            )
        assert self.manifest, "it was read and checked"

    @cached_property
    def place(self) -> Path:
        """The folder's absolute path, without links."""
        return self.folder.resolve()

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Return the run's configuration; raise StoreError if harness did not write it."""
        path = self.folder / MANIFEST
        plain = read_fields(path, ("version",), RESTART_HINT)
        if plain["version"] != VERSION:
            raise StoreError(
                f"run {self.folder}",
                expected=f"version {VERSION}",
                found=repr(plain["version"])[:40],
                fix=RESTART_HINT,
            )
        read_fields(path, MANIFEST_FIELDS, RESTART_HINT)
        if type(plain["seed"]) is not int:
            seed = repr(plain["seed"])[:40]
            raise StoreError(f"file {path}: 'seed'", expected="a whole number", found=seed)
        return plain

    @cached_property
    def results(self) -> dict[str, Any]:
        """Return the numbers; raise StoreError if there are none yet, or the file is malformed."""
        path = self.folder / RESULTS
        plain = read_fields(path, list(RESULTS_FIELDS), REPEAT_HINT)
        for name, value_type in RESULTS_FIELDS.items():
            where = f"run {self.folder}, {RESULTS}: {name!r}"
            with raised_as(StoreError, where, "what a run writes", ValueError, fix=REPEAT_HINT):
                from_plain(value_type, plain[name])
        if not {plain["headline"], *plain["metrics"]} <= plain["better"].keys():
            expected = "a direction for the headline and each metric"
            where = f"run {self.folder}, {RESULTS}"
            raise StoreError(where, expected=expected, found="none", fix=REPEAT_HINT)
        return plain

    @cached_property
    def timing(self) -> dict[str, Any]:
        """Cost of the run, by attempt; empty where that is not recorded, or is not an object.

        Raises:
            StoreError: the file is damaged.
        """
        path = self.folder / TIMING
        plain = read_json(path) if path.is_file() else {}
        return plain if isinstance(plain, dict) else {}

    @property
    def is_finished(self) -> bool:
        """Return True if the run has scores (or a submission)."""
        return (self.folder / RESULTS).is_file()

    @cached_property
    def journal(self) -> Journal:
        """The index of the predictions; raises StoreError if one belongs to another run."""
        journal = Journal(self.folder)
        journal.check(self.manifest["config_hash"])
        return journal

    def units(self) -> Iterator[UnitScore]:
        """Scores of all units, in the task's order."""
        path = self.folder / SCORES
        with (
            raised_as(
                StoreError,
                f"file {path}",
                "scores, one unit a line",
                *(OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError),
                fix=REPEAT_HINT,
            ),
            open_regular(path) as lines,
        ):
            for line in lines:
                yield UnitScore.from_json(json.loads(line))

    def check_files(self) -> None:
        """Raise StoreError if a file of the finished run is not what the run wrote."""
        path = self.folder / checksums.CHECKSUMS
        if not path.is_file():
            raise StoreError(
                f"run {self.folder}",
                expected=f"{path.name}, which shows whether its files were changed",
                found="none, as in runs of earlier versions",
                fix=REPEAT_HINT,
            )
        try:
            changed = checksums.changed_files(self.folder)
        except StoreError as error:
            raise StoreError(str(error), fix=REPEAT_HINT) from error
        if changed:
            raise StoreError(
                "; ".join(f"file {self.folder / name}" for name in changed),
                expected="the file that the run wrote",
                found=", ".join(dict.fromkeys(changed.values())),
                fix=RESCORE_HINT,
            )

    def prediction(self, sample_id: str) -> Prediction:
        """The prediction for a sample, by its official id."""
        return next(self.predictions([sample_id]))

    def predictions(self, sample_ids: Iterable[str]) -> Iterator[Prediction]:
        """Yield the predictions for samples, by their official ids."""
        for record in self.journal.records(map(query_id, sample_ids)):
            yield stored_prediction(record, self.folder)


FINISHED = (MANIFEST, RESULTS, SCORES, checksums.CHECKSUMS)
"""Files of a finished run; a run that is not finished has only the first."""

MAX_NEAR = 5
"""Number of runs that an error names."""
SET_ASIDE_NAME = re.compile(r".*\.old\d+\Z")
"""Name that `--restart` gives to an earlier run, such as `mevis.old2`."""


def runs_below(folder: Path) -> list[Path]:
    """List every finished run folder at or below a folder, in the order of their paths.

    A folder that lost some of its files is among them, so that its reader reports that. Runs that
    were set aside are not, unless the folder itself is one.
    """
    if not folder.is_dir():
        raise StoreError(f"folder {folder}", expected="a folder of runs", found="none")
    return [Path(run) for run, names in _sorted_folders(folder) if _is_finished(names)]


def has_run(folder: Path) -> bool:
    """Return True if there is a finished run at or below a folder; see `runs_below`."""
    return any(_is_finished(names) for _, names in folders_below(folder))


def _is_finished(names: set[str]) -> bool:
    # One such file alone, say a manifest.json, may belong to another program.
    return len(names.intersection(FINISHED)) > 1


def folders_below(folder: Path) -> Iterator[tuple[str, set[str]]]:
    """Yield each folder at or below a folder, with the names of its files and folders.

    Runs that were set aside are left out, and links to folders are not followed.
    """
    walked = _WALKED.get()
    if walked is None:
        yield from _walk(folder)
        return
    if folder not in walked:
        walked[folder] = list(_walk(folder))
    yield from walked[folder]


@contextmanager
def walked_once() -> Iterator[None]:
    """Walk each tree of runs once, for commands that ask for its runs and for those left out."""
    token = _WALKED.set({})
    try:
        yield
    finally:
        _WALKED.reset(token)


_WALKED: ContextVar[dict[Path, list[tuple[str, set[str]]]] | None] = ContextVar(
    "_WALKED", default=None
)


def _walk(folder: Path) -> Iterator[tuple[str, set[str]]]:
    for current, folders, names in os.walk(folder):
        yield current, {*folders, *names}
        folders[:] = [name for name in folders if not SET_ASIDE_NAME.match(name)]


def _sorted_folders(folder: Path) -> list[tuple[str, set[str]]]:
    """Return `folders_below` in the order of their paths."""
    # A separator comes before all other characters, as in a comparison of the paths' parts.
    return sorted(folders_below(folder), key=lambda pair: pair[0].replace(os.sep, "\0"))


def _runs_near(folder: Path) -> str:
    """Return which runs lie below a folder or beside it, as a sentence; empty if there are none."""
    for above in (folder, folder.parent):
        folders = sorted(
            path.parent for deep in ("*", "*/*") for path in above.glob(f"{deep}/{MANIFEST}")
        )
        if folders:
            near = get_close_matches(str(folder), map(str, folders), n=MAX_NEAR, cutoff=0.0)
            more = f", and {len(folders) - MAX_NEAR} more" if len(folders) > MAX_NEAR else ""
            return f"Runs near it: {', '.join(near)}{more}."
    return ""


def no_run(folder: Path) -> StoreError:
    """Return the error of a folder without a finished run."""
    return StoreError(
        f"folder {folder}",
        expected="a finished run, or a folder of them",
        found="none",
        fix="A run is finished when it has results.json.",
    )


def unfinished_below(folder: Path) -> list[Path]:
    """List every run folder at or below a folder that has answers or scores, and no results yet."""
    return incomplete_below(folder)[1]


def incomplete_below(folder: Path) -> tuple[list[Path], list[Path]]:
    """List the finished runs at or below a folder without scores, and `unfinished_below`."""
    unscored, unfinished = [], []
    for run, names in _sorted_folders(folder):
        if _is_finished(names) and SCORES not in names:
            unscored.append(Path(run))
        if (
            MANIFEST in names
            and RESULTS not in names
            and (names & {SCORES, checksums.CHECKSUMS} or any(Path(run).glob("samples.*.jsonl")))
        ):
            unfinished.append(Path(run))
    return unscored, unfinished


def without_words(plain: object) -> Any:
    """Return plain data without the requests in words of the models that it describes.

    Earlier versions did not record them; they follow from the other settings and the code.
    """
    if not isinstance(plain, Mapping):
        return plain
    return {name: without_words(value) for name, value in plain.items() if name != WORDS_TEXT}


def config_hash(config: Mapping[str, object]) -> str:
    """A hash of plain data that does not depend on the order of keys."""
    text = json.dumps(
        config, sort_keys=True, ensure_ascii=False, allow_nan=False, default=json_scalar
    )
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def differences(old: object, new: object, name: str = "") -> list[str]:
    """Return the values that differ between two pieces of plain data, one line each."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        keys = sorted(set(old) | set(new))
        parts = (
            differences(old.get(key), new.get(key), f"{name}.{key}" if name else key)
            for key in keys
        )
        return [line for part in parts for line in part]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return differences(dict(enumerate(old)), dict(enumerate(new)), name)
    return [] if old == new else [f"{name}: {old!r} → {new!r}"]


def changed_numbers(stored: Mapping[str, Any], results: Mapping[str, Any]) -> list[str]:
    """Return the values that differ between stored results and these, one line each.

    Descriptions of metrics and the scorer's code do not count, nor what the stored results lack, as
    in runs of earlier versions: metrics, a ledger, forms.
    """
    current = json.loads(json.dumps(results, default=json_scalar))
    current = without_metrics(current, current["metrics"].keys() - stored["metrics"].keys())
    left_out = {"about", "scoring_code", *({"ledger", "forms"} - stored.keys())}
    old = {name: value for name, value in stored.items() if name not in left_out}
    new = {name: value for name, value in current.items() if name not in left_out}
    return differences(old, new)


def without_metrics(results: Mapping[str, Any], metrics: Set[str]) -> dict[str, Any]:
    """Return results, or a part of them, without the entries of some metrics."""
    reduced: dict[str, Any] = {}
    for key, value in results.items():
        if not isinstance(value, Mapping):
            reduced[key] = value
        elif key in METRIC_TABLES:
            reduced[key] = {name: number for name, number in value.items() if name not in metrics}
        else:
            reduced[key] = without_metrics(value, metrics)
    return reduced


def finish(
    folder: Path,
    units: Iterable[UnitScore] | None,
    results: Mapping[str, object],
    *,
    manifest: Mapping[str, object] | None = None,
    journal: bool = True,
) -> None:
    """Write scores.jsonl, checksums.json and last results.json, with which the run is finished.

    Args:
        folder: The run folder, whose journal nobody writes to any more.
        units: None where there is no ground truth to score by.
        results: The numbers.
        manifest: The manifest to write, last, if the folder has none; None: it has one.
        journal: False for a copy of a run without its predictions.
    """
    described = (folder / MANIFEST).read_bytes() if manifest is None else json_bytes(manifest)
    contents = {MANIFEST: described, RESULTS: json_bytes(results)}
    if units is not None:
        contents[SCORES] = _lines(units)
        write_bytes(folder / SCORES, contents[SCORES])
    checksums.write(folder, contents, journal=journal)
    write_bytes(folder / RESULTS, contents[RESULTS])
    if manifest is not None:
        write_bytes(folder / MANIFEST, described)


def _lines(units: Iterable[UnitScore]) -> bytes:
    write = partial(json.dumps, ensure_ascii=False, allow_nan=False, default=json_scalar)
    return "".join(f"{write(unit.to_json())}\n" for unit in units).encode()
