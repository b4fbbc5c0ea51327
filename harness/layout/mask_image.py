"""Read the exact values of a mask from an image file, and refuse files whose meaning is unclear.

Readers of predicted masks and of annotated ones call `read_mask_image` with a PNG, then decide by
`foreground` or the `refuse_…` functions whether its values are one mask or several objects.
"""

from io import BytesIO
from pathlib import Path
from shlex import quote
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, UnidentifiedImageError

from harness.errors import DataError, MaskError
from harness.files import open_regular
from harness.foreign import HEAD, interpreter, is_leftover, refuse_foreign, to_lines
from harness.image_file import EXIF_ORIENTATION
from harness.masks import BoolArray, check_size

Values: TypeAlias = NDArray[np.bool_ | np.uint8 | np.uint16]
DEEP_MODES = frozenset({"I", "I;16", "I;16B", "I;16L", "I;16N"})
"""Pillow's modes for 16-bit grey."""
VOID_VALUES = frozenset({254, 255})
"""Values of pixels to ignore, as in VOC and DAVIS."""
MAX_OBJECT = 32
"""Largest grey value that is taken for an object's number; larger ones may be confidences."""
CLASS_FACTOR = 1000
"""Factor of the class in the pixel values of MOTS and Cityscapes: class * 1000 + object."""
MAX_CLASSES, MAX_OBJECTS_OF_CLASS = 34, 200
"""Upper limits (exclusive) of the class and the object in a value of MOTS or Cityscapes."""
WHITE = OPAQUE = 255
MIN_EDGE_VALUES = 4
"""If so many values occur besides 0 and the largest, they are edges of a mask, not classes."""
JPEG_START = b"\xff\xd8\xff"
JPEG_SUFFIXES = (".jpg", ".jpeg")
LOSSY_FIX = "JPEG changes the pixels at the edges: write the masks as PNG, which keeps them."
COLOURS_FIX = "Write its values, such as 0 and 255, without converting them to colours."


class MaskImage(NamedTuple):
    """The values of an image, height × width, and their mode in Pillow: 1, L, P or 16-bit grey.

    A colour image with three equal channels has the values of one channel, and mode L.
    """

    values: Values
    mode: str


def read_mask_image(
    path: Path | bytes, what: str, formats: tuple[str, ...] = ("PNG",)
) -> MaskImage:
    """Read a PNG of grey values, of palette indices, or of colours that are all grey.

    Args:
        path: The file, or its content.
        what: The kind of file and its path, for messages.
        formats: Pillow's names of the formats that are read.

    Raises:
        DataError: the file is missing, damaged or a JPEG, or has colours or transparent pixels.
    """
    expected = "a complete PNG"
    try:
        with _opened(path) as file, Image.open(file, formats=formats) as image:
            check_size(image.height, image.width, what)
            _refuse_animated_or_turned(image, what)
            if image.mode in DEEP_MODES:
                return MaskImage(np.asarray(image).astype(np.uint16), image.mode)
            if image.mode in ("1", "L", "P"):
                numbers = np.array(image)
                _refuse_visible_background(image, numbers, what)
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
        fix = "Download the file again: a truncated image is not scored."
        raise DataError(what, expected=expected, found=fault, fix=fix) from error
    if values is None:
        raise DataError(
            what,
            expected="grey values, a palette, or colours whose channels are equal",
            found=f"an image of mode {mode} in colours or with transparent pixels",
            fix=COLOURS_FIX,
        )
    return MaskImage(values, "L")


def _refuse_animated_or_turned(image: ImageFile.ImageFile, what: str) -> None:
    """Raise DataError for an animation or an orientation tag, which readers treat differently."""
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


def _refuse_visible_background(image: ImageFile.ImageFile, values: Values, what: str) -> None:
    """Raise DataError if viewers of an image would not see 0, and only 0, as background.

    Refused are transparent values other than 0, and a palette that shows 0 in white, or 0 in a
    colour and another value in black: programs that quantize an image number colours at will.
    """
    values_present = np.unique(values)
    fault = ""
    transparency = image.info.get("transparency")  # one value, or the alphas of a palette
    alphas = transparency if isinstance(transparency, bytes) else b""
    transparent = {transparency, *(value for value, alpha in enumerate(alphas) if alpha < OPAQUE)}
    if transparent & {*values_present.tolist()} - {0}:
        fault = "transparent values besides 0"
    if image.mode == "P":
        colours = np.array(image.getpalette("RGB") or ()).reshape(-1, 3)
        is_black = [not colours[number].any() for number in values_present if number < len(colours)]
        if len(colours) and colours[0].any() and (any(is_black) or colours[0].min() == WHITE):
            fault = f"a palette that shows 0 as {tuple(colours[0].tolist())}"
    if fault:
        raise DataError(what, expected="0 where nothing is, in black", found=fault, fix=COLOURS_FIX)


def _opened(source: Path | bytes) -> BinaryIO:
    return BytesIO(source) if isinstance(source, bytes) else open_regular(source)


def foreground(image: MaskImage, what: str) -> BoolArray:
    """Return the mask of the pixels that are not 0, height × width, if no other reading is likely.

    Raises:
        DataError: some values mark pixels to ignore, or an image without a palette has several
            values besides 0.
    """
    refuse_void(image, what)
    refuse_classes(image, what)
    if image.mode != "P":
        refuse_several(image.values, what)
    return np.asarray(image.values != 0)


def refuse_several(values: NDArray[Any], what: str) -> None:
    """Raise DataError if an array has more than one value besides 0."""
    largest = values.max()
    others = values[(values != 0) & (values != largest)]
    if others.size:
        are_classes = len({*others}) < MIN_EDGE_VALUES
        raise DataError(
            what,
            expected="one value besides 0",
            found=f"{others[0]} and {largest}",
            fix="Give probabilities as 16 bits or floating-point numbers, and masks of objects as "
            f"a file each; binarise others.{_selection_fix(largest) if are_classes else ''}",
        )


def _selection_fix(value: int) -> str:
    """Return the command that makes a mask of one value; "" for a value of more than 8 bits."""
    if value > WHITE:
        return ""
    program = (
        "import sys, numpy; from PIL import Image; [Image.fromarray(numpy.uint8(255) * "
        f'(numpy.atleast_3d(Image.open(name))[..., 0] == {value})).save(name + ".png") '
        "for name in sys.argv[1:]]"
    )
    return (
        f" If {value} alone is the object, `{interpreter()} -c {quote(program)} MASK.png` writes "
        "MASK.png.png so. All pixels count: a value for unsure ones becomes background."
    )


def refuse_void(image: MaskImage, what: str) -> None:
    """Raise DataError if 254 or 255, for pixels to ignore, occurs together with object numbers."""
    values_present = {*np.unique(image.values).tolist()} - {0}
    are_numbers = image.mode == "P" or max(values_present - VOID_VALUES, default=0) <= MAX_OBJECT
    if are_numbers and (void := values_present & VOID_VALUES) and values_present - VOID_VALUES:
        raise DataError(
            what,
            expected="numbers of objects, all of which are foreground",
            found=f"{max(void)} beside {min(values_present)}, as pixels to ignore are marked",
            fix="Write 0 in their place, or the object's number.",
        )


def refuse_classes(image: MaskImage, what: str) -> None:
    """Raise DataError if all 16-bit values are class * 1000 + object, as in MOTS.

    They would otherwise be read as probabilities. One value of a soft mask has this form by chance
    in one of five cases; all its values hardly do.
    """
    is_deep = image.mode in DEEP_MODES
    numbers = np.unique(image.values[image.values != 0]) if is_deep else np.array([])
    if not numbers.size:
        return
    kinds, objects = numbers // CLASS_FACTOR, numbers % CLASS_FACTOR
    are_kinds = kinds.min() > 0 and kinds.max() < MAX_CLASSES
    if are_kinds and objects.max() < MAX_OBJECTS_OF_CLASS:
        module = "harness.tasks.table.tracking_files"
        command_line = to_lines(f"{module}.mots_images(sys.argv[1:])", "ALL", module)
        raise DataError(
            what,
            expected="a mask, or probabilities times 65,535",
            found=f"{numbers[0]}, class {kinds[0]} and object {objects[0]}, as MOTS numbers them",
            fix=f"{command_line.replace(' ALL > ', ' SEQUENCE/*.png > ')} makes lines of a table, "
            "masks by class; write a predicted mask with 8 bits, 0 and 255, or a file an object.",
        )


def _grey(pixels: NDArray[np.uint8], has_alpha: bool) -> NDArray[np.uint8] | None:
    """Return one channel of pixels whose channels are all equal and opaque; otherwise None."""
    colours = pixels[..., :-1] if has_alpha else pixels
    if has_alpha and not (pixels[..., -1] == OPAQUE).all():
        return None
    first: NDArray[np.uint8] = colours[..., 0]
    return first if (colours == first[..., None]).all() else None


def refuse_jpeg(path: Path | bytes, what: str) -> None:
    """Raise DataError if a file's content is a JPEG: its compression changes values of a mask."""
    with _opened(path) as file:
        if file.read(HEAD).startswith(JPEG_START):
            raise DataError(what, expected="a PNG", found="a JPEG", fix=LOSSY_FIX)


def jpegs_in(folder: Path) -> list[Path]:
    """Return the files in a folder with a JPEG suffix."""
    jpegs = (path for path in folder.iterdir() if path.suffix.lower() in JPEG_SUFFIXES)
    return sorted(path for path in jpegs if not is_leftover(Path(path.name)))
