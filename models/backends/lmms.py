"""The backend `lmms`: any model that lmms-eval 0.7 has registered, with this project's prompts.

    harness eval --model "qwen_vl(backend=lmms(name=llava_onevision,coordinates=pixels,
        arguments='pretrained=lmms-lab/llava-onevision-qwen2-7b-ov'),
        segmenter=sam2(checkpoint=facebook/sam2-hiera-large),propagator=still)" …

lmms-eval gives its models whole tasks, from which they take questions and images by number; here a
task consists of the requests of one call. Such a model loads its weights itself, so the checks of
checkpoints do not apply. Before it is used, its source is checked (`lmms_models`): whether it sees
all media of a question, and whether it runs code of a checkpoint.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from operator import attrgetter
from types import ModuleType
from typing import Any, Literal, TypeAlias

from PIL import Image

from harness.backend import Chat
from harness.chat import ChatRequest, ChatResponse
from harness.errors import ModelError, UnknownPlugin, UsageError
from harness.models.backends.clip_files import ClipPath, clip_files
from harness.models.backends.inputs import own_text
from harness.models.backends.lmms_models import (
    USES_FETCH_VIDEO,
    Several,
    check_sees_all,
    nesting_of,
    runs_code,
)
from harness.models.backends.loading import loading, memory
from harness.models.backends.options import GenerationOptions, ProcessorOptions
from harness.models.backends.remote_processor import RemoteProcessor, remote_processor
from harness.models.backends.request_format import seed_of
from harness.models.backends.shown_media import frames_shown, squashed
from harness.models.backends.stop_strings import until_stop
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.options import with_options
from harness.plugins import plugin_errors
from harness.provenance import installed_version

Clips: TypeAlias = Literal["images", "file"]

TASK, SPLIT = "harness", "asked"  # names of the task that lmms-eval's models are given
ALLOWS_REMOTE_CODE = re.compile(r"(?i)trust_remote_code\s*=\s*(?!false\b)")
"""Matches "trust_remote_code=True" in a model's arguments, but not "trust_remote_code=False"."""


@dataclass(frozen=True, kw_only=True)
class LmmsOptions(GenerationOptions, ProcessorOptions):
    """Options of the backend."""

    force_simple: bool = False
    """Take the older interface of a model that has both."""
    image_nesting: Several | None = None
    """Form in which a model that is not known here to look at several images, or frames, takes
    them: `flat`, a list of them; `nested`, a list within a list."""
    clips: Clips = "images"
    """Several frames of a medium are shown as `images`, or as the path of a video `file` that has
    them and nothing else, for models that open one and sample it by their own arguments; they then
    take one request at a time."""
    remote_code: bool = False
    """Let a model run code that lies beside the checkpoint's weights."""
    device: str | None = None
    """Device, such as `cuda:0`; None: the model's own choice."""
    batch_size: int = 1
    """Number of requests in a batch, if the model takes several at once."""


@dataclass(frozen=True, kw_only=True)
class LmmsChat(Chat):
    """A model of lmms-eval, loaded at the first use."""

    name: str
    arguments: str
    """Arguments as in `--model_args` of lmms-eval."""
    options: LmmsOptions
    remote_processor: RemoteProcessor

    greedy = property(attrgetter("options.greedy"))
    coordinates = property(attrgetter("remote_processor.coordinates"))

    @property
    def batch_size(self) -> int:
        """Requests at once; 1 for video files.

        In a batch, some models sample all files by the first one's number of frames.
        """
        return 1 if self.options.clips == "file" else self.options.batch_size

    @property
    def devices(self) -> tuple[str, ...]:
        """Device of the setting; `auto` without one: lmms-eval then prefers CUDA."""
        return ("auto" if self.options.device is None else self.options.device,)

    @property
    def why_not_adaptable(self) -> str:
        """Reason why test-time methods cannot adapt this network."""
        return "a model of lmms-eval, which answers without gradients"

    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record; the arguments name the weights."""
        return {
            "backend": "lmms",
            "model": self.name,
            "arguments": self.arguments,
            "force_simple": self.options.force_simple,
            "image_nesting": self.options.image_nesting,
            "remote_code": self.options.remote_code,
            **self.remote_processor.describe(),
            "clips": self.options.clips,
            "device": self.options.device,
            "batch_size": self.batch_size,
            "temperature": self.options.temperature,
            "top_p": self.options.top_p,
            "seed": self.options.seed,
            "lmms_eval": installed_version("lmms-eval"),
        }

    @cached_property
    def model(self) -> Any:
        """The object of lmms-eval's model class.

        Raises:
            MissingDependency: lmms-eval is not installed.
            UnknownPlugin: it has no model of this name.
            UsageError: the model would run code of a checkpoint, which the options do not allow.
            ModelError: the model cannot be loaded.
        """
        registry = _registry()
        names = registry.list_available_models(include_aliases=True)
        if self.name not in names:
            from difflib import get_close_matches

            near = get_close_matches(self.name, names, n=3, cutoff=0.4)
            raise UnknownPlugin(
                f"lmms(name={self.name})",
                expected="a model of lmms-eval",
                found="none of that name",
                fix=f"Did you mean {', '.join(near)}?" if near else "",
            )
        with loading(f"model {self.name} of lmms-eval"), memory():
            model_class = registry.get_model(self.name, force_simple=self.options.force_simple)
            self._check_code(model_class)
            settings = {"batch_size": self.batch_size, "device": self.options.device}
            return model_class.create_from_arg_string(self.arguments, settings)

    def prepare(self) -> None:
        """Load the model."""
        assert self.model is not None, "loading raises otherwise"

    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        """Return one response for each request, in order.

        Raises:
            UsageError: a request has a prefix, earlier turns, or a system message that the model's
                older interface cannot take; or the model may not use all media of a request.
            ModelError: the number of responses is wrong, or a clip cannot be written.
        """
        instance = import_module("lmms_eval.api.instance").Instance
        simple = bool(getattr(type(self.model), "is_simple", True))
        for request in requests:
            _check(request, simple=simple)
            check_sees_all(
                request,
                self.name,
                simple=simple,
                nesting=self.options.image_nesting,
                as_files=self.options.clips == "file",
            )
        self.model.task_dict = {TASK: {SPLIT: list(requests)}}
        files = clip_files() if self.options.clips == "file" else nullcontext()
        with memory(), self._seeding(requests), files as path_of:
            instances = [
                instance(
                    request_type="generate_until",
                    arguments=self._arguments(request, index, simple=simple, path_of=path_of),
                    idx=index,
                    metadata={"task": TASK, "doc_id": index, "repeats": 1},
                )
                for index, request in enumerate(requests)
            ]
            output = self.model.generate_until(instances) if instances else []
        if len(output) != len(requests):
            raise ModelError(
                f"model {self.name} of lmms-eval",
                expected=f"{len(requests)} responses",
                found=str(len(output)),
            )
        return [self._response(*pair) for pair in zip(requests, output, strict=True)]

    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        """Return the (width, height) of the first medium as the network sees it."""
        return self.remote_processor.canvas(request)

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text; an estimate without a tokenizer."""
        return self.remote_processor.count_tokens(text)

    @contextmanager
    def _seeding(self, requests: Sequence[ChatRequest]) -> Iterator[None]:
        """Seed torch's generators by the seed and the first request's key, if a response is drawn.

        A model samples for a whole call at once, so that requests cannot have seeds of their own.
        """
        if not any(request.temperature_or(self.options.temperature) for request in requests):
            yield
            return
        import torch

        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.manual_seed(seed_of(requests[0].key, self.options.seed))
            yield

    def _arguments(
        self, request: ChatRequest, index: int, *, simple: bool, path_of: ClipPath | None
    ) -> tuple[object, ...]:
        """Return the arguments of lmms-eval's request: text, settings, and access to its images."""
        temperature = request.temperature_or(self.options.temperature)
        settings: dict[str, object] = {
            "max_new_tokens": request.max_new_tokens,
            "temperature": temperature,
            "top_p": request.top_p_or(self.options.top_p),
            "do_sample": temperature > 0,
        }
        if request.stop:
            settings["until"] = list(request.stop)
        text = own_text(request, self.remote_processor.without_special_tokens)
        if simple:
            return text, settings, partial(self._visuals, path_of), index, TASK, SPLIT
        return text, partial(self._messages, path_of), settings, index, TASK, SPLIT

    def _check_code(self, model_class: type) -> None:
        """Raise UsageError if the model runs code of a checkpoint, unless `remote_code` is set."""
        where = None if self.options.remote_code else runs_code(model_class, self.arguments)
        if where is not None:
            raise UsageError(
                f"lmms(name={self.name})",
                expected="a model that runs no code of a checkpoint",
                found=f"trust_remote_code in {where}",
                fix="Look at that code first; remote_code=true then lets it run, and is recorded. "
                "If the model has an argument for it, arguments='trust_remote_code=False' does "
                "without.",
            )

    def _visuals(self, path_of: ClipPath | None, request: ChatRequest) -> Sequence[object]:
        """Return images and paths of video files, in the form of the older interface."""
        visuals = frame_images(path_of, request)
        nested = (self.options.image_nesting or nesting_of(self.name, simple=True)) == "nested"
        return [visuals] if nested and len(visuals) > 1 else visuals

    def _messages(self, path_of: ClipPath | None, request: ChatRequest) -> list[dict[str, object]]:
        """Return the messages of a request, in the form of the newer interface."""
        clean = self.remote_processor.without_special_tokens
        system = None if request.system is None else clean(request.system)
        return messages(frame_images(path_of, request), own_text(request, clean), system)

    def _response(self, request: ChatRequest, output: object) -> ChatResponse:
        """Return the response of a model's output; tokens are counted here if it does not."""
        text, token_counts = _unwrap(output)
        if not isinstance(text, str):
            raise ModelError(
                f"model {self.name} of lmms-eval", expected="text", found=type(text).__name__
            )
        prompt, completion = (
            getattr(token_counts, f"{direction}_tokens", None) for direction in ("input", "output")
        )
        tokens = self.count_tokens(text) if completion is None else int(completion)
        response = ChatResponse(
            text=text,
            prompt_tokens=int(prompt or 0),
            completion_tokens=tokens,
            cut=completion is not None and tokens >= request.max_new_tokens,
            canvases=self.remote_processor.canvases(request),
        )
        return until_stop(response, request)


def frame_images(path_of: ClipPath | None, request: ChatRequest) -> list[Image.Image | str]:
    """Return the media of a request: an image for each frame shown.

    With `path_of`, a medium of which several frames are shown becomes the path of a video file.
    """
    visuals: list[Image.Image | str] = []
    for media_index, media in enumerate(request.media):
        frames, size = frames_shown(request, media_index), request.squash(media_index)
        if path_of is not None and len(frames) > 1:
            visuals.append(path_of(media, frames, size, request.resample))
        else:
            images = (squashed(media.frame(index), size, request.resample) for index in frames)
            visuals += map(Image.fromarray, images)
    return visuals


def messages(
    visuals: Sequence[Image.Image | str], text: str, system: str | None
) -> list[dict[str, object]]:
    """Return messages for lmms-eval's newer interface: images and videos, then the text."""
    content: list[dict[str, object]] = [
        {"type": "video" if isinstance(visual, str) else "image", "url": visual}
        for visual in visuals
    ]
    turns: list[dict[str, object]] = [
        {"role": "user", "content": [*content, {"type": "text", "text": text}]}
    ]
    if system is not None:
        turns.insert(0, {"role": "system", "content": [{"type": "text", "text": system}]})
    return turns


def _check(request: ChatRequest, *, simple: bool) -> None:
    """Raise UsageError if lmms-eval cannot express a request; `simple`: in its older interface."""
    for is_present, part in (
        (bool(request.prefix), "a beginning of the response"),
        (simple and request.system is not None, "a system message"),
        (bool(request.earlier), "turns before it"),
    ):
        if is_present:
            raise UsageError(
                "backend lmms",
                expected="a request that lmms-eval has a form for",
                found=f"one with {part}",
            )


def _unwrap(output: object) -> tuple[object, object]:
    """Return text and token counts of a model's output: (text, …), an object, or the text alone."""
    if isinstance(output, (tuple, list)) and output:
        return output[0], None
    return getattr(output, "text", output), getattr(output, "token_counts", None)


def _registry() -> ModuleType:
    """Return lmms-eval's module that registers models, with torchvision ready for their imports."""
    ensure_torchvision()
    with plugin_errors("backend lmms", ModelError):
        return import_module("lmms_eval.models")


@with_options(LmmsOptions)
def lmms(
    options: LmmsOptions, *, name: str, arguments: str = "", checkpoint: str | None = None
) -> LmmsChat:
    """A model that lmms-eval 0.7 has registered.

    Args:
        options: The options of the backend.
        name: Name of the model, as for `lmms-eval --model`.
        arguments: Arguments of the model, as for `--model_args`, in quotes:
            `'pretrained=…,max_pixels=…'`.
        checkpoint: Added to the arguments as `pretrained=…`, unless they name one.
        min_pixels: Smallest canvas in pixels; the model's own arguments must say the same.
        max_pixels: Largest canvas in pixels; the model's own arguments must say the same.
        seed: Seed of torch's generators, with the key of a call's first request. The same calls
            give the same responses.

    Raises:
        UsageError: the arguments ask for code of a checkpoint, which `remote_code` does not allow.
    """
    if ALLOWS_REMOTE_CODE.search(arguments) and not options.remote_code:
        raise UsageError(
            "lmms(arguments=…)",
            expected="a model whose code is installed",
            found="trust_remote_code, which runs code from a checkpoint",
            fix="remote_code=true allows it and is recorded.",
        )
    if checkpoint is not None and "pretrained=" not in arguments:
        arguments = ",".join(part for part in (f"pretrained={checkpoint}", arguments) if part)
    clips = "fetched" if options.clips == "file" and name in USES_FETCH_VIDEO else options.clips
    return LmmsChat(
        name=name,
        arguments=arguments,
        options=options,
        remote_processor=remote_processor(options, checkpoint=checkpoint, clips=clips),
    )
