"""The generated world in the layouts of TAO, KITTI tracking and ScanNet, and the set of it."""

from pathlib import Path

from harness.world.shapes import World
from stv_builder.build import BuildSettings, build
from stv_builder.shapes.kitti import write_kitti
from stv_builder.shapes.scannet import write_scannet
from stv_builder.shapes.street import FRAMES, street
from stv_builder.shapes.tao import write_tao

MAX_SCENES = 3  # scenes of each source


def settings(seed: int) -> BuildSettings:
    """Return the settings for scenes, which are short: every frame of them is used."""
    return BuildSettings(
        seed=seed, kitti_step=1, scannet_step=1, frames=FRAMES, per_clip=1, images=1, rl=24
    )


def write(world: World, root: Path) -> None:
    """Write `root/{tao,kitti_tracking,scannet}` and build `root/stv_205k` of them.

    Scenes are composed for this set: those of the world's families rarely allow every question.
    """
    indices = range(min(MAX_SCENES, world.size))
    write_tao(root, [street(world.seed, index) for index in indices])
    write_kitti(root, [street(world.seed, MAX_SCENES + index) for index in indices])
    write_scannet(root, indices, seed=world.seed)
    build(root, root / "stv_205k", settings(world.seed))
