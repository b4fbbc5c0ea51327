"""Write one rollout: the policy's turns, and its response to the method's second request.

`GrpoLearner` runs many of these conversations side by side (`chat.converse`); `group_of` makes the
group of one prompt of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.chat import ChatRequest, Conversation
from harness.errors import ModelError
from harness.models.backends.positions import beyond, positions_of
from harness.models.backends.transformers import TransformersChat
from harness.models.rollout import write_rollout
from harness.plugins import plugin_errors
from harness.trainers.grpo.groups import Draft
from harness.trainers.grpo.method import Group, GrpoMethod, Rollout
from harness.trainers.network import Network
from harness.trainers.rows import encoded_each


def conversation(
    method: GrpoMethod, chat: TransformersChat, network: Network, draft: Draft
) -> Conversation[Draft]:
    """Yield the requests of a rollout, receive the responses, and return the filled draft.

    Args:
        method: The method, with its environment and its second pass.
        chat: Encodes requests and decodes responses.
        network: The policy's network, whose positions bound prompt and response.
        draft: Receives the rollout.
    """
    sample = draft.example.sample
    first = replace(draft.example.request, key=draft.key, temperature=None)
    episode = None if method.environment is None else method.environment(sample.query)
    yield from write_rollout(first, episode, chat, draft, who=method.name)
    if method.second is None:
        return draft
    try:
        with plugin_errors(f"second pass of {method.name}", ModelError):
            request = method.second(sample, draft.rollout)
        _check_second(request, draft, method, chat, positions_of(network.config))
    except ModelError as error:
        # `reward_or_drop` raises it, or drops the sample, in all processes alike. Until then each
        # process has to generate equally often: here from the first prompt, which fits.
        draft.fault, request = error, first
    temperature = method.second_temperature
    request = replace(request, key=f"{draft.key}/second", temperature=temperature)
    (response,) = yield (request,)
    text = f"{request.prefix}{chat.decode(response.tokens)}"
    draft.second = Rollout(text=text, tokens=len(response.tokens), cut=response.cut)
    return draft


def _check_second(
    request: ChatRequest,
    draft: Draft,
    method: GrpoMethod,
    chat: TransformersChat,
    positions: int | None,
) -> None:
    """Raise ModelError if a second prompt and its response exceed the network's positions.

    Encoding images takes long. It is avoided if the media are those of the first request, and the
    length of the first prompt plus the second text, an upper bound, fits.
    """
    first = draft.example.request
    text_fields = ("key", "text", "prefix", "max_new_tokens", "stop", "temperature", "top_p")
    same_media = replace(request, **{name: getattr(first, name) for name in text_fields}) == first
    n_tokens = chat.count_tokens(f"{request.text}{request.prefix}")
    max_length = draft.prompt["input_ids"].shape[1] + n_tokens
    if same_media and not beyond(max_length, request.max_new_tokens, positions):
        return
    tokens = encoded_each(chat.processor, [request])[0]["input_ids"].shape[1]
    if why := beyond(tokens, request.max_new_tokens, positions):
        raise ModelError(
            f"second pass of {method.name}, sample {draft.example.sample.id}",
            expected="a prompt and a response within the network's positions",
            found=why,
            fix="Lower max_completion_length; skip such samples (reward_errors=drop); or give the "
            "method second_tokens, the maximum number of tokens that its second prompt adds to the "
            "first: then they are left out before.",
        )


def group_of(drafts: Sequence[Draft], count_tokens: Callable[[str], int]) -> Group:
    """Return the finished drafts of one prompt as the group that is rewarded."""
    example = drafts[0].example
    return Group(
        sample=example.sample,
        task=example.task,
        rollouts=tuple(draft.rollout for draft in drafts),
        seconds=tuple(draft.second for draft in drafts if draft.second is not None),
        canvas=example.canvas,
        count_tokens=count_tokens,
        frames=example.frames,
    )
