"""Stand-ins: checkpoints of tiny random networks under published names, in the hub's cache layout.

With `HF_HUB_CACHE` set to that cache and `HF_HUB_OFFLINE=1`, every loader of this package finds
them by name and loads them like the published ones: they have the same classes, processor, special
tokens, chat template and files. `standins.toml` has the facts of each name.
"""

import hashlib
import json
import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.provenance import installed_version

COMMIT_HASH = re.compile("[0-9a-f]{40}")
VERSIONED_PACKAGES = ("torch", "transformers", "tokenizers", "sam2")
"""Packages whose release may change a stand-in. SAM 2's distribution has another name than its
module (`SAM-2`), so that its release is not known."""


def names() -> tuple[str, ...]:
    """Return the published names that have a stand-in."""
    return tuple(sorted(_table()["names"]))


def served() -> tuple[str, ...]:
    """Return the names of models that a rehearsed server answers for: the hub's and vendors'."""
    return (*names(), *_table()["served"])


def refusals() -> Mapping[str, str]:
    """Return the reason why a published name can have no stand-in, by name."""
    reasons: Mapping[str, str] = _table()["refused"]
    return reasons


def make(name: str, revision: str | None, cache: Path, *, seed: int = 0) -> Path:
    """Put the stand-in of a published checkpoint into a cache; return its snapshot's folder.

    It is made anew only for another name, other facts, another seed or other releases of packages.

    Args:
        name: Name on the hub, such as `Qwen/Qwen2.5-VL-7B-Instruct`.
        revision: Branch, tag or commit that the caller will ask for; None: `main`.
        cache: Folder for `HF_HUB_CACHE`; it is created.
        seed: Seed of the weights; torch's generator is left as it was.

    Raises:
        UsageError: there is no stand-in of this name.
        ImportError: transformers is not installed, or has no such class yet.
    """
    facts = facts_of(name)
    commit = _digest({"name": name, "facts": facts, "seed": seed, "made with": _versions()})
    home = cache / f"models--{name.replace('/', '--')}"
    folder = home / "snapshots" / commit
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(dir=home, prefix=".making-"))
        try:
            _write(partial, facts, seed)
            partial.chmod(0o755)
            _move(partial, folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    _refer(home / "refs" / "main", commit)
    if revision is not None and COMMIT_HASH.fullmatch(revision):
        return _as_commit(folder, revision)
    if revision is not None:
        _refer(home / "refs" / revision, commit)
    return folder


def facts_of(name: str) -> dict[str, Any]:
    """Return the facts of a published name: its family's table with the name's own changes.

    Raises:
        UsageError: there is no stand-in of this name.
    """
    table = _table()
    if name not in table["names"]:
        reason = refusals().get(name)
        raise UsageError(
            f"stand-in of {name}",
            expected="a name in harness/rehearsal/standins.toml",
            found=reason or "none there",
            fix="" if reason else "Add it, with its family and the source of its facts.",
        )
    own = dict(table["names"][name])
    family = table["families"][own.pop("family")]
    facts: dict[str, Any] = deepcopy(dict(family))
    if "tokenizer_of" in facts:
        facts["tokenizer"] = deepcopy(table["families"][facts.pop("tokenizer_of")]["tokenizer"])
    _merge(facts["files"], own.pop("changes", {}))
    return facts | own


@cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads(files(__package__).joinpath("standins.toml").read_text("utf-8"))


def _merge(table: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Put changes into a table of tables, in place."""
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(table.get(key), dict):
            _merge(table[key], value)
        else:
            table[key] = value


def _write(folder: Path, facts: Mapping[str, Any], seed: int) -> None:
    from harness.rehearsal import networks

    networks.write(folder, facts, seed=seed)


@cache
def _versions() -> dict[str, str]:
    """Return releases, and a hash of the modules and templates that a stand-in is made with."""
    version_hash = hashlib.blake2b(digest_size=8)
    package = files(__package__)
    for part in ("networks.py", "vocabulary.py"):
        version_hash.update(package.joinpath(part).read_bytes())
    for template in sorted(package.joinpath("templates").iterdir(), key=lambda file: file.name):
        version_hash.update(template.name.encode() + template.read_bytes())
    return {
        "modules": version_hash.hexdigest(),
        **{
            name: installed_version(name) or "unknown"
            for name in VERSIONED_PACKAGES
            if find_spec(name)
        },
    }


def _digest(value: object) -> str:
    """Return forty hexadecimal digits, as a commit has."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


def _move(partial: Path, folder: Path) -> None:
    """Rename a finished folder, unless another process has made it meanwhile."""
    try:
        partial.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise


def _as_commit(folder: Path, commit: str) -> Path:
    """Copy a snapshot to the folder of another commit, where a loader will look for it."""
    copy = folder.with_name(commit)
    if not copy.exists():
        partial = folder.parent.parent / f".commit-{os.getpid()}"
        shutil.copytree(folder, partial)
        _move(partial, copy)
        shutil.rmtree(partial, ignore_errors=True)
    return copy


def _refer(reference: Path, commit: str) -> None:
    """Write the file of a branch or tag, which has its commit."""
    if reference.is_file() and reference.read_text("ascii") == commit:
        return
    reference.parent.mkdir(parents=True, exist_ok=True)
    partial = reference.with_name(f".{reference.name}-{os.getpid()}")
    partial.write_text(commit, "ascii")
    partial.replace(reference)
