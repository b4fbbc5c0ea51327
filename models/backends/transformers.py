"""Vision-language networks in process, through Hugging Face transformers.

Pictures go through the checkpoint's own processor and chat template; batches are padded on the
left. Of a checkpoint's generation settings only the end tokens and the repetition penalty are
kept, and both are recorded; the choice of tokens is `sampling.TokenChoice`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from harness.errors import ModelError
from harness.model import ChatReply, ChatRequest
from harness.models.backends import checkpoint as checkpoints
from harness.models.backends.inputs import processor_inputs, seen_canvases, shown
from harness.models.backends.loading import check_report, loading, memory
from harness.models.backends.sampling import TokenChoice, check_settings
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.models.canvas import (
    Coordinates,
    clip_smart_resize,
    declared_coordinates,
    smart_resize,
)


@dataclass(frozen=True, kw_only=True)
class TransformersChat:
    """A network and its processor, loaded when first used."""

    checkpoint: str
    folder: Path
    model_type: str
    coordinates: Coordinates
    revision: str | None
    dtype: str
    device: str
    attention: str
    batch_size: int
    temperature: float
    top_p: float
    seed: int
    min_pixels: int | None
    max_pixels: int | None
    repetition_penalty: float | None

    def describe(self) -> Mapping[str, Any]:
        """Plain data for the record: settings, and a hash of all weights (reads them once)."""
        trained = checkpoints.trained(self.folder)
        return {
            "backend": "transformers",
            "checkpoint": self.checkpoint,
            "revision": self.revision,
            "model_type": self.model_type,
            "weights": checkpoints.fingerprint(self.folder),
            **({} if trained is None else {"trained": trained}),
            "coordinates": self.coordinates,
            "dtype": self.dtype,
            "device": self._device,
            "attention": self.attention,
            "batch_size": self.batch_size,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "seed": self.seed,
            "min_pixels": self.min_pixels,
            "max_pixels": self.max_pixels,
            "repetition_penalty": self._penalty,
            "transformers": version("transformers"),
        }

    @cached_property
    def processor(self) -> Any:
        """The checkpoint's processor, padding on the left, with this backend's pixel limits."""
        ensure_torchvision()
        from transformers import AutoProcessor

        with loading(f"processor of checkpoint {self.checkpoint}"):
            processor = AutoProcessor.from_pretrained(
                self.folder, local_files_only=True, trust_remote_code=False
            )
        processor.tokenizer.padding_side = "left"
        size = dict(processor.image_processor.size)
        if self.min_pixels is not None:
            size["shortest_edge"] = self.min_pixels
        if self.max_pixels is not None:
            size["longest_edge"] = self.max_pixels
        if self.min_pixels is not None or self.max_pixels is not None:
            processor.image_processor.size = size
        return processor

    @cached_property
    def network(self) -> Any:
        """The network in evaluation mode, on its device.

        Raises:
            ModelError: its weights are not exactly those of the architecture.
            OutOfMemory: it does not fit on the device.
        """
        ensure_torchvision()
        from transformers import AutoModelForImageTextToText, GenerationConfig

        attention = {} if self.attention == "auto" else {"attn_implementation": self.attention}
        with loading(f"checkpoint {self.checkpoint}"):
            network, report = AutoModelForImageTextToText.from_pretrained(
                self.folder,
                dtype=self.dtype,
                use_safetensors=True,
                local_files_only=True,
                trust_remote_code=False,
                output_loading_info=True,
                **attention,
            )
        check_report(self.checkpoint, report)
        network.generation_config = GenerationConfig(
            eos_token_id=list(self._end_tokens),
            pad_token_id=self.processor.tokenizer.pad_token_id,
        )
        with memory():
            return network.to(self._device).eval()

    def prepare(self) -> None:
        """Load the processor and the network.

        Raises:
            ModelError: one of them cannot be loaded as it is.
        """
        assert self.processor is not None and self.network is not None, "they raise otherwise"

    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatReply]:
        """One reply a request, in order; in batches of `batch_size` with equal limits.

        Raises:
            OutOfMemory: a batch does not fit.
            ModelError: a logit is no number.
        """
        replies: list[ChatReply] = []
        for limit, same in groupby(requests, key=lambda request: request.max_new_tokens):
            group = list(same)
            for start in range(0, len(group), self.batch_size):
                with memory():
                    replies += self._batch(group[start : start + self.batch_size], limit)
        return replies

    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        """(width, height) of the first medium as the network sees it, by the processor's rule."""
        size = request.resize or request.media[0].size
        frames = len(shown(request, 0))
        part = self.processor.image_processor if frames == 1 else self.processor.video_processor
        try:
            limits = {
                "factor": part.patch_size * part.merge_size,
                "min_pixels": part.size["shortest_edge"],
                "max_pixels": part.size["longest_edge"],
            }
        except (AttributeError, KeyError, TypeError) as error:
            raise ModelError(
                f"processor {type(part).__name__}", expected="the resizing rule of Qwen's VLMs",
                found=str(error), fix="This architecture's canvas is not known.",
            ) from error  # fmt: skip
        if frames > 1 and self.model_type.startswith("qwen3"):
            return clip_smart_resize(
                size, frames=frames, patch_frames=part.temporal_patch_size, **limits
            )
        return smart_resize(size, **limits)

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, without special ones added."""
        return len(self.processor.tokenizer(text, add_special_tokens=False)["input_ids"])

    @property
    def _device(self) -> str:
        if self.device != "auto":
            return self.device
        import torch

        return "cuda" if torch.cuda.is_available() else "cpu"

    @cached_property
    def _penalty(self) -> float:
        if self.repetition_penalty is not None:
            return self.repetition_penalty
        return float(checkpoints.generation_settings(self.folder).get("repetition_penalty") or 1.0)

    def _batch(self, requests: Sequence[ChatRequest], limit: int) -> list[ChatReply]:
        import torch
        from transformers import LogitsProcessorList

        network, inputs = self.network, processor_inputs(self.processor, requests)
        width = int(inputs["input_ids"].shape[1])
        lengths = [int(length) for length in inputs["attention_mask"].sum(dim=1)]
        choice = TokenChoice(
            keys=[request.key for request in requests],
            prompt_length=width,
            starts=[width - length for length in lengths],
            seed=self.seed,
            temperature=self.temperature,
            top_p=self.top_p,
            repetition_penalty=self._penalty,
        )
        with torch.inference_mode():
            tokens = network.generate(
                **inputs.to(self._device),
                max_new_tokens=limit,
                do_sample=False,
                logits_processor=LogitsProcessorList([choice]),
            )
        replies = [self._reply(row) for row in tokens[:, width:].tolist()]
        replies = [
            replace(reply, text=f"{request.prefix}{reply.text}")
            for request, reply in zip(requests, replies, strict=True)
        ]
        canvases = seen_canvases(self.processor, requests, inputs)
        return [
            replace(reply, prompt_tokens=length, canvases=canvas)
            for reply, length, canvas in zip(replies, lengths, canvases, strict=True)
        ]

    @cached_property
    def _end_tokens(self) -> tuple[int, ...]:
        given = checkpoints.generation_settings(self.folder).get("eos_token_id")
        ends = given if isinstance(given, list) else [given]
        known = [end for end in ends if isinstance(end, int)]
        return tuple(known) or (self.processor.tokenizer.eos_token_id,)

    def _reply(self, tokens: Sequence[int]) -> ChatReply:
        ends = self._end_tokens
        end = next((place for place, token in enumerate(tokens) if token in ends), None)
        written = tokens if end is None else tokens[:end]
        return ChatReply(
            text=self.processor.tokenizer.decode(written, skip_special_tokens=True),
            completion_tokens=len(tokens) if end is None else end + 1,
            cut=end is None,
        )


def transformers(
    *,
    checkpoint: str,
    revision: str | None = None,
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto",
    device: str = "auto",
    attention: Literal["auto", "sdpa", "eager", "flash_attention_2"] = "auto",
    batch_size: int = 8,
    temperature: float = 0.0,
    top_p: float = 1.0,
    seed: int = 0,
    min_pixels: int | None = None,
    max_pixels: int | None = None,
    repetition_penalty: float | None = None,
    coordinates: Coordinates | None = None,
) -> TransformersChat:
    """A network through Hugging Face transformers, from a folder or the local cache.

    Args:
        checkpoint: A folder, or a name that the Hugging Face cache holds. Safetensors only.
        revision: Of a name in the cache: branch, tag or commit.
        dtype: Of weights and activations; `auto` is what the checkpoint was saved in.
        device: Such as `cuda:1` or `cpu`; `auto` is CUDA where there is one.
        attention: Implementation; `auto` is transformers' choice.
        batch_size: Requests at once.
        temperature: 0 is greedy.
        top_p: Nucleus of the distribution that is sampled from.
        seed: Of sampling; see `sampling`.
        min_pixels: Smallest picture after resizing; None: as the checkpoint's processor says.
        max_pixels: Largest picture, likewise. Videos keep the processor's limits.
        repetition_penalty: 1 is none; None: as the checkpoint's generation settings say, which
            is what the official evaluations run with.
        coordinates: What numbers in replies mean. Known for Qwen's VLMs, needed for others.

    Raises:
        ModelError: the checkpoint is not there, not whole, or not safe to load.
        UsageError: temperature or nucleus are out of range.
    """
    check_settings(temperature=temperature, top_p=top_p)
    folder = checkpoints.find(checkpoint, revision=revision)
    configuration = checkpoints.check(folder)
    model_type = str(configuration.get("model_type"))
    return TransformersChat(
        checkpoint=checkpoint,
        folder=folder,
        model_type=model_type,
        coordinates=coordinates or declared_coordinates(model_type),
        revision=revision,
        dtype=checkpoints.saved_dtype(configuration) if dtype == "auto" else dtype,
        device=device,
        attention=attention,
        batch_size=batch_size,
        temperature=temperature,
        top_p=top_p,
        seed=seed,
        min_pixels=min_pixels,
        max_pixels=max_pixels,
        repetition_penalty=repetition_penalty,
    )
