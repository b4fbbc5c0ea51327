"""Progress on a terminal: samples a second, the running score, failures so far."""

from contextlib import AbstractContextManager, nullcontext
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.progress import Task as Bar
from rich.table import Column
from rich.text import Text

from harness.cli.output import note
from harness.errors import one_line
from harness.run.options import NullProgress, Progress


class Speed(ProgressColumn):
    """Samples a second."""

    def render(self, task: Bar) -> Text:
        """Draw the number."""
        return Text(f"{task.speed:6.2f}/s" if task.speed else "     –/s", style="cyan")


def title_column() -> TextColumn:
    """Return the column of a bar's title as it is, shortened on a narrow terminal."""
    place = Column(no_wrap=True, overflow="ellipsis", ratio=2)
    return TextColumn("{task.description}", markup=False, table_column=place)


class DrawnBars:
    """Bars on standard error, and notes above them."""

    def __init__(self, *columns: ProgressColumn, expand: bool = False) -> None:
        self._console = Console(stderr=True)
        self._bars = Bars(title_column(), *columns, console=self._console, expand=expand)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.stop()

    def note(self, text: str) -> None:
        """Show a note to the user."""
        self._console.print(Text(one_line(f"note: {text}"), style="yellow"))

    def end(self) -> None:
        """Draw the bars a last time."""
        self._bars.refresh()


class ProgressBars(DrawnBars):
    """Draws one bar a task."""

    def __init__(self) -> None:
        super().__init__(
            BarColumn(bar_width=10),
            MofNCompleteColumn(),
            Speed(),
            TextColumn("{task.fields[headline]}", table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[failed]}", table_column=Column(no_wrap=True)),
            TimeRemainingColumn(compact=True),
            expand=True,
        )
        self._failed = 0
        self._all: TaskID | None = None

    def expect(self, runs: int, samples: int) -> None:
        """Draw a bar of all runs together, with the time that is left for them."""
        if runs > 1:
            title = f"all {runs} runs"
            self._all = self._bars.add_task(title, total=samples, headline="", failed="")

    def start(self, name: str, total: int, done: int) -> None:
        """A task begins."""
        self._failed = 0
        self._id = self._bars.add_task(
            one_line(name), total=total, completed=done, headline="", failed=""
        )
        if self._all is not None and done:  # what was done before tells nothing about the speed
            whole = self._bars.tasks[self._bars.task_ids.index(self._all)].total or 0
            self._bars.update(self._all, total=whole - done)

    def advance(self, samples: int, failed: int, headline: float | None) -> None:
        """A batch is finished."""
        self._failed += failed
        if self._all is not None:
            self._bars.advance(self._all, samples)
        self._bars.update(
            self._id,
            advance=samples,
            headline="" if headline is None else f"score {headline:.4f}",
            failed=f"{self._failed} failed" if self._failed else "",
        )


class TitledProgress:
    """Progress of one run; the bar's title holds its number, its task and its model."""

    def __init__(self, inner: Progress, title: str) -> None:
        self._inner, self._title = inner, title
        self.advance, self.note, self.end = inner.advance, inner.note, inner.end

    def start(self, name: str, total: int, done: int) -> None:
        """The run begins."""
        self._inner.start(self._title, total, done)


class LineProgress(NullProgress):
    """No bars; notes go to standard error."""

    def expect(self, runs: int, samples: int) -> None:
        """Say nothing."""

    def note(self, text: str) -> None:
        """Something that the user should know."""
        note(text)


def progress(*, quiet: bool) -> AbstractContextManager[LineProgress | ProgressBars]:
    """Return the progress of runs on a terminal: bars, unless it is to be quiet."""
    return nullcontext(LineProgress()) if quiet else ProgressBars()
