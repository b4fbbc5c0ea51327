"""The propagator `sam2_video`: SAM 2 through transformers or through its authors' package."""

from dataclasses import asdict

from harness.errors import UsageError
from harness.models.backends import sam2 as checkpoints
from harness.models.backends.checkpoint_part import Computing
from harness.models.propagators.sam2_transformers import Sam2Video
from harness.options import with_options


@with_options(Computing)
def sam2_video(
    computing: Computing, *, checkpoint: str | None = None, config: str | None = None
) -> Sam2Video:
    """SAM 2's video model from a folder or the local cache.

    Args:
        checkpoint: A folder, or a name such as facebook/sam2-hiera-large. Safetensors only. With
            `config`, a .pt file. It must be given.
        config: A configuration of the authors' package `sam2`, such as sam2.1_hiera_l; the package
            then runs the network. None: transformers runs it.

    Raises:
        MissingDependency: `config` is given, and the package is not installed.
        ModelError: the checkpoint is missing, incomplete, unsafe to load, or has no memory.
        UsageError: no checkpoint is named, or one that harness trained (`pocket_sam_video`), or the
            package has no such configuration.
    """
    if config is None:
        checkpoint_files = checkpoints.published_checkpoint(
            "sam2_video", checkpoint, memory=True, toy="pocket_sam_video"
        )
        return Sam2Video(**checkpoint_files, **asdict(computing))
    if computing.compiled:
        raise UsageError(
            "sam2_video(compiled=true)",
            expected="no config=…, because the authors' package is not compiled",
            found=f"config={config}",
        )
    from harness.models.backends import sam2_package as package
    from harness.models.propagators.sam2_package import Sam2VideoPackage

    checkpoint_files, name = package.find_checkpoint("sam2_video", checkpoint, config=config)
    return Sam2VideoPackage(**checkpoint_files, **asdict(computing), config=name)
