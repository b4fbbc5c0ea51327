"""Check that a checkpoint has all files that its model class needs, without loading it.

transformers loads a network without some of them: without a chat template, prompts are raw text;
without `generation_config.json`, end tokens and penalty are lost; with half a processor, image
sizes are the class's defaults. Scores then fall silently, so every missing part is named here, all
at once. Backends call `check_complete`; `harness doctor` shows `checkpoint_parts`.
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
from harness.models.backends.weights import check_tied, check_weights, read_json

CONFIG_FILE, GENERATION_FILE = "config.json", "generation_config.json"
VIDEO_FILE = "video_preprocessor_config.json"
QWEN_PREFIXES = ("qwen2_vl", "qwen2_5_vl", "qwen3")
"""Beginnings of the `model_type` of networks whose processors have limits on pixels."""
WITHOUT_TEMPLATE = frozenset({"paligemma"})
"""Architectures (`model_type`) that are prompted without a chat template."""
SEPARATE_VIDEO_PREFIX = "qwen3"
"""Beginning of the `model_type` of networks with separate limits for clips and images; older ones
have one file for both."""
TOKENIZER_FILES = (
    ("tokenizer.json",),
    ("vocab.json", "merges.txt"),
    ("tokenizer.model",),
    ("spiece.model",),
    ("vocab.txt",),
    ("tekken.json",),
)
"""Sets of files of which a tokenizer needs one."""
PIXEL_LIMIT_KEYS = (("size",), ("min_pixels", "max_pixels"))
"""Sets of keys of which a Qwen processor needs one, for its limits on pixels."""
EQUAL_SIZE_KEYS = {
    "patch_size": "patch_size",
    "merge_size": "spatial_merge_size",
    "temporal_patch_size": "temporal_patch_size",
}
"""Keys of a Qwen processor, and the keys of the network's `vision_config` that must be equal."""
WRITER_SUFFIXES = ("ForConditionalGeneration", "ForCausalLM", "ForVision2Seq", "LMHeadModel")
"""Ends of the names of transformers' classes that write text."""
COPY_ADVICE = "Copy it from the checkpoint that this one was trained from"
SERVER_PARTS = ("configuration", "tokenizer", "processor")
"""Names of the parts (keys of `CHECKS`) that are needed here if a server runs the network."""


@dataclass(frozen=True, slots=True)
class CheckpointPart:
    """The result of checking one part of a checkpoint, such as its tokenizer."""

    name: str
    lacks: str = ""
    """Description of what is missing or wrong; "" if the part is complete."""
    fix: str = ""
    """Advice for the user."""


def checkpoint_parts(
    folder: Path, *, has_penalty: bool = False, writes: bool = True
) -> list[CheckpointPart]:
    """Check every part of a checkpoint that is needed.

    Args:
        folder: Folder of the checkpoint.
        has_penalty: True if the user states the repetition penalty, so that
            `generation_config.json` is not needed.
        writes: True if the network is to write text; see `writes_text`.
    """
    skipped = {"generation_config"} if has_penalty else set()
    if not writes:
        skipped |= {"tokenizer", "chat template", "generation_config"}
    return [_checked(name, check, folder) for name, check in CHECKS.items() if name not in skipped]


def check_complete(
    folder: Path, *, has_penalty: bool = False, needed: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the configuration of a checkpoint that has all needed parts.

    Args:
        folder: Folder of the checkpoint.
        has_penalty: True if the user states the repetition penalty.
        needed: Names of the parts that matter (keys of `CHECKS`); empty: all.

    Raises:
        ModelError: parts are missing, damaged, or of another network; the error names all of them
            and what to do.
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
    return read_json(folder / CONFIG_FILE)


Check = Callable[[Path], CheckpointPart | None]
"""Checks one part in a checkpoint's folder; returns None if it is complete, or raises."""


def _checked(name: str, check: Check, folder: Path) -> CheckpointPart:
    """Return the result of a check; the message of a ModelError is what the part lacks."""
    try:
        return check(folder) or CheckpointPart(name)
    except ModelError as error:
        return CheckpointPart(name, str(error))


def _lacking(name: str, lacks: str, fix: str = f"{COPY_ADVICE}.") -> CheckpointPart:
    """Return the result for a part that is missing or wrong."""
    return CheckpointPart(name, lacks, fix)


def _configuration(folder: Path) -> CheckpointPart | None:
    checkpoints.refuse_code(folder)
    model_type = read_json(folder / CONFIG_FILE).get("model_type")
    if isinstance(model_type, str):
        return None
    return _lacking("configuration", f"no model_type in {CONFIG_FILE}")


def _weights(folder: Path) -> None:
    """Raise ModelError if the weights are incomplete, or tied ones differ."""
    check_weights(folder)
    check_tied(folder)


def _tokenizer(folder: Path) -> CheckpointPart | None:
    lacks = []
    if not any(all((folder / name).is_file() for name in names) for names in TOKENIZER_FILES):
        lacks.append(" or ".join("+".join(names) for names in TOKENIZER_FILES))
    if not (folder / "tokenizer_config.json").is_file():
        lacks.append("tokenizer_config.json, which names its special tokens")
    return _lacking("tokenizer", f"no {', no '.join(lacks)}") if lacks else None


def _processor(folder: Path) -> CheckpointPart | None:
    """Check the files of the image and video processors of a network with vision."""
    config = _config(folder)
    vision, model_type = config.get("vision_config"), str(config.get("model_type"))
    if not isinstance(vision, Mapping):
        return None
    images = _settings(folder, "preprocessor_config.json", "image_processor")
    if images is None:
        return _lacking(
            "processor",
            "no preprocessor_config.json, and no image_processor in processor_config.json",
        )
    if not model_type.startswith(QWEN_PREFIXES):
        return None
    clips = _settings(folder, VIDEO_FILE, "video_processor")
    lacks = _processor_faults(images, vision, "images")
    lacks += _processor_faults(clips or images, vision, "clips")  # older ones share one file
    if clips is None and model_type.startswith(SEPARATE_VIDEO_PREFIX):
        lacks.append(f"no {VIDEO_FILE}, without which clips have the limits of images")
    return _lacking("processor", "; ".join(lacks)) if lacks else None


def _processor_faults(
    settings: Mapping[str, Any], vision: Mapping[str, Any], medium: str
) -> list[str]:
    """Return texts on what a Qwen processor lacks, and on sizes that differ from the network's.

    Args:
        settings: Settings of the image or video processor.
        vision: The network's `vision_config`.
        medium: `images` or `clips`, for the messages.
    """
    lacks = []
    if not any(all(settings.get(key) for key in keys) for keys in PIXEL_LIMIT_KEYS):
        lacks.append(f"no limits on the pixels of {medium} (size, or min_pixels and max_pixels)")
    for processor_key, network_key in EQUAL_SIZE_KEYS.items():
        size, network_size = settings.get(processor_key), vision.get(network_key)
        if None not in (size, network_size) and size != network_size:
            lacks.append(
                f"{processor_key} {size} of {medium}, where the network has {network_size}"
            )
    return lacks


def _settings(folder: Path, name: str, key: str) -> Mapping[str, Any] | None:
    """Return the settings of an image or video processor; None if there are none.

    They are under `key` in processor_config.json, or else in the file `name`.
    """
    joint_file = folder / "processor_config.json"
    settings = read_json(joint_file).get(key) if joint_file.is_file() else None
    if isinstance(settings, Mapping):
        return settings
    return read_json(folder / name) if (folder / name).is_file() else None


def _config(folder: Path) -> Mapping[str, Any]:
    """Return the configuration; empty if it cannot be read, which another check reports."""
    with suppress(ModelError):
        return read_json(folder / CONFIG_FILE)
    return {}


def writes_text(folder: Path) -> bool:
    """Return True if the name of a network's class says that it writes text, unlike SAM 2."""
    names = _config(folder).get("architectures")
    classes = names if isinstance(names, list) and names else [WRITER_SUFFIXES[0]]
    return any(str(name).endswith(WRITER_SUFFIXES) for name in classes)


def _template(folder: Path) -> CheckpointPart | None:
    if _config(folder).get("model_type") in WITHOUT_TEMPLATE or _has_template(folder):
        return None
    return _lacking(
        "chat template",
        "none, in chat_template.jinja, chat_template.json, tokenizer_config.json or "
        "processor_config.json: the network would get prompts in a form that it was not trained on",
    )


def _has_template(folder: Path) -> bool:
    with suppress(OSError, UnicodeDecodeError):
        if read_text(folder / "chat_template.jinja").strip():
            return True
    names = ("chat_template.json", "tokenizer_config.json", "processor_config.json")
    paths = (folder / name for name in names)
    return any(read_json(path).get("chat_template") for path in paths if path.is_file())


def _generation(folder: Path) -> CheckpointPart | None:
    if (folder / GENERATION_FILE).is_file():
        checkpoints.generation_settings(folder)
        return None
    return _lacking(
        "generation_config",
        f"no {GENERATION_FILE}, which has the end tokens and the repetition penalty",
        f"{COPY_ADVICE}, or give repetition_penalty=1.0 if that has none.",
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
"""The check of each part, by its name in messages."""
