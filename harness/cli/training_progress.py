"""Progress of a training on a terminal: steps a second, reward or loss, remaining time."""

from collections.abc import Mapping

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from harness.cli.progress import DrawnBars, LineProgress, Speed
from harness.errors import one_line

FIRST = {"reward": "reward {:.3f}", "loss": "loss {:.4f}"}
"""Formats of the number to show; the first that is logged counts, as the loss of responses that
were just drawn is 0 whatever is learned."""
RATE = "learning_rate"


class StepBars(DrawnBars):
    """Draws a bar for each thing that has steps."""

    def __init__(self) -> None:
        super().__init__(
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            Speed(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(compact=True),
        )

    def start(self, name: str, total: int, done: int) -> None:
        """Steps begin."""
        self._id = self._bars.add_task(one_line(name), total=total, completed=done, numbers="")

    def step(self, done: int, numbers: Mapping[str, float]) -> None:
        """Show that `done` steps are made."""
        shown = [text.format(numbers[name]) for name, text in FIRST.items() if name in numbers][:1]
        if RATE in numbers:
            shown.append(f"lr {numbers[RATE]:.1e}")
        self._bars.update(self._id, completed=done, numbers="  ".join(shown))


class TrainingLines(LineProgress):
    """Progress without bars; notes go to standard error, unless another process prints them."""

    def __init__(self, *, speaking: bool = True) -> None:
        self._speaking = speaking

    def step(self, done: int, numbers: Mapping[str, float]) -> None:
        """Say nothing."""

    def note(self, text: str) -> None:
        """Something that the user should know."""
        if self._speaking:
            super().note(text)
