"""Prompt templates of a method: `prompt.toml` of its folder, filled in one pass.

A template has its gaps in braces: `{Prompt}` is the common part (`plain`, or `aided` with a list of
objects), `{Question}`, `{Options}`, `{Objects}`, `{Example}` and `{Wanted}` are put in last and at
once, so that `{Options}` in a question's own text is not filled.
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

TYPES = {"OCR": AnswerForm.TEXT, "regression": AnswerForm.NUMBER}
"""Types of problem that may have a wording of their own, and the form of answer of each."""
GAP = re.compile(r"\{([A-Z][A-Za-z]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Templates:
    """The wording of one method, as its data file has it."""

    plain: str
    form: Mapping[str, str]
    """Templates by the form of answer; `choice_in_text` where a question lists its options itself,
    `ocr` and `regression` where the benchmark marks it so (`Query.problem_type`)."""
    options: str
    """Format of a question and its options."""
    option: str
    interval: str
    """Format of a stretch of time."""
    aided: str = ""
    """`plain` with the invitation to draw up a graph or a map first; empty: there is none."""
    tag: str = ""
    """Tag of that graph or map."""
    example: str = ""
    list: bool = False
    """Options are listed as `['A. …', 'B. …']`, instead of one per line."""
    wanted: Mapping[str, str] = field(default_factory=dict)
    """Text for `{Wanted}`, by the form of answer."""
    vsi_objects: tuple[str, ...] = ()

    def render(
        self,
        text: str,
        *,
        form: AnswerForm,
        options: Sequence[str] = (),
        objects: Sequence[str] = (),
        problem_type: str = "",
    ) -> str:
        """The request for a question; with `objects`, it invites to place them first.

        Raises:
            UsageError: there is no wording for this form.
        """
        outer = self.wording(form, listed=bool(options), problem_type=problem_type)
        common = self.aided if objects and self.aided else self.plain
        template = _fill(outer, Prompt=common)
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
        """The template of a form, or of a type of problem that has that form.

        Raises:
            UsageError: there is none.
        """
        name = "choice_in_text" if form is AnswerForm.CHOICE and not listed else str(form)
        if TYPES.get(problem_type) is form:
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
        lines = [
            _fill(self.option, Letter=letter, Text=text)
            for letter, text in zip(ascii_uppercase, options, strict=False)
        ]
        return str(lines) if self.list else "".join(lines)


@lru_cache
def templates(package: str, name: str = "prompt.toml") -> Templates:
    """The wording in a data file of a package."""
    plain = tomllib.loads(files(package).joinpath(name).read_text("utf-8"))
    plain["vsi_objects"] = tuple(plain.get("vsi_objects", ()))
    return Templates(**plain)


def _fill(template: str, **values: str) -> str:
    """Fill gaps, all at once, so that braces of the values are left alone; other braces stay."""
    return GAP.sub(lambda match: values.get(match[1], match[0]), template)
