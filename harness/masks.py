"""Masks as COCO run-lengths, validated in Python before any C code sees them.

The decoder of pycocotools 2.0.11 trusts its input: counts that are too short make it return
uninitialised memory, a huge size makes it crash. Every `Rle` here has been parsed and summed, so
holding one means that decoding it is safe.
"""

import base64
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self, overload

import cv2
import numpy as np
from numpy.typing import NDArray
from pycocotools import mask as coco

from harness.errors import MaskError
from harness.run_lengths import PAIRS_HINT, RUNS_EXPECTED, encode_runs, parse_counts, refuse_pairs

MAX_SIDE = 16_384  # pixels
MAX_PIXELS = 2**28

BoolArray = NDArray[np.bool_]

BYTES_REPR = re.compile(r"b'[\x20-\x7e]*'|b\"[\x20-\x7e]*\"")
"""Pattern of the text that `str` makes of bytes, such as `b'PPYo0'`."""
BACKSLASH = "\\"
SEVERAL_NUMBERS = re.compile(r"\s*\d+(?:[\s,]+\d+)+\s*")
"""Pattern of numbers in the place of compressed counts, such as `12 3 40 5`."""
POLYGONS_HINT = "--format coco reads polygons; docs/predictions.md has the lines that write arrays."


def check_size(height: int, width: int, what: str = "mask") -> None:
    """Raise MaskError unless both are whole numbers > 0, within `MAX_SIDE` and `MAX_PIXELS`."""
    are_integers = all(
        isinstance(side, int) and not isinstance(side, bool) for side in (height, width)
    )
    if not (are_integers and 0 < height <= MAX_SIDE and 0 < width <= MAX_SIDE):
        raise MaskError(
            f"{what} size",
            expected=f"two whole numbers from 1 to {MAX_SIDE}",
            found=f"{str(height)[:20]} × {str(width)[:20]}",
        )
    if height * width > MAX_PIXELS:
        raise MaskError(
            f"{what} size", expected=f"at most {MAX_PIXELS} pixels", found=f"{height} × {width}"
        )


@dataclass(frozen=True)
class Rle:
    """A binary mask of height × width pixels, as COCO's compressed run-length text.

    Two masks with the same pixels have the same text when both were made by `from_array`.
    """

    height: int
    width: int
    counts: str

    def __post_init__(self) -> None:
        check_size(self.height, self.width)
        runs = self.runs  # parses, so that a malformed text cannot exist as an Rle
        if int(runs.sum()) != self.height * self.width:
            raise MaskError(
                f"run-length of a {self.height} × {self.width} mask",
                expected=f"runs that add up to {self.height * self.width} pixels",
                found=str(int(runs.sum())),
            )

    @cached_property
    def runs(self) -> NDArray[np.int64]:
        """Lengths of the alternating runs of 0 and 1, column by column."""
        return parse_counts(self.counts, self.height * self.width)

    @property
    def pixels(self) -> BoolArray:
        """All pixels in the order of the runs, column by column."""
        flat: BoolArray = np.repeat(np.arange(self.runs.size) % 2 == 1, self.runs)
        return flat

    @classmethod
    def from_array(cls, mask: NDArray[np.generic]) -> Self:
        """Encode a boolean or whole-number array of height × width; nonzero is foreground.

        Raises MaskError for another shape, and for logits or confidences, which need a threshold.
        """
        if mask.ndim != 2:
            raise MaskError("mask array", expected="height × width", found=f"shape {mask.shape}")
        if mask.dtype.kind not in "bui":
            raise MaskError(
                "mask array",
                expected="true or false a pixel, or whole numbers",
                found=f"values of type {mask.dtype}",
                fix="Compare logits or confidences with a threshold first.",
            )
        check_size(*mask.shape)
        encoded = coco.encode(_by_columns(mask != 0))
        return cls._trusted(mask.shape[0], mask.shape[1], _text(encoded["counts"]))

    @classmethod
    def _trusted(cls, height: int, width: int, counts: str) -> Self:
        """Build from counts known to be valid, without parsing them: that would take longer."""
        rle = object.__new__(cls)
        for name, value in (("height", height), ("width", width), ("counts", counts)):
            object.__setattr__(rle, name, value)
        return rle

    @classmethod
    def empty(cls, height: int, width: int) -> Self:
        """A mask without foreground."""
        check_size(height, width)
        return cls(height, width, encode_runs([height * width]))

    @classmethod
    def full(cls, height: int, width: int) -> Self:
        """A mask that is all foreground."""
        check_size(height, width)
        return cls(height, width, encode_runs([0, height * width]))

    @classmethod
    def from_json(cls, value: object, what: str = "mask", *, by_rows: bool = False) -> Self:
        """Read `{"size": [height, width], "counts": text or list of runs}`.

        Counts that are the text of Python's bytes, `b'…'`, are those bytes: no run-length has a
        quotation mark.

        Args:
            value: The plain object.
            what: What it is, for messages.
            by_rows: The runs go along the rows, as `numpy.ravel` does, and not down the columns.
        """
        if not isinstance(value, dict) or not {"size", "counts"} <= set(value):
            raise MaskError(
                what,
                expected='{"size": [height, width], "counts": "…"}',
                found=repr(value)[:60],
                fix=POLYGONS_HINT,
            )
        size, counts = value["size"], value["counts"]
        if not isinstance(size, (list, tuple)) or len(size) != 2:
            raise MaskError(what, expected='"size" to be [height, width]', found=repr(size)[:40])
        check_size(size[0], size[1], what)
        if isinstance(counts, list):
            if len(counts) > size[0] * size[1] + 1 or not all(
                type(run) is int and 0 <= run <= MAX_PIXELS for run in counts
            ):
                raise MaskError(
                    what, expected="runs that are whole numbers ≥ 0", found=repr(counts)[:60]
                )
            refuse_pairs(counts, size[0] * size[1], what)
            counts = encode_runs(counts)
        if isinstance(counts, bytes):
            counts = counts.decode("ascii", "replace")
        verbatim = ""
        if isinstance(counts, str) and BYTES_REPR.fullmatch(counts):
            verbatim = counts[2:-1]
            counts = verbatim.replace(
                2 * BACKSLASH, BACKSLASH
            )  # `str` of bytes doubles each backslash
        if not isinstance(counts, str):
            raise MaskError(what, expected='"counts" to be text', found=type(counts).__name__)
        if isinstance(counts, str) and SEVERAL_NUMBERS.fullmatch(counts):
            raise MaskError(
                what, expected=RUNS_EXPECTED, found=f"numbers, {counts[:24]!r}", fix=PAIRS_HINT
            )
        try:
            mask = cls(size[0], size[1], counts)
        except MaskError as error:
            if verbatim and verbatim != counts:  # perhaps its backslashes were not doubled
                plain = {"size": size, "counts": verbatim}
                return cls.from_json(plain, what, by_rows=by_rows)
            raise MaskError(f"{what}: {error}") from error
        return cls.from_array(mask.pixels.reshape(size)) if by_rows else mask

    def to_json(self) -> dict[str, object]:
        """The COCO form, `{"size": [height, width], "counts": text}`."""
        return {"size": [self.height, self.width], "counts": self.counts}

    def to_array(self) -> BoolArray:
        """Decode to a boolean array of height × width."""
        decoded: BoolArray = coco.decode(self._coco()).view(np.bool_)
        return decoded

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) in pixels."""
        return self.width, self.height

    @property
    def area(self) -> int:
        """Number of foreground pixels."""
        return int(self.runs[1::2].sum())

    def union(self, *others: "Rle") -> "Rle":
        """Pixels that are in any of the masks."""
        return self._merge(others, intersect=False)

    def intersection(self, *others: "Rle") -> "Rle":
        """Pixels that are in all of the masks."""
        return self._merge(others, intersect=True)

    def _merge(self, others: Sequence["Rle"], *, intersect: bool) -> "Rle":
        """Return the union or intersection with masks; raise MaskError if sizes differ."""
        for mask in others:
            if mask.size != self.size:
                raise MaskError(
                    "mask to combine",
                    expected=f"{self.width} × {self.height} pixels",
                    found=f"{mask.width} × {mask.height}",
                )
        if not others:
            return self
        merged = coco.merge([self._coco(), *(mask._coco() for mask in others)], intersect)
        return Rle(self.height, self.width, _text(merged["counts"]))

    def _coco(self) -> object:
        return {"size": [self.height, self.width], "counts": self.counts.encode("ascii")}


class Track(Sequence[BoolArray]):
    """The masks (height × width) of one object, one per frame, held as run-length text.

    A mask is decoded whenever it is read, as a read-only array: to change one, assign a whole mask.
    Frames without an assigned mask are empty. `rles` gives the masks for an `Answer`, undecoded.
    """

    def __init__(self, frames: int, height: int, width: int) -> None:
        self.height, self.width = height, width
        self._counts = [Rle.empty(height, width).counts] * frames

    @classmethod
    def of_one_mask(cls, mask: BoolArray, frames: int) -> Self:
        """Return a track with the same mask in every frame, held once."""
        track = cls(frames, *mask.shape)
        track._counts = [Rle.from_array(mask).counts] * frames
        return track

    @classmethod
    def from_rles(cls, rles: Sequence[Rle]) -> Self:
        """Return a track of encoded masks; raise MaskError for none, or for several sizes."""
        if not rles:
            raise MaskError("track", expected="at least one frame", found="none")
        track = cls(0, rles[0].height, rles[0].width)
        for index, rle in enumerate(rles):
            track._check(f"mask of frame {index}", rle)
            track._counts.append(rle.counts)
        return track

    def rle(self, index: int) -> Rle:
        """The mask of a frame."""
        return Rle._trusted(self.height, self.width, self._counts[index])

    @property
    def rles(self) -> tuple[Rle, ...]:
        """The masks of all frames."""
        return tuple(map(self.rle, range(len(self))))

    def __len__(self) -> int:
        return len(self._counts)

    @overload
    def __getitem__(self, index: int) -> BoolArray: ...
    @overload
    def __getitem__(self, index: slice) -> "Track": ...
    def __getitem__(self, index: int | slice) -> "BoolArray | Track":
        if isinstance(index, slice):
            part = Track(0, self.height, self.width)
            part._counts = self._counts[index]
            return part
        mask = self.rle(index).to_array()
        mask.flags.writeable = False
        return mask

    def __iter__(self) -> Iterator[BoolArray]:
        """Yield the masks in order; one that does not change for some frames is decoded once."""
        decoded, mask = None, None
        for index, run_lengths in enumerate(self._counts):
            if mask is None or run_lengths != decoded:
                decoded, mask = run_lengths, self[index]
            yield mask

    def __setitem__(self, index: int, mask: BoolArray) -> None:
        """Encode a frame's mask; raise MaskError if it has another size."""
        rle = Rle.from_array(mask)
        self._check(f"mask of frame {index}", rle)
        self._counts[index] = rle.counts

    def union(self, *others: "Track") -> "Track":
        """Return, in every frame, the pixels that are in any of the tracks; nothing is decoded.

        Raises:
            MaskError: one has another size or length.
        """
        if not others:
            return self
        for track in others:
            self._check("track to unite", track)
            if len(track) != len(self):
                raise MaskError(
                    "track to unite", expected=f"{len(self)} frames", found=str(len(track))
                )
        joint, before = self[:], None
        texts_by_frame = zip(*(track._counts for track in (self, *others)), strict=True)
        for index, frame_texts in enumerate(texts_by_frame):  # each frame's text in every track
            if frame_texts == before:  # as where nothing is carried, or nothing is left
                joint._counts[index] = joint._counts[index - 1]
                continue
            # `merge` keeps a mask's text in the form in which `encode` writes it.
            size, before = [self.height, self.width], frame_texts
            merged = coco.merge(
                [{"size": size, "counts": text.encode("ascii")} for text in frame_texts]
            )
            joint._counts[index] = _text(merged["counts"])
        return joint

    def _check(self, what: str, operand: "Rle | Track") -> None:
        if (operand.height, operand.width) != (self.height, self.width):
            raise MaskError(
                what,
                expected=f"{self.width} × {self.height} pixels",
                found=f"{operand.width} × {operand.height}",
            )


def rles_of(masks: Sequence[BoolArray]) -> tuple[Rle, ...]:
    """Return the run-lengths of masks; a `Track` has them encoded already."""
    return masks.rles if isinstance(masks, Track) else tuple(map(Rle.from_array, masks))


def _by_columns(mask: BoolArray) -> NDArray[np.uint8]:
    """Return a mask in column-major order, which COCO's code reads.

    OpenCV transposes 10 times as fast as NumPy.
    """
    plain = mask.view(np.uint8)
    return plain if plain.flags.f_contiguous else np.asarray(cv2.transpose(plain), np.uint8).T


def _text(counts: str | bytes) -> str:
    return counts if isinstance(counts, str) else counts.decode("ascii")


@dataclass(frozen=True, slots=True)
class SoftMask:
    """A confidence from 0 to 1 for each pixel, in 255 steps, for protocols that compare objects.

    `levels` holds one byte per pixel, row by row, compressed by zlib.
    """

    height: int
    width: int
    levels: bytes

    @classmethod
    def from_array(cls, confidence: NDArray[np.floating]) -> Self:
        """Quantise an array of height × width with values in [0, 1]."""
        if confidence.ndim != 2:
            raise MaskError("soft mask", expected="height × width", found=str(confidence.shape))
        check_size(*confidence.shape)
        if not np.isfinite(confidence).all() or confidence.min() < 0 or confidence.max() > 1:
            raise MaskError("soft mask", expected="finite values from 0 to 1", found="others")
        levels = np.rint(confidence * 255).astype(np.uint8)
        height, width = confidence.shape
        return cls(height, width, zlib.compress(levels.tobytes(), 6))

    def to_array(self) -> NDArray[np.float32]:
        """Confidences, height × width, float32 in [0, 1]."""
        pixels = self.height * self.width
        unpacker = zlib.decompressobj()
        raw = unpacker.decompress(self.levels, pixels + 1)
        if len(raw) != pixels:
            raise MaskError("soft mask", expected=f"{pixels} levels", found=str(len(raw)))
        levels = np.frombuffer(raw, dtype=np.uint8).reshape(self.height, self.width)
        return levels.astype(np.float32) / np.float32(255)

    def to_json(self) -> dict[str, object]:
        """Return `{"size": [height, width], "levels": base64 of the compressed levels}`."""
        return {
            "size": [self.height, self.width],
            "levels": base64.b64encode(self.levels).decode("ascii"),
        }

    @classmethod
    def from_json(cls, value: object, what: str = "soft mask") -> Self:
        """Read what `to_json` wrote, checking its size."""
        try:
            if not isinstance(value, dict):
                raise TypeError("no object")
            height, width = value["size"]
            levels = base64.b64decode(value["levels"], validate=True)
        except (KeyError, TypeError, ValueError) as error:
            raise MaskError(
                what, expected='{"size": [h, w], "levels": base64}', found=repr(value)[:60]
            ) from error
        check_size(height, width, what)
        mask = cls(height, width, levels)
        mask.to_array()
        return mask
