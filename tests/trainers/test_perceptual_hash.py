"""Images are known again however they were saved, and others are not taken for them."""

import io
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from harness import media
from harness.run import perceptual_hash
from harness.run.perceptual_hash import (
    ASKED,
    KEPT,
    MAX_DIFFERING_BITS,
    PerceptualIndex,
    frames_between,
    image_hash,
    media_hash,
    media_hashes,
)


@cache
def scene(seed, size=(320, 240)):
    """An image of some discs on a ground that fades."""
    generator = np.random.default_rng(seed)
    width, height = size
    rows, columns = np.mgrid[:height, :width]
    image = np.zeros((height, width, 3))
    image += (generator.integers(60, 200) + 40 * columns / width - 30 * rows / height)[..., None]
    for _ in range(5):
        x, y, radius = generator.uniform((0, 0, 15), (width, height, 60))
        image[(columns - x) ** 2 + (rows - y) ** 2 < radius**2] = generator.integers(0, 255, 3)
    return image.clip(0, 255).astype(np.uint8)


def saved(image, size, quality):
    file = io.BytesIO()
    Image.fromarray(image).resize(size, Image.Resampling.BILINEAR).save(
        file, "JPEG", quality=quality
    )
    return np.asarray(Image.open(file).convert("RGB"))


@cache
def passed_over(seed):
    """The frames of a camera that passes slowly over a rough wall, for ten seconds."""
    generator = np.random.default_rng(seed)
    wall = np.zeros((288, 504))
    for cells in (2, 4, 8, 16):
        rough = generator.normal(size=(cells, cells * 504 // 288)).astype(np.float32)
        finer = Image.fromarray(rough).resize((504, 288), Image.Resampling.BICUBIC)
        wall += np.asarray(finer) / cells**0.5
    image = Image.fromarray((128 + 40 * wall).clip(0, 255).astype(np.uint8)).convert("RGB")
    smaller = [np.asarray(image.crop((x, 0, 500 + x, 288)).reduce(4)) for x in range(4)]
    left = (k // 2 for k in range(240))
    return [smaller[x % 4][:, x // 4 : x // 4 + 96].copy() for x in left]


def film(seed, chosen=slice(None)):
    """Such a video, or some of its frames."""
    frames = passed_over(seed)[chosen]
    times = [k * (chosen.step or 1) / 24 for k in range(len(frames))]
    return media.pixels(frames, times=times, is_video=True, id=f"{seed}{chosen}")


def still(seed, number):
    frame = film(seed).frame(number)
    return media.pixels([frame], times=[0.0], is_video=False, id=f"{seed}{number}")


def known_again(asked, trained_on):
    known = PerceptualIndex(media_hash(trained_on))
    return any(one in known for one in media_hash(asked, ASKED))


def distance(one, other):
    return (int(one, 16) ^ int(other, 16)).bit_count()


@pytest.mark.parametrize(
    ("size", "quality"), [((840, 840), 90), ((160, 120), 50), ((224, 168), 30)]
)
def test_an_image_that_was_squashed_shrunk_or_compressed_is_known(size, quality):
    known = PerceptualIndex(image_hash(scene(seed)) for seed in range(20))
    assert all(image_hash(saved(scene(seed), size, quality)) in known for seed in range(20))


def test_other_images_are_not_known():
    known = PerceptualIndex(image_hash(scene(seed)) for seed in range(20))
    others = [image_hash(scene(seed)) for seed in range(100, 160)]
    assert not any(one in known for one in others)


@given(st.binary(min_size=32, max_size=32), st.sets(st.integers(1, 255), max_size=60))
@settings(max_examples=30, deadline=None)
def test_so_many_bits_may_differ_and_no_more(packed, flipped):
    first = packed.hex()
    bits = np.unpackbits(np.frombuffer(packed, dtype=np.uint8))
    bits[list(flipped)] ^= 1
    second = np.packbits(bits).tobytes().hex()
    assert distance(first, second) == len(flipped)
    assert (second in PerceptualIndex([first])) == (len(flipped) <= MAX_DIFFERING_BITS)


def test_a_plain_image_looks_like_nothing():
    plain = np.full((40, 50, 3), 128, dtype=np.uint8)
    assert image_hash(plain) == ""
    known = PerceptualIndex(["", image_hash(scene(1))])
    assert len(known) == 1 and "" not in known and "ab" not in known
    assert image_hash(scene(1)) not in PerceptualIndex([])


def test_brightness_is_no_shape():
    dark = (scene(3) * 0.6).astype(np.uint8)
    assert distance(image_hash(dark), image_hash(scene(3))) <= 8


@pytest.mark.parametrize("frames", [1, 2, 7, 8, 9, 31, 240, 1001])
def test_frames_between_parts_hold_the_middle_and_are_looked_at_again(frames):
    kept, requested = frames_between(frames, KEPT), frames_between(frames, ASKED)
    assert frames // 2 in kept and set(kept) <= set(requested)
    assert len(kept) <= KEPT - 1 and len(requested) <= ASKED - 1
    assert frames <= KEPT or not {0, frames - 1} & {*kept}


@pytest.mark.parametrize(
    "chosen",
    [slice(40, 140), slice(0, 120), slice(133, 240), slice(5, None, 3), slice(20, 180, 4)],
)
def test_a_cut_of_a_video_and_the_same_at_another_rate_are_known(chosen):
    for seed in range(6):
        part = film(seed, chosen)
        assert known_again(part, film(seed)) and known_again(film(seed), part)


def test_a_still_is_known_by_the_video_that_it_was_taken_from_and_the_video_by_it():
    for seed in range(6):
        assert known_again(still(seed, 151), film(seed))
        assert known_again(film(seed), still(seed, 76))
        assert not known_again(still(seed, 10), film(seed)), "it shows what no kept frame shows"


def test_another_video_is_not_known():
    known = PerceptualIndex(one for seed in range(6) for one in media_hash(film(seed)))
    assert len(known) == 6 * (KEPT - 1)
    others = [one for seed in range(100, 120) for one in media_hash(film(seed), ASKED)]
    assert not any(one in known for one in others)


def test_a_video_that_was_known_by_its_middle_alone_is_known_still():
    assert known_again(film(3), still(3, 120))
    assert image_hash(film(3).frame(120)) in media_hash(film(3))


def test_a_video_that_does_not_move_has_one_hash_and_a_black_one_none():
    frame = scene(5)
    calm = media.pixels([frame] * 20, times=range(20), is_video=True, id="v")
    assert media_hash(calm) == (image_hash(frame),)
    black = media.pixels([frame * 0] * 20, times=range(20), is_video=True, id="b")
    assert media_hash(black) == ()


def test_what_cannot_be_decoded_is_nothing(tmp_path):
    paths = [tmp_path / f"{k}.png" for k in range(3)]
    for k, path in enumerate(paths):
        Image.fromarray(scene(k)).save(path)
    image, video = media.open_image(paths[1]), media.frame_files(paths)
    paths[1].write_bytes(paths[1].read_bytes()[:200])
    paths[2].unlink()
    first = image_hash(scene(0))
    assert media_hash(image) == () and media_hash(video) == (first,)
    samples = [("a", (video, image)), ("b", ()), ("c", (video,))]
    assert list(media_hashes(samples)) == [(first,), (), (first,)]


def test_a_video_with_many_questions_is_decoded_once(monkeypatch):
    looked = []
    monkeypatch.setattr(perceptual_hash, "SAMPLES_AT_ONCE", 2)
    monkeypatch.setattr(
        perceptual_hash, "media_hash", lambda one, parts: looked.append(one) or (one.id,)
    )
    whole, cut, image = film(1), film(1, slice(20)), still(1, 0)
    samples = [("a", (whole,))] * 5 + [("a", (cut, whole)), ("b", (whole,))]
    found = [tuple(one.id for one in shown) for _, shown in samples]
    assert list(media_hashes(samples)) == found
    assert sorted(one.id for one in looked) == sorted([whole.id] * 3 + [cut.id])
    assert list(media_hashes([("a", (image,))] * 2)) == [(image.id,)] * 2
