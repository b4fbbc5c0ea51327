"""Any model that lmms-eval 0.7 has registered, asked by our prompts and scored by our tasks.

harness eval --model "qwen_vl(backend=lmms(name=llava_onevision,coordinates=pixels,
    arguments='pretrained=lmms-lab/llava-onevision-qwen2-7b-ov'),
    segmenter=sam2(checkpoint=facebook/sam2-hiera-large),propagator=still)" …

lmms-eval hands its models whole tasks, from which they take questions and images by number. A
task is made of the requests at hand and of nothing else. How such a model loads its weights is
its own affair: what harness promises of checkpoints does not hold for it. Two things are looked at
in its source before it is used (`lmms_models`): whether it sees all that a question shows, and
whether it lets code of a checkpoint run.
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
    FETCHED,
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

TASK, SPLIT = "harness", "asked"
CODE = re.compile(r"(?i)trust_remote_code\s*=\s*(?!false\b)")


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
    """Such as `cuda:0`; None: the model's own choice."""
    batch_size: int = 1
    """Requests at once, if the model takes several."""


@dataclass(frozen=True, kw_only=True)
class LmmsChat(Chat):
    """A model of lmms-eval, loaded when first used."""

    name: str
    arguments: str
    options: LmmsOptions
    remote_processor: RemoteProcessor

    greedy = property(attrgetter("options.greedy"))
    coordinates = property(attrgetter("remote_processor.coordinates"))

    @property
    def batch_size(self) -> int:
        """Requests at once: of files one, for in a batch some models sample all files by the number
        of frames of the first.
        """
        return 1 if self.options.clips == "file" else self.options.batch_size

    @property
    def devices(self) -> tuple[str, ...]:
        """Device of the setting; without one, lmms-eval's own choice is CUDA where there is one."""
        return ("auto" if self.options.device is None else self.options.device,)

    @property
    def why_not_adaptable(self) -> str:
        """Reason why the network's weights cannot learn here."""
        return "a model of lmms-eval, which answers without gradients"

    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record. The weights are those that the arguments name."""
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
        """The model.

        Raises:
            MissingDependency: lmms-eval is not installed.
            UnknownPlugin: it has no model of this name.
            UsageError: the model would run code of a checkpoint, which was not agreed to.
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
        assert self.model is not None, "it raises otherwise"

    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        """One response a request, in order.

        Raises:
            UsageError: a request begins its response, has a system message that the model's older
                interface cannot take, or shows what the model does not look at, or is not known
                to look at.
            ModelError: the model gives another number of responses, or a clip cannot be written.
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
            requested = [
                instance(
                    request_type="generate_until",
                    arguments=self._arguments(request, place, simple=simple, path_of=path_of),
                    idx=place,
                    metadata={"task": TASK, "doc_id": place, "repeats": 1},
                )
                for place, request in enumerate(requests)
            ]
            output = self.model.generate_until(requested) if requested else []
        if len(output) != len(requests):
            raise ModelError(
                f"model {self.name} of lmms-eval",
                expected=f"{len(requests)} responses",
                found=str(len(output)),
            )
        return [self._response(*pair) for pair in zip(requests, output, strict=True)]

    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        """(width, height) of the first medium as the network sees it."""
        return self.remote_processor.canvas(request)

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text; an estimate without a tokenizer."""
        return self.remote_processor.count_tokens(text)

    @contextmanager
    def _seeding(self, requests: Sequence[ChatRequest]) -> Iterator[None]:
        """Seed torch's generators by the seed and the first key, if responses are sampled.

        A model draws for a whole call at once, so that a request cannot have a seed of its own.
        """
        if not any(request.temperature_or(self.options.temperature) for request in requests):
            yield
            return
        import torch

        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.manual_seed(seed_of(requests[0].key, self.options.seed))
            yield

    def _arguments(
        self, request: ChatRequest, place: int, *, simple: bool, path_of: ClipPath | None
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
            return text, settings, partial(self._visuals, path_of), place, TASK, SPLIT
        return text, partial(self._messages, path_of), settings, place, TASK, SPLIT

    def _check_code(self, model_class: type) -> None:
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
        """Images and paths of video files as the older interface has them."""
        visuals = frame_images(path_of, request)
        nested = (self.options.image_nesting or nesting_of(self.name, simple=True)) == "nested"
        return [visuals] if nested and len(visuals) > 1 else visuals

    def _messages(self, path_of: ClipPath | None, request: ChatRequest) -> list[dict[str, object]]:
        plain = self.remote_processor.without_special_tokens
        system = None if request.system is None else plain(request.system)
        return messages(frame_images(path_of, request), own_text(request, plain), system)

    def _response(self, request: ChatRequest, output: object) -> ChatResponse:
        text, counts = _unwrap(output)
        if not isinstance(text, str):
            raise ModelError(
                f"model {self.name} of lmms-eval", expected="text", found=type(text).__name__
            )
        prompt, completion = (
            getattr(counts, f"{kind}_tokens", None) for kind in ("input", "output")
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
    """An image a frame; with `path_of`, the path of a file for what several are shown of."""
    visuals: list[Image.Image | str] = []
    for place, media in enumerate(request.media):
        frames, size = frames_shown(request, place), request.squash(place)
        if path_of is not None and len(frames) > 1:
            visuals.append(path_of(media, frames, size))
        else:
            visuals += (Image.fromarray(squashed(media.frame(index), size)) for index in frames)
    return visuals


def messages(
    visuals: Sequence[Image.Image | str], text: str, system: str | None
) -> list[dict[str, object]]:
    """A request as lmms-eval's newer interface has it: images and videos, and then the text."""
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
    for given, words in (
        (bool(request.prefix), "a beginning of the response"),
        (simple and request.system is not None, "a system message"),
        (bool(request.earlier), "turns before it"),
    ):
        if given:
            raise UsageError(
                "backend lmms",
                expected="a request that lmms-eval has a form for",
                found=f"one with {words}",
            )


def _unwrap(output: object) -> tuple[object, object]:
    """Text and token counts, in the forms in which models of lmms-eval give them."""
    if isinstance(output, (tuple, list)) and output:
        return output[0], None
    return getattr(output, "text", output), getattr(output, "token_counts", None)


def _registry() -> ModuleType:
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
        name: As in `lmms-eval --model`.
        arguments: As in `--model_args`, in quotes: `'pretrained=…,max_pixels=…'`.
        checkpoint: Added to the arguments as `pretrained=…`, unless they name one.
        min_pixels: Smallest canvas, likewise; the model's own arguments must say the same.
        max_pixels: Largest canvas, likewise.
        seed: With the key of a call's first request it seeds torch before the call: the same calls
            repeat what models draw from torch's generators.

    Raises:
        UsageError: the arguments ask for code of a checkpoint, which `remote_code` does not allow,
            or coordinates are missing.
    """
    if CODE.search(arguments) and not options.remote_code:
        raise UsageError(
            "lmms(arguments=…)",
            expected="a model whose code is installed",
            found="trust_remote_code, which runs code from a checkpoint",
            fix="remote_code=true allows it and is recorded.",
        )
    if checkpoint is not None and "pretrained=" not in arguments:
        arguments = ",".join(part for part in (f"pretrained={checkpoint}", arguments) if part)
    clips = "fetched" if options.clips == "file" and name in FETCHED else options.clips
    return LmmsChat(
        name=name,
        arguments=arguments,
        options=options,
        remote_processor=remote_processor(options, checkpoint=checkpoint, clips=clips),
    )
