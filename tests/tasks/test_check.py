"""What `harness data check`, `data info` and `verify` say of a benchmark's files, and subsets."""

import json
import shutil
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.dataset_facts import check_task
from harness.media import open_image
from harness.run.batching import shortage
from harness.run.duplicates import same_media
from harness.run.preflight import undecodable
from harness.types import AnswerForm, Query, Sample, query_id

TASKS = Path(__file__).resolve().parents[2] / "tasks"


@pytest.fixture
def copied(example, tmp_path):
    def made(name):
        shutil.copytree(example(name), tmp_path, dirs_exist_ok=True)
        return tmp_path

    return made


def spoiled(path):
    """A video whose tables are whole and whose images are not."""
    raw = bytearray(path.read_bytes())
    start = raw.index(b"mdat") + 4
    size = int.from_bytes(raw[start - 8 : start - 4], "big")
    raw[start : start - 8 + size] = b"\0" * (size - 8)
    path.write_bytes(bytes(raw))


def test_first_and_last_frames_of_videos_are_decoded(build, copied, monkeypatch):
    task = build("vsi_bench", copied("vsi_bench"))
    requested = []
    frame = type(next(iter(task.samples())).query.media[0]).frame

    def counted(self, index):
        requested.append(index)
        return frame(self, index)

    monkeypatch.setattr("harness.video.media.VideoFile.frame", counted)
    videos = {one.group: len(one.query.media[0]) for one in task.samples()}
    assert list(undecodable(task)) == []
    assert sorted(requested) == sorted(
        [0, *(length - 1 for length in videos.values())] + [0] * (len(videos) - 1)
    )
    requested.clear()
    assert list(undecodable(task, every=True)) == [] and len(requested) == sum(videos.values())


def test_a_video_that_cannot_be_decoded_is_a_problem(capsys, copied):
    root = copied("video_mme")
    spoiled(next(root.rglob("*.mp4")))
    command = ["data", "check", "video_mme", "--data", str(root)]
    assert main([*command, "--decode", "none"]) in (0, 1)
    capsys.readouterr()
    assert main(command) == 1
    output = capsys.readouterr().out
    assert "1 problem\n" in output and "mp4" in output


def test_a_problem_names_its_file_once(capsys, copied):
    root = copied("mevis")
    (path,) = root.rglob("mask_dict.json")
    path.write_bytes(path.read_bytes()[:-9])
    assert main(["data", "check", "mevis", "--data", str(root)]) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if str(path) in line]
    assert line.count(str(path)) == 1
    assert (
        main(
            [
                "eval",
                "--model",
                "whole_frame",
                "--tasks",
                "mevis",
                "--data",
                str(root),
                "--out",
                str(root / "runs"),
            ]
        )
        == 3
    )
    assert capsys.readouterr().err.count(str(path)) == 1


def test_masks_that_do_not_fit_are_a_problem_of_their_own_file(build, copied):
    root = copied("mevis")
    (path,) = root.rglob("mask_dict.json")
    masks = json.loads(path.read_text("utf-8"))
    next(iter(masks.values())).pop()
    path.write_text(json.dumps(masks), encoding="utf-8")
    assert {problem.path for problem in build("mevis", root).check()} == {str(path)}


def test_subtitles_that_cannot_be_read_are_named_by_their_own_file(build, copied):
    root = copied("video_mme")
    (path,) = root.rglob("*.srt")
    path.write_text("1\nno times\nx\n")
    assert list(build("video_mme", root).check()) == [], "none are asked for"
    (problem,) = build("video_mme(subtitles=all)", root).check()
    assert problem.path == str(path) and "part 1" in problem.message


def test_missing_subtitles_of_all_videos_are_a_problem_and_of_one_are_none(build, copied):
    root = copied("video_mme")
    (path,) = root.rglob("*.srt")
    path.unlink()
    assert list(build("video_mme(subtitles=all)", root).check()) == []
    path.parent.rmdir()
    (problem,) = build("video_mme(subtitles=all)", root).check()
    assert problem.path == str(path.parent)


def test_subtitles_of_long_video_bench_are_named_by_their_own_file(build, copied):
    root = copied("long_video_bench")
    paths = sorted(root.rglob("subtitles/val*.json"))
    for path in paths:
        path.write_text("{")
    problems = list(build("long_video_bench(subtitles=all)", root).check())
    assert {one.path for one in problems} <= set(map(str, paths)) and problems


@pytest.mark.parametrize("name", sorted(path.parent.name for path in TASKS.glob("*/example")))
def test_every_example_can_be_checked(name, build, example):
    report = check_task(name, build(name, example(name)), example(name), "none")
    assert report["problems"] == [] and report["samples"] > 0


def test_equal_media_are_found_in_every_place(example):
    image = sorted((TASKS / "reason_seg" / "example").rglob("*.jpg"))[0]

    def sample(name, *paths):
        media = tuple(map(open_image, paths))
        query = Query(id=query_id(name), text="?", media=media, forms=(AnswerForm.MASK,))
        return Sample(id=name, query=query, target=None, group=name)

    other = sorted((TASKS / "reason_seg" / "example").rglob("*.jpg"))[1]
    found = same_media([sample("a", image, other), sample("b", other)])
    assert found == [["a, medium 2", "b"]]
    assert same_media([sample("a", image, image)]) == [["a", "a, medium 2"]]
    assert same_media([sample("a", image, other)]) == []


def test_numbers_that_nobody_has_published_are_unknown(capsys, shapes):
    assert main(["data", "info", "counting", "--data", str(shapes)]) == 0
    (line,) = [one for one in capsys.readouterr().out.splitlines() if one.startswith("splits:")]
    assert "countbench_visionreasoner unknown" in line and "pixmo_val 540" in line
    assert " 0" not in line


@pytest.mark.parametrize("command", [["data", "check"], ["verify", "--tasks"]])
def test_a_missing_root_or_folder_says_how_the_data_is_had(capsys, tmp_path, command):
    for root, code in ((tmp_path / "none", 2), (tmp_path, 3)):
        assert main([*command, "sti_bench", "--data", str(root)]) == code
        output = capsys.readouterr().err
        assert output.count("Source: MINT-SJTU/STI-Bench") == 1, output


def test_verify_takes_all_tasks_that_are_there_and_names_the_others(capsys, copied):
    root = copied("counting")
    assert main(["verify", "--tasks", "all", "--data", str(root), "--model", "none", "--json"]) == 0
    output = capsys.readouterr()
    assert [one["name"] for one in json.loads(output.out)["verdicts"]] == ["counting"]
    assert str(root) in output.err and "video_mme" in output.err and "reason_seg" in output.err
    empty = root / "empty"
    empty.mkdir()
    assert main(["verify", "--tasks", "all", "--data", str(empty)]) == 2
    assert str(empty) in capsys.readouterr().err


def test_a_subset_that_is_larger_than_the_set_says_so(capsys, copied, tmp_path):
    root, out = copied("counting"), tmp_path / "runs"
    assert main(
        [
            "eval",
            "--model",
            "random",
            "--tasks",
            "counting",
            "--data",
            str(root),
            "--out",
            str(out),
            "--subset",
            "first200",
        ]
    ) in (0, 1)
    shown = "".join(capsys.readouterr())
    assert all(word in shown for word in ("3 samples", "200", "first200"))
    (manifest,) = out.rglob("manifest.json")
    info = json.loads(manifest.read_text())["subset_short"]
    assert info == shortage("first200", 3)
    assert shortage("first3", 3) is shortage("ids-0a", 1) is shortage("seed1-2", 2) is None
