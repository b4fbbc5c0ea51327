"""Lessons to arrays: tokens, positions, patches, and the targets of every loss."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from harness.world.raster import render
from harness.world.scene import COLOURS, SHAPES, SIZES
from pocket_training.vlm import vocabulary
from pocket_training.vlm.data_mixture import DrawnScene
from pocket_training.vlm.training_examples import Span, TrainingExample
from pocket_training.vlm.views import CELLS, MIN_PIXELS, MIN_PIXELS_OF_PATCH, View
from pocket_training.vlm.vocabulary import CANVAS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

TOKENS = CELLS * CELLS  # image tokens a grid
IGNORED = -100
STEP = 16
"""Multiple that rows are padded to. Matrix products are compiled for every new length, and only
about a thousand of them are cached; without padding a step takes a quarter longer."""
NOTHING = 0  # class of an image token without a thing
OUTLINE = 7  # cells along each side of an image token in which outlines are told: 4 × 4 pixels each

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Arrays of some images (or clips of one length) and the lessons about them."""

    images: NDArray[np.uint8]
    """Images × frames × 168 × 168 × 3."""
    tokens: Ints
    """Rows × length, padded on the right."""
    labels: Ints
    """Rows × length: the token to write next, or -100."""
    soft: NDArray[np.bool_]
    """Rows × length: the label is a measured number."""
    positions: Ints
    """3 × rows × length."""
    owner: Ints
    """Rows: the image of each."""
    seen: NDArray[np.bool_]
    """Rows × length: image tokens."""
    targeted: Floats
    """Rows × image tokens: 1 where the token shows the subject of the question."""
    grounding: Ints
    """Pointers × 2: row, and the place from which to look."""
    looked_at: Floats
    """Pointers × image tokens: target attention; each row adds up to 1."""
    copies: Ints
    """Copies × 2: row, and the place of a text that repeats an earlier one, or follows from it."""
    sources: NDArray[np.bool_]
    """Copies × length: the tokens of that text."""
    options: Ints
    """Words of options × 3: row, place, and the number of the option."""
    kinds: Ints
    """Images × image tokens × 3: shape (0: no thing, or its number from 1), colour, size; -100:
    not predicted."""
    boxes: Floats
    """Images × image tokens × 6: box on the canvas, and its middle's way to the next frame."""
    boxes_of_targets: Floats
    """Rows × image tokens × 6: like `boxes`, but of the question's subject where the token shows
    it, even where other things cover more of the token."""
    patch_kinds: Ints
    """Images × patches × 3: the same as `kinds` of each patch."""
    patch_boxes: Floats
    """Images × patches × 4: the box of each patch's thing on the canvas."""
    outlines: Floats
    """Images × image tokens × 49: the part that the token's thing covers of each cell of a grid
    over the token."""

    def arrays(self) -> dict[str, Ints | Floats]:
        """All arrays by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


class Collator:
    """Makes batches with one tokenizer."""

    def __init__(
        self,
        tokenizer: "PreTrainedTokenizerFast",
        *,
        places_of_targets: bool = False,
        colours_alone: bool = False,
    ) -> None:
        """Take a tokenizer.

        Args:
            tokenizer: pocket's.
            places_of_targets: Tokens that show the question's subject have its box, even where
                other things cover more of them.
            colours_alone: Image tokens of images that are asked about have colours alone, as
                shapes and sizes are learned from those whose colours have no name.
        """
        self._tokenizer = tokenizer
        self._places_of_targets = places_of_targets
        self._colours_alone = colours_alone

    def batch(self, drawn: Sequence[DrawnScene], *, intervals: Sequence[int]) -> Batch:
        """The batch of images with equally many frames.

        `intervals` are the steps in time from one grid of a clip to the next, one an image.
        """
        rows = [
            self._row(image, one.view, example, intervals[image])
            for image, one in enumerate(drawn)
            for example in one.examples
        ]
        longest = max(len(row["tokens"]) for row in rows)
        length = -(-longest // STEP) * STEP
        padded = {
            name: _pad_rows([row[name] for row in rows], length, value)
            for name, value in (
                ("tokens", self._tokenizer.pad_token_id),
                ("labels", IGNORED),
                ("soft", 0),
                ("positions", 0),
                ("seen", 0),
            )
        }
        grounding, copies, options = (
            np.array(
                [(number, *place) for number, row in enumerate(rows) for place in row[name]],
                dtype=np.int64,
            ).reshape(-1, width)
            for name, width in (("grounding", 2), ("copies", 4), ("options", 3))
        )
        places = np.arange(length)
        owners = [_owners(one.view) for one in drawn]
        by_patch = [_patch_owners(one.view) for one in drawn]
        with_owners = [*zip(drawn, owners, strict=True)]
        with_patches = [*zip(drawn, by_patch, strict=True)]
        return Batch(
            images=np.stack([squashed(one.view) for one in drawn]),
            tokens=padded["tokens"],
            labels=padded["labels"],
            soft=padded["soft"].astype(np.bool_),
            positions=padded["positions"].swapaxes(0, 1),
            owner=np.array([row["owner"] for row in rows], dtype=np.int64),
            seen=padded["seen"].astype(np.bool_),
            targeted=np.stack([row["targeted"] for row in rows]),
            grounding=grounding,
            looked_at=np.concatenate([row["looked_at"] for row in rows]),
            copies=copies[:, :2],
            sources=(places >= copies[:, 2:3]) & (places < copies[:, 3:4]),
            options=options,
            kinds=np.stack([self._kinds(*one) for one in with_owners]),
            boxes=np.stack([_boxes(one.view, owner) for one, owner in with_owners]),
            boxes_of_targets=np.stack([row["boxes_of_targets"] for row in rows]),
            patch_kinds=np.stack([self._kinds(*one) for one in with_patches]),
            patch_boxes=np.stack([_boxes(one.view, owner)[:, :4] for one, owner in with_patches]),
            outlines=np.stack([_outlines(one.view, owner) for one, owner in with_owners]),
        )

    def _row(
        self, image: int, view: View, example: TrainingExample, interval: int
    ) -> dict[str, Any]:
        grids = -(-len(view.frames) // 2)
        pad = vocabulary.IMAGE if len(view.frames) == 1 else vocabulary.VIDEO
        before = f"{vocabulary.START}user\n"
        turn = f"{vocabulary.VISION_END}{vocabulary.END}\n{vocabulary.START}assistant\n"
        prompt = f"{before}{example.prompt}{vocabulary.VISION_START}{pad * (grids * TOKENS)}{turn}"
        encoded = self._tokenizer.backend_tokenizer.encode(
            prompt + example.response + vocabulary.END, add_special_tokens=False
        )
        requested = TokenPositions(len(before), encoded.offsets)
        output = TokenPositions(len(prompt), encoded.offsets)
        tokens = np.array(encoded.ids, dtype=np.int64)
        first, _ = output.places(0, 1)
        labels = np.full(len(tokens), IGNORED, dtype=np.int64)
        soft = np.zeros(len(tokens), dtype=np.int64)
        grounding, looked_at = [], []
        for place in range(first, len(tokens)):
            start, end = (edge - len(prompt) for edge in encoded.offsets[place])
            span = _span_at(example.spans, start, end)
            soft[place - 1] = span is not None and span.soft
            if start >= example.learned_from:
                labels[place - 1] = tokens[place]
                if span is not None and span.thing is not None:
                    grounding.append((place - 1,))
                    looked_at.append(_target(view, span))
        copies = [
            pointer
            for copy in example.copies
            if copy.start >= example.learned_from
            for pointer in _pointers(
                output.places(copy.start, copy.end),
                (requested if copy.in_prompt else output).places(*copy.source),
            )
        ]
        options = [
            (place, number)
            for number, stretch in enumerate(example.options)
            for place in range(*requested.places(*stretch))
        ]
        seen = tokens == self._tokenizer.convert_tokens_to_ids(pad)
        targeted, owners = _target_owners(view, example.targets)
        return {
            "tokens": tokens,
            "labels": labels,
            "soft": soft,
            "positions": _positions(int(seen.argmax()), grids, interval, len(tokens)),
            "owner": image,
            "seen": seen.astype(np.int64),
            "targeted": targeted.reshape(-1).astype(np.float32),
            "boxes_of_targets": _boxes(view, owners if self._places_of_targets else _owners(view)),
            "grounding": grounding,
            "looked_at": np.array(looked_at, dtype=np.float32).reshape(-1, grids * TOKENS),
            "copies": copies,
            "options": options,
        }

    def _kinds(self, drawn: DrawnScene, owners: Ints) -> Ints:
        """Return the owners' shapes, colours and sizes, for all grids one after the other; IGNORED
        for a colour without a name, and for shapes and sizes where only colours are learned.
        """
        alone = self._colours_alone and bool(drawn.examples)
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


@dataclass(frozen=True, slots=True)
class TokenPositions:
    """Place of the tokens of a part of a row's text."""

    begin: int
    """Place of the part in the text."""
    offsets: Sequence[tuple[int, int]]
    """Stretch of the text that each token is."""

    def places(self, start: int, end: int) -> tuple[int, int]:
        """The places of the tokens of a stretch: the first, and one after the last."""
        start, end = self.begin + start, self.begin + end
        inside = [i for i, (low, high) in enumerate(self.offsets) if low < end and high > start]
        return inside[0], inside[-1] + 1


def _pointers(written: tuple[int, int], info: tuple[int, int]) -> Iterator[tuple[int, int, int]]:
    """Yield pointers from each place before a written one to its source: token by token if both
    have as many.
    """
    one_by_one = written[1] - written[0] == info[1] - info[0]
    for number, place in enumerate(range(*written)):
        source = (info[0] + number, info[0] + number + 1) if one_by_one else info
        yield place - 1, *source


def squashed(view: View) -> NDArray[np.uint8]:
    """Frames × 168 × 168 × 3, as the evaluation squashes them; an odd last frame is repeated."""
    frames = [
        np.array(
            Image.fromarray(render(view.scene, frame, fills=view.fills)).resize(
                (CANVAS, CANVAS), Image.Resampling.BILINEAR
            )
        )
        for frame in view.frames
    ]
    if len(frames) > 1 and len(frames) % 2:
        frames.append(frames[-1])
    return np.stack(frames)


def _pad_rows(rows: Sequence[Ints], length: int, value: int) -> Ints:
    """Stack rows (… × their lengths), each filled up to a length."""
    whole = np.full((len(rows), *rows[0].shape[:-1], length), value, dtype=np.int64)
    for row, values in zip(whole, rows, strict=True):
        row[..., : values.shape[-1]] = values
    return whole


def _positions(start: int, grids: int, interval: int, length: int) -> Ints:
    """Time, height and width of each token, as the architecture counts them."""
    positions = np.tile(np.arange(length), (3, 1))
    cells = np.arange(grids * TOKENS)
    end = start + len(cells)
    step = interval if grids > 1 else 1
    positions[0, start:end] = start + cells // TOKENS * step
    positions[1, start:end] = start + cells % TOKENS // CELLS
    positions[2, start:end] = start + cells % CELLS
    positions[:, end:] = start + CELLS + np.arange(length - end)
    return positions


def _span_at(spans: Sequence[Span], start: int, end: int) -> Span | None:
    return next((span for span in spans if start < span.end and end > span.start), None)


def _target(view: View, span: Span) -> Floats:
    """Shares of the image tokens that show the thing in the frame."""
    place = view.frames.index(span.frame)
    shares = view.shares[place][span.thing]
    clear = np.where(shares >= MIN_PIXELS, shares, 0)
    clear = clear if clear.any() else shares + (0 if shares.any() else 1)
    whole = np.zeros((-(-len(view.frames) // 2), TOKENS), dtype=np.float32)
    whole[place // 2] = clear / clear.sum()
    return whole.reshape(-1)


def _owners(view: View) -> Ints:
    """Grids × image tokens: the thing that covers most of the token, or -1."""
    firsts = view.shares[::2]
    return np.where(firsts.max(1) >= MIN_PIXELS, firsts.argmax(1), -1)


def _target_owners(view: View, things: Sequence[int]) -> tuple[NDArray[np.bool_], Ints]:
    """Return which tokens show any of these things; and the owners of all, of these tokens the one
    of the things that covers most.
    """
    owners = _owners(view)
    if not things:
        return np.zeros(owners.shape, dtype=np.bool_), owners
    parts = view.shares[::2][:, list(things)]
    shown = parts.max(1) >= MIN_PIXELS
    return shown, np.where(shown, np.array(things)[parts.argmax(1)], owners)


def _patch_owners(view: View) -> Ints:
    """Grids × patches: the thing that covers most of the patch, or -1."""
    parts = [view.parts(frame, 2) for frame in view.frames[::2]]
    shares = np.stack(parts).reshape(len(parts), len(view.scene.things), -1)
    return np.where(shares.max(1) >= MIN_PIXELS_OF_PATCH, shares.argmax(1), -1)


def _outlines(view: View, owners: Ints) -> Floats:
    """Return the outline of each token's thing within the token; empty where it shows none."""
    whole = np.zeros((*owners.shape, OUTLINE**2), dtype=np.float32)
    for grid, owner in enumerate(owners):
        parts = view.parts(view.frames[2 * grid], OUTLINE)
        whole[grid] = np.where(owner[:, None] >= 0, parts[owner, np.arange(TOKENS)], 0)
    return whole.reshape(-1, OUTLINE**2)


def _boxes(view: View, owners: Ints) -> Floats:
    """Return the owners' boxes, and the ways of their middles to the next frame."""
    whole = np.zeros((*owners.shape, 6), dtype=np.float32)
    for grid, owner in enumerate(owners):
        first = view.boxes[view.frames[2 * grid]]
        second = view.boxes[view.frames[min(2 * grid + 1, len(view.frames) - 1)]]
        whole[grid, :, :4] = first[owner]
        gone = second[owner][:, :1] < 0
        way = (second[owner] - first[owner]).reshape(-1, 2, 2).mean(1)
        whole[grid, :, 4:] = np.where(gone, 0, way)
    return whole.reshape(-1, 6)
