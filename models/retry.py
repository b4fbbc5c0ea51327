"""A second try for responses that cannot be read: the network goes on from a beginning that can.

A small network that is shown what it was not trained on lists without end, or leaves out a part of
its grammar. So what it named first is kept, its reasoning is ended there, and it is asked for the
answer: the "budget forcing" of s1 (arXiv:2501.19393), for what is out of the grammar.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.backend import Chat
from harness.chat import ChatRequest, ChatResponse
from harness.errors import ModelError, OutOfMemory
from harness.models.grammar import frame_tag, split_frame
from harness.thoughts import reasoning

NAMED = re.compile(r"[^\d,:;<>]{0,80}")
"""Matches the first name in a reasoning: up to 80 characters before a digit, tag or , : ;"""


def response_start(response: str, *, numbered: Sequence[int] = ()) -> str:
    """Return the beginning of a response, up to its answer, from one that cannot be read.

    Args:
        response: The network's text.
        numbered: Numbers of the frames of which one is to be named; none: no frame is.

    >>> response_start("<think>red cross, red cross, red", numbered=(0, 4, 8))
    '<frame>4</frame><think>red cross</think><answer>'
    """
    frame, rest = split_frame(response)
    if numbered and frame not in numbered:
        frame = numbered[len(numbered) // 2]
    named = NAMED.match(reasoning(rest))
    words = named[0].strip() if named else ""
    return f"{frame_tag(frame if numbered else None)}<think>{words}</think><answer>"


@dataclass(frozen=True, slots=True)
class RetryRequest:
    """A request, and a predicate for responses to it that can be read."""

    request: ChatRequest
    readable: Callable[[str], bool]
    numbered: Sequence[int] = ()
    """Numbers of the frames of which the response is to name one."""


def retry_unreadable(
    chat: Chat, tries: Sequence[RetryRequest], responses: Sequence[ChatResponse]
) -> list[ChatResponse]:
    """Return the responses, with readable second ones in place of those that cannot be read.

    Where the network fails at a second request, the first response stays. Faults that are not the
    network's (an absent server, full memory) are left to the engine. A greedy network gets no
    second request for a beginning that it wrote itself: it would repeat its response, or go on
    with one that was cut off.

    Raises:
        OutOfMemory, Unavailable: as for first requests; the engine then asks sample by sample,
            first requests included.
    """
    again = retry_requests(tries, responses, greedy=chat.greedy)
    if not again:
        return list(responses)
    output = _generate_guarded(chat, list(again.values()))
    return merge_second(tries, responses, again, output)


def retry_requests(
    tries: Sequence[RetryRequest], responses: Sequence[ChatResponse], *, greedy: bool
) -> dict[int, ChatRequest]:
    """Return second requests, by the place of the response that cannot be read."""
    again: dict[int, ChatRequest] = {}
    for place, (attempt, response) in enumerate(zip(tries, responses, strict=True)):
        if attempt.readable(response.text):
            continue
        prefix = response_start(response.text, numbered=attempt.numbered)
        if not (greedy and response.text.startswith(prefix)):
            again[place] = replace(
                attempt.request, key=f"{attempt.request.key}:again", prefix=prefix
            )
    return again


def merge_second(
    tries: Sequence[RetryRequest],
    responses: Sequence[ChatResponse],
    again: Mapping[int, ChatRequest],
    output: Sequence[ChatResponse | ModelError],
) -> list[ChatResponse]:
    """Return the responses, with the second one at each of `again` if it helped, else the first,
    and with what both cost.
    """
    best = list(responses)
    for (place, request), second in zip(again.items(), output, strict=True):
        first, calls = responses[place], responses[place].calls_of(tries[place].request)
        if isinstance(second, ModelError):
            calls = (*calls, (request, None))
            best[place] = replace(first, calls=calls, again=request.prefix, in_vain=str(second))
            continue
        helped = tries[place].readable(second.text)
        best[place] = replace(
            second if helped else first,
            prompt_tokens=first.prompt_tokens + second.prompt_tokens,
            completion_tokens=first.completion_tokens + second.completion_tokens,
            calls=(*calls, *second.calls_of(request)),
            again=request.prefix,
            in_vain="" if helped else "the second response cannot be read either",
        )
    return best


def _generate_guarded(
    chat: Chat, requests: Sequence[ChatRequest]
) -> list[ChatResponse | ModelError]:
    """Return a response or a failure for each request; where a call fails, each is sent alone."""
    try:
        return [*chat.generate(requests)]
    except OutOfMemory:
        raise
    except ModelError as error:
        if len(requests) == 1:
            return [error]
    return [output for request in requests for output in _generate_guarded(chat, [request])]
