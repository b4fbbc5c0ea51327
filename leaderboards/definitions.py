"""Boards as data: one TOML file defines the rows, columns and trainings of one table.

`read` returns a `Definition`, whose fields are the file's keys (example in docs/published.md), with
presets replaced by their SPECs. `board`, `grid` and `harness reproduce` use the definitions. A
package brings boards by an entry point in `harness.boards`: a function that returns their folder.
"""

import inspect
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from harness import plugins, presets
from harness.catalog.task_facts import stated_facts
from harness.errors import DataError, HarnessError, UsageError, raised_as
from harness.leaderboards.board_keys import check_keys, from_table
from harness.leaderboards.published_results import (
    PublishedResult,
    papers,
    published_results,
    title_of,
)
from harness.papers import same_value
from harness.spec import Spec, Value, parse

SLOT = re.compile(r"\{(\w+)\}")
"""Name of a training in place of its checkpoint: `sft` in `qwen_vl(checkpoint={sft})`."""
RUN_BY = frozenset(
    {"backend", "batch_size", "segmenter", "propagator", "sampler", "nodes", "seed", "offload"}
)
"""Arguments that may differ between two runs of one method: with which parts it is run, and how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One task of a table; each metric of each part of it is a printed column."""

    task: str = ""
    """SPEC; empty: an average over tasks, for which only the paper's numbers are shown."""
    benchmark: str = ""
    """The paper's name of such an average."""
    subset: str | None = None
    judge: str = ""
    """SPEC of the judge of a task whose answers are graded."""
    metrics: tuple[str, ...]
    published: tuple[str, ...] = ()
    """The paper's names of the metrics, if they differ from ours."""
    parts: tuple[str, ...] = ("",)
    """`category=value` of the task's breakdown; empty: all samples."""

    @property
    def heads(self) -> Iterator[tuple[str, str, str]]:
        """Yield (part, metric, the paper's name of the metric) for each printed column."""
        printed_names = self.published or self.metrics
        for part in self.parts:
            yield from ((part, *pair) for pair in zip(self.metrics, printed_names, strict=True))

    @property
    def name(self) -> str:
        """Name of the task, or of the average."""
        return parse(self.task).name if self.task else self.benchmark

    @property
    def split(self) -> str:
        """The split of the SPEC, or the task's default."""
        return str(self._arguments.get("split") or _default_split_and_protocol(self.name)[0])

    @property
    def protocol(self) -> str:
        """The protocol of the SPEC, or the task's default; empty if neither is known."""
        if protocol := self._arguments.get("protocol"):
            return str(protocol)
        if "form" in self._arguments:  # the form of answer decides the protocol
            return ""
        return _default_split_and_protocol(self.name)[1]

    @property
    def _arguments(self) -> Mapping[str, Value]:
        return parse(self.task).arguments if self.task else {}


@cache
def _default_split_and_protocol(task: str) -> tuple[str, str]:
    """Return the defaults of a task's card, or else those of its signature; empty if unknown.

    The protocol of a task that takes none is the only one in its source.
    """
    card = plugins.find_card(task)
    if card:
        return card.default_split, card.protocol
    with suppress(HarnessError):  # an average, or a task that is not installed
        parameters = inspect.signature(plugins.load("tasks", task)).parameters
        given = (getattr(parameters.get(name), "default", "") for name in ("split", "protocol"))
        split, protocol = (default if isinstance(default, str) else "" for default in given)
        if "protocol" not in parameters:
            stated = stated_facts(plugins.installed_plugins("tasks")[task]).get("protocols")
            protocol = next(iter(stated)) if isinstance(stated, dict) and len(stated) == 1 else ""
        return split, protocol
    return "", ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRow:
    """A method and the model that reproduces it."""

    row: str
    """The paper's name of the method."""
    backbone: str = ""
    """The paper's name of the backbone, for rows that share a name."""
    model: str = ""
    """SPEC, with `{name}` in place of a training's folder; empty: the method is not reproduced."""
    tasks: tuple[str, ...] = ()
    """Names of the tasks for which this SPEC is used; none: all."""
    package: str = ""
    """Package that this SPEC needs: it runs only where that is installed, in addition to any other
    SPEC of the row."""

    def is_of(self, column: Column) -> bool:
        """Return True if the row is evaluated for a column."""
        return not self.tasks or column.name in self.tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStep:
    """A training that a row needs."""

    method: str
    config: str
    """Name of one of the method's configurations, or a file, relative to the board's; with the
    tasks to train on and the model to begin with, as for `harness train --config`."""
    start: str = ""
    """SPEC of the model that it begins with; empty: the configuration's."""
    set: tuple[str, ...] = ()
    """Overrides of the configuration (`harness train --set`); in the file also a table."""
    processes: int = 0
    """0: as many as the configuration states (`processes`), else one."""
    machines: int = 1
    """Machines that share the processes evenly."""

    @property
    def folder(self) -> Path:
        """Folder of the method's configurations."""
        return configurations(self.method)

    def read(self) -> dict[str, Any]:
        """Return the settings in the configuration file, options of `harness train` included.

        Raises:
            DataError: the file is missing or not TOML, lacks the tasks or the model, or its
                `processes` is not a number from 1 on.
        """
        what = f"configuration {self.config} of {self.method}"
        path = Path(self.config)
        # A file beside the board has its whole path; one of the current folder is not meant.
        path = path if path.is_absolute() else self.folder / f"{self.config}.toml"
        if not path.is_file():
            raise DataError(
                what,
                expected="a file, relative to the board's, or a name that the method brings",
                found="neither",
            )
        with raised_as(DataError, what, "a TOML file", OSError, ValueError):
            plain = tomllib.loads(path.read_text(encoding="utf-8"))
        for key in ("train_tasks", *(() if self.start else ("model",))):
            if key not in plain:
                raise DataError(what, expected=f"the key {key}", found="none")
            texts = plain[key] if key == "train_tasks" else [plain[key]]
            texts = [texts] if isinstance(texts, str) else texts
            if not (isinstance(texts, list) and texts and all(type(text) is str for text in texts)):
                raise DataError(what, expected=f"SPECs as {key}", found=repr(plain[key])[:40])
        count = plain.get("processes", 1)
        if type(count) is not int or count < 1:
            raise DataError(what, expected="a number ≥ 1 as processes", found=repr(count))
        return plain

    def begins_with(self) -> Spec:
        """Return the model that it begins with."""
        return parse(self.start or self.read()["model"])


@cache
def configurations(method: str) -> Path:
    """Return the folder of a trainer's configurations; below `method` if it is not installed."""
    entry = plugins.installed_plugins("trainers").get(method)
    return ((plugins.folder(entry) if entry is not None else None) or Path(method)) / "configs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A board: its columns, its rows, and the trainings whose checkpoints the rows use."""

    paper: str
    table: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[BoardRow, ...]
    trainings: Mapping[str, TrainingStep] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    """Metrics beside the tasks' own (`harness eval --metrics`)."""
    report: str = ""
    """`adaptation`: the table is that of `harness board adaptation`."""
    file: Path | None = None
    """The file that was read."""

    @property
    def heading(self) -> str:
        """Title; a paper's board begins with the paper and its table."""
        source = f"{title_of(self.paper)}, Table {self.table}: " if self.paper in papers() else ""
        return source + self.title

    def printed(
        self, row: BoardRow, column: Column, part: str, word: str
    ) -> tuple[PublishedResult, ...]:
        """Return the paper's numbers in one cell, those by the column's protocol first.

        `word` is the paper's name of a metric, as in `Column.heads`.
        """
        cell = (row.row, part, word, column.name if column.task else "")
        results = (
            result
            for result in _results(self.paper, self.table)
            if (result.row, result.part, result.metric, result.task) == cell
            and row.backbone in ("", result.backbone)
            and (
                result.split == column.split
                if column.task
                else result.benchmark == column.benchmark
            )
        )
        return tuple(sorted(results, key=lambda result: result.protocol != column.protocol))


@cache
def _results(paper: str, table: str) -> tuple[PublishedResult, ...]:
    """Return the numbers of a table, and those that the paper prints of it in its text alone."""
    results = published_results(paper)
    return tuple(result for result in results if result.table.removeprefix("text ") == table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """The method that a row of a board measures."""

    definition: Definition
    row: BoardRow
    spec: Spec
    """Its model, with the name of a training in place of its checkpoint."""

    def is_of(self, model_spec: str) -> bool:
        """Return True if a measured model is this method.

        Names and arguments (given or default) must be equal, apart from `RUN_BY`, and so must the
        networks that backends name. Of a checkpoint's path only the last part counts.
        """
        try:
            return is_same(parse(model_spec), self.spec)
        except UsageError:
            return False


def is_same(used: Spec, other: Spec) -> bool:
    """Return True if two models are one method; see `Method.is_of`."""
    if used.name != other.name or _served(used) != _served(other):
        return False
    for name in (used.arguments.keys() | other.arguments.keys()) - RUN_BY:
        a, b = (spec.arguments.get(name, _default(spec.name, name)) for spec in (used, other))
        are_specs = isinstance(a, Spec) and isinstance(b, Spec)
        if not (is_same(a, b) if are_specs else same_value(a, b)):
            return False
    network = _network(other)
    return network is None or same_value(_network(used), network)


def _network(spec: Spec) -> Value:
    """Return the network that a SPEC's backend names; None if the SPEC names a checkpoint."""
    backend = spec.arguments.get("backend")
    if spec.arguments.get("checkpoint") is not None or not isinstance(backend, Spec):
        return None
    return backend.arguments.get("checkpoint") or backend.arguments.get("model")


def _served(spec: Spec) -> str:
    """Return the last part of the network's name in a SPEC's backend; empty with a checkpoint."""
    backend = spec.arguments.get("backend")
    if "checkpoint" in spec.arguments or not isinstance(backend, Spec):
        return ""
    arguments = backend.arguments
    name = arguments.get("model") or arguments.get("name") or arguments.get("checkpoint") or ""
    return str(name).rpartition("/")[2]


@cache
def _default(model: str, name: str) -> Any:
    """Return the default of a model's argument; None if it has none."""
    with suppress(HarnessError):
        parameter = inspect.signature(plugins.load("models", model)).parameters.get(name)
        if parameter is not None and parameter.default is not inspect.Parameter.empty:
            return parameter.default
    return None


def methods_of(definition: Definition) -> list[Method]:
    """Return the method of every row of a board that has a model."""
    return [
        Method(definition=definition, row=row, spec=parse(SLOT.sub(r"\1", row.model)))
        for row in definition.rows
        if row.model
    ]


@cache
def methods() -> tuple[Method, ...]:
    """Return the methods of the installed boards of papers, variants of ablations last."""
    of_papers = [definition for definition in definitions() if definition.paper in papers()]
    all_methods = [method for definition in of_papers for method in methods_of(definition)]
    return tuple(sorted(all_methods, key=lambda method: "[" in method.row.row))


def read(path: Path) -> Definition:
    """Read a board's file.

    Raises:
        DataError: it is not TOML, or a key is missing, unknown or of another type.
    """
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
        check_keys(Definition, plain, "the file")
        tables = {
            "columns": tuple(
                from_table(Column, column, f"columns, number {number}")
                for number, column in enumerate(plain["columns"], 1)
            ),
            "rows": tuple(
                from_table(BoardRow, _resolved(row, "model"), f"rows, number {number}")
                for number, row in enumerate(plain["rows"], 1)
            ),
            "trainings": {
                name: _training(path, step, f"[trainings.{name}]")
                for name, step in plain.get("trainings", {}).items()
            },
        }
        definition = replace(from_table(Definition, {**plain, **tables}, "the file"), file=path)
        specs = [row.model for row in definition.rows]
        specs += [step.start for step in definition.trainings.values()]
        slots = {slot for spec in specs for slot in SLOT.findall(spec)}
        if missing := slots - {*definition.trainings}:
            raise ValueError(f"no training {min(missing)}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"board {path}",
            expected="the form in docs/published.md",
            found=str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}",
        ) from error
    return definition


def _training(board: Path, plain: Mapping[str, Any], where: str) -> TrainingStep:
    """Return a training of a board: a file of settings is found beside it, a table is `set`."""
    step = from_table(TrainingStep, _resolved(plain, "start"), where)
    given: object = step.set
    scalars = (str, int, float, bool)
    if isinstance(given, Mapping) and all(isinstance(value, scalars) for value in given.values()):
        # A SPEC without a name is `(name=value)`.
        given = tuple(str(Spec("", {name: value}))[1:-1] for name, value in given.items())
    if not isinstance(given, tuple) or not all(isinstance(text, str) for text in given):
        form = 'a table {max_steps = 300} or a list ["max_steps=300"]'
        raise ValueError(f"{where}: set is {given!r}, not {form}")
    file = board.parent / step.config
    return replace(step, set=given, config=str(file.absolute()) if file.is_file() else step.config)


def _resolved(plain: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a table with a preset under a key replaced by its SPEC."""
    text = plain.get(key)
    if not text or not isinstance(text, str):
        return plain
    return {**plain, key: str(presets.resolve(parse(text)))}


def shipped() -> Path:
    """Return the folder of the boards that come with harness."""
    return Path(__file__).parent / "boards"


def definitions(folder: Path | None = None) -> tuple[Definition, ...]:
    """Return the boards of a folder, or of all plugins, without those of `unreadable`."""
    return _boards(folder)[0]


def unreadable(folder: Path | None = None) -> Mapping[Path, DataError]:
    """Return the error of each file that cannot be read, or whose table an earlier file defines."""
    return _boards(folder)[1]


@cache
def _boards(folder: Path | None) -> tuple[tuple[Definition, ...], Mapping[Path, DataError]]:
    """Read the boards of a folder, or of all plugins: (`definitions`, `unreadable`)."""
    folders = (folder,) if folder else plugins.data_folders("boards")
    by_table: dict[tuple[str, str], Definition] = {}
    faults: dict[Path, DataError] = {}
    for path in sorted(path for parent in folders for path in parent.glob("*.toml")):
        try:
            definition = read(path)
        except DataError as error:
            if _may_be_of(path):  # a configuration or a card may lie beside the boards
                faults[path] = error
            continue
        first = by_table.setdefault((definition.paper, definition.table), definition)
        if first is not definition:
            faults[path] = DataError(
                f"board {path}", expected="a unique paper and table", found=f"those of {first.file}"
            )
    return tuple(by_table.values()), faults


def find(paper: str, table: str) -> Definition:
    """Return the board of a paper's table; `paper` may also be a folder of boards.

    Raises:
        DataError: its file cannot be read, or two files define it.
        UsageError: there is no such board; the text names those that exist.
    """
    boards, faults = _boards(None)
    tables = {definition.table: definition for definition in boards if definition.paper == paper}
    left_out = {path: error for path, error in faults.items() if _may_be_of(path, paper)}
    if not tables and Path(paper).is_dir():  # a training or a package may have a paper's name
        in_folder, broken = _boards(Path(paper))
        left_out |= broken
        tables = {definition.table: definition for definition in in_folder}
    for path, error in left_out.items():
        if str(_stated(path).get("table")) == table:
            raise error
    if table in tables:
        return tables[table]
    fix = " ".join(f"Left out: {error}." for error in left_out.values())
    if not tables:
        names = [*dict.fromkeys(board.paper for board in boards), "a folder of boards"]
        raise UsageError(f"paper {paper!r}", expected=", ".join(names), found=paper, fix=fix)
    names = sorted(tables, key=lambda text: (len(text), text))
    raise UsageError(f"table {table!r} of {paper}", expected=", ".join(names), found=table, fix=fix)


def with_rows(boards: Sequence[Definition], names: Sequence[str]) -> list[Definition]:
    """Return boards with the rows of these names alone, and without the boards that have none.

    A name is `NAME` or `PAPER/TABLE: NAME`; without names the boards are returned as they are.

    Raises:
        UsageError: no board has a row of one of the names.
    """
    if not names:
        return list(boards)
    known = {
        name: row.row
        for board in boards
        for row in board.rows
        for name in _names_of_row(board, row)
    }
    if unknown := [name for name in names if name not in known]:
        rows = ", ".join(dict.fromkeys(known.values()))
        raise UsageError("--rows", expected=f"among {rows}", found=", ".join(unknown))
    chosen = (
        replace(
            board,
            rows=tuple(row for row in board.rows if {*names} & {*_names_of_row(board, row)}),
        )
        for board in boards
    )
    return [board for board in chosen if board.rows]


def _names_of_row(board: Definition, row: BoardRow) -> tuple[str, str]:
    return row.row, f"{board.paper}/{board.table}: {row.row}"


def _may_be_of(path: Path, paper: str = "") -> bool:
    """Return True if a file that cannot be read may be a board, of a paper if one is given."""
    stated = _stated(path)
    is_board = not stated or bool({"paper", "table", "columns", "rows"} & {*stated})
    return is_board and (not paper or stated.get("paper", paper) == paper)


def _stated(path: Path) -> Mapping[str, Any]:
    """Return the keys of a file; none if it is not TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
