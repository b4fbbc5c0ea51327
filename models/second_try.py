"""A second try for replies that cannot be read: the network goes on from a beginning that can.

A small network that is shown what it was not trained on lists without end, or leaves out a part of
its grammar. So what it named first is kept, its reasoning is ended there, and it is asked for the
answer: the "budget forcing" of s1 (arXiv:2501.19393), for what is out of the grammar.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from harness.model import ChatReply, ChatRequest
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


def asked_again(request: ChatRequest, reply: ChatReply, *, numbered: Sequence[int]) -> ChatRequest:
    """The request once more, begun."""
    return replace(request, key=f"{request.key}:again", prefix=begun(reply.text, numbered=numbered))


def tried_twice(first: ChatReply, second: ChatReply, *, prefix: str, helped: bool) -> ChatReply:
    """The second reply if it helped, else the first, with what both cost."""
    return replace(
        second if helped else first,
        prompt_tokens=first.prompt_tokens + second.prompt_tokens,
        completion_tokens=first.completion_tokens + second.completion_tokens,
        cut=second.cut if helped else first.cut,
        again=prefix,
    )
