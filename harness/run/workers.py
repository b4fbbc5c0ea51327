"""The interface of workers that predict batches, and the worker that is this process."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Protocol

from harness import plugins
from harness.errors import HarnessError, ModelError
from harness.model import Model
from harness.plain import json_scalar
from harness.provenance import device_of
from harness.run.batching import Batch
from harness.run.pipeline import Predictor, batches_ahead
from harness.run.predict import Outcome, by_sample
from harness.spec import Spec
from harness.store.journal import Writer
from harness.types import AnswerForm


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker's greeting: name, settings and abilities of the model that it has built."""

    name: str
    batch_size: int
    sort: bool
    description: Mapping[str, object]
    device: str = "cpu"
    """Device that the model computes on, by its parts' settings in the process that holds it."""
    ahead: int = 1
    """Batches that may be on their way through the model at once."""
    forms: frozenset[AnswerForm] | None = None
    """The forms of answer that it can give; None: it does not declare them."""
    missing_parts: Mapping[AnswerForm, str] = field(default_factory=dict)
    """Forms that need a part that nobody chose, each with what to do about it."""
    by_sample: bool = False
    """True: missing samples of a batch are asked for without the rest of it."""


def worker_info(model: Model) -> WorkerInfo:
    """Return the greeting of a model.

    Raises:
        ModelError: the model raises, or its description is not plain data, or its batch size is
            not a whole number ≥ 1.
    """
    with plugins.plugin_errors(f"model {type(model).__name__}", ModelError):
        plugins.check_contract("models", f"model {type(model).__name__}", model)
        name = str(model.name)
    with plugins.plugin_errors(f"model {name}", ModelError):
        description = json.loads(
            json.dumps(dict(model.describe()), allow_nan=False, default=json_scalar)
        )
        info = WorkerInfo(
            name,
            model.batch_size * model.rounds,
            bool(model.sorts_by_length),
            description,
            device_of(model.devices),
            batches_ahead(model),
            forms_of(model),
            dict(model.missing_parts),
            by_sample(model),
        )
    if type(info.batch_size) is not int or info.batch_size < 1:
        raise ModelError(
            f"batch_size of model {info.name}",
            expected="a whole number ≥ 1",
            found=repr(info.batch_size),
        )
    return info


def forms_of(model: Model) -> frozenset[AnswerForm] | None:
    """Return the forms of answer that a model declares; None if it declares none.

    Raises:
        ModelError: its `forms` raises, or is not a set of forms.
    """
    with plugins.plugin_errors(f"forms of model {type(model).__name__}", ModelError):
        forms = model.forms
        return None if forms is None else frozenset(AnswerForm(form) for form in forms)


class Workers(Protocol):
    """One or several workers that predict batches."""

    @property
    def info(self) -> WorkerInfo:
        """The greeting of the workers' model."""

    def run(self, batches: Iterable[Batch]) -> Iterator[Outcome]:
        """Predict batches, and yield outcomes as they are done."""

    def close(self) -> None:
        """End the processes that it has started."""


@dataclass(frozen=True)
class LocalWorker:
    """One worker: this process."""

    model: Model
    folder: Path
    attempt: int
    worker: int = 0
    """Number of the journal file that it writes."""

    @property
    def info(self) -> WorkerInfo:
        """The greeting of the workers' model."""
        return worker_info(self.model)

    def run(self, batches: Iterable[Batch]) -> Iterator[Outcome]:
        """Predict batches in order, decoding the next one meanwhile; yield outcomes.

        If anything ends it early, answered samples are finished and journalled before that is
        raised.
        """
        with Writer(self.folder, self.worker, self.attempt) as journal:
            news: SimpleQueue[Outcome | Future[Outcome]] = SimpleQueue()
            predictor = Predictor(self.model, journal, on_outcome=news.put)
            going: set[Future[Outcome]] = set()

            def finish() -> Outcome:
                item = news.get()
                if isinstance(item, Outcome):
                    return item
                going.discard(item)
                return item.result()

            try:
                for batch in _one_ahead(batches, predictor.prefetch):
                    while len(going) >= predictor.max_batches:
                        yield finish()
                    inflight = predictor.begin(batch)
                    going.add(inflight.done)
                    inflight.done.add_done_callback(news.put)
                    with closing(predictor.predict_in_steps(inflight)) as steps:
                        for waits in steps:
                            while waits or not news.empty():
                                yield finish()
                                waits = False
                    while not news.empty():
                        yield finish()
                while going:
                    yield finish()
            except BaseException:  # of the model, an interrupt, or nobody wants more outcomes
                predictor.finish()
                raise
            predictor.close()

    def close(self) -> None:
        """Do nothing: no process was started."""


def _one_ahead(batches: Iterable[Batch], meet: Callable[[Batch], None]) -> Iterator[Batch]:
    """Yield the batches; `meet` is called with each one before its predecessor is yielded."""
    waiting: Batch | None = None
    for batch in batches:
        meet(batch)
        if waiting is not None:
            yield waiting
        waiting = batch
    if waiting is not None:
        yield waiting


def worker_error(what: str, error: BaseException) -> HarnessError:
    """Return the error that ends the run because of what a worker has raised."""
    if isinstance(error, HarnessError):
        return error
    return ModelError(what, expected="to go on", found=plugins.describe_error(error))


def build_model(spec: Spec, seed: int) -> Model:
    """Build a model; one that samples takes the run's seed unless its spec names one."""
    if plugins.accepts("models", spec.name, "seed"):
        spec = spec.with_defaults(seed=seed)
    model: Model = plugins.build("models", spec)
    return model
