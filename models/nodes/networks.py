"""Networks of transformers behind nodes: found by folder or hub name, loaded when first used."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import ModelError, UsageError
from harness.model import settings
from harness.models.backends import checkpoint as checkpoints
from harness.models.backends.loading import check_report, loading, memory
from harness.models.backends.sam2 import check_dtype, place
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.node import Node


@dataclass(frozen=True, slots=True)
class Weights:
    """A checkpoint that has been looked at, and not loaded."""

    name: str
    folder: Path
    fingerprint: str
    """Hash of all weights."""
    files: str
    """Hashes of the files beside the weights that decide results."""


def find_weights(
    node: str, checkpoint: str | None, *, kinds: tuple[str, ...], example: str, instead: str
) -> Weights:
    """The checkpoint that a node's SPEC names.

    Args:
        node: The node's name.
        checkpoint: A folder, or a name that the Hugging Face cache holds.
        kinds: Values of `model_type` in its configuration that the node can run.
        example: A name on the hub.
        instead: A node that does something alike without weights.

    Raises:
        UsageError: none is named.
        ModelError: it is not there, not whole, not safe to load, or another network.
    """
    if checkpoint is None:
        raise UsageError(
            f"node {node}",
            expected="checkpoint=, the weights of its network",
            found="none",
            fix=f"For example {node}(checkpoint={example}) or a folder. Without a download, "
            f"there is the node {instead}.",
        )
    folder = checkpoints.find(checkpoint)
    configuration = checkpoints.check(folder)
    kind = configuration.get("model_type")
    if kind not in kinds:
        raise ModelError(
            f"checkpoint {checkpoint}",
            expected=f"model_type {' or '.join(map(repr, kinds))}",
            found=repr(kind)[:60],
            fix=f"Give a checkpoint such as {example}.",
        )
    return Weights(
        checkpoint, folder, checkpoints.fingerprint(folder), checkpoints.deciding_text(folder)
    )


@dataclass(frozen=True, kw_only=True)
class NetworkNode(Node):
    """A node around one network of transformers and its processor."""

    weights: Weights
    dtype: str
    device: str
    _loaded: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Raise UsageError unless the type is one that networks are run in."""
        check_dtype(self.name, self.dtype)

    @property
    def devices(self) -> tuple[str, ...]:
        """The one of the network."""
        return (self.device,)

    def describe(self) -> Mapping[str, Any]:
        """Settings and fingerprint of the weights."""
        return {
            **settings(self),
            "checkpoint": self.weights.name,
            "weights": self.weights.fingerprint,
            "files": self.weights.files,
        }

    def prepare(self) -> None:
        """Load the network."""
        self._network()

    def _network(self) -> tuple[Any, Any]:
        """The network in evaluation mode and its processor."""
        with self._lock:
            if not self._loaded:
                with memory():
                    self._loaded["processor"] = self._processor()
                    self._loaded["network"] = self._load().to(place(self.device)).eval()
        return self._loaded["network"], self._loaded["processor"]

    def _class(self) -> str:
        """Name of the network's class in transformers."""
        raise NotImplementedError

    def _load(self) -> Any:
        ensure_torchvision()
        import torch
        import transformers

        saved = checkpoints.saved_dtype(checkpoints.check(self.weights.folder))
        wanted = saved if self.dtype == "auto" else self.dtype
        with loading(f"checkpoint {self.weights.name}"):
            made, report = getattr(transformers, self._class()).from_pretrained(
                self.weights.folder,
                dtype=torch.float32 if wanted == "auto" else getattr(torch, wanted),
                use_safetensors=True,
                local_files_only=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
        check_report(self.weights.name, report)
        return made

    def _processor(self) -> Any:
        ensure_torchvision()
        import transformers

        with loading(f"processor of checkpoint {self.weights.name}"):
            return getattr(transformers, self._processor_class()).from_pretrained(
                self.weights.folder, local_files_only=True, trust_remote_code=False
            )

    def _processor_class(self) -> str:
        """Name of the processor's class in transformers."""
        return "AutoImageProcessor"
