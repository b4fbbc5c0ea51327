"""Make rows of the 840 × 840 training tables (`tables840`) from generated still scenes.

The writers of Seg-Zero's and VisionReasoner's sample data use them.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.ndimage import distance_transform_edt

from harness.masks import BoolArray
from harness.tasks.refer.tables import write_table
from harness.tasks.training.tables840 import SIDE
from harness.world.draws import Draws
from harness.world.encode import encode_png
from harness.world.language import Question
from harness.world.questions import every_question
from harness.world.raster import edges, render, visible_masks
from harness.world.scene import Background, Scene
from harness.world.shapes import World

COLUMNS = {
    "id": "string",
    "problem": "string",
    "solution": "string",
    "image": "image",
    "img_height": "int64",
    "img_width": "int64",
}


def scenes(world: World) -> list[Scene]:
    """Return `size` stills of `train`, before a plain background so that large images pack well."""
    chosen = world.scenes("still", "train")[: world.size]
    return [
        replace(scene, background=Background("plain", scene.background.seed)) for scene in chosen
    ]


def image(scene: Scene, name: str) -> dict[str, bytes | str]:
    """Return a table's image cell: the scene squashed to 840 × 840 by nearest-neighbour sampling.

    The official tables were made by area interpolation; nearest neighbours keep the file small.
    """
    pixels = render(scene)
    rows = np.arange(SIDE) * scene.height // SIDE
    columns = np.arange(SIDE) * scene.width // SIDE
    squashed = np.ascontiguousarray(pixels[rows][:, columns])
    return {"bytes": encode_png(squashed), "path": name}


def to_840(x: int, y: int, scene: Scene) -> list[int]:
    """Convert a pixel of the scene to the 840 × 840 image, rounded as by the official script."""
    return [int(x * SIDE / scene.width + 0.5), int(y * SIDE / scene.height + 0.5)]


def box_of(mask: BoolArray, scene: Scene) -> list[int]:
    """Return a mask's first and last column and row in the 840 × 840 image: [x1, y1, x2, y2]."""
    left, top, right, bottom = edges(mask)
    return to_840(left, top, scene) + to_840(right - 1, bottom - 1, scene)


def circles(mask: BoolArray, scene: Scene, count: int) -> list[list[int]]:
    """Return the centres [x, y] of `count` circles inside a mask, in the 840 × 840 image.

    Each is the largest circle in the part of the mask that earlier circles do not cover; if nothing
    is left, the last centre is repeated.
    """
    remaining = mask.copy()
    centres: list[list[int]] = []
    y, x = np.mgrid[: mask.shape[0], : mask.shape[1]]
    for _ in range(count):
        depth = distance_transform_edt(np.pad(remaining, 1))[1:-1, 1:-1]
        row, column = np.unravel_index(int(np.argmax(depth)), depth.shape)
        if depth[row, column] <= 0:
            centres.append(centres[-1])
            continue
        centres.append(to_840(int(column), int(row), scene))
        remaining &= (x - column) ** 2 + (y - row) ** 2 >= depth[row, column] ** 2
    return centres


def objects(scene: Scene, referents: Sequence[int]) -> str:
    """Return a solution as in VisionReasoner's table: JSON with a box and a point per object."""
    masks = visible_masks(scene)
    return json.dumps(
        [
            {
                "bbox_2d": box_of(masks[referent], scene),
                "point_2d": circles(masks[referent], scene, 1)[0],
            }
            for referent in referents
        ]
    )


def one_object(scene: Scene, referent: int) -> str:
    """Return a solution as in Seg-Zero's table: tags with the box and two points of one object."""
    mask = visible_masks(scene)[referent]
    left, top, right, bottom = box_of(mask, scene)
    (x1, y1), (x2, y2) = circles(mask, scene, 2)
    return f"<box>({left},{top}),({right},{bottom})</box><points>({x1},{y1}),({x2},{y2})</points>"


def scene_question(scene: Scene, *, plural: bool) -> Question:
    """Return a random question about the scene, for several things if `plural`, else for one.

    If the scene has no such question, it is any question.
    """
    questions = list(every_question(scene))
    matching = [question for question in questions if (question.count > 1) == plural]
    return Draws(scene.seed, scene.id, "840").choice(matching or questions)


def row(scene: Scene, name: str, question: Question, solution: str) -> dict[str, object]:
    """Return a row of either table, with a solution by `objects` or `one_object`.

    `img_height` and `img_width` are the size before squashing, as in the official tables.
    """
    return {
        "id": name,
        "problem": question.text,
        "image": image(scene, f"{name}.png"),
        "solution": solution,
        "img_height": scene.height,
        "img_width": scene.width,
    }


def write_rows(folder: Path, rows: Iterator[dict[str, object]]) -> None:
    """Write the table's one file of `train` below `folder`, the folder of a copy from the hub."""
    write_table(folder, "train", list(rows), COLUMNS)
