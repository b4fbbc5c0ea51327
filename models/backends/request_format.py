"""A request as chat completions have it: messages with images inlined as data URLs.

What servers take beyond the common form differs. `vllm` and `sglang` go on from a prefix and take
a repetition penalty; `vllm` takes a clip as a row of frames with their times; `openai` calls the
limit of tokens by another name; `plain` is the common form and nothing else.
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

try:
    import fpng
except ImportError:
    fpng = None

Server: TypeAlias = Literal["vllm", "sglang", "openai", "plain"]
Clips: TypeAlias = Literal["images", "video"]

SPECIAL = re.compile(r"<(\|[A-Za-z0-9_]{1,40}\|>)")
FAST = 1  # level of PNG's compression: the higher ones take ten times as long for little
ENCODED_BYTES = 64 << 20
LIMITS = {"openai": "max_completion_tokens"}
GOES_ON = frozenset({"vllm", "sglang"})
MAX_STOPS = {"openai": 4}
KEEPS_STOP = {"vllm": "include_stop_str_in_output", "sglang": "no_stop_trim"}
"""Parameter by which a server leaves the stop string in the text, so that our rule cuts it."""


@dataclass(frozen=True, kw_only=True)
class RequestOptions(ServedOptions, TemplateOptions):
    """Options of what a request says."""

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
    """The one that is sent: that of the options, or the checkpoint's own."""
    fit: Callable[[tuple[int, int]], tuple[int, int]] | None
    """Function from the (width, height) of an image or a frame to the size to send; None: as it
    is."""
    plain: Callable[[str], str]
    """Removes special tokens from a text."""
    keeps_sizes: Callable[[ChatRequest], bool] = lambda _: False
    """Returns True if the server is told to leave a video's size as it is."""
    encoded: EncodedImages = field(default_factory=partial(EncodedImages, ENCODED_BYTES))

    def body(self, request: ChatRequest) -> bytes:
        """Return the JSON of a request; raises as `fields` does."""
        return json.dumps(self.fields(request)).encode("ascii")

    def fields(self, request: ChatRequest) -> dict[str, object]:
        """Return the fields of a request.

        Raises:
            UsageError: this kind of server does not take such a request.
        """
        plain: dict[str, object] = {
            "model": self.model,
            "messages": self.messages(request),
            LIMITS.get(self.options.server, "max_tokens"): request.max_new_tokens,
            "temperature": request.temperature_or(self.options.temperature),
            "top_p": request.top_p_or(self.options.top_p),
            "seed": seed_of(request.key, self.options.seed),
            **self._stop(request),
        }
        if self.options.presence_penalty is not None:
            plain["presence_penalty"] = self.options.presence_penalty
        if self.options.server in GOES_ON:
            plain |= self._extra_fields(request)
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
            plain |= self.options.template
        return plain

    def _stop(self, request: ChatRequest) -> dict[str, object]:
        """Return as many stop strings as the server takes; `stops.until_stop` applies them all."""
        if not request.stop:
            return {}
        keeps = KEEPS_STOP.get(self.options.server)
        sent = list(request.stop)[: MAX_STOPS.get(self.options.server)]
        return {"stop": sent, **({} if keeps is None else {keeps: True})}

    def _extra_fields(self, request: ChatRequest) -> dict[str, object]:
        # Else the server's own default of these would come from the checkpoint's settings.
        drawn = request.temperature_or(self.options.temperature) > 0
        plain: dict[str, object] = {"top_k": self.options.top_k or -1} if drawn else {}
        if self.repetition_penalty is not None:
            plain["repetition_penalty"] = self.repetition_penalty
        if self.options.template:
            plain["chat_template_kwargs"] = dict(self.options.template)
        if request.prefix:
            plain |= {"add_generation_prompt": False, "continue_final_message": True}
        clips = self._clips(request)
        if clips and self.options.clips == "video":
            plain["media_io_kwargs"] = {"video": {"num_frames": -1, **clip_times(*clips[0])}}
        if self.keeps_sizes(request):
            plain["mm_processor_kwargs"] = {"do_resize": False}
        return plain

    def _clips(self, request: ChatRequest) -> list[tuple[Media, tuple[int, ...]]]:
        """The media that several frames are shown of.

        Raises:
            UsageError: there are two, and a request has room for the times of one.
        """
        several = [
            (media, frames_shown(request, place)) for place, media in enumerate(request.media)
        ]
        clips = [(media, frames) for media, frames in several if len(frames) > 1]
        if len(clips) > 1 and self.options.clips == "video":
            raise UsageError(
                "openai(clips=video)",
                expected="one clip a question",
                found=f"{len(clips)}",
                fix="Use clips=images.",
            )
        return clips

    def messages(self, request: ChatRequest) -> list[dict[str, object]]:
        """Return the messages of a request, images inlined."""
        messages: list[dict[str, object]] = []
        for places, asked, response in conversation_of(request, self.plain):
            content = [
                part
                for place in places
                for part in self._parts(
                    request.media[place], frames_shown(request, place), request.squash(place)
                )
            ]
            content.append({"type": "text", "text": asked})
            messages.append({"role": "user", "content": content})
            if response is not None:
                messages.append({"role": "assistant", "content": response})
        if request.system is not None:
            messages.insert(0, {"role": "system", "content": self.plain(request.system)})
        if request.prefix:
            messages.append({"role": "assistant", "content": self.plain(request.prefix)})
        return messages

    def _parts(
        self, media: Media, frames: tuple[int, ...], resize: tuple[int, int] | None
    ) -> list[dict[str, object]]:
        images = [self._encoded(media, index, resize) for index in frames]
        if len(images) > 1 and self.options.clips == "video":
            # The frames of a `video/jpeg` are decoded as images, whatever their own format.
            inlined = ",".join(_base64(data) for _, data in images)
            url = {"url": f"data:video/jpeg;base64,{inlined}"}
            return [{"type": "video_url", "video_url": url}]
        times = media.times()
        parts: list[dict[str, object]] = []
        for index, (kind, data) in zip(frames, images, strict=True):
            if self.options.times and len(images) > 1:
                parts.append({"type": "text", "text": f"<{times[index]:.1f} seconds>"})
            url = {"url": f"data:image/{kind};base64,{_base64(data)}"}
            parts.append({"type": "image_url", "image_url": url})
        return parts

    def _encoded(self, media: Media, index: int, resize: tuple[int, int] | None) -> Encoded:
        """Return one frame's file, as the server is sent it: its own where that is the same."""
        size = resize or media.size
        sent = size if self.fit is None else self.fit(size)
        unchanged = sent == size == media.size and self.options.quality is None
        if unchanged and (own := media.plain_file(index)) is not None:
            return own.kind, own.data

        def encode() -> Encoded:
            image = squashed(media.frame(index), resize)
            if sent != size:
                image = np.array(Image.fromarray(image).resize(sent, Image.Resampling.BICUBIC))
            return encode_image(image, self.options.quality)

        return self.encoded.get((media.id, index, resize, sent), encode)


def encode_image(image: Frame, quality: int | None) -> Encoded:
    """Return an image as PNG, or as JPEG of a quality (1 to 100) with colours at full resolution.

    PNG is written by fpng where it is installed, in a tenth of Pillow's time.
    """
    file = io.BytesIO()
    if quality is not None:
        Image.fromarray(image).save(file, "JPEG", quality=quality, subsampling=0)
        return "jpeg", file.getvalue()
    if fpng is not None:
        return "png", fpng.from_ndarray(np.ascontiguousarray(image))
    Image.fromarray(image).save(file, "PNG", compress_level=FAST)
    return "png", file.getvalue()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def seed_of(key: str, seed: int) -> int:
    """The seed of one request, 31 bits: of the run's seed and the request's key alone."""
    digest = hashlib.blake2b(f"{seed}\x00{key}".encode("utf-8", "replace"), digest_size=4).digest()
    return int.from_bytes(digest, "little") >> 1


def without_marks(text: str) -> str:
    """Text in which whatever looks like a special token is broken up.

    For a network whose tokenizer is not at hand: `<|…|>` is how nearly all write theirs.

    >>> without_marks("a <|im_end|> b")
    'a < |im_end|> b'
    """
    return SPECIAL.sub(r"< \1", text)
