"""Video files: every frame by number, at its true time, and never a part of a file."""

import os
import pickle
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import MediaError, UsageError
from harness.frame_cache import CACHE
from harness.run.prefetch import decoders
from harness.video import video_file, video_or_lost
from harness.video.boxes import Tables, extent
from harness.video.decoder import DECODERS, Decoder, Decoders
from harness.video.disk import DiskCache, disk_cache
from harness.video.index import index_of

av = pytest.importorskip("av")

WIDTH, HEIGHT = 64, 48
EVENLY = tuple(range(0, 2400, 40))
VARIABLE = tuple(np.cumsum([70, 40, 40, 500, 10, 10, 333, 67] * 5).tolist())
CASES = [
    ("libx264", "mp4", {}),
    ("libx264", "mkv", {}),
    ("libx264", "avi", {}),
    ("libx264", "ts", {}),
    ("libx264", "mov", {"x264-params": "open-gop=1:bframes=3:b-pyramid=normal"}),
    ("mpeg4", "mp4", {"bf": "2"}),
    ("mpeg4", "avi", {}),
    ("libvpx-vp9", "webm", {}),
    ("libvpx", "webm", {"auto-alt-ref": "1", "lag-in-frames": "16", "arnr-maxframes": "7"}),
]


def image(number, size=(WIDTH, HEIGHT)):
    """A bar that moves and a shade that changes: no two frames are alike."""
    drawn = np.zeros((size[1], size[0], 3), np.uint8)
    drawn[..., 0] = number * 4 % 256
    drawn[:, : 1 + number % size[0], 1] = 200
    return drawn


def write(
    path,
    stamps=EVENLY,
    codec="libx264",
    *,
    size=(WIDTH, HEIGHT),
    pixels="yuv420p",
    options=None,
    format=None,
    audio=False,
):
    """A video whose frame k is shown at stamps[k] milliseconds."""
    clock = Fraction(1, 1000)
    with av.open(str(path), "w", format=format) as container:
        stream = container.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt = *size, pixels
        stream.codec_context.time_base, stream.codec_context.gop_size = clock, 12
        stream.options = {"threads": "1", **(options or {})}
        sound = container.add_stream("aac", rate=8000) if audio else None
        for number, stamp in enumerate(stamps):
            frame = av.VideoFrame.from_ndarray(image(number, size), format="rgb24")
            frame.pts, frame.time_base = stamp, clock
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
        if sound is not None:
            samples = np.zeros((1, 1024), np.float32)
            for number in range(24):
                heard = av.AudioFrame.from_ndarray(samples, format="fltp", layout="mono")
                heard.sample_rate, heard.pts = 8000, number * 1024
                container.mux(sound.encode(heard))
            container.mux(sound.encode())
    return path


def decoded(path):
    """The frames of a file one after the other, as FFmpeg gives them."""
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def turn(path, degrees):
    """Write a rotation into the track header of an MP4 file (clockwise, as phones do)."""
    data = bytearray(path.read_bytes())
    place = data.index(b"tkhd") + 4 + 40
    one = 1 << 16
    across, along = {90: (0, one), 180: (-one, 0), 270: (0, -one)}[degrees]
    matrix = (across, along, 0, -along, across, 0, 0, 0, 1 << 30)
    data[place : place + 36] = struct.pack(">9i", *matrix)
    path.write_bytes(data)
    return path


@pytest.fixture(autouse=True)
def forgetful():
    CACHE.clear()
    yield
    CACHE.clear()
    DECODERS.clear()


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return write(tmp_path_factory.mktemp("videos") / "plain.mp4")


@pytest.mark.parametrize(("codec", "suffix", "options"), CASES)
def test_frames_at_random_equal_those_in_order_and_have_their_times(
    tmp_path, codec, suffix, options
):
    path = write(tmp_path / f"x.{suffix}", codec=codec, options=options)
    inorder = decoded(path)
    video = video_file(path)
    assert len(video) == len(inorder) == len(EVENLY)
    np.testing.assert_allclose(video.times(), np.array(EVENLY) / 1000, atol=1e-3)
    order = [*np.random.default_rng(0).permutation(len(video))[:30], *range(59, -1, -7)]
    for number in order:
        CACHE.clear()
        np.testing.assert_array_equal(video.frame(int(number)), inorder[number])


def test_a_frame_of_a_film_has_no_file_of_its_own(plain):
    assert video_file(plain).plain_file(0) is None


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_a_variable_rate_keeps_its_times(tmp_path, suffix):
    path = write(tmp_path / f"x.{suffix}", VARIABLE)
    video, inorder = video_file(path), decoded(path)
    np.testing.assert_allclose(np.diff(video.times()), np.diff(VARIABLE) / 1000, atol=2e-3)
    for number in (3, 39, 4, 20):
        np.testing.assert_array_equal(video.frame(number), inorder[number])


def test_time_zero_is_where_the_file_begins_not_its_images(tmp_path):
    path = write(tmp_path / "x.mkv", [500, 600, 700], audio=True)
    assert video_file(path).times() == pytest.approx((0.5, 0.6, 0.7), abs=0.03)
    silent = write(tmp_path / "silent.ts", [500, 600, 700])
    assert video_file(silent).times() == pytest.approx((0, 0.1, 0.2), abs=1e-3)


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=40), st.data())
def test_any_frame_of_any_rhythm_is_found(tmp_path, gaps, data):
    path = write(tmp_path / "law.mp4", [0, *np.cumsum(gaps).tolist()])
    CACHE.clear()
    video, inorder = video_file(path), decoded(path)
    assert len(video) == len(inorder) == len(gaps) + 1
    assert all(late > early for early, late in zip(video.times(), video.times()[1:], strict=False))
    number = data.draw(st.integers(0, len(gaps)))
    np.testing.assert_array_equal(video.frame(number), inorder[number])


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_rotation_is_applied_to_size_and_pixels(tmp_path, degrees):
    path = write(tmp_path / "x.mp4", EVENLY[:5])
    upright = decoded(path)[3]
    video = video_file(turn(path, degrees))
    assert video.size == ((HEIGHT, WIDTH) if degrees != 180 else (WIDTH, HEIGHT))
    np.testing.assert_array_equal(video.frame(3), np.rot90(upright, -degrees // 90))


def test_odd_sizes_stay_odd(tmp_path):
    path = write(tmp_path / "x.mp4", EVENLY[:4], size=(63, 47), pixels="yuv444p")
    video = video_file(path)
    assert video.size == (63, 47)
    assert np.abs(video.frame(2).astype(int) - image(2, (63, 47))).max() < 60


def test_a_handle_says_what_it_is_and_not_where_it_lies(plain):
    video = video_file(plain)
    assert repr(video) == "<video of 64 × 48 pixels, 60 frames>"
    assert video.is_video and video.fault is None and video.weight == plain.stat().st_size
    assert {name for name in dir(video) if not name.startswith("_")} == {
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
    for number in (-1, 60):
        with pytest.raises(MediaError, match="0 to 59"):
            video.frame(number)


def test_ids_follow_content_not_place(tmp_path, plain):
    twin = tmp_path / "other name.mp4"
    twin.write_bytes(plain.read_bytes())
    assert video_file(twin).id == video_file(plain).id
    assert video_file(write(tmp_path / "b.mp4", VARIABLE)).id != video_file(plain).id


def test_a_video_is_hashed_as_an_image_is(plain):
    from harness.media import _FilesDigest

    assert video_file(plain).id == _FilesDigest((plain,))()


def test_handles_travel_between_processes_and_stay_small(plain):
    sent = pickle.dumps(video_file(plain))
    assert len(sent) < 1000
    np.testing.assert_array_equal(pickle.loads(sent).frame(7), video_file(plain).frame(7))


def test_a_part_of_the_frames_is_a_medium_of_its_own(plain):
    whole, part = video_file(plain), video_file(plain, choose=lambda times: (3, 40, 41))
    assert len(part) == 3 and part.times() == tuple(whole.times()[k] for k in (3, 40, 41))
    np.testing.assert_array_equal(part.frame(1), whole.frame(40))
    assert part.id != whole.id != video_file(plain, choose=lambda times: (3, 40)).id != part.id
    sent = pickle.loads(pickle.dumps(part))
    assert sent.id == part.id and len(sent) == 3
    with pytest.raises(MediaError, match="0 to 2"):
        part.frame(3)


@pytest.mark.parametrize("choose", [None, lambda times: (0, 3, 40, 41, 42)])
def test_a_stretch_of_a_file_has_its_frames_and_times(plain, choose):
    whole = video_file(plain, choose=choose)
    assert len(whole.part(2, 5000)) == len(whole) - 2  # as a slice
    part = pickle.loads(pickle.dumps(whole.part(1, 4)))
    assert part.is_video and part.times() == whole.times()[1:4]
    for place, frame in enumerate(part.frames(), start=1):
        np.testing.assert_array_equal(frame, whole.frame(place))


def test_a_handle_whose_file_has_gone_arrives_as_a_lost_one(tmp_path):
    path = write(tmp_path / "x.mp4", EVENLY[:5])
    sent = pickle.dumps(video_file(path))
    path.unlink()
    arrived = pickle.loads(sent)
    assert "x.mp4" in arrived.fault and arrived.size == (WIDTH, HEIGHT) and len(arrived) == 5


def test_frames_are_kept_in_the_shared_cache(plain):
    video = video_file(plain)
    assert video.frame(5) is video_file(plain).frame(5)
    assert not video.frame(5).flags.writeable


def test_a_video_written_again_has_its_new_frames(tmp_path):
    path = write(tmp_path / "x.mp4")
    video_file(path).frame(3)
    write(path, codec="mpeg4")
    np.testing.assert_array_equal(video_file(path).frame(3), decoded(path)[3])


def test_frames_in_order_are_decoded_without_a_seek(plain, monkeypatch):
    video, entered = video_file(plain), []
    decoder = DECODERS.decoder_of(plain)
    enter = decoder._seek
    monkeypatch.setattr(decoder, "_seek", lambda key: (entered.append(key), enter(key)))
    video.frames()
    assert len(entered) == 60 and [key for key in entered if key is not None] == [0]


def test_a_video_read_backwards_is_decoded_a_stretch_at_a_time(plain, monkeypatch):
    video, entered = video_file(plain), []
    decoder = DECODERS.decoder_of(plain)
    enter = decoder._seek
    monkeypatch.setattr(decoder, "_seek", lambda key: (entered.append(key), enter(key)))
    video.frames(range(59, -1, -1))
    assert len(entered) <= 2 * len(index_of(plain).keys)


def test_threads_share_a_decoder(plain):
    inorder, wrong = decoded(plain), []

    def read(seed):
        numbers = np.random.default_rng(seed).permutation(60).tolist()
        video = video_file(plain)
        wrong.extend(k for k in numbers if not np.array_equal(video.frame(k), inorder[k]))

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_few_files_stay_open(tmp_path, plain):
    few = Decoders(max_open=2)
    paths = [tmp_path / f"{number}.mp4" for number in range(4)]
    for path in paths:
        path.write_bytes(plain.read_bytes())
        few.decoder_of(path)
    assert [path for path, *_ in few._open] == paths[2:]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_opens_files_for_itself(plain):
    video = video_file(plain)
    inorder = decoded(plain)
    video.frame(3)
    child = os.fork()
    if not child:
        CACHE.clear()
        same = all(np.array_equal(video.frame(k), inorder[k]) for k in (50, 20))
        os._exit(0 if same else 1)
    CACHE.clear()
    same = all(np.array_equal(video.frame(k), inorder[k]) for k in (40, 10))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 and same


def test_tables_alone_list_the_frames_of_a_large_file(tmp_path, monkeypatch):
    noise = np.random.default_rng(0).integers(0, 255, (240, 320, 3)).astype(np.uint8)
    monkeypatch.setitem(globals(), "image", lambda number, size: np.roll(noise, number, 0))
    path = write(tmp_path / "x.mp4", EVENLY[:20], size=(320, 240), options={"crf": "1"}, audio=True)
    packets = []
    with av.open(str(path)) as container:
        packets = sorted(one.pts for one in container.demux(video=0) if one.pts is not None)
    read = []

    class Counted(Tables):
        def _bytes(self, size):
            read.append(size if self.skipping else 0)
            return super()._bytes(size)

    monkeypatch.setattr("harness.video.index.Tables", Counted)
    assert index_of(path).stamps.tolist() == packets
    assert read and sum(read) < path.stat().st_size / 8


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "avi"])
@pytest.mark.parametrize("share", [0.5, 0.97])
def test_a_cut_file_is_refused_whole(tmp_path, suffix, share):
    path = write(tmp_path / f"x.{suffix}")
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    kept = path.stat().st_size
    with pytest.raises(MediaError, match=rf"x\.{suffix}: .*(bytes.*found {kept}\b|complete)"):
        video_file(path)


def test_a_cut_file_with_its_tables_in_front_is_refused(tmp_path):
    path = write(tmp_path / "x.mp4")
    with (
        av.open(str(path)) as source,
        av.open(str(tmp_path / "fast.mp4"), "w", options={"movflags": "faststart"}) as target,
    ):
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(source.streams.video[0]):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    fast = tmp_path / "fast.mp4"
    assert fast.read_bytes().index(b"moov") < fast.read_bytes().index(b"mdat")
    assert len(video_file(fast)) == len(decoded(fast)) == 59  # its edit list leaves out the last
    whole = fast.stat().st_size
    fast.write_bytes(fast.read_bytes()[:-200])
    with pytest.raises(MediaError, match=rf"fast\.mp4: .*{whole} bytes.*found {whole - 200}\b"):
        video_file(fast)


def test_trailing_bytes_are_no_damage(tmp_path, plain):
    path = tmp_path / "x.mp4"
    path.write_bytes(plain.read_bytes() + b"\0\0\0\x40free more of it than there is")
    assert len(video_file(path)) == 60


@pytest.mark.parametrize(
    "data", [b"", b"not a video", b"<html>404</html>", b"\0\0\0\x18ftypmp42", b"\x1aE\xdf\xa3\xff"]
)
def test_what_is_no_video_is_named(tmp_path, data):
    (tmp_path / "x.mp4").write_bytes(data)
    with pytest.raises(MediaError, match=r"x\.mp4: "):
        video_file(tmp_path / "x.mp4")


def test_a_missing_file_is_named_and_says_where_data_is_had(tmp_path):
    with pytest.raises(MediaError, match=r"absent\.mp4: .*none.*`harness list tasks"):
        video_file(tmp_path / "absent.mp4")
    lost = video_or_lost(tmp_path / "absent.mp4", size=(8, 6), frames=3)
    assert "absent.mp4" in lost.fault and lost.size == (8, 6) and len(lost) == 3


def test_sound_alone_is_no_video(tmp_path):
    with av.open(str(tmp_path / "x.mp4"), "w") as container:
        sound = container.add_stream("aac", rate=8000)
        heard = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        heard.sample_rate = 8000
        container.mux(sound.encode(heard))
        container.mux(sound.encode())
    with pytest.raises(MediaError, match=r"x\.mp4: .*audio"):
        video_file(tmp_path / "x.mp4")


def test_a_video_without_a_frame_is_refused(tmp_path):
    with av.open(str(tmp_path / "x.mkv"), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        container.start_encoding()
    with pytest.raises(MediaError, match=r"x\.mkv"):
        video_file(tmp_path / "x.mkv")


@pytest.mark.parametrize("name", ["x.mp4", "x.m3u8", "x.txt"])
def test_a_list_of_other_files_is_not_opened(tmp_path, plain, name):
    for text in (
        f"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n{plain}\n#EXT-X-ENDLIST\n",
        f"ffconcat version 1.0\nfile '{plain}'\n",
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(MediaError):
            video_file(tmp_path / name)


def test_a_name_with_a_colon_is_a_file(tmp_path, plain, monkeypatch):
    path = tmp_path / "concat:a.mp4"
    path.write_bytes(plain.read_bytes())
    assert len(video_file(path)) == 60
    monkeypatch.chdir(tmp_path)
    assert video_file(Path("concat:a.mp4")).frame(9).shape == (HEIGHT, WIDTH, 3)


def test_a_huge_image_is_refused_before_it_is_kept(tmp_path, monkeypatch):
    path = write(tmp_path / "x.mp4", EVENLY[:3])
    monkeypatch.setattr("harness.masks.MAX_PIXELS", 1000)
    with pytest.raises(MediaError, match=r"x\.mp4"):
        video_file(path)


def test_damage_inside_is_met_at_the_frame_not_hidden(tmp_path):
    path = write(tmp_path / "x.mp4", codec="mpeg4", options={"qscale": "1"}, size=(320, 240))
    data = bytearray(path.read_bytes())
    (first, last), *_ = extent(path).payload
    middle = (first + last) // 2
    data[middle : last - 10] = bytes(last - 10 - middle)
    path.write_bytes(data)
    video = video_file(path)
    assert video.frame(0).shape == (240, 320, 3)
    with pytest.raises(MediaError, match=r"x\.mp4"):
        video.frames()


def test_videos_that_are_decoded_side_by_side_are_opened_once(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(400), raising=False)
    threads, opened = decoders(), []
    made = Decoder.__init__

    def counted(self, path):
        opened.append(path.name)
        made(self, path)

    monkeypatch.setattr(Decoder, "__init__", counted)
    turns = threading.Barrier(threads)

    def through(path):
        video = video_file(path)
        for number in range(0, len(video), 8):
            turns.wait(60)  # all of them are open at once
            video.frame(number)

    paths = [write(tmp_path / f"{number}.mp4") for number in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(through, paths))
    assert sorted(opened) == sorted(path.name for path in paths)


def test_frames_on_disk_are_read_instead_of_decoded(tmp_path, plain, monkeypatch):
    monkeypatch.setenv("HARNESS_FRAME_CACHE", str(tmp_path / "frames"))
    frame = video_file(plain).frame(11)
    CACHE.clear()
    monkeypatch.setattr("harness.video.decoder.Decoder._decode_frame", None)
    DECODERS.clear()
    np.testing.assert_array_equal(video_file(plain).frame(11), frame)
    assert [path.suffix for path in (tmp_path / "frames").rglob("*.*y")] == [".npy"]


def test_without_the_variable_nothing_is_written(monkeypatch):
    monkeypatch.delenv("HARNESS_FRAME_CACHE", raising=False)
    assert disk_cache() is None


@pytest.mark.parametrize("bound", ["0", "-1", "many", "nan"])
def test_a_bound_that_is_none_is_refused(tmp_path, monkeypatch, bound):
    monkeypatch.setenv("HARNESS_FRAME_CACHE", str(tmp_path))
    monkeypatch.setenv("HARNESS_FRAME_CACHE_GB", bound)
    with pytest.raises(UsageError, match="HARNESS_FRAME_CACHE_GB"):
        disk_cache()


def test_a_damaged_frame_on_disk_counts_as_none(tmp_path):
    disk = DiskCache(tmp_path, 10**6)
    disk.store("ab-0", image(1))
    (path,) = tmp_path.rglob("*.npy")
    for bad in (b"", path.read_bytes()[:90], pickle.dumps("code"), b"\x93NUMPY"):
        path.write_bytes(bad)
        assert disk.get("ab-0") is None
    np.save(path, np.zeros(3))
    assert disk.get("ab-0") is None


def test_the_disk_cache_is_bounded_and_keeps_what_was_used(tmp_path):
    disk = DiskCache(tmp_path, max_bytes=20 * image(0).nbytes)
    for number in range(200):
        disk.store(f"ab-{number}", image(number))
    disk._remove_oldest()
    held = list(tmp_path.rglob("*.npy"))
    assert sum(path.stat().st_size for path in held) <= disk.max_bytes
    assert disk.get("ab-199") is not None and disk.get("ab-0") is None


def test_a_disk_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    disk = DiskCache(tmp_path / "file", 10**6)
    disk.store("ab-0", image(0))
    assert disk.get("ab-0") is None


def test_processes_share_the_disk_cache(tmp_path, plain):
    code = (
        "import sys; from pathlib import Path; from harness.video import video_file\n"
        "frames = video_file(Path(sys.argv[1])).frames()\n"
        "print(sum(int(frame.sum()) for frame in frames))"
    )
    environment = {**os.environ, "HARNESS_FRAME_CACHE": str(tmp_path)}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(plain)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    output = {process.communicate(timeout=60)[0].strip() for process in started}
    assert output == {str(sum(int(frame.sum()) for frame in decoded(plain)))}
    assert len(list(tmp_path.rglob("*.npy"))) == 60 and not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize(
    ("codec", "pixels", "lost"),
    [("ffv1", "yuv420p", 0), ("ffv1", "yuv420p10le", 1), ("ffv1", "bgra", 1), ("ffv1", "gray", 0)],
)
def test_what_a_video_loses_is_counted(tmp_path, codec, pixels, lost):
    path = tmp_path / "film.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=5, options={"strict": "-2"})
        stream.width, stream.height, stream.pix_fmt = 32, 32, pixels
        for _ in range(3):
            frame = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), format="rgb24")
            container.mux(stream.encode(frame.reformat(format=pixels)))
        container.mux(stream.encode())
    video = video_file(path)
    assert len(video.conversions) == lost == len(pickle.loads(pickle.dumps(video)).conversions)


def test_a_stream_of_an_unknown_codec_is_the_files_fault(tmp_path):
    path = write(tmp_path / "a.avi", codec="mpeg4")
    data = path.read_bytes()
    assert data.count(b"FMP4") >= 1
    path.write_bytes(data.replace(b"FMP4", b"ZZ9Z"))
    with pytest.raises(MediaError, match=r"a\.avi.*codec"):
        index_of(path)
