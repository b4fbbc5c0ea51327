"""Ask questions that are answered in words, and read the letter, number, interval or text.

The answer is the content of `<answer>…</answer>`, or else all text after the thought. `Questions`
is the `AnswerPrompt` of most methods; its wording is the `questions.toml` of the method's folder.
"""

import json
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from string import ascii_uppercase
from typing import ClassVar

from harness.errors import ParseError, UsageError
from harness.interchange.answers import MAX_COUNT
from harness.models.prompts import fill
from harness.responses import Which, tag_text
from harness.stated.corrections import own_turn
from harness.stated.intervals import stated_interval
from harness.stated.letters import stated_letter
from harness.stated.numbers import stated_number
from harness.stated.refusals import refuse_tool_call
from harness.thoughts import split_thought
from harness.types import Answer, AnswerForm, Interval, Query

_COORDINATES_OR_PERCENT = re.compile(
    r"[\[{(<]\s{0,9}[\[{(]|\[\s{0,9}[\"'\d]|[{(<]\s{0,9}\d[\d.]{0,9}\s?,|<\|?\w|%|```(?!json)"
    r"|\b(?:b?box|point)(?:es|s)?\b|(?:box|point)(?:es|s)?_2d"
)
"""Matches parts of coordinates ("[[1", '{"bbox', "<box>", "points") and percents. A number in a
text that has them may not be the count."""
_ANSWER_TAG = re.compile(r"</?answer>")  # "<answer>" or "</answer>"


@lru_cache
def templates(package: str) -> Mapping[str, str]:
    """Return the request template of each form of answer, from a package's `questions.toml`."""
    return tomllib.loads(files(package).joinpath("questions.toml").read_text("utf-8"))


@dataclass(frozen=True, slots=True)
class Questions:
    """Requests for answers in words, and the parser of the responses."""

    package: str = "harness.models.qwen_vl"
    """Package whose `questions.toml` has the wording."""
    words: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Templates in place of the package's, by form. `option` is the template of one line of
    {Options}, with {Letter} and {Option}."""
    answer_tag: ClassVar[Which] = "last"
    """The one of several `<answer>` tags that is read. No request here asks for the tag."""

    @property
    def forms(self) -> frozenset[AnswerForm]:
        """The forms of answer that have a template."""
        return frozenset(form for form in AnswerForm if form in self._templates)

    def render(self, query: Query, form: AnswerForm) -> str:
        """Return the request for one form of answer.

        Raises:
            UsageError: there is no template for this form.
        """
        template = self.wording(form)
        if form is not AnswerForm.CHOICE:
            return fill(template, Question=query.text)
        option_template = self.words.get("option", "{Letter}. {Option}")
        lines = [
            fill(option_template, Letter=letter, Option=option)
            for letter, option in zip(ascii_uppercase, query.options, strict=False)
        ]
        return fill(template, Question=query.text, Options="\n".join(lines))

    def read(self, query: Query, form: AnswerForm, response: str) -> Answer:
        """Return the answer that a response gives.

        Raises:
            ParseError: the response has no answer of this form.
            UsageError: there is no template for this form.
        """
        self.wording(form)  # raises for a form without a template
        return answer_in_words(query, form, answer_part(response, which=self.answer_tag))

    def write(self, form: AnswerForm, answer: Answer) -> str:
        """Return the response that `read` reads as `answer`."""
        if form is AnswerForm.CHOICE:
            return str(answer.choice)
        if form is AnswerForm.NUMBER:
            return _digits(math.nan if answer.number is None else float(answer.number))
        if form is AnswerForm.INTERVAL and answer.interval is not None:
            return json.dumps({"start": answer.interval.start, "end": answer.interval.end})
        return answer.text or ""

    @property
    def _templates(self) -> Mapping[str, str]:
        return {**templates(self.package), **self.words}

    def wording(self, form: AnswerForm) -> str:
        """Return the template of the request for a form of answer.

        Raises:
            UsageError: there is none.
        """
        by_form = self._templates
        if form not in by_form:
            raise UsageError(
                f"a question for {form}",
                expected=f"one for {', '.join(by_form)} or places in an image",
                found=str(form),
                fix="Use a model that gives such answers.",
            )
        return by_form[form]


def answer_part(response: str, *, aid: str = "", which: Which = "first") -> str:
    """Return the part of a response that is its answer.

    This is the content of the `<answer>` after the thought, or all text after the thought.

    Args:
        response: The network's text.
        aid: Tag of an intermediate result, such as `graph`; the answer is what follows its end.
        which: Which of several `<answer>` tags counts.

    Raises:
        ParseError: nothing follows the thought; an answer is nested in an answer; the last answer
            is not closed, or the network made up another question; or the response calls a tool.

    >>> answer_part("<think>1 or 2?</think><graph>{'a': [1, 2, 3]}</graph> B", aid="graph")
    'B'
    """
    thought, text = split_thought(response)
    if thought and not text.strip():
        raise ParseError("response", expected="an answer", found="only reasoning")
    if which == "last":  # it could be of a turn that the network made up after its own
        text = own_turn(text)
    answer = tag_text(text, "answer", which=which)
    if answer is not None:
        is_nested, is_open = _tag_faults(text)
        if is_nested or (which == "last" and is_open):
            raise ParseError("response", expected="closed answers", found=repr(text[-60:]))
        return answer
    refuse_tool_call(text)
    if aid and f"</{aid}>" in text:
        text = text.rpartition(f"</{aid}>")[2]
    return text.strip()


def _tag_faults(text: str) -> tuple[bool, bool]:
    """Return whether an answer is nested in an answer, and whether the last tag is an opening one.

    >>> _tag_faults("<answer><answer>1</answer></answer>"), _tag_faults("<answer>1")
    ((True, False), (False, True))
    """
    tags = _ANSWER_TAG.findall(text)
    nested = ["<answer>", "<answer>", "</answer>", "</answer>"]
    is_nested = any(tags[index : index + 4] == nested for index in range(len(tags)))
    return is_nested, tags[-1:] == ["<answer>"]


def answer_in_words(query: Query, form: AnswerForm, text: str) -> Answer:
    """Return the answer that the answer part of a response (`answer_part`) states.

    An interval is in seconds, and must lie within the video of the query, if there is one.

    Raises:
        ParseError: the text states no answer of this form.
    """
    if form is AnswerForm.CHOICE:
        letters = ascii_uppercase[: len(query.options) or None]  # without options: all letters
        return Answer(choice=stated_letter(text, letters, query.options, query.text))
    if form is AnswerForm.NUMBER:
        return Answer(number=stated_number(text, query.text))
    if form is AnswerForm.INTERVAL:
        times = query.media[0].times() if query.media and query.media[0].is_video else ()
        return Answer(interval=Interval(*stated_interval(text, query.text, times)))
    if not text:
        raise ParseError("response", expected="a text", found="nothing")
    return Answer(text=text)


def stated_count(response: str, question: str = "") -> int | None:
    """Return the count that a response states in words; None if it has places or states no count.

    >>> stated_count("There are seven dogs."), stated_count('There are 2: [{"bbox": [1, 2]}]')
    (7, None)
    """
    try:
        text = answer_part(response, which="last")
        number = math.nan if _COORDINATES_OR_PERCENT.search(text) else stated_number(text, question)
    except ParseError:
        return None
    return int(number) if number.is_integer() and 0 <= number <= MAX_COUNT else None


def _digits(value: float) -> str:
    """Return the number without an exponent, because `stated_number` reads none.

    >>> _digits(1e-07)
    '0.000000100000'
    """
    text = repr(value)
    return f"{value:.12f}" if "e" in text else text
