"""One rule for decoding, and limits before it."""

import io
import pickle
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness.errors import MediaError
from harness.frame_cache import CACHE, FrameCache
from harness.media import frame_files, image_bytes, open_image, pixels

GRADIENT = np.stack(np.meshgrid(np.arange(40), np.arange(30), indexing="xy"), axis=-1)
COLOUR = np.concatenate([GRADIENT * 5, np.full((30, 40, 1), 77)], axis=-1).astype(np.uint8)


def save(path, array, **options):
    Image.fromarray(array).save(path, **options)
    return path


def test_an_image_is_rgb_with_its_origin_at_the_top_left(tmp_path):
    media = open_image(save(tmp_path / "x.png", COLOUR))
    assert media.size == (40, 30) and len(media) == 1 and not media.is_video
    np.testing.assert_array_equal(media.frame(0), COLOUR)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_tags_are_applied_to_size_and_pixels(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = save(tmp_path / "x.jpg", COLOUR, exif=exif, quality=95)
    media = open_image(path)
    assert media.size == ((40, 30) if orientation < 5 else (30, 40))
    assert media.frame(0).shape == (media.size[1], media.size[0], 3)


def test_turned_pixels_stand_where_cv2_puts_them(tmp_path):
    import cv2

    exif = Image.Exif()
    exif[0x0112] = 6
    path = save(tmp_path / "x.jpg", COLOUR, exif=exif, quality=95)
    official = cv2.imread(str(path))[:, :, ::-1]
    assert np.abs(open_image(path).frame(0).astype(int) - official).max() <= 3


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "CMYK", "P", "1"])
def test_every_mode_becomes_rgb(tmp_path, mode):
    path = tmp_path / ("x.tif" if mode == "CMYK" else "x.png")
    Image.fromarray(COLOUR).convert(mode).save(path)
    frame = open_image(path).frame(0)
    assert frame.shape == (30, 40, 3) and frame.dtype == np.uint8


def test_sixteen_bits_keep_their_high_byte(tmp_path):
    deep = (GRADIENT[:, :, 0] * 256 + 255).astype(np.uint16)
    Image.fromarray(deep).save(tmp_path / "x.png")
    np.testing.assert_array_equal(
        open_image(tmp_path / "x.png").frame(0)[:, :, 0], GRADIENT[:, :, 0]
    )


def test_a_file_written_again_has_its_new_pixels(tmp_path):
    path = save(tmp_path / "x.png", COLOUR)
    open_image(path).frame(0)
    save(path, 255 - COLOUR)
    np.testing.assert_array_equal(open_image(path).frame(0), 255 - COLOUR)


def test_a_relative_path_names_another_file_in_another_folder(tmp_path, monkeypatch):
    for name, array in (("a", COLOUR), ("b", 255 - COLOUR)):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        save(Path("x.png"), array)
        np.testing.assert_array_equal(open_image(Path("x.png")).frame(0), array)


@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_a_cut_image_is_never_decoded_in_part(tmp_path, suffix):
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3)).astype(np.uint8)
    path = save(tmp_path / f"x.{suffix}", noise)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(MediaError, match=str(path)):
        open_image(path).frame(0)


def bomb(width, height):
    """A PNG whose header claims a size and whose body is nearly nothing."""

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0" * 1000))
        + chunk(b"IEND", b"")
    )


def test_a_bomb_is_refused_by_its_header(tmp_path):
    (tmp_path / "x.png").write_bytes(bomb(100_000, 100_000))
    with pytest.raises(MediaError, match=r"x\.png size"):
        open_image(tmp_path / "x.png")


@pytest.mark.parametrize("data", [b"", b"not an image", b"\x89PNG\r\n\x1a\n"])
def test_what_is_no_image_is_named(tmp_path, data):
    (tmp_path / "x.png").write_bytes(data)
    with pytest.raises(MediaError, match=r"x\.png"):
        open_image(tmp_path / "x.png")
    with pytest.raises(MediaError, match="absent"):
        open_image(tmp_path / "absent.png")


def test_a_video_is_its_frames_in_order(tmp_path):
    paths = [save(tmp_path / f"{k}.png", COLOUR + k) for k in range(3)]
    video = frame_files(paths, frames_per_second=5)
    assert video.is_video and len(video) == 3 and video.times() == (0.0, 0.2, 0.4)
    assert [int(frame[0, 0, 2]) for frame in video.frames([2, 0])] == [79, 77]
    with pytest.raises(MediaError, match="0 to 2"):
        video.frame(3)


def test_frames_of_another_size_are_an_error(tmp_path):
    paths = [save(tmp_path / "0.png", COLOUR), save(tmp_path / "1.png", COLOUR[:20])]
    with pytest.raises(MediaError, match="frame 1"):
        frame_files(paths).frames()


def test_a_part_is_the_video_of_some_frames_at_their_times(tmp_path):
    paths = [save(tmp_path / f"{number}.png", COLOUR + number) for number in range(5)]
    video = frame_files(paths, frames_per_second=2.0)
    part = video.part(1, 4)
    assert (len(part), part.size, part.times()) == (3, video.size, (0.5, 1.0, 1.5))
    assert part.is_video and (part.frame(2) == video.frame(3)).all()
    assert len({video.id, part.id, video.part(1, 3).id}) == 3


def test_ids_follow_content_not_place(tmp_path):
    one, two = (save(tmp_path / name, COLOUR) for name in ("a.png", "b.png"))
    assert open_image(one).id == open_image(two).id == image_bytes(one.read_bytes(), "x").id
    assert open_image(save(tmp_path / "c.png", COLOUR + 1)).id != open_image(one).id


def test_a_handle_does_not_tell_where_its_file_lies(tmp_path):
    media = open_image(save(tmp_path / "secret.png", COLOUR))
    assert "secret" not in repr(media)
    public = {name for name in dir(media) if not name.startswith("_")}
    assert public == {
        "conversions",
        "fault",
        "frame",
        "frames",
        "id",
        "is_video",
        "part",
        "plain_file",
        "size",
        "times",
        "weight",
    }


def test_handles_travel_between_processes(tmp_path):
    media = pickle.loads(pickle.dumps(open_image(save(tmp_path / "x.png", COLOUR))))
    np.testing.assert_array_equal(media.frame(0), COLOUR)
    held = pixels([COLOUR], times=(0.0,), is_video=False, id="k")
    assert pickle.loads(pickle.dumps(held)).id == "k"


def test_the_cache_is_bounded_and_shared(tmp_path):
    path = save(tmp_path / "x.png", COLOUR)
    CACHE.clear()
    assert open_image(path).frame(0) is open_image(path).frame(0)
    assert not open_image(path).frame(0).flags.writeable
    small = FrameCache(max_bytes=2 * COLOUR.nbytes)
    for k in range(10):
        small.get(open_image(save(tmp_path / f"{k}.png", COLOUR))._load[0])
    assert small._bytes <= 2 * COLOUR.nbytes


def test_bytes_in_memory_are_decoded_by_the_same_rule():
    buffer = io.BytesIO()
    Image.fromarray(COLOUR).save(buffer, "PNG")
    np.testing.assert_array_equal(image_bytes(buffer.getvalue(), "x").frame(0), COLOUR)
