"""Boards as data: the rows, columns and trainings of a table, in one TOML file each.

    paper = "dr2seg"                       # with `table` the board's name
    table = "3"
    title = "rewards"
    metrics = ["reasoning_tokens"]         # beside the tasks' own (`harness eval --metrics`)
    columns = [
        {task = "reason_seg(split=val)", metrics = ["gIoU"], parts = ["", "length=short"]},
        {task = "refcoco(split=testA)", metrics = ["gIoU"], published = ["IoU"], subset = "first9"},
        {benchmark = "segmentation average", metrics = ["gIoU"]},   # published only
    ]
    rows = [{row = "DR2Seg", model = "dr2seg(checkpoint={dr2seg_7b},…)"}, {row = "LISA"}]

    [trainings.dr2seg_7b]                  # what `{dr2seg_7b}` stands for
    method = "dr2seg"
    config = "qwen2_5_vl_7b_zero_shot"     # of the method's folder
    start = "dr2seg(checkpoint={other},…)" # without: the configuration's model
    set = ["ratings=difficulty.jsonl"]
    processes = 8

`published` are the paper's words for the metrics, where they differ; `parts` are `category=value`
of the task's breakdown. A row without `model` is not made here; one with `tasks` is evaluated on
these alone. `row`, and `backbone` where the paper has several, name the paper's row.
A package of its own brings boards by an entry point in `harness.boards`: a function that returns
the folder of its files.
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

from harness import plugins
from harness.errors import DataError, HarnessError, UsageError
from harness.leaderboards.published_results import PAPERS, PublishedResult, published_results
from harness.papers import same_value
from harness.spec import Spec, parse

T = TypeVar("T")
FOLDER = Path(__file__).parent / "boards"
SLOT = re.compile(r"\{(\w+)\}")
"""Name of a training in a SPEC, in the place of its checkpoint."""
RUN_BY = frozenset({"backend", "batch_size", "segmenter", "propagator", "sampler", "nodes", "seed"})
"""Arguments that say with which parts a method is run: others make another method's row."""


@cache
def _usual(task: str) -> tuple[str, str]:
    """Return a task's default split and protocol; empty texts where it has no card."""
    card = plugins.find_card(task)
    return (card.default_split, card.protocol) if card else ("", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Numbers of one task; several metrics and parts make several columns of the table."""

    task: str = ""
    """SPEC; empty: an average over tasks, which is only published."""
    benchmark: str = ""
    subset: str | None = None
    metrics: tuple[str, ...]
    published: tuple[str, ...] = ()
    parts: tuple[str, ...] = ("",)

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
        """The split of the SPEC, or the task's default; empty without a task or a card."""
        if not self.task:
            return ""
        usual = _usual(self.name)[0]
        return str(parse(self.task).arguments.get("split", usual))

    @property
    def protocol(self) -> str:
        """The protocol of the SPEC, or the task's default; empty where neither says so."""
        known = parse(self.task).arguments if self.task else {}
        usual = "" if "form" in known else _usual(self.name)[1]
        return str(known.get("protocol", usual))


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRow:
    """A method."""

    row: str
    backbone: str = ""
    model: str = ""
    """SPEC, with `{name}` in the place of a training's folder; empty: not made here."""
    tasks: tuple[str, ...] = ()
    """Names of the tasks that this SPEC is of; none: all."""


@cache
def _trainer_folder(method: str) -> Path | None:
    entry = plugins.installed_plugins("trainers").get(method)
    return plugins.folder(entry) if entry is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStep:
    """A training that a row needs."""

    method: str
    config: str
    start: str = ""
    set: tuple[str, ...] = ()
    processes: int = 1

    @property
    def path(self) -> Path | None:
        """The configuration's file; None if the method or the file is not installed."""
        folder = _trainer_folder(self.method)
        path = folder / "configs" / f"{self.config}.toml" if folder is not None else None
        return path if path is not None and path.is_file() else None

    def read(self) -> dict[str, Any]:
        """Return what the configuration says, options of `harness train` too.

        Raises:
            DataError: it is not there.
        """
        path = self.path
        if path is None:
            raise DataError(
                f"configuration {self.config} of {self.method}", expected="a file", found="none"
            )
        return tomllib.loads(path.read_text(encoding="utf-8"))


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
    report: str = ""
    """`adaptation`: the table is that of `harness board adaptation`."""
    file: Path | None = None
    """Its file, where it was read from one."""

    @property
    def heading(self) -> str:
        """Title with the paper and the table, where it is a paper's."""
        if self.paper not in PAPERS:
            return self.title
        return f"{PAPERS[self.paper]}, Table {self.table}: {self.title}"

    @property
    def results(self) -> tuple[PublishedResult, ...]:
        """The numbers of the paper's table, and those of it that stand in the prose alone."""
        return _results(self.paper, self.table)

    def printed(self, row: BoardRow, column: Column, part: str, word: str) -> list[PublishedResult]:
        """Return the paper's numbers in one cell: one, or none; of a board that is no paper's,
        none.
        """
        task, split = (column.name, column.split) if column.task else ("", None)
        return [
            one
            for one in self.results
            if one.row == row.row
            and (one.backbone == row.backbone or not row.backbone)
            and (one.task, one.part, one.metric) == (task, part, word)
            and (split in (None, one.split) if task else one.benchmark == column.benchmark)
        ]


@cache
def _results(paper: str, table: str) -> tuple[PublishedResult, ...]:
    found = published_results(paper) if paper in PAPERS else ()
    return tuple(one for one in found if one.table.removeprefix("text ") == table)


def read(path: Path) -> Definition:
    """Read a board's file.

    Raises:
        DataError: it is no TOML, or a key is missing, unknown or of another type.
    """
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
        made = _made(Definition, plain)
        lists = {
            "columns": tuple(_made(Column, one) for one in plain["columns"]),
            "rows": tuple(_made(BoardRow, one) for one in plain["rows"]),
            "trainings": {
                name: _made(TrainingStep, one) for name, one in plain.get("trainings", {}).items()
            },
        }
        made = _made(Definition, {**plain, **lists, "file": path})
        needed = [*(row.model for row in made.rows), *(t.start for t in made.trainings.values())]
        if missing := {name for text in needed for name in SLOT.findall(text)} - {*made.trainings}:
            raise ValueError(f"no training {min(missing)}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"board {path}",
            expected="the form in harness/leaderboards/definitions.py",
            found=f"{type(error).__name__}: {error}",
        ) from error
    return made


def _made(kind: type[T], plain: Mapping[str, Any]) -> T:
    """Return an object of a table's keys, lists as tuples; unknown keys raise TypeError."""
    known = {one.name: one.type for one in fields(kind)}  # type: ignore[arg-type]
    for name, value in plain.items():
        if known.get(name) is str and not isinstance(value, str):
            raise TypeError(f"{name} is {value!r}, not a text")
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in plain.items()})


def papers() -> Path:
    """Return the folder of the boards that come with harness."""
    return FOLDER


@cache
def definitions(folder: Path | None = None) -> tuple[Definition, ...]:
    """Return the boards of a folder, or of all plugins.

    Raises:
        DataError: a file is not in the form, or two boards have one name.
    """
    installed = sorted(plugins.installed_plugins("boards"))
    folders = [folder] if folder else [plugins.load("boards", name)() for name in installed]
    found: dict[tuple[str, str], Definition] = {}
    for path in sorted(path for one in folders for path in Path(one).glob("*.toml")):
        made = read(path)
        if found.setdefault((made.paper, made.table), made) is not made:
            raise DataError(f"board {path}", expected="a name of its own", found=made.heading)
    return tuple(found.values())


def find(paper: str, table: str) -> Definition:
    """Return the board of a paper's table; `paper` may also be a folder of boards.

    Raises:
        UsageError: there is none; those that there are are named.
    """
    folder = Path(paper) if Path(paper).is_dir() else None
    known = definitions(folder)
    of_paper = [one for one in known if folder or one.paper == paper]
    for one in of_paper:
        if one.table == table:
            return one
    if not of_paper:
        names = ", ".join(dict.fromkeys(one.paper for one in known))
        raise UsageError(
            f"paper {paper!r}", expected=f"{names}, or a folder of boards", found=paper
        )
    tables = ", ".join(sorted((one.table for one in of_paper), key=_natural))
    raise UsageError(f"table {table!r} of {paper}", expected=f"one of {tables}", found=table)


def _natural(text: str) -> tuple[str, int]:
    letters = text.rstrip("0123456789")
    return letters, int(text[len(letters) :] or 0)


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
        is run (RUN_BY). Of checkpoints and trainings the last parts of their paths count.
        """
        try:
            return _is_same(parse(model_spec), self.spec)
        except UsageError:
            return False


@cache
def methods() -> tuple[Method, ...]:
    """Return the method of every row of the installed boards, variants of ablations last."""
    found = [method for one in definitions() for method in methods_of(one)]
    return tuple(sorted(found, key=lambda method: "[" in method.row.row))


def methods_of(definition: Definition) -> list[Method]:
    """Return the method of every row of a board that is made here."""
    return [
        Method(definition=definition, row=row, spec=parse(SLOT.sub(r"\1", row.model)))
        for row in definition.rows
        if row.model
    ]


def _is_same(used: Spec, wanted: Spec) -> bool:
    if used.name != wanted.name:
        return False
    names = (used.arguments.keys() | wanted.arguments.keys()) - RUN_BY
    pairs = [
        [one.arguments.get(name, _default(one.name, name)) for one in (used, wanted)]
        for name in names
    ]
    return all(
        _is_same(a, b) if isinstance(a, Spec) and isinstance(b, Spec) else same_value(a, b)
        for a, b in pairs
    )


@cache
def _default(model: str, name: str) -> Any:
    """Return the default of a model's argument; None where there is none."""
    with suppress(HarnessError):
        known = inspect.signature(plugins.load("models", model)).parameters.get(name)
        if known is not None and known.default is not inspect.Parameter.empty:
            return known.default
    return None
