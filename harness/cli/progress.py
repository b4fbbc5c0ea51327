"""Progress on a terminal: one bar for each run, and one for all runs together.

A bar shows samples per second, the score and the failures so far, the time passed and left.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TaskID, TextColumn
from rich.progress import Progress as Bars
from rich.progress import Task as Bar
from rich.table import Column
from rich.text import Text

from harness.cli.output import note
from harness.errors import one_line
from harness.run.options import NullProgress


def speed(bar: Bar) -> float | None:
    """Return steps per second since the bar began; None before the first step.

    Steps done before the bar began (its field `before`) do not count. The time until the first
    steps, in which a model may be loaded, counts at first; once as much time has passed again, the
    speed is that since the first steps (field `first`: seconds until then, steps done then). A
    full bar's speed is the average over all its steps.
    """
    done = bar.completed - bar.fields.get("before", 0)
    elapsed = bar.finished_time or bar.elapsed or 0.0
    first_seconds, first_done = bar.fields.get("first") or (elapsed, 0)
    if elapsed - first_seconds > first_seconds and not bar.finished:
        done, elapsed = bar.completed - first_done, elapsed - first_seconds
    return done / elapsed if done > 0 and elapsed else None


def clock(seconds: float) -> str:
    """Return a time as minutes and seconds, with hours if there are any.

    >>> clock(79.4), clock(3600)
    ('1:19', '1:00:00')
    """
    minutes, seconds = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{seconds:02}"
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


class Speed(ProgressColumn):
    """Column with the samples per second."""

    def render(self, task: Bar) -> Text:
        """Draw the number."""
        rate = speed(task)
        return Text("–/s" if rate is None else f"{rate:.3g}/s", style="cyan", justify="right")


class Times(ProgressColumn):
    """Column with the time since the bar began, and the time left at the speed so far."""

    def render(self, task: Bar) -> Text:
        """Draw `1:19, 0:40 left`, or `1:19` if the time left is unknown or the bar is full."""
        seconds = task.finished_time if task.finished else task.elapsed
        elapsed, rate = clock(seconds or 0.0), speed(task)
        if rate is None or task.remaining is None or task.finished:
            return Text(elapsed, style="cyan")
        return Text(f"{elapsed}, {clock(task.remaining / rate)} left", style="cyan")


def times_column() -> Times:
    """Return the column of times, which a narrow terminal does not shorten."""
    return Times(table_column=Column(no_wrap=True))


def title_column() -> TextColumn:
    """Return the column of a bar's title, without markup; a narrow terminal shortens it."""
    column = Column(no_wrap=True, overflow="ellipsis", ratio=2)
    return TextColumn("{task.description}", markup=False, table_column=column)


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

    def _moved(self, bar: TaskID) -> None:
        """Remember when a bar moved first, for its speed."""
        task = self._bars.tasks[self._bars.task_ids.index(bar)]
        if task.fields.get("first") is None:
            self._bars.update(bar, first=(task.elapsed or 0.0, task.completed))

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
            Speed(table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[headline]}", table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[failed]}", table_column=Column(no_wrap=True)),
            times_column(),
            expand=True,
        )
        self._all: TaskID | None = None

    def expect(self, runs: int, samples: int) -> None:
        """Begin a bar of all runs together, if there are several; `samples` is their total."""
        if runs > 1:
            title = f"all {runs} runs"
            self._all = self._bars.add_task(title, total=samples, headline="", failed="")

    def start(self, name: str, total: int, done: int) -> None:
        """Begin the bar of a run with `total` samples, `done` of which are there already."""
        self._id = self._bars.add_task(
            one_line(name), total=total, completed=done, before=done, headline="", failed=""
        )
        if self._all is not None and done:  # what was done before tells nothing about the speed
            total_samples = self._bars.tasks[self._bars.task_ids.index(self._all)].total or 0
            self._bars.update(self._all, total=total_samples - done)

    def advance(self, samples: int, failed: int, headline: float | None) -> None:
        """Add a finished batch; `failed` samples of the run have no answer so far."""
        if self._all is not None:
            self._bars.advance(self._all, samples)
            self._moved(self._all)
        self._bars.update(
            self._id,
            advance=samples,
            headline="" if headline is None else f"score {headline:.4f}",
            failed=f"{failed} failed" if failed else "",
        )
        self._moved(self._id)


class LineProgress(NullProgress):
    """No bars; notes go to standard error."""

    def expect(self, runs: int, samples: int) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Print a note on standard error."""
        note(text)


def progress(*, quiet: bool) -> AbstractContextManager[LineProgress | ProgressBars]:
    """Return the progress of runs on a terminal: bars, or only notes if it should be quiet."""
    return nullcontext(LineProgress()) if quiet else ProgressBars()
