"""SAM 2 checkpoints through transformers: found, looked at, and loaded when first used."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import numpy as np

from harness.errors import ModelError, UsageError
from harness.media import Frame
from harness.model import Part
from harness.models.backends import checkpoint as checkpoints
from harness.models.backends.loading import check_report, loading, memory
from harness.models.backends.torchvision_cpu import ensure_torchvision

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import BaseImageProcessor, PreTrainedModel, ProcessorMixin

Dtype: TypeAlias = Literal["auto", "float32", "bfloat16", "float16"]
DTYPES = ("auto", "float32", "bfloat16", "float16")

PAPERS = "facebook/sam2-hiera-large"
"""SAM2-Large, with which the papers of the methods segment."""

VIDEO = "sam2_video"
"""The architecture with memory. Its weights hold those of `sam2`, the one for still images."""


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """A checkpoint that has been looked at, and not loaded."""

    name: str
    folder: Path
    fingerprint: str
    """Hash of all weights."""
    configuration: Mapping[str, object]
    files: str = ""
    """Hashes of the files beside the weights that decide the checkpoint's results."""


def find_checkpoint(checkpoint: str, *, memory: bool, name: str | None = None) -> CheckpointFiles:
    """Find a checkpoint and look at its files.

    Args:
        checkpoint: A folder, or a name that the Hugging Face cache holds such as
            facebook/sam2.1-hiera-large.
        memory: Whether it must be able to follow objects through videos.
        name: What records and errors call it; None: as it was named.

    Raises:
        ModelError: it is not there, not whole, not safe to load, or not SAM 2.
    """
    folder = checkpoints.find(checkpoint)
    configuration = checkpoints.check(folder)
    kind = configuration.get("model_type")
    if kind != VIDEO and (memory or kind != "sam2"):
        raise ModelError(
            f"checkpoint {checkpoint}",
            expected=f"model_type {VIDEO!r}" + ("" if memory else " or 'sam2'"),
            found=repr(kind)[:60],
            fix="Give a SAM 2 checkpoint in transformers' format, such as "
            "facebook/sam2.1-hiera-large.",
        )
    return CheckpointFiles(
        name or checkpoint,
        folder,
        checkpoints.fingerprint(folder),
        configuration,
        checkpoints.deciding_text(folder),
    )


def published_checkpoint(
    plugin: str, checkpoint: str | None, *, memory: bool, toy: str
) -> CheckpointFiles:
    """The checkpoint that a SPEC names: none that harness trained, which has a name of its own.

    Args:
        plugin: What errors call the caller.
        checkpoint: What the SPEC says.
        memory: Whether it must be able to follow objects through videos.
        toy: The plugin for the small network that ships.

    Raises:
        UsageError: it names none, or one that harness trained.
        ModelError: it is not there, not whole, not safe to load, or not SAM 2.
    """
    if checkpoint is None:
        raise UsageError(
            plugin,
            expected="checkpoint=, the weights of SAM 2",
            found="none",
            fix=f"For example {plugin}(checkpoint={PAPERS}), which the papers of the methods here "
            f"segment with, {plugin}(checkpoint=facebook/sam2.1-hiera-large), or a folder. The "
            f"small network for coloured shapes that ships is {toy}.",
        )
    made = find_checkpoint(checkpoint, memory=memory)
    if trained_here(made.folder):
        raise UsageError(
            f"{plugin}(checkpoint={checkpoint})",
            expected="the weights of SAM 2",
            found="a small network that harness trained",
            fix=f"Name it {toy}(checkpoint={checkpoint}).",
        )
    return made


def check_dtype(plugin: str, dtype: str) -> None:
    """Raise UsageError unless a type is one that networks are run in."""
    if dtype not in DTYPES:
        raise UsageError(f"{plugin}(dtype=…)", expected=" or ".join(DTYPES), found=repr(dtype)[:40])


def place(device: str) -> str:
    """The device that `auto` means."""
    if device != "auto":
        return device
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def network(
    kind: str, folder: Path, *, name: str, dtype: str, device: str, compiled: bool = False
) -> "PreTrainedModel":
    """A Sam2Model or Sam2VideoModel in evaluation mode, on its device.

    Args:
        kind: Which of these classes.
        folder: Where the checkpoint lies.
        name: What errors call it.
        dtype: `auto` is what the checkpoint's configuration says.
        device: `auto` is CUDA where there is one.
        compiled: Compile what looks at images, all of which have one size, when it is first used.

    Raises:
        ModelError: its weights are not exactly those of the architecture.
        OutOfMemory: it does not fit on the device.
    """
    ensure_torchvision()
    import torch
    import transformers

    saved = checkpoints.saved_dtype(checkpoints.check(folder))
    wanted = saved if dtype == "auto" else dtype
    with loading(f"checkpoint {name}"), _quiet_loading(transformers):
        made, report = getattr(transformers, kind).from_pretrained(
            folder,
            dtype=torch.float32 if wanted == "auto" else getattr(torch, wanted),
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    check_report(name, report)
    with memory():
        made = made.to(place(device)).eval()
    if compiled:
        made.vision_encoder.compile(dynamic=False)
    return made


def compile_now(network: "PreTrainedModel", *, name: str) -> None:
    """Let what looks at images be compiled before the first sample.

    Raises:
        ModelError: it cannot be compiled here.
    """
    import torch

    side = network.config.vision_config.backbone_config.image_size[0]
    blank = torch.zeros(1, 3, side, side, device=network.device, dtype=network.dtype)
    with memory(), torch.inference_mode():
        try:
            network.get_image_features(blank, return_dict=True)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # of whatever compiler there is
            raise ModelError(
                f"checkpoint {name}, compiled=true",
                expected="what torch.compile needs here: a compiler for C++ (CPU) or Triton (CUDA)",
                found=str(error)[:200],
                fix="Leave compiled=true out.",
            ) from error


def processor(kind: str, folder: Path, *, name: str) -> "ProcessorMixin":
    """A Sam2Processor or Sam2VideoProcessor.

    Raises:
        ModelError: its configuration is missing or damaged.
    """
    ensure_torchvision()
    import transformers

    with loading(f"processor of checkpoint {name}"):
        return getattr(transformers, kind).from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )


def pixels(processor: "BaseImageProcessor", image: Frame) -> "Tensor":
    """An image as a network takes it: 1 × 3 × side × side, normalised.

    Args:
        processor: The image processor of a checkpoint; its video processor squashes alike.
        image: Height × width × 3, which may be a view or not be written to.
    """
    own = np.array(image, order="C")
    given = {"return_tensors": "pt", "input_data_format": "channels_last"}
    made: Tensor = processor(own, **given)["pixel_values"]
    return made


def float_pixels(processor: "BaseImageProcessor", image: Frame) -> "Tensor":
    """The same, resized as SAM 2's authors do it (`SAM2Transforms` of their package).

    They bring bytes to 0 to 1 first and resize these numbers; `pixels` resizes bytes, which rounds
    what it makes. Both are bilinear with antialiasing.
    """
    import torch

    own = torch.from_numpy(np.array(image, order="C")).permute(2, 0, 1).contiguous()
    given = {"return_tensors": "pt", "input_data_format": "channels_first", "do_rescale": False}
    made: Tensor = processor(own.float().div(255), **given)["pixel_values"]
    return made


@dataclass(frozen=True, kw_only=True)
class CheckpointPart(Part):
    """A part whose network and processor are of a checkpoint, loaded when first used."""

    checkpoint: str
    weights: str
    """A hash of all weights."""
    files: str
    """Hashes of the files beside the weights that decide its results."""
    folder: Path
    """Folder of the checkpoint; for the authors' package, its file."""
    dtype: str = "auto"
    device: str = "auto"
    family: ClassVar[str]
    """Beginning of the names of transformers' classes."""
    compiled = False

    @cached_property
    def network(self) -> "PreTrainedModel":
        """The family's model."""
        return network(
            f"{self.family}Model",
            self.folder,
            name=self.checkpoint,
            dtype=self.dtype,
            device=self.device,
            compiled=self.compiled,
        )

    @cached_property
    def processor(self) -> "ProcessorMixin":
        """The family's processor."""
        return processor(f"{self.family}Processor", self.folder, name=self.checkpoint)

    @property
    def devices(self) -> tuple[str, ...]:
        """Its setting."""
        return (self.device,)

    def prepare(self) -> None:
        """Load the processor and the network.

        Raises:
            ModelError: one of them cannot be loaded as it is, or compiled.
        """
        assert self.processor is not None and self.network is not None, "they raise otherwise"
        if self.compiled:
            compile_now(self.network, name=self.checkpoint)


def trained_here(folder: Path) -> bool:
    """Return True if harness trained a checkpoint, which has then seen images by `pixels`."""
    return (folder / checkpoints.TRAINING).is_file()


@contextmanager
def _quiet_loading(transformers: ModuleType) -> Iterator[None]:
    """Suppress the warning that weights of `sam2_video` are loaded as `sam2`, which is intended."""
    logging = transformers.utils.logging
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)
