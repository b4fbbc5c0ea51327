"""Lessons to arrays: tokens, positions, patches, and the targets of every loss."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from transformers import AutoTokenizer

from harness.models.pocket import FOLDER
from harness.world.raster import render
from harness.world.scene import COLOURS, SHAPES, SIZES
from pocket_training.vlm.data_mixture import DrawnScene
from pocket_training.vlm.lessons import IMAGE, TOKENS, VIDEO, Lesson
from pocket_training.vlm.views import CANVAS, CELLS, View

TOKENIZER = AutoTokenizer.from_pretrained(FOLDER)
"""A number up to 168 is one token, and so one decision for the network; so are the fixed parts of
prompts and of the answer's JSON, so that a response about one object is some twenty tokens. All are
ordinary tokens over ordinary text, which is read back as it was."""
MIN_PIXELS, MIN_PIXELS_OF_PATCH = 0.04, 0.1
"""The parts of the areas of an image token, and of a patch, that a thing must cover to be told."""
IGNORED = -100
STEP = 16
"""Multiple that rows are padded to. Matrix products are compiled for every new length, and only
about a thousand of them are cached; without padding a step takes a quarter longer."""
NOTHING = 0  # class of an image token without a thing
OUTLINE = 7  # cells along each side of an image token in which outlines are told: 4 × 4 pixels each

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float32]
Batch: TypeAlias = Mapping[str, torch.Tensor]
"""See `collate`."""


def collate(drawn: Sequence[DrawnScene], *, intervals: Sequence[int], fine: bool = False) -> Batch:
    """The arrays of images, or clips of one length, and of the lessons about them, as rows.

    Args:
        drawn: The images.
        intervals: The steps in time from one grid of a clip to the next, one an image.
        fine: Tokens that show the question's subject have its box, even where other things cover
            more of them; and those of images that are asked about have colours alone, as shapes
            and sizes are learned from those whose colours have no name.

    Returns:
        images: uint8, images × frames × 168 × 168 × 3.
        tokens, labels, measured, seen: Rows × length, padded on the right: the tokens; the token to
            write next, or -100; True where that is a measured number; True at image tokens.
        positions: 3 × rows × length: time, height and width, as the architecture counts them.
        owner: Rows: the image of each.
        targeted: Rows × image tokens: 1 where the token shows the subject of the question.
        grounding, looked_at: Pointers × (row, place), and the image tokens to attend to from there.
        copies, sources: Copies × (row, place), and the tokens of the text that is repeated there.
        options: Words of options × (row, place, number of the option).
        kinds: Images × image tokens × 3: shape (0: no thing, or its number from 1), colour, size;
            -100: not predicted.
        boxes: Images × image tokens × 6: box on the canvas, and its middle's way to the next frame.
        boxes_of_targets: Rows × image tokens × 6: like `boxes`; see `fine`.
        patch_kinds, patch_boxes: Images × patches × 3 and × 4: the same of each patch.
        outlines: Images × image tokens × 49: the part that the token's thing covers of each cell.
    """
    lessons = [(image, lesson) for image, one in enumerate(drawn) for lesson in one.examples]
    encoded = TOKENIZER(
        [f"{lesson.text}<|im_end|>" for _, lesson in lessons],
        padding=True,
        padding_side="right",
        pad_to_multiple_of=STEP,
        return_offsets_mapping=True,
        return_tensors="np",
    )
    tokens, (starts, ends) = encoded["input_ids"], np.moveaxis(encoded["offset_mapping"], -1, 0)
    owner = np.array([image for image, _ in lessons])
    learned_from = np.array([[lesson.learned_from] for _, lesson in lessons])
    labels, measured = np.full(tokens.shape, IGNORED), np.zeros(tokens.shape, dtype=np.bool_)
    labels[:, :-1] = np.where(starts[:, 1:] >= learned_from, tokens[:, 1:], IGNORED)
    seen = np.isin(tokens, TOKENIZER.convert_tokens_to_ids([IMAGE, VIDEO]))

    def within(row: int, start: int, end: int) -> Ints:
        """The places of the tokens of a stretch of a row's text."""
        return np.flatnonzero((ends[row] > start) & (starts[row] < end))

    grounding, looked_at, copies, sources, options = [], [], [], [], []
    for row, (_, lesson) in enumerate(lessons):
        for stretch, subject, soft in lesson.spans:
            for place in within(row, *stretch) - 1:
                measured[row, place] = soft
                if subject is not None and labels[row, place] != IGNORED:
                    grounding.append((row, place))
                    looked_at.append(_attention(lesson.view, *subject))
        for copy, original in lesson.copies:
            written, source = within(row, *copy) - 1, within(row, *original)
            for number, place in enumerate(written if labels[row, written[0]] != IGNORED else ()):
                copies.append((row, place))
                # Token by token, if both have as many.
                own = source[number] if len(written) == len(source) else source
                sources.append(np.isin(np.arange(tokens.shape[1]), own))
        for number, stretch in enumerate(lesson.options):
            options += [(row, place, number) for place in within(row, *stretch)]
    targeted, boxes = zip(*(_targets(lesson, fine=fine) for _, lesson in lessons), strict=True)
    batch = {
        "tokens": tokens,
        "labels": labels,
        "measured": measured,
        "seen": seen,
        "positions": _positions(seen, np.array(intervals)[owner, None]),
        "owner": owner,
        "targeted": np.stack(targeted),
        "boxes_of_targets": np.stack(boxes),
        "grounding": np.array(grounding, dtype=np.int64).reshape(-1, 2),
        "looked_at": np.array(looked_at, dtype=np.float32).reshape(-1, seen[0].sum()),
        "copies": np.array(copies, dtype=np.int64).reshape(-1, 2),
        "sources": np.array(sources, dtype=np.bool_).reshape(-1, tokens.shape[1]),
        "options": np.array(options, dtype=np.int64).reshape(-1, 3),
    }
    images = [_image(one, fine=fine) for one in drawn]
    batch |= {name: np.stack([image[name] for image in images]) for name in images[0]}
    return {name: torch.from_numpy(array) for name, array in batch.items()}


def _positions(seen: NDArray[np.bool_], intervals: Ints) -> Ints:
    """Time, height and width of each token: cells of grids within the image tokens."""
    places, first = np.arange(seen.shape[1]), seen.argmax(1)[:, None]
    cells, after = places - first, seen.sum(1, keepdims=True) - CELLS
    grid = np.stack([cells // TOKENS * intervals, cells % TOKENS // CELLS, cells % CELLS])
    return np.where(seen, first + grid, places - np.where(cells > 0, after, 0))


def _attention(view: View, thing: int, frame: int) -> Floats:
    """Shares of the image tokens that show the thing in the frame."""
    shares = view.shares[frame, thing]
    clear = np.where(shares >= MIN_PIXELS, shares, 0)
    clear = clear if clear.any() else shares + (0 if shares.any() else 1)
    whole = np.zeros((len(view.frames[::2]), TOKENS), dtype=np.float32)
    whole[frame // 2] = clear / clear.sum()
    return whole.reshape(-1)


def _targets(lesson: Lesson, *, fine: bool) -> tuple[Floats, Floats]:
    """Image tokens that show the subject of the question (1, else 0), and the box of each token."""
    view, owners = lesson.view, _most(lesson.view.shares[::2], MIN_PIXELS)
    targeted = np.zeros(owners.shape, dtype=np.float32)
    if lesson.targets:
        target = _most(view.shares[::2][:, lesson.targets], MIN_PIXELS)
        targeted[target >= 0] = 1
        if fine:
            owners = np.where(target >= 0, np.array(lesson.targets)[target], owners)
    return targeted.reshape(-1), _boxes(view, owners)


def _image(drawn: DrawnScene, *, fine: bool) -> dict[str, NDArray[np.generic]]:
    """The arrays of one image or clip."""
    view = drawn.view
    alone = fine and bool(drawn.examples)
    table = [
        (
            IGNORED if alone else SHAPES.index(one.shape) + 1,
            IGNORED if index in view.fills else [*COLOURS].index(one.colour),
            IGNORED if alone else SIZES.index(one.size),
        )
        for index, one in enumerate(view.scene.things)
    ]
    kinds = np.array([*table, (NOTHING, 0, 0)])  # the last one is that of no thing, -1
    owners = _most(view.shares[::2], MIN_PIXELS)
    patch_owners = _most(view.parts(2).reshape(*view.areas[::2].shape, -1), MIN_PIXELS_OF_PATCH)
    own = np.take_along_axis(view.parts(OUTLINE), owners[:, None, :, None], axis=1)[:, 0]
    outlines = np.where(owners[..., None] >= 0, own, 0)
    return {
        "images": squashed(view),
        "kinds": kinds[owners].reshape(-1, 3),
        "boxes": _boxes(view, owners),
        "patch_kinds": kinds[patch_owners].reshape(-1, 3),
        "patch_boxes": _boxes(view, patch_owners)[:, :4],
        "outlines": outlines.reshape(-1, OUTLINE**2).astype(np.float32),
    }


def squashed(view: View) -> NDArray[np.uint8]:
    """Frames × 168 × 168 × 3, as the evaluation squashes them; an odd last frame is repeated."""
    images = (Image.fromarray(render(view.scene, one, fills=view.fills)) for one in view.frames)
    size = (CANVAS, CANVAS)
    frames = [np.array(image.resize(size, Image.Resampling.BILINEAR)) for image in images]
    if len(frames) > 1 and len(frames) % 2:
        frames.append(frames[-1])
    return np.stack(frames)


def _most(shares: NDArray[np.float64], least: float) -> Ints:
    """Grids × cells: the thing that covers most of the cell, or -1; of grids × things × cells."""
    return np.where(shares.max(1) >= least, shares.argmax(1), -1)


def _boxes(view: View, owners: Ints) -> Floats:
    """Return the owners' boxes, and the ways of their middles to the next frame."""
    later = np.minimum(np.arange(0, len(view.boxes), 2) + 1, len(view.boxes) - 1)
    first, second = (
        np.take_along_axis(boxes, owners[..., None], axis=1)
        for boxes in (view.boxes[::2], view.boxes[later])
    )
    way = (second - first).reshape(*owners.shape, 2, 2).mean(2)
    way[second[..., 0] < 0] = 0
    return np.concatenate([first, way], axis=-1).reshape(-1, 6).astype(np.float32)
