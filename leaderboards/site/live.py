"""The site of `harness view`: runs as they are now, unfinished ones too, with files made on demand.

`server` asks for files by name (`LiveSite.file`) and calls `refresh` every second, which returns
the keys of the chunks that have changed. The files are those of a written site (`write`).
"""

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, StoreError
from harness.leaderboards.board import Board, Refused, build
from harness.leaderboards.ranked_table import Entry, Table, key
from harness.leaderboards.render import json as board_json
from harness.leaderboards.render import markdown
from harness.leaderboards.runs import odd_record
from harness.leaderboards.site import chunks, details
from harness.leaderboards.site.columns import CHUNK, Columns, Sinks, read_samples
from harness.leaderboards.site.history import history
from harness.leaderboards.site.index import STATIC, site_json, start_page, static
from harness.leaderboards.site.keys import keys
from harness.leaderboards.site.media import THUMBS, Thumbnails, describe, encode
from harness.leaderboards.site.pairs import pairs
from harness.leaderboards.site.running import Running
from harness.leaderboards.site.runs import run_page
from harness.leaderboards.site.trainings import KEY, trainings
from harness.leaderboards.site.write import sample_ids
from harness.media import Media
from harness.record import RESULTS, Run, runs_below, unfinished_below
from harness.scores import UnitScore
from harness.trainer import CURVE

CONTENT_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".json": "application/json",
    ".html": "text/html",
    ".md": "text/markdown",
    ".txt": "text/plain",
    ".webp": "image/webp",
}
DATA_FILE = re.compile(
    r"data/t(\d{1,9})/(?:samples|(pairs)|target-(\d{1,9})|r(\d{1,9})(?:-(\d{1,9}))?)\.js\Z"
)
"""Chunks of table 0: `data/t0/samples.js`, also `pairs.js`, `target-3.js`, `r1.js`, `r1-3.js`."""
MEDIUM_FILE = re.compile(r"media/([0-9a-f]+)\.webp\Z")
"""An image or video by the hash of its content."""
SHEET_FILE = re.compile(r"media/t(\d{1,9})-(\d{1,9})\.webp\Z")
"""A sheet of thumbnails of a table: `media/t0-2.webp`."""


@dataclass
class _TableData:
    """Parts of one table: columns, targets, and the media to encode on demand."""

    columns: Columns
    targets: dict[int, Sequence[Mapping[str, Any]]]
    thumbnails: list[Media | None]


class LiveSite:
    """A site whose files are made on demand; threads may call all methods concurrently."""

    def __init__(
        self, folders: Sequence[Path], *, title: str = "Runs", data_root: Path | None = None
    ) -> None:
        self.folders, self.title, self.data_root = folders, title, data_root
        self._lock = threading.RLock()
        self._finished: frozenset[tuple[Path, int]] | None = None
        self._running: dict[Path, Running] = {}
        self._unreadable: dict[Path, HarnessError] = {}
        # `_done` has the finished runs alone; `board` has the rows of unfinished ones, too.
        self.board = self._done = build([], title=title)
        self._tables: dict[int, _TableData] = {}
        self._media: dict[str, Media] = {}
        self._histories: list[list[dict[str, Any]]] = []
        self._pairs: dict[int, dict[str, dict[str, Any]]] = {}
        """Comparisons of each table's finished runs, once they were asked for."""
        self._logged: frozenset[tuple[Path, int]] = frozenset()
        """Curves of trainings and their sizes."""
        self._trainings: list[dict[str, Any]] = []
        self.refresh()

    def refresh(self) -> list[str]:
        """Read the folders again; return the keys of changed chunks, `*` for all."""
        with self._lock:
            finished = frozenset(path for folder in self.folders for path in _runs_below(folder))
            unfinished = {path for folder in self.folders for path in unfinished_below(folder)}
            is_all_changed = finished != self._finished
            if is_all_changed:
                self._finished = finished
                runs = [path for path, _ in sorted(finished)]
                self._done = build(
                    runs, title=self.title, data_root=self.data_root, names_refused=True
                )
                self._histories = [_history(table) for table in self._done.tables]
                self._pairs.clear()
            for path in self._running.keys() - unfinished:
                del self._running[path]
                is_all_changed = True
            unreadable, self._unreadable = self._unreadable.keys(), {}
            grown = [path for path in sorted(unfinished) if self._refresh_run(path)]
            if self._unreadable.keys() != unreadable:
                is_all_changed = True
            logged = _logged_below(self.folders)
            has_new_curves = logged != self._logged
            if has_new_curves or is_all_changed:
                self._logged = logged
                self._trainings = trainings(self.folders, self._done)
            if not (grown or has_new_curves or is_all_changed):
                return []
            before = [len(table.entries) for table in self.board.tables]
            self.board = self._with_running()
            if is_all_changed or before != [len(table.entries) for table in self.board.tables]:
                self._tables.clear()
                return ["*"]
            return ["index", *([KEY] if has_new_curves else []), *self._keys_of(grown)]

    def _refresh_run(self, path: Path) -> bool:
        """Read an unfinished run again; return True if it has grown."""
        try:
            if path not in self._running:
                self._running[path] = Running.open(path, self.data_root)
            return self._running[path].refresh()
        except HarnessError as error:  # no benchmark, or a run of another version
            self._unreadable[path] = error
        except Exception as error:  # noqa: BLE001 - an odd record must not stop the other runs
            self._unreadable[path] = odd_record(path, error)
        self._running.pop(path, None)
        return False

    def _with_running(self) -> Board:
        """Return the finished tables with the rows of unfinished runs at their ends."""
        tables = list(self._done.tables)
        table_index = {key(table.entries[0].row): index for index, table in enumerate(tables)}
        for running in self._running.values():
            entry = running.entry
            if entry is None:
                continue
            index = table_index.setdefault(key(entry.row), len(tables))
            if index == len(tables):
                tables.append(Table.of([entry], None, scoring=running.metrics))
                continue
            table = tables[index]
            entry = replace(entry, row=replace(entry.row, name=_free_name(entry, table)))
            tables[index] = replace(table, entries=(*table.entries, entry))
        unreadable = (Refused.of(path, error) for path, error in self._unreadable.items())
        return replace(self._done, tables=tuple(tables), refused=(*self._done.refused, *unreadable))

    def _keys_of(self, grown: Iterable[Path]) -> list[str]:
        """Return the keys of the chunks of runs that have grown, and drop their tables' data."""
        changed: list[str] = []
        for table_index, table in enumerate(self.board.tables):
            for run_index, entry in enumerate(table.entries):
                if entry.folder in grown:
                    self._tables.pop(table_index, None)
                    changed += [f"t{table_index}/samples", f"t{table_index}/r{run_index}-*"]
        return changed

    def progress(self) -> str:
        """Return the unfinished runs with their numbers of answers, as one line."""
        with self._lock:
            runs = self._running.values()
            return ", ".join(
                f"{running.run.manifest['model']['name']} on {running.task.name} "
                f"{running.answered:,} of {running.total:,}"
                for running in runs
            )

    def start(self) -> str:
        """Return the URL fragment of the first page: of the only table, if it has one run."""
        with self._lock:
            tables = self.board.tables
            if not tables and self._trainings:
                return "#/trainings"
            if len(tables) != 1 or len(tables[0].entries) != 1:
                return ""
            return f"#/task/{keys(tables)[0]}"

    def file(self, name: str) -> tuple[bytes, str] | None:
        """Return the content and type of a file of the site; None if it has no such file."""
        with self._lock:
            content = self._content(name)
        content_type = CONTENT_TYPES.get(Path(name).suffix, "application/octet-stream")
        return None if content is None else (content, content_type)

    def _content(self, name: str) -> bytes | None:
        """Return a file of the site by name, made on request; None for an unknown name."""
        if name in STATIC:
            return static(name)
        pages: dict[str, Callable[[], bytes]] = {
            "index.html": lambda: start_page(self.board),
            "board.json": lambda: board_json.render(self.board).encode("utf-8", "replace"),
            "board.md": lambda: markdown.render(self.board).encode("utf-8", "replace"),
            "data/index.js": self._index,
            f"data/{KEY}.js": lambda: chunks.plain(KEY, self._trainings),
        }
        if name in pages:
            return pages[name]()
        if match := DATA_FILE.match(name):
            return self._chunk(name[len("data/") : -len(".js")], *match.groups())
        if (match := MEDIUM_FILE.match(name)) and match[1] in self._media:
            return encode(self._media[match[1]])
        if match := SHEET_FILE.match(name):
            return self._sheet(int(match[1]), int(match[2]))
        return None

    def _index(self) -> bytes:
        """Return data/index.js: the board, with progress of unfinished runs, and the index."""
        board = board_json.to_json(self.board)
        tables = []
        for table_index, table in enumerate(self.board.tables):
            for run_index, entry in enumerate(table.entries):
                if (running := self._running.get(entry.folder)) is not None:
                    plain: Any = board
                    plain["tables"][table_index]["rows"][run_index] |= {
                        "kind": "running",
                        "progress": {"answered": running.answered, "total": running.total},
                    }
            columns = self._tables.get(table_index)
            tables.append(
                {
                    "n": max(entry.row.n_total for entry in table.entries),
                    "runs": [f"r{run_index}" for run_index in range(len(table.entries))],
                    "history": self._histories[table_index]
                    if table_index < len(self._histories)
                    else [],
                    "note": columns.columns.note if columns else "",
                    "thumbs": True,
                }
            )
        site = site_json(self.board, tables=tables, trainings=len(self._trainings), live=True)
        plain = {"board": board, "site": site}
        return chunks.plain("index", plain)

    def _chunk(
        self,
        name: str,
        table_number: str,
        pair: str | None,
        target: str | None,
        run: str | None,
        number: str | None,
    ) -> bytes | None:
        """Return a chunk of a table; the arguments are its key and the groups of `DATA_FILE`."""
        if int(table_number) >= len(self.board.tables):
            return None
        table = self.board.tables[int(table_number)]
        if pair is not None:
            return chunks.plain(name, self._compared(int(table_number)))
        if run is not None and number is None:
            entry = table.entries[int(run)] if int(run) < len(table.entries) else None
            return None if entry is None else chunks.plain(name, run_page(entry))
        data = self._table(int(table_number))
        if target is not None:
            content = data.targets.get(int(target))
            return None if content is None else chunks.packed(name, content)
        if run is None or number is None:
            return chunks.plain(name, data.columns.to_json())
        if int(run) >= len(table.entries):
            return None
        rows = slice(int(number) * CHUNK, (int(number) + 1) * CHUNK)
        journal = self._run(table.entries[int(run)]).journal
        plain = details.predictions_of(journal, data.columns.id[rows])
        return chunks.packed(name, details.chunk(plain, data.columns.question[rows]))

    def _compared(self, table_index: int) -> dict[str, dict[str, Any]]:
        """Return the comparisons of a table's finished runs, whose rows come before the others."""
        if table_index not in self._pairs:
            done = self._done.tables
            self._pairs[table_index] = pairs(done[table_index]) if table_index < len(done) else {}
        return self._pairs[table_index]

    def _run(self, entry: Entry) -> Run:
        """Return the run of a row, with the journal as it was last read if it is unfinished."""
        running = self._running.get(entry.folder)
        return Run(entry.folder) if running is None else running.run

    def _table(self, table_index: int) -> _TableData:
        """Return the data of a table, which is read when it is first asked for."""
        if table_index not in self._tables:
            self._tables[table_index] = self._read(self.board.tables[table_index])
        return self._tables[table_index]

    def _read(self, table: Table) -> _TableData:
        """Read the samples and responses of a table's runs."""
        data = _TableData(Columns(), {}, [])

        def keep(media: Media) -> Mapping[str, object]:
            self._media[media.id] = media
            return describe(media)

        sinks = Sinks(
            medium=keep,
            thumbnail=data.thumbnails.append,
            targets=lambda number, members: data.targets.update({number: list(members)}),
        )
        running = [run for entry in table.entries if (run := self._running.get(entry.folder))]
        finished = [entry for entry in table.entries if entry.folder not in self._running]
        ids: Mapping[str, UnitScore | None]
        if finished:
            ids = sample_ids(replace(table, entries=tuple(finished)))
        else:
            ids = {sample.id: None for unit in running[0].units() for sample in unit}
        data.columns = read_samples(Run(table.entries[0].folder), ids, self.data_root, sinks)
        for number, entry in enumerate(table.entries):
            plain = details.predictions_of(self._run(entry).journal, data.columns.id)
            responses = data.columns.responses(entry, plain)
            data.columns.add_run(f"r{number}", entry, responses)
        return data

    def _sheet(self, table_index: int, sheet_number: int) -> bytes | None:
        """Return a sheet of a table's thumbnails as WebP; None for an unknown one."""
        if table_index >= len(self.board.tables):
            return None
        media = self._table(table_index).thumbnails[
            sheet_number * THUMBS : (sheet_number + 1) * THUMBS
        ]
        contents: list[bytes] = []
        sheet = Thumbnails(lambda _, content: contents.append(content))
        for medium in media:
            sheet.add(medium)
        sheet.close()
        return contents[0] if contents else None


def _runs_below(folder: Path) -> list[tuple[Path, int]]:
    """Return finished runs with the time of their results in ns; empty without runs."""
    try:
        results = (path / RESULTS for path in runs_below(folder))
        return [(path.parent, path.stat().st_mtime_ns) for path in results if path.is_file()]
    except (StoreError, OSError):
        return []


def _logged_below(folders: Iterable[Path]) -> frozenset[tuple[Path, int]]:
    """Return the curves of trainings below folders with their sizes."""
    curves = set()
    for path in (path for folder in folders for path in folder.rglob(CURVE)):
        with suppress(OSError):
            curves.add((path, path.stat().st_size))
    return frozenset(curves)


def _history(table: Table) -> list[dict[str, Any]]:
    """Return the series of a table; empty if an odd record makes them fail."""
    try:
        return history(table)
    except Exception:  # noqa: BLE001 - the table is shown without it
        return []


def _free_name(entry: Entry, table: Table) -> str:
    """Return a name for an unfinished run that no row of the table has."""
    row_names = {listed.row.name for listed in table.entries}
    names = (f"{entry.row.name}{end}" for end in ("", " (running)", f" ({entry.folder.name})"))
    return next((name for name in names if name not in row_names), str(entry.folder))
