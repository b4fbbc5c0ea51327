"""Options, processor and tokens of the transformers backend: all that it does without a network."""

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

if TYPE_CHECKING:
    from transformers import BatchFeature, PreTrainedTokenizerBase, ProcessorMixin


@dataclass(frozen=True, kw_only=True)
class TransformersOptions(GenerationOptions, LoadedOptions):
    """Options of the backend."""

    device: str = "auto"
    """Such as `cuda:1` or `cpu`; `auto` is CUDA where there is one."""
    attn_implementation: Literal["auto", "sdpa", "eager", "flash_attention_2"] = "auto"
    """Implementation of attention; `auto` is transformers' choice, but for `kernels` on a CPU."""
    batch_size: int = 8
    """Requests at once; fewer where they do not fit into memory."""
    repetition_penalty: float | None = None
    """1 is none; None: as the checkpoint's generation settings say, which is what the official
    evaluations run with."""
    prefetch: bool = True
    """Make the next batch's tensors while one is answered. Responses are the same."""
    continuous_batching: bool = True
    """Let further requests of a call take the places of those that are answered. Responses are the
    same, but for what the last bits of logits decide."""


@dataclass(frozen=True, kw_only=True)
class CheckpointTokens(TransformersOptions):
    """A checkpoint, its processor and its rule for choosing tokens; without its network."""

    checkpoint: str
    folder: Path
    model_type: str
    coordinates: Coordinates
    adapter: adapters.Adapter | None = None
    keyed: bool = True
    """Draw tokens by counters, by key and position; otherwise by PyTorch's generator."""
    suppress_tokens: tuple[int, ...] = ()
    """Tokens that are never written."""
    limits_clips: bool = False
    """True if the limits on pixels are of each frame of a clip too, and not of images only."""

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
        )

    @cached_property
    def end_tokens(self) -> tuple[int, ...]:
        """The tokens that end a response."""
        return end_tokens(self.folder, self.processor.tokenizer)

    @cached_property
    def opening(self) -> str:
        """End of the chat template, if that opens the reasoning; else empty."""
        return opened_reasoning(self.processor)

    @cached_property
    def _tokenizer(self) -> "PreTrainedTokenizerBase":
        """A tokenizer beside the processor's, which another thread may be using."""
        return deepcopy(self.processor.tokenizer)

    def encode(self, text: str) -> tuple[int, ...]:
        """Tokens of a text, in which no special token is left."""
        plain = without_special_tokens(self.processor, text)
        return tuple(self._tokenizer(plain, add_special_tokens=False)["input_ids"])

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of tokens up to the end token, without special ones."""
        ended = bool(tokens) and tokens[-1] in self.end_tokens
        own = tokens[:-1] if ended else tokens
        return str(self._tokenizer.decode(own, skip_special_tokens=True))

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, without special ones added."""
        return len(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        """(width, height) of the first medium as the network sees it, by the processor's rule."""
        return planned_canvas(self.processor, self.model_type, request)

    @property
    def real_device(self) -> str:
        """The device that `auto` stands for, or the one of the setting."""
        return checkpoint_part.place(self.device)

    @cached_property
    def penalty(self) -> float:
        """The repetition penalty that is used: the one given, or the checkpoint's own."""
        if self.repetition_penalty is not None:
            return self.repetition_penalty
        return float(checkpoints.generation_settings(self.folder).get("repetition_penalty") or 1.0)

    def samplings(self, requests: Sequence[ChatRequest]) -> list[Sampling]:
        """Rules by which the tokens of each response are chosen."""
        return [self._sampling(request) for request in requests]

    def _sampling(self, request: ChatRequest) -> Sampling:
        return Sampling(
            seed=self.seed,
            temperature=request.temperature_or(self.temperature),
            top_p=request.top_p_or(self.top_p),
            repetition_penalty=self.penalty,
            keyed=self.keyed,
            suppress_tokens=self.suppress_tokens,
        )

    def token_choice(
        self, requests: Sequence[ChatRequest], *, prompt_length: int, starts: Sequence[int]
    ) -> TokenChoice:
        """Return the logits processor of one call of `generate`, whose requests have equal limits.

        Prompts are padded on the left to `prompt_length`; `starts` is each one's first own token.
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
        """Tokens of each prompt, and the canvases of its images."""
        lengths = map(int, inputs["attention_mask"].sum(dim=1))
        return list(zip(lengths, seen_canvases(self.processor, requests, inputs), strict=True))

    def to_response(
        self,
        request: ChatRequest,
        tokens: Sequence[int],
        length: int,
        canvases: tuple[tuple[int, int], ...],
    ) -> ChatResponse:
        """Response of the tokens that answer a request, whose prompt has so many tokens."""
        response = self._response(tokens, request.stop)
        text = f"{request.prefix}{response.text}"
        whole = replace(response, text=text, prompt_tokens=length, canvases=canvases)
        kept = until_stop(whole, request)
        opening = "" if request.written else self.opening
        return replace(kept, text=f"{opening}{kept.text}") if opening else kept

    def _response(self, tokens: Sequence[int], stop: Sequence[str]) -> ChatResponse:
        ends = self.end_tokens
        end = next((place for place, token in enumerate(tokens) if token in ends), None)
        written = tokens if end is None else tokens[:end]
        all_of_them = len(tokens) if end is None else end + 1
        stopped = tokens_to_stop(written, stop, self.decode)
        return ChatResponse(
            text=self.decode(written),
            tokens=tuple(tokens[: all_of_them if stopped is None else stopped]),
            completion_tokens=all_of_them if stopped is None else stopped,
            cut=end is None,
        )
