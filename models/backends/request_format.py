"""Write a `ChatRequest` as the JSON of a chat completion, images inlined as data URLs.

`RequestFormat.body` gives the bytes that `openai` sends. Servers differ in what they take beyond
the common form: `vllm` and `sglang` continue from a prefix and take a repetition penalty,
`vllm` also takes a clip as a sequence of frames with their times, `openai` has another name for the
limit of tokens, and `plain` is the common form alone.
"""

import base64
import hashlib
import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
from PIL import Image

from harness.chat import ChatRequest
from harness.errors import UsageError
from harness.media import Frame, Media
from harness.models.backends.encoded_images import Encoded, EncodedImages
from harness.models.backends.inputs import conversation_of
from harness.models.backends.options import ServedOptions, TemplateOptions
from harness.models.backends.shown_media import clip_times, frames_shown, squashed
from harness.pixel_budget import Resample

try:
    import fpng
except ImportError:
    fpng = None

Server: TypeAlias = Literal["vllm", "sglang", "openai", "plain"]
Clips: TypeAlias = Literal["images", "video"]

SPECIAL_TOKEN = re.compile(r"<(\|[A-Za-z0-9_]{1,40}\|>)")  # "<|im_end|>"
PNG_LEVEL = 1  # level of compression: higher ones take ten times as long for little
ENCODED_BYTES = 64 << 20  # bytes of encoded images that are kept, for requests that share them
LIMIT_FIELDS = {"openai": "max_completion_tokens"}  # elsewhere max_tokens
CONTINUES_PREFIX = frozenset({"vllm", "sglang"})
"""Servers that continue from a response prefix, and take the other `_extra_fields`."""
MAX_STOPS = {"openai": 4}  # stop strings that a server takes; the others take any number
KEEPS_STOP = {"vllm": "include_stop_str_in_output", "sglang": "no_stop_trim"}
"""Field that makes a server leave the stop string in the text, to be cut by `stop_strings`."""


@dataclass(frozen=True, kw_only=True)
class RequestOptions(ServedOptions, TemplateOptions):
    """Options that change the content of requests."""

    server: Server = "vllm"
    """Parameters it takes beyond the common form: `vllm`, `sglang`, `openai` or `plain`."""
    clips: Clips = "images"
    """Several frames are sent as `images`, which every server takes, or as one `video` with its
    times, which vLLM takes."""
    times: bool = False
    """Each of a clip's frames that is sent as an image follows its time as text, such as `<0.5
    seconds>`, the form in which Qwen3-VL is given the times of a video."""
    quality: int | None = None
    """Quality of JPEG, 1 to 100; None: PNG, which loses nothing."""
    repetition_penalty: float | None = None
    """1 is none; None: the checkpoint's own if it is here, else the server's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFormat:
    """Writes requests as JSON for one server and one model."""

    options: RequestOptions
    model: str
    repetition_penalty: float | None
    """The penalty to send, from the options or the checkpoint; None: none is sent."""
    fit: Callable[[tuple[int, int]], tuple[int, int]] | None
    """Function from a frame's (width, height) to the size to send; None: unchanged."""
    plain: Callable[[str], str]
    """Removes special tokens from a text."""
    keeps_sizes: Callable[[ChatRequest], bool] = lambda _: False
    """Returns True if the server is told to leave a video's size as it is."""
    encoded: EncodedImages = field(default_factory=partial(EncodedImages, ENCODED_BYTES))
    """Cache of encoded images."""

    def body(self, request: ChatRequest) -> bytes:
        """Return the JSON of a request; raises as `fields` does."""
        return json.dumps(self.fields(request)).encode("ascii")

    def fields(self, request: ChatRequest) -> dict[str, object]:
        """Return the fields of a request.

        Raises:
            UsageError: this kind of server does not take such a request.
        """
        fields: dict[str, object] = {
            "model": self.model,
            "messages": self.messages(request),
            LIMIT_FIELDS.get(self.options.server, "max_tokens"): request.max_new_tokens,
            "temperature": request.temperature_or(self.options.temperature),
            "top_p": request.top_p_or(self.options.top_p),
            "seed": seed_of(request.key, self.options.seed),
            **self._stop(request),
        }
        if self.options.presence_penalty is not None:
            fields["presence_penalty"] = self.options.presence_penalty
        if self.options.server in CONTINUES_PREFIX:
            fields |= self._extra_fields(request)
        elif "enable_thinking" in self.options.template:
            raise UsageError(
                f"openai(server={self.options.server},enable_thinking=…)",
                expected="a server that supports chat template variables",
                found=self.options.server,
                fix="Use server=vllm or server=sglang, or reasoning_effort=… with others.",
            )
        elif (
            request.prefix or self.repetition_penalty is not None or self.options.top_k is not None
        ):
            raise UsageError(
                f"openai(server={self.options.server})",
                expected="requests of the standard API",
                found="a response prefix, a repetition penalty, or top_k",
                fix="server=vllm and server=sglang support them.",
            )
        else:
            fields |= self.options.template
        return fields

    def _stop(self, request: ChatRequest) -> dict[str, object]:
        """Return fields with the stop strings that the server takes; `until_stop` applies all."""
        if not request.stop:
            return {}
        keeps = KEEPS_STOP.get(self.options.server)
        sent = list(request.stop)[: MAX_STOPS.get(self.options.server)]
        return {"stop": sent, **({} if keeps is None else {keeps: True})}

    def _extra_fields(self, request: ChatRequest) -> dict[str, object]:
        """Return fields that only servers in `CONTINUES_PREFIX` take; raises as `_clips` does."""
        fields: dict[str, object] = {}
        if request.temperature_or(self.options.temperature) > 0:
            # -1 is all tokens. Without the field the checkpoint's own setting would apply.
            fields["top_k"] = self.options.top_k or -1
        if self.repetition_penalty is not None:
            fields["repetition_penalty"] = self.repetition_penalty
        if self.options.template:
            fields["chat_template_kwargs"] = dict(self.options.template)
        if request.prefix:
            fields |= {"add_generation_prompt": False, "continue_final_message": True}
        clips = self._clips(request)
        if clips and self.options.clips == "video":
            fields["media_io_kwargs"] = {"video": {"num_frames": -1, **clip_times(*clips[0])}}
        if self.keeps_sizes(request):
            fields["mm_processor_kwargs"] = {"do_resize": False}
        return fields

    def _clips(
        self, request: ChatRequest
    ) -> list[tuple[Media, tuple[int, ...], tuple[float, ...]]]:
        """Return (medium, indices of its frames, times in seconds) of media with several frames.

        Raises:
            UsageError: there are two clips, sent as videos: a request states the times of one.
        """
        media_frames = [
            (media, frames_shown(request, index), request.told(index))
            for index, media in enumerate(request.media)
        ]
        clips = [(media, frames, times) for media, frames, times in media_frames if len(frames) > 1]
        if len(clips) > 1 and self.options.clips == "video":
            raise UsageError(
                "openai(clips=video)",
                expected="one clip a question",
                found=f"{len(clips)}",
                fix="Use clips=images.",
            )
        return clips

    def messages(self, request: ChatRequest) -> list[dict[str, object]]:
        """Return the messages of a request, images inlined; special tokens in texts are removed."""
        messages: list[dict[str, object]] = []
        for indices, question, response in conversation_of(request, self.plain):
            content = [part for index in indices for part in self._media_parts(request, index)]
            content.append({"type": "text", "text": question})
            messages.append({"role": "user", "content": content})
            if response is not None:
                messages.append({"role": "assistant", "content": response})
        if request.system is not None:
            messages.insert(0, {"role": "system", "content": self.plain(request.system)})
        if request.prefix:
            messages.append({"role": "assistant", "content": self.plain(request.prefix)})
        return messages

    def _media_parts(self, request: ChatRequest, media_index: int) -> list[dict[str, object]]:
        """Return the parts of a message that show one medium: its images or its video."""
        media, frames = request.media[media_index], frames_shown(request, media_index)
        images = [
            self._encoded(media, index, request.squash(media_index), request.resample)
            for index in frames
        ]
        if len(images) > 1 and self.options.clips == "video":
            # The frames of a `video/jpeg` are decoded as images, whatever their own format.
            inlined = ",".join(_base64(data) for _, data in images)
            url = {"url": f"data:video/jpeg;base64,{inlined}"}
            return [{"type": "video_url", "video_url": url}]
        media_times = media.times()
        times = request.told(media_index) or [media_times[index] for index in frames]
        parts: list[dict[str, object]] = []
        for seconds, (image_format, data) in zip(times, images, strict=True):
            if self.options.times and len(images) > 1:
                parts.append({"type": "text", "text": f"<{seconds:.1f} seconds>"})
            url = {"url": f"data:image/{image_format};base64,{_base64(data)}"}
            parts.append({"type": "image_url", "image_url": url})
        return parts

    def _encoded(
        self, media: Media, index: int, resize: tuple[int, int] | None, resample: Resample
    ) -> Encoded:
        """Return one frame as an image file to send: the original file if nothing changes it."""
        size = resize or media.size
        sent_size = size if self.fit is None else self.fit(size)
        unchanged = sent_size == size == media.size and self.options.quality is None
        if unchanged and (original := media.plain_file(index)) is not None:
            return original.kind, original.data

        def encode() -> Encoded:
            image = squashed(media.frame(index), resize, resample)
            if sent_size != size:
                image = np.array(Image.fromarray(image).resize(sent_size, Image.Resampling.BICUBIC))
            return encode_image(image, self.options.quality)

        return self.encoded.get((media.id, index, resize, resample, sent_size), encode)


def encode_image(image: Frame, quality: int | None) -> Encoded:
    """Return ("png" or "jpeg", the file's bytes) of an image (height × width × 3, uint8).

    JPEG has the `quality` (1 to 100) and colours at full resolution; None: PNG, which is written by
    fpng where it is installed, in a tenth of Pillow's time.
    """
    file = io.BytesIO()
    if quality is not None:
        Image.fromarray(image).save(file, "JPEG", quality=quality, subsampling=0)
        return "jpeg", file.getvalue()
    if fpng is not None:
        return "png", fpng.from_ndarray(np.ascontiguousarray(image))
    Image.fromarray(image).save(file, "PNG", compress_level=PNG_LEVEL)
    return "png", file.getvalue()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def seed_of(key: str, seed: int) -> int:
    """Return a request's seed (31 bits), which depends on the run's seed and the request's key."""
    digest = hashlib.blake2b(f"{seed}\x00{key}".encode("utf-8", "replace"), digest_size=4).digest()
    return int.from_bytes(digest, "little") >> 1


def without_marks(text: str) -> str:
    """Return a text in which everything that looks like a special token is broken up.

    Used if the network's tokenizer is not known: nearly all special tokens have the form `<|…|>`.

    >>> without_marks("a <|im_end|> b")
    'a < |im_end|> b'
    """
    return SPECIAL_TOKEN.sub(r"< \1", text)
