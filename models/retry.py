"""Send a second request for a response that cannot be read; it starts with a readable beginning.

A small network that sees something unlike its training lists names without end, or leaves out a
part of its grammar. The second request (`ChatRequest.prefix`) keeps the first name in the
reasoning, closes the reasoning and opens the answer: the "budget forcing" of s1 (arXiv:2501.19393).
`PromptedModel` calls this with `retry` set, for backends that continue from a prefix.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.backend import Chat
from harness.chat import ChatRequest, ChatResponse
from harness.errors import ModelError, OutOfMemory
from harness.models.grammar import frame_tag, split_frame
from harness.thoughts import reasoning

FIRST_NAME = re.compile(r"[^\d,:;<>]{0,80}")
"""Matches the first name of a reasoning, "red cross" in "red cross, red": at most 80 characters
before a digit, a tag or one of , : ;"""


def response_start(response: str, *, numbered: Sequence[int] = ()) -> str:
    """Return the beginning of the second response, up to its opened answer.

    Args:
        response: The first response, which cannot be read.
        numbered: Numbers of the frames of which the response must name one: the one that it named,
            or else the middle one. Empty: it names none.

    >>> response_start("<think>red cross, red cross, red", numbered=(0, 4, 8))
    '<frame>4</frame><think>red cross</think><answer>'
    """
    frame, after_frame = split_frame(response)
    if numbered and frame not in numbered:
        frame = numbered[len(numbered) // 2]
    match = FIRST_NAME.match(reasoning(after_frame))
    name = match[0].strip() if match else ""
    return f"{frame_tag(frame if numbered else None)}<think>{name}</think><answer>"


@dataclass(frozen=True, slots=True)
class RetryRequest:
    """A first request, and what is needed to judge its response and to ask again."""

    request: ChatRequest
    readable: Callable[[str], bool]
    """Returns True for a response (text) that can be read."""
    numbered: Sequence[int] = ()
    """Numbers of the frames of which the response must name one."""


def retry_unreadable(
    chat: Chat, tries: Sequence[RetryRequest], responses: Sequence[ChatResponse]
) -> list[ChatResponse]:
    """Return the responses, with a readable second one in place of each that cannot be read.

    If the network fails at a second request, the first response stays.

    Raises:
        OutOfMemory, Unavailable: the memory is full or the server absent; the engine then sends
            all requests again, sample by sample.
    """
    retries = retry_requests(tries, responses, greedy=chat.greedy)
    if not retries:
        return list(responses)
    output = _generate_guarded(chat, list(retries.values()))
    return merge_second(tries, responses, retries, output)


def retry_requests(
    tries: Sequence[RetryRequest], responses: Sequence[ChatResponse], *, greedy: bool
) -> dict[int, ChatRequest]:
    """Return the second requests, by the index of the response that cannot be read.

    A greedy network gets none if its response already begins like the second request: it would
    write the same response again, or continue one that was cut off.
    """
    retries: dict[int, ChatRequest] = {}
    for index, (attempt, response) in enumerate(zip(tries, responses, strict=True)):
        if attempt.readable(response.text):
            continue
        prefix = response_start(response.text, numbered=attempt.numbered)
        if not (greedy and response.text.startswith(prefix)):
            retries[index] = replace(
                attempt.request, key=f"{attempt.request.key}:again", prefix=prefix
            )
    return retries


def merge_second(
    tries: Sequence[RetryRequest],
    responses: Sequence[ChatResponse],
    retries: Mapping[int, ChatRequest],
    output: Sequence[ChatResponse | ModelError],
) -> list[ChatResponse]:
    """Return the responses, replacing each first one that its second one improved on.

    Either way the response has the tokens and the calls of both.

    Args:
        tries: The first requests.
        responses: The responses to them.
        retries: The second requests, by index among the first.
        output: A response or the network's failure for each second request, in order.
    """
    best = list(responses)
    for (index, request), second in zip(retries.items(), output, strict=True):
        first, calls = responses[index], responses[index].calls_of(tries[index].request)
        if isinstance(second, ModelError):
            calls = (*calls, (request, None))
            best[index] = replace(first, calls=calls, again=request.prefix, in_vain=str(second))
            continue
        helped = tries[index].readable(second.text)
        best[index] = replace(
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
    """Return a response or a failure for each request; if the joint call fails, send each alone."""
    try:
        return [*chat.generate(requests)]
    except OutOfMemory:
        raise
    except ModelError as error:
        if len(requests) == 1:
            return [error]
    return [output for request in requests for output in _generate_guarded(chat, [request])]
