"""Load a checkpoint's processor and network by transformers, and check them completely.

Tokens, limits on pixels, weights and adapters that do not fit raise errors, where transformers
would warn or go on. `TransformersChat` and the trainers use it.
"""

import re
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from harness.errors import ModelError, UsageError
from harness.models.backends import checkpoint as checkpoints
from harness.models.backends.adapters import Adapter
from harness.models.backends.loading import check_report, loading, memory
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.models.backends.weights import read_json
from harness.plugins import plugin_errors
from harness.spec import Spec

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import BatchEncoding, PreTrainedModel, PreTrainedTokenizerBase, ProcessorMixin
    from transformers.models.auto.auto_factory import _BaseAutoModelClass

QWEN_PREFIXES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5")
"""Beginnings of the `model_type` of Qwen's families."""
MEDIA_BOUNDS = {
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
}
"""Tokens around an image or a clip, by the configuration's key of their ids."""
END_OF_TURN = "<|im_end|>"  # the token that ends a turn
OTHER_FILES_FIX = "Its files belong to another network, or were saved without the added tokens."


def load_processor(
    folder: Path,
    *,
    name: str,
    min_pixels: int | None = None,
    max_pixels: int | None = None,
    clips: bool = True,
    template: Mapping[str, object] = MappingProxyType({}),
    image_processor: Spec | None = None,
) -> "ProcessorMixin":
    """Return the processor of a checkpoint, padding on the left; weights are not read.

    Args:
        folder: Folder of the checkpoint.
        name: Name of the checkpoint in errors.
        min_pixels: Smallest image in pixels; None: the processor's own limit.
        max_pixels: Largest image in pixels; None: the processor's own limit.
        clips: True if each frame of a clip gets the same limits. A processor that has limits only
            for all frames together is marked, and `inputs` refuses clips.
        template: Variables of the chat template, such as `enable_thinking`.
        image_processor: `pil(…)` with settings that replace the checkpoint's; None: the
            checkpoint's own.

    Raises:
        ModelError: a file is missing or damaged, or the tokenizer lacks tokens that prompts need.
        UsageError: the smallest image would be larger than the largest, the processor has no such
            limits, or the chat template does not have a variable.
    """
    ensure_torchvision()
    from transformers import AutoProcessor, PreTrainedTokenizerBase

    with loading(f"processor of checkpoint {name}"):
        processor = AutoProcessor.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    if isinstance(processor, PreTrainedTokenizerBase):
        processor = TextProcessor(processor)
    _check_tokens(name, folder, processor)
    processor.tokenizer.padding_side = "left"
    if image_processor is not None:
        _resize_by_pillow(name, folder, processor, image_processor)
    limits = {
        edge: pixels
        for edge, pixels in (("shortest_edge", min_pixels), ("longest_edge", max_pixels))
        if pixels is not None
    }
    if limits:
        _set_pixel_limits(processor, limits, clips=clips)
    if template:
        _check_variables(name, processor, template)
        processor.chat_template_kwargs = dict(template)
    return processor


def _resize_by_pillow(name: str, folder: Path, processor: "ProcessorMixin", chosen: Spec) -> None:
    """Replace a processor's image processor by the one that resizes with Pillow.

    Raises:
        UsageError: the SPEC is not `pil(…)`, or there is no such image processor or setting.
    """
    from transformers import AutoImageProcessor

    what = f"image_processor={chosen} of checkpoint {name}"
    with loading(what):
        images = AutoImageProcessor.from_pretrained(
            folder,
            backend="pil",
            local_files_only=True,
            trust_remote_code=False,
            **chosen.arguments,
        )
    settings = getattr(getattr(images, "valid_kwargs", None), "__annotations__", {})
    unknown = set(chosen.arguments) - set(settings)
    if chosen.name != "pil" or unknown or not type(images).__name__.endswith("Pil"):
        raise UsageError(
            what,
            expected="pil(…) with settings of an image processor that resizes by Pillow",
            found=", ".join(sorted(unknown)) or f"{chosen.name} and {type(images).__name__}",
        )
    processor.image_processor, processor.clips_by_pillow = images, True


def _check_variables(name: str, processor: "ProcessorMixin", given: Mapping[str, object]) -> None:
    """Raise UsageError for a variable that the chat template does not use."""
    template = getattr(processor, "chat_template", None) or processor.tokenizer.chat_template
    text = "".join(template.values()) if isinstance(template, Mapping) else str(template)
    for variable in given:
        if not re.search(rf"\b{variable}\b", text):
            raise UsageError(
                f"{variable}=… of checkpoint {name}",
                expected=f"a chat template with the variable {variable}",
                found="a template without it, so it has no effect",
                fix="Remove it, or give a checkpoint that supports it.",
            )


@dataclass
class TextProcessor:
    """A tokenizer with the interface of a processor, for text-only networks."""

    tokenizer: "PreTrainedTokenizerBase"

    def __call__(
        self, *, text: Sequence[str], images: Sized = (), videos: Sized = (), **given: object
    ) -> "BatchEncoding":
        """Return tensors of texts.

        Raises:
            UsageError: there are images or videos.
        """
        if len(images) or len(videos):
            raise UsageError(
                "a text-only network", expected="requests without media", found="media"
            )
        return self.tokenizer(list(text), **given)

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], **given: object) -> str:
        """Return the prompt of messages whose contents are lists of texts."""
        text_messages = [
            {**message, "content": "".join(part["text"] for part in message["content"])}
            for message in messages
        ]
        return str(self.tokenizer.apply_chat_template(text_messages, **given))


def loader(folder: Path) -> "type[_BaseAutoModelClass]":
    """Return transformers' class that loads a checkpoint's network: of images and text, or text."""
    ensure_torchvision()
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    model_type = read_json(folder / "config.json").get("model_type")
    takes_images = model_type in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
    auto_class: type[_BaseAutoModelClass] = (
        AutoModelForImageTextToText if takes_images else AutoModelForCausalLM
    )
    return auto_class


def _set_pixel_limits(
    processor: "ProcessorMixin", limits: Mapping[str, int], *, clips: bool
) -> None:
    """Set a processor's limits on the pixels of an image, and with `clips` of each frame of a clip.

    Args:
        processor: The processor; it is changed.
        limits: Pixels by `shortest_edge` (the minimum) and `longest_edge` (the maximum), which are
            transformers' names.
        clips: True if clips get the limits, too.

    Raises:
        UsageError: the processor has no such limits, or the minimum is above the maximum.
    """
    from transformers import Qwen2VLVideoProcessor

    parts = {"images": processor.image_processor}
    video = getattr(processor, "video_processor", None)
    if clips and isinstance(video, Qwen2VLVideoProcessor):
        parts["clips"] = video
    elif clips and video is not None:
        # Qwen3-VL's limits are for all frames together; this number would be wrong there.
        processor.clips_without_limits = True
    sizes = {media_type: {**dict(part.size), **limits} for media_type, part in parts.items()}
    for media_type, size in sizes.items():
        if not {"shortest_edge", "longest_edge"} <= set(size):
            raise UsageError(
                "min_pixels=…,max_pixels=…",
                expected=f"a processor of {media_type} that has such limits",
                found=", ".join(size),
                fix="Leave them out.",
            )
        if size["shortest_edge"] > size["longest_edge"]:
            raise UsageError(
                f"limits of {media_type}",
                expected="min_pixels of at most max_pixels",
                found=f"{size['shortest_edge']} and {size['longest_edge']}",
                fix="Give both, the minimum below the maximum; the default is that of the "
                "checkpoint's processor.",
            )
    for media_type, part in parts.items():
        part.size = sizes[media_type]


def _check_tokens(name: str, folder: Path, processor: "ProcessorMixin") -> None:
    """Raise ModelError unless the tokenizer has the tokens that prompts need.

    The marks of images and videos must be one token each. In Qwen's families, the tokens around
    them and the end of a turn must be, too; their ids must be those of the network's configuration;
    and there must be a token that ends a response.
    """
    media_marks = {
        f"{medium}_token_id": getattr(processor, f"{medium}_token", None)
        for medium in ("image", "video")
    }
    marks = {key: mark for key, mark in media_marks.items() if mark is not None}
    token_ids = {mark: _token_id(name, processor.tokenizer, mark) for mark in marks.values()}
    model_type = read_json(folder / "config.json").get("model_type")
    if not str(model_type).startswith(QWEN_PREFIXES):
        return
    for mark in (*MEDIA_BOUNDS.values(), END_OF_TURN):
        token_ids[mark] = _token_id(name, processor.tokenizer, mark)
    from transformers import AutoConfig

    with loading(f"configuration of checkpoint {name}"):
        # Ids that the file leaves out are the architecture's defaults.
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    for key, mark in (marks | MEDIA_BOUNDS).items():
        expected_id = getattr(config, key, None)
        if expected_id is not None and expected_id != token_ids[mark]:
            raise ModelError(
                f"tokenizer of checkpoint {name}",
                expected=f"{mark} as token {expected_id} ({key})",
                found=f"token {token_ids[mark]}",
                fix=OTHER_FILES_FIX,
            )
    _check_ends(name, end_tokens(folder, processor.tokenizer), processor.tokenizer)


def _token_id(name: str, tokenizer: "PreTrainedTokenizerBase", mark: str) -> int:
    """Return the id of the token that a mark is; ModelError if it is not one known token."""
    tokens = tokenizer(mark, add_special_tokens=False)["input_ids"]
    if len(tokens) != 1 or tokens[0] == tokenizer.unk_token_id:
        raise ModelError(
            f"tokenizer of checkpoint {name}",
            expected=f"one token for {mark}",
            found=f"{len(tokens)} tokens" if len(tokens) != 1 else "an unknown one",
            fix=OTHER_FILES_FIX,
        )
    return int(tokens[0])


def _check_ends(
    name: str, ends: Sequence[int | None], tokenizer: "PreTrainedTokenizerBase"
) -> None:
    """Raise ModelError unless each of `ends` is the id of one of the tokenizer's tokens."""
    for end in ends:
        if end is None or not 0 <= end < len(tokenizer):
            raise ModelError(
                f"tokenizer of checkpoint {name}",
                expected="a token that ends a response",
                found="none" if end is None else f"{end}, with {len(tokenizer)} tokens in all",
                fix="generation_config.json names it as eos_token_id, or else the tokenizer's "
                f"files as eos_token. {OTHER_FILES_FIX}",
            )


def end_tokens(folder: Path, tokenizer: "PreTrainedTokenizerBase") -> tuple[int, ...]:
    """Return the ids of the tokens that end a response.

    They are those of the generation settings, or else the tokenizer's end token.
    """
    setting = checkpoints.generation_settings(folder).get("eos_token_id")
    ends = setting if isinstance(setting, list) else [setting]
    ids = [end for end in ends if isinstance(end, int)]
    return tuple(ids) or (tokenizer.eos_token_id,)


def check_network(folder: Path, *, name: str, last: int) -> None:
    """Check that a checkpoint's weights are those of its architecture, by name and shape.

    Weights are read one by one and not kept, so that a network larger than the memory can be
    checked.

    Args:
        folder: Folder of the checkpoint.
        name: Name of the checkpoint in errors.
        last: Largest id of a token of the tokenizer.

    Raises:
        ModelError: weights are missing, unexpected or of other shapes than the configuration says,
            or there are fewer embeddings than tokens.
    """
    network = load_network(
        folder, name=name, dtype="auto", attn_implementation="auto", adapter=None, device="meta"
    )
    rows = network.get_input_embeddings().weight.shape[0]
    if rows <= last:
        raise ModelError(
            f"checkpoint {name}",
            expected=f"an embedding for each of the tokenizer's tokens, up to number {last}",
            found=f"{rows} of them",
            fix=OTHER_FILES_FIX,
        )


def load_network(
    folder: Path,
    *,
    name: str,
    dtype: str,
    attn_implementation: str,
    adapter: Adapter | None,
    device: str | None = None,
) -> "PreTrainedModel":
    """Return the network of a checkpoint, with an adapter if there is one.

    Args:
        folder: Folder of the checkpoint.
        name: Name of the checkpoint in errors.
        dtype: Type of weights and activations; `auto`: that of the checkpoint.
        attn_implementation: Implementation of attention; `auto`: transformers' choice.
        adapter: LoRA adapter; None: there is none.
        device: Device; None: the CPU. On `meta`, weights have shapes but no values.

    Raises:
        ModelError: the weights, or the adapter's, are not exactly those of the architecture.
        OutOfMemory: there is not enough memory.
    """
    options: dict[str, object] = {} if device is None else {"device_map": {"": device}}
    if attn_implementation != "auto":
        options["attn_implementation"] = attn_implementation
    with loading(f"checkpoint {name}"), memory():
        network, report = loader(folder).from_pretrained(
            folder,
            dtype=dtype,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # `check_report` refuses them, with all others
            **options,
        )
    check_report(f"checkpoint {name}", report)
    return network if adapter is None else with_adapter(network, adapter)


def with_adapter(network: "PreTrainedModel", adapter: Adapter) -> "PreTrainedModel":
    """Return the network with a LoRA adapter on its layers, or merged into its weights.

    Raises:
        ModelError: the adapter's weights are not exactly those of this network's adapted layers.
        MissingDependency: peft is not installed.
    """
    with plugin_errors(f"adapter {adapter.name}", ModelError):
        from peft import PeftModel
    with loading(f"adapter {adapter.name} on this checkpoint"):
        adapted = PeftModel.from_pretrained(
            network, adapter.folder, is_trainable=False, torch_device="cpu"
        )
        _check_all_used(adapter, adapted)
        if adapter.merged:
            return adapted.merge_and_unload(safe_merge=True)
        return adapted.get_base_model()  # its layers contain the adapter


def _check_all_used(adapter: Adapter, network: "PeftModel") -> None:
    """Raise ModelError unless the adapter's file has each adapted layer's weights, and no others.

    peft itself only warns, and goes on with random or unused weights.
    """
    from peft import get_peft_model_state_dict
    from safetensors import safe_open

    weight_names = set(get_peft_model_state_dict(network, save_embedding_layers=False))
    with safe_open(adapter.weights, framework="pt") as file:
        saved = set(file.keys())
    check_report(
        f"adapter {adapter.name}",
        {"missing_keys": weight_names - saved, "unexpected_keys": saved - weight_names},
        expected="exactly the weights of the layers it adapts",
        fix="It was made for another architecture or another release of transformers. "
        "Merge it where it was trained, and give the merged checkpoint.",
    )
