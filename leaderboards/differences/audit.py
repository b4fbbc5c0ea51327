"""Run controls that remove what a model should need, and judge how much of its score is seeing.

Each control is a run of the same model on the same samples with one change. The images are grey, of
another question, with tiles or frames in another order, or missing; or the options have another
order; or there are fewer or more frames; or the answer continues another response's reasoning. The
paired test that ranks rows of a board compares the control with the unchanged model.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from operator import itemgetter
from pathlib import Path

from harness import plugins
from harness.errors import HarnessError, counted
from harness.files import temporary_prefix
from harness.leaderboards.differences.audit_verdicts import (
    Judge,
    judge_blind,
    judge_frames,
    judge_options,
    judge_order,
    judge_reasoning,
)
from harness.leaderboards.differences.option_order import (
    is_same_option,
    shuffled_options,
    shuffled_sample,
)
from harness.leaderboards.differences.scoring import samples_by_unit, task_for
from harness.record import Run
from harness.run.contamination import read_contamination
from harness.run.evaluate import evaluate
from harness.run.options import Options, Progress
from harness.run.scoring import score_unit
from harness.run.sweep import with_argument
from harness.run.verify import perfect
from harness.spec import Spec, parse
from harness.statistics.paired import Comparison, compare, dependencies_of
from harness.store.atomic import writing
from harness.summary import values
from harness.task import Task
from harness.types import Sample

CONTROLS = (
    "grey",
    "swapped",
    "shuffled",
    "omitted",
    "reasoning",
    "options",
    "frames",
    "contamination",
)
BLIND = ("grey", "omitted", "swapped")
"""Controls without the question's own images."""
CHANGE_OF_CONTROL: Mapping[str, str] = {
    "grey": "images of one grey",
    "swapped": "images of another question",
    "shuffled": "tiles of an image, or frames of a video, in another order",
    "omitted": "the text alone",
    "options": "options in another order",
    "reasoning": "answers continue another response's reasoning",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """The result of one control."""

    name: str
    about: str
    value: float | None = None
    comparison: Comparison | None = None
    """The control (b) against the unchanged model (a)."""
    verdict: str
    """`sees`, `partly`, `does not see`, …, or `not applicable`."""
    passed: bool | None = None
    """True if a sound model has this verdict, False if not, None if it decides neither."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """All controls of one run."""

    model: str
    task: str
    protocol: str
    headline: str
    n_samples: int
    value: float | None
    interval: tuple[float, float] | None
    controls: tuple[Control, ...]

    @property
    def seeing(self) -> float | None:
        """The loss of the headline without the question's own images.

        It is the smallest loss of the controls in `BLIND`; None if none of them could run.
        """
        best = self.best_blind
        return None if best is None or best.comparison is None else best.comparison.loss

    @property
    def best_blind(self) -> Control | None:
        """The control in `BLIND` that keeps most of the score; None if none of them could run."""
        losses = {
            control.name: (control.comparison.loss, control)
            for control in self.controls
            if control.name in BLIND
            and control.comparison is not None
            and control.comparison.loss is not None
        }
        return min(losses.values(), key=itemgetter(0), default=(0.0, None))[1]

    def to_json(self) -> dict[str, object]:
        """Plain data, for programs."""
        controls = []
        for control in self.controls:
            comparison = None if control.comparison is None else control.comparison.to_json()
            plain = asdict(replace(control, comparison=None))
            controls.append({**plain, "comparison": comparison})
        return {**asdict(replace(self, controls=())), "controls": controls, "seeing": self.seeing}


@dataclass
class _Auditor:
    """Runs the controls of one finished run; their folders are below `out`."""

    run: Run
    data_root: Path | None
    out: Path
    progress: Progress
    workers: int

    @cached_property
    def task(self) -> Task:
        return task_for(self.run, self.data_root)

    @cached_property
    def spec(self) -> Spec:
        return parse(self.run.manifest["model"]["spec"])

    @cached_property
    def samples(self) -> list[Sample]:
        return [sample for unit in samples_by_unit(self.task, self.run) for sample in unit]

    def evaluate(self, name: str, spec: Spec, task: Task, folder: Path) -> Run:
        """Evaluate a model on the samples of the run, with the run's subset and seed."""
        manifest = self.run.manifest
        subset = manifest["subset"]
        if subset is not None and subset.startswith("ids-"):
            path = self.out / "ids.txt"
            path.write_text("".join(f"{sample.id}\n" for sample in self.samples), "utf-8")
            subset = str(path)
        options = Options(
            subset=subset,
            name=f"{manifest['model']['name']}, {name}",
            seed=manifest["seed"],
            workers=self.workers,
            data_root=str(self.data_root or manifest["data"]["root"]),
        )
        self.progress.note(f"control {name}: {spec}")
        return evaluate(
            task, spec, folder, options, task_spec=manifest["task"]["spec"], progress=self.progress
        )

    def judged(self, name: str, run: Run, judge: Judge, about: str = "") -> Control:
        """Compare the run of a control with the unchanged model, and judge it."""
        headline = self.run.results["headline"]
        metrics = dependencies_of(self.task.protocol.metrics, headline)
        comparison = compare(metrics, tuple(self.run.units()), tuple(run.units()), name=headline)
        verdict, passed = judge(comparison)
        return Control(
            name=name,
            about=about or CHANGE_OF_CONTROL.get(name, ""),
            value=run.results["metrics"][headline],
            comparison=comparison,
            verdict=verdict,
            passed=passed,
        )

    def control(self, name: str, spec: Spec, judge: Judge, about: str = "") -> Control:
        """Run a control and judge it."""
        try:
            run = self.evaluate(name, spec, self.task, self.out / "runs" / name)
        except HarnessError as error:
            return _skipped(name, str(error), about)
        return self.judged(name, run, judge, about)

    def all(self, names: Sequence[str] | None) -> Iterator[Control]:
        """Yield the result of every control; one that cannot run has the reason."""
        special_controls = {
            "reasoning": self._reasoning,
            "options": self._options,
            "frames": self._frames,
            "contamination": self._contamination,
        }
        for name in CONTROLS:
            if names is not None and name not in names:
                continue
            if name in special_controls:
                yield from special_controls[name]()
            else:
                judge = judge_order if name == "shuffled" else judge_blind
                yield self._ablated(name, "images", name, judge)

    def _ablated(self, name: str, setting: str, value: str, judge: Judge) -> Control:
        """Run a control that changes the requests to the network (backend `ablation`)."""
        if not plugins.accepts("models", self.spec.name, "backend"):
            return _skipped(name, f"{self.spec.name} has no network behind a backend")
        inner = self.spec.arguments.get("backend", Spec("transformers"))
        inner = inner if isinstance(inner, Spec) else Spec(str(inner))
        ablated = Spec("ablation", {"chat": inner, setting: value})
        return self.control(name, with_argument(self.spec, "backend", ablated), judge)

    def _reasoning(self) -> Iterator[Control]:
        """Yield the control `reasoning`: answers after another response's reasoning."""
        responses = (self.run.prediction(sample.id).responses for sample in self.samples)
        if any("<think>" in text for turns in responses for text in turns):
            yield self._ablated("reasoning", "reasoning", "swapped", judge_reasoning)
        else:
            yield _skipped("reasoning", "no response reasons in <think> tags")

    def _options(self) -> Iterator[Control]:
        """Yield the control `options`: the same questions with their options reordered."""
        all_pairs = [(sample, shuffled_sample(sample)) for sample in self.samples]
        sample_pairs = {
            sample.id: (sample, shuffled)
            for sample, shuffled in all_pairs
            if shuffled is not sample
        }
        task = shuffled_options(self.task)
        if not sample_pairs:
            yield _skipped("options", "no question has options apart from its text")
        elif _ceiling(self.task, self.run) != _ceiling(task, self.run):
            yield _skipped("options", f"{task.protocol.name} reads the options by itself")
        else:
            yield self._reordered(task, sample_pairs)

    def _reordered(self, task: Task, sample_pairs: Mapping[str, tuple[Sample, Sample]]) -> Control:
        """Run the control `options`, on (original, shuffled) samples by id."""
        # A temporary folder: no board may mistake this run for a run of the task.
        with tempfile.TemporaryDirectory(prefix=temporary_prefix("audit")) as folder:
            run = self.evaluate("options", self.spec, task, Path(folder) / "options")
            same_option = [
                is_same_option(original, shuffled, self.run.prediction(name), run.prediction(name))
                for name, (original, shuffled) in sample_pairs.items()
            ]
            comparable = [is_same for is_same in same_option if is_same is not None]
            groups = len({original.group for original, _ in sample_pairs.values()})
            about = (
                f"{CHANGE_OF_CONTROL['options']}, of {counted(len(sample_pairs), 'question')}; "
                f"the answer stays in {sum(comparable)} of {len(comparable)}"
            )
            judge = partial(judge_options, is_same=comparable, groups=groups)
            return self.judged("options", run, judge, about)

    def _frames(self) -> Iterator[Control]:
        """Yield the controls `frames=N`: one frame, and half and twice the usual number."""
        if not any(len(media) > 1 for sample in self.samples for media in sample.query.media):
            yield _skipped("frames", "no question shows a video")
            return
        if not plugins.accepts("models", self.spec.name, "frames"):
            yield _skipped("frames", f"{self.spec.name} has no setting `frames`")
            return
        usual = self.run.manifest["model"]["description"].get("frames")
        frame_counts = (1, usual // 2, 2 * usual) if isinstance(usual, int) else (1, 4)
        for count in sorted({count for count in frame_counts if count >= 1 and count != usual}):
            about = f"{count} frames instead of {usual}"
            spec = with_argument(self.spec, "frames", count)
            yield self.control(f"frames={count}", spec, judge_frames, about)

    def _contamination(self) -> Iterator[Control]:
        """Yield the control `contamination`, from what the checkpoint records of its training."""
        contamination = read_contamination(self.run.folder)
        if contamination is None:
            verdict, reason = "not known", "the checkpoint does not say"
        elif contamination.is_any:
            verdict, reason = "trained on some", str(contamination)
        else:
            verdict, reason = "none found", f"of {counted(contamination.n_total, 'sample')}"
        yield Control(
            name="contamination",
            about="samples that the checkpoint was trained on",
            verdict=verdict,
            passed=None if contamination is None else not contamination.is_any,
            reason=reason,
        )


def _skipped(name: str, reason: str, about: str = "") -> Control:
    about = about or CHANGE_OF_CONTROL.get(name, "")
    return Control(name=name, about=about, verdict="not applicable", reason=reason)


def _ceiling(task: Task, run: Run) -> float | None:
    """Return the headline of perfect answers to the samples of a run."""
    unit_scores = [
        score_unit(task, unit, [perfect(sample) for sample in unit])
        for unit in samples_by_unit(task, run)
    ]
    return values(task, unit_scores)[task.protocol.headline]


def audit(
    run: Run,
    *,
    out: Path,
    data_root: Path | None = None,
    names: Sequence[str] | None = None,
    workers: int = 1,
    progress: Progress,
) -> Audit:
    """Run all controls of a finished run, and judge them.

    The controls' run folders are in `out`; unfinished ones from an earlier call are resumed.
    """
    auditor = _Auditor(run, data_root, out, progress, workers)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    results, task = run.results, run.manifest["task"]
    interval = results["intervals"].get(results["headline"])
    return Audit(
        model=run.manifest["model"]["name"],
        task=f"{task['name']} {task['split']}",
        protocol=task["protocol"],
        headline=results["headline"],
        n_samples=results["n_total"],
        value=results["metrics"][results["headline"]],
        interval=None if interval is None else (interval[0], interval[1]),
        controls=tuple(auditor.all(names)),
    )
