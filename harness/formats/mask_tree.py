"""Masks of images as files in a folder: one an image, or one an object.

| file | foreground is |
| --- | --- |
| `<id>.png` of 1 or 8 bits, or with a palette | what is not 0 |
| `<id>.png` of 16 bits | a probability in 65,535 steps, above the threshold |
| `<id>.npy` of ground truth values or whole numbers | what is not 0 |
| `<id>.npy` of floating-point numbers | a probability from 0 to 1, above the threshold |
| `<id>/<object>.png` or `.npy`, one an object | their union |
| `<id>_mask_<k>.png`, one an object, as LISA names them | their union |

Grey of 8 bits, or whole numbers, with several values besides 0 could be a confidence, numbers of
objects or blurred edges: such a file is refused. An image whose channels are equal is grey.

LISA's `chat.py` (commit 3cb2d43) writes its masks as JPEG, which is refused; its
`<id>_masked_img_<k>` show the mask on the image and are passed over.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from tokenize import TokenError
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError, raised_as
from harness.files import open_regular
from harness.foreign import backslashes, from_one, is_leftover, refuse_foreign
from harness.layout.mask_image import (
    DEEP,
    JPEGS,
    LOSSY,
    read_mask_image,
    refuse_several,
    refuse_void,
)
from harness.masks import BoolArray, Rle
from harness.types import Answer, AnswerForm, Failure, FailureKind, Prediction, Sample

ENDS = (".png", ".npy")
NUMBERED = re.compile(r"(.+)_mask_\d{1,9}")
TRUTH = re.compile(r"(?:^|[^a-z])(?:gt|ground[ _-]?truth)(?:$|[^a-z])", re.IGNORECASE)
"""File names of ground truth that scripts save beside a prediction."""
ALL_ENDS = (*ENDS, ".PNG", ".NPY", ".jpg", ".jpeg", ".JPG", ".JPEG")
RESERVED = re.compile(r'[\x00-\x1f\x7f"%*:<>?\\|]')
"""Characters that file names of some systems cannot hold, and the sign before their code."""

SCALES = (100, 255)
"""Largest values of confidences in percent and in 8 bits; logits are rarely all above 0."""
NPY = b"\x93NUMPY"
UNREADABLE = (
    OSError,
    ValueError,
    TypeError,
    EOFError,
    OverflowError,
    MemoryError,
    SyntaxError,
    TokenError,
)
"""Exceptions of NumPy for a damaged file, whose header it parses as a literal of Python."""

Values: TypeAlias = NDArray[np.bool_ | np.integer | np.floating]


def file_name(sample_id: str) -> str:
    r"""The path of a sample's mask in the folder, without its end.

    A slash is a folder. Of `" % * : < > ? \ |` and control characters each byte becomes `%` and two
    hexadecimal digits, as in an address; so do the dots of a part that is `.` or `..`, and all
    slashes of an id in which one begins, ends or follows another.

    >>> file_name("val/a b.jpg"), file_name("what?"), file_name("../x"), file_name("a//b")
    ('val/a b.jpg', 'what%3F', '%2E%2E/x', 'a%2F%2Fb')
    """
    parts = [
        RESERVED.sub(lambda sign: f"%{ord(sign[0]):02X}", part) for part in sample_id.split("/")
    ]
    if not all(parts):
        return "%2F".join(parts)
    return "/".join(part.replace(".", "%2E") if part in (".", "..") else part for part in parts)


def mask_tree(
    root: Path, samples: Iterable[Sample], *, allow_extra: bool = False, threshold: float = 0.5
) -> Iterator[Prediction]:
    """The prediction for each sample, in their order; one without a file is a failure.

    Args:
        root: The folder.
        samples: Images of which one mask is asked each.
        allow_extra: Pass over files that belong to no sample, instead of refusing.
        threshold: A pixel is foreground where its probability is above it.

    Raises:
        DataError: there is no file for any sample, or one for none; two files claim to be one
            mask; a file is damaged, of another size, or of values that tell no mask; or all masks
            are empty though files have other values than 0. It is named.
    """
    used: set[Path] = set()
    numbered = _numbered(root)
    wanted = "<id>.png"
    vanished: Path | None = None
    is_foreground = False
    names: set[str] = set()
    samples = iter(samples)
    for sample in samples:
        names.add(file_name(sample.id))
        wanted = f"{file_name(sample.id)}.png"
        if sample.query.form is not AnswerForm.MASK:
            raise DataError(
                f"predictions {root}, sample {sample.id!r}",
                expected="an image with a mask as answer",
                found=f"a {sample.query.form} question",
                fix="Use --format png-tree for videos.",
            )
        paths = _files(root, sample, numbered)
        if not paths:
            message = f"no file {file_name(sample.id)}.png or .npy in {root.name}"
            failure = Failure(FailureKind.INFRASTRUCTURE, message)
            yield Prediction(query_id=sample.query.id, failure=failure)
            continue
        if twice := used & {*paths}:
            raise DataError(
                f"predictions {min(twice)}",
                expected="a file of one sample",
                found=f"one of {sample.id!r} and of another",
            )
        used |= {*paths}
        parts = []
        for path in paths:
            try:
                mask, is_blank = _mask(path, sample, threshold)
            except DataError as error:
                names |= {file_name(known.id) for known in samples}
                if fix := _from_one(root.rglob("*.*"), names, root):
                    raise DataError(f"{error}", fix=fix) from error
                raise
            parts.append(Rle.from_array(mask))
            is_foreground = is_foreground or bool(mask.any())
            if not is_blank and not mask.any():
                vanished = vanished or path
        first, *others = parts
        masks = (first.union(*others),)
        yield Prediction(query_id=sample.query.id, answer=Answer(masks=masks))
    if not used:
        raise DataError(
            f"predictions {root}",
            expected=f"a file a sample, such as {wanted} or .npy",
            found=next(
                (f"{file.name}, of no sample" for file in sorted(root.rglob("*.*"))), "none"
            ),
            fix=_rename(root.rglob("*.*"), names, root)
            or "`harness list tasks NAME` explains the ids of a task. Run-lengths in JSON need "
            "another --format; save each array of an .npz as one .npy.",
        )
    if vanished and not is_foreground:
        raise DataError(
            f"predictions {root}",
            expected=f"a mask with a probability above the threshold, {threshold:g}",
            found=f"none, though {vanished.name} and others have values that are not 0",
            fix="Of 16 bits 65,535 is probability 1: write masks of 0 and 1, or 0 and 255, with 8 "
            "bits.",
        )
    if not allow_extra:
        rest = {*root.rglob("*")} - used
        extra = sorted(path for path in rest if not (path.is_dir() or _is_beside(path, root)))
        if extra:
            raise DataError(
                f"predictions {root}",
                expected="only files of these samples",
                found=f"{len(extra)} others, such as {extra[0].relative_to(root)}",
                fix=_rename(extra, names, root)
                or "Check the split, or pass --allow-extra to ignore such files.",
            )


def _rename(paths: Iterable[Path], names: Collection[str], root: Path) -> str:
    """Return what to type where masks have an image's suffix before their own, as `x.jpg.png`,
    backslashes in their names, or numbers from 1.
    """
    paths = list(paths)
    if fix := backslashes(path.name for path in paths) or _from_one(root.rglob("*.*"), names, root):
        return fix
    for path in sorted(paths):
        name, _, image = path.relative_to(root).with_suffix("").as_posix().rpartition(".")
        if name in names and image.isalnum() and path.suffix in ENDS:
            wrong = f".{image}{path.suffix}"
            command = f'for f in *{wrong}; do mv "$f" "${{f%{wrong}}}{path.suffix}"; done'
            return f"A mask is called as its sample is: `{command}` in its folder renames them."
    return ""


def _from_one(paths: Iterable[Path], names: Collection[str], root: Path) -> str:
    """Return what to type where masks are numbered from 1."""
    masks = [path for path in paths if path.suffix in ENDS and not _is_beside(path, root)]
    stems = (path.relative_to(root).with_suffix("").as_posix() for path in masks)
    return from_one(stems, names, f"**/*{masks[0].suffix}") if masks else ""


def _is_beside(path: Path, root: Path) -> bool:
    """Return True for a leftover, and for LISA's image with the mask shown in it."""
    return is_leftover(path.relative_to(root)) or "_masked_img_" in path.name


def _numbered(root: Path) -> dict[str, list[Path]]:
    """Return the files that are called `<id>_mask_<k>`, by the path of `<id>`."""
    files: dict[str, list[Path]] = {}
    for path in sorted(root.rglob("*_mask_*")):
        if (match := NUMBERED.fullmatch(path.stem)) and not _is_beside(path, root):
            files.setdefault(str(path.with_name(match[1])), []).append(path)
    return files


def _files(root: Path, sample: Sample, numbered: Mapping[str, list[Path]]) -> list[Path]:
    """Return the files of a sample's masks; raise DataError if two are called alike."""
    stem = root / file_name(sample.id)
    with raised_as(DataError, f"predictions {stem}", "a file that can be read", OSError):
        files = [path for end in ALL_ENDS if (path := stem.with_name(stem.name + end)).is_file()]
        if not files:
            inside = list(stem.iterdir()) if stem.is_dir() else []
            _refuse_truth(inside)
            inside += numbered.get(str(stem), [])
            files = [path for path in inside if path.is_file() and not _is_beside(path, root)]
    lossy = [path for path in files if path.suffix.lower() in JPEGS]
    files = sorted(path for path in files if path.suffix.lower() in ENDS)
    if lossy and not files:
        raise DataError(f"prediction {min(lossy)}", expected="a PNG", found="a JPEG", fix=LOSSY)
    names = [path.with_suffix("") for path in files]
    if twice := [path for path in files if names.count(path.with_suffix("")) > 1]:
        raise DataError(
            f"predictions {twice[0]}",
            expected="one file a mask",
            found=f"{twice[1].name} beside it",
        )
    return files


def _refuse_truth(objects: Iterable[Path]) -> None:
    """Raise DataError if the file of an object is called ground truth: it would join the union."""
    if truth := sorted(path for path in objects if TRUTH.search(path.stem)):
        raise DataError(
            f"predictions {truth[0]}",
            expected="only predicted masks, because their union is scored",
            found="a file named like ground truth",
            fix="Write only the predicted mask to `<id>.png`; rename an object of that name.",
        )


def _mask(path: Path, sample: Sample, threshold: float) -> tuple[BoolArray, bool]:
    """The mask in a file, height × width, of the image's size; and whether all values are 0."""
    what, (width, height) = f"prediction {path}", sample.query.size
    values = _array(path, what) if path.suffix.lower() == ".npy" else _image(path, what)
    if values.shape != (height, width):
        raise DataError(
            what,
            expected=f"{height} × {width} (height × width), as the image is",
            found=" × ".join(map(str, values.shape)) or "a single number",
            fix="Save `mask.squeeze()`."
            if values.squeeze().shape == (height, width)
            else "Masks are never resized here: write them at full size.",
        )
    if values.dtype.kind == "f":
        low, high = float(np.min(values)), float(np.max(values))
        if not (low >= 0 and high <= 1):  # not a number is neither
            raise DataError(
                what,
                expected="probabilities from 0 to 1",
                found=f"values from {low:g} to {high:g}",
                fix=_as_probabilities(low, high),
            )
        return np.asarray(values > threshold), high == 0
    if values.dtype.kind in "ui":
        refuse_several(values, what)
    mask = np.asarray(values != 0)
    return mask, not mask.any()


def _as_probabilities(low: float, high: float) -> str:
    """Return what makes probabilities of the values of a mask, as far as their range shows it."""
    scale = next((scale for scale in SCALES if low >= 0 and high <= scale), None)
    if scale is not None:
        return f"If they are from 0 to {scale}, divide them by {scale}."
    return "If they are logits, apply a sigmoid."


def _array(path: Path, what: str) -> Values:
    """The array of an .npy file; objects in it, which could run code, are never unpickled."""
    with raised_as(DataError, what, "a complete array of numbers", *UNREADABLE):
        with open_regular(path) as file:
            if file.read(len(NPY)) != NPY:
                refuse_foreign(path, DataError, what, "an array that numpy.save wrote")
                raise DataError(what, expected="an array that numpy.save wrote", found="others")
        # As a map, so that what the header claims is not reserved before the size is known.
        array: Values = np.load(path, mmap_mode="r", allow_pickle=False)
    if array.dtype.kind not in "buif":
        raise DataError(
            what, expected="ground truth values or numbers", found=f"type {array.dtype}"
        )
    return array


def _image(path: Path, what: str) -> Values:
    """The values of a PNG; of one of 16 bits, from 0 to 1."""
    image = read_mask_image(path, what)
    values, mode = image
    refuse_void(image, what)
    if mode in DEEP:
        return values / 65_535
    # Of a palette the numbers, which may be those of objects; of grey the values.
    return values > 0 if mode == "P" else values
