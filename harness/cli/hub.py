"""`harness hub`: runs, checkpoints and data sets to the Hugging Face hub and back.

Nothing half-done looks whole: a push is one commit, and a pull fills a folder of another name that
gets its own once every file has the hash that the hub lists.
"""

import hashlib
import re
import shutil
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal, TypeAlias

from harness import checkpoint_config
from harness.cli.hub_access import call_hub, connect, refuse_offline
from harness.cli.output import tell
from harness.errors import DataError, StoreError, UsageError, counted
from harness.files import open_regular, temporary_prefix
from harness.leaderboards.publish import PUBLICATION, check_chain
from harness.leaderboards.publish import publish as publish_run
from harness.models.backends import checkpoint
from harness.record import Run, runs_below
from harness.run.checkpoint_provenance import training_record
from harness.run.contamination import COPIED, MANIFEST, Training
from harness.store.atomic import json_bytes, read_json, sync, writing
from harness.store.lease import lease
from harness.trainer import EVALUATIONS
from harness.version import __version__

if TYPE_CHECKING:
    from huggingface_hub import HfApi, RepoFile

Kind: TypeAlias = Literal["model", "dataset"]
Content: TypeAlias = Path | bytes

MAX_FILES = 10_000
"""Maximum number of files that are pushed or pulled."""
MAX_NAME = 255  # bytes of a part of a path, of most file systems
PICKLES = (*checkpoint.PICKLES, ".joblib", ".dill")
"""Endings of files that may run code when they are loaded."""
KEPT_BY_HUB = ".gitattributes"
RESULTS_FOLDER = ".eval_results"
REPOSITORY = re.compile(r"(datasets/)?(?!datasets/)(\w[\w.-]{0,95}/\w[\w.-]{0,95})", re.ASCII)
PATHS = re.compile(".*(path|file|dir|folder|root|checkpoint)")
"""Names of fields of JSON files beside weights that have paths; in others a slash is a token."""
WORKERS = 8  # files that are downloaded at once


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository of the hub."""

    kind: Kind
    id: str

    @classmethod
    def parse(cls, text: str) -> "Repository":
        """Read `ORG/NAME` of a model, or `datasets/ORG/NAME`."""
        named = REPOSITORY.fullmatch(text)
        if named is None or ".." in text:
            raise UsageError(
                f"repository {text}", expected="ORG/NAME or datasets/ORG/NAME", found="another name"
            )
        return cls("dataset" if named[1] else "model", named[2])

    def __str__(self) -> str:
        return f"datasets/{self.id}" if self.kind == "dataset" else self.id


def card(arguments: Namespace) -> int:
    """Write the card of a training's checkpoint, with the scores of runs."""
    from harness.cli.model_card import write_card

    training = Training.open(arguments.training)
    own = arguments.training / EVALUATIONS
    folders = arguments.runs or ([own] if own.is_dir() else [])
    print(write_card(training, [Run.open(run) for folder in folders for run in runs_below(folder)]))
    return 0


def push(arguments: Namespace) -> int:
    """Upload a folder in one commit, and compare what the hub then lists with it."""
    refuse_offline(f"harness hub push {arguments.path}")
    with _contents(arguments.path) as (kind, what, files):
        asked = Repository.parse(arguments.repository)
        repository = Repository(kind, asked.id)
        if asked.kind == "dataset" and kind == "model":
            raise UsageError(
                f"repository {asked}",
                expected=f"a model's, ORG/NAME, for {what}",
                found="datasets/",
            )
        _refuse_names(list(files), f"folder {arguments.path}")
        api = connect(quiet=arguments.quiet or arguments.json)
        flags = {"public": arguments.public, "replace": arguments.replace}
        commit = _commit(api, repository, files, f"harness {__version__}: {what}", **flags)
    tell(
        arguments,
        {"repository": str(repository), "commit": commit, "files": len(files), "what": what},
        f"{what}, {len(files)} file(s) → {repository}, commit {commit}",
        f"harness hub pull {repository} DIR --revision {commit}",
    )
    return 0


@contextmanager
def _contents(path: Path) -> Iterator[tuple[Kind, str, Mapping[str, Content]]]:
    """Yield the kind of repository, what is pushed in words, and its files by name.

    Runs are pushed as publications, without paths of this machine; checkpoints with such paths
    taken out of their JSON files.

    Raises:
        UsageError: the training is not finished, or the folder has more than its finished runs.
        ModelError: weights are cut off or missing.
    """
    if not path.is_dir():
        raise UsageError(f"path {path}", expected="a folder", found="none")
    folder = checkpoint.find(str(path.absolute()))
    if _is_checkpoint(folder):
        _refuse_unfinished(folder)
        files = dict(_files(folder))
        _check_weights(files.values())
        if (folder / checkpoint.INDEX).is_file():
            checkpoint.weights(folder)
        yield "model", "checkpoint", {name: _without_paths(file) for name, file in files.items()}
        return
    files = dict(_files(path))
    runs = runs_below(path)
    _refuse_rest(path, files, runs)
    if runs:
        with TemporaryDirectory(prefix=temporary_prefix("hub")) as place:
            published: dict[str, Content] = {}
            for run in runs:
                below = run.relative_to(path)
                name = (below if below.parts else Path(run.absolute().name)).as_posix()
                copy = run
                if (run / PUBLICATION).exists():
                    check_chain(run)
                else:
                    copy = Path(place, name)
                    publish_run(Run.open(run), copy)
                published |= {f"{name}/{file}": content for file, content in _files(copy)}
            yield "dataset", "run" if len(runs) == 1 else counted(len(runs), "run"), published
    else:
        _check_weights(files.values())
        yield "dataset", "data set", files


def _refuse_unfinished(folder: Path) -> None:
    """Raise UsageError if a checkpoint's training goes on, or broke off."""
    inside, around = folder / COPIED[MANIFEST], folder.resolve().parent / MANIFEST
    for path in (inside, *([around] if folder.name == checkpoint.TRAINED else [])):
        if "result" not in (training_record(path) or {"result": None}):
            raise UsageError(
                f"checkpoint {folder}",
                expected="that of a finished training",
                found=f"no result in {path}",
                fix="Run the same `harness train` again to finish it.",
            )


def _refuse_rest(folder: Path, files: Mapping[str, Path], runs: Sequence[Path]) -> None:
    """Raise UsageError for files beside runs, and for records of a run that is not finished."""
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
    except StoreError:  # of others, who may have files of these names
        return False
    return isinstance(plain, dict) and "config_hash" in plain


def _is_checkpoint(folder: Path) -> bool:
    described = ("config.json", checkpoint.ADAPTER, COPIED[MANIFEST])
    has_weights = any(folder.glob("*.safetensors"))
    return has_weights and any((folder / name).is_file() for name in described)


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files below a folder by name; hidden ones stay here, but for the hub's results."""
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
    """Return a file of a checkpoint, if it is JSON without paths of this machine."""
    from harness.cli.model_card import without_paths

    record = COPIED[MANIFEST]
    ours = path.name in (record, checkpoint_config.FILE)

    def cleaned(value: object, *, has_path: bool) -> object:
        if isinstance(value, dict):
            return {
                key: cleaned(item, has_path=ours or PATHS.fullmatch(key) is not None)
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


def _commit(
    api: "HfApi",
    repository: Repository,
    files: Mapping[str, Content],
    message: str,
    *,
    public: bool,
    replace: bool,
) -> str:
    """Commit files to a repository, which is made if there is none; return the commit.

    Raises:
        UsageError: there is no token; others can read the repository, or it holds something.
        DataError: the hub refuses, or does not list what was sent.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete
    from huggingface_hub.errors import RepositoryNotFoundError

    if not api.token:
        raise UsageError(
            "harness hub push",
            expected="HF_TOKEN in the environment, a token that may write",
            found="none",
        )

    def state() -> tuple[bool, str, set[str]]:
        info = api.repo_info(repository.id, repo_type=repository.kind)
        commit = _commit_id(info.sha)
        return bool(info.private), commit, {file.path for file in _listing(api, repository, commit)}

    def found_or_made() -> tuple[bool, str, set[str]]:
        try:
            return state()
        except RepositoryNotFoundError:
            api.create_repo(repository.id, repo_type=repository.kind, private=not public)
            return state()

    private, parent, there = call_hub(str(repository), "main", found_or_made)
    if not private and not public:
        raise UsageError(
            f"repository {repository}",
            expected="a private repository",
            found="a public repository",
            fix="Pass --public to publish.",
        )
    if there and not replace:
        raise UsageError(
            f"repository {repository}",
            expected="an empty one",
            found=f"{len(there)} file(s), such as {min(there)}",
            fix="Pass --replace to have this folder in their place.",
        )
    operations: list[CommitOperationAdd | CommitOperationDelete] = [
        *(CommitOperationDelete(name) for name in sorted(there - files.keys())),
        *(
            CommitOperationAdd(name, content if isinstance(content, bytes) else str(content))
            for name, content in files.items()
        ),
    ]

    def commit() -> str:
        done = api.create_commit(
            repository.id,
            operations,
            commit_message=message,
            repo_type=repository.kind,
            parent_commit=parent,
        )
        return _commit_id(done.oid)

    commit_id = call_hub(str(repository), "main", commit)
    listed = {file.path: file for file in _listing(api, repository, commit_id)}
    differing = [
        name
        for name in sorted(listed.keys() | files.keys())
        if name not in listed or name not in files or not _is_same(files[name], listed[name])
    ]
    if differing:
        raise DataError(
            f"repository {repository}, commit {commit_id}",
            expected="the files that were sent",
            found=f"{differing[0]} missing or different, of {len(differing)}",
            fix="A .gitignore in the repository leaves files out. Push again with --replace.",
        )
    return commit_id


def pull(arguments: Namespace) -> int:
    """Download a repository into a new folder, and check every file before it gets its name."""
    refuse_offline(f"harness hub pull {arguments.repository}")
    repository, out = Repository.parse(arguments.repository), arguments.out.absolute()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"folder {arguments.out}", expected="a new or empty one", found="another")
    api = connect(quiet=arguments.quiet or arguments.json)

    def resolve() -> str:
        info = api.repo_info(repository.id, repo_type=repository.kind, revision=arguments.revision)
        return _commit_id(info.sha)

    commit = call_hub(str(repository), arguments.revision, resolve)
    listed = _listing(api, repository, commit)
    _refuse_names([file.path for file in listed], f"repository {repository}")
    size = sum(file.size for file in listed)
    if size > arguments.max_gb * 1e9:
        raise UsageError(
            f"repository {repository}",
            expected=f"at most {arguments.max_gb} GB (--max-gb)",
            found=f"{size / 1e9:.1f} GB",
        )
    with writing(out):
        _fill(api, repository, commit, listed, out)
    plain = {"repository": str(repository), "commit": commit, "files": len(listed), "bytes": size}
    text = f"{repository}: commit {commit}, {len(listed)} file(s) → {arguments.out}"
    tell(arguments, {**plain, "folder": str(arguments.out)}, text)
    return 0


def _fill(
    api: "HfApi", repository: Repository, commit: str, listed: Sequence["RepoFile"], out: Path
) -> None:
    """Download files into a folder beside `out`, check them, and give the folder its name.

    What an earlier attempt at the same commit downloaded is kept if its hashes are right.
    """
    partial = out.with_name(f".{out.name}.{commit[:12]}.partial")
    partial.mkdir(parents=True, exist_ok=True)

    def download(file: "RepoFile") -> None:
        path = partial / file.path
        if path.is_file() and _is_same(path, file):
            return
        call_hub(
            str(repository),
            commit,
            lambda: api.hf_hub_download(
                repository.id,
                file.path,
                repo_type=repository.kind,
                revision=commit,
                local_dir=partial,
            ),
        )
        if not _is_same(path, file):
            path.unlink(missing_ok=True)
            raise DataError(
                f"file {file.path} of {repository}",
                expected=f"{file.size} bytes with the hash that the hub lists",
                found="other content",
                fix="Try again; if it stays so, what the hub holds is damaged.",
            )

    with lease(partial):
        pool = ThreadPoolExecutor(WORKERS)
        try:
            list(pool.map(download, listed))
        finally:
            pool.shutdown(cancel_futures=True)
        shutil.rmtree(partial / ".cache", ignore_errors=True)
        _verify(partial)
    (partial / ".lock").unlink(missing_ok=True)
    for path in (*partial.rglob("*"), partial):
        sync(path)
    partial.rename(out)
    sync(out.parent)


def _verify(folder: Path) -> None:
    """Raise an error of harness if runs or weights in a folder are not what they say of themselves.

    Nothing is loaded: chains and checksums of runs are computed, headers of weights read.
    """
    for path in sorted(folder.rglob(PUBLICATION)):
        check_chain(path.parent)
    for run in runs_below(folder):
        Run.open(run).check_files()
    _check_weights(sorted(folder.rglob("*")))


def _check_weights(paths: Iterable[Path]) -> None:
    """Raise ModelError if a file of weights is cut off."""
    for path in paths:
        if path.suffix == ".safetensors":
            checkpoint.check_safetensors(path)


def _commit_id(text: object) -> str:
    """Return the name of a commit, which becomes part of a folder's name; raise ValueError."""
    if not isinstance(text, str) or not re.fullmatch("[0-9a-f]{40}", text):
        raise ValueError(f"no commit: {str(text)[:40]!r}")
    return text


def _listing(api: "HfApi", repository: Repository, commit: str) -> list["RepoFile"]:
    """Return the files of a commit with sizes and hashes; at most one more than are allowed."""
    from huggingface_hub import RepoFile

    def listed() -> list[RepoFile]:
        tree = api.list_repo_tree(
            repository.id, recursive=True, revision=commit, repo_type=repository.kind
        )
        rows = (item for item in tree if isinstance(item, RepoFile) and item.path != KEPT_BY_HUB)
        files = list(islice(rows, MAX_FILES + 1))
        if not all(isinstance(file.path, str) and file.size >= 0 for file in files):
            raise ValueError("invalid names or sizes")
        return files

    return call_hub(str(repository), commit, listed)


def _refuse_names(names: Sequence[str], where: str) -> None:
    """Raise UsageError for too many names, and for one that leaves the folder or is a pickle's."""
    if not 0 < len(names) <= MAX_FILES:
        raise UsageError(
            where,
            expected=f"1 to {MAX_FILES} files",
            found="more" if names else "none",
            fix="Pack them into fewer, larger ones." if names else "",
        )
    folders = {str(parent) for name in names for parent in PurePosixPath(name).parents}
    for name in names:
        if not name.isprintable():
            raise UsageError(
                f"{where}, file {name!a}",
                expected="a name of printable characters",
                found=", ".join(f"{sign!a}" for sign in name if not sign.isprintable()),
            )
        if not _is_safe(name) or name in folders:
            raise UsageError(
                f"{where}, file {name!r}",
                expected="a name inside the folder",
                found="another place",
            )
        if not {suffix.lower() for suffix in PurePosixPath(name).suffixes}.isdisjoint(PICKLES):
            raise UsageError(
                f"{where}, file {name}",
                expected="no pickles, which can run code when loaded",
                found="a name of one",
                fix="Weights belong into safetensors.",
            )
    if len(set(names)) < len(names):
        raise UsageError(where, expected="each name once", found="a name twice")


def _is_safe(name: str) -> bool:
    parts = name.split("/")
    return parts[0].lower() not in (".cache", ".lock", "lease.json") and all(
        part not in ("", ".", "..")
        and part.lower() != ".git"
        and "\\" not in part
        and len(part.encode("utf-8", "replace")) <= MAX_NAME
        for part in parts
    )


def _is_same(content: Content, listed: "RepoFile") -> bool:
    """Return True if a content has the size and the hash that the hub lists.

    Those of large files are SHA-256, of others git's: SHA-1 over a header and the content.
    """
    size = len(content) if isinstance(content, bytes) else content.stat().st_size
    if size != listed.size:
        return False
    if listed.lfs is not None:
        whole, wanted = hashlib.sha256(), listed.lfs.sha256
    else:
        header = f"blob {size}\0".encode()
        whole, wanted = hashlib.sha1(header, usedforsecurity=False), listed.blob_id
    with BytesIO(content) if isinstance(content, bytes) else open_regular(content) as file:
        return hashlib.file_digest(file, lambda: whole).hexdigest() == wanted
