"""A repository of the hub: its name, the list of a commit's files, and checks of both.

`push` and `pull` use it. Both refuse files whose names could leave the folder, or that could run
code when they are loaded.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal, TypeAlias

from harness.errors import UsageError
from harness.files import open_regular
from harness.hub.access import call_hub
from harness.models.backends import weights

if TYPE_CHECKING:
    from huggingface_hub import HfApi, RepoFile

Kind: TypeAlias = Literal["model", "dataset"]
Content: TypeAlias = Path | bytes

MAX_FILES = 10_000
"""Maximum number of files that are pushed or pulled."""
MAX_NAME_BYTES = 255  # bytes of a part of a path: the limit of most file systems
PICKLES = (*weights.PICKLES, ".joblib", ".dill")
"""Suffixes of files that may run code when they are loaded."""
KEPT_BY_HUB = ".gitattributes"  # the hub writes it into each repository
REPOSITORY_NAME = re.compile(r"(datasets/)?(?!datasets/)(\w[\w.-]{0,95}/\w[\w.-]{0,95})", re.ASCII)
"""`ORG/NAME` or `datasets/ORG/NAME`, each part of at most 96 characters."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository of the hub."""

    kind: Kind
    id: str
    """`ORG/NAME`."""

    @classmethod
    def parse(cls, text: str) -> "Repository":
        """Parse `ORG/NAME` of a model, or `datasets/ORG/NAME`; raise UsageError for others."""
        match = REPOSITORY_NAME.fullmatch(text)
        if match is None or ".." in text:
            raise UsageError(
                f"repository {text}", expected="ORG/NAME or datasets/ORG/NAME", found="another name"
            )
        return cls("dataset" if match[1] else "model", match[2])

    def __str__(self) -> str:
        return f"datasets/{self.id}" if self.kind == "dataset" else self.id


def commit_id(text: object) -> str:
    """Return a commit's hash; raise ValueError for other texts, as it becomes part of a path."""
    if not isinstance(text, str) or not re.fullmatch("[0-9a-f]{40}", text):
        raise ValueError(f"no commit: {str(text)[:40]!r}")
    return text


def listing(api: "HfApi", repository: Repository, commit: str) -> list["RepoFile"]:
    """Return the files of a commit with sizes and hashes: all, or one more than `MAX_FILES`.

    Raises:
        DataError: the hub refuses, or its list has invalid names or sizes.
    """
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


def refuse_names(names: Sequence[str], where: str) -> None:
    """Raise UsageError for names of files that are not accepted; `where` starts the message.

    Refused are an empty list or one above `MAX_FILES`, a name twice, unprintable characters, a
    path that leaves the folder or is another file's folder, and suffixes of pickles.
    """
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
    """Return True if a path stays in its folder, and is not a file of git, the hub or a pull."""
    parts = name.split("/")
    return parts[0].lower() not in (".cache", ".lock", "lease.json") and all(
        part not in ("", ".", "..")
        and part.lower() != ".git"
        and "\\" not in part
        and len(part.encode("utf-8", "replace")) <= MAX_NAME_BYTES
        for part in parts
    )


def is_same(content: Content, listed: "RepoFile") -> bool:
    """Return True if a content has the size and the hash that the hub lists.

    The hash is SHA-256 for large files (LFS), else git's: SHA-1 of a header and the content.
    """
    size = len(content) if isinstance(content, bytes) else content.stat().st_size
    if size != listed.size:
        return False
    if listed.lfs is not None:
        digest, expected = hashlib.sha256(), listed.lfs.sha256
    else:
        header = f"blob {size}\0".encode()
        digest, expected = hashlib.sha1(header, usedforsecurity=False), listed.blob_id
    with BytesIO(content) if isinstance(content, bytes) else open_regular(content) as file:
        return hashlib.file_digest(file, lambda: digest).hexdigest() == expected
