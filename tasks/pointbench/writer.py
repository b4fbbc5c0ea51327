"""Still scenes in the layout of PointArena's data: `data.json`, `images`, `masks`."""

from pathlib import Path

from harness.tasks.pointbench.task import COUNTING
from harness.tasks.pointing.writing import pointed
from harness.tasks.refer.writer import write_json
from harness.world.shapes import World


def write(world: World, root: Path) -> None:
    """Write `root/pointbench`: `data.json`, `images` and `masks`; several referents are counted."""
    place, entries = root / "pointbench", []
    (place / "masks").mkdir(parents=True)
    for one in pointed(world, "test"):
        count, name = one.question.count, f"{one.scene.index:05d}.png"
        category = COUNTING if count > 1 else "spatial"
        one.write_image(place / "images" / category / name)
        (place / "masks" / name).write_bytes(one.encoded)
        entry = {"image_filename": name, "mask_filename": name, "category": category}
        entry |= {"user_input": f"Point to {one.question.text}"}
        entries.append(entry | ({"count": count} if count > 1 else {}))
    write_json(place / "data.json", entries)
