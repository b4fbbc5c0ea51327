"""Lessons to arrays: tokens, positions, patches, and the targets of every loss."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from harness.world.raster import render
from harness.world.scene import COLOURS, SHAPES, SIZES
from pocket_training.vlm import vocabulary
from pocket_training.vlm.data_mixture import DrawnScene
from pocket_training.vlm.training_examples import Span, TrainingExample
from pocket_training.vlm.views import CELLS, View
from pocket_training.vlm.vocabulary import CANVAS

TOKENS = CELLS * CELLS  # image tokens a grid
MIN_PIXELS = 0.04
"""The part of an image token's area that a thing must cover for the token to speak of it."""
MIN_PIXELS_OF_PATCH = 0.1
"""The same of a patch's area, which is a quarter of a token's."""
IGNORED = -100
STEP = 16
"""Multiple that rows are padded to. Matrix products are compiled for every new length, and only
about a thousand of them are cached; without padding a step takes a quarter longer."""
NOTHING = 0  # class of an image token without a thing
OUTLINE = 7  # cells along each side of an image token in which outlines are told: 4 × 4 pixels each

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float32]
Arrays: TypeAlias = dict[str, NDArray[np.generic]]
Batch: TypeAlias = Mapping[str, torch.Tensor]
"""See `collate`."""


def collate(drawn: Sequence[DrawnScene], *, intervals: Sequence[int], fine: bool = False) -> Batch:
    """The arrays of images with equally many frames, and of the lessons about them, as rows.

    Args:
        drawn: The images, or clips of one length.
        intervals: The steps in time from one grid of a clip to the next, one an image.
        fine: Tokens that show the question's subject have its box, even where other things cover
            more of them; and those of images that are asked about have colours alone, as shapes
            and sizes are learned from those whose colours have no name.

    Returns:
        images: uint8, images × frames × 168 × 168 × 3.
        tokens, labels, measured, seen: Rows × length, padded on the right: the tokens; the token to
            write next, or -100; True where that is a measured number; True at image tokens.
        positions: 3 × rows × length.
        owner: Rows: the image of each.
        targeted: Rows × image tokens: 1 where the token shows the subject of the question.
        grounding: Pointers × 2: row, and the place from which to look.
        looked_at: Pointers × image tokens: target attention; each row adds up to 1.
        copies: Copies × 2: row, and the place of a text that repeats an earlier one, or follows
            from it.
        sources: Copies × length: True at the tokens of that text.
        options: Words of options × 3: row, place, and the number of the option.
        kinds: Images × image tokens × 3: shape (0: no thing, or its number from 1), colour, size;
            -100: not predicted.
        boxes: Images × image tokens × 6: box on the canvas, and its middle's way to the next frame.
        boxes_of_targets: Rows × image tokens × 6: like `boxes`; see `fine`.
        patch_kinds, patch_boxes: Images × patches × 3 and × 4: the same of each patch.
        outlines: Images × image tokens × 49: the part that the token's thing covers of each cell of
            a grid over the token.
    """
    rows = [
        _row(example, one.view, intervals[image], fine=fine) | {"owner": np.array(image)}
        for image, one in enumerate(drawn)
        for example in one.examples
    ]
    images = [_image(one, fine=fine) for one in drawn]
    batch: Arrays = {name: np.stack([image[name] for image in images]) for name in images[0]}
    for name in ("owner", "targeted", "boxes_of_targets"):
        batch[name] = np.stack([row[name] for row in rows])
    batch["looked_at"] = np.concatenate([row["looked_at"] for row in rows])
    for name in ("grounding", "copies", "options"):
        numbered = (np.insert(row[name], 0, number, axis=1) for number, row in enumerate(rows))
        batch[name] = np.concatenate([*numbered])
    length = -(-max(len(row["tokens"]) for row in rows) // STEP) * STEP
    empty = {
        "tokens": vocabulary.load_tokenizer().pad_token_id,
        "labels": IGNORED,
        "measured": False,
        "seen": False,
        "positions": 0,
    }
    for name, value in empty.items():
        shape = (len(rows), *rows[0][name].shape[:-1], length)
        batch[name] = np.full(shape, value, dtype=rows[0][name].dtype)
        for padded, row in zip(batch[name], rows, strict=True):
            padded[..., : len(row["tokens"])] = row[name]
    batch["positions"] = batch["positions"].swapaxes(0, 1)
    places, (first, last) = np.arange(length), batch["copies"].T[2:, :, None]
    batch["copies"], batch["sources"] = batch["copies"][:, :2], (places >= first) & (places < last)
    return {name: torch.from_numpy(array) for name, array in batch.items()}


def _row(example: TrainingExample, view: View, interval: int, *, fine: bool) -> Arrays:
    """The arrays of one lesson, before they are padded; pointers without their row."""
    tokenizer, grids = vocabulary.load_tokenizer(), -(-len(view.frames) // 2)
    pad = vocabulary.IMAGE if len(view.frames) == 1 else vocabulary.VIDEO
    before = f"{vocabulary.START}user\n"
    turn = f"{vocabulary.VISION_END}{vocabulary.END}\n{vocabulary.START}assistant\n"
    prompt = f"{before}{example.prompt}{vocabulary.VISION_START}{pad * (grids * TOKENS)}{turn}"
    encoded = tokenizer.backend_tokenizer.encode(
        prompt + example.response + vocabulary.END, add_special_tokens=False
    )
    starts, ends = np.array(encoded.offsets).T

    def places(start: int, end: int, *, in_prompt: bool = False) -> range:
        """The places of the tokens of a stretch of the response, or of the question's text."""
        begin = len(before if in_prompt else prompt)
        first, last = np.searchsorted(ends, begin + start, "right"), begin + end
        return range(int(first), int(np.searchsorted(starts, last)))

    tokens = np.array(encoded.ids)
    learned_from = int(np.searchsorted(starts, len(prompt) + example.learned_from))
    labels, measured = np.full(len(tokens), IGNORED), np.zeros(len(tokens), dtype=np.bool_)
    labels[learned_from - 1 : -1] = tokens[learned_from:]
    grounding, looked_at = [], []
    for span in example.spans:
        for place in places(span.start, span.end):
            measured[place - 1] = span.soft
            if place >= learned_from and span.thing is not None:
                grounding.append(place - 1)
                looked_at.append(_target(view, span, span.thing))
    copies = []
    for copy in example.copies:
        written = places(copy.start, copy.end)
        source = places(*copy.source, in_prompt=copy.in_prompt)
        for number, place in enumerate(written if written[0] >= learned_from else ()):
            # Token by token, if both have as many.
            own = source[number : number + 1] if len(written) == len(source) else source
            copies.append((place - 1, own.start, own.stop))
    options = [
        (place, number)
        for number, stretch in enumerate(example.options)
        for place in places(*stretch, in_prompt=True)
    ]
    seen = tokens == tokenizer.convert_tokens_to_ids(pad)
    owners = _most(view.shares[::2], MIN_PIXELS)
    targeted = np.zeros(owners.shape, dtype=np.float32)
    if example.targets:
        target = _most(view.shares[::2][:, example.targets], MIN_PIXELS)
        targeted[target >= 0] = 1
        if fine:
            owners = np.where(target >= 0, np.array(example.targets)[target], owners)
    return {
        "tokens": tokens,
        "labels": labels,
        "measured": measured,
        "positions": _positions(int(seen.argmax()), grids, interval, len(tokens)),
        "seen": seen,
        "targeted": targeted.reshape(-1),
        "boxes_of_targets": _boxes(view, owners),
        "grounding": np.array(grounding, dtype=np.int64).reshape(-1, 1),
        "looked_at": np.array(looked_at, dtype=np.float32).reshape(-1, grids * TOKENS),
        "copies": np.array(copies, dtype=np.int64).reshape(-1, 3),
        "options": np.array(options, dtype=np.int64).reshape(-1, 2),
    }


def _positions(start: int, grids: int, interval: int, length: int) -> Ints:
    """Time, height and width of each token, as the architecture counts them."""
    positions = np.tile(np.arange(length), (3, 1))
    cells = np.arange(grids * TOKENS)
    end = start + len(cells)
    times = cells // TOKENS * (interval if grids > 1 else 1)
    positions[:, start:end] = start + np.stack([times, cells % TOKENS // CELLS, cells % CELLS])
    positions[:, end:] = start + CELLS + np.arange(length - end)
    return positions


def _target(view: View, span: Span, thing: int) -> Floats:
    """Shares of the image tokens that show the thing in the frame."""
    place = view.frames.index(span.frame)
    shares = view.shares[place][thing]
    clear = np.where(shares >= MIN_PIXELS, shares, 0)
    clear = clear if clear.any() else shares + (0 if shares.any() else 1)
    whole = np.zeros((-(-len(view.frames) // 2), TOKENS), dtype=np.float32)
    whole[place // 2] = clear / clear.sum()
    return whole.reshape(-1)


def _image(drawn: DrawnScene, *, fine: bool) -> Arrays:
    """The arrays of one image or clip."""
    view, shown = drawn.view, drawn.view.frames[::2]
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
    patches = np.stack([view.parts(frame, 2) for frame in shown])
    patch_owners = _most(patches.reshape(*patches.shape[:2], -1), MIN_PIXELS_OF_PATCH)
    cells = np.stack([view.parts(frame, OUTLINE) for frame in shown])
    own = np.take_along_axis(cells, owners[:, None, :, None], axis=1)[:, 0]
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
    boxes = np.stack([view.boxes[frame] for frame in view.frames])
    later = np.minimum(np.arange(0, len(boxes), 2) + 1, len(boxes) - 1)
    first, second = (
        np.take_along_axis(one, owners[..., None], axis=1) for one in (boxes[::2], boxes[later])
    )
    way = (second - first).reshape(*owners.shape, 2, 2).mean(2)
    way[second[..., 0] < 0] = 0
    return np.concatenate([first, way], axis=-1).reshape(-1, 6).astype(np.float32)
