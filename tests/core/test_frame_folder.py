"""Frames of a folder come in the order of their numbers, or are refused."""

from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from harness.cli.twin import media_at
from harness.errors import MediaError
from harness.frame_folder import frames_in, in_order
from harness.tasks.qa.videos import open_video

TEXTS = st.text("ab_-. é", max_size=5)


def ordered(*names):
    return [path.name for path in in_order(map(Path, names), "frames")]


@given(st.sets(st.integers(0, 10**6), min_size=2), TEXTS, TEXTS, st.integers(0, 8), st.randoms())
def test_frames_come_in_the_order_of_their_numbers(numbers, before, after, width, random):
    names = [f"{before}{number:0{width}}{after}.jpg" for number in sorted(numbers)]
    mixed = random.sample(names, len(names))
    assert ordered(*mixed) == names


@pytest.mark.parametrize(
    "names",
    [
        ["00000.jpg", "00005.jpg", "00010.jpg"],  # DAVIS, YouTube-VOS, MeViS
        ["frame_000001.jpg", "frame_000002.jpg"],  # GroundMoRe
        ["0.jpg", "9.jpg", "10.jpg"],  # ScanNet
        ["frame0001.jpg", "frame0031.jpg"],  # TAO
        ["098.png", "099.png", "100.png", "1000.png"],  # %03d beyond 999
        ["shot01_frame009.jpg", "shot01_frame010.jpg", "shot02_frame001.jpg"],
        ["t_9.250.jpg", "t_9.500.jpg", "t_9.750.jpg"],  # seconds
        ["clip7_1.jpg", "clip7_2.jpg", "clip7_10.jpg"],
        ["1.jpg", "2.png", "3.JPG"],
        ["cover.jpg"],  # of one frame there is one order
    ],
)
def test_names_that_have_an_order(names):
    assert ordered(*reversed(names)) == names


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["1.jpg", "1.png"], "one file a number"),
        (["1.jpg", "01.jpg", "2.jpg"], "leading zeros"),
        (["001.jpg", "2.jpg", "003.jpg"], "leading zeros"),
        (["01.jpg", "001.jpg"], "leading zeros"),
        (["0.jpg", "01.jpg", "02.jpg"], "leading zeros"),
        (["a.jpg", "b.jpg"], "differ only in a number"),
        (["frame_1.jpg", "frame_2.jpg", "cover.jpg"], "differ only in a number"),
        (["left_1.jpg", "right_1.jpg"], "differ only in a number"),
        (["frame_1.jpg", "Frame_2.jpg"], "differ only in a number"),
        (["1.jpg", "2_copy.jpg"], "differ only in a number"),
        (["shot1_frame9.jpg", "shot1_frame10.jpg", "shot2_frame1.jpg"], "one number differs"),
        (["9.5.jpg", "9.25.jpg", "10.0.jpg"], "one number differs"),
        (["-1.jpg", "0.jpg", "1.jpg"], "differ only in a number"),
    ],
)
def test_names_without_an_order_are_refused_with_two_of_them(names, reason):
    with pytest.raises(MediaError, match=reason) as refusal:
        ordered(*names)
    assert sum(name in str(refusal.value) for name in names) >= 2


def test_hidden_files_and_others_are_no_frames(tmp_path):
    for name in ("2.jpg", "10.jpg", "._2.jpg", "Thumbs.db", "times.txt"):
        (tmp_path / name).touch()
    assert [path.name for path in frames_in(tmp_path)] == ["2.jpg", "10.jpg"]


def test_a_folder_without_images_is_refused(tmp_path):
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(MediaError, match="found none"):
            frames_in(folder)


def test_a_task_and_the_twin_command_show_the_frames_in_order(tmp_path):
    for number in (1, 2, 9, 10, 11, 100):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / f"frame_{number}.png")
    for video in (open_video(tmp_path, None), media_at(tmp_path)):
        assert [frame[0, 0, 0] for frame in video.frames()] == [1, 2, 9, 10, 11, 100]
    (tmp_path / "cover.png").symlink_to(tmp_path / "frame_1.png")
    for opened in (partial(open_video, choose=None), media_at):
        with pytest.raises(MediaError, match=r"cover\.png and frame_1\.png"):
            opened(tmp_path)
