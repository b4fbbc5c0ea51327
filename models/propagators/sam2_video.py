"""The propagator `sam2_video`: through transformers, or through its authors' package."""

from harness.errors import UsageError
from harness.models.backends import sam2 as checkpoints
from harness.models.propagators.sam2_transformers import Sam2Video


def sam2_video(
    *,
    checkpoint: str | None = None,
    config: str | None = None,
    dtype: checkpoints.Dtype = "auto",
    device: str = "auto",
    compiled: bool = False,
) -> Sam2Video:
    """SAM 2's video model from a folder or the local cache.

    Args:
        checkpoint: A folder, or a name such as facebook/sam2-hiera-large. Safetensors only. With
            `config`, a .pt file. It must be given.
        config: A configuration of the authors' package `sam2`, such as sam2.1_hiera_l, which then
            runs the network; None: transformers does.
        dtype: Of weights and activations; `auto` is what the checkpoint was saved in.
        device: Such as `cuda:1` or `cpu`; `auto` is CUDA where there is one.
        compiled: Compile the image encoder when it is first used, about a minute: for many images
            (docs/scale.md). Masks may differ by rounding.

    Raises:
        MissingDependency: the package is asked for and not installed.
        ModelError: the checkpoint is not there, not whole, not safe to load, or has no memory.
        UsageError: no checkpoint is named, or one that harness trained (`pocket_sam_video`), the
            type is none, or the package has no such configuration.
    """
    checkpoints.check_dtype("sam2_video", dtype)
    if config is not None:
        if compiled:
            raise UsageError(
                "sam2_video(compiled=true)",
                expected="no config=…, as the authors' package is run as it is",
                found=f"config={config}",
            )
        return _of_package(checkpoint, config=config, dtype=dtype, device=device)
    found = checkpoints.published_checkpoint(
        "sam2_video", checkpoint, memory=True, toy="pocket_sam_video"
    )
    return Sam2Video(
        checkpoint=found.name,
        weights=found.fingerprint,
        files=found.files,
        folder=found.folder,
        dtype=dtype,
        device=device,
        compiled=compiled,
    )


def _of_package(checkpoint: str | None, *, config: str, dtype: str, device: str) -> Sam2Video:
    from harness.models.backends import sam2_package as package
    from harness.models.propagators.sam2_package import Sam2VideoPackage

    found = package.find_checkpoint("sam2_video", checkpoint, config=config)
    return Sam2VideoPackage(
        checkpoint=found.name,
        weights=found.fingerprint,
        files=found.files,
        folder=found.folder,
        dtype=dtype,
        device=device,
        config=str(found.configuration["config"]),
    )
