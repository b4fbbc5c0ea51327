"""Writing of a stand-in checkpoint: weights, configuration, processor, tokenizer, chat template.

The network is the published class with small sizes and random weights; files have the published
names. `standins` calls `write` with the facts of a family from `standins.toml`.
"""

import json
import math
from collections.abc import Callable, Mapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from harness.models.backends import sam2_package
from harness.models.backends.loading import no_bars
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.rehearsal import vocabulary

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ROW_MULTIPLE = 64
"""Rows of an embedding are a multiple of this, and more than the tokens, as in real networks."""


def write(folder: Path, facts: Mapping[str, Any], *, seed: int) -> None:
    """Write all files of a stand-in into a folder.

    Raises:
        ImportError: this release of transformers has no such class.
    """
    numbers: Mapping[str, int] = {}
    if "tokenizer" in facts:
        numbers = vocabulary.write(folder, facts["tokenizer"])
    for name, content in facts["files"].items():
        _write_json(folder / name, _filled(content, numbers))
    if "template" in facts:
        _write_template(folder, facts["template"], facts["template_file"])
    network = _network(folder, facts, seed)
    _save_weights(folder, network, sharded=facts.get("sharded", False))
    if find_spec("sam2") is not None:
        for name, config in facts.get("sam2_package", {}).items():
            _save_for_package(folder / name, config, seed)


def _save_for_package(path: Path, config: str, seed: int) -> None:
    """Write random weights for the package `sam2`, of its configuration's real size."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = sam2_package.empty_network(sam2_package.IMAGES, config=config)
    torch.save({"model": network.state_dict()}, path)


def _filled(value: object, numbers: Mapping[str, int]) -> Any:
    """Return JSON data with the number of a token in place of each text "=TOKEN".

    "=tokens" stands for the number of tokens, "=rows" for that of an embedding's rows.
    """
    if isinstance(value, Mapping):
        return {key: _filled(inner, numbers) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, numbers) for inner in value]
    if not (isinstance(value, str) and value.startswith("=")):
        return value
    count = max(numbers.values()) + 1
    named = {"=tokens": count, "=rows": (count // ROW_MULTIPLE + 2) * ROW_MULTIPLE}
    return named[value] if value in named else numbers[value[1:]]


def _write_template(folder: Path, template: str, file: str) -> None:
    """Write a chat template into the same file as the published one."""
    source = files(__package__).joinpath("templates", f"{template}.jinja").read_text("utf-8")
    if file.endswith(".jinja"):
        (folder / file).write_text(source, "utf-8")
        return
    path = folder / file
    content = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    _write_json(path, {**content, "chat_template": source})


def _network(folder: Path, facts: Mapping[str, Any], seed: int) -> "PreTrainedModel":
    """Return the network of a folder's `config.json` with random weights."""
    ensure_torchvision()
    import torch
    import transformers

    kind = getattr(transformers, facts["network"], None)
    if kind is None:
        raise ImportError(f"transformers {transformers.__version__} has no {facts['network']}")
    config = kind.config_class.from_pretrained(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network: PreTrainedModel = kind(config).eval()
        FILL_FUNCTIONS[facts.get("fill", "plain")](network)
    return network.to(getattr(torch, facts["dtype"]))


def _plain(network: "PreTrainedModel") -> None:
    """Leave the weights as the class initialises them."""


def _lively(network: "PreTrainedModel") -> None:
    """Draw weights that keep activations at one scale, so that outputs depend on inputs."""
    import torch

    with torch.no_grad():
        for name, weight in network.named_parameters():
            if weight.dim() > 1:
                weight.normal_(0, math.sqrt(2 / max(1, weight[0].numel())))
            elif "norm" not in name:
                weight.normal_(0, 0.5)


def _segmenting(network: "PreTrainedModel") -> None:
    """Draw weights as `_lively` for SAM 2, with every object predicted as visible."""
    import torch

    _lively(network)
    with torch.no_grad():
        network.mask_decoder.pred_obj_score_head.proj_out.bias.fill_(100)
        # One table of positions, which transformers holds twice.
        table = network.prompt_encoder.shared_embedding.positional_embedding
        network.shared_image_embedding.positional_embedding.copy_(table)


def _following(network: "PreTrainedModel") -> None:
    """Draw weights as `_segmenting` for SAM 3's tracker, and scale those of its detector.

    The detector's vision encoder keeps its weights; every phrase is predicted as present.
    """
    import torch

    _segmenting(network.tracker_model)
    with torch.no_grad():
        for name, weight in network.detector_model.named_parameters():
            if weight.dim() > 1 and "vision_encoder" not in name:
                weight.mul_(4)
        network.detector_model.detr_decoder.presence_head.layer3.bias.fill_(4)  # present


FILL_FUNCTIONS: Mapping[str, "Callable[[PreTrainedModel], None]"] = MappingProxyType(
    {"plain": _plain, "lively": _lively, "segmenting": _segmenting, "following": _following}
)
"""Functions that draw a network's weights, by the family's `fill`."""


def _save_weights(folder: Path, network: "PreTrainedModel", *, sharded: bool) -> None:
    """Save weights in one file, or in several with an index.

    `save_pretrained` also writes a configuration in the format of its release; the published one is
    restored.
    """
    published = {
        name: (folder / name).read_bytes()
        for name in ("config.json", "generation_config.json")
        if (folder / name).is_file()
    }
    total = sum(weight.numel() * weight.element_size() for weight in network.parameters())
    with no_bars():
        network.save_pretrained(folder, max_shard_size=total // 2 if sharded else "5GB")
    (folder / "generation_config.json").unlink(missing_ok=True)
    for name, content in published.items():
        (folder / name).write_bytes(content)


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", "utf-8")
