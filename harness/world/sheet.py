"""Contact sheets: one image with examples of a world, for people to look at."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from harness.media import Frame
from harness.world.language import Question
from harness.world.qa import KINDS_OF_QA, QA, ask_qa
from harness.world.raster import render, visible_masks
from harness.world.scene import Scene, Split
from harness.world.shapes import FAMILY_SPLITS, QUIZZED, World

CELL_WIDTH, IMAGE_HEIGHT, TEXT_HEIGHT = 264, 232, 88  # pixels
LINE_LENGTH, LINE_HEIGHT = 50, 12  # characters, pixels
GAP = 4  # pixels between the frames of a video
PAPER, INK = 255, 0
OUTLINE = (255, 0, 255)
SHOWN: Split = "test"


def contact_sheet(world: World, columns: int = 6) -> Frame:
    """Draw a row for each family of things to find or count, then a cell for each other kind.

    All are from a split that trainers do not see. Referents are tinted, the question is below; of a
    video the middle frame is shown, or the nearest one in which a referent is visible. Of questions
    with options or numbers there is one of each kind, the answer in brackets; of their videos four
    frames are shown. The result is height × width × 3, uint8, RGB.
    """
    cells = [
        _question_sheet(*pair)
        for family, splits in FAMILY_SPLITS.items()
        if family not in QUIZZED and SHOWN in splits
        for pair in _varied_examples(world, family, columns)
    ]
    cells += [_quiz_sheet(*pair) for pair in _one_a_kind(world)]
    cells += [np.full_like(cells[0], PAPER)] * (-len(cells) % columns)
    rows = [
        np.concatenate(cells[start : start + columns], axis=1)
        for start in range(0, len(cells), columns)
    ]
    return np.concatenate(rows, axis=0)


def tint_referents(scene: Scene, frame: int, referents: Sequence[int]) -> Frame:
    """A frame with the referents in their colours, outlined, and all else half faded to grey."""
    image = render(scene, frame).astype(np.int64)
    target = visible_masks(scene, frame)[list(referents)].any(0)
    grown = np.pad(target, 1)
    around = grown[:-2, 1:-1] | grown[2:, 1:-1] | grown[1:-1, :-2] | grown[1:-1, 2:]
    image[~target] = (image[~target] + 2 * 128) // 3
    image[around & ~target] = OUTLINE
    return image.astype(np.uint8)


def _varied_examples(world: World, family: str, number: int) -> Iterator[tuple[Scene, Question]]:
    """Questions of one family: other kinds before the same one, other scenes before the same."""
    left = [
        (each.scene, one) for each in world.examples_of(family, SHOWN) for one in each.questions
    ]
    seen: Counter[str] = Counter()
    for _ in range(min(number, len(left))):
        pair = min(left, key=lambda pair: (seen[pair[1].kind], seen[pair[0].id]))
        left.remove(pair)
        seen.update((pair[1].kind, pair[0].id))
        yield pair


def _one_a_kind(world: World) -> Iterator[tuple[Scene, QA]]:
    """A question of each kind with options or a number, each of another scene where there is one.

    Kinds that no scene allows are left out.
    """
    scenes = {family: world.scenes(family, SHOWN) for family in QUIZZED}
    used: Counter[str] = Counter()
    for kind in dict.fromkeys(kind for family in QUIZZED for kind in KINDS_OF_QA[family]):
        candidates = [
            (scene, question)
            for family in QUIZZED
            if kind in KINDS_OF_QA[family]
            for scene in scenes[family]
            for question in ask_qa(scene, kinds=[kind])
        ]
        if candidates:
            scene, question = min(candidates, key=lambda pair: used[pair[0].id])
            used[scene.id] += 1
            yield scene, question


def _question_sheet(scene: Scene, question: Question) -> Frame:
    frame = min(
        range(scene.frames),
        key=lambda each: (
            not visible_masks(scene, each)[list(question.referents)].any((1, 2)).all(),
            abs(2 * each - scene.frames),
        ),
    )
    return _cell(
        tint_referents(scene, frame, question.referents), f"{question.text} [{question.count}]"
    )


def _quiz_sheet(scene: Scene, question: QA) -> Frame:
    named = [index for index, _ in question.named]
    if scene.frames > 1:
        image = _four(scene)
    else:
        image = tint_referents(scene, 0, named) if named else render(scene)
    options = question.options or (f"{question.answer:g}",)
    shown = [
        f"[{option}]" if question.is_number or option == question.answer else option
        for option in options
    ]
    return _cell(image, f"{question.kind}: {question.text} {' / '.join(shown)}")


def _four(scene: Scene) -> Frame:
    """Four frames, from the first to the last, every second pixel of each."""
    frames = [render(scene, part * (scene.frames - 1) // 3)[::2, ::2] for part in range(4)]
    height, width = frames[0].shape[:2]
    image = np.full((2 * height + GAP, 2 * width + GAP, 3), PAPER, dtype=np.uint8)
    for place, frame in enumerate(frames):
        top, left = place // 2 * (height + GAP), place % 2 * (width + GAP)
        image[top : top + height, left : left + width] = frame
    return image


def _cell(image: Frame, text: str) -> Frame:
    height, width = image.shape[:2]
    cell = np.full((IMAGE_HEIGHT + TEXT_HEIGHT, CELL_WIDTH, 3), PAPER, dtype=np.uint8)
    top, left = (IMAGE_HEIGHT - height) // 2, (CELL_WIDTH - width) // 2
    cell[top : top + height, left : left + width] = image
    cell[IMAGE_HEIGHT:] = _caption(text)
    return cell


def _caption(text: str) -> Frame:
    from PIL import Image, ImageDraw, ImageFont

    paper = Image.new("RGB", (CELL_WIDTH, TEXT_HEIGHT), (PAPER, PAPER, PAPER))
    pen, font = ImageDraw.Draw(paper), ImageFont.load_default()
    for line, words in enumerate(textwrap.wrap(text, LINE_LENGTH)):
        pen.text((4, LINE_HEIGHT * line), words, fill=(INK, INK, INK), font=font)
    return np.asarray(paper)
