"""`harness data fetch`: a benchmark's files from the Hugging Face hub, at a recorded commit.

Benchmarks that share a folder (`refer_seg`, `rvtbench`) share its `RECORD_FILE`, which has an entry
for each repository. The commit is recorded before the first file is downloaded, so that an
interrupted download is completed from the same commit even if the branch has moved.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import plugins
from harness.card import Card
from harness.errors import StoreError, UsageError
from harness.hub.access import call_hub, connect, refuse_offline
from harness.store.atomic import read_json, write_json, writing

if TYPE_CHECKING:
    from huggingface_hub import DatasetInfo

RECORD_FILE = "hub.json"
"""File beside a benchmark's files that names their repositories and commits."""


@dataclass(frozen=True, slots=True)
class HubSource:
    """A repository of the hub, and the folder that its files go to."""

    repository: str
    """ORG/NAME of a data set."""
    subfolder: str
    """Folder of its files below the benchmark's folder; `.`: that folder itself."""
    folder: Path
    """Path of that folder."""
    revision: str
    """The requested commit or branch."""
    files: tuple[str, ...] | None
    """Patterns of the names of files to download; None: all."""


def fetch(
    card: Card,
    root: Path,
    *,
    only: Sequence[str] | None,
    revision: str | None,
    quiet: bool,
    tell: Callable[[str], None],
) -> list[dict[str, object]]:
    """Fetch the files that a task's card names; return the record of each repository.

    Args:
        card: The task's card.
        root: The data root.
        only: Subfolders of the repositories to fetch, if the card names several; None: all.
        revision: A commit or branch; None: the one that was fetched before, or else the card's.
        quiet: Show no progress.
        tell: Is called with notes for the user.

    Raises:
        UsageError: the card names no repository or not those of `only`, or the network is off.
        StoreError: another revision was fetched before, or the record is damaged.
        DataError: the hub refuses or does not answer.
    """
    folder = root / card.folder
    sources = _sources(card, folder, only, revision)
    records = _read_record(folder)
    _refuse_another(folder, records, sources, revision, tell)
    needed = ", ".join(source.repository for source in sources)
    refuse_offline(f"harness data fetch {card.name}", f"What is needed: {needed}. {card.data}")
    return [
        _download(source, folder, records.get(source.repository), quiet=quiet) for source in sources
    ]


def card_of(name: str) -> Card:
    """Return the card of an installed task; raise UsageError if there is none."""
    if name not in plugins.installed_plugins("tasks"):
        plugins.load("tasks", name)  # raises, and says which names are near
    card = plugins.find_card(name)
    if card is None:
        raise UsageError(f"task {name!r}", expected="a card.toml beside it", found="none")
    return card


def repositories(card: Card) -> dict[str, str]:
    """Return the repositories that a card names, by their subfolders of the benchmark's folder."""
    hub: Mapping[str, Any] = card.hub or {}
    single = {".": hub["repository"]} if "repository" in hub else {}
    return {**single, **hub.get("repositories", {})}


def _sources(
    card: Card, folder: Path, only: Sequence[str] | None, revision: str | None
) -> list[HubSource]:
    """Return the repositories to fetch: all that the card names, or those of `only`."""
    of_subfolder = repositories(card)
    if not of_subfolder:
        raise UsageError(
            f"harness data fetch {card.name}",
            expected="a task whose data is on the Hugging Face hub",
            found="a task whose data is elsewhere",
            fix=card.data,
        )
    chosen = only or list(of_subfolder)
    for name in chosen:
        if name not in of_subfolder:
            raise UsageError(
                f"--only {name}",
                expected=f"of {card.name}: {', '.join(of_subfolder)}",
                found="another name",
            )
    hub: Mapping[str, Any] = card.hub or {}
    revision = revision or hub.get("revision", "main")
    files = None if hub.get("files") is None else tuple(hub["files"])
    names = sorted(set(chosen))
    return [HubSource(of_subfolder[name], name, folder / name, revision, files) for name in names]


def _read_record(folder: Path) -> dict[str, dict[str, object]]:
    """Return the entries of a folder's record by repository; raise StoreError if it is damaged."""
    path = folder / RECORD_FILE
    if not path.is_file():
        return {}
    plain = read_json(path)
    entries = plain.get("repositories") if isinstance(plain, dict) else None
    if not isinstance(entries, list) or not all(map(_is_record, entries)):
        raise StoreError(
            f"file {path}", expected="a record of `harness data fetch`", found="something else"
        )
    return {entry["repository"]: entry for entry in entries}


def _is_record(record: object) -> bool:
    keys = ("repository", "revision", "commit")
    return isinstance(record, dict) and all(isinstance(record.get(key), str) for key in keys)


def _refuse_another(
    folder: Path,
    records: Mapping[str, Mapping[str, object]],
    sources: Sequence[HubSource],
    revision: str | None,
    tell: Callable[[str], None],
) -> None:
    """Raise StoreError if `revision` is not the one fetched before: a folder would mix both.

    If `revision` is None and the card names another one, the user is told that the old one stays.
    """
    for source in sources:
        before = records.get(source.repository)
        if before is None or source.revision in (before["revision"], before["commit"]):
            continue
        if revision is not None:
            raise StoreError(
                f"folder {source.folder}",
                expected=f"files of revision {revision}",
                found=f"those of {before['commit']}, fetched as {before['revision']}",
                fix="Choose another --data, or remove the folder and its entry in "
                f"{folder / RECORD_FILE}.",
            )
        tell(
            f"{source.repository} stays at {before['commit']}, which was fetched as "
            f"{before['revision']}; the card now names {source.revision}, for another --data"
        )


def _download(
    source: HubSource, folder: Path, before: Mapping[str, object] | None, *, quiet: bool
) -> dict[str, object]:
    """Download one repository, and return its entry, which is also written into the record.

    The entry is written before the download (see the module), and again with the number of files.
    `before` is the entry of an earlier fetch, whose commit is downloaded again.
    """
    api = connect(quiet=quiet)
    commit = source.revision if before is None else str(before["commit"])
    patterns = list(source.files) if source.files else None

    def info() -> "DatasetInfo":
        return api.dataset_info(source.repository, revision=commit)

    dataset = call_hub(f"datasets/{source.repository}", commit, info)
    record = {
        "repository": source.repository,
        "revision": source.revision if before is None else before["revision"],
        "commit": dataset.sha,
        "folder": source.subfolder,
        "files": None,
    }
    _write_entry(folder, record)

    def take_snapshot() -> object:
        return api.snapshot_download(
            source.repository,
            repo_type="dataset",
            revision=dataset.sha,
            local_dir=source.folder,
            allow_patterns=patterns,
        )

    with writing(source.folder):
        call_hub(f"datasets/{source.repository}", commit, take_snapshot)
    names = [file.rfilename for file in dataset.siblings or ()]
    if patterns is not None:
        names = [name for name in names if any(fnmatch(name, glob) for glob in patterns)]
    record["files"] = len([name for name in names if (source.folder / name).is_file()])
    _write_entry(folder, record)
    return record


def _write_entry(folder: Path, record: Mapping[str, object]) -> None:
    """Write one repository's entry into the folder's record, beside those of others."""
    entries = {**_read_record(folder), str(record["repository"]): dict(record)}
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / RECORD_FILE, {"version": 1, "repositories": [*entries.values()]})


def fetched_sources(root: Path, card: Card) -> list[dict[str, object]]:
    """Return the recorded entries of a card's repositories; [] if nothing was fetched."""
    names = set(repositories(card).values())
    with suppress(StoreError):
        return [
            record for name, record in _read_record(root / card.folder).items() if name in names
        ]
    return []
