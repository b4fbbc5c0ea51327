"""Ref-YouTube-VOS: splits, the server's archive, and damaged files."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness import plugins
from harness.errors import DataError
from harness.run.evaluate import evaluate
from harness.run.options import Options
from harness.tasks.ref_youtube_vos.splits import N_VALID, choose_videos, held_out
from harness.tasks.rvos.png_tree import png_tree
from harness.tasks.rvos.writing import palette_png

from .video_task_files import change, cut


def test_the_rule_of_the_split_depends_on_names_alone_and_takes_one_in_ten():
    names = [f"{number:010x}" for number in range(20_000)]
    share = np.mean([held_out(name) for name in names])
    assert 0.09 < share < 0.115
    videos = dict.fromkeys(names[:500])
    fit, dev = (choose_videos(split, videos, {}, "x") for split in ("train_fit", "train_dev"))
    assert not set(fit) & set(dev) and set(fit) | set(dev) == set(videos)
    assert list(fit) == [name for name in videos if name in fit], "in the order of the file"
    assert choose_videos("train", videos, {}, "x") == videos


@pytest.mark.parametrize(
    ("listed", "tested", "right"),
    [
        (507, 305, True),
        (507, 304, False),
        (507, 0, False),
        (N_VALID, 0, True),
        (300, 0, False),
        (N_VALID - 1, 0, False),
        (9, 4, False),
        (3, 0, False),
    ],
)
def test_valid_of_the_organisers_has_202_videos_or_is_refused(listed, tested, right):
    names = [f"v{number}" for number in range(listed)]
    videos, test = dict.fromkeys(names), dict.fromkeys(names[:tested])
    if right:
        assert len(choose_videos("valid", videos, test, "x")) == listed - tested
    else:
        with pytest.raises(DataError, match=rf"202 .*found {listed - tested} of {listed}\b"):
            choose_videos("valid", videos, test, "x")
        kept = choose_videos("valid", videos, test, "x", generated=True)
        assert len(kept) == listed - tested, "a generated world has as many as were asked for"


def test_the_zip_of_valid_is_in_the_layout_of_the_server(build, shapes, tmp_path):
    task = build("ref_youtube_vos(split=valid)", shapes)
    model = plugins.build("models", "whole_frame")
    done = evaluate(task, model, tmp_path / "run", Options())
    assert set(done.results["metrics"].values()) == {None}
    shutil.unpack_archive(done.folder / "submission.zip", tmp_path / "said")
    plain = json.loads(
        (shapes / "ref_youtube_vos/meta_expressions/valid/meta_expressions.json").read_text()
    )["videos"]
    test = json.loads(
        (shapes / "ref_youtube_vos/meta_expressions/test/meta_expressions.json").read_text()
    )["videos"]
    assert test and set(test) < set(plain), "the file of valid has the videos of test as well"
    expected = {
        f"Annotations/{video}/{number}/{frame}.png"
        for video, entry in plain.items()
        if video not in test
        for number in entry["expressions"]
        for frame in entry["frames"]
    }
    files = {
        str(path.relative_to(tmp_path / "said")) for path in (tmp_path / "said").rglob("*.png")
    }
    assert files == expected
    for output in png_tree(tmp_path / "said", task.samples()):
        assert all(mask.area == mask.width * mask.height for mask in output.answer.masks)


YTVOS = "meta_expressions/train/meta_expressions.json"


def dev_video(root: Path) -> str:
    plain = json.loads((root / YTVOS).read_text())["videos"]
    return next(name for name in plain if held_out(name))


def dev_expression(**changes):
    def edit(plain):
        entry = next(video for name, video in plain["videos"].items() if held_out(name))
        output = entry["expressions"]["0"]
        output.update(changes)
        for key, value in changes.items():
            if value is None:
                del output[key]

    return edit


def labels_of(root: Path) -> list[Path]:
    return sorted((root / "train" / "Annotations" / dev_video(root)).glob("*.png"))


def strange(root: Path) -> None:
    size = Image.open(labels_of(root)[1]).size[::-1]
    labels_of(root)[1].write_bytes(palette_png(np.full(size, 77, np.uint8)))


def other_size(root: Path) -> None:
    labels_of(root)[0].write_bytes(palette_png(np.zeros((9, 9), np.uint8)))


def halved(root: Path) -> None:
    path = labels_of(root)[2]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda root: labels_of(root)[3].unlink(), r"00006\.png: .*none"),
        (halved, r"annotation .*00004\.png.*complete PNG"),
        (other_size, r"annotation .*00000\.png.*found 9 × 9"),
        (strange, r"00002\.png: .*1, 2, 3, 4.*77"),
        (lambda root: cut(root / YTVOS), "complete JSON"),
        (lambda root: cut(root / "train" / "meta.json"), r"meta\.json.*complete JSON"),
        (
            lambda root: change(root / "train/meta.json", lambda plain: plain["videos"].clear()),
            r"meta\.json, video",
        ),
        (
            lambda root: change(root / YTVOS, dev_expression(obj_id=None)),
            "expression '0': 'obj_id'",
        ),
        (
            lambda root: change(root / YTVOS, dev_expression(obj_id="99")),
            "'obj_id': .*1, 2, 3, 4.*'99'",
        ),
        (lambda root: change(root / YTVOS, dev_expression(exp=None)), "expression '0': 'exp'"),
    ],
)
def test_a_damaged_file_of_ref_youtube_vos_is_refused_by_name(build, copied, damage, message):
    data = copied("ref_youtube_vos")
    damage(data / "ref_youtube_vos")
    with pytest.raises(DataError, match=message):
        list(build("ref_youtube_vos", data).samples())
    try:
        problems = list(build("ref_youtube_vos", data).check())
    except DataError:
        return
    assert problems


def test_the_check_of_ref_youtube_vos_names_an_object_that_no_frame_shows(build, copied):
    data = copied("ref_youtube_vos")
    root = data / "ref_youtube_vos"
    size = Image.open(labels_of(root)[0]).size[::-1]
    for path in labels_of(root):
        path.write_bytes(palette_png(np.zeros(size, np.uint8)))
    problems = list(build("ref_youtube_vos", data).check())
    assert problems and all("object" in one.message for one in problems)
    images = root / "train" / "JPEGImages" / dev_video(root)
    gone = sorted(images.glob("*.jpg"))[1]
    gone.unlink()
    assert str(gone) in [one.path for one in build("ref_youtube_vos", data).check()]
