"""Questions that are answered in words: a letter, a number, a stretch of time, a text.

What stands in `<answer>…</answer>` is the answer, or else the whole response after its reasoning.
"""

import json
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from string import ascii_uppercase

from harness.errors import ParseError, UsageError
from harness.models.grammar import fenced
from harness.models.prompts import fill
from harness.responses import MAX_DIGITS, MAX_TEXT, finite_numbers, loads_strict, tag_text
from harness.types import Answer, AnswerForm, Interval, Query

LEADING = re.compile(r"[\s(*]*([A-Z])(?:[).:,*]|\s*$|\s*\n)")
STATED = re.compile(r"\b(?i:answer|option|choice)(?: is)?[: ]*[(*]*([A-Z])\b(?!')")
NUMBER = re.compile(r"[-+]?\d+(?:,\d{3})*(?:\.\d+)?")
LOOKED_AT = 2_000  # characters in which a letter or a number is looked for


@lru_cache
def templates(package: str) -> Mapping[str, str]:
    """The wording of each form, from the `questions.toml` of a package."""
    return tomllib.loads(files(package).joinpath("questions.toml").read_text("utf-8"))


@dataclass(frozen=True, slots=True)
class Questions:
    """Prompts for an answer in words, and the parser of the responses."""

    package: str = "harness.models.qwen_vl"
    """Package whose `questions.toml` has the wording."""

    @property
    def forms(self) -> frozenset[AnswerForm]:
        """The forms of answer that it has wordings for."""
        return frozenset(form for form in AnswerForm if form in templates(self.package))

    def render(self, query: Query, form: AnswerForm) -> str:
        """The request for one form of answer.

        Raises:
            UsageError: there is no wording for this form.
        """
        text = self.wording(form)
        options = "\n".join(
            f"{letter}. {option}"
            for letter, option in zip(ascii_uppercase, query.options, strict=False)
        )
        given = {"Options": options} if form is AnswerForm.CHOICE else {}
        return fill(text, Question=query.text, **given)

    def read(self, query: Query, form: AnswerForm, response: str) -> Answer:
        """The answer that a response gives.

        Raises:
            ParseError: it gives none.
            UsageError: this form cannot be asked for.
        """
        self.wording(form)
        return answer_in_words(query, form, answer_part(response), interval)

    def write(self, form: AnswerForm, answer: Answer) -> str:
        """Return the response for `answer`."""
        if form is AnswerForm.CHOICE:
            return str(answer.choice)
        if form is AnswerForm.NUMBER:
            return _digits(math.nan if answer.number is None else float(answer.number))
        if form is AnswerForm.INTERVAL and answer.interval is not None:
            return json.dumps({"start": answer.interval.start, "end": answer.interval.end})
        return answer.text or ""

    def wording(self, form: AnswerForm) -> str:
        """The request for a form of answer, with its placeholders.

        Raises:
            UsageError: there is none.
        """
        known = templates(self.package)
        if form not in known:
            raise UsageError(
                f"a question for {form}",
                expected=f"one for {', '.join(known)} or places in an image",
                found=str(form),
                fix="Use a model that gives such answers.",
            )
        return known[form]


def answer_part(response: str, *, aid: str = "") -> str:
    """Return the first `<answer>` of a response, or the text after its reasoning and its `<aid>`.

    >>> answer_part("<think>1 or 2?</think><graph>{'a': [1, 2, 3]}</graph> B", aid="graph")
    'B'
    """
    answer = tag_text(response, "answer")
    if answer is not None:
        return answer
    rest = response[:MAX_TEXT].rpartition("</think>")[2]
    if aid and f"</{aid}>" in rest:
        rest = rest.rpartition(f"</{aid}>")[2]
    return rest.strip()


def answer_in_words(
    query: Query, form: AnswerForm, text: str, read_interval: Callable[[str], Interval]
) -> Answer:
    """Return what the answer part of a response says.

    Raises:
        ParseError: it says nothing of this form.
    """
    if form is AnswerForm.CHOICE:
        return Answer(choice=letter(text, query.options))
    if form is AnswerForm.NUMBER:
        return Answer(number=number(text))
    if form is AnswerForm.INTERVAL:
        return Answer(interval=read_interval(text))
    if not text:
        raise ParseError("response", expected="a text", found="nothing")
    return Answer(text=text)


def letter(output: str, options: tuple[str, ...]) -> str:
    """The letter that a response names: it leads, is stated ("the answer is B"), or is spelt out.

    >>> letter("B. the dog", ("the cat", "the dog"))
    'B'
    """
    for pattern in (LEADING.match, STATED.search):
        match = pattern(output[:LOOKED_AT])
        if match and match[1] in ascii_uppercase[: len(options) or None]:
            return match[1]
    plain = output.strip(" .").casefold()
    same = [place for place, option in enumerate(options) if option.strip(" .").casefold() == plain]
    if len(same) != 1 or same[0] >= len(ascii_uppercase):
        raise ParseError("response", expected="the letter of an option", found=repr(output[:60]))
    return ascii_uppercase[same[0]]


def number(output: str) -> float:
    """The first number of a response; commas between thousands are allowed."""
    match = NUMBER.search(output[:LOOKED_AT])
    if match is None or len(match[0]) > MAX_DIGITS:
        raise ParseError("response", expected="a number", found=repr(output[:60]))
    return float(match[0].replace(",", ""))


def interval(output: str) -> Interval:
    """`{"start": s, "end": e}` or `[s, e]`, in seconds, start before end."""
    text = fenced(output)
    value = loads_strict(output if text is None else text)
    if isinstance(value, dict):
        value = [value.get("start"), value.get("end")]
    start, end = finite_numbers(value, 2, "interval")
    if end < start:
        raise ParseError("interval", expected="start ≤ end", found=f"[{start}, {end}]")
    return Interval(start, end)


def _digits(value: float) -> str:
    """Digits without an exponent, which the first number of a response is read from."""
    text = repr(value)
    return f"{value:.12f}" if "e" in text else text
