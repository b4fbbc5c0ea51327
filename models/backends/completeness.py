"""The files of a checkpoint that its model class needs, checked without loading it.

Without some of them transformers goes on: with no chat template a network is asked in raw text,
with no `generation_config.json` without its end tokens and penalty, with half a processor at the
class's own sizes. Numbers then fall in silence, so that whatever lacks is named here, all at once.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from harness.errors import ModelError
from harness.files import read_text
from harness.models.backends import checkpoint as checkpoints

CONFIG, GENERATION = "config.json", "generation_config.json"
VIDEO = "video_preprocessor_config.json"
QWEN = ("qwen2_vl", "qwen2_5_vl", "qwen3")
"""Beginnings of the `model_type` of networks whose processors have limits on pixels."""
WITHOUT_TEMPLATE = frozenset({"paligemma"})
"""Architectures, by `model_type`, whose authors ask without a chat template."""
VIDEO_APART = "qwen3"
"""Beginning of the `model_type` of networks whose clips have other limits than images; older ones
have one file for both."""
TOKENIZERS = (
    ("tokenizer.json",),
    ("vocab.json", "merges.txt"),
    ("tokenizer.model",),
    ("spiece.model",),
    ("vocab.txt",),
    ("tekken.json",),
)
"""Files of a tokenizer: any of these."""
LIMITS = (("size",), ("min_pixels", "max_pixels"))
"""Keys of a Qwen processor for its limits on pixels: any of these."""
SAME = {
    "patch_size": "patch_size",
    "merge_size": "spatial_merge_size",
    "temporal_patch_size": "temporal_patch_size",
}
"""Keys of a Qwen processor, and those of the network's `vision_config` that must be equal."""
WRITERS = ("ForConditionalGeneration", "ForCausalLM", "ForVision2Seq", "LMHeadModel")
"""Ends of the names of classes that write text."""
COPY = "Copy it from the checkpoint that this one was made from"
REMOTE = ("configuration", "tokenizer", "processor")
"""Parts that are needed of a network which a server holds."""


@dataclass(frozen=True, slots=True)
class CheckpointPart:
    """One part of a checkpoint."""

    name: str
    lacks: str = ""
    """Missing or wrong parts; empty if complete."""
    fix: str = ""


def checkpoint_parts(
    folder: Path, *, has_penalty: bool = False, writes: bool = True
) -> list[CheckpointPart]:
    """Return every part of a checkpoint's folder, with what it lacks.

    Args:
        folder: Where it lies.
        has_penalty: True if the user gives the repetition penalty, for which a file is read else.
        writes: True if the network is to write text; see `writes_text`.
    """
    passed = {"generation_config"} if has_penalty else set()
    if not writes:
        passed |= {"tokenizer", "chat template", "generation_config"}
    return [_checked(name, check, folder) for name, check in CHECKS.items() if name not in passed]


def check_complete(
    folder: Path, *, has_penalty: bool = False, needed: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a checkpoint's configuration; nothing of it is loaded.

    Args:
        folder: Where it lies.
        has_penalty: True if the user gives the repetition penalty.
        needed: Names of the parts that matter; empty: all.

    Raises:
        ModelError: parts are missing, damaged, or not for this network; all are named, with what to
            do.
    """
    faults = [
        part
        for part in checkpoint_parts(folder, has_penalty=has_penalty)
        if part.lacks and part.name in (needed or CHECKS)
    ]
    if faults:
        raise ModelError(
            f"checkpoint {folder}",
            expected="all that its model class needs",
            found="; ".join(f"{part.name}: {part.lacks}" for part in faults),
            fix=" ".join(dict.fromkeys(part.fix for part in faults if part.fix)),
        )
    return checkpoints.read_json(folder / CONFIG)


Check = Callable[[Path], CheckpointPart | None]


def _checked(name: str, check: Check, folder: Path) -> CheckpointPart:
    try:
        return check(folder) or CheckpointPart(name)
    except ModelError as error:
        return CheckpointPart(name, str(error))


def _lacking(name: str, lacks: str, fix: str = f"{COPY}.") -> CheckpointPart:
    return CheckpointPart(name, lacks, fix)


def _configuration(folder: Path) -> CheckpointPart | None:
    checkpoints.refuse_code(folder)
    kind = checkpoints.read_json(folder / CONFIG).get("model_type")
    return (
        None if isinstance(kind, str) else _lacking("configuration", f"no model_type in {CONFIG}")
    )


def _weights(folder: Path) -> None:
    checkpoints.check_weights(folder)
    checkpoints.check_tied(folder)


def _tokenizer(folder: Path) -> CheckpointPart | None:
    lacks = []
    if not any(all((folder / name).is_file() for name in names) for names in TOKENIZERS):
        lacks.append(" or ".join("+".join(names) for names in TOKENIZERS))
    if not (folder / "tokenizer_config.json").is_file():
        lacks.append("tokenizer_config.json, which names its special tokens")
    return _lacking("tokenizer", f"no {', no '.join(lacks)}") if lacks else None


def _processor(folder: Path) -> CheckpointPart | None:
    config = _config(folder)
    vision, kind = config.get("vision_config"), str(config.get("model_type"))
    if not isinstance(vision, Mapping):
        return None
    images = _settings(folder, "preprocessor_config.json", "image_processor")
    if images is None:
        return _lacking(
            "processor",
            "no preprocessor_config.json, and no image_processor in processor_config.json",
        )
    if not kind.startswith(QWEN):
        return None
    clips = _settings(folder, VIDEO, "video_processor")
    lacks = _unlike(images, vision, "images") + _unlike(clips or images, vision, "clips")
    if clips is None and kind.startswith(VIDEO_APART):
        lacks.append(f"no {VIDEO}, without which clips have the limits of images")
    return _lacking("processor", "; ".join(lacks)) if lacks else None


def _unlike(settings: Mapping[str, Any], vision: Mapping[str, Any], medium: str) -> list[str]:
    """Return what a Qwen processor lacks, and in what it is another network's."""
    lacks = []
    if not any(all(settings.get(key) for key in keys) for keys in LIMITS):
        lacks.append(f"no limits on the pixels of {medium} (size, or min_pixels and max_pixels)")
    for key, its_key in SAME.items():
        mine, its = settings.get(key), vision.get(its_key)
        if None not in (mine, its) and mine != its:
            lacks.append(f"{key} {mine} of {medium}, where the network has {its}")
    return lacks


def _settings(folder: Path, name: str, key: str) -> Mapping[str, Any] | None:
    """The settings of a processor: the whole processor's part, which counts first, or a file."""
    whole = folder / "processor_config.json"
    part = checkpoints.read_json(whole).get(key) if whole.is_file() else None
    if isinstance(part, Mapping):
        return part
    return checkpoints.read_json(folder / name) if (folder / name).is_file() else None


def _config(folder: Path) -> Mapping[str, Any]:
    """The configuration; empty where it cannot be read, which is a fault of its own."""
    with suppress(ModelError):
        return checkpoints.read_json(folder / CONFIG)
    return {}


def writes_text(folder: Path) -> bool:
    """Return False for a network that writes no text, such as SAM 2, by the name of its class."""
    names = _config(folder).get("architectures")
    classes = names if isinstance(names, list) and names else [WRITERS[0]]
    return any(str(name).endswith(WRITERS) for name in classes)


def _template(folder: Path) -> CheckpointPart | None:
    if _config(folder).get("model_type") in WITHOUT_TEMPLATE or _has_template(folder):
        return None
    return _lacking(
        "chat template",
        "none, in chat_template.jinja, chat_template.json, tokenizer_config.json or "
        "processor_config.json: the network would be asked in a form that it was not trained on",
    )


def _has_template(folder: Path) -> bool:
    with suppress(OSError, UnicodeDecodeError):
        if read_text(folder / "chat_template.jinja").strip():
            return True
    names = ("chat_template.json", "tokenizer_config.json", "processor_config.json")
    paths = (folder / name for name in names)
    return any(checkpoints.read_json(path).get("chat_template") for path in paths if path.is_file())


def _generation(folder: Path) -> CheckpointPart | None:
    if (folder / GENERATION).is_file():
        checkpoints.generation_settings(folder)
        return None
    return _lacking(
        "generation_config",
        f"no {GENERATION}, which has the end tokens and the repetition penalty",
        f"{COPY}, or give repetition_penalty=1.0 if that has none.",
    )


CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "configuration": _configuration,
        "weights": _weights,
        "tokenizer": _tokenizer,
        "processor": _processor,
        "chat template": _template,
        "generation_config": _generation,
    }
)
