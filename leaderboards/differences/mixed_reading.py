"""Make predictions that mix two runs: responses of either run, parsed by stages of either run.

`diff` takes one stage or one cause of differing responses after another from the second run, and
scores the mix (`MixedReading.score`). The VLM is not asked again; stored responses are parsed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness import plugins
from harness.errors import HarnessError
from harness.leaderboards.differences.causes import causes_of, setting_causes
from harness.leaderboards.differences.changed import answer_changes, plugin_changes
from harness.model import PartedReader
from harness.record import Run
from harness.run.scoring import score_unit
from harness.run.sweep import with_argument
from harness.scores import UnitScore
from harness.spec import Spec, parse
from harness.task import Task
from harness.types import Prediction, Sample

ANSWERS = "answers"
"""Cause of different answers if neither run has responses."""
STAGES = ("grammar", "coordinates", "segmenter", "propagator")
"""Stages that turn a response into a prediction, in their order."""


def reader_of(run: Run) -> PartedReader | None:
    """Return the model that parses a run's responses, without its network; None if impossible."""
    described = run.manifest["model"]["description"]
    try:
        spec = _reader_spec(run)
        if not plugins.accepts("models", spec.name, "backend"):
            return None
        backend, meaning = spec.arguments.get("backend"), described.get("coordinates")
        if not (isinstance(backend, Spec) and backend.name == "stored"):
            backend = Spec("stored", {} if meaning is None else {"coordinates": meaning})
        reader = plugins.build("models", with_argument(spec, "backend", backend))
    except HarnessError:
        return None
    return reader if isinstance(reader, PartedReader) else None


def _reader_spec(run: Run) -> Spec:
    """Return the SPEC of the model that parses a run's responses.

    It is the run's model or, if the run scored a file or replayed responses, the reader's model.
    """
    model = run.manifest["model"]
    reader = model["description"].get("reader")
    spec = parse(reader if isinstance(reader, str) else model["spec"])
    replayed = spec.arguments.get("model")
    return replayed if isinstance(reader, dict) and isinstance(replayed, Spec) else spec


def _stages(run: Run, reader: PartedReader) -> dict[str, object]:
    """Return the settings of each stage, from the run's record or else from the reader."""
    described = run.manifest["model"]["description"]
    if "segmenter" not in described:
        described = reader.describe()  # type: ignore[attr-defined]
    grammar = (_reader_spec(run).name, described.get("prompt"), described.get("keyframe"))
    return {
        "grammar": grammar,
        **{name: _without_device(described.get(name)) for name in STAGES[1:]},
    }


def _without_device(settings: object) -> object:
    if not isinstance(settings, Mapping):
        return settings
    return {key: value for key, value in settings.items() if key not in ("device", "compiled")}


@dataclass
class MixedReading:
    """The state of the mix: which stages and responses are the second run's."""

    a: Run
    b: Run
    units: Sequence[Sequence[Sample]]
    taken: set[str] = field(default_factory=set)
    """Stages of the second run that are in use."""
    responses: set[str] = field(default_factory=set)
    """Causes whose samples have the second run's responses now."""
    stages: tuple[dict[str, object], dict[str, object]] = field(init=False)
    """Settings of the stages of both runs."""
    differing: list[str] = field(init=False)
    """Stages in which the runs differ; empty if a run has no model that parses responses."""

    def __post_init__(self) -> None:
        self.settings = setting_causes(self.a, self.b)
        code = [run.manifest["provenance"] for run in (self.a, self.b)]
        if lines := list(plugin_changes(*code)):
            self.settings["prompt"] = [*self.settings.get("prompt", ()), *lines]

        self.causes: dict[str, str] = {}
        answers: dict[str, str] = {}
        for name, (old, new) in zip(self.names, self.pairs(), strict=True):
            if old.responses != new.responses:
                self.causes[name] = causes_of(old, new, self.settings)
            elif not old.responses and old.answer != new.answer:
                answers[name] = ANSWERS
        if answers:
            self.causes |= answers
            self.settings = {**self.settings, ANSWERS: answer_changes(self.a, self.b)}

        self.readers = first, second = reader_of(self.a), reader_of(self.b)
        self.stages, self.differing = ({}, {}), []
        if first is not None and second is not None:
            of_a, of_b = self.stages = _stages(self.a, first), _stages(self.b, second)
            self.differing = [name for name in STAGES if of_a[name] != of_b[name]]

        causes = {cause for text in self.causes.values() for cause in text.split(" + ")}
        # Another prompt asks for another grammar, another network gives other coordinates: where
        # responses differ for such a cause, each is parsed by the stage of its own run.
        with_response = {"grammar": "prompt", "coordinates": "network"}
        self.joined = {name for name in self.differing if with_response.get(name) in causes}

    @property
    def names(self) -> list[str]:
        """Ids of all samples, in the units' order."""
        return [sample.id for unit in self.units for sample in unit]

    def pairs(self) -> Iterator[tuple[Prediction, Prediction]]:
        """Yield both runs' predictions for each sample, read from their journals."""
        return zip(self.a.predictions(self.names), self.b.predictions(self.names), strict=True)

    def predict(self, sample: Sample, pair: tuple[Prediction, Prediction]) -> Prediction:
        """Return the prediction by the current mix of responses and stages."""
        is_second = self.causes.get(sample.id) in self.responses
        source = pair[1] if is_second else pair[0]
        owners = {
            stage: is_second if stage in self.joined else stage in self.taken
            for stage in self.differing
        }
        if not source.responses or all(owner == is_second for owner in owners.values()):
            return source
        return self._mixed_reader(owners).read(sample.query, source.responses, source.calls)

    def _mixed_reader(self, owners: Mapping[str, bool]) -> PartedReader:
        """Return a reader of mixed stages; `owners` has True for a stage of the second run."""
        a, b = self.readers
        assert a is not None and b is not None, "stages differ only between readers"
        reader, base = (b, True) if owners.get("grammar") else (a, False)
        for stage in STAGES[1:]:
            if owners.get(stage, base) != base:
                reader = reader.with_part(stage, a if base else b)  # type: ignore[arg-type]
        return reader

    def score(self, task: Task) -> list[UnitScore]:
        """Score the predictions of all samples by the current mix."""
        pairs = self.pairs()
        return [
            score_unit(task, unit, [self.predict(sample, next(pairs)) for sample in unit])
            for unit in self.units
        ]

    def score_second(self, task: Task) -> list[UnitScore]:
        """Score the second run's predictions of all samples."""
        pairs = self.pairs()
        return [score_unit(task, unit, [next(pairs)[1] for _ in unit]) for unit in self.units]
