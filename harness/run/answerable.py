"""The part of a task's samples that a model can answer, by the forms of answer it declares."""

from collections.abc import Mapping
from types import MappingProxyType

from harness.errors import PartNotChosen, UnsupportedAnswerForm
from harness.run.preflight import Survey
from harness.task import Task
from harness.types import AnswerForm


def check_answerable(
    model: str,
    forms: frozenset[AnswerForm] | None,
    task: Task,
    surveyed: Survey,
    *,
    missing: Mapping[AnswerForm, str] = MappingProxyType({}),
) -> str:
    """Describe the part of the samples that a model cannot answer; empty if it can answer all.

    Args:
        model: The model's name.
        forms: Forms of answer that the model gives; None: not declared, it is asked for all.
        task: The task that the samples belong to.
        surveyed: The survey of the samples.
        missing: Forms that lack a part of the model, each with what to do about it.

    Raises:
        PartNotChosen: a part that a sample needs is missing.
        UnsupportedAnswerForm: the model can answer no sample.
    """
    if lacking := [
        missing[form] for forms_ in surveyed.forms for form in forms_ if form in missing
    ]:
        raise PartNotChosen(f"{task.name} was not run: {lacking[0]}")
    lost = (
        {}
        if forms is None
        else {requested: n for requested, n in surveyed.forms.items() if not requested <= forms}
    )
    if not lost or forms is None:
        return ""
    wanted = " or ".join(sorted({form for requested in lost for form in requested - forms}))
    if len(lost) < len(surveyed.forms):
        return (
            f"{model} gives no answer of the form {wanted}, which {sum(lost.values()):,} of "
            f"{surveyed.n_total:,} samples of {task.name} ask for: they count as failed"
        )
    raise UnsupportedAnswerForm(
        f"model {model} on task {task.name}",
        expected=f"a model that answers with {wanted}",
        found=f"one that answers with {', '.join(sorted(forms))}",
        fix=f"{task.name} was not run with this model.",
    )
