"""A contact sheet: examples of a world on one picture, to be looked at by people."""

import textwrap
from collections.abc import Iterator, Sequence

import numpy as np

from harness.media import Frame
from harness.world.language import Question
from harness.world.raster import render, visible_masks
from harness.world.scene import Scene
from harness.world.shapes import World

FAMILY_ROWS = 2  # rows of each family
CELL_WIDTH, PICTURE_HEIGHT, TEXT_HEIGHT = 264, 232, 40  # pixels
LINE_LENGTH, LINE_HEIGHT = 44, 12  # characters, pixels
PAPER, INK = 255, 0
OUTLINE = (255, 0, 255)


def contact_sheet(world: World, columns: int = 6) -> Frame:
    """Two rows a family from the unseen splits: what is meant is tinted, the question below it.

    Of a video the middle frame is shown, or the nearest one in which what is meant can be seen.
    The result is height × width × 3, uint8, RGB.
    """
    cells = [_cell(*shown) for shown in _shown(world, FAMILY_ROWS * columns)]
    cells += [np.full_like(cells[0], PAPER)] * (-len(cells) % columns)
    rows = [
        np.concatenate(cells[start : start + columns], axis=1)
        for start in range(0, len(cells), columns)
    ]
    return np.concatenate(rows, axis=0)


def tinted(scene: Scene, frame: int, referents: Sequence[int]) -> Frame:
    """A frame with the referents in their colours, outlined, and all else half faded to grey."""
    picture = render(scene, frame).astype(np.int64)
    meant = visible_masks(scene, frame)[list(referents)].any(0)
    grown = np.pad(meant, 1)
    around = grown[:-2, 1:-1] | grown[2:, 1:-1] | grown[1:-1, :-2] | grown[1:-1, 2:]
    picture[~meant] = (picture[~meant] + 2 * 128) // 3
    picture[around & ~meant] = OUTLINE
    return picture.astype(np.uint8)


def _shown(world: World, number: int) -> Iterator[tuple[Scene, Question]]:
    for (_, split), examples in world.examples.items():
        if split == "test":
            asked = ((each.scene, question) for each in examples for question in each.questions)
            yield from (pair for _, pair in zip(range(number), asked, strict=False))


def _cell(scene: Scene, question: Question) -> Frame:
    frame = min(
        range(scene.frames),
        key=lambda each: (
            not visible_masks(scene, each)[list(question.referents)].any((1, 2)).all(),
            abs(2 * each - scene.frames),
        ),
    )
    cell = np.full((PICTURE_HEIGHT + TEXT_HEIGHT, CELL_WIDTH, 3), PAPER, dtype=np.uint8)
    top, left = (PICTURE_HEIGHT - scene.height) // 2, (CELL_WIDTH - scene.width) // 2
    cell[top : top + scene.height, left : left + scene.width] = tinted(
        scene, frame, question.referents
    )
    cell[PICTURE_HEIGHT:] = _caption(f"{question.text} [{question.count}]")
    return cell


def _caption(text: str) -> Frame:
    from PIL import Image, ImageDraw, ImageFont

    paper = Image.new("RGB", (CELL_WIDTH, TEXT_HEIGHT), (PAPER, PAPER, PAPER))
    pen, font = ImageDraw.Draw(paper), ImageFont.load_default()
    for line, words in enumerate(textwrap.wrap(text, LINE_LENGTH)):
        pen.text((4, LINE_HEIGHT * line), words, fill=(INK, INK, INK), font=font)
    return np.asarray(paper)
