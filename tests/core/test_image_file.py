"""Every form of image by every way to a network and to a scorer: what arrives, or is refused."""

import base64
import io
import json
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from harness.chat import ChatRequest
from harness.cli.main import main
from harness.errors import DataError, MediaError
from harness.image_file import (
    ANIMATED,
    DEEP,
    PROFILE,
    TRANSPARENT,
    decode_image,
    read_header,
    refuse_cut,
    rgb,
)
from harness.lmms.visuals import medium
from harness.media import frame_files, image_bytes, open_image
from harness.models.backends.openai import openai
from harness.models.external.exchange import lay_out
from harness.tasks.pointing.task import read_levels
from harness.tasks.segmentation.task import read_mask_image
from harness.types import AnswerForm, Query

WIDTH, HEIGHT = 16, 12
COLOURS = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3)).astype(np.uint8)
GREY = COLOURS[:, :, 0]
BELOW = np.arange(HEIGHT) >= HEIGHT // 2
"""Rows that are transparent where a form has transparency."""
PAINTED = np.where(BELOW[:, None, None], np.uint8(255), COLOURS)
PAINTED_GREY = np.where(BELOW[:, None], np.uint8(255), GREY)


def three(grey):
    return np.repeat(grey[:, :, None], 3, axis=2)


def encoded(image, form="PNG", **options):
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def png(depth, colour, rows, extra=b""):
    """A PNG as its specification has it, whatever Pillow can write."""

    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, colour, 0, 0, 0)
    raw = b"".join(b"\0" + np.ascontiguousarray(row).tobytes() for row in rows)
    parts = chunk(b"IHDR", head) + extra + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def transparent_chunk(data):
    return (
        struct.pack(">I", len(data))
        + b"tRNS"
        + data
        + struct.pack(">I", zlib.crc32(b"tRNS" + data))
    )


def deep(values):
    """8-bit values as the high bytes of 16 bits, whose low bytes are others."""
    return (values.astype(">u2") << 8 | 0x5A).astype(">u2")


ALPHA = np.where(BELOW[:, None], np.uint8(0), np.uint8(255)) * np.ones((1, WIDTH), np.uint8)
IMAGE = Image.fromarray(COLOURS)
RGBA = Image.fromarray(np.dstack([COLOURS, ALPHA]))
CLEAR = Image.fromarray(
    np.where(BELOW[:, None], np.uint8(7), np.uint8(200)) * np.ones((1, WIDTH), np.uint8)
)
"""Two values, of which 7 is called transparent below."""
CLEAR_SHOWN = three(
    np.where(BELOW[:, None], np.uint8(255), np.uint8(200)) * np.ones((1, WIDTH), np.uint8)
)
INDEXED = Image.fromarray(BELOW[:, None] * np.ones((1, WIDTH), np.uint8), "P")
INDEXED.putpalette([200, 200, 200, 9, 9, 9])
OTHER = Image.fromarray(255 - COLOURS)
EXIF = Image.Exif()
EXIF[0x0112] = 6
ONE_BIT = IMAGE.convert("1")
PALETTE = IMAGE.quantize(16)
LAB = Image.frombytes("LAB", (WIDTH, HEIGHT), COLOURS.tobytes())
CMYK_JPEG = encoded(IMAGE.convert("CMYK"), "JPEG", quality=95)


def by_pillow(data):
    """Pillow's documented conversion."""
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


SHOWN = {
    "RGB": (encoded(IMAGE), COLOURS, []),
    "L": (encoded(Image.fromarray(GREY)), three(GREY), []),
    "1": (encoded(ONE_BIT), three(np.asarray(ONE_BIT).astype(np.uint8) * 255), []),
    "P": (encoded(PALETTE), np.asarray(PALETTE.convert("RGB")), []),
    "RGBA": (encoded(RGBA), PAINTED, [TRANSPARENT]),
    "LA": (encoded(RGBA.convert("LA")), None, [TRANSPARENT]),
    "WebP with transparency": (
        encoded(RGBA, "WEBP", lossless=True, exact=True),
        PAINTED,
        [TRANSPARENT],
    ),
    "TIFF with transparency": (encoded(RGBA, "TIFF"), PAINTED, [TRANSPARENT]),
    "P with a transparent entry": (encoded(INDEXED, transparency=1), CLEAR_SHOWN, [TRANSPARENT]),
    "P with transparencies": (encoded(INDEXED, transparency=b"\xff\0"), CLEAR_SHOWN, [TRANSPARENT]),
    "GIF with a transparent entry": (
        encoded(INDEXED, "GIF", transparency=1),
        CLEAR_SHOWN,
        [TRANSPARENT],
    ),
    "L with a transparent value": (encoded(CLEAR, transparency=7), CLEAR_SHOWN, [TRANSPARENT]),
    "RGB with a transparent colour": (
        encoded(CLEAR.convert("RGB"), transparency=(7, 7, 7)),
        CLEAR_SHOWN,
        [TRANSPARENT],
    ),
    "L of 16 bits": (png(16, 0, deep(GREY)), three(GREY), [DEEP]),
    "RGB of 16 bits": (png(16, 2, deep(COLOURS)), COLOURS, [DEEP]),
    "LA of 16 bits": (png(16, 4, deep(np.dstack([GREY, ALPHA]))), None, [TRANSPARENT, DEEP]),
    "RGBA of 16 bits": (png(16, 6, deep(np.dstack([COLOURS, ALPHA]))), None, [TRANSPARENT, DEEP]),
    "L of 16 bits with a transparent value": (
        png(
            16,
            0,
            np.asarray(CLEAR).astype(">u2") * 257,
            transparent_chunk(struct.pack(">H", 7 * 257)),
        ),
        CLEAR_SHOWN,
        [TRANSPARENT, DEEP],
    ),
    "L of 2 bits": (
        png(2, 0, [bytes([0b00011011] * 4)] * HEIGHT),
        three(np.tile(np.uint8([0, 85, 170, 255]), (HEIGHT, 4))),
        [],
    ),
    "TIFF of 16 bits": (
        encoded(Image.fromarray(GREY.astype(np.uint16) * 257), "TIFF"),
        three(GREY),
        [DEEP],
    ),
    "PGM of 16 bits": (b"P5 16 12 65535\n" + deep(GREY).tobytes(), three(GREY), [DEEP]),
    "CMYK TIFF": (
        encoded(IMAGE.convert("CMYK"), "TIFF"),
        by_pillow,
        ["CMYK, converted to RGB by Pillow"],
    ),
    "CMYK JPEG": (CMYK_JPEG, by_pillow, ["CMYK, converted to RGB by Pillow"]),
    "YCbCr TIFF": (
        encoded(IMAGE.convert("YCbCr"), "TIFF"),
        by_pillow,
        ["YCbCr, converted to RGB by Pillow"],
    ),
    "grey JPEG": (encoded(Image.fromarray(GREY), "JPEG"), by_pillow, []),
    "JPEG": (encoded(IMAGE, "JPEG", subsampling=0), by_pillow, []),
    "BMP": (encoded(IMAGE, "BMP"), COLOURS, []),
    "with a profile": (encoded(IMAGE, icc_profile=b"\0" * 128 + b"Display P3"), COLOURS, [PROFILE]),
    "with the profile sRGB": (
        encoded(IMAGE, icc_profile=b"\0" * 128 + b"sRGB IEC61966-2.1"),
        COLOURS,
        [],
    ),
    "animated PNG": (encoded(IMAGE, save_all=True, append_images=[OTHER]), COLOURS, [ANIMATED]),
    "animated WebP": (
        encoded(IMAGE, "WEBP", save_all=True, append_images=[OTHER], lossless=True),
        COLOURS,
        [ANIMATED],
    ),
    "animated GIF": (
        encoded(PALETTE, "GIF", save_all=True, append_images=[OTHER]),
        None,
        [ANIMATED],
    ),
    "TIFF of two pages": (
        encoded(IMAGE, "TIFF", save_all=True, append_images=[OTHER]),
        COLOURS,
        [ANIMATED],
    ),
    "turned by EXIF": (encoded(IMAGE, exif=EXIF), np.rot90(COLOURS, -1), []),
}


def as_shown(form):
    data, expected, _ = SHOWN[form]
    if callable(expected):
        return expected(data)
    if form in ("LA", "LA of 16 bits"):
        grey = np.asarray(RGBA.convert("LA"))[:, :, 0] if form == "LA" else GREY
        return three(np.where(BELOW[:, None], np.uint8(255), grey))
    if (
        form == "RGBA of 16 bits"
    ):  # the low byte of what is transparent is not zero, the high one is
        return PAINTED
    return np.asarray(PALETTE.convert("RGB")) if expected is None else expected


def to_a_server(path):
    chat = openai(model="m", base_url="http://127.0.0.1:9", coordinates="pixels", server="plain")
    body = json.loads(chat.form.body(ChatRequest(key="", text="?", media=(open_image(path),))))
    url = body["messages"][0]["content"][0]["image_url"]["url"]
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))))


def to_a_program(path):
    query = Query(id="q", text="?", media=(open_image(path),), forms=(AnswerForm.COUNT,))
    folder = path.parent / "program"
    folder.mkdir()
    lay_out([query], folder, images="png")
    (written,) = folder.rglob("*.png")
    return np.asarray(Image.open(written))


WAYS = {
    "file": lambda path: open_image(path).frame(0),
    "table": lambda path: image_bytes(path.read_bytes(), "x").frame(0),
    "frame of a video": lambda path: frame_files([path]).frame(0),
    "document of lmms-eval": lambda path: medium(str(path)).frame(0),
    "server": to_a_server,
    "program": to_a_program,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", SHOWN)
def test_what_a_network_is_shown(tmp_path, form, way):
    path = tmp_path / "image.png"  # whatever its suffix says
    path.write_bytes(SHOWN[form][0])
    np.testing.assert_array_equal(WAYS[way](path), as_shown(form))


@pytest.mark.parametrize("form", SHOWN)
def test_what_is_lost_is_known_from_the_header(form):
    data, _, lost = SHOWN[form]
    assert [*read_header(io.BytesIO(data), form).conversions] == lost


def test_half_transparent_pixels_are_mixed_with_white_as_the_official_loaders_do():
    image = Image.new("RGBA", (2, 2), (200, 30, 0, 128))
    # qwen-vl-utils: paste over white by the alpha channel, here by hand: c·128/255 + 255·127/255
    assert np.abs(rgb(image)[0, 0].astype(float) - [227.4, 142.1, 127.0]).max() <= 1


CUT = encoded(IMAGE)[:-40]
FLIPPED = bytearray(encoded(IMAGE))
FLIPPED[len(FLIPPED) // 2] ^= 0x10
REFUSED = {
    "floating point": encoded(Image.fromarray(GREY.astype(np.float32)), "TIFF"),
    "32 bits": encoded(Image.fromarray(GREY.astype(np.int32)), "TIFF"),
    "16 bits that are all dark": png(16, 0, GREY.astype(">u2")),
    "cut": CUT,
    "a flipped bit": bytes(FLIPPED),
    "a cut JPEG": encoded(IMAGE, "JPEG")[:-40],
    "a cut GIF": encoded(PALETTE, "GIF")[:-60],
    "nothing": b"",
    "text": b"<html>not found</html>",
}


@pytest.mark.parametrize("form", REFUSED)
def test_what_has_no_scale_or_is_damaged_is_refused(form):
    with pytest.raises(MediaError, match="harbour"):
        decode_image(io.BytesIO(REFUSED[form]), "harbour")


OBJECT = np.where(BELOW[:, None], np.uint8(1), np.uint8(0)) * np.ones((1, WIDTH), np.uint8)
MASKS = {
    "L": encoded(Image.fromarray(OBJECT * 255)),
    "1": encoded(Image.fromarray(OBJECT.astype(bool))),
    "RGB": encoded(Image.fromarray(three(OBJECT * 255))),
    "opaque RGBA": encoded(Image.fromarray(np.dstack([three(OBJECT * 255), ALPHA | 255]))),
    "JPEG": encoded(Image.fromarray(OBJECT * 255), "JPEG", quality=100),
}
NO_MASKS = {
    "RGBA whose object is opaque": encoded(
        Image.fromarray(np.dstack([three(OBJECT * 0), OBJECT * 255]))
    ),
    "LA": encoded(RGBA.convert("LA")),
    "P with a transparent entry": encoded(INDEXED, transparency=1),
    "16 bits": png(16, 0, OBJECT.astype(">u2")),
    "32 bits": encoded(Image.fromarray(OBJECT.astype(np.int32)), "TIFF"),
    "floating point": encoded(Image.fromarray(OBJECT.astype(np.float32)), "TIFF"),
    "cut": CUT,
    "nothing": b"",
}


@pytest.mark.parametrize("form", MASKS)
def test_a_mask_is_read_by_every_reader(tmp_path, form):
    path = tmp_path / "mask"
    path.write_bytes(MASKS[form])
    read = read_mask_image(path).to_array()
    assert read.tolist() == OBJECT.astype(bool).tolist() or form == "JPEG"
    assert (read_levels(path, "mask") > 127).tolist() == OBJECT.astype(bool).tolist()


@pytest.mark.parametrize("form", NO_MASKS)
def test_a_mask_that_readers_differ_in_is_refused(tmp_path, form):
    path = tmp_path / "mask"
    path.write_bytes(NO_MASKS[form])
    for reader in (read_mask_image, lambda path: read_levels(path, str(path))):
        with pytest.raises(DataError, match=str(path)):
            reader(path)


def test_a_run_and_the_check_of_its_data_count_what_is_lost(tmp_path, capsys):
    data = tmp_path / "data"
    make = ["data", "make", "shapes", "--out", str(data), "--tasks", "reason_seg", "--size", "4"]
    assert main(make) == 0
    first, second, *_ = sorted((data / "reason_seg" / "ReasonSeg" / "val").glob("*.jpg"))
    for path, mode in ((first, "RGBA"), (second, "CMYK")):
        image = Image.open(path).convert(mode)
        image.save(path, "PNG" if mode == "RGBA" else "JPEG")
    capsys.readouterr()
    typed = ["--tasks", "reason_seg", "--data", str(data)]
    assert main(["data", "check", *typed]) == 0
    words = (
        "converted images or videos: 1 with CMYK, converted to RGB by Pillow; 1 with transparency"
    )
    assert words in capsys.readouterr().out
    assert main(["eval", "--model", "whole_frame", *typed, "--out", str(tmp_path / "runs")]) == 0
    assert words in " ".join(capsys.readouterr().err.split())
    (manifest,) = (tmp_path / "runs").rglob("manifest.json")
    assert sum(json.loads(manifest.read_text())["data"]["conversions"].values()) == 2


FLAT = Image.new("L", (64, 48), 255)  # of which all coded data are a few bytes


def jpegs():
    """JPEGs of several kinds, among them one with a preview that has an end of its own."""
    exif = Image.Exif()
    exif[0x10E] = "a preview: \xff\xd9".encode("latin-1")
    return {
        "photo": encoded(IMAGE, "JPEG"),
        "progressive": encoded(IMAGE, "JPEG", progressive=True),
        "restarts": encoded(IMAGE, "JPEG", restart_marker_blocks=1),
        "flat": encoded(FLAT, "JPEG", optimize=True),
        "preview": encoded(IMAGE, "JPEG", exif=exif),
        "two views": encoded(IMAGE, "MPO", save_all=True, append_images=[IMAGE]),
    }


@pytest.mark.parametrize("name", jpegs())
def test_a_jpeg_whose_end_was_never_written_is_refused_and_what_follows_the_end_is_not(
    tmp_path, name
):
    whole, path = jpegs()[name], tmp_path / "x.jpg"
    shown = decode_image(io.BytesIO(whole), "x")
    for after in (b"\0" * 3, b"\0" * 5000, b"<html>", b"\xff\xd8\xff" * 40):
        path.write_bytes(whole + after)
        refuse_cut(path)
        assert np.array_equal(decode_image(path, "x"), shown)
    if name == "two views":
        return
    for cut in (len(whole) - 2, len(whole) - 3, len(whole) - len(whole) // 8):
        for zeros in (0, 2, len(whole) - cut, 10_000):
            path.write_bytes(whole[:cut] + b"\0" * zeros)
            with pytest.raises(MediaError, match="complete image"):
                refuse_cut(path)
            with pytest.raises(MediaError):
                decode_image(path, "x")


@pytest.mark.parametrize("name", ["4:4:4", "4:2:0", "grey", "restarts"])
@pytest.mark.parametrize("part", [(0.4, 0.6), (0.5, 1)])
def test_a_jpeg_with_a_hole_in_its_data_is_refused(name, part):
    more = {"4:4:4": {"subsampling": 0}, "restarts": {"restart_marker_rows": 1}}.get(name, {})
    noise = np.random.default_rng(0).integers(0, 255, (160, 160, 3), np.uint8)
    image = Image.fromarray(noise).convert("L" if name == "grey" else "RGB")
    whole = encoded(image, "JPEG", **more)
    decode_image(io.BytesIO(whole), "x")
    start, stop = (int(len(whole) * share) for share in part)
    stop = min(stop, len(whole) - 2)  # the end is there
    with pytest.raises(MediaError, match="zeros in its data"):
        decode_image(io.BytesIO(whole[:start] + bytes(stop - start) + whole[stop:]), "x")


@pytest.mark.parametrize("shade", [0, 127, 255])
@pytest.mark.parametrize("more", [{}, {"optimize": True}, {"progressive": True}])
@pytest.mark.parametrize("noisy", [0, 8, 200])
def test_an_image_of_one_colour_has_no_hole(shade, more, noisy):
    colours = np.full((1200, 1600, 3), shade, np.uint8)
    colours[:noisy] = np.random.default_rng(0).integers(0, 255, (noisy, 1600, 3), np.uint8)
    for mode in ("L", "RGB"):
        exif = Image.Exif()
        exif[0x10E] = bytes(500) + b"x"  # zeros in a segment are none in the data
        image = Image.fromarray(colours).convert(mode)
        decode_image(io.BytesIO(encoded(image, "JPEG", exif=exif, **more)), "x")


def test_a_png_without_its_last_chunk_is_refused(tmp_path):
    path, whole = tmp_path / "x.png", encoded(IMAGE)
    for after in (b"", b"\0" * 100, b"more"):
        path.write_bytes(whole + after)
        refuse_cut(path)
    for cut in (1, 12, len(whole) // 2, len(whole) - 8):
        for zeros in (0, cut):
            path.write_bytes(whole[:-cut] + b"\0" * zeros)
            if cut > 1 or not zeros:  # one byte of a checksum is not looked at
                with pytest.raises(MediaError, match="complete image"):
                    refuse_cut(path)
