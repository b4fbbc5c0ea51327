"""The segmenter `sam2`: SAM 2 through transformers or through its authors' package."""

from dataclasses import asdict

from harness.errors import UsageError
from harness.models.backends import sam2 as checkpoints
from harness.models.backends.checkpoint_part import Computing
from harness.models.segmenters.sam2_transformers import Sam2
from harness.options import with_options


@with_options(Computing)
def sam2(
    computing: Computing,
    *,
    checkpoint: str | None = None,
    config: str | None = None,
    multimask: bool = True,
) -> Sam2:
    """SAM 2 from a folder or the local cache.

    Args:
        checkpoint: A folder, or a name such as facebook/sam2-hiera-large. Safetensors only. With
            `config`, a .pt file, or facebook/sam2-hiera-large/sam2_hiera_large.pt of the cache.
            It must be given.
        config: A configuration of the authors' package `sam2`, such as sam2.1_hiera_l; the package
            then runs the network. None: transformers runs it.
        multimask: Decode three masks and take the best one, as the official evaluations do,
            instead of decoding one.

    Raises:
        MissingDependency: `config` is given, and the package is not installed.
        ModelError: the checkpoint is missing, incomplete, unsafe to load, or not SAM 2.
        UsageError: no checkpoint is named, or one that harness trained (`pocket_sam`), or the
            package has no such configuration.
    """
    if config is None:
        checkpoint_files = checkpoints.published_checkpoint(
            "sam2", checkpoint, memory=False, toy="pocket_sam"
        )
        return Sam2(**checkpoint_files, **asdict(computing), multimask=multimask)
    if computing.compiled:
        raise UsageError(
            "sam2(compiled=true)",
            expected="no config=…, because the authors' package is not compiled",
            found=f"config={config}",
        )
    from harness.models.backends import sam2_package as package
    from harness.models.segmenters.sam2_package import Sam2Package

    checkpoint_files, name = package.find_checkpoint("sam2", checkpoint, config=config)
    return Sam2Package(**checkpoint_files, **asdict(computing), multimask=multimask, config=name)
