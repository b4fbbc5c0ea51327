"""Properties of lmms-eval's models, read from their source: their inputs, and code that they run.

The tables were read from lmms-eval 0.7.3.
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from harness.chat import ChatRequest
from harness.errors import UsageError
from harness.models.backends.shown_media import frames_shown

Several: TypeAlias = Literal["flat", "nested"]
"""Form in which several images are handed over: a list, or a list with one list of them."""

SEVERAL: Mapping[str, Several] = {
    "gemma3": "flat",
    "idefics2": "flat",
    "internvl2": "flat",
    "internvl3": "flat",
    "llava_hf": "flat",
    "llava_onevision": "flat",
    "llava_onevision1_5": "flat",
    "longva": "flat",
    "phi3v": "flat",
    "plm": "nested",
    "qwen2_5_vl": "flat",
    "qwen2_vl": "flat",
    "qwen3_vl": "flat",
    "videollama3": "nested",
}
"""Models whose older interface shows the network all images of a question.

Others look at the first only, or take no more than one (minicpm_v), or were not read."""

FIRST_ONLY = frozenset({"bagel_lmms_engine", "fastvideo", "lfm2_5_vl"})
"""Models whose newer interface shows the network a question's first image and no other."""

IMAGES_ONLY = frozenset(
    {
        "aero",
        "audio_flamingo_3",
        "bagel",
        "bagel_umm",
        "bagel_unig2u",
        "cogvlm2",
        "from_log",
        "fuyu",
        "glm4v",
        "gpt4o_audio",
        "illume_plus",
        "instructblip",
        "internvl",
        "kimi_audio",
        "llava",
        "llava_sglang",
        "ltx_video",
        "mantis",
        "minicpm_v",
        "minimonkey",
        "mistral3_vl",
        "mmada",
        "ovis_u1",
        "phi3v",
        "qwen2_audio",
        "qwen_image_edit",
        "qwen_vl",
        "qwen_vl_api",
        "ross",
        "sam3",
        "slime",
        "tinyllava",
        "vora",
        "wan2_1_t2i",
        "wan2_1_t2v",
        "wan2_2",
        "wan2_2_t2v",
        "whisper",
        "whisper_tt",
        "whisper_vllm",
        "xcomposer2_4KHD",
    }
)
"""Models whose older interface opens no video file: they take images or sound, or neither."""

IMAGES_ONLY_NEWER = FIRST_ONLY | {"nanovlm", "neo_ov"}
"""Models whose newer interface leaves a video out, or refuses it."""

BOTH = frozenset(
    {
        "claude",
        "gemini",
        "gemma3",
        "gemma4",
        "gpt4v",
        "litellm",
        "llama4_scout",
        "llama_vision",
        "llava_onevision1_5",
        "openai",
        "qwen2_5_vl",
        "qwen2_vl",
        "qwen3_5",
        "qwen3_vl",
        "video_salmonn_2",
        "vllm",
    }
)
"""Models whose older interface looks at each visual by its own kind: a file beside images.

Others go by the kind of the first, or by an argument."""

FETCHED = frozenset({"qwen2_5_vl", "qwen2_vl"})
"""Models that hand a file to `fetch_video` of qwen_vl_utils with their own `min_pixels` and
`max_pixels`, and what it gives to a processor that has the same limits for every frame.

In qwen3_vl's they are limits of all frames together."""

VIDEO_ONLY_NEWER = frozenset({"aero_realtime_vllm"})
"""Models whose newer interface looks at a video and at no image beside it."""

TRUST = "trust_remote_code"
OFF = re.compile(rf"(?i){TRUST}\s*=\s*false\b")


def nesting_of(name: str, *, simple: bool) -> Several | None:
    """Return the form in which a model takes several images; None: it may not see all of them."""
    if simple:
        return SEVERAL.get(name)
    return None if name in FIRST_ONLY else "flat"


def takes_file(name: str, *, simple: bool) -> bool:
    """Return True if a model looks at a video file; a model in no table is taken to."""
    return name not in (IMAGES_ONLY if simple else IMAGES_ONLY_NEWER)


def takes_both(name: str, *, simple: bool) -> bool:
    """Return True if a model looks at a video file and at images beside it."""
    return name in BOTH if simple else name not in VIDEO_ONLY_NEWER


def check_sees_all(
    request: ChatRequest, name: str, *, simple: bool, nesting: Several | None, as_files: bool
) -> None:
    """Raise UsageError if a model would not look at all that a request shows.

    Args:
        request: The request.
        name: The model's name in lmms-eval.
        simple: True for the older interface.
        nesting: Form in which the user says that the model takes several images; None: as known.
        as_files: True if clips are shown as video files.
    """
    counts = [len(frames_shown(request, place)) for place in range(len(request.media))]
    clips, images = sum(count > 1 for count in counts), sum(count == 1 for count in counts)
    files = as_files and clips > 0
    what = f"lmms(name={name},clips=file)"
    if not files:
        known = nesting or nesting_of(name, simple=simple)
        if known is not None or sum(counts) <= 1:
            return
        what = f"lmms(name={name}) and a question of {sum(counts)} images"
        expected = "a model that is known to look at all of them"
        actual = "one that is not, and may look at the first only"
        fix = (
            f"Of the older interface {', '.join(SEVERAL)} do. If this one does by its source, "
            "say how it takes them: image_nesting=flat (a list) or image_nesting=nested (a "
            "list within a list). If it opens video files, clips=file gives it one for the "
            "frames of a clip. Else show it one frame."
        )
    elif not takes_file(name, simple=simple):
        expected = "a model that opens video files"
        actual = "one that does not, by its source in lmms-eval 0.7.3"
        fix = "clips=images shows frames as images to models that look at several."
    elif clips > 1:
        # Some take the first clip's number of frames for all, some the first clip alone.
        expected, actual, fix = "one clip a question", f"{clips}", "Use clips=images."
    elif images and not takes_both(name, simple=simple):
        expected = "a clip alone"
        actual = (
            f"a question of a clip and {images} image(s), of which it may look at one kind only"
        )
        fix = f"Of the older interface {', '.join(sorted(BOTH))} look at both."
    else:
        return
    raise UsageError(what, expected=expected, found=actual, fix=fix)


def runs_code(model_class: type, arguments: str) -> str | None:
    """Return the place in its source where a model runs a checkpoint's code; None: nowhere.

    In the modules of its class and its base classes, `trust_remote_code` is searched for that is
    true, or true unless the arguments switch it off. Packages that these import are not read. A
    module without its source counts as one that runs such code.
    """
    off = OFF.search(arguments) is not None
    for module in dict.fromkeys(
        base.__module__ for base in model_class.__mro__ if base is not object
    ):
        try:
            tree = ast.parse(inspect.getsource(sys.modules[module]))
        except (KeyError, OSError, TypeError, SyntaxError):
            return f"{module}, whose source cannot be read"
        for line in _trusting(tree, off=off):
            return f"{module}, line {line}"
    return None


def _trusting(tree: ast.AST, *, off: bool) -> Iterator[int]:
    """Lines that trust a checkpoint's code; with `off`, those that do so by default do not."""
    for node in ast.walk(tree):
        always, default = _trusts_remote_code(node), not off and _trusts_by_default(node)
        if always or default:
            yield node.lineno  # type: ignore[attr-defined]


def _trusts_remote_code(node: ast.AST) -> bool:
    """Return True if a call, a dictionary's entry or an assignment sets the option to True."""
    match node:
        case ast.Call(keywords=named):
            return any(keyword.arg == TRUST and _true(keyword.value) for keyword in named)
        case ast.Dict(keys=keys, values=values):
            entries = zip(keys, values, strict=True)
            return any(_is_trust_option(key) and _true(value) for key, value in entries)
        case ast.Assign(targets=targets, value=value):
            return _true(value) and any(
                isinstance(target, ast.Subscript) and _is_trust_option(target.slice)
                for target in targets
            )
    return False


def _trusts_by_default(node: ast.AST) -> bool:
    """Return True if an argument, a field or a look-up of the option has True as its default."""
    match node:
        case ast.FunctionDef(args=given) | ast.AsyncFunctionDef(args=given):
            plain = given.posonlyargs + given.args
            placed = plain[len(plain) - len(given.defaults) :]
            pairs = [
                *zip(placed, given.defaults, strict=True),
                *zip(given.kwonlyargs, given.kw_defaults, strict=True),
            ]
            return any(argument.arg == TRUST and _true(value) for argument, value in pairs)
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return name == TRUST and _true(value)
        case ast.AnnAssign(target=ast.Name(id=name), value=value):
            return name == TRUST and _true(value)
        case ast.Call(args=[key, value]):  # settings.pop("trust_remote_code", True)
            return _is_trust_option(key) and _true(value)
    return False


def _is_trust_option(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value == TRUST


def _true(node: ast.AST | None) -> bool:
    """Return True if True occurs in an expression, which may then evaluate to it."""
    return node is not None and any(
        isinstance(part, ast.Constant) and part.value is True for part in ast.walk(node)
    )
