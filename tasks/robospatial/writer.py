"""Scenes in the layout that RoboSpatial's `download_benchmark.py` writes."""

from pathlib import Path

from harness.tasks.pointing.writing import Pointed, pointed
from harness.tasks.refer.writer import write_json
from harness.world.shapes import World

SHARE = 0.25
"""Share of the region's box that its polygon leaves on each side."""


def write(world: World, root: Path) -> None:
    """Write `root/robospatial/annotations.json` and `images`: each scene asked in three ways."""
    place, entries = root / "robospatial", []
    for example in pointed(world, "test"):
        name, text = f"images/img_context_{example.scene.index}.png", example.question.text
        example.write_image(place / name)
        several = "yes" if example.question.count > 1 else "no"
        for category, question, answer in (
            ("context", f"Point to a place at {text}.", _polygon(example)),
            ("configuration", f"Is there {text}?", "Yes"),
            ("compatibility", f"Does {text} name several things?", several),
        ):
            entry = {"category": category, "question": question, "answer": answer, "img": name}
            entries.append({**entry, "depth_image": None, "mask": None})
    write_json(place / "annotations.json", entries)


def _polygon(example: Pointed) -> str:
    """A rectangle within the region's box, in shares of the image's sides."""
    height, width = example.region.shape
    left, top, right, bottom = example.box
    sides = [(left / width, right / width), (top / height, bottom / height)]
    xs, ys = ((low + SHARE * (high - low), high - SHARE * (high - low)) for low, high in sides)
    corners = ((xs[0], ys[0]), (xs[1], ys[0]), (xs[1], ys[1]), (xs[0], ys[1]))
    return "[" + ", ".join(f"({x:.4f}, {y:.4f})" for x, y in corners) + "]"
