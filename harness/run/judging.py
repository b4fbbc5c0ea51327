"""Judges that store their verdicts: each is requested once, and read from a file afterwards.

A verdict's key hashes all that could change it: rubric, question, answer, ground truth and the
judge's name. With `stored(file=…)` no judge is asked at all. `with_judge` binds a judge to a task
whose protocol grades free answers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from harness import plugins
from harness.errors import DataError, UsageError
from harness.judge import Judge, Verdict
from harness.judging import Case
from harness.judging import rubric as find
from harness.record import Run
from harness.responses import storable
from harness.run.recorded_task import recorded_task
from harness.scores import Scores
from harness.spec import Spec, parse
from harness.store.ledger import Ledger
from harness.task import Task, with_metrics
from harness.types import Prediction, Sample

VERDICTS = "verdicts.jsonl"
"""File in a run folder with its judge's verdicts."""


@dataclass(frozen=True)
class KeptJudge:
    """A judge whose verdicts are stored in a file."""

    name: str
    """The judge's own name."""
    ledger: Ledger
    """The stored verdicts by key."""
    inner: Judge | None = None
    """The judge that gives new verdicts; None: only stored verdicts are returned."""

    def prepare(self) -> None:
        """Load the inner judge, if it loads something."""
        load: Callable[[], object] | None = getattr(self.inner, "prepare", None)
        if load is not None:
            load()

    @property
    def cost(self) -> float:
        """Money that the judge has cost in this process; 0 without prices."""
        return float(getattr(self.inner, "cost", 0.0))

    def judge(self, rubric: str, question: str, answer: str, ground_truth: str) -> Verdict:
        """Return the stored verdict, or ask the inner judge and store its verdict.

        Raises:
            DataError: no verdict on this case is stored, and there is no inner judge.
        """
        by, case = find(rubric), Case(question, answer, ground_truth)
        key = by.key(case, self.name)
        if key not in self.ledger.records:
            if self.inner is None:
                raise DataError(
                    f"verdicts {self.ledger.path}",
                    expected=f"{self.name} on {answer[:40]!r} for {ground_truth[:40]!r} by "
                    f"rubric {by.name}, version {by.version} ({by.digest[:8]})",
                    found="none",
                    fix="Run that judge with the same file first: answers without a verdict "
                    "are not scored.",
                )
            verdict = self.inner.judge(rubric, *case)
            self.ledger.append(
                key,
                {
                    "judge": self.name,
                    "rubric": {"name": by.name, "version": by.version, "digest": by.digest},
                    "prompt": storable(by.prompt_for(case)),
                    "question": storable(question),
                    "answer": storable(answer),
                    "ground_truth": storable(ground_truth),
                    "score": verdict.score,
                    "text": storable(verdict.text),
                },
            )
        record = self.ledger.records[key]
        score = record["score"]
        return Verdict(None if score is None else float(score), str(record["text"]))


def remember(judge: Judge, *, file: Path) -> KeptJudge:
    """Return a judge that keeps the verdicts of `judge` in a file."""
    return KeptJudge(judge.name, Ledger(file), judge)


def remembered(*, judge: Spec, file: Path) -> KeptJudge:
    """A judge whose verdicts are kept: `remembered(judge=chat(…),file=verdicts.jsonl)`.

    Args:
        judge: Who is asked.
        file: Where the verdicts are kept, and read back from.
    """
    return remember(plugins.build("judges", judge), file=file)


def stored(*, file: Path, judge: str | None = None) -> KeptJudge:
    """The verdicts in a file, without asking anyone: a missing one is an error.

    Args:
        file: What `remembered` has kept.
        judge: The name of the judge whose verdicts count; needed if the file has several.

    Raises:
        UsageError: there is no such file, or it does not settle the judge.
    """
    if not file.is_file():
        raise UsageError(f"stored(file={file})", expected="a file of verdicts", found="none")
    ledger = Ledger(file)
    names = sorted({str(record.get("judge")) for record in ledger.records.values()})
    if judge is None and len(names) != 1:
        raise UsageError(
            f"stored(file={file})",
            expected="judge=…, one of the judges in it",
            found=", ".join(names) or "no verdict",
        )
    if judge is not None and judge not in names:
        raise UsageError(
            f"stored(judge={judge})",
            expected=" or ".join(names) or "a judge of the file, which is empty",
            found="another",
        )
    return KeptJudge(judge or names[0], ledger)


def with_judge(task: Task, judge: Judge, *, file: Path | None = None) -> Task:
    """Return the task with its free answers graded by `judge`; judge and rubric are recorded.

    Args:
        task: A task whose protocol names a rubric.
        judge: The judge that grades.
        file: A file that stores the verdicts, even if the judge stores them elsewhere too; it is
            opened when the first verdict is needed.

    Raises:
        UsageError: the task's protocol has no answers for a judge.
    """
    protocol, make = task.protocol, task.protocol.judged
    if protocol.rubric is None or make is None:
        raise UsageError(
            f"a judge for {task.name}", expected="a protocol with a judge", found=protocol.name
        )
    by = find(protocol.rubric)

    @cache
    def the_judge() -> Judge:
        return judge if file is None else remember(judge, file=file)

    def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
        return make(the_judge())(unit, predictions)

    judged_by = {
        "judge": judge.name,
        "rubric": f"{by.name}, version {by.version} ({by.digest[:8]})",
    }
    return replace(
        task, protocol=replace(protocol, score=score), arguments={**task.arguments, **judged_by}
    )


def bind_judge(task: Task, judge: Judge | None, folder: Path | None) -> Task:
    """Bind a judge to a task that needs one; verdicts are stored in `folder`, a run's folder."""
    if judge is None or task.protocol.rubric is None:
        return task
    return with_judge(task, judge, file=None if folder is None else folder / VERDICTS)


def unjudged(rubric: str) -> UsageError:
    """Return the error for a free answer under a protocol without a judge."""
    return UsageError(
        f"answers that are graded by the rubric {rubric}",
        expected="--judge SPEC",
        found="none",
        fix='For example --judge "chat(backend=transformers(checkpoint=…))", or '
        "--judge stored(file=…) for verdicts that are kept.",
    )


def verdicts_of(run: Run) -> KeptJudge | None:
    """Return a finished run's judge with its stored verdicts alone; None if it had no judge."""
    name = run.manifest["task"]["arguments"].get("judge")
    return None if name is None else KeptJudge(name, Ledger(run.folder / VERDICTS))


@dataclass(frozen=True, slots=True)
class TaskSource:
    """The SPECs, data root and judge from which a process builds a task for itself."""

    spec: str
    data: Path
    metrics: tuple[str, ...] = ()
    judge: Judge | None = None
    protocol: str = ""
    """Protocol of a record, which counts where the SPEC names none; empty: the task's default."""

    def build(self) -> Task:
        """Build the task, with the further metrics, and its judge if it has one."""
        extras = [plugins.build("metrics", parse(spec)) for spec in self.metrics]
        task = recorded_task(parse(self.spec), self.data, self.protocol)
        task = with_metrics(task, extras)
        return task if self.judge is None else with_judge(task, self.judge)
