"""Progress of a training: a bar on a terminal, else a line a step; both with what to watch."""

import sys
import time
from collections.abc import Iterator, Mapping

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

from harness.cli.progress import DrawnBars, LineProgress, clock, times_column
from harness.errors import counted, one_line

SHOWN: Mapping[str, str] = {
    "reward": "reward {:.3f}",
    "loss": "loss {:.4f}",
    "kl": "kl {:.4f}",
    "entropy": "entropy {:.2f}",
    "completions/mean_length": "length {:.0f}",
    "completions/clipped_ratio": "cut {:.0%}",
    "frac_reward_zero_std": "zero variance {:.0%}",
    "frac_reward_errors": "rewards failed {:.0%}",
    "grad_norm": "grad {:.2g}",
    "learning_rate": "lr {:.1e}",
    "perf/tokens_per_second": "{:.0f} tok/s",
}
"""Numbers that are shown of a step, with their formats."""
PART, TOTAL = "rewards/", "rewards/total"
TIMING = "timing_s/"
MEMORY = ("perf/max_memory_allocated_gb", "perf/max_memory_resident_gb")


def shown(numbers: Mapping[str, float]) -> Iterator[str]:
    """Yield what a step says, in the order in which it is read."""
    for name, text in SHOWN.items():
        if name in numbers:
            yield text.format(numbers[name])
        if name == "reward" and (parts := ", ".join(_parts(numbers))):
            yield f"({parts})"
    if "clip_ratio/low_mean" in numbers:
        low, high = (numbers[f"clip_ratio/{end}_mean"] for end in ("low", "high"))
        yield f"clip {low:.1%} low, {high:.1%} high"
    if "step_time" in numbers:
        yield f"{numbers['step_time']:.1f} s" + _shares(numbers)
    for name in MEMORY:
        if name in numbers:
            yield f"{numbers[name]:.1f} GB"


def _parts(numbers: Mapping[str, float]) -> Iterator[str]:
    """Yield the components of the reward."""
    for name, number in numbers.items():
        if name.startswith(PART) and name.count("/") == 1 and name != TOTAL:
            yield f"{name.removeprefix(PART)} {number:.2f}"


def _shares(numbers: Mapping[str, float]) -> str:
    """Return the shares of a step's time."""
    whole = numbers["step_time"]
    shares = [
        f"{name.removeprefix(TIMING)} {seconds / whole:.0%}"
        for name, seconds in numbers.items()
        if name.startswith(TIMING) and whole
    ]
    return f" ({', '.join(shares)})" if shares else ""


class StepBars(DrawnBars):
    """Draws a bar for each thing that has steps, and a line a step above it."""

    def __init__(self) -> None:
        super().__init__(
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            times_column(),
        )

    def start(self, name: str, total: int, done: int) -> None:
        """Steps begin."""
        self._id = self._bars.add_task(
            one_line(name), total=total, completed=done, before=done, numbers=""
        )

    def step(self, done: int, numbers: Mapping[str, float]) -> None:
        """Show that `done` steps are made."""
        if said := "  ".join(shown(numbers)):
            self._console.print(f"step {done}  {said}", markup=False, highlight=False)
        self._bars.update(self._id, completed=done)
        self._moved(self._id)


class TrainingLines(LineProgress):
    """A line a step on standard error, at once; notes too, unless another process prints them.

    `quiet` leaves the steps out.
    """

    def __init__(self, *, speaking: bool = True, quiet: bool = True) -> None:
        self._speaking, self._quiet = speaking, quiet
        self._total, self._first, self._began = 0, 0, time.monotonic()

    def start(self, name: str, total: int, done: int) -> None:
        """Steps begin."""
        self._total, self._first, self._began = total, done, time.monotonic()
        if self._speaking and not self._quiet:
            print(f"{name}: {counted(total, 'step')}, {done} done", file=sys.stderr, flush=True)

    def step(self, done: int, numbers: Mapping[str, float]) -> None:
        """Print a step's numbers, and the time that is left."""
        said = list(shown(numbers))
        if self._quiet or not self._speaking or not said:
            return
        elapsed = time.monotonic() - self._began
        left = elapsed / max(1, done - self._first) * max(0, self._total - done)
        times = f"{clock(elapsed)}, {clock(left)} left"
        line = "  ".join([f"step {done}/{self._total}", *said, times])
        print(line, file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        """Something that the user should know."""
        if self._speaking:
            super().note(text)
