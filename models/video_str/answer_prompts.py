"""Questions in a method's wording, and answers read from its responses."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from harness.errors import ParseError
from harness.models.questions import answer_in_words, answer_part
from harness.models.video_str.grammar import answer_response, literal
from harness.models.video_str.objects import Source, objects_of
from harness.models.video_str.templates import Templates, templates
from harness.responses import Which, finite_numbers
from harness.types import Answer, AnswerForm, Box3D, Query

Aid: TypeAlias = Literal["listed", "named", "vsi", "off"]
"""Objects that a graph or map prompt lists: those that the query lists beside its text; without
any, those that its text names (none: no such prompt); SpaceR's list for VSI-Bench; or no such
prompt ever."""


@dataclass(frozen=True, slots=True)
class AnswerPrompts:
    """Prompts for a letter, a number, a stretch of time, a box in space or a text, and their
    parser.
    """

    package: str = "harness.models.video_str"
    file: str = "prompt.toml"
    aid: Aid = "named"
    counts: ClassVar[Which] = "first"
    """The one of several `<answer>` tags that is read, as in the official code of these methods."""

    @property
    def templates(self) -> Templates:
        """The wording."""
        return templates(self.package, self.file)

    @property
    def forms(self) -> frozenset[AnswerForm]:
        """The forms of answer that it has wordings for."""
        return frozenset(form for form in AnswerForm if form in self.templates.form)

    def objects(self, query: Query) -> tuple[tuple[str, ...], Source]:
        """Return the objects to list, and their source; none where there is no graph."""
        if self.aid == "off" or not self.templates.aided:
            return (), "none"
        if self.aid == "vsi":
            return self.templates.vsi_objects, "query"
        return objects_of(query, in_text=self.aid == "named")

    def render(self, query: Query, form: AnswerForm) -> str:
        """The request for one form of answer.

        Raises:
            UsageError: there is no wording for this form.
        """
        return self.templates.render(
            query.text,
            form=form,
            options=query.options,
            objects=self.objects(query)[0],
            problem_type=query.problem_type,
        )

    def read(self, query: Query, form: AnswerForm, response: str) -> Answer:
        """The answer that a response gives.

        Raises:
            ParseError: it gives none.
            UsageError: this form cannot be asked for.
        """
        self.templates.wording(form, listed=bool(query.options))
        text = answer_part(response, aid=self.templates.tag, which=self.counts)
        if form is AnswerForm.BOX_3D:
            return Answer(boxes_3d=boxes_3d(text))
        return answer_in_words(query, form, text)

    def write(self, form: AnswerForm, answer: Answer) -> str:
        """Return the response for `answer`, without reasoning.

        Raises:
            ParseError: the answer says nothing of this form, or holds a tag of the grammar.
        """
        return answer_response(self._answer_text(form, answer))

    def _answer_text(self, form: AnswerForm, answer: Answer) -> str:
        if form is AnswerForm.CHOICE and answer.choice is not None:
            return answer.choice
        if form is AnswerForm.NUMBER and answer.number is not None:
            return digits(float(answer.number))
        if form is AnswerForm.INTERVAL and answer.interval is not None:
            start, end = (digits(second) for second in answer.interval)
            return self.templates.interval.replace("{Start}", start).replace("{End}", end)
        if form is AnswerForm.BOX_3D and answer.boxes_3d is not None:
            rows = [list(box) for box in answer.boxes_3d]
            return json.dumps(rows[0] if len(rows) == 1 else rows)
        if form is AnswerForm.TEXT and answer.text is not None:
            return answer.text
        raise ParseError("answer to write", expected=f"one for {form}", found="none")


def boxes_3d(text: str) -> tuple[Box3D, ...]:
    """`[x, y, z, width, height, length]` in metres, or a list of such; `[x, y, z]` is a centre.

    What follows the six numbers, such as a heading, is not read; a centre alone has no extent.
    """
    value = literal(text[text.find("[") :] if "[" in text else text)
    rows: Sequence[object] = value if isinstance(value, (list, tuple)) else [value]
    if rows and not isinstance(rows[0], (list, tuple)):
        rows = [rows]
    return tuple(_box_3d(row) for row in rows)


def _box_3d(row: object) -> Box3D:
    if isinstance(row, (list, tuple)) and len(row) >= len(Box3D._fields):
        return Box3D(*finite_numbers(row[:6], 6, "box in space"))
    x, y, z = finite_numbers(row, 3, "centre in space")
    return Box3D(x, y, z, 0.0, 0.0, 0.0)


def digits(value: float) -> str:
    """Digits without an exponent; whole numbers without a point.

    >>> digits(3.0), digits(-0.25), digits(1e-7)
    ('3', '-0.25', '0.0000001')
    """
    if not math.isfinite(value):
        raise ParseError("answer to write", expected="a finite number", found=str(value))
    text = repr(value)
    text = f"{value:.15f}" if "e" in text else text
    return text.rstrip("0").rstrip(".") if "." in text else text
