"""`harness data fetch`: against a hub on this machine, at a commit that is kept."""

import errno
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.card import Card
from harness.cli.main import main
from harness.hub import fetch
from harness.hub.fetch import RECORD_FILE, card_of, fetched_sources

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))

from hub_server import COMMIT, MOVED, VARIABLES, served

TASKS = Path(__file__).resolve().parents[2] / "tasks"
NAME = "longvideobench/LongVideoBench"


SHARED = {
    "FudanCVL/gRefCOCO": {"grefs(unc).json": b"[1]", "instances.json": b"[2]", "README.md": b"#"},
    "Ricky06662/refcoco_val": {"data/test-00000-of-00001.parquet": b"val"},
    "Ricky06662/refcoco_val_all": {"data/test-00000-of-00001.parquet": b"val of all"},
    "yiqingshen/rvtbench": {"rvtbench/a.json": b"{}"},
}
"""What benchmarks that share a folder fetch."""


@pytest.fixture
def hub(monkeypatch):
    """A hub on this machine with LongVideoBench's example, and an environment that points to it."""
    pytest.importorskip("huggingface_hub")
    place = TASKS / "long_video_bench" / "example" / "long_video_bench"
    files = {
        str(path.relative_to(place)): path.read_bytes()
        for path in place.rglob("*")
        if path.is_file()
    }
    with served({NAME: files, **SHARED}) as server:
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield server


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def command(capsys):
    """The command in this process, which is many times faster than one of its own."""

    def run(*arguments):
        code = main([*map(str, arguments)])
        return Done(code, *capsys.readouterr())

    return run


def fetched(command, root, *more):
    return command("data", "fetch", "long_video_bench", "--data", root, "--quiet", *more)


def test_files_are_fetched_at_a_commit_that_is_kept(command, hub, tmp_path):
    done = fetched(command, tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    (one,) = json.loads(done.stdout)["repositories"]
    assert one == {
        "repository": NAME,
        "revision": "main",
        "commit": COMMIT,
        "folder": ".",
        "files": len(hub.state["repositories"][NAME]),
    }
    checked = command("data", "check", "long_video_bench", "--data", tmp_path, "--json")
    (shown,) = json.loads(checked.stdout)
    assert shown["problems"] == [] and shown["fetched"][0]["commit"] == COMMIT
    assert all(token is None for _, _, token in hub.asked)
    resolved = [path for _, path, _ in hub.asked if "/resolve/" in path]
    assert resolved and all(COMMIT in path for path in resolved)


def test_a_second_call_completes_the_same_commit(command, hub, tmp_path):
    assert fetched(command, tmp_path).returncode == 0
    video = next((tmp_path / "long_video_bench").rglob("*.mp4"))
    whole = video.read_bytes()
    video.unlink()
    hub.asked.clear()
    assert fetched(command, tmp_path).returncode == 0
    assert video.read_bytes() == whole
    requested = [path for _, path, _ in hub.asked if path.startswith("/api/datasets/")]
    assert requested and all(COMMIT in path for path in requested)


def test_another_revision_is_not_mixed_in(command, hub, tmp_path):
    assert fetched(command, tmp_path).returncode == 0
    done = fetched(command, tmp_path, "--revision", "other")
    assert done.returncode == 5 and str(tmp_path) in done.stderr
    assert all(named in done.stderr for named in ("revision other", COMMIT, "main"))
    assert fetched(command, tmp_path, "--revision", COMMIT).returncode == 0


def test_a_token_comes_from_the_environment_alone(command, hub, tmp_path, monkeypatch):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "token").write_text("hf_from_the_disk")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    assert fetched(command, tmp_path / "a").returncode == 0
    assert {token for _, path, token in hub.asked if "/datasets/" in path} == {None}
    hub.asked.clear()
    monkeypatch.setenv("HF_TOKEN", "hf_from_the_environment")
    assert fetched(command, tmp_path / "b").returncode == 0
    tokens = {token for _, path, token in hub.asked if path.startswith("/api/datasets/")}
    assert tokens == {"Bearer hf_from_the_environment"}
    assert not any(
        "hf_from" in path.read_text("utf-8", "replace") for path in (tmp_path / "b").rglob("*.json")
    )


@pytest.mark.parametrize(
    ("refuse", "words"),
    [
        ((403, "GatedRepo"), "Accept"),
        ((404, "RepoNotFound"), "HF_TOKEN"),
        ((404, "RevisionNotFound"), "main"),
        ((500, ""), "500"),
    ],
)
def test_what_the_hub_refuses_is_said(command, hub, tmp_path, refuse, words):
    hub.state["refuse"] = refuse
    done = fetched(command, tmp_path)
    assert done.returncode == 3 and words in done.stderr and NAME in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "long_video_bench" / "hub.json").exists()


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline_nothing_is_asked_and_the_way_is_told(
    command, hub, tmp_path, monkeypatch, variable
):
    monkeypatch.setenv(variable, "1")
    done = fetched(command, tmp_path)
    assert done.returncode == 2 and NAME in done.stderr and "lvb_val.json" in done.stderr
    assert hub.asked == []


def test_a_hub_that_is_not_there_is_named(command, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    done = fetched(command, tmp_path)
    assert done.returncode == 3 and "http://127.0.0.1:9" in done.stderr


def test_a_full_disk_is_told_as_one(command, hub, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("huggingface_hub.HfApi.snapshot_download", full)
    done = fetched(command, tmp_path)
    assert done.returncode == 5 and str(tmp_path) in done.stderr and "No space" in done.stderr


def test_a_task_that_is_not_on_the_hub_says_where_it_is(capsys, tmp_path):
    assert main(["data", "fetch", "mevis", "--data", str(tmp_path)]) == 2
    assert "henghuiding/MeViS" in capsys.readouterr().err
    assert main(["data", "fetch", "video_me", "--data", str(tmp_path)]) == 2
    assert " video_mme, " in capsys.readouterr().err


def test_a_branch_that_moved_on_is_not_followed(command, hub, tmp_path):
    assert fetched(command, tmp_path).returncode == 0
    hub.state["commit"] = MOVED
    hub.asked.clear()
    again = fetched(command, tmp_path, "--json")
    assert json.loads(again.stdout)["repositories"][0]["commit"] == COMMIT
    assert not any(MOVED in path for _, path, _ in hub.asked)
    assert fetched(command, tmp_path, "--revision", MOVED).returncode == 5
    other = fetched(command, tmp_path / "other", "--json")
    assert json.loads(other.stdout)["repositories"][0]["commit"] == MOVED


def test_a_download_that_broke_off_is_completed_at_the_commit_of_its_start(command, hub, tmp_path):
    video = next(name for name in hub.state["repositories"][NAME] if name.endswith(".mp4"))
    hub.state["broken"].add(video)
    assert fetched(command, tmp_path).returncode == 3
    place = tmp_path / "long_video_bench"
    (one,) = json.loads((place / "hub.json").read_text())["repositories"]
    assert one["commit"] == COMMIT and one["files"] is None
    done = command("data", "check", "long_video_bench", "--data", tmp_path)
    assert COMMIT in done.stdout and "fetch" in done.stdout
    hub.state["broken"].clear()
    hub.state["commit"] = MOVED
    assert fetched(command, tmp_path).returncode == 0
    (one,) = json.loads((place / "hub.json").read_text())["repositories"]
    assert one["commit"] == COMMIT and one["files"] == len(hub.state["repositories"][NAME])


def test_a_card_that_names_another_revision_is_told_and_not_followed(
    hub, tmp_path, monkeypatch, capsys
):
    arguments = ["data", "fetch", "long_video_bench", "--data", str(tmp_path), "--quiet"]
    card = card_of("long_video_bench")
    place = tmp_path / "long_video_bench"
    place.mkdir()
    record = {"repository": NAME, "revision": "main", "commit": COMMIT, "folder": ".", "files": 3}
    (place / "hub.json").write_text(json.dumps({"version": 1, "repositories": [record]}))
    newer = replace(card, hub={"repository": NAME, "revision": MOVED})
    monkeypatch.setattr("harness.cli.data.card_of", lambda _: newer)
    monkeypatch.setattr(fetch, "_download", lambda source, folder, known, quiet: known)
    assert main(arguments) == 0
    output = capsys.readouterr()
    assert COMMIT in output.err and MOVED in output.err


# Benchmarks that share a folder


def brought(command, task, root, *more):
    return command("data", "fetch", task, "--data", root, "--quiet", *more)


def test_files_of_a_family_go_to_its_folder_and_share_its_record(command, hub, tmp_path):
    assert brought(command, "grefcoco", tmp_path).returncode == 0
    done = brought(
        command, "refcoco", tmp_path, "--only", "refcoco_val", "--only", "refcoco_val_all"
    )
    assert done.returncode == 0, done.stderr
    root = tmp_path / "refer_seg"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["refer_seg"]
    assert (root / "grefcoco" / "grefs(unc).json").read_bytes() == b"[1]"
    assert not (root / "grefcoco" / "README.md").exists(), "not among the card's files"
    for name, data in (("refcoco_val", b"val"), ("refcoco_val_all", b"val of all")):
        assert (root / name / "data" / "test-00000-of-00001.parquet").read_bytes() == data
    kept = json.loads((root / "hub.json").read_text())["repositories"]
    assert {one["repository"]: (one["folder"], one["files"]) for one in kept} == {
        "FudanCVL/gRefCOCO": ("grefcoco", 2),
        "Ricky06662/refcoco_val": ("refcoco_val", 1),
        "Ricky06662/refcoco_val_all": ("refcoco_val_all", 1),
    }
    assert str(root / "refcoco_val") in done.stdout


def test_the_record_of_another_benchmark_in_the_folder_is_left_alone(command, hub, tmp_path):
    assert brought(command, "grefcoco", tmp_path).returncode == 0
    other = brought(command, "refcoco", tmp_path, "--only", "refcoco_val", "--revision", MOVED)
    assert other.returncode == 0, other.stderr
    kept = json.loads((tmp_path / "refer_seg" / "hub.json").read_text())["repositories"]
    assert [one["commit"] for one in kept] == [COMMIT, MOVED]


def test_four_tasks_of_one_repository_fetch_it_once(command, hub, tmp_path):
    assert brought(command, "rvtbench_seg", tmp_path).returncode == 0
    hub.state["commit"] = MOVED
    done = brought(command, "rvtbench_vqa", tmp_path, "--json")
    (one,) = json.loads(done.stdout)["repositories"]
    assert one["commit"] == COMMIT and one["folder"] == "."
    assert (tmp_path / "rvtbench" / "rvtbench" / "a.json").is_file()
    assert len(json.loads((tmp_path / "rvtbench" / "hub.json").read_text())["repositories"]) == 1


def test_the_check_tells_only_what_was_fetched_for_the_task(tmp_path):
    place = tmp_path / "own" / "refer_seg"
    place.mkdir(parents=True)
    entries = [
        {"repository": name, "revision": "main", "commit": COMMIT, "folder": "x", "files": 1}
        for name in ("FudanCVL/gRefCOCO", "Ricky06662/refcoco_val")
    ]
    (place / RECORD_FILE).write_text(json.dumps({"version": 1, "repositories": entries}))
    for task, name in (("grefcoco", "FudanCVL/gRefCOCO"), ("refcoco", "Ricky06662/refcoco_val")):
        assert [one["repository"] for one in fetched_sources(tmp_path / "own", card_of(task))] == [
            name
        ]
    assert fetched_sources(tmp_path / "own", card_of("refcocog")) == []


def test_a_folder_that_the_card_does_not_name_is_refused(capsys, tmp_path):
    line = ["data", "fetch", "refcoco", "--data", str(tmp_path), "--only", "refcoco_testB"]
    assert main(line) == 2
    assert "refcoco_testA_all" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[]", '{"repositories": 3}', '{"repositories": [{}]}', "{"])
def test_a_damaged_record_is_refused_by_name(capsys, tmp_path, text):
    (tmp_path / "rvtbench").mkdir()
    (tmp_path / "rvtbench" / "hub.json").write_text(text)
    assert main(["data", "fetch", "rvtbench_seg", "--data", str(tmp_path)]) == 5
    assert "hub.json" in capsys.readouterr().err


def test_hubs_in_cards_are_whole():
    for path in sorted(TASKS.glob("*/card.toml")):
        hub = Card.read(path).hub
        if hub is not None:
            assert set(hub) <= {"repository", "repositories", "revision", "files"}, path
            named = [*hub.get("repositories", {}).values(), *filter(None, [hub.get("repository")])]
            assert named and all(name.count("/") == 1 for name in named), path
            places = list(hub.get("repositories", {}))
            assert len(set(places)) == len(places) and len(set(named)) == len(named), path
            for place in places:
                assert not place.startswith("/") and ".." not in place, path


def test_every_card_says_where_its_data_is_had():
    without = {
        "blink",
        "charades_sta",
        "embspatial",
        "jitbench",
        "llm_seg40k",
        "mevis",
        "mindcube",
        "mmsi_bench",
        "mvbench",
        "perception_test",
        "pointbench",
        "reason_vos",
        "ref_davis17",
        "ref_sav",
        "ref_youtube_vos",
        "revos",
        "revsi",
        "robospatial",
        "shapes_qa",
        "shapes_referring",
        "site_bench",
        "three_dsr_bench",
        "view_spatial",
    }
    cards = {card.name: card for card in map(Card.read, TASKS.glob("*/card.toml"))}
    assert {name for name, card in cards.items() if card.hub is None} == without
    assert all(f"ROOT/{card.folder}" in card.data or "ROOT" in card.data for card in cards.values())
    shared = {card.folder for card in cards.values() if card.folder != card.name}
    assert shared == {"refer_seg", "rvtbench"}
