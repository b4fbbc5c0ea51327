"""`harness hub push`: upload a folder to the hub in one commit, so that nobody sees a part of it.

`hub.contents` decides which files are sent; afterwards the hub's list is compared with them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import DataError, UsageError
from harness.hub.access import call_hub, connect, refuse_offline
from harness.hub.contents import contents_of
from harness.hub.repository import (
    Content,
    Repository,
    commit_id,
    is_same,
    listing,
    refuse_names,
)
from harness.version import __version__

if TYPE_CHECKING:
    from huggingface_hub import HfApi


@dataclass(frozen=True, slots=True)
class Pushed:
    """The result of a push."""

    repository: Repository
    commit: str
    files: int
    """Number of files."""
    what: str
    """The content in words: `checkpoint`, `3 runs`, `data set`."""


def push(path: Path, name: str, *, public: bool, replace: bool, quiet: bool) -> Pushed:
    """Upload a folder in one commit, and compare the hub's list of that commit with it.

    Args:
        path: A checkpoint or its training, finished runs, or a data set.
        name: `ORG/NAME` or `datasets/ORG/NAME`.
        public: Create a new repository as public, and accept an existing public one.
        replace: Replace the files that the repository holds.
        quiet: Show no progress.

    Raises:
        UsageError: there is no token, or the folder or the repository is refused.
        DataError: the hub refuses, does not answer, or lists other files afterwards.
    """
    refuse_offline(f"harness hub push {path}")
    with contents_of(path) as (repository_kind, what, files):
        requested = Repository.parse(name)
        repository = Repository(repository_kind, requested.id)
        if requested.kind == "dataset" and repository_kind == "model":
            raise UsageError(
                f"repository {requested}",
                expected=f"a model's, ORG/NAME, for {what}",
                found="datasets/",
            )
        refuse_names(list(files), f"folder {path}")
        api = connect(quiet=quiet)
        message = f"harness {__version__}: {what}"
        commit = _commit_files(api, repository, files, message, public=public, replace=replace)
    return Pushed(repository, commit, len(files), what)


def _commit_files(
    api: "HfApi",
    repository: Repository,
    files: Mapping[str, Content],
    message: str,
    *,
    public: bool,
    replace: bool,
) -> str:
    """Commit files to a repository, which is created if needed; return the commit's id.

    Raises:
        UsageError: there is no token, the repository is public without `public`, or it holds files
            without `replace`.
        DataError: the hub refuses, or lists other files afterwards.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete
    from huggingface_hub.errors import RepositoryNotFoundError

    if not api.token:
        raise UsageError(
            "harness hub push",
            expected="HF_TOKEN in the environment, a token that may write",
            found="none",
        )

    def state() -> tuple[bool, str, set[str]]:  # is private, last commit, names of files
        info = api.repo_info(repository.id, repo_type=repository.kind)
        parent = commit_id(info.sha)
        return bool(info.private), parent, {file.path for file in listing(api, repository, parent)}

    def state_or_create() -> tuple[bool, str, set[str]]:
        try:
            return state()
        except RepositoryNotFoundError:
            api.create_repo(repository.id, repo_type=repository.kind, private=not public)
            return state()

    private, parent, existing = call_hub(str(repository), "main", state_or_create)
    if not private and not public:
        raise UsageError(
            f"repository {repository}",
            expected="a private repository",
            found="a public repository",
            fix="Pass --public to publish.",
        )
    if existing and not replace:
        raise UsageError(
            f"repository {repository}",
            expected="an empty one",
            found=f"{len(existing)} file(s), such as {min(existing)}",
            fix="Pass --replace to have this folder in their place.",
        )
    operations: list[CommitOperationAdd | CommitOperationDelete] = [
        *(CommitOperationDelete(name) for name in sorted(existing - files.keys())),
        *(
            CommitOperationAdd(name, content if isinstance(content, bytes) else str(content))
            for name, content in files.items()
        ),
    ]

    def create_commit() -> str:
        info = api.create_commit(
            repository.id,
            operations,
            commit_message=message,
            repo_type=repository.kind,
            parent_commit=parent,
        )
        return commit_id(info.oid)

    pushed = call_hub(str(repository), "main", create_commit)
    _check_listing(api, repository, pushed, files)
    return pushed


def _check_listing(
    api: "HfApi", repository: Repository, commit: str, files: Mapping[str, Content]
) -> None:
    """Raise DataError if the hub's list of a commit differs from the files that were sent."""
    file_of_path = {file.path: file for file in listing(api, repository, commit)}
    differing = [
        name
        for name in sorted(file_of_path.keys() | files.keys())
        if name not in file_of_path
        or name not in files
        or not is_same(files[name], file_of_path[name])
    ]
    if differing:
        raise DataError(
            f"repository {repository}, commit {commit}",
            expected="the files that were sent",
            found=f"{differing[0]} missing or different, of {len(differing)}",
            fix="A .gitignore in the repository leaves files out. Push again with --replace.",
        )
