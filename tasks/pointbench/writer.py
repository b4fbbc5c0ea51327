"""Still scenes in the layout of PointArena's data: `data.json`, `images`, `masks`."""

from pathlib import Path

from harness.tasks.pointbench.task import COUNTING
from harness.tasks.pointing.writing import Pointed, pointed
from harness.tasks.refer.writer import write_json
from harness.world.encode import encode_png
from harness.world.raster import render
from harness.world.shapes import World


def write(world: World, root: Path) -> None:
    """Write `root/pointbench`: `data.json`, `images/<category>/*.png` and `masks/*.png`."""
    place = root / "pointbench"
    (place / "masks").mkdir(parents=True)
    entries = [_entry(one, place) for one in pointed(world, "test")]
    write_json(place / "data.json", entries)


def _entry(one: Pointed, place: Path) -> dict[str, object]:
    """Write an image and its mask; several referents are counted."""
    count, name = one.question.count, f"{one.scene.index:05d}.png"
    category = COUNTING if count > 1 else "spatial"
    folder = place / "images" / category
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(encode_png(render(one.scene)))
    (place / "masks" / name).write_bytes(one.encoded)
    entry = {
        "image_filename": name,
        "mask_filename": name,
        "category": category,
        "user_input": f"Point to {one.question.text}",
    }
    return entry | ({"count": count} if count > 1 else {})
