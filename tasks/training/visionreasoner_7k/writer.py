"""Write sample data: still scenes in the layout of VisionReasoner's 7K."""

from collections.abc import Iterator
from pathlib import Path

from harness.tasks.training.shapes840 import objects, row, scene_question, scenes, write_rows
from harness.tasks.training.visionreasoner_7k.task import REPOSITORY
from harness.world.shapes import World


def write(world: World, root: Path) -> None:
    """Write `root/visionreasoner_7k/<the hub's name>/data/train-….parquet`, `size` rows."""
    write_rows(root / "visionreasoner_7k" / REPOSITORY, _rows(world))


def _rows(world: World) -> Iterator[dict[str, object]]:
    """Yield a row for each scene, about several objects where it has such a question."""
    for scene in scenes(world):
        question = scene_question(scene, plural=True)
        name = "shapes_" + "_".join(
            str(scene.index * 100 + referent) for referent in question.referents[:3]
        )
        yield row(scene, name, question, objects(scene, question.referents))
