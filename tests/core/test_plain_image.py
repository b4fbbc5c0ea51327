"""Files without metadata hold the pixels of `decode_image`, or are not sent as they are."""

import io
import random
import zlib

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from harness import media
from harness.image_file import decode_image
from harness.plain_image import plain_image

SECRET = "51 N 0 W, Jane Doe"


def picture(mode="RGB", size=(70, 50)):
    grid = np.add.outer(np.arange(size[1]) * 3, np.arange(size[0]) * 2)
    colours = np.stack([grid, grid[::-1], 255 - grid], -1).astype(np.uint8)
    return Image.fromarray(colours).convert(mode)


def exif(orientation=1):
    tags = Image.Exif()
    tags[0x0112] = orientation
    tags[0x010E] = SECRET
    return tags


def encoded(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def text_of_png():
    text = PngInfo()
    text.add_text("Comment", SECRET)
    return text


PLAIN = {
    "jpeg": encoded(picture(), "JPEG", quality=90),
    "jpeg, progressive": encoded(picture(), "JPEG", progressive=True),
    "jpeg, subsampled": encoded(picture(), "JPEG", subsampling="4:2:0"),
    "jpeg, restart markers": encoded(picture(), "JPEG", restart_marker_rows=1),
    "jpeg, RGB without conversion": encoded(picture(), "JPEG", keep_rgb=True),
    "jpeg, tags": encoded(picture(), "JPEG", exif=exif(), comment=SECRET),
    "jpeg, XMP": encoded(picture(), "JPEG", xmp=f"<x>{SECRET}</x>".encode()),
    "jpeg, preview": encoded(picture(), "JPEG", xmp=encoded(picture(size=(20, 9)), "JPEG")),
    "jpeg, bytes after its end": encoded(picture(), "JPEG") + SECRET.encode() + b"\xff\xd9",
    "png": encoded(picture(), "PNG"),
    "png, text": encoded(picture(), "PNG", pnginfo=text_of_png(), exif=exif()),
}
ENCODED_ANEW = {
    "jpeg, turned": encoded(picture(), "JPEG", exif=exif(6)),
    "jpeg, mirrored": encoded(picture(), "JPEG", exif=exif(2)),
    "jpeg, turned by XMP": encoded(
        picture(), "JPEG", xmp=b'<x:xmpmeta xmlns:x="adobe:ns:meta/" tiff:Orientation="6"/>'
    ),
    "jpeg, grey": encoded(picture("L"), "JPEG"),
    "png, palette": encoded(picture("P"), "PNG"),
    "jpeg, CMYK": encoded(picture("CMYK"), "JPEG"),
    "jpeg, several": encoded(picture(), "MPO", save_all=True, append_images=[picture()]),
    "jpeg, cut": encoded(picture(), "JPEG")[:-40],
    "png, transparent": encoded(picture("RGBA"), "PNG"),
    "png, a transparent colour": encoded(picture("P"), "PNG", transparency=3),
    "png, animated": encoded(picture(), "PNG", save_all=True, append_images=[picture("L")]),
    "png, 16 bits": encoded(Image.fromarray(np.full((9, 9), 4000, np.uint16)), "PNG"),
    "png, turned": encoded(picture(), "PNG", exif=exif(8)),
    "png, cut": encoded(picture(), "PNG")[:-30],
    "webp": encoded(picture(), "WEBP"),
    "bmp": encoded(picture(), "BMP"),
    "text": b"a file of another kind",
    "nothing": b"",
}


@pytest.mark.parametrize("data", PLAIN.values(), ids=PLAIN)
def test_pixels_stay_and_metadata_goes(data):
    plain = plain_image(data)
    assert plain is not None and SECRET.encode() not in plain.data
    for decoded in (decode_image(io.BytesIO(plain.data), ""), plainly_decoded(plain.data)):
        assert np.array_equal(decoded, decode_image(io.BytesIO(data), ""))
    assert plain_image(plain.data) == plain


def plainly_decoded(data):
    """Pixels as a decoder without rules of its own gives them."""
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


@pytest.mark.parametrize("data", ENCODED_ANEW.values(), ids=ENCODED_ANEW)
def test_what_decoders_may_show_otherwise_is_not_sent_as_it_is(data):
    assert plain_image(data) is None


def test_a_damaged_png_is_not_sent_as_it_is():
    data = bytearray(PLAIN["png"])
    data[len(data) // 2] ^= 1
    assert plain_image(bytes(data)) is None


@pytest.mark.parametrize("name", ["jpeg, tags", "jpeg, progressive", "png, text"])
def test_any_damage_gives_equal_pixels_or_none(name):
    draws = random.Random(zlib.crc32(name.encode()))
    for _ in range(300):
        data = bytearray(PLAIN[name])
        for _ in range(draws.randint(1, 3)):
            data[draws.randrange(len(data))] = draws.randrange(256)
        plain = plain_image(bytes(data))
        if plain is None:
            continue
        try:
            expected = decode_image(io.BytesIO(bytes(data)), "")
        except media.MediaError:
            continue  # coded data that are broken are sent broken: the server refuses them
        assert np.array_equal(plainly_decoded(plain.data), expected)


def test_a_medium_gives_the_files_of_its_frames(tmp_path):
    for number in range(2):
        (tmp_path / f"{number}.jpg").write_bytes(PLAIN["jpeg, tags"])
    clip = media.frame_files([tmp_path / "0.jpg", tmp_path / "1.jpg"])
    assert clip.plain_file(1) == plain_image(PLAIN["jpeg, tags"])
    assert media.image_bytes(PLAIN["png"], "x").plain_file(0) == plain_image(PLAIN["png"])
    frame = np.zeros((4, 4, 3), np.uint8)
    assert media.pixels([frame], times=[0.0], is_video=False, id="x").plain_file(0) is None
