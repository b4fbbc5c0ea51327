"""The interface of workers that predict batches (`Workers`), and the local worker, this process."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Protocol

from harness import plugins
from harness.errors import HarnessError, ModelError
from harness.model import Model
from harness.plain import json_scalar
from harness.plugin_code import plugin_code, spec_names
from harness.provenance import device_of
from harness.run.batching import Batch
from harness.run.pipeline import Predictor, Step, batches_ahead
from harness.run.predict import Outcome, by_sample
from harness.spec import Spec
from harness.store.journal import Writer
from harness.types import AnswerForm

CODE = "_plugin_code"
"""Attribute of a model that was built from a SPEC: `plugin_code` of the SPEC."""


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker's greeting: name, settings and abilities of the model that it has built."""

    name: str
    batch_size: int
    """Number of queries of a batch."""
    sort: bool
    """True if batches should hold queries of similar length."""
    description: Mapping[str, object]
    """Settings of the model as plain data."""
    device: str = "cpu"
    """Device of the model, by its parts' settings in the worker's process."""
    ahead: int = 1
    """Largest number of batches in progress at once."""
    forms: frozenset[AnswerForm] | None = None
    """Forms of answer that it can give; None: not declared."""
    missing_parts: Mapping[AnswerForm, str] = field(default_factory=dict)
    """Forms for which the model lacks a part, such as a segmenter, each with a remedy."""
    by_sample: bool = False
    """True if the model answers by the sample: finished ones are not predicted again."""
    at_once: int = 1
    """Queries that the model works on at the same time."""
    plugins: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Code of the third-party plugins that the model consists of, by package."""


def worker_info(model: Model) -> WorkerInfo:
    """Return the greeting of a model.

    Raises:
        ModelError: the model raises, its description is not plain data, or its batch size is not a
            whole number ≥ 1.
    """
    with plugins.plugin_errors(f"model {type(model).__name__}", ModelError):
        plugins.check_contract("models", f"model {type(model).__name__}", model)
        name = str(model.name)
    with plugins.plugin_errors(f"model {name}", ModelError):
        description = json.loads(
            json.dumps(dict(model.describe()), allow_nan=False, default=json_scalar)
        )
        info = WorkerInfo(
            name=name,
            batch_size=model.batch_size * model.rounds,
            sort=bool(model.sorts_by_length),
            description=description,
            device=device_of(model.devices),
            ahead=batches_ahead(model),
            forms=forms_of(model),
            missing_parts=dict(model.missing_parts),
            by_sample=by_sample(model),
            at_once=model.at_once,
            plugins=plugin_code((), model)
            if model.built_from is None
            else getattr(model, CODE, {}),
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
        """Predict batches, and yield outcomes as they are done; it may be called several times."""

    def close(self) -> None:
        """End the workers' processes."""


@dataclass(frozen=True)
class LocalWorker:
    """One worker: this process."""

    model: Model
    folder: Path
    attempt: int
    worker: int = 0
    """Number of the journal file that it writes."""
    _runs: "count[int]" = field(default_factory=count)
    """Counts the calls of `run`, each of which writes its own journal file."""

    @property
    def info(self) -> WorkerInfo:
        """The greeting of the workers' model."""
        return worker_info(self.model)

    def run(self, batches: Iterable[Batch]) -> Iterator[Outcome]:
        """Predict batches in order, decoding the next one meanwhile; yield outcomes.

        Before an error or an interrupt is raised, answered samples are finished and journalled.
        """
        attempt = self.attempt + next(self._runs)
        with Writer(self.folder, self.worker, attempt) as journal:
            news: SimpleQueue[Outcome | Future[Outcome]] = SimpleQueue()
            predictor = Predictor(self.model, journal, on_outcome=news.put)
            in_progress: set[Future[Outcome]] = set()

            def next_outcome() -> Outcome:
                item = news.get()
                if isinstance(item, Outcome):
                    return item
                in_progress.discard(item)
                return item.result()

            try:
                for batch in _one_ahead(batches, predictor.prefetch):
                    while len(in_progress) >= predictor.max_batches:
                        yield next_outcome()
                    inflight = predictor.begin(batch)
                    in_progress.add(inflight.done)
                    inflight.done.add_done_callback(news.put)
                    with closing(predictor.predict_in_steps(inflight)) as steps:
                        for step in steps:
                            if step is Step.WAIT:
                                yield next_outcome()
                            while not news.empty():
                                yield next_outcome()
                    while not news.empty():
                        yield next_outcome()
                while in_progress:
                    yield next_outcome()
            except BaseException:  # an error, an interrupt, or the caller takes no more outcomes
                predictor.drain()
                raise
            predictor.close()

    def close(self) -> None:
        """Do nothing: no process was started."""


def _one_ahead(batches: Iterable[Batch], prefetch: Callable[[Batch], None]) -> Iterator[Batch]:
    """Yield the batches; call `prefetch` with each one before its predecessor is yielded."""
    previous: Batch | None = None
    for batch in batches:
        prefetch(batch)
        if previous is not None:
            yield previous
        previous = batch
    if previous is not None:
        yield previous


def worker_error(what: str, error: BaseException) -> HarnessError:
    """Return a worker's exception as the HarnessError that ends the run."""
    if isinstance(error, HarnessError):
        return error
    return ModelError(what, expected="to go on", found=plugins.describe_error(error))


def build_model(spec: Spec, seed: int) -> Model:
    """Build a model; if it takes a seed and its SPEC has none, it gets the run's seed."""
    if plugins.accepts("models", spec.name, "seed"):
        spec = spec.with_defaults(seed=seed)
    code = plugin_code(spec_names(spec))  # the model may give up the right to read files
    model: Model = plugins.build("models", spec)
    object.__setattr__(model, "built_from", spec)  # models are frozen
    object.__setattr__(model, CODE, code)
    return model
