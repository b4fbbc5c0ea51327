"""Settings of a run, and the interface that receives its progress."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.run.budget import Budget
from harness.scores import UnitScore


class Progress(Protocol):
    """Receives the progress of a run."""

    def start(self, name: str, total: int, done: int) -> None:
        """Begin a task of `total` samples; `done` of them are already in the journal."""
        return

    def advance(self, samples: int, failed: int, headline: float | None) -> None:
        """Count newly finished samples.

        `failed` is the number of the run's samples without an answer so far, by the rule by which
        its results count failures; `headline` is the running score.
        """
        return

    def note(self, text: str) -> None:
        """Show a message to the user."""
        return

    def end(self) -> None:
        """End a task once it is scored."""
        return


class NullProgress(Progress):
    """Progress that shows nothing."""


class TitledProgress:
    """Progress of one run; the bar's title holds its number, its task and its model."""

    def __init__(self, inner: Progress, title: str) -> None:
        self._inner, self._title = inner, title
        self.advance, self.note, self.end = inner.advance, inner.note, inner.end

    def start(self, name: str, total: int, done: int) -> None:
        """Begin the run under the title."""
        self._inner.start(self._title, total, done)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings of a run. Only `subset`, `seed` and `batch_size` can change a prediction."""

    subset: str | None = None
    """Samples to predict: `first<N>`, `seed<S>-<N>`, or a file of ids; None: all."""
    name: str | None = None
    """Name of the model in records and on boards; None: its own name."""
    seed: int = 0
    batch_size: int | None = None
    """Queries in a batch; None: as many as the model asks for."""
    workers: int = 1
    isolate: bool = False
    """Give the model decoded images in a process of its own, and no handle to any file."""
    timeout: float | None = None
    """Seconds after which a worker process is replaced if it is silent over one batch."""
    ray: str | None = None
    """The address of a Ray cluster whose actors are the workers; `local` begins one."""
    worker_gpus: float | None = None
    """GPUs of each actor: 0.5 lets two share one, 0 computes on the CPU. None: one each or, with
    fewer GPUs in the cluster, an equal share."""
    worker_wait: float = 120.0
    """Seconds that an actor may wait for a machine with room for it."""
    accept_code: bool = False
    """Go on with a run although the code of plugins has changed; the manifest lists the changes."""
    retry_failed: bool = False
    """Predict failed samples again, whatever the reason. Lost ones are always predicted again."""
    allow_missing: bool = False
    """Go on with samples whose images are missing or damaged; they count as failed."""
    infrastructure_limit: float = 0.05
    """Share of samples that the infrastructure may lose; a run that loses more has no score."""
    restart: bool = False
    """Set an earlier run in this folder aside (it is renamed, not removed) and begin anew."""
    rescore: bool = False
    """Let a finished run's numbers be replaced, if the same predictions score otherwise now."""
    until: Callable[[Sequence[UnitScore]], bool] | None = None
    """Predict groups in an order drawn by `seed`, and stop with the run unfinished once this
    returns True for the units scored so far, which are in that order."""
    shard: tuple[int, int] | None = None
    """(i, n): predict the i-th of n shares of the plan's batches, from 1 to n. The run is finished
    and scored only if its folder has all the others'."""
    pilot: int = 0
    """Number of samples, drawn by length, that are predicted first to forecast the cost of all."""
    budget: Budget | None = None
    """Time or money after which the run stops unfinished; with it there is always a pilot."""
    judge_cost: Callable[[], float] = float
    """Returns what the judge has cost so far, in the currency of its prices."""
    data_root: str = ""
    """The data root, recorded so that a board can find the images again."""

    @property
    def in_process(self) -> bool:
        """True if this process itself is the worker."""
        is_alone = self.workers == 1 and not self.isolate
        return is_alone and self.timeout is None and self.ray is None
