"""The thought of a response, and what is said after it: the only place that knows families' marks.

Every grammar, reader, reward and judge of ours reads `after_thought(response)`. A protocol or a
reward that repeats official code keeps that code's rule, and says so.
"""

import re
from typing import NamedTuple

from harness.responses import MAX_TEXT

_NAMES = "(?:seed:)?(?:think|thinking|thought|reasoning|analysis)"
# Most families; Kimi-VL; Magistral; Command A; Sky-T1; Gemma 4; gpt-oss, last without its tokens.
_OPENS = (
    rf"(?i:<{_NAMES}>)|◁think▷|\[THINK\]|<\|(?:START_THINKING|begin_of_thought)\|>"
    r"|<\|channel>thought\b|<\|channel\|>(?:analysis|commentary)\b(?:<\|message\|>)?"
    r"|\Aanalysis(?=[A-Z])"
)
_CLOSES = (
    rf"(?i:</{_NAMES}>)|◁/think▷|\[/THINK\]|<\|(?:END_THINKING|end_of_thought)\|>"
    r"|<channel\|>|<\|channel\|>final\b[^<]{0,80}(?:<\|constrain\|>[^<]{0,80})?<\|message\|>"
    r"|assistantfinal"
)
_MARK = re.compile(rf"(?P<close>{_CLOSES})|{_OPENS}")
_STARTS = ("<|START_RESPONSE|>", "<|begin_of_solution|>")
_ENDS = ("<|return|>", "<|end|>", "<|END_RESPONSE|>", "<|end_of_solution|>")
_ANSWER, _ANSWER_ENDS = "<answer>", "</answer>"


class Parts(NamedTuple):
    """A response taken apart at the marks of its thoughts."""

    thoughts: tuple[str, ...]
    before: tuple[str, ...]
    """Text before each thought, outside of all of them."""
    said: str
    """Text after the last thought."""


def parts_of(response: str) -> Parts:
    """Take a response apart.

    A thought that a chat template opened begins the response. One that is not closed has no end:
    what is said is what stands before it, or the `<answer>…</answer>` that ends the response.
    Thoughts within a thought are part of it. A response without any mark is said as it is, with its
    blanks.
    """
    text = response[:MAX_TEXT]
    thoughts: list[str] = []
    before: list[str] = []
    begin: int | None = None
    said = 0
    for mark in _MARK.finditer(text):
        if mark["close"]:
            thoughts.append(text[said if begin is None else begin : mark.start()])
            said, begin = mark.end(), None
        elif begin is None:
            before.append(text[said : mark.start()])
            begin = mark.end()
    after = text[said:]
    if begin is not None:
        final = _final_answer(text[begin:])
        thoughts.append(text[begin : len(text) - len(final)])
        after = final or before[-1]
    for start, end in zip(_STARTS * 2, _ENDS, strict=True) if thoughts else ():
        if after.rstrip().endswith(end):
            after = after.rstrip().removesuffix(end)
        if after.lstrip().startswith(start):
            after = after.lstrip().removeprefix(start)
    return Parts(tuple(thoughts), tuple(before), after)


def split_thought(response: str) -> tuple[str, str]:
    """Return the thought of a response, several of them a line each, and what is said after it.

    >>> split_thought("<think>A or B?</think> B")
    ('A or B?', ' B')
    >>> split_thought("so far</think>4"), split_thought("<think>perhaps [1, 2]")
    (('so far', '4'), ('perhaps [1, 2]', ''))
    """
    parts = parts_of(response)
    return "\n".join(filter(None, map(str.strip, parts.thoughts))), parts.said


def after_thought(response: str) -> str:
    """Return what a response says after the last end of its thought; blank if it says nothing.

    >>> after_thought("◁think▷in [0, 1000]◁/think▷[[1, 2, 3, 4]]")
    '[[1, 2, 3, 4]]'
    >>> after_thought("<|channel|>analysis<|message|>A?<|channel|>final<|message|>B<|return|>")
    'B'
    """
    return split_thought(response)[1]


def reasoning(response: str) -> str:
    """Return the thought of a response without its marks; empty if there is none."""
    return split_thought(response)[0]


def _final_answer(text: str) -> str:
    """Return the last `<answer>…</answer>` if it ends an unclosed thought, else nothing."""
    if not text.rstrip().endswith(_ANSWER_ENDS):
        return ""
    start = text.rfind(_ANSWER)
    return text[start:] if start >= 0 else ""
