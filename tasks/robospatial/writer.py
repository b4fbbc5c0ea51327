"""Write sample data: still scenes in the layout of RoboSpatial's `download_benchmark.py`."""

from pathlib import Path

from harness.tasks.pointing.writing import Pointed, pointed
from harness.tasks.refer.writer import write_json
from harness.world.shapes import World

MARGIN_SHARE = 0.25
"""Margin of the polygon within the region's box, on each side, as a share of the box's side."""


def write(world: World, root: Path) -> None:
    """Write `root/robospatial/annotations.json` and `images`: three questions per scene."""
    folder, entries = root / "robospatial", []
    for example in pointed(world, "test"):
        name, text = f"images/img_context_{example.scene.index}.png", example.question.text
        example.write_image(folder / name)
        several = "yes" if example.question.count > 1 else "no"
        for category, question, answer in (
            ("context", f"Point to a place at {text}.", _polygon(example)),
            ("configuration", f"Is there {text}?", "Yes"),
            ("compatibility", f"Does {text} name several things?", several),
        ):
            entry = {"category": category, "question": question, "answer": answer, "img": name}
            entries.append({**entry, "depth_image": None, "mask": None})
    write_json(folder / "annotations.json", entries)


def _polygon(example: Pointed) -> str:
    """Return a rectangle within the region's box as text, in shares of the image's sides."""
    height, width = example.region.shape
    left, top, right, bottom = example.box
    x1, y1, x2, y2 = left / width, top / height, right / width, bottom / height
    margin_x, margin_y = MARGIN_SHARE * (x2 - x1), MARGIN_SHARE * (y2 - y1)
    x1, y1, x2, y2 = x1 + margin_x, y1 + margin_y, x2 - margin_x, y2 - margin_y
    corners = ((x1, y1), (x2, y1), (x2, y2), (x1, y2))
    return "[" + ", ".join(f"({x:.4f}, {y:.4f})" for x, y in corners) + "]"
