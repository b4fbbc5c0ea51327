"""`harness data fetch`: a benchmark's files from the Hugging Face hub, at a commit that is kept."""

import json
import os
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import plugins
from harness.card import Card
from harness.cli.ask import needed
from harness.cli.output import show_json
from harness.errors import DataError, StoreError, UsageError
from harness.store.atomic import read_json, write_json

RECORD = "hub.json"
"""Beside a benchmark's files: from which repository and commit they are."""


@dataclass(frozen=True, slots=True)
class Source:
    """A repository of the hub, and the folder that its files go to."""

    repository: str
    folder: Path
    revision: str
    files: tuple[str, ...] | None


def fetch(arguments: Namespace) -> int:
    """Fetch what a task's card names; print commits and what is left to do by hand."""
    root = needed(arguments.data, "--data", "the folder that holds one folder a benchmark")
    card = _card(arguments.task)
    sources = _sources(card, root / card.name, arguments.revision)
    kept = root / card.name / RECORD
    _refuse_another(kept, arguments.revision)
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        raise UsageError(
            f"harness data fetch {card.name}", expected="a network",
            found="HF_HUB_OFFLINE in the environment",
            fix=f"What is needed: {', '.join(one.repository for one in sources)}. {card.data}",
        )  # fmt: skip
    quiet = arguments.json or arguments.quiet
    done = [_fetched(source, _pinned(kept, source), quiet=quiet) for source in sources]
    write_json(kept, {"version": 1, "repositories": done})
    if arguments.json:
        show_json({"task": card.name, "root": str(root), "repositories": done})
        return 0
    for one in done:
        print(f"{one['repository']}: commit {one['commit']}, {one['files']} file(s) → {root}")
    print(f"What is left to do by hand: {card.data}")
    print(f"Then: harness data check {card.name} --data {root}")
    return 0


def _card(name: str) -> Card:
    entry = plugins.installed("tasks").get(name)
    if entry is None:
        plugins.load("tasks", name)  # raises, and says which names are near
        raise UsageError(f"task {name!r}", expected="an installed one", found="none")
    place = plugins.folder(entry)
    if place is None or not (place / "card.toml").is_file():
        raise UsageError(f"task {name!r}", expected="a card.toml beside it", found="none")
    return Card.read(place / "card.toml")


def _sources(card: Card, folder: Path, revision: str | None) -> list[Source]:
    """The repositories that a card names."""
    hub: Mapping[str, Any] = card.hub or {}
    named: dict[str, str] = dict(hub.get("repositories", {}))
    if "repository" in hub:
        named["."] = hub["repository"]
    if not named:
        raise UsageError(f"harness data fetch {card.name}", expected="a task whose data is on the "
                         "Hugging Face hub", found="another way", fix=card.data)  # fmt: skip
    files = hub.get("files")
    return [
        Source(name, folder / place, revision or hub.get("revision", "main"),
               None if files is None else tuple(files))
        for place, name in sorted(named.items())
    ]  # fmt: skip


def _refuse_another(kept: Path, revision: str | None) -> None:
    """Raise StoreError if other files lie there already: two revisions would be mixed."""
    if revision is None or not kept.is_file():
        return
    for one in read_json(kept)["repositories"]:
        if revision not in (one["revision"], one["commit"]):
            raise StoreError(
                f"folder {kept.parent}", expected=f"files of revision {revision}",
                found=f"those of {one['commit']}",
                fix="Choose another --data, or remove the folder.",
            )  # fmt: skip


def _pinned(kept: Path, source: Source) -> str | None:
    """The commit that was fetched before, so that a second call completes the first."""
    if not kept.is_file():
        return None
    for one in read_json(kept)["repositories"]:
        if one["repository"] == source.repository:
            return str(one["commit"])
    return None


def _fetched(source: Source, pinned: str | None, *, quiet: bool) -> dict[str, Any]:
    # Both are read when it is imported.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    if quiet:
        os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    import huggingface_hub as hub

    # Never a token that lies on the disk: what a run may see is said by whoever starts it.
    token = os.environ.get("HF_TOKEN") or False
    asked = pinned or source.revision

    def info() -> Any:
        return hub.HfApi(token=token).dataset_info(source.repository, revision=asked)

    commit = _asked(source, info).sha

    def download() -> Any:
        return hub.snapshot_download(
            source.repository, repo_type="dataset", revision=commit, token=token,
            local_dir=source.folder, allow_patterns=list(source.files) if source.files else None,
        )  # fmt: skip

    _asked(source, download)
    files = [path for path in source.folder.rglob("*") if path.is_file() and path.name != RECORD
             and ".cache" not in path.relative_to(source.folder).parts]  # fmt: skip
    return {"repository": source.repository, "revision": source.revision, "commit": commit,
            "files": len(files)}  # fmt: skip


def _asked(source: Source, call: Callable[[], Any]) -> Any:
    """What the hub says; a DataError in its words if it says no."""
    from huggingface_hub import errors

    try:
        return call()
    except errors.GatedRepoError as error:
        raise DataError(
            f"repository {source.repository}", expected="access to it", found="a gate",
            fix=f"Accept its terms at https://huggingface.co/datasets/{source.repository} and set "
            "HF_TOKEN in the environment.",
        ) from error  # fmt: skip
    except errors.RepositoryNotFoundError as error:
        raise DataError(f"repository {source.repository}", expected="a dataset of this name on the "
                        "hub", found="none (or a private one, for which HF_TOKEN is needed)",
                        ) from error  # fmt: skip
    except errors.RevisionNotFoundError as error:
        raise DataError(f"repository {source.repository}", expected="the revision "
                        f"{source.revision}", found="none of this name") from error  # fmt: skip
    except (errors.HfHubHTTPError, getattr(errors, "HTTPError", OSError), OSError) as error:
        found = str(error).strip().split("\n")[0] or type(error).__name__
        raise DataError(
            f"repository {source.repository}", expected="the hub at "
            f"{os.environ.get('HF_ENDPOINT', 'https://huggingface.co')}", found=found[:200],
            fix="The same command goes on where this one stopped.",
        ) from error  # fmt: skip


def recorded(folder: Path) -> list[dict[str, Any]]:
    """The repositories and commits that a benchmark's files were fetched from, if they were."""
    path = folder / RECORD
    if not path.is_file():
        return []
    try:
        return list(json.loads(path.read_text("utf-8"))["repositories"])
    except (OSError, ValueError, KeyError, TypeError):
        return []
