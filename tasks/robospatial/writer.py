"""Scenes in the layout that RoboSpatial's `download_benchmark.py` writes."""

from pathlib import Path

import numpy as np

from harness.tasks.pointing.writing import Pointed, pointed
from harness.tasks.refer.writer import write_json
from harness.world.encode import encode_png
from harness.world.raster import render
from harness.world.shapes import World

SHARE = 0.25
"""Of the region's box that its polygon leaves on each side."""


def write(world: World, root: Path) -> None:
    """Write `root/robospatial/annotations.json` and `images`: each scene asked in three ways."""
    place = root / "robospatial"
    (place / "images").mkdir(parents=True)
    entries = [entry for one in pointed(world, "test") for entry in _entries(one, place)]
    write_json(place / "annotations.json", entries)


def _entries(one: Pointed, place: Path) -> list[dict[str, object]]:
    name = f"images/img_context_{one.scene.index}.png"
    (place / name).write_bytes(encode_png(render(one.scene)))
    several = one.question.count > 1
    shared = {"img": name, "depth_image": None, "mask": None}
    asked = (
        ("context", f"Point to a place at {one.question.text}.", _polygon(one)),
        ("configuration", f"Is there {one.question.text}?", "Yes"),
        (
            "compatibility",
            f"Does {one.question.text} name several things?",
            "yes" if several else "no",
        ),
    )
    return [
        {"category": category, "question": text, "answer": answer, **shared}
        for category, text, answer in asked
    ]


def _polygon(one: Pointed) -> str:
    """A rectangle within the region's box, in shares of the image's sides."""
    height, width = one.region.shape
    rows, columns = np.flatnonzero(one.region.any(1)), np.flatnonzero(one.region.any(0))
    left, right = columns[0] / width, (columns[-1] + 1) / width
    top, bottom = rows[0] / height, (rows[-1] + 1) / height
    inset_x, inset_y = SHARE * (right - left), SHARE * (bottom - top)
    xs = (left + inset_x, right - inset_x)
    ys = (top + inset_y, bottom - inset_y)
    corners = ((xs[0], ys[0]), (xs[1], ys[0]), (xs[1], ys[1]), (xs[0], ys[1]))
    return "[" + ", ".join(f"({x:.4f}, {y:.4f})" for x, y in corners) + "]"
