"""The policy: loaded, adapted, and written as a checkpoint for evaluation."""

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from harness import plugins
from harness.errors import MissingDependency, UsageError
from harness.models.backends.checkpoint import read_json, saved_dtype
from harness.models.backends.checkpoint import weights as weights_of
from harness.models.backends.loading import no_bars
from harness.models.backends.networks import load_network
from harness.models.backends.transformers import TransformersChat
from harness.models.pipeline import PromptedModel
from harness.spec import Spec
from harness.store.atomic import write_json
from harness.trainers.sample_checks import SkippedSample
from harness.trainers.settings import TrainingSettings
from harness.trainers.state import replaced_folder

if TYPE_CHECKING:
    from peft import PeftModel
    from torch import Tensor
    from transformers import PreTrainedModel

Network: TypeAlias = "PreTrainedModel | PeftModel"
"""A network that learns: as transformers loads it, or in PEFT's wrapper with an adapter."""
CONFIG = "config.json"
ADAPTER = "adapter"
"""Folder in a checkpoint with the adapter that is merged into it."""
MERGED = "float32"
"""Type of weights that an adapter is merged into, and that their checkpoint is loaded in."""
SHOWN = 20  # dropped samples that the manifest names
COPIED = (
    "generation_config.json",
    "processor_config.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.json",
    "chat_template.jinja",
)
"""Files of a checkpoint beside its weights and config.json, which training does not change."""


def trainable(
    who: str, spec: Spec | None, kind: type[Any] = PromptedModel
) -> tuple[Any, TransformersChat]:
    """Build the model to train: a network in process, with the composition that asks it.

    `who` is the trainer's name, for errors; `kind` the class that the model must be of.

    Raises:
        UsageError: it is something else, or has an adapter beside its weights.
    """
    if spec is None:
        raise UsageError(f"trainer {who}", expected="a model to start from (--model)", found="none")
    model = plugins.build("models", spec)
    if not isinstance(model, kind) or not isinstance(model.chat, TransformersChat):
        usual = "qwen_vl" if kind is PromptedModel else who
        raise UsageError(
            f"trainer {who}, model {spec}",
            expected="a network that transformers calls, with a prompt and a grammar, such as "
            f"{usual}(checkpoint=…)",
            found=type(model).__name__,
        )
    if model.chat.adapter is not None:  # which would be left out
        raise UsageError(
            f"trainer {who}, adapter {model.chat.adapter.name}",
            expected="a checkpoint that holds all of its weights",
            found="an adapter beside one",
            fix="Merge it first: a training with finetune=lora has the merged network in its "
            "folder checkpoint/; for others, PEFT's merge_and_unload() and save_pretrained(FOLDER) "
            "write one. Then give that folder as checkpoint= and no adapter=.",
        )
    return model, model.chat


def deepspeed_file(name: str | None) -> str | None:
    """Return the path of a DeepSpeed configuration: `zero2` and `zero3` are here."""
    if name is None:
        return None
    if find_spec("deepspeed") is None:
        raise MissingDependency(
            "deepspeed=…",
            expected="the package 'deepspeed'",
            found="it is not installed",
            fix="Install it.",
        )
    own = Path(__file__).parent / "deepspeed" / f"{name}.json"
    path = own if own.is_file() else Path(name)
    if not path.is_file():
        raise UsageError(f"deepspeed={name}", expected="zero2, zero3, or a file", found="neither")
    return str(path)


def memory_note(network: "PreTrainedModel", *, computes_bf16: bool, reference: bool) -> str:
    """Return what is trained in which type, and what that takes on each device."""
    sizes = [(one.numel(), one.element_size(), one.requires_grad) for one in network.parameters()]
    types = Counter[str]()
    for one in network.parameters():
        types[str(one.dtype).removeprefix("torch.")] += one.numel() * one.requires_grad
    trained = types.total()
    held = sum(size * width for size, width, _ in sizes)
    gradients = sum(size * width for size, width, grad in sizes if grad)
    parts = {
        "weights": held,
        "gradients": gradients,
        "AdamW": 2 * gradients,  # two moments, in the weight's type
        **({"the reference": held} if reference else {}),
    }
    each = ", ".join(f"{size / 1e9:.2f} for {name}" for name, size in parts.items())
    kind = types.most_common(1)[0][0] + (", computing in bfloat16" if computes_bf16 else "")
    return (
        f"trains {trained:,} of {sum(size for size, _, _ in sizes):,} weights in {kind}: "
        f"{sum(parts.values()) / 1e9:.2f} GB on each device ({each}), without activations and "
        "without what DeepSpeed spreads"
    )


def training_facts(
    examples: Sequence[object], dropped: Sequence[SkippedSample], network: "PreTrainedModel"
) -> dict[str, object]:
    """Return facts for the manifest: how many samples were learned from, how many weights."""
    sizes = [(one.numel(), one.requires_grad) for one in network.parameters()]
    return {
        "examples": len(examples),
        "dropped": dict(Counter(one.why for one in dropped)),
        "dropped_samples": [asdict(one) for one in dropped[:SHOWN]],
        "parameters": sum(size for size, _ in sizes),
        "parameters_trained": sum(size for size, trained in sizes if trained),
    }


def checkpoint_facts(folder: Path) -> dict[str, object]:
    """Return the type of a checkpoint's weights, as it is loaded, and their size in bytes."""
    return {
        "dtype": saved_dtype(read_json(folder / CONFIG)),
        "bytes": sum(path.stat().st_size for path in weights_of(folder)),
    }


HALF = ("bfloat16", "float16")
"""Types in which a step of the usual size is rounded away: 8 or 11 bits hold a weight."""


def types_of(chat: TransformersChat, settings: TrainingSettings) -> tuple[str, bool]:
    """Return the type that weights are trained in, and True if bfloat16 is computed in.

    All weights of a checkpoint in half precision are trained in float32, unless `dtype` says
    otherwise or DeepSpeed keeps such copies itself: an AdamW step of 1e-6 changes a weight of
    bfloat16 by less than its last bit.
    """
    dtype, bf16 = settings.dtype, settings.bf16 or settings.dtype == "bfloat16"
    if dtype != "auto" or settings.finetune != "full":
        return dtype, bf16
    saved = chat.dtype if chat.dtype != "auto" else saved_dtype(read_json(chat.folder / CONFIG))
    if saved not in HALF:
        return dtype, bf16
    return ("auto", True) if settings.deepspeed else ("float32", True)


def media_tokens(network: Network) -> tuple[int, ...]:
    """Return the tokens of images and videos: one that is written would want its patches."""
    named = (getattr(network.config, f"{kind}_token_id", None) for kind in ("image", "video"))
    return tuple(sorted({token for token in named if token is not None}))


def load(chat: TransformersChat, *, dtype: str) -> "PreTrainedModel":
    """Load a backend's network for training, its weights converted to `dtype`; `auto`: its own."""
    return load_network(
        chat.folder,
        name=chat.checkpoint,
        dtype=chat.dtype if dtype == "auto" else dtype,
        attn_implementation=chat.attn_implementation,
        adapter=None,
    )


def export(
    network: Network,
    base: Path,
    folder: Path,
    *,
    tensors: Mapping[str, "Tensor"] | None,
) -> None:
    """Write a checkpoint that `from_pretrained` loads: weights, and the base's other files.

    An adapter is merged into the weights that are written, and lies beside them in `adapter/`; the
    network itself stays as it is. `base` is the folder of the checkpoint that training began with,
    and `folder` is replaced as a whole; `tensors` are all weights, where the network does not hold
    them itself (ZeRO-3). Weights that transformers does not load come from `base`.
    """
    with replaced_folder(folder) as partial, no_bars():
        plain, weights = merged_weights(network)
        whole = dict(tensors or weights)
        unloaded = unloaded_weights(plain, base, whole)
        if unloaded:  # under names that transformers must not turn back: they were never changed
            whole = saved_names(plain, whole) | unloaded
        plain.save_pretrained(partial, state_dict=whole, save_original_format=not unloaded)
        for name in COPIED:
            if (base / name).is_file():
                shutil.copyfile(base / name, partial / name)
        if plain is not network:
            _name_type(partial / CONFIG, MERGED)
            network.save_pretrained(str(partial / ADAPTER), save_embedding_layers=False)


def _name_type(configuration: Path, dtype: str) -> None:
    """Make `dtype` the type that a checkpoint is loaded in, and its parts."""
    whole = read_json(configuration)
    for part in (whole, *(one for one in whole.values() if isinstance(one, dict))):
        if part is whole or "dtype" in part:
            part["dtype"] = dtype
    write_json(configuration, whole)


def unloaded_weights(
    network: "PreTrainedModel", base: Path, loaded: "Mapping[str, Tensor]"
) -> "dict[str, Tensor]":
    """Return the weights of a checkpoint that no weight of the network is made of, as saved.

    Such are Qwen3.5's layers that predict several tokens at once (`mtp`), the talker beside Omni's
    thinker, and the vision tower beside a language model. `loaded` has the network's weights by
    name; the checkpoint's names are renamed as transformers does when it loads them.
    """
    from safetensors import safe_open
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightConverter, WeightRenaming, rename_source_key

    rules = get_model_conversion_mapping(network)
    renamings = [rule for rule in rules if isinstance(rule, WeightRenaming)]
    converters = [rule for rule in rules if isinstance(rule, WeightConverter)]

    def is_loaded(name: str) -> bool:
        renamed, _ = rename_source_key(
            name, renamings, converters, network.base_model_prefix, loaded
        )
        return renamed in loaded or name in loaded

    unloaded = {}
    for path in weights_of(base):
        with safe_open(path, framework="pt") as file:
            names: list[str] = file.keys()  # the file itself cannot be iterated
            unloaded.update({name: file.get_tensor(name) for name in names if not is_loaded(name)})
    return unloaded


def saved_names(network: "PreTrainedModel", tensors: "Mapping[str, Tensor]") -> "dict[str, Tensor]":
    """Return a network's weights as `save_pretrained` writes them: tied ones once, renamed back."""
    from transformers.core_model_loading import revert_weight_conversion
    from transformers.modeling_utils import remove_tied_weights_from_state_dict

    once = remove_tied_weights_from_state_dict(dict(tensors), network)
    return dict(revert_weight_conversion(network, once))


def merged_weights(network: Network) -> "tuple[PreTrainedModel, dict[str, Tensor]]":
    """Return the network without its adapter's layers, and its weights with the adapter merged in.

    The sums are of float32: an adapter changes most weights of half precision by less than their
    last bit.
    """
    import torch

    if not hasattr(network, "merge_adapter"):
        return network, network.state_dict()
    base: PreTrainedModel = network.get_base_model()
    weights = {
        name.replace(".base_layer.", "."): tensor
        for name, tensor in base.state_dict().items()
        if ".lora_" not in name
    }
    with torch.no_grad():
        for name, layer in base.named_modules():
            if hasattr(layer, "base_layer"):
                (adapter,) = layer.active_adapters
                change = layer.get_delta_weight(adapter).float()
                # On the CPU: a device need not have room for all of them.
                weights[f"{name}.weight"] = (layer.base_layer.weight.float() + change).cpu()
    return base, weights
