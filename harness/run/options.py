"""How a run is made, and who is told how far it is."""

from dataclasses import dataclass
from typing import Protocol


class Progress(Protocol):
    """Is told how far a run is."""

    def start(self, name: str, total: int, done: int) -> None:
        """A task begins; `done` samples are already in the journal."""

    def advance(self, samples: int, failed: int, headline: float | None) -> None:
        """A batch is finished."""

    def note(self, text: str) -> None:
        """Something that the user should know."""

    def end(self) -> None:
        """The task is scored."""


class Silent:
    """Progress that nobody watches."""

    def start(self, name: str, total: int, done: int) -> None:  # noqa: D102
        return

    def advance(self, samples: int, failed: int, headline: float | None) -> None:  # noqa: D102
        return

    def note(self, text: str) -> None:  # noqa: D102
        return

    def end(self) -> None:  # noqa: D102
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a run is made. Only `subset`, `seed` and `batch_size` can change a prediction."""

    subset: str | None = None
    name: str | None = None
    """What records and boards call the model; None: by its own name."""
    seed: int = 0
    batch_size: int | None = None
    """None: what the model likes."""
    workers: int = 1
    isolate: bool = False
    """Give the model decoded images in a process of its own, and no handle to any file."""
    timeout: float | None = None
    """Seconds after which a worker process that is silent over one batch is replaced."""
    ray: str | None = None
    """The address of a Ray cluster whose actors are the workers; `local` begins one."""
    worker_gpus: float | None = None
    """Of each actor; 0.5 lets two share one, with 0 they compute on the CPU. None: one each where
    the cluster has GPUs, or an equal share."""
    worker_wait: float = 120.0
    """Seconds that an actor may wait for a machine with room for it."""
    retry_failed: bool = False
    """Predict again what failed, whatever the reason. Lost samples are always tried again."""
    allow_missing: bool = False
    """Go on with samples whose images are missing or damaged; they count as failed."""
    restart: bool = False
    """Set an earlier run in this folder aside (it is renamed, not removed) and begin anew."""
    rescore: bool = False
    """Let a finished run's numbers be replaced, if the same predictions score otherwise now."""
    checked: bool = False
    """The benchmark's files were looked at already, by `preflight`."""
    data_root: str = ""
    """Recorded, so that a board can find the images again."""

    @property
    def here(self) -> bool:
        """Whether this process itself is the worker."""
        alone = self.workers == 1 and not self.isolate
        return alone and self.timeout is None and self.ray is None
