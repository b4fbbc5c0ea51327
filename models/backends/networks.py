"""A network and its processor from their files: exactly its weights, an adapter on top if asked."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.errors import MissingDependency, ModelError
from harness.models.backends.adapters import Adapter
from harness.models.backends.loading import check_report, loading
from harness.models.backends.torchvision_cpu import ensure_torchvision


def load_processor(
    folder: Path, *, name: str, min_pixels: int | None = None, max_pixels: int | None = None
) -> Any:
    """The processor of a checkpoint's folder, padding on the left; the weights are not read.

    Args:
        folder: Where the checkpoint lies.
        name: What errors call it.
        min_pixels: Smallest picture; None: as the processor says. Videos keep its limits.
        max_pixels: Largest picture, likewise.

    Raises:
        ModelError: a file of it is missing or damaged, or the tokenizer lacks the tokens that
            stand for pictures.
    """
    ensure_torchvision()
    from transformers import AutoProcessor

    with loading(f"processor of checkpoint {name}"):
        processor = AutoProcessor.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    _check_tokens(name, processor)
    processor.tokenizer.padding_side = "left"
    size = dict(processor.image_processor.size)
    if min_pixels is not None:
        size["shortest_edge"] = min_pixels
    if max_pixels is not None:
        size["longest_edge"] = max_pixels
    if min_pixels is not None or max_pixels is not None:
        processor.image_processor.size = size
    return processor


def _check_tokens(name: str, processor: Any) -> None:
    """Raise ModelError unless the tokenizer knows as one token what marks a picture or a video."""
    for kind in ("image", "video"):
        mark = getattr(processor, f"{kind}_token", None)
        if mark is None:
            continue
        known = processor.tokenizer(mark, add_special_tokens=False)["input_ids"]
        if len(known) != 1 or known[0] == processor.tokenizer.unk_token_id:
            raise ModelError(
                f"tokenizer of checkpoint {name}", expected=f"one token for {mark}",
                found=f"{len(known)} tokens" if len(known) != 1 else "an unknown one",
                fix="Its files are another network's, or were saved without the added tokens.",
            )  # fmt: skip


def load_network(
    folder: Path, *, name: str, dtype: str, attention: str, adapter: Adapter | None
) -> Any:
    """The network of a checkpoint's folder, on the CPU, as `from_pretrained` makes it.

    Args:
        folder: Where the checkpoint lies.
        name: What errors call it.
        dtype: Of its weights.
        attention: Implementation; `auto` is transformers' choice.
        adapter: A LoRA adapter, which is put on the network or merged into it.

    Raises:
        ModelError: the weights, or the adapter's, are not exactly those of the architecture.
    """
    ensure_torchvision()
    from transformers import AutoModelForImageTextToText

    chosen = {} if attention == "auto" else {"attn_implementation": attention}
    with loading(f"checkpoint {name}"):
        network, report = AutoModelForImageTextToText.from_pretrained(
            folder,
            dtype=dtype,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
            **chosen,
        )
    check_report(name, report)
    return network if adapter is None else adapted(network, adapter)


def adapted(network: Any, adapter: Adapter) -> Any:
    """The same network with a LoRA adapter on its layers, or merged into its weights.

    Raises:
        ModelError: the adapter's weights are not exactly those of this network's adapted layers.
        MissingDependency: peft is not installed.
    """
    try:
        from peft import PeftModel
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"adapter {adapter.name}", expected="the package peft", found="it is not installed",
            fix='Install it: pip install "visual-reasoning-harness[train]"',
        ) from error  # fmt: skip
    with loading(f"adapter {adapter.name} on this checkpoint"):
        whole = PeftModel.from_pretrained(
            network, adapter.folder, is_trainable=False, torch_device="cpu"
        )
        _check_all_used(adapter, whole)
        # Layers are put into the network itself: it needs no wrapper to generate with them.
        return whole.merge_and_unload(safe_merge=True) if adapter.merged else whole.get_base_model()


def _check_all_used(adapter: Adapter, network: Any) -> None:
    """Raise ModelError unless the adapter's file has each adapted layer's weights, and no others.

    peft itself only warns, and goes on with random or unused ones.
    """
    from peft import get_peft_model_state_dict
    from safetensors import safe_open

    wanted = set(get_peft_model_state_dict(network, save_embedding_layers=False))
    with safe_open(adapter.weights, framework="pt") as file:
        given = set(file.keys())
    for kind, names in (("missing", wanted - given), ("unknown", given - wanted)):
        if names:
            raise ModelError(
                f"adapter {adapter.name}", expected="exactly the weights of the layers it adapts",
                found=f"{kind}: {_some(sorted(names))}",
                fix="It was made for another architecture or another release of transformers. "
                "Merge it where it was trained, and give the whole.",
            )  # fmt: skip


def _some(names: Sequence[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
