"""Vision-language networks in process, through Hugging Face transformers.

Images go through the checkpoint's own processor and chat template; batches are padded on the
left, of requests of like length, and made while the batch before is answered. Of a checkpoint's
generation settings only the end tokens and the repetition penalty are kept, and both are recorded;
the choice of tokens is `sampling.TokenChoice`.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

from harness.adaptation import LearningSettings
from harness.backend import ConversingChat
from harness.chat import ChatRequest, ChatResponse, Conversation
from harness.coordinates import Coordinates
from harness.errors import OutOfMemory
from harness.models.backends import adapters, continuous_batching
from harness.models.backends import checkpoint as checkpoints
from harness.models.backends.batch_size_finder import BatchSizeFinder
from harness.models.backends.batching import PreparedInputs, WaitTimer, batches, with_inputs
from harness.models.backends.checkpoint import Dtype
from harness.models.backends.checkpoint_tokens import CheckpointTokens, TransformersOptions
from harness.models.backends.completeness import check_complete
from harness.models.backends.continuous_generation import generate_continuously
from harness.models.backends.cpu_kernels import use_cpu_kernels
from harness.models.backends.inputs import processor_inputs
from harness.models.backends.loading import memory
from harness.models.backends.networks import load_network
from harness.models.backends.prefill_queue import first_of, prompts
from harness.models.backends.prompt_check import check_padding, check_prompts
from harness.models.backends.stop_strings import criteria
from harness.models.canvas import declared_coordinates
from harness.models.multi_turn import ConversationScheduler, question
from harness.options import with_options

if TYPE_CHECKING:
    from transformers import BatchFeature, DynamicCache, PreTrainedModel

    from harness.models.backends.adaptation import NetworkAdaptation

ROUNDS = 8

T = TypeVar("T")

installed = cache(version)  # a package's metadata take milliseconds, and are asked for every run


@dataclass(frozen=True, kw_only=True)
class TransformersChat(CheckpointTokens, ConversingChat):
    """A network and its processor, loaded when first used."""

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
            "device": self.real_device,
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
                network.to(self.real_device).eval(), attn_implementation=self.attn_implementation
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
        return PreparedInputs(self.real_device)

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
        make_inputs = self._inputs(requests)
        if rolls:
            return generate_continuously(
                self,
                self.network,
                requests,
                left,
                make_inputs=make_inputs,
                resume=resume,
                size=size,
                started=started,
                timer=self._wait_timer,
            )
        plan = [[left[at] for at in batch] for batch in batches(pending, size=size)]
        return self._batched(
            requests,
            with_inputs(
                plan,
                make_inputs,
                ahead=self.prefetch,
                started=started,
                timer=self._wait_timer,
                device=self.real_device,
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

    def _inputs(self, requests: Sequence[ChatRequest]) -> "Callable[[list[int]], BatchFeature]":
        return lambda chosen: processor_inputs(
            self.processor, [requests[place] for place in chosen]
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
                **inputs.to(self.real_device),
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
