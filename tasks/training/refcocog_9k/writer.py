"""Write sample data: still scenes in the layout of Seg-Zero's RefCOCOg 9K."""

from collections.abc import Iterator
from pathlib import Path

from harness.tasks.training.refcocog_9k.task import REPOSITORY
from harness.tasks.training.shapes840 import one_object, row, scene_question, scenes, write_rows
from harness.world.shapes import World


def write(world: World, root: Path) -> None:
    """Write `root/refcocog_9k/refCOCOg_9k_840/data/train-….parquet`, at most `size` rows."""
    write_rows(root / "refcocog_9k" / REPOSITORY, _rows(world))


def _rows(world: World) -> Iterator[dict[str, object]]:
    """Yield the rows of scenes with a question for one object."""
    for scene in scenes(world):
        question = scene_question(scene, plural=False)
        if question.count != 1:
            continue
        name = f"shapes_{scene.index * 100 + question.referents[0]}"
        yield row(scene, name, question, one_object(scene, question.referents[0]))
