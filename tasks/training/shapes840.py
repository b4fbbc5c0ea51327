"""Still scenes in the form of the 840 × 840 training tables, for generated worlds."""

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
    """`size` stills of `train`, before a plain background: their large images pack well."""
    chosen = world.scenes("still", "train")[: world.size]
    return [
        replace(scene, background=Background("plain", scene.background.seed)) for scene in chosen
    ]


def image(scene: Scene, name: str) -> dict[str, bytes | str]:
    """The scene squashed to 840 × 840, each pixel the nearest of the scene's, as a table's cell.

    The official tables were made by area interpolation; nearest pixels keep the file small.
    """
    whole = render(scene)
    rows = np.arange(SIDE) * scene.height // SIDE
    columns = np.arange(SIDE) * scene.width // SIDE
    squashed = np.ascontiguousarray(whole[rows][:, columns])
    return {"bytes": encode_png(squashed), "path": name}


def to_840(x: int, y: int, scene: Scene) -> list[int]:
    """A pixel of the scene in the table's frame, rounded as the official script rounds."""
    return [int(x * SIDE / scene.width + 0.5), int(y * SIDE / scene.height + 0.5)]


def box_of(mask: BoolArray, scene: Scene) -> list[int]:
    """[x1, y1, x2, y2] of a mask: its first and its last column and row, in the table's frame."""
    left, top, right, bottom = edges(mask)
    return to_840(left, top, scene) + to_840(right - 1, bottom - 1, scene)


def circles(mask: BoolArray, scene: Scene, count: int) -> list[list[int]]:
    """Centres of the largest circles inside a mask, largest first, in the table's frame.

    After each, the circle is taken out of the mask; where nothing is left, the last comes again.
    """
    left = mask.copy()
    centres: list[list[int]] = []
    y, x = np.mgrid[: mask.shape[0], : mask.shape[1]]
    for _ in range(count):
        depth = distance_transform_edt(np.pad(left, 1))[1:-1, 1:-1]
        row, column = np.unravel_index(int(np.argmax(depth)), depth.shape)
        if depth[row, column] <= 0:
            centres.append(centres[-1])
            continue
        centres.append(to_840(int(column), int(row), scene))
        left &= (x - column) ** 2 + (y - row) ** 2 >= depth[row, column] ** 2
    return centres


def objects(scene: Scene, referents: Sequence[int]) -> str:
    """The solution of VisionReasoner's table."""
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
    """The solution of Seg-Zero's table."""
    mask = visible_masks(scene)[referent]
    left, top, right, bottom = box_of(mask, scene)
    (x1, y1), (x2, y2) = circles(mask, scene, 2)
    return f"<box>({left},{top}),({right},{bottom})</box><points>({x1},{y1}),({x2},{y2})</points>"


def scene_question(scene: Scene, *, plural: bool) -> Question:
    """Return a question of the scene: for several things where it allows one, or for a single
    thing.
    """
    questions = list(every_question(scene))
    wanted = [question for question in questions if (question.count > 1) == plural]
    return Draws(scene.seed, scene.id, "840").choice(wanted or questions)


def row(scene: Scene, name: str, question: Question, solution: str) -> dict[str, object]:
    """A row of either table."""
    return {
        "id": name,
        "problem": question.text,
        "image": image(scene, f"{name}.png"),
        "solution": solution,
        "img_height": scene.height,
        "img_width": scene.width,
    }


def write_rows(place: Path, rows: Iterator[dict[str, object]]) -> None:
    """Write a copy's folder with its one file of `train`."""
    write_table(place, "train", list(rows), COLUMNS)
