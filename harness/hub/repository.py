"""A repository of the hub: its name, the files of a commit, and the names that are allowed."""

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
from harness.models.backends import checkpoint

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
REPOSITORY = re.compile(r"(datasets/)?(?!datasets/)(\w[\w.-]{0,95}/\w[\w.-]{0,95})", re.ASCII)


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


def commit_id(text: object) -> str:
    """Return the name of a commit, which becomes part of a folder's name; raise ValueError."""
    if not isinstance(text, str) or not re.fullmatch("[0-9a-f]{40}", text):
        raise ValueError(f"no commit: {str(text)[:40]!r}")
    return text


def listing(api: "HfApi", repository: Repository, commit: str) -> list["RepoFile"]:
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


def refuse_names(names: Sequence[str], where: str) -> None:
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


def is_same(content: Content, listed: "RepoFile") -> bool:
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
