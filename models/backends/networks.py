"""A network and its processor from their files: exactly its weights, an adapter on top if asked."""

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
from harness.plugins import plugin_errors

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import BatchEncoding, PreTrainedModel, PreTrainedTokenizerBase, ProcessorMixin
    from transformers.models.auto.auto_factory import _BaseAutoModelClass

QWEN = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5")
"""Beginnings of the `model_type` of Qwen's families."""
AROUND = {"vision_start_token_id": "<|vision_start|>", "vision_end_token_id": "<|vision_end|>"}
"""Tokens around an image or a clip, by the configuration's key of their number."""
TURN = "<|im_end|>"
OTHERS = "Its files are another network's, or were saved without the added tokens."


def load_processor(
    folder: Path,
    *,
    name: str,
    min_pixels: int | None = None,
    max_pixels: int | None = None,
    clips: bool = True,
    template: Mapping[str, object] = MappingProxyType({}),
) -> "ProcessorMixin":
    """Return the processor of a checkpoint's folder, padding on the left; weights are not read.

    Args:
        folder: Where the checkpoint lies.
        name: What errors call it.
        min_pixels: Smallest image; None: as the processor says.
        max_pixels: Largest image, likewise.
        clips: Whether each frame of a clip has the same limits. A processor that has limits only
            for all frames together is marked, and `inputs` refuses it clips.
        template: Variables of the chat template, such as `enable_thinking`.

    Raises:
        ModelError: a file of it is missing or damaged, or the tokenizer lacks tokens that the
            network is asked with.
        UsageError: the smallest image would be larger than the largest, the processor has no
            limits of this kind, or the chat template does not know a variable.
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
    limits = {
        edge: pixels
        for edge, pixels in (("shortest_edge", min_pixels), ("longest_edge", max_pixels))
        if pixels is not None
    }
    if limits:
        _limit(processor, limits, clips=clips)
    if template:
        _check_variables(name, processor, template)
        processor.chat_template_kwargs = dict(template)
    return processor


def _check_variables(name: str, processor: "ProcessorMixin", given: Mapping[str, object]) -> None:
    """Raise UsageError for a variable that the chat template would pass over in silence."""
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
    """A tokenizer in the place of a processor: of networks that read text alone."""

    tokenizer: "PreTrainedTokenizerBase"

    def __call__(
        self, *, text: Sequence[str], images: Sized = (), videos: Sized = (), **given: object
    ) -> "BatchEncoding":
        """Return tensors of texts.

        Raises:
            UsageError: there is something to see.
        """
        if len(images) or len(videos):
            raise UsageError(
                "a text-only network", expected="requests without media", found="media"
            )
        return self.tokenizer(list(text), **given)

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], **given: object) -> str:
        """Return the prompt of messages whose contents are lists of texts."""
        plain = [
            {**message, "content": "".join(part["text"] for part in message["content"])}
            for message in messages
        ]
        return str(self.tokenizer.apply_chat_template(plain, **given))


def loader(folder: Path) -> "type[_BaseAutoModelClass]":
    """Return what loads a checkpoint's network: one of images and text, or of text alone."""
    ensure_torchvision()
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    kind = checkpoints.read_json(folder / "config.json").get("model_type")
    sees = kind in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
    chosen: type[_BaseAutoModelClass] = (
        AutoModelForImageTextToText if sees else AutoModelForCausalLM
    )
    return chosen


def _limit(processor: "ProcessorMixin", limits: Mapping[str, int], *, clips: bool) -> None:
    """Give a processor other limits: its images, and with `clips` each frame of a clip."""
    from transformers import Qwen2VLVideoProcessor

    parts = {"images": processor.image_processor}
    video = getattr(processor, "video_processor", None)
    if clips and isinstance(video, Qwen2VLVideoProcessor):
        parts["clips"] = video
    elif clips and video is not None:
        # Qwen3-VL's limits are of all frames together: the same number would mean another thing.
        processor.clips_without_limits = True
    sizes = {kind: {**dict(part.size), **limits} for kind, part in parts.items()}
    for kind, size in sizes.items():
        if not {"shortest_edge", "longest_edge"} <= set(size):
            raise UsageError(
                "min_pixels=…,max_pixels=…",
                expected=f"a processor of {kind} that has such limits",
                found=", ".join(size),
                fix="Leave them out.",
            )
        if size["shortest_edge"] > size["longest_edge"]:
            raise UsageError(
                f"limits of {kind}",
                expected="min_pixels of at most max_pixels",
                found=f"{size['shortest_edge']} and {size['longest_edge']}",
                fix="Give both; the default is the value of the checkpoint's processor.",
            )
    for kind, part in parts.items():
        part.size = sizes[kind]


def _check_tokens(name: str, folder: Path, processor: "ProcessorMixin") -> None:
    """Raise ModelError unless the tokenizer has the tokens that the network is asked with.

    Those that mark an image or a video are one token each. In Qwen's families those around them
    and the end of a turn are too, marks have the numbers that the network looks for, and what ends
    a response is a token.
    """
    marks = {
        f"{kind}_token_id": mark
        for kind in ("image", "video")
        if (mark := getattr(processor, f"{kind}_token", None)) is not None
    }
    numbers = {mark: _number(name, processor.tokenizer, mark) for mark in marks.values()}
    model_type = checkpoints.read_json(folder / "config.json").get("model_type")
    if not str(model_type).startswith(QWEN):
        return
    for mark in (*AROUND.values(), TURN):
        numbers[mark] = _number(name, processor.tokenizer, mark)
    from transformers import AutoConfig

    with loading(f"configuration of checkpoint {name}"):
        # Numbers that a file leaves out are those of the architecture.
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    for place, mark in (marks | AROUND).items():
        wanted = getattr(config, place, None)
        if wanted is not None and wanted != numbers[mark]:
            raise ModelError(
                f"tokenizer of checkpoint {name}",
                expected=f"{mark} as token {wanted} ({place})",
                found=f"token {numbers[mark]}",
                fix=OTHERS,
            )
    _check_ends(name, end_tokens(folder, processor.tokenizer), processor.tokenizer)


def _number(name: str, tokenizer: "PreTrainedTokenizerBase", mark: str) -> int:
    """The one token of a mark."""
    known = tokenizer(mark, add_special_tokens=False)["input_ids"]
    if len(known) != 1 or known[0] == tokenizer.unk_token_id:
        raise ModelError(
            f"tokenizer of checkpoint {name}",
            expected=f"one token for {mark}",
            found=f"{len(known)} tokens" if len(known) != 1 else "an unknown one",
            fix=OTHERS,
        )
    return int(known[0])


def _check_ends(
    name: str, ends: Sequence[int | None], tokenizer: "PreTrainedTokenizerBase"
) -> None:
    for end in ends:
        if end is None or not 0 <= end < len(tokenizer):
            raise ModelError(
                f"tokenizer of checkpoint {name}",
                expected="a token that ends a response",
                found="none" if end is None else f"{end}, with {len(tokenizer)} tokens in all",
                fix="generation_config.json names it as eos_token_id, or else the tokenizer's "
                f"files as eos_token. {OTHERS}",
            )


def end_tokens(folder: Path, tokenizer: "PreTrainedTokenizerBase") -> tuple[int, ...]:
    """The tokens that end a response: of the generation settings, else the tokenizer's own."""
    given = checkpoints.generation_settings(folder).get("eos_token_id")
    ends = given if isinstance(given, list) else [given]
    known = [end for end in ends if isinstance(end, int)]
    return tuple(known) or (tokenizer.eos_token_id,)


def check_network(folder: Path, *, name: str, last: int) -> None:
    """Check that a checkpoint's weights are its architecture's, by name and shape.

    Each is read once and none is kept, so that a network larger than the memory can be checked.

    Args:
        folder: Where it lies.
        name: What errors call it.
        last: The largest number of a token of the tokenizer.

    Raises:
        ModelError: weights are missing, too many or of other shapes than the configuration says; or
            there are fewer embeddings than tokens.
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
            fix=OTHERS,
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
    """The network of a checkpoint's folder, on the CPU, as `from_pretrained` makes it.

    Errors call it `name`; `attn_implementation` is `auto` for transformers' choice. On the `device`
    `meta` it has shapes and no values.

    Raises:
        ModelError: the weights, or the adapter's, are not exactly those of the architecture.
        OutOfMemory: there is not enough memory.
    """
    chosen: dict[str, object] = {} if device is None else {"device_map": {"": device}}
    if attn_implementation != "auto":
        chosen["attn_implementation"] = attn_implementation
    with loading(f"checkpoint {name}"), memory():
        network, report = loader(folder).from_pretrained(
            folder,
            dtype=dtype,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are in the report, which is refused
            **chosen,
        )
    check_report(f"checkpoint {name}", report)
    return network if adapter is None else with_adapter(network, adapter)


def with_adapter(network: "PreTrainedModel", adapter: Adapter) -> "PreTrainedModel":
    """The same network with a LoRA adapter on its layers, or merged into its weights.

    Raises:
        ModelError: the adapter's weights are not exactly those of this network's adapted layers.
        MissingDependency: peft is not installed.
    """
    with plugin_errors(f"adapter {adapter.name}", ModelError):
        from peft import PeftModel
    with loading(f"adapter {adapter.name} on this checkpoint"):
        whole = PeftModel.from_pretrained(
            network, adapter.folder, is_trainable=False, torch_device="cpu"
        )
        _check_all_used(adapter, whole)
        # Layers are put into the network itself: it needs no wrapper to generate with them.
        return whole.merge_and_unload(safe_merge=True) if adapter.merged else whole.get_base_model()


def _check_all_used(adapter: Adapter, network: "PeftModel") -> None:
    """Raise ModelError unless the adapter's file has each adapted layer's weights, and no others.

    peft itself only warns, and goes on with random or unused ones.
    """
    from peft import get_peft_model_state_dict
    from safetensors import safe_open

    wanted = set(get_peft_model_state_dict(network, save_embedding_layers=False))
    with safe_open(adapter.weights, framework="pt") as file:
        given = set(file.keys())
    check_report(
        f"adapter {adapter.name}",
        {"missing_keys": wanted - given, "unexpected_keys": given - wanted},
        expected="exactly the weights of the layers it adapts",
        fix="It was made for another architecture or another release of transformers. "
        "Merge it where it was trained, and give the whole.",
    )
