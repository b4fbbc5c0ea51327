import hashlib
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from harness.image_file import decode_image
from harness.world.encode import encode_png, write_jpeg
from harness.world.mp4 import write_mp4

SIDES = st.integers(1, 40)
PINNED = "2140550a827e8ad04b12939d02f2cb11"
# few values, so that long runs, short runs and lone bytes all occur
PIXELS = st.sampled_from([0, 1, 143, 144, 255])
IMAGES = st.tuples(SIDES, SIDES).flatmap(
    lambda size: st.sampled_from([size, (*size, 3)]).flatmap(
        lambda shape: arrays(np.uint8, shape, elements=PIXELS)
    )
)


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


@settings(max_examples=60, deadline=None)
@given(IMAGES)
def test_a_png_decodes_to_the_image(image: np.ndarray) -> None:
    decoded = opened(encode_png(image))
    assert decoded.mode == ("RGB" if image.ndim == 3 else "L")
    assert np.array_equal(np.asarray(decoded), image)


@pytest.mark.parametrize("length", [*range(1, 12), 257, 258, 259, 260, 261, 516, 517, 519, 1200])
def test_runs_of_every_length_survive(length: int) -> None:
    row = np.full((1, length), 7, dtype=np.uint8)
    for image in (row, np.concatenate([row, np.array([[9]], dtype=np.uint8)], axis=1)):
        assert np.array_equal(np.asarray(opened(encode_png(image))), image)


def test_all_bytes_survive() -> None:
    image = np.arange(256, dtype=np.uint8).reshape(16, 16)
    assert np.array_equal(np.asarray(opened(encode_png(image))), image)


def test_the_bytes_of_a_png_are_pinned() -> None:
    y, x = np.mgrid[0:31, 0:47]
    image = np.stack([x * 5 % 256, y * 8 % 256, (x // 9 + y // 7) % 2 * 200], axis=2)
    data = encode_png(image.astype(np.uint8))
    assert hashlib.blake2b(data, digest_size=16).hexdigest() == PINNED


def test_runs_of_equal_pixels_are_packed() -> None:
    assert len(encode_png(np.full((168, 168, 3), 90, dtype=np.uint8))) < 1500


def test_a_jpeg_is_near_the_image_and_keeps_its_colours_apart(tmp_path: Path) -> None:
    image = np.zeros((64, 64, 3), dtype=np.uint8)
    image[:, 32:] = (214, 32, 36)
    write_jpeg(tmp_path / "a.jpg", image)
    decoded = decode_image(tmp_path / "a.jpg", "a").astype(int)
    assert abs(decoded - image).max() < 12
    with Image.open(tmp_path / "a.jpg") as file:
        assert file.format == "JPEG"


def test_a_video_has_the_same_bytes_whatever_lies_in_memory(tmp_path):
    """Sides that are no multiples of 16, beside which an encoder may look."""
    pytest.importorskip("av")
    draw = np.random.default_rng(0)
    tiles = draw.integers(0, 255, (15, 22, 3), dtype=np.uint8).repeat(6, axis=0).repeat(6, axis=1)
    frames = [np.roll(tiles, 3 * number, axis=1)[:, :130] for number in range(12)]
    found = set()
    for number in range(16):
        rubbish = [np.full(draw.integers(1000, 200000), number, np.uint8) for _ in range(9)]
        del rubbish
        write_mp4(tmp_path / "x.mp4", frames, times=[place / 4 for place in range(12)])
        found.add((tmp_path / "x.mp4").read_bytes())
    assert len(found) == 1
