"""The process that runs the official code of a checkout: `python -m … checkout_child`.

Its first message names the code and weights to load. Then each propagation sends its masks and its
frames; the answer to a frame is its labels. Weights are read with `weights_only=True`.
"""

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.models.child_process import parent
from harness.models.propagators.cores import XMEM, Core, CutieCore, XMemCore

if TYPE_CHECKING:
    from torch import Tensor, nn

MEMORY_PHRASES = ("out of memory", "allocate memory", "not enough memory")
"""Texts in the errors of PyTorch that mean full memory."""


class AttributeDict(dict[str, object]):
    """Nested settings whose keys are attributes as well, as the official code reads them."""

    def __getattr__(self, name: str) -> object:
        try:
            value = self[name]
        except KeyError as error:
            raise AttributeError(name) from error
        return AttributeDict(value) if isinstance(value, dict) else value


def xmem(repo: Path, weights: Mapping[str, "Tensor"], *, size: int, device: str) -> Core:
    """Build XMem from a checkout; the weights determine the sizes of the network."""
    without_downloads("model.resnet")
    network_module = import_module("model.network")
    core_module = import_module("inference.inference_core")
    hidden = weights.get("decoder.hidden_update.transform.weight")
    sizes = {
        "key_dim": weights["key_proj.key_proj.weight"].shape[0],
        "value_dim": weights["value_encoder.fuser.block2.conv2.weight"].shape[0],
        "hidden_dim": 0 if hidden is None else hidden.shape[0] // 3,
    }
    network = network_module.XMem({**XMEM, **sizes})
    network.load_weights(dict(weights), init_as_zero_if_needed=True)
    return XMemCore(
        network.to(device).eval(),
        core_module.InferenceCore,
        size=size,
        device=device,
        sizes=sizes,
    )


def cutie(repo: Path, weights: Mapping[str, "Tensor"], *, size: int, device: str) -> Core:
    """Build Cutie from a checkout, with its settings for the evaluation on DAVIS."""
    if find_spec("omegaconf") is None:  # the code uses it only in type annotations
        stand_in = ModuleType("omegaconf")
        stand_in.DictConfig = AttributeDict  # type: ignore[attr-defined]
        sys.modules["omegaconf"] = stand_in
    without_downloads("cutie.model.utils.resnet")
    network_module = import_module("cutie.model.cutie")
    core_module = import_module("cutie.inference.inference_core")
    base = weights["pix_feat_proj.weight"].shape[1] == 1024  # channels of a ResNet-50
    config = cutie_settings(repo, "base" if base else "small", size=size)
    network = network_module.CUTIE(config)
    network.load_weights(dict(weights), init_as_zero_if_needed=True)
    # `load_weights` does not report missing weights.
    missing = sorted(
        name
        for name in set(network.state_dict()) - set(weights)
        if not name.startswith("aux_computer.")  # used in training alone
    )
    if missing:
        raise KeyError(f"{len(missing)} weights are missing, such as {missing[0]}")
    return CutieCore(
        network.to(device).eval(), core_module.InferenceCore, config=config, device=device
    )


def cutie_settings(repo: Path, variant: str, *, size: int) -> AttributeDict:
    """Return the checkout's `eval_config.yaml`, the network's sizes, and the values of `d17-val`.

    Args:
        repo: The checkout.
        variant: Name of the network's configuration, `base` or `small`.
        size: Value of `max_internal_size`.
    """
    yaml = import_module("yaml")
    folder = repo / "cutie" / "config"
    evaluation = yaml.safe_load((folder / "eval_config.yaml").read_text("utf-8"))
    sizes = yaml.safe_load((folder / "model" / "base.yaml").read_text("utf-8"))
    if variant != "base":
        variant_sizes = yaml.safe_load((folder / "model" / f"{variant}.yaml").read_text("utf-8"))
        sizes = merge_settings(
            sizes, {key: value for key, value in variant_sizes.items() if key != "defaults"}
        )
    settings = {**evaluation, "model": sizes}
    resolved = {key: resolve_references(value, settings) for key, value in settings.items()}
    overrides = {"max_internal_size": size, "use_long_term": False, "mem_every": 5}
    return AttributeDict({**resolved, **overrides})


def merge_settings(base: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    """Return nested settings `base`, updated recursively by `changes`."""
    merged = dict(base)
    for key, value in changes.items():
        old = base.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            value = merge_settings(old, value)
        merged[key] = value
    return merged


def resolve_references(value: object, all_settings: Mapping[str, object]) -> object:
    """Resolve `${a.b}` in nested settings; references to unknown settings stay unchanged."""
    if isinstance(value, dict):
        return {key: resolve_references(item, all_settings) for key, item in value.items()}
    if not (isinstance(value, str) and value.startswith("${") and value.endswith("}")):
        return value
    setting: object = all_settings
    for key in value[2:-1].split("."):
        if not isinstance(setting, dict) or key not in setting:
            return value
        setting = setting[key]
    return resolve_references(setting, all_settings)


def without_downloads(name: str) -> None:
    """Make the constructors of a checkout's ResNets not download ImageNet's weights.

    The weights of the user's file replace all of them anyway.
    """
    module = import_module(name)
    for resnet in ("resnet18", "resnet50"):
        constructor = getattr(module, resnet)

        def without_weights(
            pretrained: bool = False, constructor: Any = constructor, **options: object
        ) -> "nn.Module":
            network: nn.Module = constructor(pretrained=False, **options)
            return network

        setattr(module, resnet, without_weights)


def load(head: Mapping[str, Any]) -> Core:
    """Build the core that the first message names; add the checkout to the import path."""
    import torch

    repo = Path(head["repo"])
    sys.path.insert(0, str(repo))
    device = head["device"]
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    weights = torch.load(head["weights"], map_location="cpu", weights_only=True)
    build = {"xmem": xmem, "cutie": cutie}[head["kind"]]
    return build(repo, weights, size=head["size"], device=device)


def answer(core: Core, head: Mapping[str, Any], data: bytes) -> bytes:
    """Answer one message: masks start a propagation (no data), a frame returns its labels."""
    array = np.frombuffer(data, np.uint8).reshape(head["shape"])
    if head["what"] == "masks":
        core.begin(array.astype(np.bool_), head["frames"])
        return b""
    return np.ascontiguousarray(core.step(array, last=head["last"])).tobytes()


def main() -> None:
    """Serve until the input ends."""
    channel = parent()  # also keeps the official code's prints out of the answers
    try:
        core = load(channel.receive()[0])
        channel.send({})
        while True:
            channel.send({}, answer(core, *channel.receive()))
    except EOFError:
        return
    except Exception as error:  # noqa: BLE001 - the boundary of the process: all is reported
        text = " ".join(f"{type(error).__name__}: {error}".split())[:600]
        full = isinstance(error, MemoryError) or any(phrase in text for phrase in MEMORY_PHRASES)
        channel.send({"error": text, **({"kind": "memory"} if full else {})})


if __name__ == "__main__":
    main()
