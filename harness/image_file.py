"""Decoding of image files, to the pixels (`Frame`) that the official loaders give.

`decode_image` is for images that a network is shown, `decode_mask` for images of masks,
`read_header` for sizes. One rule holds for every form of image:

- Orientation tags are applied, as cv2.imread and vLLM do.
- Transparency, in a channel or as a colour of a palette, is painted on white, as qwen-vl-utils
  (`to_rgb`) and vLLM (`convert_image_mode`) do. What lies beneath it may be anything.
- Of a 16-bit channel only the high byte is kept. Pillow does this for colour images and cv2.imread
  for grey ones; Pillow itself would clip 16-bit grey to white.
- Palettes, grey, CMYK, YCbCr and LAB are converted by Pillow. Colour profiles are not applied.
- Of an animation the first frame counts, as `Image.open` shows it.
- A JPEG or PNG without its end, or with a hole, is refused (see `cut_image`).

Numbers without a scale (floating point, 32 bits) are refused.
"""

import io
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError

from harness.cut_image import cut_in
from harness.errors import MaskError, MediaError, raised_as
from harness.files import open_regular
from harness.foreign import HEAD, reading, recognise
from harness.masks import check_size

Frame = NDArray[np.uint8]
"""An image: height × width × 3, uint8, RGB, origin at the top left."""

EXIF_ORIENTATION = 0x0112
TURNED = frozenset({5, 6, 7, 8})  # orientations that swap width and height
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
"""Formats that are opened, whatever a file's name. Pillow runs programs for others, such as EPS."""
PPM = "PPM"
"""Name of the format whose grey of more than 8 bits Pillow scales to 16 bits, in mode I."""
TRANSPARENT = "transparency, painted on white"
DEEP = "16 bits a channel, of which the high 8 are shown"
PROFILE = "a colour profile that is not applied"
ANIMATED = "an animation, of which the first frame is shown"
"""Phrases of `image_conversions`."""
CONVERTED = ("CMYK", "YCbCr", "LAB")
"""Modes whose conversion to RGB rounds, or depends on a profile."""
DAMAGE_ERRORS = (OSError, SyntaxError, ValueError, EOFError)
"""Errors that Pillow raises for a damaged file."""
FETCH_HINT = "Download the file again: a truncated image is not scored."
EIGHT_BITS_HINT = (
    "Save it with 8 bits a channel: which values are black and white is not in the file."
)

# Our own limit (masks.check_size) is applied to the header before anything is decoded.
Image.MAX_IMAGE_PIXELS = None


@dataclass(frozen=True, slots=True)
class Header:
    """Facts of an image that are known without decoding it."""

    size: tuple[int, int]
    """(width, height) in pixels, after the orientation tag is applied."""
    conversions: tuple[str, ...]
    """Losses and conversions of decoding to RGB, one phrase each."""


def decode_image(source: Path | io.BytesIO, name: str) -> Frame:
    """Decode to RGB as networks are shown it, completely or not at all.

    Raises:
        MediaError: not an image, cut off, without a scale of its values, or larger than
            `masks.MAX_PIXELS`.
    """
    with _decoding(source, name) as image:
        return rgb(image, f"image {name}")


def decode_mask(source: Path | io.BytesIO, name: str) -> Frame:
    """Decode an image of a mask to RGB, as `cv2.imread` does.

    Raises:
        MediaError: as of `decode_image`; or its transparency varies, or it has more than 8 bits a
            channel: readers differ in which pixels of such a mask are the object.
    """
    with _decoding(source, name) as image:
        description = f"an image of mode {image.mode}"
        refused = image.mode.startswith(("I", "F"))  # 16 or 32 bits, or floating point
        if not refused and image.has_transparency_data:
            least, most = image.convert("RGBA").getchannel("A").getextrema()
            refused = least != most
            description = f"{description} whose transparency varies"
        if refused:
            raise MediaError(
                f"mask {name}",
                expected="values of 8 bits without transparency",
                found=description,
                fix="Write it as a grey PNG of 8 bits: 0, and 255 for the object.",
            )
        return np.ascontiguousarray(np.asarray(image.convert("RGB")))


def rgb(image: Image.Image, what: str = "an image") -> Frame:
    """Return the pixels of an opened image as networks are shown them."""
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == PPM):
        return _high_byte(image, what)
    if image.mode.startswith(("I", "F")):
        raise MediaError(
            what,
            expected="values of 8 or 16 bits",
            found=f"mode {image.mode}, whose scale of values is unknown",
            fix=EIGHT_BITS_HINT,
        )
    if image.has_transparency_data:
        painted = Image.new("RGB", image.size, "white")
        layer = image.convert("RGBA")
        painted.paste(layer, mask=layer.getchannel("A"))
        image = painted
    return np.ascontiguousarray(np.asarray(image.convert("RGB")))


def _high_byte(image: Image.Image, what: str) -> Frame:
    """Return a grey image of 16 bits as RGB of 8; raise MediaError if all of it would be black.

    A grey level declared transparent becomes white.
    """
    values = np.asarray(image).astype(np.int64)
    high = np.clip(values >> 8, 0, 255).astype(np.uint8)
    if values.any() and not high.any():
        raise MediaError(
            what,
            expected="grey of 16 bits that uses its range",
            found=f"values up to {values.max()} of 65535, all of which would be black",
            fix=EIGHT_BITS_HINT,
        )
    transparent = image.info.get("transparency")
    if isinstance(transparent, int):
        high[values == transparent] = 255
    return np.repeat(high[:, :, None], 3, axis=2)


def header_size(path: Path) -> tuple[int, int]:
    """Return (width, height) after the orientation tag is applied, from the header alone."""
    return read_header(path, str(path)).size


def read_header(source: Path | io.BytesIO, name: str) -> Header:
    """Read an image's header; raise MediaError if it is not an image, or too large."""
    what = f"image {name}"
    fix = "`harness list tasks NAME` prints the source of a benchmark's data."
    with (
        raised_as(MediaError, what, "a PNG or JPEG file", OSError, SyntaxError, ValueError),
        reading(Path(name), MediaError, what, "a file", FileNotFoundError, fix=fix),
    ):
        try:
            with _file(source) as file, Image.open(file, formats=FORMATS) as image:
                check_size(image.height, image.width, what)
                turned = orientation(image) in TURNED
                size = (image.height, image.width) if turned else (image.width, image.height)
                return Header(size, tuple(image_conversions(image)))
        except MaskError as error:
            raise MediaError(str(error)) from error
        except UnidentifiedImageError as error:
            if stranger := recognise(_head(source), Path(name).name):
                raise MediaError(
                    what, expected="an image", found=stranger.found, fix=stranger.fix
                ) from error
            raise MediaError(
                what, expected="a PNG or JPEG file", found="a file that is not an image"
            ) from error


def image_conversions(image: ImageFile.ImageFile) -> Iterator[str]:
    """Yield what is lost when an image is decoded to RGB, in words, by its header alone."""
    if image.has_transparency_data:
        yield TRANSPARENT
    # The stored form of the pixels, such as "RGB;16B"; for PPM the largest value follows.
    stored = image.tile[0][3] if image.tile else ()
    stored = stored if isinstance(stored, tuple) else (stored,)
    scaled = image.format == PPM and any(type(part) is int and part > 255 for part in stored)
    if image.mode.startswith("I") or ";16" in str(stored[:1]) or scaled:
        yield DEEP
    if image.mode in CONVERTED:
        yield f"{image.mode}, converted to RGB by Pillow"
    profile = image.info.get("icc_profile")
    if profile and not any("sRGB".encode(code) in profile for code in ("ascii", "utf-16-be")):
        yield PROFILE
    with suppress(*DAMAGE_ERRORS, struct.error, LookupError):  # of a second frame that is damaged
        if image.format != "MPO" and getattr(image, "is_animated", False):  # MPO: views of a photo
            yield ANIMATED


@contextmanager
def _decoding(source: Path | io.BytesIO, name: str) -> Iterator[Image.Image]:
    """Open an image, turned as its orientation tag says; raise MediaError if it is damaged."""
    read_header(source, name)
    if isinstance(source, io.BytesIO):
        source.seek(0)
    what = f"image {name}"
    with (
        raised_as(MediaError, what, "a complete image", *DAMAGE_ERRORS, fix=FETCH_HINT),
        _file(source) as file,
    ):
        _refuse_cut_content(file, what, inside=True)
        with Image.open(file, formats=FORMATS) as stored:
            image = ImageOps.exif_transpose(stored)
            image.format = stored.format  # of a copy it is not known
            yield image


def refuse_cut(source: Path | io.BytesIO, name: str = "") -> None:
    """Raise MediaError for a JPEG or PNG without its end, by reading little of the file.

    Args:
        source: The file, or its bytes.
        name: Its name in messages; "": the path.
    """
    what = f"image {name or source}"
    with raised_as(MediaError, what, "a complete image", OSError), _file(source) as file:
        _refuse_cut_content(file, what, inside=False)


def _refuse_cut_content(file: BinaryIO, what: str, *, inside: bool) -> None:
    if cut := cut_in(file, inside=inside):
        raise MediaError(what, expected="a complete image", found=cut, fix=FETCH_HINT)
    file.seek(0)


def _head(source: Path | io.BytesIO) -> bytes:
    with _file(source) as file:
        file.seek(0)
        return file.read(HEAD)


def _file(source: Path | io.BytesIO) -> AbstractContextManager[BinaryIO]:
    return nullcontext(source) if isinstance(source, io.BytesIO) else open_regular(source)


def is_turned(path: Path) -> bool:
    """Return True if the orientation tag of a sound image file swaps its width and height."""
    with open_regular(path) as file, Image.open(file, formats=FORMATS) as image:
        return orientation(image) in TURNED


def orientation(image: Image.Image) -> int | None:
    """Return the orientation tag, 1 to 8; None: it has none.

    A PNG without Exif in its header has none: Pillow would decode the whole file to look for it.
    """
    if image.format == "PNG" and "exif" not in image.info:
        return None
    return image.getexif().get(EXIF_ORIENTATION)
