"""The best, median and worst samples of a run, with ground truth and answer drawn on them.

Images and ground truth are read from the benchmark's own files, through the task that the run was
made with. If the task or its files are gone, the gallery says so; the board stands without it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from harness.errors import HarnessError
from harness.leaderboards.images import describe_answer, views
from harness.leaderboards.request_log import request_log
from harness.leaderboards.runs import plugin_errors, task_of
from harness.leaderboards.transcripts import Block, blocks_of, spans_of
from harness.record import Run
from harness.scores import Corpus, Metric, UnitScore, quotient
from harness.types import Prediction, Sample

Standing: TypeAlias = Literal["best", "median", "worst"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """A unit chosen to be shown."""

    standing: Standing
    unit: UnitScore
    value: float
    """The headline metric on this unit alone."""

    @property
    def sample(self) -> str:
        """First sample of the unit, which represents it."""
        return self.unit.samples[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """One sample as the board shows it."""

    standing: Standing
    sample: str
    unit_size: int
    """Samples that were scored together; this is the first of them."""
    value: float
    question: str
    options: tuple[str, ...]
    ground_truth: str
    """The target in words."""
    answer: str
    """The prediction in words; empty for a failure."""
    failure: str
    """Kind and message of a failure; empty for an answer."""
    responses: tuple[str, ...]
    blocks: tuple[Block, ...] = ()
    """Blocks of a response of several turns, which continued each other; empty: others."""
    requests: Mapping[str, str] = field(default_factory=dict)
    """Texts and frames that networks were sent, by the numbers of the calls."""
    views: Mapping[str, str] = field(default_factory=dict)
    """`image`, `ground_truth` and `prediction` as data URIs, as far as they can be drawn."""
    wide: bool = False
    """A strip of frames."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gallery:
    """The samples shown of one run, and why there are not more."""

    exhibits: tuple[Exhibit, ...] = ()
    note: str = ""


def galleries(
    runs: Sequence[Run],
    units: Sequence[Sequence[UnitScore]],
    *,
    metrics: Sequence[Metric],
    data_root: Path | None = None,
    picks: int = 2,
) -> list[Gallery]:
    """A gallery for each run of one table; the benchmark is read once for each data root.

    Args:
        runs: Runs of the same task, split and protocol.
        units: The scores of each run.
        metrics: The headline last, after the metrics that it is derived from; empty if it is not
            known.
        data_root: Where the data lies now, if not where it lay then.
        picks: How many of each standing to show; 0 for no gallery.
    """
    chosen = [pick(scores, metrics, each=picks) for scores in units]
    wanted = {choice.sample for choices in chosen for choice in choices}
    read: dict[tuple[str, str], Mapping[str, Sample] | str] = {}
    made = []
    for run, choices in zip(runs, chosen, strict=True):
        if not choices:
            made.append(Gallery(note=_why_empty(picks, metrics)))
            continue
        source = (run.manifest["task"]["spec"], run.manifest["data"]["root"])
        if source not in read:
            read[source] = _samples(run, wanted, data_root)
        made.append(_gallery(run, choices, read[source]))
    return made


def pick(units: Sequence[UnitScore], metrics: Sequence[Metric], *, each: int) -> list[Pick]:
    """Choose up to `each` of the best, the median and the worst units, none of them twice.

    Units in which the headline does not count are passed over. Equal units are in the order of
    their ids. Nothing is passed over for variety: the worst are the worst.
    """
    if not metrics or each < 1:
        return []
    sign = 1 if metrics[-1].better == "higher" else -1
    values = [(unit_value(metrics, unit), unit) for unit in units]
    ranked = sorted(
        ((value, unit) for value, unit in values if value is not None),
        key=lambda pair: (sign * pair[0], pair[1].unit),
    )
    each = max(1, min(each, len(ranked) // 3))
    middle = (len(ranked) - 1) / 2
    inside_out = sorted(range(len(ranked)), key=lambda index: abs(index - middle))
    orders: dict[Standing, Sequence[tuple[float, UnitScore]]] = {
        "worst": ranked,
        "best": sorted(ranked, key=lambda pair: (-sign * pair[0], pair[1].unit)),
        "median": [ranked[index] for index in inside_out],
    }
    taken: set[str] = set()
    chosen: dict[Standing, list[Pick]] = {}
    for standing, order in orders.items():
        free = [pair for pair in order if pair[1].unit not in taken]
        chosen[standing] = [
            Pick(standing=standing, unit=unit, value=value) for value, unit in free[:each]
        ]
        taken.update(found.unit.unit for found in chosen[standing])
    return [*chosen["best"], *chosen["median"], *chosen["worst"]]


def unit_value(metrics: Sequence[Metric], unit: UnitScore) -> float | None:
    """Return the last metric's number over one unit; None if it does not count, or is a corpus."""
    found: dict[str, float] = {}
    for metric in metrics:
        statistic = unit.scores.get(metric.name)
        if metric.derived is not None:
            if all(name in found for name in metric.inputs):
                found[metric.name] = float(metric.derived(*(found[name] for name in metric.inputs)))
        elif statistic is not None and not isinstance(statistic, Corpus):
            above, below = quotient(statistic)
            if below:
                found[metric.name] = above / (below + metric.epsilon)
    return found.get(metrics[-1].name)


def _why_empty(picks: int, metrics: Sequence[Metric]) -> str:
    if picks < 1:
        return "No samples were asked for."
    if not metrics or metrics[-1].corpus is not None:
        return "The headline metric has no value for a single sample, so none is best or worst."
    return "The headline metric counts in no sample."


def _samples(run: Run, wanted: set[str], data_root: Path | None) -> Mapping[str, Sample] | str:
    """The wanted samples by id, or why they cannot be read."""
    found: dict[str, Sample] = {}
    try:
        task = task_of(run, data_root)
        with plugin_errors(f"the samples of {task.name}"):
            for sample in task.samples():
                if sample.id in wanted:
                    found[sample.id] = sample
                if len(found) == len(wanted):
                    break
    except HarnessError as error:
        return f"The benchmark cannot be read here, so there are no images. {error}"
    return found


def _gallery(run: Run, picks: Sequence[Pick], samples: Mapping[str, Sample] | str) -> Gallery:
    if isinstance(samples, str):
        return Gallery(
            exhibits=tuple(exhibit(run, choice, None)[0] for choice in picks), note=samples
        )
    shown = [exhibit(run, choice, samples.get(choice.sample)) for choice in picks]
    notes = dict.fromkeys(note for _, note in shown if note)
    return Gallery(exhibits=tuple(made for made, _ in shown), note=" ".join(notes))


def exhibit(run: Run, choice: Pick, sample: Sample | None) -> tuple[Exhibit, str]:
    """Return one sample to show, and the reason if parts of it are missing.

    Without `sample` (its benchmark is gone) there are no question, ground truth and images.
    """
    prediction, note = _prediction(run, choice.sample)
    failure = prediction.failure if prediction else None
    drawn: Mapping[str, str] = {}
    if sample is not None:
        try:
            with plugin_errors(f"the images of {choice.sample}"):
                drawn = views(sample, prediction)
        except HarnessError as error:
            note = note or f"An image cannot be drawn. {error}"
    made = Exhibit(
        standing=choice.standing,
        sample=choice.sample,
        unit_size=len(choice.unit.samples),
        value=choice.value,
        question=sample.query.text if sample else "",
        options=sample.query.options if sample else (),
        ground_truth=describe_answer(sample.target.answer) if sample and sample.target else "",
        answer=describe_answer(prediction.answer) if prediction and prediction.answer else "",
        failure=f"{failure.kind}: {failure.message}" if failure else "",
        responses=prediction.responses if prediction else (),
        blocks=tuple(blocks_of(*spans_of(prediction))) if prediction else (),
        requests=request_log(sample.query if sample else None, prediction.calls)
        if prediction
        else {},
        views=drawn,
        wide=sample is not None and any(len(media) > 1 for media in sample.query.media[:1]),
    )
    return made, note


def _prediction(run: Run, sample: str) -> tuple[Prediction | None, str]:
    try:
        return run.prediction(sample), ""
    except (HarnessError, KeyError, TypeError, ValueError, OSError) as error:
        return None, f"A prediction is not in the journal any more. {error}"
