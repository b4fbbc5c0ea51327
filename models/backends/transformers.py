"""Backend `transformers`: vision-language networks in this process, by Hugging Face transformers.

Requests go through the checkpoint's own processor and chat template. Batches hold requests of
similar length, are padded on the left, and are prepared while the batch before is answered. The
checkpoint's end tokens and repetition penalty are used and recorded, no other generation settings.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

from harness.adaptation import LearningSettings
from harness.backend import ConversingChat
from harness.chat import ChatRequest, ChatResponse, Conversation
from harness.coordinates import Coordinates
from harness.errors import OutOfMemory
from harness.models.backends import adapters
from harness.models.backends import checkpoint as checkpoints
from harness.models.backends.batch_size_finder import BatchSizeFinder
from harness.models.backends.batching import PreparedInputs, WaitTimer, batches, with_inputs
from harness.models.backends.checkpoint import Dtype
from harness.models.backends.checkpoint_tokens import CheckpointTokens, TransformersOptions
from harness.models.backends.completeness import check_complete
from harness.models.backends.continuous_generation import generate_continuously
from harness.models.backends.cpu_kernels import use_cpu_kernels
from harness.models.backends.examination import examination, observation
from harness.models.backends.inputs import processor_inputs
from harness.models.backends.loading import memory
from harness.models.backends.networks import load_network
from harness.models.backends.prefill_queue import first_of, prompts
from harness.models.backends.prompt_check import check_padding, check_prompts
from harness.models.backends.sampling import given_settings
from harness.models.backends.stop_strings import criteria
from harness.models.backends.token_positions import supports_continuous_batching
from harness.models.canvas import declared_coordinates
from harness.models.multi_turn import ConversationScheduler, question
from harness.observation import Examination, Observation, Variation
from harness.options import with_options

if TYPE_CHECKING:
    from transformers import BatchFeature, DynamicCache, PreTrainedModel

    from harness.models.backends.adaptation import NetworkAdaptation

BATCHES_PER_CALL = 8  # batches that `generate` likes to get at once

T = TypeVar("T")

installed_release = cache(version)  # reading a package's metadata takes milliseconds in every run


@dataclass(frozen=True, kw_only=True)
class TransformersChat(CheckpointTokens, ConversingChat):
    """A network and its processor, loaded when first used."""

    @property
    def devices(self) -> tuple[str, ...]:
        """The device of the option `device`."""
        return (self.device,)

    @property
    def goes_on(self) -> bool:
        """Return True: the network continues from the `prefix` of a request."""
        return True

    @property
    def rounds(self) -> int:
        """Number of batches to give `generate` at once, which sorts them and refills free rows."""
        return BATCHES_PER_CALL

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
            **given_settings(top_k=self.top_k, presence_penalty=self.presence_penalty),
            **({"image_processor": str(self.image_processor)} if self.image_processor else {}),
            **self.template,
            "transformers": installed_release("transformers"),
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
            ModelError: one of them cannot be loaded, or its chat template does not fit.
        """
        check_padding(self.processor)
        check_prompts(self.processor, self.end_tokens)
        assert self.network is not None, "loading raises otherwise"

    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        """Return one response a request, in order.

        Requests are answered `batch_size` at a time, the longest first, so that too large ones are
        known at once and little is padded. Further requests take the rows of ended responses, if
        the architecture allows it (`continuous_batching`); then a prompt that several requests
        share is prepared and read once. If memory runs out, the unanswered requests are tried half
        as many at a time, which later calls begin with, too (`BatchSizeFinder`).

        Raises:
            OutOfMemory: a single request does not fit.
            ModelError: the largest logit of a row is NaN or infinite.
        """
        responses = dict(self.converse_as_completed([question(request) for request in requests]))
        return [responses[number] for number in range(len(requests))]

    def observe(self, requests: Sequence[ChatRequest]) -> list[Observation]:
        """Return responses with the network's inputs, and the log-probabilities of their tokens."""
        pairs = zip(requests, self.generate(requests), strict=True)
        return [observation(self, request, response) for request, response in pairs]

    def examine(self, variation: Variation, tokens: Sequence[int]) -> Examination:
        """Return the inputs of a request, and the log-probabilities of a response's tokens."""
        return examination(self, variation, tokens)

    def converse_as_completed(
        self, conversations: Sequence[Conversation[T]], *, go_on: bool = False
    ) -> Iterator[tuple[int, T]]:
        """Yield (index of a conversation, its result), as soon as it ends.

        With continuous batching, a conversation's next request takes the row of an answered one and
        waits for no other conversation; otherwise conversations go turn by turn. `go_on`: batch
        continuously even if there are few requests. Results yielded before an error stay valid.

        Raises:
            OutOfMemory: a single request does not fit.
            ModelError: the largest logit of a row is NaN or infinite.
        """
        scheduler = ConversationScheduler(conversations)
        yield from scheduler.take_finished()
        size, ran_out, pending = self._room.rows, False, len(scheduler.pending_indices())
        while unanswered := scheduler.pending_indices():
            try:
                responses = self._generate_batches(
                    scheduler.requests, unanswered, scheduler.resume, size=size, go_on=go_on
                )
                with closing(responses):  # also if a conversation raises
                    for index, response in responses:
                        scheduler.receive(index, response)
                        yield from scheduler.take_finished()
            except OutOfMemory:
                at_once = min(size, len(scheduler.pending_indices()))
                if at_once == 1:
                    raise
                ran_out, size = True, at_once // 2
                # A smaller batch that did not fit held large requests: it says nothing of others.
                if len(unanswered) >= self._room.rows:
                    self._room.keep(size)
        yield from scheduler.take_finished()  # conversations that ended by their own work
        if not ran_out and pending >= self._room.rows:
            self._room.grow()

    def prepare_next(self, requests: Sequence[ChatRequest], *, go_on: bool = False) -> None:
        """Begin to make the tensors that a coming call with these requests needs first.

        `go_on`: as that call will have it, on which the first requests depend.
        """
        if self.prefetch and requests:
            size = self._room.rows
            continuous = self._uses_continuous_batching(requests, size, go_on=go_on)
            first = self._first_requests(requests, size, continuous=continuous)
            self._prepared_inputs.make(first, lambda: processor_inputs(self.processor, first))

    @property
    def wait_seconds(self) -> float:
        """Seconds that the network has waited so far for tensors that were not ready."""
        return self._wait_timer.seconds

    @cached_property
    def _wait_timer(self) -> WaitTimer:
        return WaitTimer()

    @cached_property
    def _prepared_inputs(self) -> PreparedInputs:
        return PreparedInputs(self.real_device)

    @cached_property
    def _room(self) -> BatchSizeFinder:
        """The number of requests that fit into memory at once, as far as known."""
        return BatchSizeFinder(max_size=self.batch_size, rows=self.batch_size)

    def adaptable(self, settings: LearningSettings) -> "NetworkAdaptation[TransformersChat]":
        """Return the adaptation by which the network learns from one request at a time.

        Raises:
            UsageError: the checkpoint is quantised, or has an adapter beside its weights.
        """
        from harness.models.backends.adaptation import NetworkAdaptation, check_adaptable

        check_adaptable(self)
        # Weights that learn have to be float32; beside a new adapter they keep their type.
        dtype: Dtype = "float32" if settings.finetune == "full" else self.dtype
        media_tokens = checkpoints.media_tokens(self.folder)
        chat = replace(self, dtype=dtype, suppress_tokens=media_tokens)
        return NetworkAdaptation(chat, settings)

    def _generate_batches(
        self,
        requests: Sequence[ChatRequest],
        unanswered: Sequence[int],
        resume: Callable[[], object],
        *,
        size: int,
        go_on: bool,
    ) -> Generator[tuple[int, ChatResponse], None, None]:
        """Yield (index, response) of the requests with the indices `unanswered`, `size` at a time.

        With continuous batching also those of requests that are appended meanwhile, by the caller
        or by `resume`.
        """
        pending = [requests[index] for index in unanswered]
        continuous = self._uses_continuous_batching(pending, size, go_on=go_on)
        first = self._first_requests(pending, size, continuous=continuous)
        with self._wait_timer.measure():  # prepared tensors may not be ready yet
            started = self._prepared_inputs.take_if_same(first)

        def make_inputs(indices: list[int]) -> "BatchFeature":
            return processor_inputs(self.processor, [requests[index] for index in indices])

        if continuous:
            return generate_continuously(
                self,
                self.network,
                requests,
                unanswered,
                make_inputs=make_inputs,
                resume=resume,
                size=size,
                started=started,
                timer=self._wait_timer,
            )
        plan = [[unanswered[index] for index in batch] for batch in batches(pending, size=size)]
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
        """Return True if continuous batching is possible and saves time for these requests."""
        saves_time = go_on or len(requests) > size or len(prompts(requests)) < len(requests)
        return saves_time and self._can_batch_continuously()

    def _can_batch_continuously(self) -> bool:
        """Return True if the option is set and the architecture allows it."""
        return self.continuous_batching and supports_continuous_batching(
            self.network, self.model_type
        )

    def _first_requests(
        self, requests: Sequence[ChatRequest], size: int, *, continuous: bool
    ) -> list[ChatRequest]:
        """Return the requests whose tensors are made first, one for each different prompt."""
        if continuous:
            return [requests[prompt[0]] for prompt in first_of(prompts(requests), size=size)]
        return [requests[index] for index in batches(requests, size=size)[0]]

    def _batched(
        self, requests: Sequence[ChatRequest], parts: "Iterator[tuple[list[int], BatchFeature]]"
    ) -> Generator[tuple[int, ChatResponse], None, None]:
        """Yield (index, response) of one batch (indices, its tensors) after another."""
        for indices, inputs in parts:
            with memory():
                responses = self._batch([requests[index] for index in indices], inputs)
            yield from zip(indices, responses, strict=True)

    def _batch(self, requests: Sequence[ChatRequest], inputs: "BatchFeature") -> list[ChatResponse]:
        """Return the responses of one batch, whose requests have the same `max_new_tokens`."""
        import torch
        from transformers import LogitsProcessorList

        network = self.network  # loaded before inference mode, whose tensors cannot be trained
        width = int(inputs["input_ids"].shape[1])
        prompt_facts = self.prompt_tokens(requests, inputs)  # (number of tokens, canvases) of each
        choice = self.token_choice(
            requests, prompt_length=width, starts=[width - length for length, _ in prompt_facts]
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
            self.to_response(request, row, prompt_length, canvases)
            for request, row, (prompt_length, canvases) in zip(
                requests, tokens[:, width:].tolist(), prompt_facts, strict=True
            )
        ]

    def _growing_cache(self) -> "DynamicCache | None":
        """Return an empty cache that grows without copies; None: the network makes its own."""
        from harness.models.backends.kv_cache import preallocated_cache

        return preallocated_cache([]) if self._can_batch_continuously() else None


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
        coordinates: Meaning of the numbers in responses; needed unless the VLM is one of Qwen's.
        adapter: Folder of a LoRA adapter of PEFT for this checkpoint. Safetensors only.
        merged: Merge the adapter into the weights, which is faster and changes the rounding.
        allow_any_base: Take an adapter that names another checkpoint as its base.

    Raises:
        ModelError: the checkpoint or the adapter is not there, not whole, not safe to load, or
            the adapter is another checkpoint's.
        UsageError: temperature or nucleus are out of range.
    """
    folder = checkpoints.find(checkpoint, revision=options.revision)
    configuration = check_complete(folder, has_penalty=options.repetition_penalty is not None)
    model_type = str(configuration.get("model_type"))
    names = [option.name for option in fields(options)]
    saved = {"dtype": checkpoints.saved_dtype(configuration)} if options.dtype == "auto" else {}
    return TransformersChat(
        **{name: getattr(options, name) for name in names} | saved,
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
