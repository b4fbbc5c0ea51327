"""The files that `harness hub push` sends: a checkpoint, finished runs, or a data set.

`contents_of` finds out which of the three a folder is, refuses what is unfinished or damaged, and
takes paths of this machine out of records.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import checkpoint_config
from harness.errors import StoreError, UsageError, counted
from harness.files import temporary_prefix
from harness.hub.local_paths import without_paths
from harness.hub.repository import Content, Kind
from harness.leaderboards.publish import PUBLICATION, check_chain
from harness.leaderboards.publish import publish as publish_run
from harness.models.backends import checkpoint
from harness.models.backends.weights import ADAPTER, INDEX, check_safetensors, weights
from harness.record import Run, runs_below
from harness.run.checkpoint_provenance import training_record
from harness.run.training_record import COPIED, MANIFEST
from harness.store.atomic import json_bytes, read_json

RESULTS_FOLDER = ".eval_results"
"""Folder in which the hub looks for results of a model: the only hidden one that is pushed."""
PATH_FIELDS = re.compile(".*(path|file|dir|folder|root|checkpoint)")
"""Names of JSON fields that hold paths: `_name_or_path`, not `vocab`, in which "/" is a token."""


@contextmanager
def contents_of(path: Path) -> Iterator[tuple[Kind, str, Mapping[str, Content]]]:
    """Yield (kind of repository, the content in words such as `3 runs`, its files by name).

    Runs are pushed as publications (`leaderboards.publish`). A file is its path, or its bytes if
    paths of this machine were taken out; temporary files exist until the context ends.

    Raises:
        UsageError: the training is not finished, or the folder has more than its finished runs.
        ModelError: weights are cut off or missing.
    """
    if not path.is_dir():
        raise UsageError(f"path {path}", expected="a folder", found="none")
    folder = checkpoint.find(str(path.absolute()))
    if _is_checkpoint(folder):
        _refuse_unfinished(folder)
        files = dict(_files_below(folder))
        check_weights(files.values())
        if (folder / INDEX).is_file():
            weights(folder)  # raises if a file that the index names is missing
        yield "model", "checkpoint", {name: _without_paths(file) for name, file in files.items()}
        return
    files = dict(_files_below(path))
    runs = runs_below(path)
    _refuse_other_files(path, files, runs)
    if runs:
        with TemporaryDirectory(prefix=temporary_prefix("hub")) as temporary:
            published: dict[str, Content] = {}
            for run in runs:
                below = run.relative_to(path)
                name = (below if below.parts else Path(run.absolute().name)).as_posix()
                copy = run
                if (run / PUBLICATION).exists():
                    check_chain(run)
                else:
                    copy = Path(temporary, name)
                    publish_run(Run.open(run), copy)
                published |= {f"{name}/{file}": content for file, content in _files_below(copy)}
            yield "dataset", "run" if len(runs) == 1 else counted(len(runs), "run"), published
    else:
        check_weights(files.values())
        yield "dataset", "data set", files


def _refuse_unfinished(folder: Path) -> None:
    """Raise UsageError if a checkpoint's training is not finished: its manifest has no result."""
    paths = [folder / COPIED[MANIFEST]]  # the copy in the checkpoint
    if folder.name == checkpoint.TRAINED:
        paths.append(folder.resolve().parent / MANIFEST)  # the original in the training's folder
    for path in paths:
        record = training_record(path)
        if record and "result" not in record:
            raise UsageError(
                f"checkpoint {folder}",
                expected="that of a finished training",
                found=f"no result in {path}",
                fix="Run the same `harness train` again to finish it.",
            )


def _refuse_other_files(folder: Path, files: Mapping[str, Path], runs: Sequence[Path]) -> None:
    """Raise UsageError for files beside finished runs, and for records of unfinished runs."""
    finished = set(runs)
    for name, path in files.items():
        if finished.isdisjoint(path.parents) and (runs or _is_record(path)):
            raise UsageError(
                f"folder {folder}",
                expected="finished runs and nothing else, or a data set without runs",
                found=f"{name}{', of an unfinished run or a training' * _is_record(path)}",
                fix="Push each run, training and data set by itself, once it is finished.",
            )


def _is_record(path: Path) -> bool:
    """Return True if a file is the record of a run or a training."""
    if path.name not in (MANIFEST, COPIED[MANIFEST]):
        return False
    try:
        plain = read_json(path)
    except StoreError:  # another program's file of this name
        return False
    return isinstance(plain, dict) and "config_hash" in plain


def _is_checkpoint(folder: Path) -> bool:
    """Return True if a folder has weights, and a file that describes them."""
    descriptions = ("config.json", ADAPTER, COPIED[MANIFEST])
    has_weights = any(folder.glob("*.safetensors"))
    return has_weights and any((folder / name).is_file() for name in descriptions)


def _files_below(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name (with slashes) and path of each file below a folder, hidden ones excepted.

    Raises:
        UsageError: there is a link or a special file.
    """
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if any(part.startswith(".") and part != RESULTS_FOLDER for part in parts):
            continue
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise UsageError(
                f"path {path}",
                expected="only files and folders",
                found="a link" if path.is_symlink() else "a special file",
                fix="Put the file itself there.",
            )
        if path.is_file():
            yield "/".join(parts), path


def _without_paths(path: Path) -> Content:
    """Return a checkpoint's file, or for JSON with paths of this machine the cleaned content.

    All fields of harness's own records are cleaned; of other JSON, those of `PATH_FIELDS`.
    """
    record = COPIED[MANIFEST]
    ours = path.name in (record, checkpoint_config.FILE)

    def cleaned(value: object, *, has_path: bool) -> object:
        if isinstance(value, dict):
            return {
                key: cleaned(item, has_path=ours or PATH_FIELDS.fullmatch(key) is not None)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [cleaned(item, has_path=has_path) for item in value]
        return without_paths(value) if has_path and isinstance(value, str) else value

    if path.suffix != ".json":
        return path
    plain = read_json(path)
    clean = cleaned(plain, has_path=ours)
    if path.name == record and isinstance(clean, dict):
        clean["data_root"] = ""
    return path if clean == plain else json_bytes(clean)


def check_weights(paths: Iterable[Path]) -> None:
    """Raise ModelError if a file of weights is cut off."""
    for path in paths:
        if path.suffix == ".safetensors":
            check_safetensors(path)
