"""Write the site of a board as a folder of plain files (docs/design/site.md).

One table and one run at a time are in memory; chunks, images and sheets are written as they are
made. The folder is written beside its place and moved there at the end, so it is never partial.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from harness.errors import UsageError, counted
from harness.files import temporary_beside
from harness.frame_cache import CACHE
from harness.leaderboards.board import Board
from harness.leaderboards.collection import without_collection
from harness.leaderboards.history.known import KnownRun, KnownValues
from harness.leaderboards.ranked_table import Entry, Table
from harness.leaderboards.render import json as board_json
from harness.leaderboards.render import markdown
from harness.leaderboards.render.links import with_relative_links
from harness.leaderboards.site import chunks, details
from harness.leaderboards.site.columns import CHUNK, Columns, Sinks, read_samples
from harness.leaderboards.site.history import history
from harness.leaderboards.site.index import STATIC, site_json, start_page, static
from harness.leaderboards.site.media import Thumbnails, describe, encode
from harness.leaderboards.site.pairs import pairs
from harness.leaderboards.site.runs import run_page
from harness.leaderboards.site.trainings import KEY, trainings
from harness.media import Media
from harness.scores import UnitScore
from harness.store.atomic import writing
from harness.store.journal import Journal

INDEX = "data/index.js"
PAGE = "page"
"""Name of the cached values that hold the pages of a run's predictions."""
RUNS_AT_ONCE = 100
"""Number of runs whose pages are loaded from the cache together."""
MAX_FRAME_BYTES = 64 * 2**20  # of decoded frames that are cached


@without_collection()
def write_site(
    board: Board,
    out: Path,
    *,
    data_root: Path | None = None,
    images: bool = True,
    trained: Iterable[Path] = (),
    note: Callable[[str], None] = lambda line: None,
    index: KnownValues | None = None,
) -> Path:
    """Write the site into folder `out`, completely or not at all, and return its start page.

    Args:
        board: The board.
        out: A new or empty folder, or an earlier site, which is replaced.
        data_root: Where the benchmarks lie now, if not where the runs read them.
        images: False to leave images out.
        trained: Folders with trainings below them, whose curves are shown too.
        note: Receives a line for each finished table.
        index: Cache of the pages' predictions, for unchanged runs.

    Raises:
        UsageError: `out` holds something else.
        StoreError: the disk is full or read-only.
    """
    check_place(out)
    fresh = temporary_beside(out)
    try:
        with writing(out), CACHE.limited(MAX_FRAME_BYTES):
            fresh.mkdir(parents=True)
            curves = trainings(trained, board)
            folder = SiteFolder(fresh, data_root, images, index)
            _write(with_relative_links(board, out), curves, folder, note)
            _move(fresh, out)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return out / "index.html"


def check_place(out: Path) -> None:
    """Raise UsageError unless a site may be written at `out`."""
    if not out.exists() or (out.is_dir() and (not any(out.iterdir()) or (out / INDEX).is_file())):
        return
    raise UsageError(
        f"--out {out}",
        expected="a new folder, an empty one, or an earlier site",
        found="a folder of something else" if out.is_dir() else "a file",
        fix="Name another folder: a site replaces all that is in its own.",
    )


def _move(fresh: Path, out: Path) -> None:
    """Rename a finished folder to `out`, in place of an earlier site."""
    if out.exists():
        earlier = temporary_beside(out, ".old")
        out.rename(earlier)
        fresh.rename(out)
        shutil.rmtree(earlier, ignore_errors=True)
    else:
        fresh.rename(out)


@dataclass(frozen=True)
class SiteFolder:
    """The folder that a site is written into."""

    root: Path
    data_root: Path | None
    images: bool
    index: KnownValues | None = None
    media: dict[str, dict[str, object]] = field(default_factory=dict)
    """Description of each written medium, by the hash of its content."""
    folders: set[Path] = field(default_factory=set)
    """Folders that were made, which need not be made again."""

    def save(self, name: str, content: bytes) -> None:
        """Write a file, and the folders above it."""
        path = self.root / name
        if path.parent not in self.folders:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.folders.add(path.parent)
        path.write_bytes(content)

    def add(self, media: Media) -> dict[str, object]:
        """Write a medium if it is new; raise MediaError if it cannot be read."""
        if media.id not in self.media:
            description = describe(media)
            self.save(f"media/{media.id}.webp", encode(media))
            self.media[media.id] = description
        return self.media[media.id]


def _write(
    board: Board,
    curves: Sequence[Mapping[str, Any]],
    folder: SiteFolder,
    note: Callable[[str], None],
) -> None:
    """Write all files of the site into its new folder."""
    tables = []
    for number, table in enumerate(board.tables):
        tables.append(_write_table(table, f"t{number}", folder))
        note(
            f"{table.title}: {counted(tables[-1]['n'], 'sample')}, "
            f"{counted(len(table.entries), 'run')}"
        )
    for name in STATIC:
        folder.save(name, static(name))
    folder.save("index.html", start_page(board))
    board_text = chunks.encoded(board_json.to_json(board))  # once: it may hold 10,000 rows
    folder.save("board.json", board_text + b"\n")
    folder.save("board.md", markdown.render(board).encode("utf-8", "replace"))
    if curves:
        folder.save(f"data/{KEY}.js", chunks.plain(KEY, curves))
    site = chunks.encoded(site_json(board, tables=tables, trainings=len(curves)))
    folder.save(INDEX, chunks.script("index", b'{"board":%s,"site":%s}' % (board_text, site)))


def _write_table(table: Table, name: str, folder: SiteFolder) -> dict[str, Any]:
    """Write the chunks of a table and return its facts for the index."""

    def save_targets(number: int, members: Any) -> None:
        key = f"{name}/target-{number}"
        folder.save(f"data/{key}.js", chunks.packed(key, members))

    sheets = Thumbnails(lambda number, image: folder.save(f"media/{name}-{number}.webp", image))
    sinks = Sinks(
        medium=folder.add if folder.images else describe,
        thumbnail=lambda media: sheets.add(media) if folder.images else None,
        targets=save_targets,
    )
    columns = read_samples(table.entries[0].run, sample_ids(table), folder.data_root, sinks)
    sheets.close()
    names = [f"r{index}" for index in range(len(table.entries))]
    for start in range(0, len(names), RUNS_AT_ONCE):
        batch = slice(start, start + RUNS_AT_ONCE)
        pages = _pages(table.entries[batch], columns, folder.index)
        for run, entry, page in zip(names[batch], table.entries[batch], pages, strict=True):
            _write_run(entry, columns, page, f"{name}/{run}", folder)
    key = f"{name}/pairs"
    folder.save(f"data/{key}.js", chunks.plain(key, pairs(table)))
    key = f"{name}/samples"
    folder.save(f"data/{key}.js", chunks.plain(key, columns.to_json()))
    return {
        "n": len(columns.id),
        "runs": names,
        "history": history(table),
        "note": columns.note,
        "thumbs": folder.images,
    }


def sample_ids(table: Table) -> dict[str, UnitScore]:
    """Return every sample of a table by its id, with the unit in which it is scored.

    They are in the order of the first run; samples that only later runs have come last.
    """
    unit_of: dict[str, UnitScore] = {}
    for entry in table.entries:
        if entry.row.n_total > len(unit_of):
            for unit in entry.run.units():
                for sample in unit.samples:
                    unit_of.setdefault(sample, unit)
    return unit_of


def _write_run(
    entry: Entry, columns: Columns, page: Mapping[str, Any], key: str, folder: SiteFolder
) -> None:
    """Write a run's page with its first chunk of predictions, and a file for each further chunk."""
    columns.add_run(key.split("/")[1], entry, page["responses"])
    contents = [
        b"" if body is None else chunks.wrapped(f"{key}-{number}", body)
        for number, body in enumerate(page["chunks"])
    ]
    first = b"".join(contents[:1])
    folder.save(f"data/{key}.js", chunks.plain(key, run_page(entry)) + first)
    for number, content in enumerate(contents[1:], 1):
        if content:
            folder.save(f"data/{key}-{number}.js", content)


def _pages(
    entries: Sequence[Entry], columns: Columns, index: KnownValues | None
) -> Iterator[dict[str, Any]]:
    """Yield the page of each run, from the cache if it has it; new pages are stored there."""
    if index is None:
        yield from (_page(entry, columns) for entry in entries)
        return
    state = columns.state()
    runs = [entry.run for entry in entries if isinstance(entry.run, KnownRun)]
    pages = index.load(PAGE, runs, state)
    new: dict[KnownRun, dict[str, Any]] = {}
    for entry, run in zip(entries, runs, strict=True):
        if run not in pages:
            pages[run] = new[run] = _page(entry, columns)
        yield pages[run]
    index.save(PAGE, new, state)


def _page(entry: Entry, columns: Columns) -> dict[str, Any]:
    """Return the columns of a run's responses, and its chunks of predictions, packed.

    A chunk without predictions is None. The journal is read once: `packed` fills `bodies` while
    `Columns.responses` consumes the predictions.
    """
    journal = Journal(entry.folder, keep=True)
    journal.check(entry.run.manifest["config_hash"])
    plain = details.predictions_of(journal, columns.id)
    bodies: list[str | None] = []

    def packed() -> Iterator[Mapping[str, Any] | None]:
        for start in range(0, len(columns.id), CHUNK):
            predictions = list(islice(plain, CHUNK))
            questions = columns.question[start : start + CHUNK]
            body = None
            if any(predictions):
                body = chunks.packed_body(details.chunk(predictions, questions))
            bodies.append(body)
            yield from predictions

    return {"responses": columns.responses(entry, packed()), "chunks": bodies}
