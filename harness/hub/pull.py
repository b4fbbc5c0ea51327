"""Pull a repository of the hub into a new folder, which gets its name once every hash is right."""

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
    """What a pull has downloaded."""

    repository: Repository
    commit: str
    files: int
    bytes: int


def pull(name: str, folder: Path, *, revision: str, max_gb: float, quiet: bool) -> Pulled:
    """Download a repository into a new folder, and check every file before it gets its name.

    Args:
        name: `ORG/NAME` or `datasets/ORG/NAME`.
        folder: a new or empty folder.
        revision: a branch, tag or commit.
        max_gb: size in gigabytes above which nothing is downloaded.
        quiet: no progress.
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
    listed = listing(api, repository, commit)
    refuse_names([file.path for file in listed], f"repository {repository}")
    size = sum(file.size for file in listed)
    if size > max_gb * 1e9:
        raise UsageError(
            f"repository {repository}",
            expected=f"at most {max_gb} GB (--max-gb)",
            found=f"{size / 1e9:.1f} GB",
        )
    with writing(out):
        _fill(api, repository, commit, listed, out)
    return Pulled(repository, commit, len(listed), size)


def _fill(
    api: "HfApi", repository: Repository, commit: str, listed: Sequence["RepoFile"], out: Path
) -> None:
    """Download files into a folder beside `out`, check them, and give the folder its name.

    What an earlier attempt at the same commit downloaded is not asked for again.
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
        for file in listed:
            _refuse_other_content(partial / file.path, file, repository)
        shutil.rmtree(partial / ".cache", ignore_errors=True)
        _verify(partial)
    (partial / ".lock").unlink(missing_ok=True)
    for path in (*partial.rglob("*"), partial):
        sync(path)
    partial.rename(out)
    sync(out.parent)


def _refuse_other_content(path: Path, file: "RepoFile", repository: Repository) -> None:
    """Remove a file that is not what the hub listed, and raise DataError."""
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
    """Raise an error of harness if runs or weights in a folder are not what they say of themselves.

    Nothing is loaded: chains and checksums of runs are computed, headers of weights read.
    """
    for path in sorted(folder.rglob(PUBLICATION)):
        check_chain(path.parent)
    for run in runs_below(folder):
        Run.open(run).check_files()
    check_weights(sorted(folder.rglob("*")))
