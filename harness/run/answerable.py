"""Check which of a task's samples a model can answer, by the forms of answer that it declares.

Runs and `harness verify` do so before they predict anything.
"""

from collections.abc import Mapping
from types import MappingProxyType

from harness.errors import PartNotChosen, UnsupportedAnswerForm
from harness.run.survey import Survey
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
        missing: Forms for which the model lacks a part, such as a segmenter, each with a remedy.

    Raises:
        PartNotChosen: a part that a sample needs is missing.
        UnsupportedAnswerForm: the model can answer no sample.
    """
    for requested in surveyed.forms:
        for form in requested:
            if form in missing:
                raise PartNotChosen(f"{task.name} was not run: {missing[form]}")
    if forms is None:
        return ""
    unanswerable = {
        requested: n for requested, n in surveyed.forms.items() if not requested <= forms
    }
    if not unanswerable:
        return ""
    lacking_forms = {form for requested in unanswerable for form in requested - forms}
    form_names = " or ".join(sorted(lacking_forms))
    if len(unanswerable) < len(surveyed.forms):
        return (
            f"{model} gives no answer of the form {form_names}, which "
            f"{sum(unanswerable.values()):,} of {surveyed.n_total:,} samples of {task.name} ask "
            "for: they count as failed"
        )
    raise UnsupportedAnswerForm(
        f"model {model} on task {task.name}",
        expected=f"a model that answers with {form_names}",
        found=f"one that answers with {', '.join(sorted(forms))}",
        fix=f"{task.name} was not run with this model.",
    )
