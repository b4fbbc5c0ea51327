"""Canvas, token counts and coordinates of a network that runs elsewhere, as far as known here.

They come from a local folder with the network's tokenizer and processor (its weights are not
needed), or from options. Where an unknown value would change an answer it raises an error; the
number of tokens is then an estimate, which the record states. `openai` and `lmms` use it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from harness.chat import ChatRequest
from harness.coordinates import Coordinates
from harness.errors import MissingDependency, ModelError, UsageError
from harness.models.backends import checkpoint as checkpoints
from harness.models.backends.completeness import SERVER_PARTS, check_complete
from harness.models.backends.inputs import without_special_tokens
from harness.models.backends.options import ProcessorOptions
from harness.models.backends.request_format import CONTINUES_PREFIX, Clips, Server, without_marks
from harness.models.backends.shown_media import frames_shown, keeps_clip_sizes
from harness.models.backends.transformers import TransformersChat
from harness.models.backends.weights import read_json
from harness.models.canvas import declared_coordinates, smart_resize

Sent: TypeAlias = Clips | Literal["fetched", "file"]
"""Form in which a clip reaches the network: `images`; a `video`, resized by its processor's rule;
or a video file, opened by the rule of Qwen's `fetch_video` (`fetched`) or by an unknown rule
(`file`)."""

BYTES_A_TOKEN = 4  # of English text, roughly
FETCH_FACTOR, FETCH_PIXELS, FETCH_FRAMES = 28, 768 * 28 * 28, 300
"""Factor of sides, largest frame in pixels, and number of frames up to which a frame may be that
large: `fetch_video` of qwen_vl_utils 0.0.14, with its default MODEL_SEQ_LEN."""


@dataclass(frozen=True, kw_only=True)
class RemoteProcessor:
    """Known facts of the processor of a network that runs elsewhere."""

    network: TransformersChat | None
    """The network by its local files, for its processor; its weights are never loaded. None: only
    the options below are known."""
    coordinates: Coordinates | None
    factor: int | None
    min_pixels: int | None
    max_pixels: int | None
    clips: Sent

    @property
    def fit(self) -> Callable[[tuple[int, int]], tuple[int, int]] | None:
        """Function from an image's (width, height) to the size to send; None: unchanged."""
        return None if self.min_pixels is None and self.max_pixels is None else self._image_canvas

    @property
    def tokens(self) -> str:
        """Method by which tokens are counted if the server states no number, for the record."""
        if self.network is not None:
            return "by the tokenizer"
        return f"estimated: bytes other than white space / {BYTES_A_TOKEN}"

    def describe(self) -> dict[str, object]:
        """Return plain data for the record."""
        return {
            "tokenizer": None if self.network is None else self.network.folder.name,
            "tokens": self.tokens,
            "coordinates": self.coordinates,
            "factor": self.factor,
            "min_pixels": self.min_pixels,
            "max_pixels": self.max_pixels,
        }

    def without_special_tokens(self, text: str) -> str:
        """Return a text in which the network's special tokens are removed or broken up."""
        if self.network is None:
            return without_marks(text)
        return without_special_tokens(self.network.processor, text)

    def keeps_clip_sizes(self, request: ChatRequest) -> bool:
        """Return True if the server must not resize a request's clip that is sent as a video."""
        if self.network is None or self.clips != "video":
            return False
        return keeps_clip_sizes(self.network.processor, request)

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text, counted or estimated as `tokens` says.

        >>> RemoteProcessor(network=None, coordinates="pixels", factor=None, min_pixels=None,
        ...       max_pixels=None, clips="images").count_tokens("nine  letters")
        3
        """
        if self.network is not None:
            return self.network.count_tokens(text)
        return -(-len(re.sub(r"\s+", "", text).encode("utf-8", "replace")) // BYTES_A_TOKEN)

    def penalty(self, option: float | None, *, server: Server) -> float | None:
        """Return the repetition penalty to send: the option, or the checkpoint's own if known.

        For servers without such a field it is the option, which `RequestFormat` then refuses.
        """
        if option is not None or self.network is None or server not in CONTINUES_PREFIX:
            return option
        return self.network.penalty

    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        """(width, height) in pixels of the first medium as the network sees it.

        Raises:
            UsageError: the network's rule is not known.
        """
        frames = frames_shown(request, 0)
        if len(frames) > 1 and self.clips in ("fetched", "file"):
            return self._file_canvas(request.resize or request.media[0].size, len(frames))
        if self.network is not None:
            if len(frames) > 1 and self.clips == "images":
                request = replace(request, media=request.media[:1], frames=(frames[:1],))
            elif len(frames) > 1 and self.fit is not None:
                # Frames are resized before they are sent; then the server applies its own rule.
                sent_size = self.fit(request.resize or request.media[0].size)
                request = replace(request, resize=sent_size)
            return self.network.canvas(request)
        if len(frames) > 1 and self.clips == "video":
            raise _unknown_rule("the canvas of a clip")
        return self._image_canvas(request.resize or request.media[0].size)

    def canvases(self, request: ChatRequest) -> tuple[tuple[int, int], ...]:
        """Return the canvas of each medium, as `canvas`; () if the rule is not known."""
        single_medium_requests = [
            replace(
                request,
                media=(media,),
                frames=(frames_shown(request, media_index),),
                resize=request.squash(media_index),
                resize_others=None,
            )
            for media_index, media in enumerate(request.media)
        ]
        try:
            return tuple(map(self.canvas, single_medium_requests))
        except UsageError:
            return ()

    def _image_canvas(self, size: tuple[int, int]) -> tuple[int, int]:
        """(width, height) of an image of `size` after the processor's resizing."""
        factor, minimum, limit = self._image_rule()
        return smart_resize(size, factor=factor, min_pixels=minimum, max_pixels=limit)

    def _file_canvas(self, size: tuple[int, int], frames: int) -> tuple[int, int]:
        """(width, height) of each of a video file's `frames`, which have `size` in the file.

        `fetch_video` first shrinks a frame to its own limit, `FETCH_PIXELS`; then the processor
        resizes it like an image. Of more than `FETCH_FRAMES` frames each gets fewer pixels, which
        depend on how many frames the model takes.

        Raises:
            UsageError: the rule is not `fetch_video`'s, or there are more than `FETCH_FRAMES`.
        """
        if self.clips != "fetched":
            raise UsageError(
                "the canvas of a clip",
                expected="a model with a known rule for video files",
                found="a model with an unknown rule",
                fix="Use clips=images to show frames as images.",
            )
        if frames > FETCH_FRAMES:
            raise UsageError(
                "the canvas of a clip",
                expected=f"at most {FETCH_FRAMES} frames in a video file",
                found=f"{frames}, whose size depends on how many of them the model uses",
                fix="Show fewer frames, or use clips=images.",
            )
        _, minimum, limit = self._image_rule()
        limit = min(limit, max(FETCH_PIXELS, int(minimum * 1.05)))  # 1.05 is fetch_video's
        fetched = smart_resize(size, factor=FETCH_FACTOR, min_pixels=minimum, max_pixels=limit)
        return self._image_canvas(fetched)

    def _image_rule(self) -> tuple[int, int, int]:
        """Return what sides are multiples of, and the smallest and largest area in pixels."""
        if self.network is not None:
            processor = self.network.processor.image_processor
            limits = processor.size["shortest_edge"], processor.size["longest_edge"]
            return processor.patch_size * processor.merge_size, *limits
        if self.factor is None or self.min_pixels is None or self.max_pixels is None:
            raise _unknown_rule("the canvas")
        return self.factor, self.min_pixels, self.max_pixels


def _unknown_rule(what: str) -> UsageError:
    return UsageError(
        what,
        expected="the processor's rule of the network that is served",
        found="none",
        fix="Give tokenizer=FOLDER (the checkpoint's files; its weights are not needed), or "
        "factor=28,min_pixels=3136,max_pixels=12845056 as the server has them.",
    )


def remote_processor(
    options: ProcessorOptions, *, checkpoint: str | None, clips: Sent
) -> RemoteProcessor:
    """Return all that is known of a network, from a folder and from options.

    Args:
        options: The options. If `tokenizer` names a folder, it must exist.
        checkpoint: Folder or name of the checkpoint, used if it is on this machine.
        clips: Form in which a clip is sent.

    Raises:
        UsageError: without a folder, only some of the three numbers of the rule are given.
        ModelError: the folder does not exist, lacks a part, or asks for code to run.
    """
    folder, coordinates = _folder(options.tokenizer, checkpoint), options.coordinates
    limits = {"min_pixels": options.min_pixels, "max_pixels": options.max_pixels}
    network = None
    if folder is not None:
        check_complete(folder, needed=SERVER_PARTS)
        network = processor_only_chat(folder, coordinates=coordinates, **limits)
        coordinates = network.coordinates
    rule = {**limits, "factor": options.factor}
    is_given = [number is not None for number in rule.values()]
    if network is None and any(is_given) and not all(is_given):
        raise UsageError(
            "factor=…,min_pixels=…,max_pixels=…",
            expected="all three, or a folder with the others",
            found="only some",
        )
    return RemoteProcessor(network=network, coordinates=coordinates, clips=clips, **rule)


def _folder(tokenizer: str | None, checkpoint: str | None) -> Path | None:
    """Return the folder of the tokenizer, else of the checkpoint; None: neither is here."""
    if tokenizer is not None:
        return checkpoints.find(tokenizer)
    if checkpoint is None:
        return None
    try:
        return checkpoints.find(checkpoint)
    except (ModelError, MissingDependency):
        return None  # a name that only the server knows


def processor_only_chat(
    folder: Path,
    *,
    coordinates: Coordinates | None,
    **options: Any,
) -> TransformersChat:
    """Return a network without its weights, for its processor, canvas and chat template.

    `options` are fields of `TransformersChat`, such as limits on pixels.

    Raises:
        ModelError: a file is damaged, or asks for code of the checkpoint to run.
    """
    checkpoints.refuse_code(folder)
    model_type = str(read_json(folder / "config.json").get("model_type"))
    return TransformersChat(
        checkpoint=folder.name,
        folder=folder,
        model_type=model_type,
        coordinates=coordinates or declared_coordinates(model_type),
        device="cpu",
        batch_size=1,
        **options,
    )
