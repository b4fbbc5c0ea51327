"""A second try for replies that cannot be read: the network goes on from a beginning that can.

A small network that is shown what it was not trained on lists without end, or leaves out a part of
its grammar. So what it named first is kept, its reasoning is ended there, and it is asked for the
answer: the "budget forcing" of s1 (arXiv:2501.19393), for what is out of the grammar.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from harness.errors import ModelError, Unavailable
from harness.model import Chat, ChatReply, ChatRequest
from harness.models.grammar import frame_tag, reasoning, split_frame

NAMED = re.compile(r"[^\d,:;<>]{0,80}")
"""What a reasoning names before it tells of it, or names another; not all that it repeats."""


def begun(reply: str, *, numbered: Sequence[int] = ()) -> str:
    """The beginning of a reply, up to its answer, from one that cannot be read.

    Args:
        reply: What the network wrote.
        numbered: Numbers of the frames of which one is to be named; none: no frame is.

    >>> begun("<think>red cross, red cross, red", numbered=(0, 4, 8))
    '<frame>4</frame><think>red cross</think><answer>'
    """
    frame, rest = split_frame(reply)
    if numbered and frame not in numbered:
        frame = numbered[len(numbered) // 2]
    named = NAMED.match(reasoning(rest))
    words = named[0].strip() if named else ""
    return f"{frame_tag(frame if numbered else None)}<think>{words}</think><answer>"


@dataclass(frozen=True, slots=True)
class Try:
    """A request, and what tells whether a reply to it can be read."""

    request: ChatRequest
    readable: Callable[[str], bool]
    numbered: Sequence[int] = ()
    """Numbers of the frames of which the reply is to name one."""


def tried_again(chat: Chat, tries: Sequence[Try], replies: Sequence[ChatReply]) -> list[ChatReply]:
    """The replies, with second ones in place of those that cannot be read, if these can.

    Where the network fails at second ones, the first stay as they are: none is lost for it.
    """
    again = {
        place: replace(
            one.request,
            key=f"{one.request.key}:again",
            prefix=begun(reply.text, numbered=one.numbered),
        )
        for place, (one, reply) in enumerate(zip(tries, replies, strict=True))
        if not one.readable(reply.text)
    }
    try:
        second = chat.generate(list(again.values())) if again else []
    except (ModelError, Unavailable):
        return list(replies)
    best = list(replies)
    for (place, request), reply in zip(again.items(), second, strict=True):
        helped = tries[place].readable(reply.text)
        best[place] = _both(replies[place], reply, prefix=request.prefix, helped=helped)
    return best


def _both(first: ChatReply, second: ChatReply, *, prefix: str, helped: bool) -> ChatReply:
    """The second reply if it helped, else the first, with what both cost."""
    return replace(
        second if helped else first,
        prompt_tokens=first.prompt_tokens + second.prompt_tokens,
        completion_tokens=first.completion_tokens + second.completion_tokens,
        again=prefix,
    )
