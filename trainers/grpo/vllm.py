"""Rollouts by vLLM, through TRL's `VLLMGeneration`, which brings it the weights.

In the same process (`vllm_mode=colocate`) or by a server (`server`), for prompts of single images:
TRL hands vLLM no videos. Contracts in tests/trainers/test_grpo_vllm.py.
"""

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import TypeVar

import torch
from accelerate import Accelerator
from PIL import Image
from torch import Tensor

from harness.chat import ChatRequest, ChatResponse, Conversation
from harness.errors import UsageError
from harness.models.backends.shown_media import frames_shown, squashed
from harness.models.backends.transformers import TransformersChat
from harness.models.multi_turn import ConversationScheduler
from harness.models.rollout import Transcript
from harness.plugins import plugin_errors
from harness.trainers.grpo.examples import refuse_clips
from harness.trainers.grpo.settings import Settings
from harness.trainers.network import Network
from harness.trainers.rows import encoded_each
from harness.trainers.session import gather

T = TypeVar("T")
MEMORY = 0.3  # vLLM's share of a device on which the network trains too; TRL's default
MIN_BIAS = -100.0
"""Least bias that vLLM adds to a logit, before it divides by the temperature."""
LARGEST_RATIO = 3.0
"""Limit of the network's probabilities over vLLM's; TRL's default."""


def check(settings: Settings, chat: TransformersChat) -> None:
    """Raise UsageError or MissingDependency if vLLM cannot write the rollouts.

    Limits on pixels are refused, which vLLM's own processor of the checkpoint would not have: it
    would make another number of image tokens than the prompt has.
    """
    if settings.vllm_mode is None:
        return
    with plugin_errors(f"vllm_mode={settings.vllm_mode}"):
        import_module("vllm")
    limits = {"min_pixels": chat.min_pixels, "max_pixels": chat.max_pixels}
    given = [f"{name}={value}" for name, value in limits.items() if value is not None]
    if given:
        raise UsageError(
            f"vllm_mode={settings.vllm_mode}",
            expected="the checkpoint's own limits on pixels, which vLLM has",
            found=", ".join(given),
            fix="Leave them out: the size of images is then that of the prompt's canvas "
            "(canvas=…). Or leave vllm_mode out.",
        )


def images_of(request: ChatRequest) -> list[Image.Image]:
    """Return the images of a request as vLLM takes them.

    Raises:
        UsageError: it shows a video.
    """
    refuse_clips(request, f"vllm_mode=…, request {request.key}")
    return [
        Image.fromarray(squashed(media.frame(frames_shown(request, at)[0]), request.squash(at)))
        for at, media in enumerate(request.media)
    ]


class VllmChat:
    """The policy in vLLM: a chat whose conversations go turn by turn."""

    def __init__(
        self,
        chat: TransformersChat,
        settings: Settings,
        network: Network,
        accelerator: Accelerator,
        suppress_tokens: Sequence[int],
    ) -> None:
        """Start vLLM, or find its server, for the network of a backend."""
        from trl.generation.vllm_generation import VLLMGeneration

        self._chat, self._settings = chat, settings
        self.engine = VLLMGeneration(
            model=network,
            accelerator=accelerator,
            processing_class=chat.processor,
            mode=settings.vllm_mode or "colocate",
            max_num_seqs=settings.generation_batch_size // accelerator.num_processes,
            temperature=settings.temperature,
            top_p=settings.top_p,
            max_completion_length=settings.max_completion_length,
            gpu_memory_utilization=MEMORY,
            generation_kwargs={"logit_bias": dict.fromkeys(suppress_tokens, MIN_BIAS)},
        )
        self.logps: dict[str, list[float]] = {}
        """Log-probabilities that the tokens of a round were drawn with, by the request's key."""

    def drawn_logps(self, rollout: Transcript) -> list[float]:
        """Return the log-probabilities that a rollout's tokens were drawn with; 0 for injected."""
        several = (
            self.logps[part.call[0].key] if part.call else [0.0] * len(part.tokens)
            for part in rollout.parts
        )
        return [logp for logps in several for logp in logps]

    def begin_round(self) -> None:
        """Bring vLLM the weights as they are now."""
        self.logps = {}
        self.engine.sync_weights()

    def converse(self, conversations: Sequence[Conversation[T]]) -> list[T]:
        """Return what each conversation comes to; each with one request at a time.

        Every process generates equally often, as many requests as it has conversations: where
        fewer are left, with requests again that were answered, and nobody looks at the answers.
        """
        scheduler, group = ConversationScheduler(conversations), self._settings.num_generations
        fillers = [replace(one, max_new_tokens=1) for one in scheduler.requests]

        def heats() -> dict[int, float]:
            usual, requests = self._settings.temperature, scheduler.requests
            return {at: requests[at].temperature_or(usual) for at in scheduler.pending_places()}

        # The first process alone calls a server, with its temperature and its limit.
        while everywhere := gather(list(heats().values())):
            self.engine.temperature = max(everywhere)
            places = [at for at, heat in heats().items() if heat == max(everywhere)]
            requests = [scheduler.requests[at] for at in places]
            written = self._write([*requests, *fillers[len(requests) :]], group)
            for at, request, found in zip(places, requests, written, strict=False):
                scheduler.receive(at, self._response(request, *found))
            group = 1  # the first time, a group's rollouts share their prompt
        return scheduler.ends()

    def _write(
        self, requests: Sequence[ChatRequest], group: int
    ) -> list[tuple[list[int], list[list[float]]]]:
        limits = gather([max(one.max_new_tokens for one in requests)])
        self.engine.max_completion_length = max(limits)
        prompts = encoded_each(self._chat.processor, requests)
        images = [images_of(one) or None for one in requests]
        _, tokens, logps, _ = self.engine.generate(
            prompts=[one["input_ids"][0].tolist() for one in prompts],
            images=images if any(images) else None,
            num_generations=group,
        )
        return list(zip(tokens, logps, strict=True))

    def _response(
        self, request: ChatRequest, tokens: Sequence[int], logps: Sequence[Sequence[float]]
    ) -> ChatResponse:
        """Return a response up to where its own request has it end, if vLLM went on."""
        response = self._chat.to_response(request, tokens[: request.max_new_tokens], 0, ())
        self.logps[request.key] = [float(one[0]) for one in logps[: len(response.tokens)]]
        return response


def sampling_numbers(
    batches: Sequence[tuple[Tensor, Tensor, Tensor, Tensor]],
) -> dict[str, float]:
    """Return how far vLLM's log-probabilities are from the network's, in all processes, as in TRL.

    Args:
        batches: Of this process: the network's log-probabilities (B × T), vLLM's (B × T), the mask
            (B × T) and `sampler_ratio` (B × 1).
    """
    found = []
    for old, drawn, mask, ratio in batches:
        apart = (old - drawn).abs()[mask.bool()]
        apart = apart[~apart.isnan()]  # a token whose probability vLLM does not say
        most = float(apart.max()) if apart.numel() else 0.0
        found.append((float(apart.sum()), apart.numel(), most, ratio.flatten().tolist()))
    sums, counts, most_apart, several = zip(*gather(found), strict=True)
    ratios = [ratio for some in several for ratio in some]
    return {
        "sampling/sampling_logp_difference/mean": sum(sums) / max(1, sum(counts)),
        "sampling/sampling_logp_difference/max": max(most_apart),
        "sampling/importance_sampling_ratio/min": min(ratios),
        "sampling/importance_sampling_ratio/mean": sum(ratios) / len(ratios),
        "sampling/importance_sampling_ratio/max": max(ratios),
    }


def sampler_ratio(old: Tensor, drawn: Tensor, mask: Tensor) -> Tensor:
    """Return the network's probabilities of whole responses over vLLM's (B × 1), as TRL corrects.

    0 where the ratio is too large. A token whose probability vLLM does not say has a ratio of 1.
    """
    difference = torch.nan_to_num((old - drawn) * mask, nan=0.0)
    ratio = difference.sum(dim=1, keepdim=True).exp()
    return ratio.masked_fill(ratio > LARGEST_RATIO, 0.0)
