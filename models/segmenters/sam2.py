"""The segmenter `sam2`: through transformers, or through its authors' package."""

from harness.errors import UsageError
from harness.models.backends import sam2 as checkpoints
from harness.models.segmenters.sam2_transformers import Sam2


def sam2(
    *,
    checkpoint: str | None = None,
    config: str | None = None,
    dtype: checkpoints.Dtype = "auto",
    device: str = "auto",
    multimask: bool = True,
    compiled: bool = False,
) -> Sam2:
    """SAM 2 from a folder or the local cache.

    Args:
        checkpoint: A folder, or a name such as facebook/sam2-hiera-large. Safetensors only. With
            `config`, a .pt file. It must be given.
        config: A configuration of the authors' package `sam2`, such as sam2.1_hiera_l, which then
            runs the network; None: transformers does.
        dtype: Of weights and activations; `auto` is what the checkpoint was saved in.
        device: Such as `cuda:1` or `cpu`; `auto` is CUDA where there is one.
        multimask: Take the best of three masks, as the official evaluations do, or ask for one.
        compiled: Compile the image encoder when it is first used, about a minute: for many images
            (docs/scale.md). Masks may differ by rounding.

    Raises:
        MissingDependency: the package is asked for and not installed.
        ModelError: the checkpoint is not there, not whole, not safe to load, or not SAM 2.
        UsageError: no checkpoint is named, or one that harness trained (`pocket_sam`), the type is
            none, or the package has no such configuration.
    """
    checkpoints.check_dtype("sam2", dtype)
    if config is not None:
        if compiled:
            raise UsageError(
                "sam2(compiled=true)",
                expected="no config=…, as the authors' package is run as it is",
                found=f"config={config}",
            )
        return _of_package(
            checkpoint, config=config, dtype=dtype, device=device, multimask=multimask
        )
    found = checkpoints.published_checkpoint("sam2", checkpoint, memory=False, toy="pocket_sam")
    return Sam2(
        checkpoint=found.name,
        weights=found.fingerprint,
        files=found.files,
        folder=found.folder,
        dtype=dtype,
        device=device,
        multimask=multimask,
        compiled=compiled,
    )


def _of_package(
    checkpoint: str | None, *, config: str, dtype: str, device: str, multimask: bool
) -> Sam2:
    from harness.models.backends import sam2_package as package
    from harness.models.segmenters.sam2_package import Sam2Package

    found = package.find_checkpoint("sam2", checkpoint, config=config)
    return Sam2Package(
        checkpoint=found.name,
        weights=found.fingerprint,
        files=found.files,
        folder=found.folder,
        dtype=dtype,
        device=device,
        multimask=multimask,
        config=str(found.configuration["config"]),
    )
