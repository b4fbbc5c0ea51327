"""Lessons to arrays: tokens, positions, patches, and the targets of every loss."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from harness.world.raster import render
from harness.world.scene import COLOURS, SHAPES, SIZES
from pocket_training.vlm import vocabulary
from pocket_training.vlm.data_mixture import DrawnScene
from pocket_training.vlm.training_examples import Span, Stretch, TrainingExample
from pocket_training.vlm.views import CELLS, MIN_PIXELS, MIN_PIXELS_OF_PATCH, View
from pocket_training.vlm.vocabulary import CANVAS

TOKENS = CELLS * CELLS  # image tokens a grid
IGNORED = -100
STEP = 16
"""Multiple that rows are padded to. Matrix products are compiled for every new length, and only
about a thousand of them are cached; without padding a step takes a quarter longer."""
NOTHING = 0  # class of an image token without a thing
OUTLINE = 7  # cells along each side of an image token in which outlines are told: 4 × 4 pixels each

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float32]
Batch: TypeAlias = dict[str, NDArray[np.generic]]
"""Arrays by name; see `collate`."""


def collate(
    drawn: Sequence[DrawnScene],
    *,
    intervals: Sequence[int],
    places_of_targets: bool = False,
    colours_alone: bool = False,
) -> Batch:
    """The arrays of images with equally many frames, and of the lessons about them, as rows.

    Args:
        drawn: The images, or clips of one length.
        intervals: The steps in time from one grid of a clip to the next, one an image.
        places_of_targets: Tokens that show the question's subject have its box, even where
            other things cover more of them.
        colours_alone: Image tokens of images that are asked about have colours alone, as
            shapes and sizes are learned from those whose colours have no name.

    Returns:
        images: uint8, images × frames × 168 × 168 × 3.
        tokens, labels, soft, seen: Rows × length, padded on the right: the tokens; the token to
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
        boxes_of_targets: Rows × image tokens × 6: like `boxes`; see `places_of_targets`.
        patch_kinds, patch_boxes: Images × patches × 3 and × 4: the same of each patch.
        outlines: Images × image tokens × 49: the part that the token's thing covers of each cell of
            a grid over the token.
    """
    rows = [
        _row(image, one.view, example, intervals[image], places_of_targets)
        for image, one in enumerate(drawn)
        for example in one.examples
    ]
    longest = max(len(row["tokens"]) for row in rows)
    length = -(-longest // STEP) * STEP
    pad = vocabulary.load_tokenizer().pad_token_id
    padded = {
        name: _pad_rows([row[name] for row in rows], length, value)
        for name, value in {
            "tokens": pad,
            "labels": IGNORED,
            "soft": False,
            "seen": False,
            "positions": 0,
        }.items()
    }
    pointers = {
        name: np.concatenate(
            [np.insert(row[name], 0, number, axis=1) for number, row in enumerate(rows)]
        )
        for name in ("grounding", "copies", "options")
    }
    places, copies = np.arange(length), pointers["copies"]
    owners = [_owners(one.view) for one in drawn]
    patches = [_patch_owners(one.view) for one in drawn]

    def kinds(owners: Sequence[Ints]) -> Ints:
        return np.stack([_kinds(*pair, colours_alone) for pair in zip(drawn, owners, strict=True)])

    def boxes(owners: Sequence[Ints]) -> Floats:
        return np.stack([_boxes(one.view, own) for one, own in zip(drawn, owners, strict=True)])

    return {
        **padded,
        **pointers,
        "images": np.stack([squashed(one.view) for one in drawn]),
        "positions": padded["positions"].swapaxes(0, 1),
        "owner": np.array([row["owner"] for row in rows]),
        "targeted": np.stack([row["targeted"] for row in rows]),
        "looked_at": np.concatenate([row["looked_at"] for row in rows]),
        "copies": copies[:, :2],
        "sources": (places >= copies[:, 2:3]) & (places < copies[:, 3:]),
        "kinds": kinds(owners),
        "boxes": boxes(owners),
        "boxes_of_targets": np.stack([row["boxes_of_targets"] for row in rows]),
        "patch_kinds": kinds(patches),
        "patch_boxes": boxes(patches)[..., :4],
        "outlines": np.stack(
            [_outlines(one.view, own) for one, own in zip(drawn, owners, strict=True)]
        ),
    }


def _row(
    image: int, view: View, example: TrainingExample, interval: int, places_of_targets: bool
) -> dict[str, NDArray[np.generic]]:
    """The arrays of one lesson, before they are padded; pointers without their row."""
    tokenizer = vocabulary.load_tokenizer()
    grids = -(-len(view.frames) // 2)
    pad = vocabulary.IMAGE if len(view.frames) == 1 else vocabulary.VIDEO
    before = f"{vocabulary.START}user\n"
    turn = f"{vocabulary.VISION_END}{vocabulary.END}\n{vocabulary.START}assistant\n"
    prompt = f"{before}{example.prompt}{vocabulary.VISION_START}{pad * (grids * TOKENS)}{turn}"
    encoded = tokenizer.backend_tokenizer.encode(
        prompt + example.response + vocabulary.END, add_special_tokens=False
    )

    def places(start: int, end: int, *, in_prompt: bool = False) -> Stretch:
        """The places of the tokens of a stretch of the response, or of the question's text."""
        begin = len(before if in_prompt else prompt)
        inside = [
            place
            for place, (low, high) in enumerate(encoded.offsets)
            if low < begin + end and high > begin + start
        ]
        return inside[0], inside[-1] + 1

    tokens = np.array(encoded.ids)
    labels, soft = np.full(len(tokens), IGNORED), np.zeros(len(tokens), dtype=np.bool_)
    grounding, looked_at = [], []
    for place in range(places(0, 1)[0], len(tokens)):
        start, end = (edge - len(prompt) for edge in encoded.offsets[place])
        span = next((one for one in example.spans if start < one.end and end > one.start), None)
        soft[place - 1] = span is not None and span.soft
        if start >= example.learned_from:
            labels[place - 1] = tokens[place]
            if span is not None and span.thing is not None:
                grounding.append(place - 1)
                looked_at.append(_target(view, span, span.thing))
    copies = [
        pointer
        for copy in example.copies
        if copy.start >= example.learned_from
        for pointer in _pointers(
            places(copy.start, copy.end), places(*copy.source, in_prompt=copy.in_prompt)
        )
    ]
    options = [
        (place, number)
        for number, stretch in enumerate(example.options)
        for place in range(*places(*stretch, in_prompt=True))
    ]
    seen = tokens == tokenizer.convert_tokens_to_ids(pad)
    targeted, owners = _target_owners(view, example.targets)
    return {
        "tokens": tokens,
        "labels": labels,
        "soft": soft,
        "positions": _positions(int(seen.argmax()), grids, interval, len(tokens)),
        "owner": np.int64(image),
        "seen": seen,
        "targeted": targeted.reshape(-1).astype(np.float32),
        "boxes_of_targets": _boxes(view, owners if places_of_targets else _owners(view)),
        "grounding": np.array(grounding, dtype=np.int64).reshape(-1, 1),
        "looked_at": np.array(looked_at, dtype=np.float32).reshape(-1, grids * TOKENS),
        "copies": np.array(copies, dtype=np.int64).reshape(-1, 3),
        "options": np.array(options, dtype=np.int64).reshape(-1, 2),
    }


def _pointers(written: Stretch, source: Stretch) -> Iterator[tuple[int, int, int]]:
    """Yield pointers from each place before a written one to its source: token by token if both
    have as many.
    """
    first, last = source
    one_by_one = written[1] - written[0] == last - first
    for number, place in enumerate(range(*written)):
        yield place - 1, *((first + number, first + number + 1) if one_by_one else source)


def squashed(view: View) -> NDArray[np.uint8]:
    """Frames × 168 × 168 × 3, as the evaluation squashes them; an odd last frame is repeated."""
    images = (Image.fromarray(render(view.scene, one, fills=view.fills)) for one in view.frames)
    size = (CANVAS, CANVAS)
    frames = [np.array(image.resize(size, Image.Resampling.BILINEAR)) for image in images]
    if len(frames) > 1 and len(frames) % 2:
        frames.append(frames[-1])
    return np.stack(frames)


def _pad_rows(rows: Sequence[NDArray[np.generic]], length: int, value: int) -> NDArray[np.generic]:
    """Stack rows (… × their lengths), each filled up to a length."""
    whole = np.full((len(rows), *rows[0].shape[:-1], length), value, dtype=rows[0].dtype)
    for row, values in zip(whole, rows, strict=True):
        row[..., : values.shape[-1]] = values
    return whole


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


def _most(shares: NDArray[np.float64], least: float) -> Ints:
    """Grids × cells: the thing that covers most of the cell, or -1; of grids × things × cells."""
    return np.where(shares.max(1) >= least, shares.argmax(1), -1)


def _owners(view: View) -> Ints:
    """Grids × image tokens: the thing that covers most of the token, or -1."""
    return _most(view.shares[::2], MIN_PIXELS)


def _patch_owners(view: View) -> Ints:
    """Grids × patches: the thing that covers most of the patch, or -1."""
    parts = np.stack([view.parts(frame, 2) for frame in view.frames[::2]])
    return _most(parts.reshape(*parts.shape[:2], -1), MIN_PIXELS_OF_PATCH)


def _target_owners(view: View, things: Sequence[int]) -> tuple[NDArray[np.bool_], Ints]:
    """Return which tokens show any of these things; and the owners of all, of these tokens the one
    of the things that covers most.
    """
    owners = _owners(view)
    if not things:
        return np.zeros(owners.shape, dtype=np.bool_), owners
    most = _most(view.shares[::2][:, things], MIN_PIXELS)
    return most >= 0, np.where(most >= 0, np.array(things)[most], owners)


def _kinds(drawn: DrawnScene, owners: Ints, colours_alone: bool) -> Ints:
    """Return the owners' shapes, colours and sizes, for all grids one after the other; IGNORED
    for a colour without a name, and for shapes and sizes where only colours are learned.
    """
    alone = colours_alone and bool(drawn.examples)
    table = [
        (
            IGNORED if alone else SHAPES.index(one.shape) + 1,
            IGNORED if index in drawn.view.fills else [*COLOURS].index(one.colour),
            IGNORED if alone else SIZES.index(one.size),
        )
        for index, one in enumerate(drawn.view.scene.things)
    ]
    found: Ints = np.array([*table, (NOTHING, 0, 0)])[owners].reshape(-1, 3)
    return found


def _outlines(view: View, owners: Ints) -> Floats:
    """Return the outline of each token's thing within the token; empty where it shows none."""
    parts = np.stack([view.parts(frame, OUTLINE) for frame in view.frames[::2]])
    own = np.take_along_axis(parts, owners[:, None, :, None], axis=1)[:, 0]
    return np.where(owners[..., None] >= 0, own, 0).reshape(-1, OUTLINE**2).astype(np.float32)


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
