"""The half of the `transformers` backend that needs no network: options, processor and tokens.

`TransformersChat` inherits from `CheckpointTokens`, which encodes and decodes text, computes the
canvas of an image, and turns generated tokens into a `ChatResponse`.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from harness.chat import ChatRequest, ChatResponse
from harness.coordinates import Coordinates
from harness.models.backends import adapters, checkpoint_part
from harness.models.backends import checkpoint as checkpoints
from harness.models.backends.inputs import opened_reasoning, without_special_tokens
from harness.models.backends.networks import end_tokens, load_processor
from harness.models.backends.options import GenerationOptions, LoadedOptions
from harness.models.backends.sampling import Sampling, TokenChoice
from harness.models.backends.shown_media import planned_canvas, seen_canvases
from harness.models.backends.stop_strings import tokens_to_stop, until_stop
from harness.spec import Spec

if TYPE_CHECKING:
    from transformers import BatchFeature, PreTrainedTokenizerBase, ProcessorMixin


@dataclass(frozen=True, kw_only=True)
class TransformersOptions(GenerationOptions, LoadedOptions):
    """Options of the backend."""

    device: str = "auto"
    """Device, such as `cuda:1` or `cpu`; `auto`: CUDA if there is a GPU, else the CPU."""
    attn_implementation: Literal["auto", "sdpa", "eager", "flash_attention_2"] = "auto"
    """Implementation of attention; `auto` is transformers' choice, but for `kernels` on a CPU."""
    batch_size: int = 8
    """Largest number of requests in a batch; it is lowered when they do not fit into memory."""
    repetition_penalty: float | None = None
    """1 is none; None: as the checkpoint's generation settings say, which is what the official
    evaluations run with."""
    top_k: int | None = None
    """Number of the likeliest tokens that are sampled from; None: all."""
    presence_penalty: float | None = None
    """Subtracted from the logits of tokens that the response has; None: 0."""
    image_processor: Spec | None = None
    """`pil`: resize images by Pillow, as code of several vendors does, not by torchvision, and
    frames of clips where the processor has one size for them; `pil(max_patches=6)` has settings in
    place of the checkpoint's. None: as the checkpoint says."""
    prefetch: bool = True
    """Make the next batch's tensors while one is answered. Responses are the same."""
    continuous_batching: bool = True
    """Let further requests of a call take the places of those that are answered. Responses are the
    same, but for what the last bits of logits decide."""


@dataclass(frozen=True, kw_only=True)
class CheckpointTokens(TransformersOptions):
    """A checkpoint's processor, tokens and sampling rule, without its network."""

    checkpoint: str
    folder: Path
    model_type: str
    """Architecture, as the checkpoint's configuration names it."""
    coordinates: Coordinates
    """Meaning of the numbers in responses about places."""
    adapter: adapters.Adapter | None = None
    keyed: bool = True
    """Sample tokens by counter-based random numbers (request key and position), which do not depend
    on the batch; otherwise by PyTorch's generator."""
    suppress_tokens: tuple[int, ...] = ()
    """Ids of tokens that are never written."""
    limits_clips: bool = False
    """True if the limits on pixels hold for each frame of a clip, too."""

    @cached_property
    def processor(self) -> "ProcessorMixin":
        """The checkpoint's processor, padding on the left, with this backend's pixel limits."""
        return load_processor(
            self.folder,
            name=self.checkpoint,
            min_pixels=self.min_pixels,
            max_pixels=self.max_pixels,
            clips=self.limits_clips,
            template=self.template,
            image_processor=self.image_processor,
        )

    @cached_property
    def end_tokens(self) -> tuple[int, ...]:
        """Ids of the tokens that end a response."""
        return end_tokens(self.folder, self.processor.tokenizer)

    @cached_property
    def opening(self) -> str:
        """The end of the chat template if it opens the reasoning, such as `<think>`; else ""."""
        return opened_reasoning(self.processor)

    @cached_property
    def _tokenizer(self) -> "PreTrainedTokenizerBase":
        """A copy of the processor's tokenizer, which another thread may be using."""
        return deepcopy(self.processor.tokenizer)

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the token ids of a text; special tokens in it are broken up into plain text."""
        plain_text = without_special_tokens(self.processor, text)
        return tuple(self._tokenizer(plain_text, add_special_tokens=False)["input_ids"])

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, without the end token and special tokens."""
        has_end = bool(tokens) and tokens[-1] in self.end_tokens
        text_tokens = tokens[:-1] if has_end else tokens
        return str(self._tokenizer.decode(text_tokens, skip_special_tokens=True))

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text, without added special tokens."""
        return len(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        """Return the (width, height) of the first medium as the network sees it."""
        return planned_canvas(self.processor, self.model_type, request)

    @property
    def real_device(self) -> str:
        """The device of the setting, or the one that `auto` means."""
        return checkpoint_part.resolve_device(self.device)

    @cached_property
    def penalty(self) -> float:
        """The repetition penalty: the user's, or else the checkpoint's."""
        if self.repetition_penalty is not None:
            return self.repetition_penalty
        return float(checkpoints.generation_settings(self.folder).get("repetition_penalty") or 1.0)

    def samplings(self, requests: Sequence[ChatRequest]) -> list[Sampling]:
        """Return the rule of each request by which tokens are chosen."""
        return [self._sampling(request) for request in requests]

    def _sampling(self, request: ChatRequest) -> Sampling:
        """Return the rule by which the tokens of a request's response are chosen."""
        return Sampling(
            seed=self.seed,
            temperature=request.temperature_or(self.temperature),
            top_p=request.top_p_or(self.top_p),
            top_k=self.top_k,
            presence_penalty=self.presence_penalty or 0.0,
            repetition_penalty=self.penalty,
            keyed=self.keyed,
            suppress_tokens=self.suppress_tokens,
        )

    def token_choice(
        self, requests: Sequence[ChatRequest], *, prompt_length: int, starts: Sequence[int]
    ) -> TokenChoice:
        """Return the logits processor for one call of transformers' `generate`.

        Args:
            requests: Requests with equal limits and sampling settings.
            prompt_length: Length to which prompts are padded on the left, in tokens.
            starts: Index of the first token of each prompt after its padding.
        """
        return TokenChoice(
            keys=[request.key for request in requests],
            prompt_length=prompt_length,
            starts=starts,
            **asdict(self._sampling(requests[0])),
        )

    def prompt_tokens(
        self, requests: Sequence[ChatRequest], inputs: "BatchFeature"
    ) -> list[tuple[int, tuple[tuple[int, int], ...]]]:
        """Return each prompt's number of tokens, and the canvases (width, height) of its images."""
        lengths = map(int, inputs["attention_mask"].sum(dim=1))
        return list(zip(lengths, seen_canvases(self.processor, requests, inputs), strict=True))

    def to_response(
        self,
        request: ChatRequest,
        tokens: Sequence[int],
        length: int,
        canvases: tuple[tuple[int, int], ...],
    ) -> ChatResponse:
        """Return the response that generated tokens make.

        Args:
            request: The request.
            tokens: Generated token ids, perhaps with an end token and padding after it.
            length: Number of tokens of the prompt.
            canvases: (width, height) of the images as the network saw them.
        """
        response = self._response(tokens, request.stop)
        text = f"{request.prefix}{response.text}"
        response = replace(response, text=text, prompt_tokens=length, canvases=canvases)
        response = until_stop(response, request)
        opening = "" if request.written else self.opening
        return replace(response, text=f"{opening}{response.text}") if opening else response

    def _response(self, tokens: Sequence[int], stop: Sequence[str]) -> ChatResponse:
        """Return text and token count of a response up to its end token; its tokens to `stop`."""
        ends = self.end_tokens
        end = next((index for index, token in enumerate(tokens) if token in ends), None)
        text_tokens = tokens if end is None else tokens[:end]
        n_tokens = tokens_to_stop(text_tokens, stop, self.decode)
        if n_tokens is None:
            n_tokens = len(tokens) if end is None else end + 1  # the end token counts
        return ChatResponse(
            text=self.decode(text_tokens),
            tokens=tuple(tokens[:n_tokens]),
            completion_tokens=n_tokens,
            cut=end is None,
        )
