"""The network of a training: load it, describe it, and write it as a checkpoint for evaluation.

`trainable` builds the model that `--model` names; `export` writes a folder that `from_pretrained`
loads, with an adapter merged into the weights.
"""

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from harness import plugins
from harness.errors import MissingDependency, UsageError
from harness.models.backends.checkpoint import saved_dtype
from harness.models.backends.loading import no_bars
from harness.models.backends.networks import load_network
from harness.models.backends.transformers import TransformersChat
from harness.models.backends.weights import read_json
from harness.models.backends.weights import weights as weights_of
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
MERGED_DTYPE = "float32"
"""Type of weights that an adapter is merged into, and in which their checkpoint is loaded."""
MAX_LISTED = 20  # number of dropped samples that the manifest names
COPIED_FILES = (
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
    trainer: str, spec: Spec | None, model_class: type[Any] = PromptedModel
) -> tuple[Any, TransformersChat]:
    """Build the model to train; return it with its chat, which runs a network in this process.

    Args:
        trainer: Name of the trainer, for errors.
        spec: SPEC given as `--model`.
        model_class: Class that the model must have.

    Raises:
        UsageError: there is no model, it is of another kind, or it has an adapter beside its
            weights.
    """
    if spec is None:
        expected = "a model to start from (--model)"
        raise UsageError(f"trainer {trainer}", expected=expected, found="none")
    model = plugins.build("models", spec)
    if not isinstance(model, model_class) or not isinstance(model.chat, TransformersChat):
        example = "qwen_vl" if model_class is PromptedModel else trainer
        raise UsageError(
            f"trainer {trainer}, model {spec}",
            expected="a network that transformers calls, with a prompt and a grammar, such as "
            f"{example}(checkpoint=…)",
            found=type(model).__name__,
        )
    if model.chat.adapter is not None:  # training would ignore it
        raise UsageError(
            f"trainer {trainer}, adapter {model.chat.adapter.name}",
            expected="a checkpoint that holds all of its weights",
            found="an adapter beside one",
            fix="Merge it first: a training with finetune=lora has the merged network in its "
            "folder checkpoint/; for others, PEFT's merge_and_unload() and save_pretrained(FOLDER) "
            "write one. Then give that folder as checkpoint= and no adapter=.",
        )
    return model, model.chat


def deepspeed_file(name: str | None) -> str | None:
    """Return the path of a DeepSpeed configuration: `zero2` and `zero3` are ours, else a file.

    Raises:
        MissingDependency: DeepSpeed is not installed.
        UsageError: there is no such file.
    """
    if name is None:
        return None
    if find_spec("deepspeed") is None:
        raise MissingDependency(
            "deepspeed=…",
            expected="the package 'deepspeed'",
            found="it is not installed",
            fix="Install it.",
        )
    own_file = Path(__file__).parent / "deepspeed" / f"{name}.json"
    path = own_file if own_file.is_file() else Path(name)
    if not path.is_file():
        raise UsageError(f"deepspeed={name}", expected="zero2, zero3, or a file", found="neither")
    return str(path)


def memory_note(network: "PreTrainedModel", *, computes_bf16: bool, reference: bool) -> str:
    """Return a note: the number and type of trained weights, and their memory on each device.

    `reference` is True if a second copy of the network is held.
    """
    parameters = list(network.parameters())
    types = Counter[str]()  # number of trained weights by type
    for weight in parameters:
        n_trained = weight.numel() if weight.requires_grad else 0
        types[str(weight.dtype).removeprefix("torch.")] += n_trained
    held = sum(weight.nbytes for weight in parameters)
    gradients = sum(weight.nbytes for weight in parameters if weight.requires_grad)
    parts = {
        "weights": held,
        "gradients": gradients,
        "AdamW": 2 * gradients,  # two moments, in the weight's type
        **({"the reference": held} if reference else {}),
    }
    listed = ", ".join(f"{size / 1e9:.2f} for {name}" for name, size in parts.items())
    dtype = types.most_common(1)[0][0] + (", computing in bfloat16" if computes_bf16 else "")
    return (
        f"trains {types.total():,} of {sum(weight.numel() for weight in parameters):,} weights in "
        f"{dtype}: {sum(parts.values()) / 1e9:.2f} GB on each device ({listed}), without "
        "activations and without what DeepSpeed spreads"
    )


def training_facts(
    examples: Sequence[object], dropped: Sequence[SkippedSample], network: "PreTrainedModel"
) -> dict[str, object]:
    """Return facts for the manifest: numbers of samples and of weights, and dropped samples."""
    weights = list(network.parameters())
    return {
        "examples": len(examples),
        "dropped": dict(Counter(sample.why for sample in dropped)),
        "dropped_samples": [asdict(sample) for sample in dropped[:MAX_LISTED]],
        "parameters": sum(weight.numel() for weight in weights),
        "parameters_trained": sum(weight.numel() for weight in weights if weight.requires_grad),
    }


def checkpoint_facts(folder: Path) -> dict[str, object]:
    """Return the type in which a checkpoint's weights are loaded, and their size in bytes."""
    return {
        "dtype": saved_dtype(read_json(folder / CONFIG)),
        "bytes": sum(path.stat().st_size for path in weights_of(folder)),
    }


HALF_PRECISION = ("bfloat16", "float16")
"""Types in which a step of the usual size is rounded away: a weight has 8 or 11 significant bits.
"""


def types_of(chat: TransformersChat, settings: TrainingSettings) -> tuple[str, bool]:
    """Return the type of the trained weights, and True if computations are in bfloat16.

    A checkpoint in half precision is trained in float32: an AdamW step of 1e-6 changes a weight of
    bfloat16 by less than its last bit. Exceptions: `dtype` is set, or DeepSpeed keeps float32
    copies itself.
    """
    dtype, bf16 = settings.dtype, settings.bf16 or settings.dtype == "bfloat16"
    if dtype != "auto" or settings.finetune != "full":
        return dtype, bf16
    saved = chat.dtype if chat.dtype != "auto" else saved_dtype(read_json(chat.folder / CONFIG))
    if saved not in HALF_PRECISION:
        return dtype, bf16
    return ("auto", True) if settings.deepspeed else ("float32", True)


def media_tokens(network: Network) -> tuple[int, ...]:
    """Return the ids of the image and video tokens, which a network must never generate.

    A generated one would need patches of an image that does not exist.
    """
    ids = (getattr(network.config, f"{medium}_token_id", None) for medium in ("image", "video"))
    return tuple(sorted({token for token in ids if token is not None}))


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

    An adapter is merged into the written weights, and is written beside them in `adapter/`; the
    network itself is not changed. Weights that transformers does not load are copied from `base`.

    Args:
        network: The trained network.
        base: Folder of the checkpoint that training began with.
        folder: Folder to write; it is replaced as a whole.
        tensors: All weights, if the network does not hold them itself (ZeRO-3).
    """
    with replaced_folder(folder) as partial, no_bars():
        bare, own_weights = merged_weights(network)
        weights = dict(tensors or own_weights)
        unloaded = unloaded_weights(bare, base, weights)
        if unloaded:  # they have the names of the base: the others get such names here, too
            weights = saved_names(bare, weights) | unloaded
        bare.save_pretrained(partial, state_dict=weights, save_original_format=not unloaded)
        for name in COPIED_FILES:
            if (base / name).is_file():
                shutil.copyfile(base / name, partial / name)
        if bare is not network:
            _set_dtype(partial / CONFIG, MERGED_DTYPE)
            network.save_pretrained(str(partial / ADAPTER), save_embedding_layers=False)


def _set_dtype(path: Path, dtype: str) -> None:
    """Set the type in which a checkpoint is loaded, in its config.json and the config's parts."""
    config = read_json(path)
    parts = [part for part in config.values() if isinstance(part, dict) and "dtype" in part]
    for part in (config, *parts):
        part["dtype"] = dtype
    write_json(path, config)


def unloaded_weights(
    network: "PreTrainedModel", base: Path, loaded: "Mapping[str, Tensor]"
) -> "dict[str, Tensor]":
    """Return the weights of a checkpoint that the network does not load, under their saved names.

    Examples: Qwen3.5's layers that predict several tokens at once (`mtp`), the talker beside Omni's
    thinker, the vision tower beside a language model.

    Args:
        network: The network, whose class decides how saved names are renamed on loading.
        base: Folder of the checkpoint.
        loaded: The network's weights by name.
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
    """Return weights under the names of saved checkpoints, tied ones once, as `save_pretrained`."""
    from transformers.core_model_loading import revert_weight_conversion
    from transformers.modeling_utils import remove_tied_weights_from_state_dict

    untied = remove_tied_weights_from_state_dict(dict(tensors), network)
    return dict(revert_weight_conversion(network, untied))


def merged_weights(network: Network) -> "tuple[PreTrainedModel, dict[str, Tensor]]":
    """Return the network without its adapter's layers, and its weights with the adapter merged in.

    The sums are in float32: an adapter changes most weights of half precision by less than their
    last bit. A network without an adapter is returned as it is.
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
                # On the CPU: the device may lack memory for all of them.
                weights[f"{name}.weight"] = (layer.base_layer.weight.float() + change).cpu()
    return base, weights
