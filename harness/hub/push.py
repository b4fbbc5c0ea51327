"""Push a folder to the hub in one commit, so that nothing half-done looks whole."""

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
    """What a push has sent, and where it is."""

    repository: Repository
    commit: str
    files: int
    what: str
    """In words: `checkpoint`, `3 runs`, `data set`."""


def push(path: Path, name: str, *, public: bool, replace: bool, quiet: bool) -> Pushed:
    """Upload a folder in one commit, and compare what the hub then lists with it.

    Args:
        path: a checkpoint or its training, finished runs, or a data set.
        name: `ORG/NAME` or `datasets/ORG/NAME`.
        public: a new repository is public, and an existing public one is accepted.
        replace: the repository may hold files, which this folder replaces.
        quiet: no progress.
    """
    refuse_offline(f"harness hub push {path}")
    with contents_of(path) as (kind, what, files):
        asked = Repository.parse(name)
        repository = Repository(kind, asked.id)
        if asked.kind == "dataset" and kind == "model":
            raise UsageError(
                f"repository {asked}",
                expected=f"a model's, ORG/NAME, for {what}",
                found="datasets/",
            )
        refuse_names(list(files), f"folder {path}")
        api = connect(quiet=quiet)
        message = f"harness {__version__}: {what}"
        commit = _commit(api, repository, files, message, public=public, replace=replace)
    return Pushed(repository, commit, len(files), what)


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
        parent = commit_id(info.sha)
        return bool(info.private), parent, {file.path for file in listing(api, repository, parent)}

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
        return commit_id(done.oid)

    pushed = call_hub(str(repository), "main", commit)
    listed = {file.path: file for file in listing(api, repository, pushed)}
    differing = [
        name
        for name in sorted(listed.keys() | files.keys())
        if name not in listed or name not in files or not is_same(files[name], listed[name])
    ]
    if differing:
        raise DataError(
            f"repository {repository}, commit {pushed}",
            expected="the files that were sent",
            found=f"{differing[0]} missing or different, of {len(differing)}",
            fix="A .gitignore in the repository leaves files out. Push again with --replace.",
        )
    return pushed
