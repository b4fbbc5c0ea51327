"""Separation of a response's thought from its answer, by the marks of all families of models.

Every grammar, reader, reward and judge reads `after_thought(response)`; only those that repeat
official code keep that code's rule. The marks stand here alone.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from harness.responses import MAX_TEXT

_NAMES = "(?:seed:)?(?:think|thinking|thought|reasoning|analysis)"
# <think> of most families; ◁think▷ of Kimi-VL; [THINK] of Magistral; <|START_THINKING|> of Command
# A; <|begin_of_thought|> of Sky-T1; <|channel>thought of Gemma 4; <|channel|>analysis<|message|> of
# gpt-oss, and its text without special tokens, which begins with `analysis` and a capital. The
# thought of UI-TARS ends where its action begins that points at something.
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
_ACTS = r"\bAction:\s?(?=[a-z_]{4,14}\((?:start_box|point)=)"
# The characters that a mark begins with, first: most of a response is none of them, and trying all
# marks at every place takes six times as long.
_MARK = re.compile(rf"(?=[<◁\[aA])(?:(?P<close>{_CLOSES}|(?P<act>{_ACTS}))|{_OPENS})")
_STARTS = ("<|START_RESPONSE|>", "<|begin_of_solution|>")
_ENDS = ("<|return|>", "<|end|>", "<|END_RESPONSE|>", "<|end_of_solution|>")
_ANSWER, _ANSWER_ENDS = "<answer>", "</answer>"


class Parts(NamedTuple):
    """A response taken apart at the marks of its thoughts."""

    thoughts: tuple[str, ...]
    before: tuple[str, ...]
    """Text before each thought, outside of all of them."""
    after: str
    """Text after the last thought."""


@lru_cache(maxsize=64)  # the terms of a reward ask for it one after the other
def parts_of(response: str) -> Parts:
    """Take a response apart at its marks.

    A closing mark without an opening one ends a thought that began with the response: the chat
    template opened it. After an opening mark that is never closed everything is thought, except an
    `<answer>…</answer>` at the end of the response; `after` is then that, or else the text before
    the mark. Thoughts within a thought are part of it. A response without any mark is all `after`,
    with its blanks.
    """
    text = response[:MAX_TEXT]
    thoughts: list[str] = []
    before: list[str] = []
    thought_start: int | None = None  # place after the open thought's mark; None: none is open
    said_start = 0  # place after the last closed thought
    for mark in _MARK.finditer(text):
        if mark["act"] and thought_start is not None:
            continue
        if mark["close"]:
            start = said_start if thought_start is None else thought_start
            thoughts.append(text[start : mark.start()])
            said_start, thought_start = mark.end(), None
        elif thought_start is None:
            before.append(text[said_start : mark.start()])
            thought_start = mark.end()
    after = text[said_start:]
    if thought_start is not None:
        final = _final_answer(text[thought_start:])
        thoughts.append(text[thought_start : len(text) - len(final)])
        after = final or before[-1]
    return Parts(
        tuple(thoughts), tuple(before), _without_response_marks(after) if thoughts else after
    )


def _without_response_marks(text: str) -> str:
    """Return the text after a thought without marks of its own beginning and end."""
    for start, end in zip(_STARTS * 2, _ENDS, strict=True):
        if text.rstrip().endswith(end):
            text = text.rstrip().removesuffix(end)
        if text.lstrip().startswith(start):
            text = text.lstrip().removeprefix(start)
    return text


def split_thought(response: str) -> tuple[str, str]:
    """Return (thought, text after it) of a response; several thoughts are joined by newlines.

    >>> split_thought("<think>A or B?</think> B")
    ('A or B?', ' B')
    >>> split_thought("so far</think>4"), split_thought("<think>perhaps [1, 2]")
    (('so far', '4'), ('perhaps [1, 2]', ''))
    """
    parts = parts_of(response)
    return "\n".join(filter(None, map(str.strip, parts.thoughts))), parts.after


def after_thought(response: str) -> str:
    """Return the text of a response after its last thought; blank if there is none.

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
