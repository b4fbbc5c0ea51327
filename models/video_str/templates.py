"""Load and fill the prompt templates of Video-STR and its relatives: `prompt.toml` in a folder.

A template of a form of answer has gaps in braces, which `Templates.render` fills.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from string import ascii_uppercase

from harness.errors import UsageError
from harness.types import AnswerForm

TEMPLATED_TYPES = {"OCR": AnswerForm.TEXT, "regression": AnswerForm.NUMBER}
"""Problem types that may have their own template, and the form of answer of each."""
GAP = re.compile(r"\{([A-Z][A-Za-z]*)\}")  # such as "{Question}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Templates:
    """The wording of one method; the fields are the keys of its `prompt.toml`."""

    plain: str
    """The common part of all requests."""
    form: Mapping[str, str]
    """Templates by the form of answer. Others are `choice_in_text`, for a question whose text
    contains its options, and `ocr` and `regression`, for these types of `Query.problem_type`."""
    options: str
    """Format of a question with its options."""
    option: str
    """Format of one option."""
    interval: str
    """Format of a time interval in an answer."""
    aided: str = ""
    """The common part with a request for a graph or map first; empty: there is none."""
    tag: str = ""
    """Tag of that graph or map."""
    example: str = ""
    """Example of the graph or map."""
    options_as_list: bool = False
    """True if options are listed as `['A. …', 'B. …']`, instead of one per line."""
    wanted: Mapping[str, str] = field(default_factory=dict)
    """Text for `{Wanted}`, by the form of answer."""
    vsi_objects: tuple[str, ...] = ()
    """The official list of categories for VSI-Bench."""

    def render(
        self,
        text: str,
        *,
        form: AnswerForm,
        options: Sequence[str] = (),
        objects: Sequence[str] = (),
        problem_type: str = "",
    ) -> str:
        """Return the request for a question; with `objects`, it asks for their graph or map first.

        The template of the form is filled in three steps:

        1. `{Prompt}` with the common part: `plain`, or `aided` where there are objects.
        2. `{Question}` with `options`, where there are options and no gap `{Options}`.
        3. All other gaps in one pass, so that `{Options}` in a question's own text stays.

        Raises:
            UsageError: there is no template for this form.
        """
        form_template = self.wording(form, listed=bool(options), problem_type=problem_type)
        common = self.aided if objects and self.aided else self.plain
        template = _fill(form_template, Prompt=common)
        if options and "{Options}" not in template:
            template = _fill(template, Question=self.options)
        return _fill(
            template,
            Question=text,
            Options=self._option_lines(options),
            Objects=str(list(objects)),
            Example=self.example,
            Wanted=self.wanted.get(form, ""),
        )

    def wording(self, form: AnswerForm, *, listed: bool, problem_type: str = "") -> str:
        """Return the template of a form of answer, or of a problem type with that form.

        Args:
            form: The form of answer.
            listed: True if the query lists options beside its text.
            problem_type: The benchmark's name of the problem type.

        Raises:
            UsageError: there is none.
        """
        name = "choice_in_text" if form is AnswerForm.CHOICE and not listed else str(form)
        if TEMPLATED_TYPES.get(problem_type) is form:
            name = problem_type.lower()
        template = self.form.get(name, self.form.get(form))
        if template is None:
            raise UsageError(
                f"a question for {form}",
                expected=f"one for {', '.join(self.form)}",
                found=str(form),
                fix="Use a model that gives such answers.",
            )
        return template

    def _option_lines(self, options: Sequence[str]) -> str:
        """Return the text for `{Options}`."""
        lines = [
            _fill(self.option, Letter=letter, Text=text)
            for letter, text in zip(ascii_uppercase, options, strict=False)
        ]
        return str(lines) if self.options_as_list else "".join(lines)


@lru_cache
def templates(package: str, name: str = "prompt.toml") -> Templates:
    """Return the wording in a TOML file of a package."""
    fields = tomllib.loads(files(package).joinpath(name).read_text("utf-8"))
    fields["vsi_objects"] = tuple(fields.get("vsi_objects", ()))
    return Templates(**fields)


def _fill(template: str, **values: str) -> str:
    """Return the template with gaps filled in one pass; gaps without a value stay."""
    return GAP.sub(lambda match: values.get(match[1], match[0]), template)
