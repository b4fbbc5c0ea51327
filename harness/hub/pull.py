"""`harness hub pull`: download a repository of the hub into a new folder, and check every file.

Files go into a hidden folder beside the new one, which is renamed once every hash is right.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import DataError, UsageError
from harness.hub.access import call_hub, connect, refuse_offline
from harness.hub.contents import check_weights
from harness.hub.repository import (
    KEPT_BY_HUB,
    Repository,
    commit_id,
    is_same,
    listing,
    refuse_names,
)
from harness.leaderboards.publish import PUBLICATION, check_chain
from harness.record import Run, runs_below
from harness.store.atomic import sync, writing
from harness.store.lease import lease

if TYPE_CHECKING:
    from huggingface_hub import HfApi, RepoFile


@dataclass(frozen=True, slots=True)
class Pulled:
    """The result of a pull."""

    repository: Repository
    commit: str
    files: int
    """Number of files."""
    bytes: int
    """Size of all files together."""


def pull(name: str, folder: Path, *, revision: str, max_gb: float, quiet: bool) -> Pulled:
    """Download a repository into a new folder, which exists only once every file was checked.

    Args:
        name: `ORG/NAME` or `datasets/ORG/NAME`.
        folder: A new or empty folder.
        revision: A branch, tag or commit.
        max_gb: Size in gigabytes (10⁹ bytes) above which nothing is downloaded.
        quiet: Show no progress.

    Raises:
        UsageError: the folder is not empty, the repository too large, or a name not allowed.
        DataError: the hub refuses, does not answer, or a file is not what it listed.
    """
    refuse_offline(f"harness hub pull {name}")
    repository, out = Repository.parse(name), folder.absolute()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"folder {folder}", expected="a new or empty one", found="another")
    api = connect(quiet=quiet)

    def resolve() -> str:
        info = api.repo_info(repository.id, repo_type=repository.kind, revision=revision)
        return commit_id(info.sha)

    commit = call_hub(str(repository), revision, resolve)
    files = listing(api, repository, commit)
    refuse_names([file.path for file in files], f"repository {repository}")
    size = sum(file.size for file in files)
    if size > max_gb * 1e9:
        raise UsageError(
            f"repository {repository}",
            expected=f"at most {max_gb} GB (--max-gb)",
            found=f"{size / 1e9:.1f} GB",
        )
    with writing(out):
        _fill(api, repository, commit, files, out)
    return Pulled(repository, commit, len(files), size)


def _fill(
    api: "HfApi", repository: Repository, commit: str, files: Sequence["RepoFile"], out: Path
) -> None:
    """Download files into a folder beside `out`, check them, and rename the folder to `out`.

    An interrupted download of the same commit is continued.
    """
    partial = out.with_name(f".{out.name}.{commit[:12]}.partial")
    partial.mkdir(parents=True, exist_ok=True)

    def download() -> object:
        return api.snapshot_download(
            repository.id,
            repo_type=repository.kind,
            revision=commit,
            local_dir=partial,
            ignore_patterns=KEPT_BY_HUB,
        )

    with lease(partial):
        call_hub(str(repository), commit, download)
        for file in files:
            _refuse_other_content(partial / file.path, file, repository)
        shutil.rmtree(partial / ".cache", ignore_errors=True)
        _verify(partial)
    (partial / ".lock").unlink(missing_ok=True)
    for path in (*partial.rglob("*"), partial):
        sync(path)
    partial.rename(out)
    sync(out.parent)


def _refuse_other_content(path: Path, file: "RepoFile", repository: Repository) -> None:
    """Raise DataError for a file that differs from what the hub listed, and remove it."""
    if path.is_file() and is_same(path, file):
        return
    path.unlink(missing_ok=True)
    raise DataError(
        f"file {file.path} of {repository}",
        expected=f"{file.size} bytes with the hash that the hub lists",
        found="other content",
        fix="Try again; if it stays so, what the hub holds is damaged.",
    )


def _verify(folder: Path) -> None:
    """Raise HarnessError if a run fails its own checksums, or a file of weights is cut off.

    Of weights only the headers are read.
    """
    for path in sorted(folder.rglob(PUBLICATION)):
        check_chain(path.parent)
    for run in runs_below(folder):
        Run.open(run).check_files()
    check_weights(sorted(folder.rglob("*")))
