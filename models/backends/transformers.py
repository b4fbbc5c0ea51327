"""Vision-language networks in process, through Hugging Face transformers.

Images go through the checkpoint's own processor and chat template; batches are padded on the
left, of requests of like length, and made while the batch before is answered. Of a checkpoint's
generation settings only the end tokens and the repetition penalty are kept, and both are recorded;
the choice of tokens is `sampling.TokenChoice`.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from harness.adaptation import LearningSettings
from harness.backend import ConversingChat
from harness.chat import ChatRequest, ChatResponse, Conversation
from harness.coordinates import Coordinates
from harness.errors import OutOfMemory
from harness.models.backends import adapters, checkpoint_part, continuous_batching
from harness.models.backends import checkpoint as checkpoints
from harness.models.backends.batch_size_finder import BatchSizeFinder
from harness.models.backends.batching import PreparedInputs, WaitTimer, batches, with_inputs
from harness.models.backends.checkpoint import Dtype
from harness.models.backends.completeness import check_complete
from harness.models.backends.cpu_kernels import use_cpu_kernels
from harness.models.backends.inputs import (
    POSITIONS,
    joined_inputs,
    opened_reasoning,
    processor_inputs,
    without_special_tokens,
)
from harness.models.backends.loading import memory
from harness.models.backends.networks import (
    end_tokens,
    load_network,
    load_processor,
)
from harness.models.backends.options import GenerationOptions, LoadedOptions
from harness.models.backends.prefill_queue import (
    PrefillQueue,
    Prompts,
    first_of,
    prompts,
    unique_prompts,
)
from harness.models.backends.prompt_check import check_padding, check_prompts
from harness.models.backends.sampling import Sampling, TokenChoice
from harness.models.backends.shown_media import planned_canvas, seen_canvases
from harness.models.backends.stop_strings import criteria, tokens_to_stop, until_stop
from harness.models.canvas import declared_coordinates
from harness.models.multi_turn import ConversationScheduler, question
from harness.options import with_options

if TYPE_CHECKING:
    from transformers import (
        BatchFeature,
        DynamicCache,
        PreTrainedModel,
        PreTrainedTokenizerBase,
        ProcessorMixin,
    )

    from harness.models.backends.adaptation import NetworkAdaptation

ROUNDS = 8

T = TypeVar("T")

installed = cache(version)  # a package's metadata take milliseconds, and are asked for every run


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
class TransformersChat(TransformersOptions, ConversingChat):
    """A network and its processor, loaded when first used."""

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

    @property
    def devices(self) -> tuple[str, ...]:
        """Device of the setting."""
        return (self.device,)

    @property
    def goes_on(self) -> bool:
        """Return True: it continues from the `prefix` of a request."""
        return True

    @property
    def rounds(self) -> int:
        """Number of batches to give `generate` at once, which sorts them and lets rows roll."""
        return ROUNDS

    def describe(self) -> Mapping[str, Any]:
        """Return plain data for the record: settings, and a hash of all weights (read once)."""
        trained = checkpoints.training_record(self.folder)
        return {
            "backend": "transformers",
            "checkpoint": self.checkpoint,
            "revision": self.revision,
            "model_type": self.model_type,
            "weights": checkpoints.fingerprint(self.folder),
            "files": checkpoints.deciding(self.folder),
            **({} if trained is None else {"trained": trained}),
            **({} if self.adapter is None else self.adapter.describe()),
            "coordinates": self.coordinates,
            "dtype": self.dtype,
            "device": self._device,
            "attn_implementation": self.attn_implementation,
            "batch_size": self.batch_size,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "seed": self.seed,
            "min_pixels": self.min_pixels,
            "max_pixels": self.max_pixels,
            "repetition_penalty": self.penalty,
            **self.template,
            "transformers": installed("transformers"),
        }

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
    def network(self) -> "PreTrainedModel":
        """The network in evaluation mode, on its device.

        Raises:
            ModelError: its weights, or its adapter's, are not exactly those of the architecture.
            OutOfMemory: it does not fit on the device.
        """
        network = load_network(
            self.folder,
            name=self.checkpoint,
            dtype=self.dtype,
            attn_implementation=self.attn_implementation,
            adapter=self.adapter,
        )
        from transformers import GenerationConfig

        network.generation_config = GenerationConfig(
            eos_token_id=list(self.end_tokens),
            pad_token_id=self.processor.tokenizer.pad_token_id,
        )
        with memory():
            return use_cpu_kernels(
                network.to(self._device).eval(), attn_implementation=self.attn_implementation
            )

    def prepare(self) -> None:
        """Load the processor and the network.

        Raises:
            ModelError: one of them cannot be loaded as it is.
        """
        check_padding(self.processor)
        check_prompts(self.processor, self.end_tokens)
        assert self.network is not None, "it raises otherwise"

    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        """One response a request, in order.

        They are answered `batch_size` at a time, the longest first: what does not fit is known at
        once, and little is padded. Of more than that, the next ones take the places of those
        whose responses have ended, where the architecture allows it (`continuous_batching`). There,
        a prompt of several requests is made and read once. Where memory runs out, half as many at a
        time are tried, of those that are not answered yet, and no more than that in the next calls
        either (`BatchSizeFinder`).

        Raises:
            OutOfMemory: a single request does not fit.
            ModelError: the largest logit of a row is NaN or infinite.
        """
        ends = dict(self.converse_as_completed([question(request) for request in requests]))
        return [ends[number] for number in range(len(requests))]

    def converse_as_completed(
        self, conversations: Sequence[Conversation[T]], *, go_on: bool = False
    ) -> Iterator[tuple[int, T]]:
        """Yield the number of each conversation with its result, as soon as it ends.

        Where rows roll, a conversation's next request takes the place of an answered one, and waits
        for no other conversation; otherwise they go turn by turn. `go_on`: rows roll even for few
        requests. Results yielded before an error stay valid.

        Raises:
            OutOfMemory: a single request does not fit.
            ModelError: the largest logit of a row is NaN or infinite.
        """
        scheduler = ConversationScheduler(conversations)
        yield from scheduler.take_finished()
        size, ran_out, pending = self._room.rows, False, len(scheduler.pending_places())
        while left := scheduler.pending_places():
            try:
                output = self._generate_batches(
                    scheduler.requests, left, scheduler.resume, size=size, go_on=go_on
                )
                with closing(output):  # also where a conversation raises
                    for place, response in output:
                        scheduler.receive(place, response)
                        yield from scheduler.take_finished()
            except OutOfMemory:
                at_once = min(size, len(scheduler.pending_places()))
                if at_once == 1:
                    raise
                ran_out, size = True, at_once // 2
                # Of fewer than fit otherwise, large ones as they were, nothing is kept.
                if len(left) >= self._room.rows:
                    self._room.keep(size)
        yield from scheduler.take_finished()  # of conversations that ended with their work
        if not ran_out and pending >= self._room.rows:
            self._room.grow()

    def prepare_next(self, requests: Sequence[ChatRequest], *, go_on: bool = False) -> None:
        """Begin to make the tensors that the call with these requests begins with.

        `go_on`: that of `converse`, instead of `generate`, which may begin with others.
        """
        if self.prefetch and requests:
            size = self._room.rows
            first = self._first_requests(
                requests, size, rolls=self._uses_continuous_batching(requests, size, go_on=go_on)
            )
            self._prepared_inputs.make(first, lambda: processor_inputs(self.processor, first))

    @property
    def wait_seconds(self) -> float:
        """Seconds that the network has stood still so far, for images that were not ready."""
        return self._wait_timer.seconds

    @cached_property
    def _wait_timer(self) -> WaitTimer:
        return WaitTimer()

    @cached_property
    def _prepared_inputs(self) -> PreparedInputs:
        return PreparedInputs()

    @cached_property
    def _room(self) -> BatchSizeFinder:
        return BatchSizeFinder(max_size=self.batch_size, rows=self.batch_size)

    def adaptable(self, settings: LearningSettings) -> "NetworkAdaptation[TransformersChat]":
        """Return what lets the network learn from one request at a time.

        Raises:
            UsageError: the checkpoint is quantised, or has an adapter beside its weights.
        """
        from harness.models.backends.adaptation import NetworkAdaptation, check_adaptable

        check_adaptable(self)
        # Weights that learn are float32; those beside an adapter are not changed.
        dtype: Dtype = "float32" if settings.finetune == "full" else self.dtype
        own = replace(self, dtype=dtype, suppress_tokens=checkpoints.media_tokens(self.folder))
        return NetworkAdaptation(own, settings)

    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        """(width, height) of the first medium as the network sees it, by the processor's rule."""
        return planned_canvas(self.processor, self.model_type, request)

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, without special ones added."""
        return len(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    @cached_property
    def opening(self) -> str:
        """End of the chat template, if that opens the reasoning; else empty."""
        return opened_reasoning(self.processor)

    def encode(self, text: str) -> tuple[int, ...]:
        """Tokens of a text, in which no special token is left."""
        plain = without_special_tokens(self.processor, text)
        return tuple(self._tokenizer(plain, add_special_tokens=False)["input_ids"])

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of tokens up to the end token, without special ones."""
        ended = bool(tokens) and tokens[-1] in self.end_tokens
        own = tokens[:-1] if ended else tokens
        return str(self._tokenizer.decode(own, skip_special_tokens=True))

    @property
    def _device(self) -> str:
        return checkpoint_part.place(self.device)

    @cached_property
    def penalty(self) -> float:
        """The repetition penalty that is used: the one given, or the checkpoint's own."""
        if self.repetition_penalty is not None:
            return self.repetition_penalty
        return float(checkpoints.generation_settings(self.folder).get("repetition_penalty") or 1.0)

    def _generate_batches(
        self,
        requests: Sequence[ChatRequest],
        left: Sequence[int],
        resume: Callable[[], object],
        *,
        size: int,
        go_on: bool,
    ) -> Generator[tuple[int, ChatResponse], None, None]:
        """Places and responses of what is left of the requests, `size` at a time.

        Where rows roll, those of requests that are added meanwhile too, by the caller or by
        `resume`.
        """
        pending = [requests[place] for place in left]
        rolls = self._uses_continuous_batching(pending, size, go_on=go_on)
        first = self._first_requests(pending, size, rolls=rolls)
        with self._wait_timer.measure():  # what was expected may not be made yet
            started = self._prepared_inputs.take_if_same(first)
        if rolls:
            return self._generate_continuously(requests, left, resume, size=size, started=started)
        plan = [[left[at] for at in batch] for batch in batches(pending, size=size)]
        make_inputs = self._inputs(requests)
        return self._batched(
            requests,
            with_inputs(
                plan, make_inputs, ahead=self.prefetch, started=started, timer=self._wait_timer
            ),
        )

    def _uses_continuous_batching(
        self, requests: Sequence[ChatRequest], size: int, *, go_on: bool
    ) -> bool:
        """Return True if rows roll: the network allows it, and it saves something."""
        gains = go_on or len(requests) > size or len(prompts(requests)) < len(requests)
        return (
            gains
            and self.continuous_batching
            and continuous_batching.supports_continuous_batching(self.network, self.model_type)
        )

    def _first_requests(
        self, requests: Sequence[ChatRequest], size: int, *, rolls: bool
    ) -> list[ChatRequest]:
        """Return the requests whose tensors are made first; of those with one prompt the first."""
        if rolls:
            return [requests[prompt[0]] for prompt in first_of(prompts(requests), size=size)]
        return [requests[place] for place in batches(requests, size=size)[0]]

    def _batched(
        self, requests: Sequence[ChatRequest], parts: "Iterator[tuple[list[int], BatchFeature]]"
    ) -> Generator[tuple[int, ChatResponse], None, None]:
        """Yield places and responses, one batch of equal limits after another."""
        for places, inputs in parts:
            with memory():
                output = self._batch([requests[place] for place in places], inputs)
            yield from zip(places, output, strict=True)

    def _generate_continuously(
        self,
        requests: Sequence[ChatRequest],
        left: Sequence[int],
        resume: Callable[[], object],
        *,
        size: int,
        started: "Future[BatchFeature] | None",
    ) -> Generator[tuple[int, ChatResponse], None, None]:
        """Places and responses, as they end, of what is left and of what is added meanwhile."""
        import torch

        prompts: dict[int, tuple[int, tuple[tuple[int, int], ...]]] = {}
        inputs_of, samplings = self._inputs(requests), self.samplings(requests)

        def make_inputs(several: Prompts) -> "BatchFeature":
            inputs = inputs_of([prompt[0] for prompt in several])
            inputs[POSITIONS] = continuous_batching.token_positions(self.network, inputs)
            return inputs

        def part(several: Prompts, shares: "list[BatchFeature]") -> continuous_batching.PromptBatch:
            inputs = joined_inputs(self.processor, shares)
            seen = self.prompt_tokens([requests[prompt[0]] for prompt in several], inputs)
            order = [at for at, prompt in enumerate(several) for _ in prompt]
            places = [place for prompt in several for place in prompt]
            prompts.update(zip(places, (seen[at] for at in order), strict=True))
            return continuous_batching.PromptBatch(places, inputs.to(self._device), order)

        def add_new() -> None:
            known = len(samplings)
            samplings.extend(self.samplings(requests[known:]))
            waiting.add(unique_prompts(requests, range(known, len(requests))))

        def refill() -> None:
            resume()
            add_new()

        with ThreadPoolExecutor(1, thread_name_prefix="inputs") as worker:
            waiting = PrefillQueue(
                make_inputs,
                part,
                size=size,
                started=started,
                timer=self._wait_timer,
                worker=worker if self.prefetch else None,
                refill=refill,
            )
            waiting.add(unique_prompts(requests, left))
            written = continuous_batching.responses(
                self.network,
                requests,
                waiting,
                size=size,
                ends=self.end_tokens,
                samplings=samplings,
                decode=self.decode,
            )
            with closing(written):
                while True:
                    with memory(), torch.inference_mode():  # not while the caller is at work
                        output = next(written, None)
                    if output is None:
                        return
                    place, tokens = output
                    yield place, self.to_response(requests[place], tokens, *prompts.pop(place))
                    add_new()

    def _inputs(self, requests: Sequence[ChatRequest]) -> "Callable[[list[int]], BatchFeature]":
        return lambda chosen: processor_inputs(
            self.processor, [requests[place] for place in chosen]
        )

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

    def _batch(self, requests: Sequence[ChatRequest], inputs: "BatchFeature") -> list[ChatResponse]:
        import torch
        from transformers import LogitsProcessorList

        network = self.network  # loaded before inference mode, whose tensors cannot be trained
        width = int(inputs["input_ids"].shape[1])
        prompts = self.prompt_tokens(requests, inputs)
        choice = self.token_choice(
            requests, prompt_length=width, starts=[width - length for length, _ in prompts]
        )
        with torch.inference_mode():
            tokens = network.generate(
                **inputs.to(self._device),
                max_new_tokens=requests[0].max_new_tokens,
                do_sample=False,
                past_key_values=self._growing_cache(),
                logits_processor=LogitsProcessorList([choice]),
                **criteria(requests, prompt_length=width, decode=self.decode),
            )
        return [
            self.to_response(request, row, *seen)
            for request, row, seen in zip(
                requests, tokens[:, width:].tolist(), prompts, strict=True
            )
        ]

    def _growing_cache(self) -> "DynamicCache | None":
        """An empty cache that copies nothing for a further token; None: as the network makes it."""
        from harness.models.backends.kv_cache import preallocated_cache

        grows = self.continuous_batching and continuous_batching.supports_continuous_batching(
            self.network, self.model_type
        )
        return preallocated_cache([]) if grows else None

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

    @cached_property
    def end_tokens(self) -> tuple[int, ...]:
        """The tokens that end a response."""
        return end_tokens(self.folder, self.processor.tokenizer)

    @cached_property
    def _tokenizer(self) -> "PreTrainedTokenizerBase":
        """A tokenizer beside the processor's, which another thread may be using."""
        return deepcopy(self.processor.tokenizer)

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


@with_options(TransformersOptions)
def transformers(
    options: TransformersOptions,
    *,
    checkpoint: str,
    coordinates: Coordinates | None = None,
    adapter: str | None = None,
    merged: bool = False,
    allow_any_base: bool = False,
) -> TransformersChat:
    """A network through Hugging Face transformers, from a folder or the local cache.

    Args:
        options: The options of the backend.
        checkpoint: A folder, or a name that the Hugging Face cache holds. Safetensors only.
        coordinates: What numbers in responses mean. Known for Qwen's VLMs, needed for others.
        adapter: Folder of a LoRA adapter of PEFT for this checkpoint. Safetensors only.
        merged: Merge the adapter into the weights, which is faster and rounds otherwise.
        allow_any_base: Take an adapter that names another checkpoint as its base.
        seed: Of sampling; see `sampling`.
        enable_thinking: Whether the chat template asks for reasoning (Qwen3.5 and later); None: as
            it does by itself.

    Raises:
        ModelError: the checkpoint or the adapter is not there, not whole, not safe to load, or
            the adapter is another checkpoint's.
        UsageError: temperature or nucleus are out of range.
    """
    folder = checkpoints.find(checkpoint, revision=options.revision)
    configuration = check_complete(folder, has_penalty=options.repetition_penalty is not None)
    model_type = str(configuration.get("model_type"))
    saved = {"dtype": checkpoints.saved_dtype(configuration)} if options.dtype == "auto" else {}
    return TransformersChat(
        **(asdict(options) | saved),
        checkpoint=checkpoint,
        folder=folder,
        model_type=model_type,
        coordinates=coordinates or declared_coordinates(model_type),
        adapter=None
        if adapter is None
        else adapters.find(
            adapter,
            checkpoint=checkpoint,
            base=folder,
            merged=merged,
            allow_any_base=allow_any_base,
        ),
        limits_clips=True,
    )
