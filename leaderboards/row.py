"""A leaderboard row: one run's record, reduced to the fields that readers compare.

`row` reads `results.json`, `manifest.json` and the timing of a finished `Run`, checks types and
counts, and returns a `Row`. Boards, gates, exports and reports are all built from rows.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, get_type_hints

from harness.errors import StoreError
from harness.leaderboards.parts import badges, weights
from harness.papers import Deviation
from harness.plain import reader
from harness.record import Run
from harness.run.checkpoint_provenance import CheckpointProvenance, origin_of, read_origins
from harness.run.contamination import Contamination, read_contamination
from harness.scores import Better
from harness.summary import Breakdown
from harness.types import FailureKind

Verdict: TypeAlias = Literal["reproduced", "not reproduced", "cannot tell"]
COPIED_KEYS = (
    "model",
    "model_spec",
    "task",
    "task_version",
    "split",
    "protocol",
    "subset",
    "headline",
    "better",
    "about",
    "metrics",
    "breakdowns",
    "ceiling",
    "n_total",
    "n_scored",
    "n_failed",
    "failures",
    "usage",
    "config_hash",
)
"""Keys of `results.json` that are fields of a row under the same name."""


class RecordedLedger(TypedDict):
    """Responses that were cut off, repaired or named places beyond the image (`Ledger.to_json`)."""

    cut: int
    forms: dict[str, dict[str, int]]
    outside: NotRequired[int]
    repaired: NotRequired[int]
    categories: NotRequired[dict[str, dict[str, dict[str, int]]]]
    limit: NotRequired[int | None]
    enough: NotRequired[int | None]
    if_wrong: NotRequired[dict[str, float | None] | None]
    if_right: NotRequired[dict[str, float | None] | None]
    served: NotRequired[dict[str, int]]
    """Number of responses by the name under which a server gave them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingInfo:
    """The training that made a checkpoint, as its own record names it."""

    method: str
    """The trainer with its settings."""
    tasks: tuple[str, ...]
    """Tasks that it was trained on."""
    seed: int
    config_hash: str
    """Hash in the `manifest.json` of the training's folder, which identifies the training."""
    steps: int | None = None
    """Number of optimiser steps; None if it is not recorded."""
    folder: str | None = None
    """Name of its folder; None where only the model's description mentions the training."""
    link: str | None = None
    """Link to its page from a written board, as a quoted relative URL; None where the folder that
    is published with the board has no such page."""
    place: Path | None = None
    """Folder of the training, if it is still where it was during the run. Never published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """A measured number compared with the paper's number of the same method (`reproduction`)."""

    paper: str
    title: str
    """The paper's title."""
    table: str
    row: str
    metric: str
    value: float
    """The paper's number, as a fraction from 0 to 1."""
    printed: str
    """The paper's number as the paper prints it, such as `66.4`."""
    verdict: Verdict
    differences: tuple[str, ...]
    text: str
    """`paper 66.4 → ours 65.1 (CI 63.0 to 67.2): reproduced`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run on a board; built only from its record, so that every number can be traced to it."""

    run: str
    """Name of the run folder."""
    model: str
    name: str
    """Name on boards: the model's name, with settings where other rows have the same."""
    model_spec: str
    task: str
    task_version: int
    split: str
    protocol: str
    subset: str | None
    data: str
    """Fingerprint of the annotations and samples."""
    headline: str
    """Name of the metric by which rows are ranked."""
    better: Mapping[str, Better]
    """Direction of each metric: `higher` or `lower`."""
    about: Mapping[str, str]
    """Description of each metric."""
    metrics: Mapping[str, float | None]
    intervals: Mapping[str, tuple[float, float] | None]
    """Ends of each metric's interval; None if it has no interval."""
    breakdowns: Mapping[str, Mapping[str, Breakdown]]
    """`{category: {value: {"n": samples, "metrics": {name: number}}}}`."""
    ceiling: float | None
    """Score of perfect answers on the headline."""
    n_total: int
    n_scored: int
    n_failed: int
    failures: Mapping[str, int]
    """Number of samples without an answer, by kind of failure."""
    usage: Mapping[str, int]
    """Tokens and frames, over all samples."""
    ledger: RecordedLedger | None
    """Responses that were cut off, repaired or named places beyond the image, and what a limit may
    have cost (`harness.run.ledger`); None of a version that kept none."""
    seconds: float | None
    """Wall-clock time of the run in seconds, if recorded."""
    judge: str | None
    """Judge of the free answers and its rubric, if the run had one."""
    seed: int | None
    commit: str | None
    dirty: bool | None
    device: str | None
    config_hash: str
    trained_on: Contamination | None = None
    """Overlap with the training data of the model's checkpoint; None where that is not known."""
    training: TrainingInfo | None = None
    """Training of the model's checkpoint; None if harness did not train it."""
    changed: tuple[str, ...] = ()
    """Code of plugins that changed while samples were predicted."""
    deviations: tuple[Deviation, ...] = ()
    """Differences from the paper of the run's method, as the record declares them."""
    adaptation: str | None = None
    """Method and budget of adaptation to each sample; None if the model is not adapted."""
    transductive: bool = False
    """True if weights learned from each test sample before it was answered."""
    process_peak_bytes: int | None = None
    """Peak memory of one of its processes in bytes; None where that was not recorded."""
    process_gpu_peak_bytes: int | None = None
    """Peak memory of tensors on one GPU in bytes; None without a GPU."""
    weights: Mapping[str, str] = field(default_factory=dict)
    """Hash of the weights of each part that has some, by the part's place in the model."""
    scoring_code: Mapping[str, str] = field(default_factory=dict)
    """Hash of each module of the scorer (`plugin_code.scoring_code`); empty if not recorded."""
    badges: tuple[str, ...] = ()
    """Names of parts that are toys or classical and decide the answer (`parts`)."""
    of_benchmark: bool = False
    """True if its data is known to be the benchmark that papers print numbers of."""
    rescored: bool = False
    """True if the headline, over all and by category, was computed from the units again."""
    published: Reproduction | None = None
    """Comparison with the number that the paper of the method prints; None if it prints none."""

    @property
    def value(self) -> float | None:
        """The headline's score; None if the model answered nothing."""
        return self.metrics[self.headline]

    @property
    def interval(self) -> tuple[float, float] | None:
        """The headline metric's interval."""
        return self.intervals.get(self.headline)

    @property
    def answered_share(self) -> float:
        """The share of samples that have an answer, from 0 to 1."""
        return self.n_scored / self.n_total

    @property
    def cut(self) -> int | None:
        """Number of samples with a response that was cut off; None where that is not known."""
        if self.ledger is None or not self.ledger["forms"]:
            return None
        return int(self.ledger["cut"])

    @property
    def trained_on_some(self) -> bool:
        """True if the model is known to have been trained on some of the evaluated samples."""
        return self.trained_on is not None and self.trained_on.is_any

    @property
    def quality(self) -> float:
        """The headline's score, negated if lower is better; minus infinity if there is none."""
        if self.value is None:
            return float("-inf")
        return self.value if self.better[self.headline] == "higher" else -self.value


def row(run: Run) -> Row:
    """Reduce a finished run to a row.

    Raises:
        StoreError: a field is missing or of another type, or the counts do not add up.
    """
    results, manifest = run.results, run.manifest
    provenance = manifest.get("provenance", {})
    try:
        description, seconds = manifest["model"]["description"], run.timing.get("wall_seconds")
        copied = {key: _typed(key, results[key]) for key in COPIED_KEYS}
        run_row = Row(
            **{**copied, **_without_values(results)},
            name=results["model"],
            run=run.place.name,
            data=_data(manifest["data"]),
            intervals={
                name: None if _says_nothing(results) else pair
                for name, pair in _typed("intervals", results["intervals"]).items()
            },
            ledger=_typed("ledger", results.get("ledger")),
            scoring_code=_typed("scoring_code", results.get("scoring_code", {})),
            seconds=float(seconds) if isinstance(seconds, (int, float)) else None,
            judge=_judge(manifest.get("task", {}).get("arguments", {})),
            seed=_typed("seed", manifest.get("seed")),
            **{key: _typed(key, provenance.get(key)) for key in ("commit", "dirty", "device")},
            trained_on=read_contamination(run.folder),
            training=_training(run),
            changed=tuple(str(change["setting"]) for change in manifest.get("changed", ())),
            deviations=tuple(
                Deviation(**deviation) for deviation in manifest.get("deviations", ())
            ),
            weights=weights(description),
            badges=badges(description, results["task"], _forms(results)),
            **_adaptation(manifest),
            process_peak_bytes=_peak(run, "process_peak_bytes"),
            process_gpu_peak_bytes=_peak(run, "process_gpu_peak_bytes"),
        )
        n_by_kind = sum(run_row.failures.values())
        is_complete = (
            run_row.headline in run_row.metrics and run_row.metrics.keys() <= run_row.better.keys()
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(
            f"run {run.folder}",
            expected="results.json and manifest.json as this version writes them",
            found=f"{type(error).__name__}: {error}",
            fix="Score the run again: harness score RUN.",
        ) from error
    if (
        run_row.n_total < 1
        or run_row.n_scored + run_row.n_failed != run_row.n_total
        or run_row.n_failed != n_by_kind
        or not is_complete
    ):
        raise StoreError(
            f"run {run.folder}",
            expected="n_scored + n_failed = n_total > 0, failures by kind that add up to "
            "n_failed, a number for the headline, and a direction for each metric",
            found=f"{run_row.n_scored} + {run_row.n_failed} of {run_row.n_total}, "
            f"{n_by_kind} by kind",
        )
    return run_row


def _typed(name: str, plain: object) -> Any:
    """Return a recorded value as the type of a field of `Row`.

    Raises:
        ValueError: the value has another type; the text names the field.
    """
    try:
        return _readers()[name](plain)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


@cache
def _readers() -> dict[str, Callable[[Any], Any]]:
    """Return the functions that read the fields of `Row` from plain data, by name."""
    return {name: reader(hint) for name, hint in get_type_hints(Row).items()}


def _says_nothing(results: Mapping[str, Any]) -> bool:
    """Return True if every sample failed in the model, before any response: there is no score.

    An unreadable response is not such a failure: it counts as a wrong answer.
    """
    silent = results["failures"].get(FailureKind.MODEL, 0)
    return bool(results["n_scored"] == 0 and silent == results["n_total"])


def _without_values(results: Mapping[str, Any]) -> dict[str, object]:
    """Return `metrics` and `breakdowns` of None if a model answered nothing; otherwise empty."""
    if not _says_nothing(results):
        return {}
    nothing = dict.fromkeys(results["metrics"])
    breakdowns = {
        category: {value: {**cell, "metrics": nothing} for value, cell in values.items()}
        for category, values in results["breakdowns"].items()
    }
    return {"metrics": nothing, "breakdowns": breakdowns}


def _judge(arguments: Mapping[str, object]) -> str | None:
    """Return the judge and its rubric from a task's arguments; None for a task without a judge."""
    if "judge" not in arguments:
        return None
    return f"{arguments['judge']}, rubric {arguments.get('rubric')}"


def _forms(results: Mapping[str, Any]) -> Collection[str]:
    """Return the forms of answer (mask, box, text, …) that a run was asked for.

    They are read from the ledger of its responses, or else from its task; empty if an earlier
    version recorded neither.
    """
    responses: Mapping[str, Any] = (results.get("ledger") or {}).get("forms") or {}
    return responses.keys() or frozenset(results.get("forms") or ())


def _training(run: Run) -> TrainingInfo | None:
    """Return the training of the VLM: as the run recorded it, or else as the model describes it.

    If several parts are trained, the one that the model's description names is taken, or the first.
    """
    description = run.manifest.get("model", {}).get("description", {})
    network = description.get("chat", description)
    text = network.get("trained") if isinstance(network, Mapping) else None
    for origin in read_origins(run.folder):
        if text is None or origin.config_hash == text["config_hash"]:
            return _trained_by(origin, run.folder)
    if text is None:
        return None
    return TrainingInfo(
        method=str(text["method"]),
        tasks=tuple(str(task["spec"]) for task in text["tasks"]),
        seed=text["seed"],
        config_hash=str(text["config_hash"]),
    )


def _adaptation(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a row that say how a model adapts to samples, if it does."""
    adaptation = manifest.get("model", {}).get("description", {}).get("adaptation")
    if adaptation is None:
        return {}
    text = f"{adaptation['method']}: {adaptation['budget']}"
    return {"adaptation": text, "transductive": bool(adaptation["transductive"])}


def _trained_by(provenance: CheckpointProvenance, run: Path) -> TrainingInfo:
    """Return a recorded training, with its folder if that still holds this training."""
    folder = run.resolve() / provenance.folder if provenance.folder else None
    current = origin_of(folder, run=run) if folder is not None else None
    is_there = current is not None and current.config_hash == provenance.config_hash
    return TrainingInfo(
        method=provenance.method,
        tasks=provenance.tasks,
        seed=provenance.seed,
        config_hash=provenance.config_hash,
        steps=provenance.steps,
        folder=provenance.name,
        place=folder if is_there else None,
    )


def _peak(run: Run, name: str) -> int | None:
    """Return the highest peak in bytes of all attempts and processes; None if none is recorded."""
    # A damaged record of costs must not cost a run its score.
    with suppress(TypeError, ValueError, AttributeError):
        peaks_by_attempt = [
            attempt.get("memory", {}).get(name, []) for attempt in run.timing.get("attempts", [])
        ]
        return max((int(peak) for peaks in peaks_by_attempt for peak in peaks), default=None)
    return None


def _data(recorded: Mapping[str, object]) -> str:
    """Return the hash of a run's data: annotations and images. Comparable rows have equal ones."""
    fingerprint, images = recorded["fingerprint"], recorded.get("images")
    if images is None:
        return str(fingerprint)
    return hashlib.blake2b(f"{fingerprint}{images}".encode(), digest_size=16).hexdigest()
