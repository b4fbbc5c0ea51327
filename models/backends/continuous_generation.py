"""Answer the requests of a call by continuous batching.

`generate_continuously` connects the `transformers` backend (processor, options) with
`continuous_batching.responses` and a `PrefillQueue`, which makes the prompts' tensors in another
thread.
"""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from harness.chat import ChatRequest, ChatResponse
from harness.models.backends import continuous_batching
from harness.models.backends.batching import WaitTimer, input_worker
from harness.models.backends.checkpoint_tokens import CheckpointTokens
from harness.models.backends.inputs import POSITIONS, joined_inputs
from harness.models.backends.loading import memory
from harness.models.backends.prefill_queue import PrefillQueue, Prompts, unique_prompts
from harness.models.backends.token_positions import token_positions
from harness.models.backends.token_step import is_small

if TYPE_CHECKING:
    from transformers import BatchFeature, PreTrainedModel


class _PromptFacts(NamedTuple):
    """The facts about a prompt that its response reports."""

    tokens: int
    """Number of prompt tokens."""
    canvases: tuple[tuple[int, int], ...]
    """(width, height) of each image as the network saw it."""


def generate_continuously(
    chat: CheckpointTokens,
    network: "PreTrainedModel",
    requests: Sequence[ChatRequest],
    unanswered: Sequence[int],
    *,
    make_inputs: "Callable[[list[int]], BatchFeature]",
    resume: Callable[[], object],
    size: int,
    started: "Future[BatchFeature] | None",
    timer: WaitTimer,
) -> Generator[tuple[int, ChatResponse], None, None]:
    """Yield (index of a request, its response) as each response ends.

    Args:
        chat: Processor, options and tokens of the network.
        network: A network that `supports_continuous_batching`.
        requests: All requests of the call; the caller may append more between two responses.
        unanswered: Indices of the requests that have no response yet.
        make_inputs: Makes the tensors of the requests at some indices.
        resume: Called before rows are filled; it may append requests, too.
        size: Largest number of rows.
        started: Tensors of the first requests that are being made already, if any.
        timer: Counts the time of waiting for tensors.
    """
    import torch

    prompt_facts: dict[int, _PromptFacts] = {}
    """Facts of the requests that have begun, by index."""
    samplings = chat.samplings(requests)

    def inputs_of(group: Prompts) -> "BatchFeature":
        # a prompt is the list of the requests that have it; the first one stands for all
        inputs = make_inputs([prompt[0] for prompt in group])
        inputs[POSITIONS] = token_positions(network, inputs)
        return inputs.to(network.dtype)  # floating-point tensors only

    def begin(group: Prompts, parts: "list[BatchFeature]") -> continuous_batching.PromptBatch:
        """Join the prompts' tensors to one batch, and record the facts of their requests."""
        inputs = joined_inputs(chat.processor, parts)
        facts = chat.prompt_tokens([requests[prompt[0]] for prompt in group], inputs)
        request_indices = [index for prompt in group for index in prompt]
        prompt_of_request = [number for number, prompt in enumerate(group) for _ in prompt]
        for index, number in zip(request_indices, prompt_of_request, strict=True):
            prompt_facts[index] = _PromptFacts(*facts[number])
        return continuous_batching.PromptBatch(
            request_indices, inputs.to(chat.real_device), prompt_of_request
        )

    def add_new() -> None:
        """Queue the requests that were appended since the last call."""
        first_new = len(samplings)
        samplings.extend(chat.samplings(requests[first_new:]))
        waiting.add(unique_prompts(requests, range(first_new, len(requests))))

    def refill() -> None:
        resume()
        add_new()

    with input_worker("inputs", device=chat.real_device) as worker:
        waiting = PrefillQueue(
            inputs_of,
            begin,
            size=size,
            small=is_small(network),
            started=started,
            timer=timer,
            worker=worker if chat.prefetch else None,
            refill=refill,
        )
        waiting.add(unique_prompts(requests, unanswered))
        outputs = continuous_batching.responses(
            network,
            requests,
            waiting,
            size=size,
            ends=chat.end_tokens,
            samplings=samplings,
            decode=chat.decode,
        )
        with closing(outputs):
            while True:
                with memory(), torch.inference_mode():  # left before control goes to the caller
                    output = next(outputs, None)
                if output is None:
                    return
                index, tokens = output
                yield index, chat.to_response(requests[index], tokens, *prompt_facts.pop(index))
                add_new()
