"""`harness data check | info`, and named subsets; `fetch` is in test_fetch.py."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from PIL import Image

from harness.card import Card
from harness.cli.main import main
from harness.errors import DataError
from harness.media import open_image
from harness.run.duplicates import same_media
from harness.types import AnswerForm, Query, Sample, query_id

TASKS = Path(__file__).resolve().parents[2] / "tasks"


def test_problems_come_with_the_way_to_the_data(capsys, tmp_path):
    shutil.copytree(TASKS / "video_mme" / "example", tmp_path, dirs_exist_ok=True)
    for path in tmp_path.rglob("*.mp4"):
        path.unlink()
    assert main(["data", "check", "video_mme", "--data", str(tmp_path)]) == 1
    output = capsys.readouterr().out
    assert "1 problem\n" in output and "lmms-lab/Video-MME" in output


def checked(capsys, root, *more, code=0):
    assert main(["data", "check", "--data", str(root), *more]) == code
    return capsys.readouterr().out


def test_the_published_numbers_are_told_where_they_differ(capsys):
    output = checked(capsys, TASKS / "video_mme" / "example", "video_mme")
    assert "3 samples (published: 2700), fingerprint" in output
    assert "difference: 3 of 2700 samples, 1 of 900 videos\n" in output and "error" not in output
    assert "lmms-lab" not in output


def test_strict_makes_another_number_than_the_published_one_an_error(capsys):
    root = TASKS / "video_mme" / "example"
    output = checked(capsys, root, "video_mme", "--strict", code=1)
    assert "error: 3 of 2700 samples, 1 of 900 videos\n" in output
    assert "lmms-lab/Video-MME" in output
    (line,) = json.loads(checked(capsys, root, "video_mme", "--strict", "--json", code=1))
    assert line["differences"] == [
        {"what": "samples", "found": 3, "published": 2700},
        {"what": "videos", "found": 1, "published": 900},
    ]
    assert line["problems"] == [] and not line["generated"] and len(line["fingerprint"]) == 32


def test_a_generated_world_is_named_as_one(capsys, shapes):
    output = checked(capsys, shapes, "mevis")
    assert "8 samples (published: 793)" in output and "generated" in output


def test_published_numbers_that_are_met_are_no_difference(capsys, monkeypatch):
    card = Card.read(TASKS / "video_mme" / "card.toml")
    met = {"splits": {"test": 3}, "videos": {"test": 1}}
    monkeypatch.setattr(Card, "published_counts", lambda *_: (met["splits"]["test"], 1))
    root = TASKS / "video_mme" / "example"
    assert "3 samples, as published, fingerprint" in checked(capsys, root, "video_mme", "--strict")
    assert card.splits["test"] == 2700
    monkeypatch.setattr(Card, "published_counts", lambda *_: (0, 0))
    assert "3 samples, fingerprint" in checked(capsys, root, "video_mme", "--strict")


@pytest.mark.parametrize(
    ("name", "split", "arguments", "published"),
    [
        ("refcoco", "val", {"protocol": "res/expression", "layout": "refer"}, (10834, 0)),
        ("refcoco", "val", {"protocol": "rec/instance", "split_by": "unc"}, (3811, 0)),
        ("refcoco", "testA", {"protocol": "res/instance", "layout": "visionreasoner"}, (1975, 0)),
        ("refcoco", "val", {"protocol": "res/instance", "split_by": "google"}, (5000, 0)),
        ("refcoco", "val", {"protocol": "res/expression", "split_by": "google"}, (0, 0)),
        ("refcoco", "val", {"protocol": "rec/expression", "layout": "lmms"}, (0, 0)),
        ("video_mme", "test", {"duration": "all"}, (2700, 900)),
        ("video_mme", "test", {"duration": "long"}, (900, 300)),
        ("vsi_bench", "full", {"form": "mixed"}, (5130, 288)),
        ("vsi_bench", "full", {"form": "numeric"}, (0, 0)),
        ("mevis", "valid_u", {}, (793, 50)),
        ("ref_youtube_vos", "valid", {}, (0, 202)),
        ("tempcompass", "all", {}, (7540, 410)),
    ],
)
def test_published_numbers_are_those_of_what_is_asked(name, split, arguments, published):
    card = Card.read(TASKS / name / "card.toml")
    assert card.published_counts(split, arguments) == published


def test_every_table_of_numbers_is_of_arguments_splits_and_videos_that_exist():
    import inspect
    from importlib import import_module

    for path in sorted(TASKS.glob("*/card.toml")):
        card = Card.read(path)
        function = getattr(import_module(f"harness.tasks.{card.name}.task"), card.name)
        assert set(card.videos) <= set(card.splits), path
        for table in card.counts:
            assert set(table) <= {"when", "splits", "videos"} and table["when"], path
            assert set(table["when"]) <= set(inspect.signature(function).parameters), path
            assert {*table.get("splits", {}), *table.get("videos", {})} <= set(card.splits), path


def test_data_that_is_not_there_is_told_with_the_way_to_it(tmp_path):
    from argparse import Namespace

    from harness.cli.data import check

    given = Namespace(data=tmp_path, task="ref_davis17", tasks=None, json=False, strict=False)
    with pytest.raises(DataError, match=r"/ref_davis17/valid: .*DAVIS-2017-Unsupervised"):
        check(given)


def test_tasks_are_listed_with_forms_headline_protocol_and_count(command):
    lines = command("list", "tasks").stdout.splitlines()
    rows = {line.split()[0]: line for line in lines[1:] if line and line[0] != "?"}
    cards = {card.name: card for card in map(Card.read, TASKS.glob("*/card.toml"))}
    assert set(cards) <= set(rows) and len(cards) >= 26
    for name, card in cards.items():
        count = card.splits[card.default_split]
        videos = card.videos.get(card.default_split)
        shown = str(count or (f"? in {videos} videos" if videos else "?"))
        for word in (
            ", ".join(card.forms),
            card.headline,
            card.protocol,
            card.default_split,
            shown,
        ):
            assert re.search(rf"[ (]{re.escape(word)}[ ;)]", rows[name]), (name, word)
    assert "? in 30 videos" in rows["ref_davis17"]
    assert any(line.startswith("?: not published") for line in lines)


def test_images_of_one_content_under_two_names_are_told(tmp_path):
    import numpy as np
    from PIL import Image

    samples = []
    for name, shade in (("a", 1), ("b", 1), ("c", 2), ("d", 1)):
        path = tmp_path / f"{name}.png"
        Image.fromarray(np.full((5, 5, 3), shade, np.uint8)).save(path)
        query = Query(
            id=query_id(name), text="?", media=(open_image(path),), forms=(AnswerForm.MASK,)
        )
        samples.append(Sample(id=name, query=query, target=None))
    assert same_media(samples) == [["a", "b", "d"]]
    assert same_media([*samples[:1] * 3, samples[2]]) == []


def test_a_copy_of_a_sample_beside_it_is_told_and_another_question_is_not(capsys, shapes, tmp_path):
    shutil.copytree(shapes / "reason_seg", tmp_path / "reason_seg")
    folder = tmp_path / "reason_seg" / "ReasonSeg" / "val"
    first = min(folder.glob("*.json"))
    for end in (".jpg", ".json"):
        shutil.copy(first.with_suffix(end), folder / f"{first.stem} copy{end}")
        shutil.copy(first.with_suffix(end), folder / f"{first.stem} (1){end}")
    other = folder / f"{first.stem} (1).json"
    plain = json.loads(other.read_text())
    other.write_text(json.dumps(plain | {"text": ["something else"]}))
    arguments = ["data", "check", "reason_seg", "--data", str(tmp_path), "--json"]
    assert main(arguments) == 0
    (line,) = json.loads(capsys.readouterr().out)
    assert line["duplicates"] == [[first.stem, f"{first.stem} copy"]]


def test_the_end_of_images_is_looked_at_and_labelmes_other_shapes_are_told(
    capsys, shapes, tmp_path
):
    shutil.copytree(shapes / "reason_seg", tmp_path / "reason_seg")
    folder = tmp_path / "reason_seg" / "ReasonSeg" / "val"
    image, other = sorted(folder.glob("*.jpg"))[:2]
    arguments = ["data", "check", "reason_seg", "--data", str(tmp_path)]
    whole = image.read_bytes()
    image.write_bytes(whole[: len(whole) // 2] + bytes(len(whole) - len(whole) // 2))
    for more in ([], ["--decode", "all"]):
        assert main([*arguments, *more]) == 1
        assert f"{image.name}: expected a complete image" in capsys.readouterr().out
    image.write_bytes(whole)
    annotation = other.with_suffix(".json")
    plain = json.loads(annotation.read_text())
    plain["shapes"][0] |= {"shape_type": "rectangle", "points": [[5, 5], [40, 40]]}
    annotation.write_text(json.dumps(plain))
    assert main(arguments) == 1
    assert f"{annotation.name}: shape 0 is a rectangle" in capsys.readouterr().out


def test_info_tells_sizes_licence_categories_and_an_example(capsys):
    for task in ("video_mme", "tempcompass", "long_video_bench"):
        root = TASKS / task / "example"
        assert main(["data", "info", task, "--data", str(root), "--json"]) == 0
        (one,) = json.loads(capsys.readouterr().out)
        assert one["samples"] == 3 and one["bytes"] > 1000 and one["licence"] and one["splits"]
        assert (
            one["categories"] and one["answers"] and one["example"]["ground_truth"] and one["hub"]
        )


def test_info_tells_what_papers_count_of_a_benchmark(capsys):
    root = TASKS / "reason_seg" / "example"
    assert main(["data", "info", "reason_seg", "--data", str(root), "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert one["counts in papers"] == [
        f"VR-TTRL, Table 1: 200 of {split}" for split in ("val", "test")
    ]


# Named subsets


def evaluated(root, out, subset, capsys, task="reason_seg"):
    code = main(
        [
            "eval",
            "--model",
            "whole_frame",
            "--tasks",
            task,
            "--data",
            str(root),
            "--out",
            str(out),
            "--subset",
            subset,
            "--quiet",
            "--json",
        ]
    )
    output = capsys.readouterr()
    assert code == 0, output.err
    (path,) = out.rglob("manifest.json")
    return json.loads(path.read_text())


@pytest.mark.parametrize("subset", ["first2", "seed0-2", "file"])
def test_the_record_names_the_subset_and_hashes_its_ids(capsys, tmp_path, shapes, subset):
    chosen = subset
    if subset == "file":
        chosen = str(tmp_path / "ids.txt")
        ids = sorted(path.stem for path in (shapes / "reason_seg").glob("ReasonSeg/val/*.json"))
        Path(chosen).write_text("\n".join(ids[:2]))
    manifest = evaluated(shapes, tmp_path / "runs", chosen, capsys)
    named = "ids-" if subset == "file" else subset
    assert manifest["subset"].startswith(named) and manifest["data"]["n_total"] == 2
    assert len(manifest["data"]["ids"]) == 32


def test_equal_ids_have_equal_hashes_whatever_the_subset_is_called(capsys, tmp_path, shapes):
    first = evaluated(shapes, tmp_path / "a", "first2", capsys)
    again = evaluated(shapes, tmp_path / "b", "first2", capsys)
    drawn = evaluated(shapes, tmp_path / "c", "seed0-3", capsys)
    listed = tmp_path / "ids.txt"
    places = sorted((shapes / "reason_seg").glob("ReasonSeg/val/*.json"))
    listed.write_text("\n".join(path.stem for path in places[1::-1]))
    named = evaluated(shapes, tmp_path / "d", str(listed), capsys)
    assert named["data"]["ids"] == first["data"]["ids"] and named["subset"] != first["subset"]
    assert first["data"]["ids"] == again["data"]["ids"] != drawn["data"]["ids"]


def test_a_table_is_named_as_it_is_typed_and_equal_lines_are_one(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"image": "a.png", "question": f"{place}?", "answer": place} for place in range(9)]
    table = tmp_path / "mine.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["data", "init", "mine.jsonl"]) == 0
    _, first, then = capsys.readouterr().out.splitlines()[-3:]
    assert first.startswith("next: edit ") and "mine.toml" in first
    assert then.strip() == 'harness data check "table(file=mine.jsonl)"'
    for row in rows[:-1]:
        del row["answer"]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["data", "check", "table(file=mine.jsonl)"]) == 1
    shown = capsys.readouterr().out
    assert "9 problems" in shown and shown.count("found no answer") == 1
    assert "7 lines like it" in shown
    command = ["eval", "--model", "random", "--out", "runs", "--tasks"]
    assert main([*command, "table(file=mine.jsonl)"]) == 3
    assert "harness data check 'table(file=mine.jsonl)'" in capsys.readouterr().err
    assert main([*command, "mine.jsonl"]) == 2
    assert '"table(file=mine.jsonl)"' in capsys.readouterr().err


def test_a_drafted_name_is_one_that_the_check_takes(tmp_path, capsys):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    table = tmp_path / "4-count.jsonl"
    table.write_text(json.dumps({"image": "a.png", "question": "How many?", "count": 4}))
    assert main(["data", "init", str(table)]) == 0
    assert main(["data", "check", f"table(file={table})"]) == 0
    assert "table_4_count" in capsys.readouterr().out


def test_a_split_that_is_not_there_is_answered_with_those_that_are(tmp_path, capsys):
    command = ["data", "make", "shapes", "--out", str(tmp_path), "--size", "2", "--tasks", "mevis"]
    assert main(command) == 0
    shutil.rmtree(tmp_path / "mevis" / "valid_u")
    assert main(["data", "check", "mevis", "--data", str(tmp_path)]) == 3
    assert "there: mevis(split=train), mevis(split=valid)." in capsys.readouterr().err
    assert main(["data", "check", "mevis(split=train)", "--data", str(tmp_path)]) == 0


def test_a_benchmark_is_added_to_a_world_by_the_command_that_its_absence_names(command):
    world = ("data", "make", "shapes", "--out", "world", "--size", "1", "--seed", "4")
    command.json(*world, "--tasks", "counting")
    lacking = command("data", "info", "reason_seg", "--data", "world")
    (line,) = re.findall(r"harness (data make shapes .+)", lacking.stderr)
    assert lacking.returncode == 3 and command(*shlex.split(line)).returncode == 0
    assert command("data", "info", "reason_seg", "--data", "world").returncode == 0
    other = command(*world[:-1], "5", "--tasks", "mevis")
    assert other.returncode == 2 and "--seed 4 --size 1" in other.stderr
