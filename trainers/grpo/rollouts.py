"""Rollouts: what the policy writes to a prompt, turn after turn, as evaluation would let it."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from accelerate import Accelerator

from harness.errors import ModelError
from harness.model import ChatRequest, Conversation
from harness.models.backends.networks import end_tokens
from harness.models.backends.transformers import TransformersChat
from harness.models.rollout import Transcript, write_rollout
from harness.plugins import plugin_errors
from harness.trainers.grpo.examples import Example, Prompt
from harness.trainers.grpo.method import GrpoMethod
from harness.trainers.grpo.policy import zero_stage
from harness.trainers.grpo.types import Rollout
from harness.trainers.grpo.vllm import VllmChat


@dataclass(eq=False)
class Draft:
    """A rollout of a training while it is written."""

    example: Example
    prompt: Prompt
    key: str
    """Key of the random numbers that draw its tokens."""
    transcript: Transcript = field(default_factory=Transcript)
    logps: list[float] = field(default_factory=list)
    """Log-probabilities that vLLM drew the tokens with; 0 for others."""
    second: Rollout | None = None

    @property
    def tokens(self) -> list[int]:
        """Tokens of the policy's turns, and of what is injected between them."""
        return self.transcript.tokens

    @property
    def mask(self) -> list[int]:
        """1 for tokens that the policy wrote, 0 for injected ones."""
        return self.transcript.mask

    @property
    def rollout(self) -> Rollout:
        """Rollout as a reward sees it."""
        one = self.transcript
        return Rollout(text=one.text, tokens=sum(one.mask), cut=one.cut, facts=one.facts)


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
        self._seed, words = seed, chat.processor.tokenizer
        ends = end_tokens(chat.folder, words)
        # Of the checkpoint's settings of generation, evaluation's backend takes none either.
        network.generation_config = GenerationConfig(
            eos_token_id=list(ends), pad_token_id=words.pad_token_id
        )
        named = (getattr(network.config, f"{kind}_token_id", None) for kind in ("image", "video"))
        self.suppressed = tuple(sorted({token for token in named if token is not None}))
        """Tokens of media: one that is written would want its patches."""
        self._vllm: VllmChat | None = None
        if method.settings.vllm_mode is not None:
            parts = (method.settings, network, accelerator, chat.processor)
            self._vllm = VllmChat(*parts, ends=ends, suppress_tokens=self.suppressed)

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
        method, sample = self._method, draft.example.sample
        first = replace(draft.example.request, key=draft.key, temperature=None)
        episode = None if method.environment is None else method.environment(sample.query)
        yield from write_rollout(first, episode, self._chat, draft.transcript, who=method.name)
        draft.logps = [
            one
            for part in draft.transcript.parts
            for one in self._logps(part.call and part.call[0], len(part.tokens))
        ]
        if method.second is not None:
            with plugin_errors(f"second pass of {method.name}", ModelError):
                requested = method.second(sample, draft.rollout)
            heat = method.second_temperature
            requested = replace(requested, key=f"{draft.key}/second", temperature=heat)
            (response,) = yield (requested,)
            text = f"{requested.prefix}{self._chat.decode(response.tokens)}"
            draft.second = Rollout(text=text, tokens=len(response.tokens), cut=response.cut)
        return draft

    def _logps(self, request: ChatRequest | None, count: int) -> list[float]:
        if self._vllm is None or request is None:
            return [0.0] * count
        return self._vllm.logps[request.key]
