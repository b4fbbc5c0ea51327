"""Boards as data: the rows, columns and trainings of a table, in one TOML file each.

docs/published.md has an example; the keys are the fields of the classes below. A preset is replaced
by its SPEC when a file is read. A package brings boards by an entry point in `harness.boards`: a
function that returns the folder of its files.
"""

import inspect
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from harness import plugins, presets
from harness.errors import DataError, HarnessError, UsageError
from harness.leaderboards.published_results import (
    PublishedResult,
    papers,
    published_results,
    title_of,
)
from harness.papers import same_value
from harness.spec import Spec, Value, parse

T = TypeVar("T")
SLOT = re.compile(r"\{(\w+)\}")
"""Name of a training in a SPEC, in the place of its checkpoint."""
RUN_BY = frozenset(
    {"backend", "batch_size", "segmenter", "propagator", "sampler", "nodes", "seed", "offload"}
)
"""Arguments that say with which parts a method is run: others make another method's row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Numbers of one task; each metric of each part is a column of the table."""

    task: str = ""
    """SPEC; empty: an average over tasks, which is only published."""
    benchmark: str = ""
    """The paper's name of an average."""
    subset: str | None = None
    judge: str = ""
    """SPEC of the judge of a task whose answers are graded."""
    metrics: tuple[str, ...]
    published: tuple[str, ...] = ()
    """The paper's words for the metrics, where they differ."""
    parts: tuple[str, ...] = ("",)
    """`category=value` of the task's breakdown; empty: all samples."""

    @property
    def heads(self) -> Iterator[tuple[str, str, str]]:
        """Yield part, metric and the paper's word for the metric."""
        words = self.published or self.metrics
        for part in self.parts:
            yield from ((part, *pair) for pair in zip(self.metrics, words, strict=True))

    @property
    def name(self) -> str:
        """Name of the task, or of the average."""
        return parse(self.task).name if self.task else self.benchmark

    @property
    def split(self) -> str:
        """The split of the SPEC, or the task's default."""
        return self._argument("split", 0)

    @property
    def protocol(self) -> str:
        """The protocol of the SPEC, or the task's default; empty where neither says so."""
        return "" if "form=" in self.task else self._argument("protocol", 1)

    def _argument(self, name: str, place: int) -> str:
        given = parse(self.task).arguments if self.task else {}
        return str(given.get(name) or _usual(self.name)[place])


@cache
def _usual(task: str) -> tuple[str, str]:
    """Return a task's default split and protocol; without a card the split of its signature."""
    card = plugins.find_card(task)
    if card:
        return card.default_split, card.protocol
    with suppress(HarnessError):  # an average, or a task that is not installed
        split = inspect.signature(plugins.load("tasks", task)).parameters.get("split")
        if split and isinstance(split.default, str):
            return split.default, ""
    return "", ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRow:
    """A method; its name and backbone are those of the paper's row."""

    row: str
    backbone: str = ""
    """Backbone, for rows of the paper that share a name."""
    model: str = ""
    """SPEC, with `{name}` in the place of a training's folder; empty: not made here."""
    tasks: tuple[str, ...] = ()
    """Names of the tasks that this SPEC is of; none: all."""

    package: str = ""
    """Package that this SPEC needs: it is run where that is installed, beside any other SPEC of the
    row."""

    def is_of(self, column: Column) -> bool:
        """Return True if the row is evaluated for a column."""
        return not self.tasks or column.name in self.tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStep:
    """A training that a row needs."""

    method: str
    config: str
    start: str = ""
    """SPEC of the model that it begins with; empty: the configuration's."""
    set: tuple[str, ...] = ()
    processes: int = 1
    machines: int = 1
    """Machines that share the processes evenly."""

    @property
    def folder(self) -> Path:
        """Folder of the method's configurations."""
        return _configurations(self.method)

    def read(self) -> dict[str, Any]:
        """Return what the configuration says, options of `harness train` too.

        Raises:
            DataError: it is not there.
        """
        try:
            path = self.folder / f"{self.config}.toml"
            return tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise DataError(
                f"configuration {self.config} of {self.method}", expected="a file", found=str(error)
            ) from error


@cache
def _configurations(method: str) -> Path:
    entry = plugins.installed_plugins("trainers").get(method)
    return ((plugins.folder(entry) if entry is not None else None) or Path(method)) / "configs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A board."""

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

    @property
    def heading(self) -> str:
        """Title with the paper and the table, where it is a paper's."""
        where = f"{title_of(self.paper)}, Table {self.table}: " if self.paper in papers() else ""
        return where + self.title

    def printed(
        self, row: BoardRow, column: Column, part: str, word: str
    ) -> tuple[PublishedResult, ...]:
        """Return the paper's numbers in one cell: one or none."""
        place = (row.row, part, word, column.name if column.task else "")
        return tuple(
            result
            for result in _results(self.paper, self.table)
            if (result.row, result.part, result.metric, result.task) == place
            and row.backbone in ("", result.backbone)
            and (
                result.split == column.split
                if column.task
                else result.benchmark == column.benchmark
            )
        )


@cache
def _results(paper: str, table: str) -> tuple[PublishedResult, ...]:
    """The numbers of a table, and those of it that stand in the prose alone."""
    results = published_results(paper)
    return tuple(result for result in results if result.table.removeprefix("text ") == table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A board's row as the method that it measures."""

    definition: Definition
    row: BoardRow
    spec: Spec
    """Its model, with the name of a training in the place of its checkpoint."""

    def is_of(self, model_spec: str) -> bool:
        """Return True if a measured model is this method.

        It has the same name and arguments, given or by default, but for those with which a method
        is run (RUN_BY); of a row whose network is its backend's, that network too. Of checkpoints
        and trainings the last parts of their paths count.
        """
        try:
            return is_same(parse(model_spec), self.spec)
        except UsageError:
            return False


def is_same(used: Spec, wanted: Spec) -> bool:
    """Return True if two models are one method; see `Method.is_of`."""
    if used.name != wanted.name or _served(used) != _served(wanted):
        return False
    for name in (used.arguments.keys() | wanted.arguments.keys()) - RUN_BY:
        a, b = (spec.arguments.get(name, _default(spec.name, name)) for spec in (used, wanted))
        both = isinstance(a, Spec) and isinstance(b, Spec)
        if not (is_same(a, b) if both else same_value(a, b)):
            return False
    network = _network(wanted)
    return network is None or same_value(_network(used), network)


def _network(spec: Spec) -> Value:
    """Return the network that the backend of a SPEC names, where the SPEC itself names none."""
    backend = spec.arguments.get("backend")
    if spec.arguments.get("checkpoint") is not None or not isinstance(backend, Spec):
        return None
    return backend.arguments.get("checkpoint") or backend.arguments.get("model")


def _served(spec: Spec) -> str:
    """Return the network that a backend names, of a model that names none itself; else empty."""
    backend = spec.arguments.get("backend")
    if "checkpoint" in spec.arguments or not isinstance(backend, Spec):
        return ""
    names = (backend.arguments.get(name) for name in ("model", "name", "checkpoint"))
    return str(next((name for name in names if name), "")).rpartition("/")[2]


@cache
def _default(model: str, name: str) -> Any:
    """Return the default of a model's argument; None where there is none."""
    with suppress(HarnessError):
        known = inspect.signature(plugins.load("models", model)).parameters.get(name)
        if known is not None and known.default is not inspect.Parameter.empty:
            return known.default
    return None


def methods_of(definition: Definition) -> list[Method]:
    """Return the method of every row of a board that is made here."""
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
        trainings = plain.get("trainings", {}).items()
        parts = {
            "columns": tuple(_from_table(Column, column) for column in plain["columns"]),
            "rows": tuple(_from_table(BoardRow, _resolved(row, "model")) for row in plain["rows"]),
            "trainings": {
                name: _from_table(TrainingStep, _resolved(step, "start"))
                for name, step in trainings
            },
        }
        definition = _from_table(Definition, {**plain, **parts, "file": path})
        named = [
            *(row.model for row in definition.rows),
            *(t.start for t in definition.trainings.values()),
        ]
        slots = {slot for text in named for slot in SLOT.findall(text)}
        if missing := slots - {*definition.trainings}:
            raise ValueError(f"no training {min(missing)}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"board {path}",
            expected="the form in docs/published.md",
            found=f"{type(error).__name__}: {error}",
        ) from error
    return definition


def _resolved(plain: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a table with a preset under a key replaced by its SPEC."""
    text = plain.get(key)
    if not text or not isinstance(text, str):
        return plain
    return {**plain, key: str(presets.resolve(parse(text)))}


def _from_table(kind: type[T], plain: Mapping[str, Any]) -> T:
    """Return an object of a table's keys, lists as tuples; unknown keys raise TypeError."""
    for attribute in fields(kind):  # type: ignore[arg-type]
        if attribute.type is str and not isinstance(plain.get(attribute.name, ""), str):
            raise TypeError(f"{attribute.name} is {plain[attribute.name]!r}, not a text")
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in plain.items()})


def shipped() -> Path:
    """Return the folder of the boards that come with harness."""
    return Path(__file__).parent / "boards"


@cache
def definitions(folder: Path | None = None) -> tuple[Definition, ...]:
    """Return the boards of a folder, or of all plugins.

    Raises:
        DataError: a file is not in the form, or two boards have one name.
    """
    folders = (folder,) if folder else plugins.data_folders("boards")
    by_table: dict[tuple[str, str], Definition] = {}
    for path in sorted(path for parent in folders for path in parent.glob("*.toml")):
        definition = read(path)
        if by_table.setdefault((definition.paper, definition.table), definition) is not definition:
            raise DataError(f"board {path}", expected="a unique name", found=definition.heading)
    return tuple(by_table.values())


def find(paper: str, table: str) -> Definition:
    """Return the board of a paper's table; `paper` may also be a folder of boards.

    Raises:
        UsageError: there is none; those that there are are named.
    """
    known = definitions()
    tables = {definition.table: definition for definition in known if definition.paper == paper}
    if not tables and Path(paper).is_dir():  # a training's folder may have a paper's name
        tables = {definition.table: definition for definition in definitions(Path(paper))}
    if not tables:
        names = [*dict.fromkeys(definition.paper for definition in known), "or a folder of boards"]
        raise UsageError(f"paper {paper!r}", expected=", ".join(names), found=paper)
    if table not in tables:
        names = sorted(tables, key=lambda text: (len(text), text))
        raise UsageError(f"table {table!r} of {paper}", expected=", ".join(names), found=table)
    return tables[table]
