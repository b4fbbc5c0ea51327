"""Questions that are answered in words: a letter, a number, a stretch of time, a text.

What stands in `<answer>…</answer>` is the answer, or else all that follows the thought.
"""

import json
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from string import ascii_uppercase
from typing import ClassVar

from harness.errors import ParseError, UsageError
from harness.interchange.answers import MAX_COUNT
from harness.models.prompts import fill
from harness.responses import Which, tag_text
from harness.stated.corrections import own_turn
from harness.stated.intervals import refuse_beyond, stated_interval
from harness.stated.letters import stated_letter
from harness.stated.numbers import stated_number
from harness.stated.refusals import refuse_tool_call
from harness.thoughts import split_thought
from harness.types import Answer, AnswerForm, Interval, Query

_PLACES = re.compile(r"[\[{(<]\s{0,9}[\[{(\"'\d]|<\|?\w|%|```|\b(?:b?box|point)(?:es|s)?\b")
"""Remains of places, or a share: a number beside them may be another than the count."""
_ANSWER_TAG = re.compile(r"<(/?a)nswer>")


@lru_cache
def templates(package: str) -> Mapping[str, str]:
    """The wording of each form, from the `questions.toml` of a package."""
    return tomllib.loads(files(package).joinpath("questions.toml").read_text("utf-8"))


@dataclass(frozen=True, slots=True)
class Questions:
    """Prompts for an answer in words, and the parser of the responses."""

    package: str = "harness.models.qwen_vl"
    """Package whose `questions.toml` has the wording."""
    counts: ClassVar[Which] = "last"
    """The one of several `<answer>` tags that is read: no request here asks for any."""

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
        return answer_in_words(query, form, answer_part(response, which=self.counts))

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


def answer_part(response: str, *, aid: str = "", which: Which = "first") -> str:
    """Return the `<answer>` that follows a response's thought, or all after thought and `<aid>`.

    Raises:
        ParseError: there is a thought, and nothing after it; an answer within an answer; a last
            answer that is not closed, or that follows another question; or a call of a tool.

    >>> answer_part("<think>1 or 2?</think><graph>{'a': [1, 2, 3]}</graph> B", aid="graph")
    'B'
    """
    thought, said = split_thought(response)
    if thought and not said.strip():
        raise ParseError("response", expected="an answer", found="only reasoning")
    if which == "last":  # the first is before any turn that a network makes up
        said = own_turn(said)
    answer = tag_text(said, "answer", which=which)
    if answer is not None:
        tags = "".join(tag[0] for tag in _ANSWER_TAG.findall(said))
        if "aa//" in tags or (which == "last" and tags.endswith("a")):
            raise ParseError("response", expected="closed answers", found=repr(said[-60:]))
        return answer
    refuse_tool_call(said)
    if aid and f"</{aid}>" in said:
        said = said.rpartition(f"</{aid}>")[2]
    return said.strip()


def answer_in_words(query: Query, form: AnswerForm, text: str) -> Answer:
    """Return what the answer part of a response says.

    Raises:
        ParseError: it says nothing of this form.
    """
    if form is AnswerForm.CHOICE:
        letters = ascii_uppercase[: len(query.options) or None]
        return Answer(choice=stated_letter(text, letters, query.options))
    if form is AnswerForm.NUMBER:
        return Answer(number=stated_number(text, query.text))
    if form is AnswerForm.INTERVAL:
        interval = Interval(*stated_interval(text))
        if query.media and query.media[0].is_video:
            refuse_beyond(*interval, query.media[0].times())
        return Answer(interval=interval)
    if not text:
        raise ParseError("response", expected="a text", found="nothing")
    return Answer(text=text)


def stated_count(response: str, question: str = "") -> int | None:
    """Return the count that a response states in words; None if it has places, or states none.

    >>> stated_count("There are seven dogs."), stated_count('There are 2: [{"bbox": [1, 2]}]')
    (7, None)
    """
    try:
        text = answer_part(response, which="last")
        number = math.nan if _PLACES.search(text) else stated_number(text, question)
    except ParseError:
        return None
    return int(number) if number.is_integer() and 0 <= number <= MAX_COUNT else None


def _digits(value: float) -> str:
    """Digits without an exponent, which the first number of a response is read from."""
    text = repr(value)
    return f"{value:.12f}" if "e" in text else text
