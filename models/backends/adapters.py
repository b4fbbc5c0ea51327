"""Find a LoRA adapter's folder and check it before anything is loaded.

The folder must hold safetensors, be of type LoRA, and belong to the base checkpoint: PEFT writes
into `adapter_config.json` which checkpoint an adapter was trained on. Backends with `adapter=` call
`find`.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ModelError
from harness.files import open_regular
from harness.models.backends import checkpoint as checkpoints
from harness.models.backends.weights import ADAPTER, check_safetensors, read_json

WEIGHTS = "adapter_model.safetensors"
PICKLED = "adapter_model.bin"  # PEFT's older file of weights
COMMON_FOLDER_NAMES = frozenset({checkpoints.TRAINED, "adapter"})
"""Common folder names, which do not identify a checkpoint; the parent's name does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """A LoRA adapter that was checked and may be loaded."""

    name: str
    """Folder or hub name, as the user typed it."""
    folder: Path
    merged: bool
    """True if it is added to the base's weights once, instead of being computed at each step."""

    @property
    def weights(self) -> Path:
        """The safetensors file of the adapter."""
        return self.folder / WEIGHTS

    def describe(self) -> dict[str, object]:
        """Return plain data for the record."""
        return {
            "adapter": self.name,
            "adapter_weights": self.fingerprint(),
            "merged": self.merged,
        }

    def fingerprint(self) -> str:
        """Return the BLAKE2b hash of configuration and weights."""
        digest = hashlib.blake2b(digest_size=16)
        for path in (self.folder / ADAPTER, self.weights):
            with open_regular(path) as file:
                content = hashlib.file_digest(file, hashlib.blake2b)
            digest.update(content.digest())
        return digest.hexdigest()


def find(
    adapter: str, *, checkpoint: str, base: Path, merged: bool = False, allow_any_base: bool = False
) -> Adapter:
    """Return the adapter in a folder, or in the folder `adapter` of a training.

    Args:
        adapter: The folder.
        checkpoint: The base checkpoint, as the user named it.
        base: Folder of the base checkpoint.
        merged: See `Adapter`.
        allow_any_base: Do not compare the base with the one that the adapter names.

    Raises:
        ModelError: the adapter is missing, not LoRA, pickled, cut off, or made for another base.
    """
    folder = folder_of(adapter)
    if not (folder / ADAPTER).is_file():
        raise ModelError(f"adapter {adapter!r}", expected=f"a folder with {ADAPTER}", found="none")
    configuration = read_json(folder / ADAPTER)
    method = configuration.get("peft_type")
    if method != "LORA":
        raise ModelError(f"adapter {folder}", expected="one of type LORA", found=repr(method)[:40])
    if not (folder / WEIGHTS).is_file():
        pickled = (folder / PICKLED).is_file()
        raise ModelError(
            f"adapter {folder}",
            expected=WEIGHTS,
            found=f"{PICKLED}, a pickle, which can run code when loaded" if pickled else "none",
            fix="Convert it to safetensors in a place that you trust." if pickled else "",
        )
    check_safetensors(folder / WEIGHTS)
    if not allow_any_base:
        _check_base(folder, configuration, checkpoint, base)
    return Adapter(name=adapter, folder=folder, merged=merged)


def folder_of(adapter: str) -> Path:
    """Return an adapter's folder: the path itself, or `adapter` in the folder of a training."""
    folder = Path(adapter).expanduser()
    inner = folder / "adapter"
    if (inner / ADAPTER).is_file() and not (folder / ADAPTER).is_file():
        return inner
    return folder


def _check_base(
    folder: Path, configuration: dict[str, object], checkpoint: str, base: Path
) -> None:
    """Raise ModelError if the adapter's configuration names another base checkpoint."""
    made_for = configuration.get("base_model_name_or_path")
    if not isinstance(made_for, str) or not made_for:
        return  # not stated; names and shapes of the weights are compared at loading
    if Path(made_for).expanduser().resolve() == base.resolve():
        return
    if _own_name(made_for) not in {_own_name(checkpoint), _own_name(str(base))}:
        raise ModelError(
            f"adapter {folder}",
            expected=f"one made for checkpoint {checkpoint}",
            found=f"one made for {made_for}",
            fix="Give that one as checkpoint=; allow_any_base=true if it has another name here.",
        )


def _own_name(path: str) -> str:
    """Return the last part of a path or hub name that identifies the checkpoint, in lower case."""
    parts = [part for part in Path(path).parts if part not in COMMON_FOLDER_NAMES]
    return parts[-1].casefold() if parts else ""
