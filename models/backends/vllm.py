"""Backend `vllm`: networks by vLLM in this process. For a server of vLLM use the backend `openai`.

harness eval --model "qwen_vl(checkpoint=Qwen/Qwen2.5-VL-7B-Instruct,batch_size=32,
    backend=vllm(max_model_len=16384),
    segmenter=sam2(checkpoint=facebook/sam2-hiera-large),propagator=still)" …

vLLM gets all requests of a call at once and batches them by itself. Prompts and images are made
as for the backend `transformers`, by the checkpoint's own processor and chat template, and those of
the next call while it answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib import import_module
from operator import attrgetter
from typing import Any

import numpy as np
from PIL import Image

from harness.backend import Chat
from harness.chat import ChatRequest, ChatResponse
from harness.coordinates import Coordinates
from harness.errors import MissingDependency, ModelError
from harness.models.backends import checkpoint as checkpoints
from harness.models.backends.batching import PreparedInputs
from harness.models.backends.completeness import check_complete
from harness.models.backends.inputs import chat_text
from harness.models.backends.loading import loading, memory
from harness.models.backends.nan_guard import refuse_broken
from harness.models.backends.options import LoadedOptions, ServedOptions
from harness.models.backends.prompt_check import check_prompts
from harness.models.backends.remote_processor import processor_only_chat
from harness.models.backends.request_format import seed_of
from harness.models.backends.sampling import given_settings
from harness.models.backends.shown_media import (
    check_clip_limits,
    clip_times,
    frames_shown,
    keeps_clip_sizes,
    squashed,
)
from harness.models.backends.stop_strings import until_stop
from harness.models.backends.transformers import TransformersChat
from harness.options import with_options
from harness.provenance import installed_version

BATCHES_PER_CALL = 8  # batches that `generate` likes to get at once
MAX_MEDIA = 64  # images, and clips, of one request


@dataclass(frozen=True, kw_only=True)
class VllmOptions(ServedOptions, LoadedOptions):
    """Options of the backend."""

    batch_size: int = 256
    """Requests that it likes at once; vLLM batches them by itself."""
    max_model_len: int | None = None
    """Tokens of prompt and response together; None: as the checkpoint says."""
    gpu_memory_utilization: float = 0.9
    """Share of a GPU's memory, from 0 to 1."""
    tensor_parallel_size: int = 1
    """GPUs that one network is spread over."""


@dataclass(frozen=True, kw_only=True)
class VllmChat(VllmOptions, Chat):
    """A network inside vLLM, loaded when first used."""

    network: TransformersChat
    """The same checkpoint for its processor and canvas; its weights are not loaded here."""
    checkpoint: str
    _results: dict[ChatRequest, ChatResponse | ModelError] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Results of a call in which a response was broken, so that the others are not computed again
    when the engine repeats its requests one by one."""

    coordinates = property(attrgetter("network.coordinates"))

    @property
    def why_not_adaptable(self) -> str:
        """Reason why the network's weights cannot learn here."""
        return "vLLM, whose engine holds weights for inference alone"

    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record: settings, and a hash of all weights (read once)."""
        description = self.network.describe()
        shared_fields = (
            "model_type",
            "weights",
            "files",
            "trained",
            "coordinates",
            "min_pixels",
            "max_pixels",
            "repetition_penalty",
            "enable_thinking",
            "reasoning_effort",
        )
        return {
            "backend": "vllm",
            "checkpoint": self.checkpoint,
            **{name: description[name] for name in shared_fields if name in description},
            "dtype": self.dtype,
            "batch_size": self.batch_size,
            "temperature": self.temperature,
            "top_p": self.top_p,
            **given_settings(top_k=self.top_k, presence_penalty=self.presence_penalty),
            "seed": self.seed,
            "max_model_len": self.max_model_len,
            "gpu_memory_utilization": self.gpu_memory_utilization,
            "tensor_parallel_size": self.tensor_parallel_size,
            "vllm": installed_version("vllm"),
        }

    @cached_property
    def engine(self) -> Any:
        """VLLM's engine (`vllm.LLM`), which holds the network.

        Raises:
            MissingDependency: vLLM is not installed.
            ModelError: it cannot load the checkpoint.
        """
        try:
            package = import_module("vllm")
        except ModuleNotFoundError as error:
            raise MissingDependency(
                "backend vllm",
                expected="the package vllm",
                found="it is not installed",
                fix="It pins other releases of torch and transformers: install it in "
                "another environment (pip install vllm), run `vllm serve` there, and use "
                "backend=openai(base_url=http://localhost:8000/v1).",
            ) from error
        limits = given_settings(min_pixels=self.min_pixels, max_pixels=self.max_pixels)
        with loading(f"checkpoint {self.checkpoint} in vLLM"), memory():
            return package.LLM(
                model=str(self.network.folder),
                dtype=self.dtype,
                seed=self.seed,
                trust_remote_code=False,
                load_format="safetensors",
                max_model_len=self.max_model_len,
                gpu_memory_utilization=self.gpu_memory_utilization,
                tensor_parallel_size=self.tensor_parallel_size,
                limit_mm_per_prompt={"image": MAX_MEDIA, "video": MAX_MEDIA},
                mm_processor_kwargs=limits or None,
            )

    @property
    def devices(self) -> tuple[str, ...]:
        """The first GPUs, as many as `tensor_parallel_size`."""
        return tuple(f"cuda:{index}" for index in range(self.tensor_parallel_size))

    @property
    def goes_on(self) -> bool:
        """Return True: the network continues from the `prefix` of a request."""
        return True

    @property
    def rounds(self) -> int:
        """Number of batches to give `generate` at once: new requests replace answered ones."""
        return BATCHES_PER_CALL

    def prepare(self) -> None:
        """Load the processor and the network; raises as `check_prompts` and `engine` do."""
        check_prompts(self.network.processor, self.network.end_tokens)
        assert self.engine is not None, "loading raises otherwise"

    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        """Return one response a request, in order.

        Raises:
            ModelError: vLLM refuses a request, returns another number of outputs, or a response is
                broken by NaN logits.
        """
        if any(request not in self._results for request in requests):
            started = self._prepared_inputs.take_if_same(requests)
            prompts = self._prompts(requests) if started is None else started.result()
            self._results.clear()
            self._results.update(zip(requests, self._generate(requests, prompts), strict=True))
        results = [self._results[request] for request in requests]
        responses = [result for result in results if isinstance(result, ChatResponse)]
        for result in results:
            if isinstance(result, ModelError):
                raise result  # the other results stay for a call without this request
        if len(self._results) == len({*requests}):
            self._results.clear()
        return responses

    def _generate(
        self, requests: Sequence[ChatRequest], prompts: Sequence[Mapping[str, object]]
    ) -> list[ChatResponse | ModelError]:
        """Return the response of each request, or the ModelError of a broken one."""
        engine, package = self.engine, import_module("vllm")
        settings = [
            package.SamplingParams(
                temperature=request.temperature_or(self.temperature),
                top_p=request.top_p_or(self.top_p),
                **given_settings(top_k=self.top_k, presence_penalty=self.presence_penalty),
                max_tokens=request.max_new_tokens,
                seed=seed_of(request.key, self.seed),
                repetition_penalty=self.network.penalty,
                # The stop string is left in the text, to be cut by `stop_strings`.
                **(
                    {"stop": [*request.stop], "include_stop_str_in_output": True}
                    if request.stop
                    else {}
                ),
            )
            for request in requests
        ]
        with memory():
            outputs = engine.generate(list(prompts), settings, use_tqdm=False)
        if len(outputs) != len(requests):
            raise ModelError("vLLM", expected=f"{len(requests)} outputs", found=str(len(outputs)))
        return [self._response(*pair) for pair in zip(requests, outputs, strict=True)]

    def prepare_next(self, requests: Sequence[ChatRequest], *, go_on: bool = False) -> None:
        """Begin to make the prompts of these requests, for the next call."""
        del go_on  # conversations go turn by turn either way
        self._prepared_inputs.make(requests, lambda: self._prompts(requests))

    @cached_property
    def _prepared_inputs(self) -> PreparedInputs:
        return PreparedInputs("cuda")

    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        """(width, height) in pixels of the first medium as the network sees it."""
        return self.network.canvas(request)

    def count_tokens(self, text: str) -> int:
        """Number of tokens of a text, without special tokens added."""
        return self.network.count_tokens(text)

    def _prompts(self, requests: Sequence[ChatRequest]) -> list[dict[str, object]]:
        return [self._prompt(request) for request in requests]

    def _prompt(self, request: ChatRequest) -> dict[str, object]:
        """Return a request as vLLM takes it: the prompt's text, and images or clips with times."""
        media: dict[str, list[object]] = {}
        for media_index, medium in enumerate(request.media):
            indices = frames_shown(request, media_index)
            frames = [
                squashed(medium.frame(index), request.squash(media_index), request.resample)
                for index in indices
            ]
            if len(frames) == 1:
                media.setdefault("image", []).append(Image.fromarray(frames[0]))
            else:
                check_clip_limits(self.network.processor)
                times = {
                    **clip_times(medium, indices, request.told(media_index)),
                    "do_sample_frames": False,
                }
                media.setdefault("video", []).append((np.stack(frames), times))
        prompt: dict[str, object] = {"prompt": chat_text(self.network.processor, request)}
        if media:
            prompt["multi_modal_data"] = media
        if keeps_clip_sizes(self.network.processor, request):
            prompt["mm_processor_kwargs"] = {"do_resize": False}
        return prompt

    def _response(self, request: ChatRequest, output: Any) -> ChatResponse | ModelError:
        """Return the response in vLLM's `RequestOutput`, or the ModelError if NaN broke it."""
        completion = output.outputs[0]
        is_cut = completion.finish_reason == "length"
        try:
            refuse_broken(completion.text, cut=is_cut, request=request)
        except ModelError as error:
            return error
        response = ChatResponse(
            text=f"{request.prefix}{completion.text}",
            prompt_tokens=len(output.prompt_token_ids or ()),
            completion_tokens=len(completion.token_ids),
            cut=is_cut,
            canvases=(self.canvas(request),) if request.media else (),
        )
        return until_stop(response, request)


@with_options(VllmOptions)
def vllm(
    options: VllmOptions, *, checkpoint: str, coordinates: Coordinates | None = None
) -> VllmChat:
    """A network through vLLM in this process, from a folder or the local cache.

    Args:
        options: The options of the backend.
        checkpoint: A folder, or a name that the Hugging Face cache holds. Safetensors only.
        coordinates: Meaning of the numbers in responses; needed unless the VLM is one of Qwen's.
        seed: Base of each request's own seed, which also depends on the request's key.

    Raises:
        ModelError: the checkpoint is not there, not whole, or not safe to load.
    """
    folder = checkpoints.find(checkpoint, revision=options.revision)
    configuration = check_complete(folder)
    shared_options = ("min_pixels", "max_pixels", "enable_thinking", "reasoning_effort")
    network = processor_only_chat(
        folder,
        coordinates=coordinates,
        limits_clips=True,  # vLLM hands the limits to the processor for images and clips alike
        **{name: getattr(options, name) for name in shared_options},
    )
    saved = {"dtype": checkpoints.saved_dtype(configuration)} if options.dtype == "auto" else {}
    return VllmChat(network=network, checkpoint=checkpoint, **(asdict(options) | saved))
