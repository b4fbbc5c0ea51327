"""The base class of trainers, their input (`TrainingRun`), and the log of their numbers (`Curve`).

A training folder DIR holds

    checkpoint/       the trained network; loads with from_pretrained, has no pickles
    manifest.json     method, settings, base weights, samples, seed, versions (run/train.py)
    samples.jsonl     the native id of every sample that was trained on
    curve.jsonl       one object a logged step, `step` first
    state/            states (weights, optimiser, …) from which a training resumes
    eval/             run folders of the tasks that were evaluated

A trainer is a plugin: a function with keyword-only settings that returns a `Trainer`. It writes
`checkpoint/`, `curve.jsonl` and `state/` and nothing else; the engine writes the rest.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from harness.errors import StoreError, raised_as
from harness.plain import json_scalar
from harness.spec import Spec
from harness.store.atomic import write_bytes, writing
from harness.task import Task

CHECKPOINT, CURVE, STATE, EVALUATIONS = "checkpoint", "curve.jsonl", "state", "eval"


class TrainingProgress(Protocol):
    """Receiver of a training's progress, such as a progress bar."""

    def start(self, name: str, total: int, done: int) -> None:
        """Report the start of steps, or of a pass over samples; `done` of `total` exist already."""
        return

    def step(self, done: int, numbers: Mapping[str, float]) -> None:
        """Report that `done` steps are made; `numbers` are the logged numbers of the last one."""
        return

    def note(self, text: str) -> None:
        """Report a fact that the user should know."""
        return

    def end(self) -> None:
        """Report the end of what `start` began."""
        return


class NullProgress(TrainingProgress):
    """Progress that nobody watches."""


class Trainer(ABC):
    """Makes a checkpoint. All of its settings were given when it was built.

    Derive a trainer's class from this one.
    """

    needs_model: ClassVar[bool] = False
    """True if the trainer is refused without a model, before anything is read or written."""
    needs_tasks: ClassVar[bool] = False
    """True if it is refused without tasks to train on."""

    if TYPE_CHECKING:  # see `harness.model.Model`

        @property
        def name(self) -> str:
            """A short name for manifests."""

    @property
    def makes(self) -> str | None:
        """The model plugin that loads its checkpoints through `checkpoint=DIR`.

        None: the one that the training starts from.
        """
        return None

    @abstractmethod
    def describe(self) -> Mapping[str, object]:
        """Return every setting as resolved, plain data.

        Equal settings, equal data: a training is resumed only if nothing here has changed.
        """

    def may_change(self, name: str, old: object, new: object) -> bool:
        """Return True if a resumed training may have another value of a setting.

        It may for a setting that does not alter what is learned, and for a total that has grown.
        """
        del name, old, new
        return False

    def check_installation(self) -> None:
        """Raise what is missing on this machine, such as a logger's package or its key.

        Called in the first process before anything is read or written.

        Raises:
            MissingDependency: a package is not installed.
            UsageError: something else is missing, such as a key.
        """
        return

    def check(self, run: "TrainingRun") -> None:
        """Raise the errors of settings and packages that `train` would, before a network is loaded.

        `harness train --dry-run` calls it. It writes nothing; `run.out` need not exist.
        """
        del run

    @abstractmethod
    def train(self, run: "TrainingRun") -> Mapping[str, object]:
        """Train to the end, and write the checkpoint.

        Returns:
            Plain facts for the manifest: steps, dropped samples, the last loss, …

        Raises:
            UsageError: `run` lacks what this trainer needs, such as a model.
            KeyboardInterrupt: `run.stopping` became true; the state was saved before.
        """


def _never_stop() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """Input of a trainer: its folder, data, start and seed.

    With several processes (`accelerate launch -m harness train …`) each has its own; only the one
    with `main` writes files.
    """

    out: Path
    """The training folder; it exists."""
    tasks: tuple[Task, ...] = ()
    """Tasks to train on, in this order; none for a trainer that generates its own scenes."""
    model: Spec | None = None
    """SPEC of the model to start from; None: from nothing."""
    seed: int = 0
    resume: bool = False
    """True: resume from the newest complete state, if there is one. False: there is no state."""
    main: bool = True
    """True if this process is the one that writes files."""
    progress: TrainingProgress = field(default_factory=NullProgress)
    stopping: Callable[[], bool] = _never_stop
    """Function that is called after every step. If it returns True (Ctrl-C), save the state and
    raise KeyboardInterrupt."""
    interruptible: Callable[[], AbstractContextManager[None]] = nullcontext
    """Returns a context in which Ctrl-C and SIGTERM raise KeyboardInterrupt at once. Use it for
    blocks that change no weights, so that the state before them can still be saved. Of several
    processes only the main one is interrupted: if another left, the main one would wait for it."""
    every: int | None = None
    """Steps between evaluations while training; None: there is no evaluation."""
    evaluate: Callable[[Path, int], Mapping[str, float]] | None = None
    """Evaluates a checkpoint's folder after a number of steps, and removes the folder: give it a
    copy, never `checkpoint`. Returns numbers for the curve, `eval/<task>/<metric>`. It leaves the
    trainer's random state as it was. Call it in the main process, as
    `harness.trainers.session.Session` does."""
    evaluated: tuple[str, ...] = ()
    """Names of the numbers that `evaluate` returns; none: they are not known."""

    @property
    def checkpoint(self) -> Path:
        """Folder for the trained model."""
        return self.out / CHECKPOINT

    @property
    def state(self) -> Path:
        """The folder of resumable states; see `harness.trainers.state`."""
        return self.out / STATE

    @property
    def curve(self) -> "Curve":
        """Log of the training's numbers, one line for each logged step."""
        return Curve(self.out / CURVE)


@dataclass(frozen=True, slots=True)
class Curve:
    """`curve.jsonl`: one object a logged step, without times: equal trainings have equal curves."""

    path: Path

    def append(self, step: int, numbers: Mapping[str, float]) -> None:
        """Add a step's numbers."""
        line = json.dumps({"step": step, **numbers}, allow_nan=True, default=json_scalar)
        with writing(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def cut(self, step: int) -> None:
        """Drop the lines logged after `step`: a resumed training logs those steps again."""
        rows = [row for row in self.read() if row["step"] <= step]
        lines = [json.dumps(row, allow_nan=True) + "\n" for row in rows]
        write_bytes(self.path, "".join(lines).encode())

    def read(self) -> list[dict[str, Any]]:
        """Return all records; a last line without a newline, cut off by a kill, is left out.

        Raises:
            StoreError: another line is not a record.
        """
        with raised_as(StoreError, f"file {self.path}", "text", OSError, UnicodeDecodeError):
            lines = self.path.read_text("utf-8").split("\n") if self.path.exists() else []
        complete = [line for line in lines[:-1] if line]  # what follows the last newline is cut off
        return [self._row(line, number) for number, line in enumerate(complete, start=1)]

    def _row(self, line: str, number: int) -> dict[str, object]:
        """Return the record in a line; raise StoreError if it is not an object with its step."""
        where = f"file {self.path}, line {number}"
        with raised_as(StoreError, where, "an object with its step", ValueError):
            row: dict[str, object] = json.loads(line)
            if not isinstance(row, dict) or type(row.get("step")) is not int:
                raise ValueError(repr(row)[:60])
        return row
