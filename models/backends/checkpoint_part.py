"""`CheckpointPart`, the base of segmenters, propagators and nodes that run a transformers network.

A subclass names transformers' classes (`family`), and this class loads their network and processor
at the first use. `find_checkpoint` finds and checks the files, `Computing` holds the options dtype,
device and compiled.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, TypedDict, get_args

from harness.errors import ModelError, UsageError
from harness.models.backends import checkpoint as checkpoints
from harness.models.backends.checkpoint import Dtype
from harness.models.backends.loading import check_report, loaded_once, loading, memory
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.segmentation import Part

if TYPE_CHECKING:
    from transformers import PreTrainedModel, ProcessorMixin


@dataclass(frozen=True, slots=True, kw_only=True)
class Computing:
    """Options that plugins of such parts share."""

    dtype: Dtype = "auto"
    """Type of weights and activations; `auto`: the type that the checkpoint was saved in."""
    device: str = "auto"
    """Device, such as `cuda:1` or `cpu`; `auto`: CUDA if there is a GPU, else the CPU."""
    compiled: bool = False
    """Compile the image encoder when it is first used, about a minute: for many images
    (docs/scale.md). Masks may differ by rounding."""

    def __post_init__(self) -> None:
        if self.dtype not in get_args(Dtype):
            expected = " or ".join(get_args(Dtype))
            raise UsageError("dtype=…", expected=expected, found=repr(self.dtype)[:40])


class CheckpointFiles(TypedDict):
    """A checkpoint that was checked but not loaded; the fields are those of a `CheckpointPart`."""

    checkpoint: str
    weights: str
    files: str
    folder: Path


def find_checkpoint(
    checkpoint: str, kinds: Sequence[str], *, fix: str, name: str | None = None
) -> CheckpointFiles:
    """Find a checkpoint and check its files.

    Args:
        checkpoint: A folder, or a name that the Hugging Face cache holds.
        kinds: Architectures (`model_type`) that the caller can run.
        fix: Advice in the error for another architecture.
        name: Name in records and errors; None: `checkpoint`.

    Raises:
        ModelError: it is missing, incomplete, unsafe to load, or of another architecture.
    """
    folder = checkpoints.find(checkpoint)
    model_type = checkpoints.check(folder).get("model_type")
    if model_type not in kinds:
        raise ModelError(
            f"checkpoint {name or checkpoint}",
            expected=f"model_type {' or '.join(map(repr, kinds))}",
            found=repr(model_type)[:60],
            fix=fix,
        )
    return CheckpointFiles(
        checkpoint=name or checkpoint,
        weights=checkpoints.fingerprint(folder),
        files=checkpoints.deciding_text(folder),
        folder=folder,
    )


@dataclass(frozen=True, kw_only=True)
class CheckpointPart(Part):
    """A part whose network and processor come from a checkpoint; loaded at the first use."""

    checkpoint: str
    weights: str
    """Hash of all weights."""
    files: str
    """Hashes of the files beside the weights that change its results."""
    folder: Path
    """Folder of the checkpoint; for the authors' package of SAM 2, its file."""
    dtype: str = "auto"
    device: str = "auto"

    family: ClassVar[str]
    """Beginning of the names of transformers' classes, such as `Sam2`."""
    compiled = False

    @property
    def classes(self) -> tuple[str, str]:
        """Names of transformers' classes of the network and of the processor."""
        return f"{self.family}Model", f"{self.family}Processor"

    @loaded_once
    def network(self) -> "PreTrainedModel":
        """The network in evaluation mode, on its device.

        Raises:
            ModelError: the weights are not exactly those of the architecture.
            OutOfMemory: the network does not fit on the device.
        """
        ensure_torchvision()
        import torch
        import transformers

        saved = checkpoints.saved_dtype(checkpoints.check(self.folder))
        dtype = saved if self.dtype == "auto" else self.dtype
        with loading(f"checkpoint {self.checkpoint}"), quiet_loading(transformers):
            network, report = getattr(transformers, self.classes[0]).from_pretrained(
                self.folder,
                dtype=torch.float32 if dtype == "auto" else getattr(torch, dtype),
                use_safetensors=True,
                local_files_only=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
        check_report(f"checkpoint {self.checkpoint}", report)
        with memory():
            network = network.to(resolve_device(self.device)).eval()
        if self.compiled:
            network.vision_encoder.compile(dynamic=False)
        return network

    @loaded_once
    def processor(self) -> "ProcessorMixin":
        """The processor.

        Raises:
            ModelError: its configuration is missing or damaged.
        """
        ensure_torchvision()
        import transformers

        with loading(f"processor of checkpoint {self.checkpoint}"):
            return getattr(transformers, self.classes[1]).from_pretrained(
                self.folder, local_files_only=True, trust_remote_code=False
            )

    @property
    def devices(self) -> tuple[str, ...]:
        """The device, as the setting names it."""
        return (self.device,)

    def prepare(self) -> None:
        """Load the processor and the network.

        Raises:
            ModelError: one of them cannot be loaded, or the network cannot be compiled.
        """
        assert self.processor is not None and self.network is not None, "loading raises otherwise"
        if self.compiled:
            self._compile_now()

    def _compile_now(self) -> None:
        """Compile the image encoder now, instead of at the first sample."""
        import torch

        network = self.network
        side = network.config.vision_config.backbone_config.image_size[0]
        blank = torch.zeros(1, 3, side, side, device=network.device, dtype=network.dtype)
        with memory(), torch.inference_mode():
            try:
                network.get_image_features(blank, return_dict=True)
            except torch.OutOfMemoryError:
                raise
            except Exception as error:  # compilers raise exceptions of many types
                raise ModelError(
                    f"checkpoint {self.checkpoint}, compiled=true",
                    expected="what torch.compile needs here: a compiler for C++ (CPU) or Triton "
                    "(CUDA)",
                    found=str(error)[:200],
                    fix="Leave compiled=true out.",
                ) from error


def resolve_device(device: str) -> str:
    """Return the device that `auto` means, or the device itself."""
    if device != "auto":
        return device
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


@contextmanager
def quiet_loading(transformers: ModuleType) -> Iterator[None]:
    """Suppress transformers' warnings about weights of a checkpoint that are not used.

    This is intended: weights of `sam2_video` are loaded as `sam2`, those of a classifier as its
    encoder.
    """
    logging = transformers.utils.logging
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)
