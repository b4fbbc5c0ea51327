"""Progress of a training on a terminal: steps a second, reward or loss, remaining time."""

import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.text import Text

from harness.cli.progress import Speed, title_column
from harness.errors import printable

FIRST = {"reward": "reward {:.3f}", "loss": "loss {:.4f}"}
"""Formats of the number to show; the first that is logged counts, as the loss of responses that
were just drawn is 0 whatever is learned."""
RATE = "learning_rate"


class StepBars:
    """Draws a bar for each thing that has steps, on standard error."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bars = Bars(
            title_column(),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            Speed(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(compact=True),
            console=self._console,
        )

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def start(self, name: str, total: int, done: int) -> None:
        """Steps begin."""
        self._id = self._bars.add_task(name, total=total, completed=done, numbers="")

    def step(self, done: int, numbers: Mapping[str, float]) -> None:
        """Show that `done` steps are made."""
        shown = [text.format(numbers[name]) for name, text in FIRST.items() if name in numbers][:1]
        if RATE in numbers:
            shown.append(f"lr {numbers[RATE]:.1e}")
        self._bars.update(self._id, completed=done, numbers="  ".join(shown))

    def note(self, text: str) -> None:
        """Something that the user should know."""
        self._console.print(Text(printable(f"note: {text}"), style="yellow"))

    def end(self) -> None:
        """The steps are made."""
        self._bars.refresh()


class TrainingLines:
    """Progress without bars; notes go to standard error, unless another process prints them."""

    def __init__(self, *, speaking: bool = True) -> None:
        self._speaking = speaking

    def start(self, name: str, total: int, done: int) -> None:
        """Say nothing."""

    def step(self, done: int, numbers: Mapping[str, float]) -> None:
        """Say nothing."""

    def note(self, text: str) -> None:
        """Something that the user should know."""
        if self._speaking:
            print(printable(f"note: {text}"), file=sys.stderr)

    def end(self) -> None:
        """Say nothing."""
