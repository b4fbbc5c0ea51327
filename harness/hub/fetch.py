"""`harness data fetch`: a benchmark's files from the Hugging Face hub, at a recorded commit.

Benchmarks that share a folder (`refer_seg`, `rvtbench`) share its record, which has one entry a
repository. The commit is written down before the first file comes, so that a download that broke
off is completed by the same commit, whatever the branch has become.
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

RECORD = "hub.json"
"""File beside a benchmark's files that names their repositories and commits."""


@dataclass(frozen=True, slots=True)
class HubSource:
    """A repository of the hub, and the folder that its files go to."""

    repository: str
    place: str
    """Below the benchmark's folder."""
    folder: Path
    revision: str
    files: tuple[str, ...] | None


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
        card: the task's.
        root: the data root.
        only: folders of repositories, of several; None: all.
        revision: a commit or branch; None: the one that was fetched before, or else the card's.
        quiet: no progress.
        tell: is told what the user should know.
    """
    folder = root / card.folder
    sources = _sources(card, folder, only, revision)
    known = _read_record(folder)
    _refuse_another(folder, known, sources, revision, tell)
    needed = ", ".join(source.repository for source in sources)
    refuse_offline(f"harness data fetch {card.name}", f"What is needed: {needed}. {card.data}")
    return [
        _download(source, folder, known.get(source.repository), quiet=quiet) for source in sources
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
    """The repositories that a card names, by the folders that they go to."""
    hub: Mapping[str, Any] = card.hub or {}
    own = {".": hub["repository"]} if "repository" in hub else {}
    return {**own, **hub.get("repositories", {})}


def _sources(
    card: Card, folder: Path, only: Sequence[str] | None, revision: str | None
) -> list[HubSource]:
    """Return the repositories to fetch: all that the card names, or those of `only`."""
    named = repositories(card)
    if not named:
        raise UsageError(
            f"harness data fetch {card.name}",
            expected="a task whose data is on the Hugging Face hub",
            found="a task whose data is elsewhere",
            fix=card.data,
        )
    chosen = only or list(named)
    for place in chosen:
        if place not in named:
            raise UsageError(
                f"--only {place}",
                expected=f"of {card.name}: {', '.join(named)}",
                found="another name",
            )
    hub: Mapping[str, Any] = card.hub or {}
    revision = revision or hub.get("revision", "main")
    files = None if hub.get("files") is None else tuple(hub["files"])
    places = sorted(set(chosen))
    return [HubSource(named[place], place, folder / place, revision, files) for place in places]


def _read_record(folder: Path) -> dict[str, dict[str, object]]:
    """Read the folder's record, by repository."""
    path = folder / RECORD
    if not path.is_file():
        return {}
    plain = read_json(path)
    listed = plain.get("repositories") if isinstance(plain, dict) else None
    if not isinstance(listed, list) or not all(map(_is_record, listed)):
        raise StoreError(
            f"file {path}", expected="a record of `harness data fetch`", found="something else"
        )
    return {record["repository"]: record for record in listed}


def _is_record(record: object) -> bool:
    keys = ("repository", "revision", "commit")
    return isinstance(record, dict) and all(isinstance(record.get(key), str) for key in keys)


def _refuse_another(
    folder: Path,
    known: Mapping[str, Mapping[str, object]],
    sources: Sequence[HubSource],
    revision: str | None,
    tell: Callable[[str], None],
) -> None:
    """Raise StoreError if other files lie there already: two revisions would be mixed.

    If the card names another revision than the fetched one, that is told and not followed.
    """
    for source in sources:
        before = known.get(source.repository)
        if before is None or source.revision in (before["revision"], before["commit"]):
            continue
        if revision is not None:
            raise StoreError(
                f"folder {source.folder}",
                expected=f"files of revision {revision}",
                found=f"those of {before['commit']}, fetched as {before['revision']}",
                fix="Choose another --data, or remove the folder and its entry in "
                f"{folder / RECORD}.",
            )
        tell(
            f"{source.repository} stays at {before['commit']}, which was fetched as "
            f"{before['revision']}; the card now names {source.revision}, for another --data"
        )


def _download(
    source: HubSource, folder: Path, known: Mapping[str, object] | None, *, quiet: bool
) -> dict[str, object]:
    """Download one repository, and add it to the folder's record."""
    api = connect(quiet=quiet)
    commit = source.revision if known is None else str(known["commit"])
    patterns = list(source.files) if source.files else None

    def info() -> "DatasetInfo":
        return api.dataset_info(source.repository, revision=commit)

    dataset = call_hub(f"datasets/{source.repository}", commit, info)
    record = {
        "repository": source.repository,
        "revision": source.revision if known is None else known["revision"],
        "commit": dataset.sha,
        "folder": source.place,
        "files": None,
    }
    _keep(folder, record)

    def download() -> object:
        return api.snapshot_download(
            source.repository,
            repo_type="dataset",
            revision=dataset.sha,
            local_dir=source.folder,
            allow_patterns=patterns,
        )

    with writing(source.folder):
        call_hub(f"datasets/{source.repository}", commit, download)
    names = (file.rfilename for file in dataset.siblings or ())
    wanted = (
        name for name in names if patterns is None or any(fnmatch(name, glob) for glob in patterns)
    )
    record["files"] = sum((source.folder / name).is_file() for name in wanted)
    _keep(folder, record)
    return record


def _keep(folder: Path, record: Mapping[str, object]) -> None:
    """Put one repository's entry into the folder's record; others stay as they are."""
    entries = {**_read_record(folder), str(record["repository"]): dict(record)}
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / RECORD, {"version": 1, "repositories": [*entries.values()]})


def fetched_sources(root: Path, card: Card) -> list[dict[str, object]]:
    """The repositories and commits that a benchmark's files were fetched from, if they were."""
    own = set(repositories(card).values())
    with suppress(StoreError):
        return [record for name, record in _read_record(root / card.folder).items() if name in own]
    return []
