"""Canvas, tokens and coordinates of a network that runs elsewhere, as far as known here.

They come from a local folder with the network's tokenizer and processor (its weights are not
needed), or from settings. A value that is not known is an error where it would change an answer,
and else an estimate, which is called one.
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
from harness.models.backends.completeness import REMOTE, check_complete
from harness.models.backends.inputs import without_special_tokens
from harness.models.backends.options import ProcessorOptions
from harness.models.backends.request_format import GOES_ON, Clips, Server, without_marks
from harness.models.backends.shown_media import frames_shown, keeps_clip_sizes
from harness.models.backends.transformers import TransformersChat
from harness.models.canvas import declared_coordinates, smart_resize

Sent: TypeAlias = Clips | Literal["fetched", "file"]
"""Form in which a clip reaches the network: images, a video by its processor's rule, or a file,
`fetched` by the rule of Qwen's `fetch_video`, or opened by a rule that is not known."""

BYTES_A_TOKEN = 4
# Of `fetch_video` in qwen_vl_utils 0.0.14, with its default MODEL_SEQ_LEN.
FETCH_FACTOR, FETCH_PIXELS, FETCH_FRAMES = 28, 768 * 28 * 28, 300


@dataclass(frozen=True, kw_only=True)
class RemoteProcessor:
    """A network as far as it is known."""

    network: TransformersChat | None
    """Network with the processor's rules; its weights are never loaded."""
    coordinates: Coordinates
    factor: int | None
    min_pixels: int | None
    max_pixels: int | None
    clips: Sent

    @property
    def fit(self) -> Callable[[tuple[int, int]], tuple[int, int]] | None:
        """Function from an image's (width, height) to the size to send; None: as it is."""
        return None if self.min_pixels is None and self.max_pixels is None else self._image

    @property
    def tokens(self) -> str:
        """Method by which tokens are counted if the server gives no number, for the record."""
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
        """Return a text without the network's special tokens."""
        if self.network is None:
            return without_marks(text)
        return without_special_tokens(self.network.processor, text)

    def keeps_clip_sizes(self, request: ChatRequest) -> bool:
        """Return True if a request's clip, sent as a video, is not to be resized by the server."""
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

    def penalty(self, given: float | None, *, server: Server) -> float | None:
        """Return the repetition penalty to send: the one given, or the checkpoint's own if known.

        The plain forms have no such thing; there it stays None unless it is given.
        """
        if given is not None or self.network is None or server not in GOES_ON:
            return given
        return self.network.penalty

    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        """(width, height) of the first medium as the network sees it.

        Raises:
            UsageError: the network's rule is not known.
        """
        frames = frames_shown(request, 0)
        if len(frames) > 1 and self.clips in ("fetched", "file"):
            return self._frame(request.resize or request.media[0].size, len(frames))
        if self.network is not None:
            if len(frames) > 1 and self.clips == "images":
                request = replace(request, media=request.media[:1], frames=(frames[:1],))
            elif len(frames) > 1 and self.fit is not None:
                # The server's own rule for clips, on frames as they are sent.
                sent = self.fit(request.resize or request.media[0].size)
                request = replace(request, resize=sent)
            return self.network.canvas(request)
        if len(frames) > 1 and self.clips == "video":
            raise _unknown("the canvas of a clip")
        return self._image(request.resize or request.media[0].size)

    def canvases(self, request: ChatRequest) -> tuple[tuple[int, int], ...]:
        """The canvas of each medium; none if the rule is not known."""
        alone = [
            replace(
                request,
                media=(media,),
                frames=(frames_shown(request, place),),
                resize=request.squash(place),
                resize_others=None,
            )
            for place, media in enumerate(request.media)
        ]
        try:
            return tuple(map(self.canvas, alone))
        except UsageError:
            return ()

    def _image(self, size: tuple[int, int]) -> tuple[int, int]:
        factor, minimum, limit = self._rule()
        return smart_resize(size, factor=factor, min_pixels=minimum, max_pixels=limit)

    def _frame(self, size: tuple[int, int], frames: int) -> tuple[int, int]:
        """(width, height) of frames from a file: `fetch_video` has a largest frame of its own, and
        the processor then brings what it gives to its limits as it does images.

        Of more than `FETCH_FRAMES` each has fewer pixels, by how many of them a model takes.
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
        _, minimum, limit = self._rule()
        limit = min(limit, max(FETCH_PIXELS, int(minimum * 1.05)))
        return self._image(
            smart_resize(size, factor=FETCH_FACTOR, min_pixels=minimum, max_pixels=limit)
        )

    def _rule(self) -> tuple[int, int, int]:
        """Factor, smallest and largest area of images."""
        if self.network is not None:
            part = self.network.processor.image_processor
            limits = part.size["shortest_edge"], part.size["longest_edge"]
            return part.patch_size * part.merge_size, *limits
        if self.factor is None or self.min_pixels is None or self.max_pixels is None:
            raise _unknown("the canvas")
        return self.factor, self.min_pixels, self.max_pixels


def _unknown(what: str) -> UsageError:
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
    """Return all that is known of a network, from a folder and from settings.

    Args:
        options: The settings. The tokenizer's folder must be there.
        checkpoint: The same folder, if it is here; else only a name.
        clips: Form in which a clip is sent.

    Raises:
        UsageError: nothing says what its coordinates mean, or only one limit is given and no
            folder knows the other.
        ModelError: the folder is not there, lacks a part, or asks for code to run.
    """
    folder, given = _folder(options.tokenizer, checkpoint), options.coordinates
    if folder is not None:
        check_complete(folder, needed=REMOTE)
    limits = {"min_pixels": options.min_pixels, "max_pixels": options.max_pixels}
    network = None if folder is None else processor_only_chat(folder, coordinates=given, **limits)
    coordinates = given if network is None else network.coordinates
    if coordinates is None:
        raise UsageError(
            "coordinates=…",
            expected="one of them, such as pixels (Qwen2.5-VL) or normalized_1000 (Qwen3-VL)",
            found="none, and no folder of the network's files",
            fix="Say which, or give tokenizer=FOLDER.",
        )
    rule = {**limits, "factor": options.factor}
    if network is None and len({value is None for value in rule.values()}) > 1:
        raise UsageError(
            "factor=…,min_pixels=…,max_pixels=…",
            expected="all three, or a folder with the others",
            found="only some",
        )
    return RemoteProcessor(network=network, coordinates=coordinates, clips=clips, **rule)


def _folder(tokenizer: str | None, checkpoint: str | None) -> Path | None:
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
    """A network by its files without its weights, for its processor, canvas and chat template.

    `options` are those of `TransformersChat`, such as limits on pixels.

    Raises:
        ModelError: a file is damaged, or asks for code of the checkpoint to run.
    """
    checkpoints.refuse_code(folder)
    model_type = str(checkpoints.read_json(folder / "config.json").get("model_type"))
    return TransformersChat(
        checkpoint=folder.name,
        folder=folder,
        model_type=model_type,
        coordinates=coordinates or declared_coordinates(model_type),
        device="cpu",
        batch_size=1,
        **options,
    )
