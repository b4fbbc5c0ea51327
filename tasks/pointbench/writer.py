"""Write sample data: still scenes in PointArena's layout (`data.json`, `images`, `masks`)."""

from pathlib import Path

from harness.tasks.pointbench.task import COUNTING
from harness.tasks.pointing.writing import pointed
from harness.tasks.refer.writer import write_json
from harness.world.shapes import World


def write(world: World, root: Path) -> None:
    """Write `root/pointbench`: `data.json`, `images` and `masks`; several referents are counted."""
    folder, entries = root / "pointbench", []
    (folder / "masks").mkdir(parents=True)
    for example in pointed(world, "test"):
        count, name = example.question.count, f"{example.scene.index:05d}.png"
        category = COUNTING if count > 1 else "spatial"
        example.write_image(folder / "images" / category / name)
        (folder / "masks" / name).write_bytes(example.encoded)
        entry = {"image_filename": name, "mask_filename": name, "category": category}
        entry |= {"user_input": f"Point to {example.question.text}"}
        entries.append(entry | ({"count": count} if count > 1 else {}))
    write_json(folder / "data.json", entries)
