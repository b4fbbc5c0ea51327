"""The site of runs as they are now: unfinished ones too, every file made when it is asked for."""

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

KINDS = {".js": "text/javascript", ".css": "text/css", ".json": "application/json"}
KINDS |= {".html": "text/html", ".md": "text/markdown", ".txt": "text/plain", ".webp": "image/webp"}
DATA = re.compile(
    r"data/t(\d{1,9})/(?:samples|(pairs)|target-(\d{1,9})|r(\d{1,9})(?:-(\d{1,9}))?)\.js\Z"
)
MEDIUM = re.compile(r"media/([0-9a-f]+)\.webp\Z")
SHEET = re.compile(r"media/t(\d{1,9})-(\d{1,9})\.webp\Z")


@dataclass
class _TableData:
    """Parts of one table: columns, targets, and the media to encode on demand."""

    columns: Columns
    targets: dict[int, Sequence[Mapping[str, Any]]]
    thumbnails: list[Media | None]


class LiveSite:
    """A site whose files are made on demand; all methods may be called by several threads."""

    def __init__(
        self, folders: Sequence[Path], *, title: str = "Runs", data_root: Path | None = None
    ) -> None:
        self.folders, self.title, self.data_root = folders, title, data_root
        self._lock = threading.RLock()
        self._finished: frozenset[tuple[Path, int]] | None = None
        self._running: dict[Path, Running] = {}
        self._unreadable: dict[Path, HarnessError] = {}
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
        """Look at the folders again; return the keys of changed chunks, `*` if all may be."""
        with self._lock:
            finished = frozenset(path for folder in self.folders for path in _runs_below(folder))
            unfinished = {path for folder in self.folders for path in unfinished_below(folder)}
            changed: list[str] = []
            if finished != self._finished:
                self._finished, changed = finished, ["*"]
                runs = [path for path, _ in sorted(finished)]
                self._done = build(
                    runs, title=self.title, data_root=self.data_root, names_refused=True
                )
                self._histories = [_history(table) for table in self._done.tables]
                self._pairs.clear()
            for path in self._running.keys() - unfinished:
                del self._running[path]
                changed = ["*"]
            unreadable, self._unreadable = self._unreadable.keys(), {}
            grown = [path for path in sorted(unfinished) if self._refresh_run(path)]
            if self._unreadable.keys() != unreadable:
                changed = ["*"]
            logged = _logged_below(self.folders)
            if logged != self._logged or changed:
                self._logged = logged
                self._trainings = trainings(self.folders, self._done)
                changed = changed or ["index", KEY]
            if grown or changed:
                before = [len(table.entries) for table in self.board.tables]
                self.board = self._with_running()
                if "*" in changed or before != [len(table.entries) for table in self.board.tables]:
                    self._tables.clear()
                    return ["*"]
                changed = ["index", *({KEY} & set(changed)), *self._keys_of(grown)]
            return changed

    def _refresh_run(self, path: Path) -> bool:
        try:
            if path not in self._running:
                self._running[path] = Running.open(path, self.data_root)
            return self._running[path].refresh()
        except HarnessError as error:  # its benchmark is not here, or it is another version's
            self._unreadable[path] = error
        except Exception as error:  # noqa: BLE001 - an odd record must not stop the other runs
            self._unreadable[path] = odd_record(path, error)
        self._running.pop(path, None)
        return False

    def _with_running(self) -> Board:
        """The finished tables with the rows of unfinished runs at their ends."""
        tables = list(self._done.tables)
        places = {key(table.entries[0].row): place for place, table in enumerate(tables)}
        for running in self._running.values():
            entry = running.entry
            if entry is None:
                continue
            place = places.setdefault(key(entry.row), len(tables))
            if place == len(tables):
                tables.append(Table.of([entry], None, scoring=running.metrics))
                continue
            table = tables[place]
            entry = replace(entry, row=replace(entry.row, name=_free_name(entry, table)))
            tables[place] = replace(table, entries=(*table.entries, entry))
        unreadable = (Refused.of(path, error) for path, error in self._unreadable.items())
        return replace(self._done, tables=tuple(tables), refused=(*self._done.refused, *unreadable))

    def _keys_of(self, grown: Iterable[Path]) -> list[str]:
        changed: list[str] = []
        for place, table in enumerate(self.board.tables):
            for number, entry in enumerate(table.entries):
                if entry.folder in grown:
                    self._tables.pop(place, None)
                    changed += [f"t{place}/samples", f"t{place}/r{number}-*"]
        return changed

    def progress(self) -> str:
        """Describe the unfinished runs in a line."""
        with self._lock:
            runs = self._running.values()
            return ", ".join(
                f"{running.run.manifest['model']['name']} on {running.task.name} "
                f"{running.answered:,} of {running.total:,}"
                for running in runs
            )

    def start(self) -> str:
        """Return the hash of the page to begin with: the run's, if there is only one."""
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
        kind = KINDS.get(Path(name).suffix, "application/octet-stream")
        return None if content is None else (content, kind)

    def _content(self, name: str) -> bytes | None:
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
        if match := DATA.match(name):
            return self._chunk(name[len("data/") : -len(".js")], *match.groups())
        if (match := MEDIUM.match(name)) and match[1] in self._media:
            return encode(self._media[match[1]])
        if match := SHEET.match(name):
            return self._sheet(int(match[1]), int(match[2]))
        return None

    def _index(self) -> bytes:
        board = board_json.to_json(self.board)
        tables = []
        for place, table in enumerate(self.board.tables):
            for number, entry in enumerate(table.entries):
                if (running := self._running.get(entry.folder)) is not None:
                    plain: Any = board
                    plain["tables"][place]["rows"][number] |= {
                        "kind": "running",
                        "progress": {"answered": running.answered, "total": running.total},
                    }
            columns = self._tables.get(place)
            tables.append(
                {
                    "n": max(entry.row.n_total for entry in table.entries),
                    "runs": [f"r{number}" for number in range(len(table.entries))],
                    "history": self._histories[place] if place < len(self._histories) else [],
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
        place: str,
        pair: str | None,
        target: str | None,
        run: str | None,
        number: str | None,
    ) -> bytes | None:
        if int(place) >= len(self.board.tables):
            return None
        table = self.board.tables[int(place)]
        if pair is not None:
            return chunks.plain(name, self._compared(int(place)))
        if run is not None and number is None:
            entry = table.entries[int(run)] if int(run) < len(table.entries) else None
            return None if entry is None else chunks.plain(name, run_page(entry))
        data = self._table(int(place))
        if target is not None:
            content = data.targets.get(int(target))
            return None if content is None else chunks.packed(name, content)
        if run is None or number is None:
            return chunks.plain(name, data.columns.to_json())
        if int(run) >= len(table.entries):
            return None
        part = slice(int(number) * CHUNK, (int(number) + 1) * CHUNK)
        journal = self._run(table.entries[int(run)]).journal
        plain = details.predictions_of(journal, data.columns.id[part])
        return chunks.packed(name, details.chunk(plain, data.columns.question[part]))

    def _compared(self, place: int) -> dict[str, dict[str, Any]]:
        """Return the comparisons of a table's finished runs, which stand before the others."""
        if place not in self._pairs:
            done = self._done.tables
            self._pairs[place] = pairs(done[place]) if place < len(done) else {}
        return self._pairs[place]

    def _run(self, entry: Entry) -> Run:
        running = self._running.get(entry.folder)
        return Run(entry.folder) if running is None else running.run

    def _table(self, place: int) -> _TableData:
        if place not in self._tables:
            self._tables[place] = self._read(self.board.tables[place])
        return self._tables[place]

    def _read(self, table: Table) -> _TableData:
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
            data.columns.add_run(f"r{number}", entry, plain)
        return data

    def _sheet(self, place: int, number: int) -> bytes | None:
        if place >= len(self.board.tables):
            return None
        media = self._table(place).thumbnails[number * THUMBS : (number + 1) * THUMBS]
        kept: list[bytes] = []
        sheet = Thumbnails(lambda _, content: kept.append(content))
        for medium in media:
            sheet.add(medium)
        sheet.close()
        return kept[0] if kept else None


def _runs_below(folder: Path) -> list[tuple[Path, int]]:
    """Finished runs, and when; a folder that a run is about to write its first file to has none."""
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
    """The series of a table; none where a record is too odd for it."""
    try:
        return history(table)
    except Exception:  # noqa: BLE001 - the table is shown without it
        return []


def _free_name(entry: Entry, table: Table) -> str:
    taken = {listed.row.name for listed in table.entries}
    names = (f"{entry.row.name}{end}" for end in ("", " (running)", f" ({entry.folder.name})"))
    return next((name for name in names if name not in taken), str(entry.folder))
