"""State which media lmms-eval's models use, and whether they run a checkpoint's code.

A model that silently ignores images of a question would get a wrong score, so the backend `lmms`
calls `check_sees_all`. Its tables were made by reading the source of lmms-eval 0.7.3, whose models
have an older interface (`simple`) and a newer one (messages). `runs_code` reads the source of a
model's class.
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
"""Form in which several images are passed: a list, or a list that contains one list of them."""

NESTING_OF: Mapping[str, Several] = {
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
"""Models whose older interface shows the network all images of a question, and the form they need.

Other models use the first image only, accept no more than one (minicpm_v), or were not read."""

FIRST_ONLY = frozenset({"bagel_lmms_engine", "fastvideo", "lfm2_5_vl"})
"""Models whose newer interface shows the network a question's first image only."""

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
"""Models whose older interface does not open video files."""

IMAGES_ONLY_NEWER = FIRST_ONLY | {"nanovlm", "neo_ov"}
"""Models whose newer interface ignores or refuses videos."""

IMAGES_AND_VIDEO = frozenset(
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
"""Models whose older interface handles each visual by its own type: a video file beside images.

Other models go by the type of the first, or by an argument."""

USES_FETCH_VIDEO = frozenset({"qwen2_5_vl", "qwen2_vl"})
"""Models that open a file by `fetch_video` of qwen_vl_utils with their own `min_pixels` and
`max_pixels`; their processor then applies the same limits to every frame.

In qwen3_vl these are limits of all frames together."""

VIDEO_ONLY_NEWER = frozenset({"aero_realtime_vllm"})
"""Models whose newer interface ignores images beside a video."""

TRUST_OPTION = "trust_remote_code"
SWITCHED_OFF = re.compile(rf"(?i){TRUST_OPTION}\s*=\s*false\b")  # such as "trust_remote_code=False"


def nesting_of(name: str, *, simple: bool) -> Several | None:
    """Return the form in which a model takes several images; None: it may not use all of them."""
    if simple:
        return NESTING_OF.get(name)
    return None if name in FIRST_ONLY else "flat"


def takes_file(name: str, *, simple: bool) -> bool:
    """Return True if a model opens video files; a model in no table is assumed to."""
    return name not in (IMAGES_ONLY if simple else IMAGES_ONLY_NEWER)


def takes_both(name: str, *, simple: bool) -> bool:
    """Return True if a model uses a video file and images beside it."""
    return name in IMAGES_AND_VIDEO if simple else name not in VIDEO_ONLY_NEWER


def check_sees_all(
    request: ChatRequest, name: str, *, simple: bool, nesting: Several | None, as_files: bool
) -> None:
    """Raise UsageError if a model may ignore media that a request shows.

    Args:
        request: The request.
        name: The model's name in lmms-eval.
        simple: True for the older interface.
        nesting: The user's statement of the form in which the model takes several images; None: by
            the tables.
        as_files: True if clips are shown as video files.
    """
    frame_counts = [len(frames_shown(request, index)) for index in range(len(request.media))]
    clips = sum(number > 1 for number in frame_counts)
    images = sum(number == 1 for number in frame_counts)
    files = as_files and clips > 0
    what = f"lmms(name={name},clips=file)"
    if not files:
        form = nesting or nesting_of(name, simple=simple)
        if form is not None or sum(frame_counts) <= 1:
            return
        what = f"lmms(name={name}) and a question of {sum(frame_counts)} images"
        expected = "a model that is known to use all images"
        actual = "a model that may use only the first"
        fix = (
            f"Of the older interface {', '.join(NESTING_OF)} do. If this one does by its source, "
            "say how it takes them: image_nesting=flat (a list) or image_nesting=nested (a "
            "list within a list). If it opens video files, clips=file gives it one for the "
            "frames of a clip. Else show it one frame."
        )
    elif not takes_file(name, simple=simple):
        expected = "a model that opens video files"
        actual = "one that does not, by its source in lmms-eval 0.7.3"
        fix = "clips=images shows frames as images to models that look at several."
    elif clips > 1:
        # Some models use the first clip's number of frames for all, some only the first clip.
        expected, actual, fix = "one clip a question", f"{clips}", "Use clips=images."
    elif images and not takes_both(name, simple=simple):
        expected = "a clip alone"
        actual = (
            f"a question of a clip and {images} image(s), of which the model may use one kind only"
        )
        fix = f"Of the older interface {', '.join(sorted(IMAGES_AND_VIDEO))} look at both."
    else:
        return
    raise UsageError(what, expected=expected, found=actual, fix=fix)


def runs_code(model_class: type, arguments: str) -> str | None:
    """Return the place in a model's source that lets a checkpoint's code run; None: there is none.

    The modules of its class and base classes are searched for a `trust_remote_code` that is True,
    or True by default if `arguments` do not switch it off. Packages that they import are not read.
    A module without source counts as one that runs such code.
    """
    off = SWITCHED_OFF.search(arguments) is not None
    for module in dict.fromkeys(
        base.__module__ for base in model_class.__mro__ if base is not object
    ):
        try:
            tree = ast.parse(inspect.getsource(sys.modules[module]))
        except (KeyError, OSError, TypeError, SyntaxError):
            return f"{module}, whose source cannot be read"
        line = next(_trusting_lines(tree, off=off), None)
        if line is not None:
            return f"{module}, line {line}"
    return None


def _trusting_lines(tree: ast.AST, *, off: bool) -> Iterator[int]:
    """Yield the lines that set the option to True; with `off`, defaults do not count."""
    for node in ast.walk(tree):
        always, default = _trusts_remote_code(node), not off and _trusts_by_default(node)
        if always or default:
            yield node.lineno  # type: ignore[attr-defined]


def _trusts_remote_code(node: ast.AST) -> bool:
    """Return True if a call, a dictionary's entry or an assignment sets the option to True."""
    match node:
        case ast.Call(keywords=keywords):
            return any(
                keyword.arg == TRUST_OPTION and _may_be_true(keyword.value) for keyword in keywords
            )
        case ast.Dict(keys=keys, values=values):
            entries = zip(keys, values, strict=True)
            return any(_is_trust_option(key) and _may_be_true(value) for key, value in entries)
        case ast.Assign(targets=targets, value=value):
            return _may_be_true(value) and any(
                isinstance(target, ast.Subscript) and _is_trust_option(target.slice)
                for target in targets
            )
    return False


def _trusts_by_default(node: ast.AST) -> bool:
    """Return True if an argument, a field or a look-up of the option has True as its default."""
    match node:
        case ast.FunctionDef(args=signature) | ast.AsyncFunctionDef(args=signature):
            positional = signature.posonlyargs + signature.args
            # defaults belong to the last arguments
            with_default = positional[len(positional) - len(signature.defaults) :]
            pairs = [
                *zip(with_default, signature.defaults, strict=True),
                *zip(signature.kwonlyargs, signature.kw_defaults, strict=True),
            ]
            return any(
                argument.arg == TRUST_OPTION and _may_be_true(value) for argument, value in pairs
            )
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return name == TRUST_OPTION and _may_be_true(value)
        case ast.AnnAssign(target=ast.Name(id=name), value=value):
            return name == TRUST_OPTION and _may_be_true(value)
        case ast.Call(args=[key, value]):  # settings.pop("trust_remote_code", True)
            return _is_trust_option(key) and _may_be_true(value)
    return False


def _is_trust_option(node: ast.AST | None) -> bool:
    """Return True if a node is the text `trust_remote_code`."""
    return isinstance(node, ast.Constant) and node.value == TRUST_OPTION


def _may_be_true(node: ast.AST | None) -> bool:
    """Return True if True occurs in an expression, which may then evaluate to it."""
    return node is not None and any(
        isinstance(part, ast.Constant) and part.value is True for part in ast.walk(node)
    )
