"""Responses to the requests of a call, in rows that take the next request when one has ended."""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import closing
from typing import TYPE_CHECKING

from harness.chat import ChatRequest, ChatResponse
from harness.models.backends import continuous_batching
from harness.models.backends.batching import WaitTimer, input_worker
from harness.models.backends.checkpoint_tokens import CheckpointTokens
from harness.models.backends.inputs import POSITIONS, joined_inputs
from harness.models.backends.loading import memory
from harness.models.backends.prefill_queue import PrefillQueue, Prompts, unique_prompts
from harness.models.backends.token_step import is_small

if TYPE_CHECKING:
    from transformers import BatchFeature, PreTrainedModel


def generate_continuously(
    chat: CheckpointTokens,
    network: "PreTrainedModel",
    requests: Sequence[ChatRequest],
    left: Sequence[int],
    *,
    make_inputs: "Callable[[list[int]], BatchFeature]",
    resume: Callable[[], object],
    size: int,
    started: "Future[BatchFeature] | None",
    timer: WaitTimer,
) -> Generator[tuple[int, ChatResponse], None, None]:
    """Yield places and responses, as they end, of what is left and of what is added meanwhile.

    Args:
        chat: The processor, the options and the tokens of the network.
        network: One that `supports_continuous_batching`.
        requests: All requests of the call; the caller may add more between two responses.
        left: Places of the requests that have no response yet.
        make_inputs: Makes the tensors of the requests at some places.
        resume: Called before rows are filled; it may add requests, too.
        size: Largest number of rows.
        started: Tensors of the first requests, if they are being made already.
        timer: Counts the time of waiting for tensors.
    """
    import torch

    prompts: dict[int, tuple[int, tuple[tuple[int, int], ...]]] = {}
    samplings = chat.samplings(requests)

    def inputs_of(several: Prompts) -> "BatchFeature":
        inputs = make_inputs([prompt[0] for prompt in several])
        inputs[POSITIONS] = continuous_batching.token_positions(network, inputs)
        return inputs.to(network.dtype)  # of floating-point tensors, as the network would

    def joined(several: Prompts, shares: "list[BatchFeature]") -> continuous_batching.PromptBatch:
        inputs = joined_inputs(chat.processor, shares)
        seen = chat.prompt_tokens([requests[prompt[0]] for prompt in several], inputs)
        order = [at for at, prompt in enumerate(several) for _ in prompt]
        places = [place for prompt in several for place in prompt]
        prompts.update(zip(places, (seen[at] for at in order), strict=True))
        return continuous_batching.PromptBatch(places, inputs.to(chat.real_device), order)

    def add_new() -> None:
        known = len(samplings)
        samplings.extend(chat.samplings(requests[known:]))
        waiting.add(unique_prompts(requests, range(known, len(requests))))

    def refill() -> None:
        resume()
        add_new()

    with input_worker("inputs", device=chat.real_device) as worker:
        waiting = PrefillQueue(
            inputs_of,
            joined,
            size=size,
            small=is_small(network),
            started=started,
            timer=timer,
            worker=worker if chat.prefetch else None,
            refill=refill,
        )
        waiting.add(unique_prompts(requests, left))
        written = continuous_batching.responses(
            network,
            requests,
            waiting,
            size=size,
            ends=chat.end_tokens,
            samplings=samplings,
            decode=chat.decode,
        )
        with closing(written):
            while True:
                with memory(), torch.inference_mode():  # not while the caller is at work
                    output = next(written, None)
                if output is None:
                    return
                place, tokens = output
                yield place, chat.to_response(requests[place], tokens, *prompts.pop(place))
                add_new()
