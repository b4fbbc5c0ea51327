"""Pictures are known again however they were saved, and others are not taken for them."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from harness import media
from harness.run.likeness import ALIKE, Likeness, media_hash, media_hashes, picture_hash


def scene(seed, size=(320, 240)):
    """A picture of some discs on a ground that fades."""
    generator = np.random.default_rng(seed)
    width, height = size
    rows, columns = np.mgrid[:height, :width]
    picture = np.zeros((height, width, 3))
    picture += (generator.integers(60, 200) + 40 * columns / width - 30 * rows / height)[..., None]
    for _ in range(5):
        x, y, radius = generator.uniform((0, 0, 15), (width, height, 60))
        picture[(columns - x) ** 2 + (rows - y) ** 2 < radius**2] = generator.integers(0, 255, 3)
    return picture.clip(0, 255).astype(np.uint8)


def saved(picture, size, quality):
    file = io.BytesIO()
    Image.fromarray(picture).resize(size, Image.Resampling.BILINEAR).save(
        file, "JPEG", quality=quality
    )
    return np.asarray(Image.open(file).convert("RGB"))


def distance(one, other):
    return (int(one, 16) ^ int(other, 16)).bit_count()


@pytest.mark.parametrize(
    ("size", "quality"), [((840, 840), 90), ((160, 120), 50), ((224, 168), 30)]
)
def test_a_picture_that_was_squashed_shrunk_or_compressed_is_known(size, quality):
    known = Likeness(picture_hash(scene(seed)) for seed in range(20))
    assert all(picture_hash(saved(scene(seed), size, quality)) in known for seed in range(20))


def test_other_pictures_are_not_known():
    known = Likeness(picture_hash(scene(seed)) for seed in range(20))
    others = [picture_hash(scene(seed)) for seed in range(100, 160)]
    assert not any(one in known for one in others)


@given(st.binary(min_size=32, max_size=32), st.sets(st.integers(1, 255), max_size=60))
@settings(max_examples=30, deadline=None)
def test_so_many_bits_may_differ_and_no_more(packed, flipped):
    first = packed.hex()
    bits = np.unpackbits(np.frombuffer(packed, dtype=np.uint8))
    bits[list(flipped)] ^= 1
    second = np.packbits(bits).tobytes().hex()
    assert distance(first, second) == len(flipped)
    assert (second in Likeness([first])) == (len(flipped) <= ALIKE)


def test_a_plain_picture_looks_like_nothing():
    plain = np.full((40, 50, 3), 128, dtype=np.uint8)
    assert picture_hash(plain) == ""
    known = Likeness(["", picture_hash(scene(1))])
    assert len(known) == 1 and "" not in known and "ab" not in known
    assert picture_hash(scene(1)) not in Likeness([])


def test_brightness_is_no_shape():
    dark = (scene(3) * 0.6).astype(np.uint8)
    assert distance(picture_hash(dark), picture_hash(scene(3))) <= 8


def test_a_video_is_known_by_its_middle_and_what_cannot_be_decoded_is_nothing(tmp_path):
    frames = [scene(seed) for seed in (5, 6, 7)]
    video = media.pixels(frames, times=range(3), is_video=True, id="v")
    assert media_hash(video) == picture_hash(frames[1])
    path = tmp_path / "a.png"
    Image.fromarray(frames[0]).save(path)
    picture = media.image(path)
    path.write_bytes(path.read_bytes()[:200])
    assert media_hash(picture) == ""
    assert list(media_hashes([(video, picture), (), (video,)])) == [
        (picture_hash(frames[1]),), (), (picture_hash(frames[1]),),
    ]  # fmt: skip
