"""`--judge SPEC`: the model that grades free answers, checked before anything runs."""

from argparse import Namespace
from collections.abc import Sequence

from harness import plugins
from harness.errors import DataError, ModelError, UsageError
from harness.judge import Judge
from harness.run.judging import KeptJudge, unjudged
from harness.spec import parse
from harness.task import Task


def judge_for(arguments: Namespace, tasks: Sequence[Task]) -> Judge | None:
    """Return the judge of `--judge`; None if no task needs one.

    Raises:
        UsageError: a task needs a judge and none is given, or the reverse; or it cannot be built.
    """
    judged = [task for task in tasks if task.protocol.rubric is not None]
    if arguments.judge is None:
        if judged:
            protocol = judged[0].protocol
            raise UsageError(
                f"{judged[0].name}, protocol {protocol.name}: {unjudged(protocol.rubric or '')}"
            )
        return None
    if not judged:
        raise UsageError(
            f"--judge {arguments.judge}",
            expected="a task whose answers are judged",
            found=", ".join(task.name for task in tasks) or "none",
        )
    return build_judge(arguments.judge)


def build_judge(text: str) -> Judge:
    """Build the judge of a SPEC; raise UsageError if that fails, or it has no name to record."""
    try:
        judge: Judge = plugins.build("judges", parse(text))
        with plugins.plugin_errors(f"judge {text}", ModelError):
            assert judge.name, "a judge with a name, which states its model"
    except (ModelError, DataError) as error:
        raise UsageError(f"--judge {text}: {error}") from error
    return judge


def refuse_several(judge: Judge | None, workers: int) -> None:
    """Raise UsageError if several processes would call the judge; stored verdicts are allowed."""
    is_stored = isinstance(judge, KeptJudge) and judge.inner is None
    if workers > 1 and judge is not None and not is_stored:
        raise UsageError(
            "--workers",
            expected="1 if a judge is called",
            found=str(workers),
            fix="Several workers can read stored verdicts: stored(file=…).",
        )
