"""Masks in image files: the values that a PNG holds, whose pixels no conversion has changed."""

from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, UnidentifiedImageError

from harness.errors import DataError, MaskError
from harness.files import open_regular
from harness.foreign import HEAD, is_leftover, refuse_foreign
from harness.image_file import EXIF_ORIENTATION
from harness.masks import BoolArray, check_size

Values: TypeAlias = NDArray[np.bool_ | np.uint8 | np.uint16]
DEEP = frozenset({"I", "I;16", "I;16B", "I;16L", "I;16N"})
"""Pillow's modes for grey of 16 bits."""
VOID = frozenset({254, 255})
"""Numbers that mark pixels to ignore, as in VOC and DAVIS."""
OBJECTS = 32
"""Numbers of objects in grey values; larger ones may be confidences."""
WHITE = OPAQUE = 255
JPEG = b"\xff\xd8\xff"
JPEGS = (".jpg", ".jpeg")
LOSSY = "JPEG changes the pixels at the edges: write the masks as PNG, which keeps them."
NO_COLOURS = "Write its values, such as 0 and 255, without converting them to colours."


class MaskImage(NamedTuple):
    """The values of an image, height × width, and Pillow's mode of them: 1, L, P or one of 16 bits.

    An image of colours whose channels are equal has the values of one, and mode L.
    """

    values: Values
    mode: str


def read_mask_image(
    path: Path | bytes, what: str, formats: tuple[str, ...] = ("PNG",)
) -> MaskImage:
    """Read a PNG of grey values, of a palette's indices, or of colours that are all grey.

    Args:
        path: The file, or its content.
        what: What it is and its path, for messages.
        formats: Pillow's names of the formats that are read.

    Raises:
        DataError: it is missing, damaged, a JPEG, or has colours or transparent pixels.
    """
    expected = "a complete PNG"
    try:
        with _opened(path) as file, Image.open(file, formats=formats) as image:
            check_size(image.height, image.width, what)
            _refuse_views(image, what)
            if image.mode in DEEP:
                return MaskImage(np.asarray(image).astype(np.uint16), image.mode)
            if image.mode in ("1", "L", "P"):
                numbers = np.array(image)
                _refuse_other_looks(image, numbers, what)
                return MaskImage(numbers, image.mode)
            values = _grey(np.asarray(image), len(image.getbands()) in (2, 4))
            mode = image.mode
    except FileNotFoundError as error:
        if isinstance(path, Path):
            refuse_foreign(path, DataError, what, "a file")
        raise DataError(what, expected="a file", found="none") from error
    except MaskError as error:
        raise DataError(str(error)) from error
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, EOFError) as error:
        refuse_jpeg(path, what)
        if isinstance(path, Path):
            refuse_foreign(path, DataError, what, expected)
        fault = "a file that is no PNG" if isinstance(error, UnidentifiedImageError) else str(error)
        fix = "Fetch the file again; a cut image is never scored."
        raise DataError(what, expected=expected, found=fault, fix=fix) from error
    if values is None:
        raise DataError(
            what,
            expected="grey values, a palette, or colours whose channels are equal",
            found=f"an image of mode {mode} in colours or with transparent pixels",
            fix=NO_COLOURS,
        )
    return MaskImage(values, "L")


def _refuse_views(image: ImageFile.ImageFile, what: str) -> None:
    """Raise DataError for an animation, and for pixels that a tag turns: readers differ in both."""
    frames = getattr(image, "n_frames", 1)
    image.load()  # the tag may come after the pixels
    turned = image.getexif().get(EXIF_ORIENTATION, 1) if "exif" in image.info else 1
    if frames > 1 or turned != 1:
        raise DataError(
            what,
            expected="one image that is stored as displayed",
            found=f"an animation of {frames} frames"
            if frames > 1
            else f"an orientation tag ({turned})",
            fix="Write one mask per file, without such a tag.",
        )


def _refuse_other_looks(image: ImageFile.ImageFile, values: Values, what: str) -> None:
    """Raise DataError if values look otherwise than their numbers say.

    That is if some besides 0 are transparent, or a palette shows 0 in white, or in a colour and
    another in black: what quantizes an image numbers colours as it likes.
    """
    there = np.unique(values)
    fault = ""
    transparent = image.info.get("transparency")
    alphas = transparent if isinstance(transparent, bytes) else b""  # of a palette
    clear = {transparent, *(number for number, alpha in enumerate(alphas) if alpha < OPAQUE)}
    if clear & {*there.tolist()} - {0}:
        fault = "transparent values besides 0"
    if image.mode == "P":
        colours = np.array(image.getpalette("RGB") or ()).reshape(-1, 3)
        is_black = [not colours[number].any() for number in there if number < len(colours)]
        if len(colours) and colours[0].any() and (any(is_black) or colours[0].min() == WHITE):
            fault = f"a palette that shows 0 as {tuple(colours[0].tolist())}"
    if fault:
        raise DataError(what, expected="0 where nothing is, in black", found=fault, fix=NO_COLOURS)


def _opened(source: Path | bytes) -> BinaryIO:
    return BytesIO(source) if isinstance(source, bytes) else open_regular(source)


def foreground(image: MaskImage, what: str) -> BoolArray:
    """Return the pixels that are not 0, where nothing else can be meant.

    Raises:
        DataError: values are beside those of pixels to ignore, or several outside of a palette.
    """
    refuse_void(image, what)
    if image.mode != "P":
        refuse_several(image.values, what)
    return np.asarray(image.values != 0)


def refuse_several(values: NDArray[Any], what: str) -> None:
    """Raise DataError if an array has more than one value besides 0."""
    limit = values.max()
    others = values[(values != 0) & (values != limit)]
    if others.size:
        raise DataError(
            what,
            expected="one value besides 0",
            found=f"{others[0]} and {limit}",
            fix="Give probabilities as 16 bits or floating-point numbers, and masks of objects as "
            "a file each; binarise others.",
        )


def refuse_void(image: MaskImage, what: str) -> None:
    """Raise DataError if numbers of objects are beside 254 or 255, which mark pixels to ignore."""
    there = {*np.unique(image.values).tolist()} - {0}
    are_numbers = image.mode == "P" or max(there - VOID, default=0) <= OBJECTS
    if are_numbers and (void := there & VOID) and there - VOID:
        raise DataError(
            what,
            expected="numbers of objects, all of which are foreground",
            found=f"{max(void)} beside {min(there)}, as pixels to ignore are marked",
            fix="Write 0 in their place, or the object's number.",
        )


def _grey(pixels: NDArray[np.uint8], transparent: bool) -> NDArray[np.uint8] | None:
    """Return the one channel of pixels whose channels are equal and opaque; None of others."""
    colours = pixels[..., :-1] if transparent else pixels
    if transparent and not (pixels[..., -1] == 255).all():
        return None
    first: NDArray[np.uint8] = colours[..., 0]
    return first if (colours == first[..., None]).all() else None


def refuse_jpeg(path: Path | bytes, what: str) -> None:
    """Raise DataError if a file is a JPEG, whatever its name is."""
    with _opened(path) as file:
        if file.read(HEAD).startswith(JPEG):
            raise DataError(what, expected="a PNG", found="a JPEG", fix=LOSSY)


def jpegs_in(folder: Path) -> list[Path]:
    """Return the files in a folder that are called as JPEGs are."""
    jpegs = (path for path in folder.iterdir() if path.suffix.lower() in JPEGS)
    return sorted(path for path in jpegs if not is_leftover(Path(path.name)))
