"""Rollouts: what the policy writes to a prompt, turn after turn, as evaluation would let it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from accelerate import Accelerator

from harness.errors import ModelError
from harness.model import ChatRequest, ChatResponse, Conversation
from harness.models.backends.inputs import without_special_tokens
from harness.models.backends.networks import end_tokens
from harness.models.backends.transformers import TransformersChat
from harness.plugins import plugin_errors
from harness.trainers.grpo.examples import Example, Prompt
from harness.trainers.grpo.method import GrpoMethod
from harness.trainers.grpo.policy import zero_stage
from harness.trainers.grpo.types import Rollout
from harness.trainers.grpo.vllm import VllmChat


@dataclass(eq=False)
class Draft:
    """A rollout while it is written: the policy's turns, and what is injected between them."""

    example: Example
    prompt: Prompt
    key: str
    """Key of the random numbers that draw its tokens."""
    text: str = ""
    tokens: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    """1 for tokens that the policy wrote, 0 for injected ones."""
    logps: list[float] = field(default_factory=list)
    """Log-probabilities that vLLM drew the tokens with; 0 for others."""
    facts: dict[str, Any] = field(default_factory=dict)
    cut: bool = False
    second: Rollout | None = None

    def add(self, tokens: Sequence[int], text: str, *, policy: bool) -> None:
        """Append tokens and their text; `policy`: the policy wrote them."""
        self.tokens += tokens
        self.mask += [int(policy)] * len(tokens)
        self.text += text

    @property
    def rollout(self) -> Rollout:
        """Rollout as a reward sees it."""
        return Rollout(text=self.text, tokens=sum(self.mask), cut=self.cut, facts=self.facts)


class Writer:
    """Makes rollouts of the policy: by evaluation's own backend, or by vLLM."""

    def __init__(
        self,
        method: GrpoMethod,
        chat: TransformersChat,
        network: Any,
        accelerator: Accelerator,
        *,
        seed: int,
    ) -> None:
        """Write as a method's settings say; `chat` is the backend that the network is of."""
        from transformers import GenerationConfig

        self._method, self._chat, self._accelerator = method, chat, accelerator
        self._tokenizer, self._seed = chat.processor.tokenizer, seed
        self._ends = end_tokens(chat.folder, self._tokenizer)
        # Of the checkpoint's settings of generation, evaluation's backend takes none either.
        network.generation_config = GenerationConfig(
            eos_token_id=list(self._ends), pad_token_id=self._tokenizer.pad_token_id
        )
        named = (getattr(network.config, f"{kind}_token_id", None) for kind in ("image", "video"))
        self.suppressed = tuple(sorted({token for token in named if token is not None}))
        """Tokens of media: one that is written would want its patches."""
        self._vllm: VllmChat | None = None
        if method.settings.vllm_mode is not None:
            parts = (method.settings, network, accelerator, chat.processor)
            self._vllm = VllmChat(*parts, ends=self._ends, suppress_tokens=self.suppressed)

    @contextmanager
    def answering(self, policy: Any) -> Iterator[Any]:
        """Yield a chat by which the policy answers as it is now, without gradients."""
        if self._vllm is not None:
            self._vllm.begin_round()
            yield self._vllm
            return
        whole: Any = nullcontext(self._accelerator.unwrap_model(policy))
        if zero_stage(self._accelerator) == 3:
            from trl.models.utils import unwrap_model_for_generation

            whole = unwrap_model_for_generation(policy, self._accelerator)
        policy.eval()  # no activations are computed twice either
        with whole as one, torch.no_grad(), self._accelerator.autocast():
            yield self.chat_of(one.network)
        policy.train()

    def chat_of(self, network: Any) -> TransformersChat:
        """Return evaluation's backend with a network in the place of what it would load."""
        chosen, accelerator = self._method.settings, self._accelerator
        own = chosen.generation_batch_size // accelerator.num_processes
        on_cpu = accelerator.device.type == "cpu"
        chat = replace(
            self._chat,
            device=str(accelerator.device),
            seed=self._seed,
            batch_size=chosen.generation_micro_batch_size or own,
            temperature=chosen.temperature,
            top_p=chosen.top_p,
            repetition_penalty=1.0,  # what is drawn is what the loss scores
            keyed=chosen.noise == "keyed" or (chosen.noise == "auto" and on_cpu),
            suppress_tokens=self.suppressed,
        )
        vars(chat).update(network=network, processor=self._chat.processor)
        return chat

    def conversation(self, draft: Draft) -> Conversation[Draft]:
        """Write a rollout: turn after turn of the policy, and its second request after it."""
        method, sample, first = self._method, draft.example.sample, draft.example.request
        request, turns = replace(first, key=draft.key, temperature=None), 0
        draft.text = first.prefix
        while True:
            (response,) = yield (request,)
            draft.add(response.tokens, self._text(response), policy=True)
            draft.logps += self._logps(request, response)
            draft.cut = response.cut
            if method.environment is None:
                break
            with plugin_errors(f"environment of {method.name}", ModelError):
                turn = method.environment(sample, draft.text, turns)
            draft.facts |= turn.facts
            turns, left = turns + 1, first.max_new_tokens - sum(draft.mask)
            if turn.inject is None or draft.cut or left <= 0:
                break
            # Tokens are put together, never text: what the policy wrote might be cut otherwise.
            processor = self._chat.processor
            more = processor.tokenizer(
                without_special_tokens(processor, turn.inject), add_special_tokens=False
            )
            draft.add(more["input_ids"], turn.inject, policy=False)
            draft.logps += [0.0] * len(more["input_ids"])
            request = replace(
                request,
                key=f"{draft.key}/turn{turns}",
                written=tuple(draft.tokens),
                stop=turn.stop,
                max_new_tokens=left,
            )
        if method.second is not None:
            with plugin_errors(f"second pass of {method.name}", ModelError):
                requested = method.second(sample, draft.rollout)
            heat = method.second_temperature
            requested = replace(requested, key=f"{draft.key}/second", temperature=heat)
            (response,) = yield (requested,)
            text = f"{requested.prefix}{self._text(response)}"
            draft.second = Rollout(text=text, tokens=len(response.tokens), cut=response.cut)
        return draft

    def _text(self, response: ChatResponse) -> str:
        """Return what the tokens of a response read, up to its end token."""
        ended = response.tokens and response.tokens[-1] in self._ends
        tokens = response.tokens[:-1] if ended else response.tokens
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True))

    def _logps(self, request: ChatRequest, response: ChatResponse) -> list[float]:
        return [0.0] * len(response.tokens) if self._vllm is None else self._vllm.logps[request.key]
