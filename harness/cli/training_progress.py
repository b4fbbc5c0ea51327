"""Progress of a training with the logged numbers of each step: a bar on a terminal, else lines."""

import sys
import time
from collections.abc import Iterator, Mapping

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

from harness.cli.progress import DrawnBars, LineProgress, clock, times_column
from harness.errors import counted, one_line

FORMATS: Mapping[str, str] = {
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
"""Numbers of a step that are shown, by their names in the log, with their formats."""
REWARD_PREFIX, TOTAL = "rewards/", "rewards/total"  # `rewards/accuracy` is one component
TIMING_PREFIX = "timing_s/"  # `timing_s/generation`: seconds of a step in a part of it
MEMORY = ("perf/max_memory_allocated_gb", "perf/max_memory_resident_gb")
"""Numbers in GB, of which those that are logged are shown."""


def formatted_numbers(numbers: Mapping[str, float]) -> Iterator[str]:
    """Yield the texts that are shown of a step's numbers, in the order of `FORMATS`."""
    for name, text in FORMATS.items():
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
    """Yield the components of the reward: `accuracy 0.50`."""
    for name, number in numbers.items():
        if name.startswith(REWARD_PREFIX) and name.count("/") == 1 and name != TOTAL:
            yield f"{name.removeprefix(REWARD_PREFIX)} {number:.2f}"


def _shares(numbers: Mapping[str, float]) -> str:
    """Return the shares of a step's time by part: ` (generation 80%, update 20%)`, or ""."""
    total_seconds = numbers["step_time"]
    shares = [
        f"{name.removeprefix(TIMING_PREFIX)} {seconds / total_seconds:.0%}"
        for name, seconds in numbers.items()
        if name.startswith(TIMING_PREFIX) and total_seconds
    ]
    return f" ({', '.join(shares)})" if shares else ""


class StepBars(DrawnBars):
    """Draws a bar for each phase of a training, and above it one line for each step."""

    def __init__(self) -> None:
        super().__init__(
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            times_column(),
        )

    def start(self, name: str, total: int, done: int) -> None:
        """Begin the bar of a phase with `total` steps, `done` of which were made before."""
        self._id = self._bars.add_task(
            one_line(name), total=total, completed=done, before=done, numbers=""
        )

    def step(self, done: int, numbers: Mapping[str, float]) -> None:
        """Print a step's numbers, and advance the bar to `done` steps."""
        if numbers_text := "  ".join(formatted_numbers(numbers)):
            self._console.print(f"step {done}  {numbers_text}", markup=False, highlight=False)
        self._bars.update(self._id, completed=done)
        self._moved(self._id)


class TrainingLines(LineProgress):
    """Prints one line for each step on standard error, and notes.

    Without `speaking` nothing is printed (another process does); `quiet` leaves the steps out.
    """

    def __init__(self, *, speaking: bool = True, quiet: bool = True) -> None:
        self._speaking, self._quiet = speaking, quiet
        self._total, self._first, self._began = 0, 0, time.monotonic()

    def start(self, name: str, total: int, done: int) -> None:
        """Begin a phase with `total` steps, `done` of which were made before."""
        self._total, self._first, self._began = total, done, time.monotonic()
        if self._speaking and not self._quiet:
            amount = counted(total, "step") if name == "training" else f"{total:,}"
            print(f"{name}: {amount}, {done} done", file=sys.stderr, flush=True)

    def step(self, done: int, numbers: Mapping[str, float]) -> None:
        """Print a step's numbers, and the time that is left."""
        number_texts = list(formatted_numbers(numbers))
        if self._quiet or not self._speaking or not number_texts:
            return
        elapsed = time.monotonic() - self._began
        seconds_left = elapsed / max(1, done - self._first) * max(0, self._total - done)
        times = f"{clock(elapsed)}, {clock(seconds_left)} left"
        line = "  ".join([f"step {done}/{self._total}", *number_texts, times])
        print(line, file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        """Print a note on standard error."""
        if self._speaking:
            super().note(text)
