"""Read predicted masks from a folder of image files: one file per image, or one per object.

| file | foreground is |
| --- | --- |
| `<id>.png` of 1 or 8 bits, or with a palette | values other than 0 |
| `<id>.png` of 16 bits | a probability in 65,535 steps, above the threshold |
| `<id>.npy` of booleans or whole numbers | values other than 0 |
| `<id>.npy` of floating-point numbers | a probability from 0 to 1, above the threshold |
| `<id>/<object>.png` or `.npy`, one per object | their union |
| `<id>_mask_<k>.png`, one per object, as LISA names them | their union |

Grey of 8 bits, or whole numbers, with several values besides 0 could be a confidence, object
numbers or blurred edges: such a file is refused. An image with equal channels counts as grey.

LISA's `chat.py` (commit 3cb2d43) writes its masks as JPEG, which is refused; its files
`<id>_masked_img_<k>` show the mask on the image and are skipped.
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
from harness.foreign import HEAD, backslashes, extra_fix, from_one, is_leftover, refuse_foreign
from harness.layout.mask_image import (
    DEEP_MODES,
    JPEG_SUFFIXES,
    LOSSY_FIX,
    read_mask_image,
    refuse_classes,
    refuse_several,
    refuse_void,
)
from harness.masks import BoolArray, Rle
from harness.types import Answer, AnswerForm, Failure, FailureKind, Prediction, Sample

ENDS = (".png", ".npy")
NUMBERED = re.compile(r"(.+)_mask_\d{1,9}")
TRUTH = re.compile(r"(?:^|[^a-z])(?:gt|ground[ _-]?truth)(?:$|[^a-z])", re.IGNORECASE)
"""A file name such as `gt_0` or `ground_truth`, which scripts save beside a prediction."""
ALL_ENDS = (*ENDS, ".PNG", ".NPY", ".jpg", ".jpeg", ".JPG", ".JPEG")
RESERVED = re.compile(r'[\x00-\x1f\x7f"%*:<>?\\|]')
"""Characters that some systems do not allow in file names, and `%`, which precedes their code."""

SCALES = (100, 255)
"""Largest values of confidences in percent and in 8 bits; logits are rarely all above 0."""
NPY = b"\x93NUMPY"
OBJECTS = b"'descr': '|O'"
"""Part of a header of NumPy that says that the elements are objects."""
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
"""Exceptions of NumPy for a damaged file, whose header it parses as a Python literal."""

Values: TypeAlias = NDArray[np.bool_ | np.integer | np.floating]


def file_name(sample_id: str) -> str:
    r"""Return the path of a sample's mask in the folder, without suffix.

    A slash in the id separates folders. Each byte of `" % * : < > ? \ |` and of control characters
    becomes `%` and two hexadecimal digits, as in a URL. So do the dots of a part `.` or `..`, and
    all slashes of an id that begins or ends with one or has two in a row.

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
    root: Path,
    samples: Iterable[Sample],
    *,
    allow_extra: bool | None = False,
    threshold: float = 0.5,
) -> Iterator[Prediction]:
    """Yield the prediction for each sample, in order; a sample without a file is a failure.

    Args:
        root: The folder.
        samples: Samples that ask for one mask of one image each.
        allow_extra: True to skip files that belong to no sample, False to refuse them, None to
            refuse them where no option allows them.
        threshold: Probability above which a pixel is foreground.

    Raises:
        DataError: no sample has a file, or a file belongs to no sample; two files are for one mask;
            a file is damaged, of another size, or its values are not a clear mask; or all masks are
            empty though files have other values than 0. The file is named.
    """
    used: set[Path] = set()
    numbered = _numbered(root)
    expected_name = "<id>.png"
    vanished: Path | None = None
    is_foreground = False
    names: set[str] = set()
    samples = iter(samples)
    for sample in samples:
        names.add(file_name(sample.id))
        expected_name = f"{file_name(sample.id)}.png"
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
        raise _no_file(root, expected_name, names)
    if vanished and not is_foreground:
        raise DataError(
            f"predictions {root}",
            expected=f"a mask with a probability above the threshold, {threshold:g}",
            found=f"none, though {vanished.name} and others have values that are not 0",
            fix="Of 16 bits 65,535 is probability 1: write masks of 0 and 1, or 0 and 255, with 8 "
            "bits.",
        )
    rest = set() if allow_extra else {*root.rglob("*")} - used
    if extra := sorted(path for path in rest if not (path.is_dir() or _is_beside(path, root))):
        raise DataError(
            f"predictions {root}",
            expected="only files of these samples",
            found=f"{len(extra)} others, such as {extra[0].relative_to(root)}",
            fix=_rename(extra, names, root) or extra_fix(allow_extra, "files"),
        )


def _no_file(root: Path, expected_name: str, names: Collection[str]) -> DataError:
    """Return the error for a folder in which no sample (`names`) has a file."""
    paths = sorted(root.rglob("*.*"))
    return DataError(
        f"predictions {root}",
        expected=f"a file a sample, such as {expected_name} or .npy",
        found=f"{paths[0].name}, of no sample" if paths else "none",
        fix=_rename(paths, names, root)
        or "`harness list tasks NAME` explains the ids of a task. Run-lengths in JSON need "
        "another --format; save each array of an .npz as one .npy.",
    )


def _rename(paths: Iterable[Path], names: Collection[str], root: Path) -> str:
    """Return a command that renames masks whose names nearly fit; "" if none is known.

    Their names may have an image's suffix before their own (`x.jpg.png`), backslashes, numbers
    from 1, or lie in one more folder.
    """
    paths = list(paths)
    inner = {path.relative_to(root).parts[0] for path in paths if not _is_beside(path, root)}
    if len(inner) == 1:
        (folder,) = inner
        if any(
            path.relative_to(root / folder).with_suffix("").as_posix() in names
            for path in paths
            if path.parent != root and path.suffix in ENDS and not _is_beside(path, root)
        ):
            return f"They lie in the folder {folder}: give that one, or zip its content."
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
    """Return a command that renames masks numbered from 1 instead of 0; "" for others."""
    masks = [path for path in paths if path.suffix in ENDS and not _is_beside(path, root)]
    stems = (path.relative_to(root).with_suffix("").as_posix() for path in masks)
    return from_one(stems, names, f"**/*{masks[0].suffix}") if masks else ""


def _is_beside(path: Path, root: Path) -> bool:
    """Return True for a leftover file, and for LISA's picture of the mask on the image."""
    return is_leftover(path.relative_to(root)) or "_masked_img_" in path.name


def _numbered(root: Path) -> dict[str, list[Path]]:
    """Return the files with names `<id>_mask_<k>`, by the path of `<id>`."""
    files: dict[str, list[Path]] = {}
    for path in sorted(root.rglob("*_mask_*")):
        if (match := NUMBERED.fullmatch(path.stem)) and not _is_beside(path, root):
            files.setdefault(str(path.with_name(match[1])), []).append(path)
    return files


def _files(root: Path, sample: Sample, numbered: Mapping[str, list[Path]]) -> list[Path]:
    """Return the files of a sample's masks; raise DataError if two stand for the same mask."""
    stem = root / file_name(sample.id)
    with raised_as(DataError, f"predictions {stem}", "a file that can be read", OSError):
        files = [path for end in ALL_ENDS if (path := stem.with_name(stem.name + end)).is_file()]
        if not files:
            inside = list(stem.iterdir()) if stem.is_dir() else []
            _refuse_truth(inside)
            inside += numbered.get(str(stem), [])
            files = [path for path in inside if path.is_file() and not _is_beside(path, root)]
    lossy = [path for path in files if path.suffix.lower() in JPEG_SUFFIXES]
    files = sorted(path for path in files if path.suffix.lower() in ENDS)
    if lossy and not files:
        raise DataError(f"prediction {min(lossy)}", expected="a PNG", found="a JPEG", fix=LOSSY_FIX)
    names = [path.with_suffix("") for path in files]
    if twice := [path for path in files if names.count(path.with_suffix("")) > 1]:
        raise DataError(
            f"predictions {twice[0]}",
            expected="one file a mask",
            found=f"{twice[1].name} beside it",
        )
    return files


def _refuse_truth(objects: Iterable[Path]) -> None:
    """Raise DataError if an object's file is named as ground truth: it would join the union."""
    if truth := sorted(path for path in objects if TRUTH.search(path.stem)):
        raise DataError(
            f"predictions {truth[0]}",
            expected="only predicted masks, because their union is scored",
            found="a file named like ground truth",
            fix="Write only the predicted mask to `<id>.png`; rename an object of that name.",
        )


def _mask(path: Path, sample: Sample, threshold: float) -> tuple[BoolArray, bool]:
    """Return a file's mask, height × width of the image, and True if all its values are 0."""
    what, (width, height) = f"prediction {path}", sample.query.size
    values = _array(path, what) if path.suffix.lower() == ".npy" else _image(path, what)
    if values.shape != (height, width):
        raise DataError(
            what,
            expected=f"{height} × {width} (height × width), as the image is",
            found=" × ".join(map(str, values.shape)) or "a single number",
            fix="Save `mask.squeeze()`."
            if values.squeeze().shape == (height, width)
            else "Masks are not resized: write them in the image's size.",
        )
    if values.dtype.kind == "f":
        low, high = float(np.min(values)), float(np.max(values))
        if not (low >= 0 and high <= 1):  # NaN is neither
            raise DataError(
                what,
                expected="probabilities from 0 to 1",
                found="NaN" if np.isnan(low) else f"values from {low:g} to {high:g}",
                fix="" if np.isnan(low) else _as_probabilities(low, high),
            )
        return np.asarray(values > threshold), high == 0
    if values.dtype.kind in "ui":
        refuse_several(values, what)
    mask = np.asarray(values != 0)
    return mask, not mask.any()


def _as_probabilities(low: float, high: float) -> str:
    """Return how to convert values in the range `low` to `high` to probabilities."""
    scale = next((scale for scale in SCALES if low >= 0 and high <= scale), None)
    if scale is not None:
        return f"If they are from 0 to {scale}, divide them by {scale}."
    return "If they are logits, apply a sigmoid."


def _array(path: Path, what: str) -> Values:
    """Return the array of an .npy file; objects in it, which could run code, are not unpickled."""
    with raised_as(DataError, what, "a complete array of numbers", *UNREADABLE):
        with open_regular(path) as file:
            head = file.read(HEAD)
        if not head.startswith(NPY):
            refuse_foreign(path, DataError, what, "an array that numpy.save wrote")
            raise DataError(what, expected="an array that numpy.save wrote", found="others")
        if OBJECTS in head:
            raise DataError(
                what,
                expected="an array of numbers",
                found="an array of Python objects, which can run code",
                fix="Save `np.asarray(mask, dtype=bool)`.",
            )
        # As a map, so that what the header claims is not reserved before the size is known.
        array: Values = np.load(path, mmap_mode="r", allow_pickle=False)
    if array.dtype.kind not in "buif":
        raise DataError(
            what, expected="ground truth values or numbers", found=f"type {array.dtype}"
        )
    return array


def _image(path: Path, what: str) -> Values:
    """Return the values of a PNG, height × width; those of 16 bits are scaled to 0 to 1."""
    image = read_mask_image(path, what)
    values, mode = image
    refuse_void(image, what)
    if mode in DEEP_MODES:
        refuse_classes(image, what)
        return values / 65_535
    # Of a palette the numbers, which may be those of objects; of grey the values.
    return values > 0 if mode == "P" else values
