"""Ask questions in the wording of Video-STR and its relatives, and read their `<answer>`.

`AnswerPrompts` is the `AnswerPrompt` of these methods; the wording is a TOML file of the method's
folder (`templates.py`). Answers are a letter, number, interval (seconds), text or 3-D box (metres).
"""

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
"""Objects that a prompt for a graph or map (the aid) lists. `listed`: those that the query lists
beside its text; `named`: those, or else the ones that its text names; `vsi`: SpaceR's list for
VSI-Bench; `off`: the prompt never asks for an aid. Without objects it does not either."""


@dataclass(frozen=True, slots=True)
class AnswerPrompts:
    """Makes the request for every form of answer in words, and reads the responses."""

    package: str = "harness.models.video_str"
    """Package of the wording."""
    file: str = "prompt.toml"
    """File of the wording in the package."""
    aid: Aid = "named"
    answer_tag: ClassVar[Which] = "first"
    """The one of several `<answer>` tags that is read: the first, as in the official code."""

    @property
    def templates(self) -> Templates:
        """The wording of the requests."""
        return templates(self.package, self.file)

    @property
    def forms(self) -> frozenset[AnswerForm]:
        """The forms of answer that have a template."""
        return frozenset(form for form in AnswerForm if form in self.templates.form)

    def objects(self, query: Query) -> tuple[tuple[str, ...], Source]:
        """Return the objects that the aid lists, and their source; none without an aid."""
        if self.aid == "off" or not self.templates.aided:
            return (), "none"
        if self.aid == "vsi":
            return self.templates.vsi_objects, "query"
        return objects_of(query, in_text=self.aid == "named")

    def render(self, query: Query, form: AnswerForm) -> str:
        """Return the request for one form of answer.

        Raises:
            UsageError: there is no template for this form.
        """
        return self.templates.render(
            query.text,
            form=form,
            options=query.options,
            objects=self.objects(query)[0],
            problem_type=query.problem_type,
        )

    def read(self, query: Query, form: AnswerForm, response: str) -> Answer:
        """Return the answer that a response gives.

        Raises:
            ParseError: the response has no answer of this form.
            UsageError: there is no template for this form.
        """
        self.templates.wording(form, listed=bool(query.options))
        text = answer_part(response, aid=self.templates.tag, which=self.answer_tag)
        if form is AnswerForm.BOX_3D:
            return Answer(boxes_3d=boxes_3d(text))
        return answer_in_words(query, form, text)

    def write(self, form: AnswerForm, answer: Answer) -> str:
        """Return the response for `answer`, without reasoning.

        Raises:
            ParseError: the answer has no value of this form, or it holds a tag of the grammar.
        """
        return answer_response(self._answer_text(form, answer))

    def _answer_text(self, form: AnswerForm, answer: Answer) -> str:
        """Return the text between the answer's tags; ParseError if there is no value."""
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
    """Return the boxes of `[x, y, z, width, height, length]` in metres, or of a list of such.

    Numbers after the sixth, such as a heading, are ignored; `[x, y, z]` is a box without extent.

    Raises:
        ParseError: the text has another form.
    """
    value = literal(text[text.find("[") :] if "[" in text else text)
    rows: Sequence[object] = value if isinstance(value, (list, tuple)) else [value]
    if rows and not isinstance(rows[0], (list, tuple)):
        rows = [rows]
    return tuple(_box_3d(row) for row in rows)


def _box_3d(row: object) -> Box3D:
    """Return the box of six or more numbers, or of the three of a centre."""
    if isinstance(row, (list, tuple)) and len(row) >= len(Box3D._fields):
        return Box3D(*finite_numbers(row[:6], 6, "box in space"))
    x, y, z = finite_numbers(row, 3, "centre in space")
    return Box3D(x, y, z, 0.0, 0.0, 0.0)


def digits(value: float) -> str:
    """Return a number without an exponent, and without a point if it is whole.

    Raises:
        ParseError: it is NaN or infinite.

    >>> digits(3.0), digits(-0.25), digits(1e-7)
    ('3', '-0.25', '0.0000001')
    """
    if not math.isfinite(value):
        raise ParseError("answer to write", expected="a finite number", found=str(value))
    text = repr(value)
    text = f"{value:.15f}" if "e" in text else text
    return text.rstrip("0").rstrip(".") if "." in text else text
