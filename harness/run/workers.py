"""Where batches are predicted: the interface, and the worker that is this process."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harness import plugins
from harness.errors import ModelError
from harness.model import Model
from harness.provenance import device
from harness.run.plan import Batch
from harness.run.predict import Outcome, Predictor
from harness.spec import Spec
from harness.store.journal import Writer


@dataclass(frozen=True, slots=True)
class Hello:
    """What a worker says of its model once it is loaded."""

    name: str
    batch_size: int
    sort: bool
    description: Mapping[str, Any]
    device: str = "cpu"
    """Where the model computes, told by the process that holds it."""


def hello(model: Model) -> Hello:
    """The model's own account of itself.

    Raises:
        ModelError: it raises, or says what is no plain data or no batch size.
    """
    with plugins.blamed(f"model {type(model).__name__}", ModelError):
        sort = bool(getattr(model, "sorts_by_length", False))
        description = json.loads(json.dumps(dict(model.describe()), allow_nan=False))
        said = Hello(str(model.name), model.batch_size, sort, description, device())
    if type(said.batch_size) is not int or said.batch_size < 1:
        raise ModelError(f"batch_size of model {said.name}", expected="a whole number ≥ 1",
                         found=repr(said.batch_size))  # fmt: skip
    return said


class Workers(Protocol):
    """Something that predicts batches."""

    @property
    def hello(self) -> Hello:
        """What the model says of itself."""

    def run(self, batches: Iterable[Batch]) -> Iterator[Outcome]:
        """Predict batches; outcomes come as they are done."""


@dataclass(frozen=True)
class Here:
    """One worker: this process."""

    model: Model
    folder: Path
    attempt: int
    worker: int = 0
    """Which journal file it writes."""

    @property
    def hello(self) -> Hello:
        """What the model says of itself."""
        return hello(self.model)

    def run(self, batches: Iterable[Batch]) -> Iterator[Outcome]:
        """Predict batches one after the other, decoding the next one meanwhile."""
        with Writer(self.folder, self.worker, self.attempt) as journal:
            predictor = Predictor(self.model, journal)
            waiting: Batch | None = None
            try:
                for batch in batches:
                    predictor.prefetch(batch)
                    if waiting is not None:
                        yield predictor.run(waiting)
                    waiting = batch
                if waiting is not None:
                    yield predictor.run(waiting)
            finally:
                predictor.decoders.shutdown(wait=False, cancel_futures=True)


def build_model(spec: Spec, seed: int) -> Model:
    """Build a model; one that samples takes the run's seed unless its spec names one."""
    if plugins.accepts("models", spec.name, "seed"):
        spec = spec.with_defaults(seed=seed)
    model: Model = plugins.build("models", spec)
    return model
