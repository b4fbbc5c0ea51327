"""A LoRA adapter's folder: looked at before anything is loaded, held against its base.

Safetensors only, of type LoRA only, and made for the base that is named: PEFT writes into
`adapter_config.json` which checkpoint an adapter was trained on.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ModelError
from harness.files import open_regular
from harness.models.backends import checkpoint as checkpoints

WEIGHTS = "adapter_model.safetensors"
PICKLED = "adapter_model.bin"
SAME_NAME = frozenset({checkpoints.TRAINED, "adapter"})
"""Names of folders that many checkpoints have; their parents' tell them apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """An adapter that may be loaded."""

    name: str
    """Folder or hub name, as the user typed it."""
    folder: Path
    merged: bool
    """Added to the weights once, instead of being computed beside them at each step."""

    @property
    def weights(self) -> Path:
        """Its one safetensors file."""
        return self.folder / WEIGHTS

    def describe(self) -> dict[str, object]:
        """Plain data for the record."""
        return {
            "adapter": self.name,
            "adapter_weights": self.fingerprint(),
            "merged": self.merged,
        }

    def fingerprint(self) -> str:
        """BLAKE2b over its configuration and its weights."""
        whole = hashlib.blake2b(digest_size=16)
        for path in (self.folder / checkpoints.ADAPTER, self.weights):
            with open_regular(path) as file:
                content = hashlib.file_digest(file, hashlib.blake2b)
            whole.update(content.digest())
        return whole.hexdigest()


def find(
    adapter: str, *, checkpoint: str, base: Path, merged: bool = False, allow_any_base: bool = False
) -> Adapter:
    """The adapter in a folder (or in the folder `adapter` of a training), fit for its base.

    Args:
        adapter: The folder.
        checkpoint: The base as it was asked for.
        base: The base's folder.
        merged: See `Adapter`.
        allow_any_base: Do not compare the base with the one that the adapter names.

    Raises:
        ModelError: it is not there, no LoRA, pickled, cut off, or made for another base.
    """
    folder = folder_of(adapter)
    if not (folder / checkpoints.ADAPTER).is_file():
        raise ModelError(
            f"adapter {adapter!r}", expected=f"a folder with {checkpoints.ADAPTER}", found="none"
        )
    configuration = checkpoints.read_json(folder / checkpoints.ADAPTER)
    kind = configuration.get("peft_type")
    if kind != "LORA":
        raise ModelError(f"adapter {folder}", expected="one of type LORA", found=repr(kind)[:40])
    if not (folder / WEIGHTS).is_file():
        pickled = (folder / PICKLED).is_file()
        raise ModelError(
            f"adapter {folder}",
            expected=WEIGHTS,
            found=f"{PICKLED}, a pickle, which can run code when loaded" if pickled else "none",
            fix="Convert it to safetensors in a place that you trust." if pickled else "",
        )
    checkpoints.check_safetensors(folder / WEIGHTS)
    if not allow_any_base:
        _check_base(folder, configuration, checkpoint, base)
    return Adapter(name=adapter, folder=folder, merged=merged)


def folder_of(adapter: str) -> Path:
    """The folder of an adapter: itself, or `adapter` in the folder of a training."""
    folder = Path(adapter).expanduser()
    inner = folder / "adapter"
    if (inner / checkpoints.ADAPTER).is_file() and not (folder / checkpoints.ADAPTER).is_file():
        return inner
    return folder


def _check_base(
    folder: Path, configuration: dict[str, object], checkpoint: str, base: Path
) -> None:
    made_for = configuration.get("base_model_name_or_path")
    if not isinstance(made_for, str) or not made_for:
        return  # it does not say; its weights' names and shapes are compared when it is loaded
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
    """The part of a path or a hub's name that names the checkpoint."""
    parts = [part for part in Path(path).parts if part not in SAME_NAME]
    return parts[-1].casefold() if parts else ""
