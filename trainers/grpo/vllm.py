"""`VllmChat`: rollouts by vLLM, through TRL's `VLLMGeneration`, which copies the weights to it.

vLLM runs in the same process (`vllm_mode=colocate`) or in a server (`server`). Prompts have single
images: TRL passes no videos to vLLM. Contracts are in tests/trainers/test_grpo_vllm.py.
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
MEMORY_SHARE = 0.3  # vLLM's share of a device on which the network trains too; TRL's default
MIN_BIAS = -100.0
"""Smallest bias that vLLM allows for a logit (added before it divides by the temperature)."""
MAX_RATIO = 3.0
"""Largest ratio of the network's to vLLM's probability of a response; TRL's default."""


def check(settings: Settings, chat: TransformersChat) -> None:
    """Raise UsageError or MissingDependency if vLLM cannot write the rollouts.

    Limits on pixels are refused: vLLM's own processor does not get them, and would make another
    number of image tokens than the prompt has.
    """
    if settings.vllm_mode is None:
        return
    with plugin_errors(f"vllm_mode={settings.vllm_mode}"):
        import_module("vllm")
    limits = {"min_pixels": chat.min_pixels, "max_pixels": chat.max_pixels}
    changed = [f"{name}={value}" for name, value in limits.items() if value is not None]
    if changed:
        raise UsageError(
            f"vllm_mode={settings.vllm_mode}",
            expected="the checkpoint's own limits on pixels, which vLLM has",
            found=", ".join(changed),
            fix="Leave them out: the size of images is then that of the prompt's canvas "
            "(canvas=…). Or leave vllm_mode out.",
        )


def images_of(request: ChatRequest) -> list[Image.Image]:
    """Return the image of each medium of a request, resized to the request's canvas.

    Raises:
        UsageError: it shows a video.
    """
    refuse_clips(request, f"vllm_mode=…, request {request.key}")
    images = []
    for media_index, media in enumerate(request.media):
        pixels = media.frame(frames_shown(request, media_index)[0])
        images.append(Image.fromarray(squashed(pixels, request.squash(media_index))))
    return images


class VllmChat:
    """The policy in vLLM: a chat that generates one turn of all conversations at a time."""

    def __init__(
        self,
        chat: TransformersChat,
        settings: Settings,
        network: Network,
        accelerator: Accelerator,
        suppress_tokens: Sequence[int],
    ) -> None:
        """Start vLLM, or connect to its server.

        Args:
            chat: Encodes prompts and decodes responses.
            settings: Sampling and vLLM's mode.
            network: The policy, whose weights vLLM copies.
            accelerator: Connects the processes of the training.
            suppress_tokens: Tokens that are never generated.
        """
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
            gpu_memory_utilization=MEMORY_SHARE,
            generation_kwargs={"logit_bias": dict.fromkeys(suppress_tokens, MIN_BIAS)},
        )
        self.logps: dict[str, list[float]] = {}
        """Log-probability of each drawn token of the round, by the key of its request."""

    def drawn_logps(self, rollout: Transcript) -> list[float]:
        """Return the log-probability with which vLLM drew each token; 0 for injected tokens."""
        logps = list[float]()
        for part in rollout.parts:
            logps += self.logps[part.call[0].key] if part.call else [0.0] * len(part.tokens)
        return logps

    def begin_round(self) -> None:
        """Copy the current weights to vLLM."""
        self.logps = {}
        self.engine.sync_weights()

    def converse(self, conversations: Sequence[Conversation[T]]) -> list[T]:
        """Run the conversations, each with one request at a time; return the result of each.

        All processes call vLLM equally often, each with as many requests as it has conversations.
        A process with fewer pending requests fills up with answered ones and ignores the responses.
        """
        scheduler, group = ConversationScheduler(conversations), self._settings.num_generations
        fillers = [replace(request, max_new_tokens=1) for request in scheduler.requests]

        def pending_temperatures() -> dict[int, float]:
            """Return the temperature of each pending request, by its index."""
            default, requests = self._settings.temperature, scheduler.requests
            indices = scheduler.pending_indices()
            return {index: requests[index].temperature_or(default) for index in indices}

        # One call has one temperature and one limit in all processes, because the first process
        # alone calls a server. The pending requests with the highest temperature are written first.
        while all_pending := gather(list(pending_temperatures().values())):
            highest = max(all_pending)
            self.engine.temperature = highest
            temperatures = pending_temperatures()
            indices = [index for index, value in temperatures.items() if value == highest]
            requests = [scheduler.requests[index] for index in indices]
            outputs = self._write([*requests, *fillers[len(requests) :]], group)
            for index, request, (tokens, logps) in zip(indices, requests, outputs, strict=False):
                scheduler.receive(index, self._response(request, tokens, logps))
            group = 1  # only in the first call do a group's rollouts share their prompt
        return scheduler.ends()

    def _write(
        self, requests: Sequence[ChatRequest], group: int
    ) -> list[tuple[list[int], list[list[float]]]]:
        """Generate; return tokens and log-probabilities (a list of one a token) of each response.

        `group` is the number of neighbouring requests with the same prompt.
        """
        limits = gather([max(request.max_new_tokens for request in requests)])
        self.engine.max_completion_length = max(limits)
        prompts = encoded_each(self._chat.processor, requests)
        images = [images_of(request) or None for request in requests]
        _, tokens, logps, _ = self.engine.generate(
            prompts=[prompt["input_ids"][0].tolist() for prompt in prompts],
            images=images if any(images) else None,
            num_generations=group,
        )
        return list(zip(tokens, logps, strict=True))

    def _response(
        self, request: ChatRequest, tokens: Sequence[int], logps: Sequence[Sequence[float]]
    ) -> ChatResponse:
        """Return a response, cut at the limit and the stops of its own request."""
        response = self._chat.to_response(request, tokens[: request.max_new_tokens], 0, ())
        self.logps[request.key] = [float(logp[0]) for logp in logps[: len(response.tokens)]]
        return response


def sampling_numbers(
    batches: Sequence[tuple[Tensor, Tensor, Tensor, Tensor]],
) -> dict[str, float]:
    """Return how far vLLM's log-probabilities are from the network's, under TRL's names.

    The numbers are of all processes.

    Args:
        batches: The batches of this process: the network's log-probabilities (B × T), vLLM's
            (B × T), the mask (B × T) and `sampler_ratio` (B × 1).
    """
    numbers = []
    for old, drawn, mask, ratio in batches:
        gaps = (old - drawn).abs()[mask.bool()]
        gaps = gaps[~gaps.isnan()]  # vLLM reports NaN where it gives no probability
        largest = float(gaps.max()) if gaps.numel() else 0.0
        numbers.append((float(gaps.sum()), gaps.numel(), largest, ratio.flatten().tolist()))
    sums, n_gaps, largest_gaps, ratio_lists = zip(*gather(numbers), strict=True)
    ratios = [ratio for batch_ratios in ratio_lists for ratio in batch_ratios]
    return {
        "sampling/sampling_logp_difference/mean": sum(sums) / max(1, sum(n_gaps)),
        "sampling/sampling_logp_difference/max": max(largest_gaps),
        "sampling/importance_sampling_ratio/min": min(ratios),
        "sampling/importance_sampling_ratio/mean": sum(ratios) / len(ratios),
        "sampling/importance_sampling_ratio/max": max(ratios),
    }


def sampler_ratio(old: Tensor, drawn: Tensor, mask: Tensor) -> Tensor:
    """Return the ratio of the network's to vLLM's probability of each response (B × 1).

    TRL's correction: 0 where the ratio is above MAX_RATIO. A token without a probability from
    vLLM (NaN) has a ratio of 1.

    Args:
        old: Log-probabilities by the network (B × T).
        drawn: Log-probabilities by vLLM (B × T).
        mask: 1 for tokens that count (B × T).
    """
    difference = torch.nan_to_num((old - drawn) * mask, nan=0.0)
    ratio = difference.sum(dim=1, keepdim=True).exp()
    return ratio.masked_fill(ratio > MAX_RATIO, 0.0)
