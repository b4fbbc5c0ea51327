"""`harness data fetch | check | info`, and named subsets."""

import hashlib
import json
import shutil
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from harness.card import Card
from harness.cli.data import duplicates
from harness.cli.main import main
from harness.media import image
from harness.types import AnswerForm, Query, Sample, query_id

TASKS = Path(__file__).resolve().parents[2] / "tasks"
COMMIT = "c0ffee" + "0" * 34
NAME = "longvideobench/LongVideoBench"


class Hub(BaseHTTPRequestHandler):
    """As much of the Hugging Face hub as a dataset's download asks for."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        return

    def do_GET(self):
        self.server.asked.append((self.command, self.path, self.headers.get("authorization")))
        path = self.path.partition("?")[0]
        state = self.server.state
        if path.startswith("/api/datasets/") and state["refuse"]:
            code, name = state["refuse"]
            return self.say(code, b"{}", {"X-Error-Code": name})
        if "/tree/" in path:
            rows = [{"type": "file", "path": name, "size": len(data), "oid": tag(data)}
                    for name, data in state["files"].items()]  # fmt: skip
            return self.say(200, json.dumps(rows).encode())
        if path.startswith("/api/datasets/"):
            siblings = [{"rfilename": name} for name in state["files"]]
            told = {"id": NAME, "sha": state["commit"], "siblings": siblings}
            return self.say(200, json.dumps(told).encode())
        name = path.partition("/resolve/")[2].partition("/")[2]
        if name not in state["files"]:
            return self.say(404, b"{}")
        data = state["files"][name]
        head = {"ETag": f'"{tag(data)}"', "X-Repo-Commit": state["commit"]}
        return self.say(200, data, head)

    do_HEAD = do_GET  # noqa: N815 - as the base class calls it

    def say(self, code, body, head=None):
        self.send_response(code)
        for key, value in {"Content-Type": "application/json", **(head or {})}.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def tag(data):
    return hashlib.sha1(data).hexdigest()


@contextmanager
def served(files):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.asked, server.state = [], {"files": files, "commit": COMMIT, "refuse": None}
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def hub(monkeypatch):
    """A hub on this machine with LongVideoBench's example, and an environment that points to it."""
    pytest.importorskip("huggingface_hub")
    place = TASKS / "long_video_bench" / "example" / "long_video_bench"
    files = {str(path.relative_to(place)): path.read_bytes()
             for path in place.rglob("*") if path.is_file()}  # fmt: skip
    with served(files) as server:
        for name in ("HF_HUB_OFFLINE", "HF_TOKEN", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield server


def fetched(command, root, *more, code=0):
    return command("data", "fetch", "long_video_bench", "--data", root, "--quiet", *more)


def test_files_are_fetched_at_a_commit_that_is_kept(command, hub, tmp_path):
    done = fetched(command, tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    (one,) = json.loads(done.stdout)["repositories"]
    assert one == {"repository": NAME, "revision": "main", "commit": COMMIT,
                   "files": len(hub.state["files"])}  # fmt: skip
    (shown,) = command.json("data", "check", "long_video_bench", "--data", tmp_path)
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
    asked = [path for _, path, _ in hub.asked if path.startswith("/api/datasets/")]
    assert asked and all(COMMIT in path for path in asked)


def test_another_revision_is_not_mixed_in(command, hub, tmp_path):
    assert fetched(command, tmp_path).returncode == 0
    done = fetched(command, tmp_path, "--revision", "other")
    assert done.returncode == 5 and "files of revision other" in done.stderr
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
    assert not any("hf_from" in path.read_text("utf-8", "replace")
                   for path in (tmp_path / "b").rglob("*.json"))  # fmt: skip


@pytest.mark.parametrize(
    ("refuse", "words"),
    [((403, "GatedRepo"), "Accept its terms"), ((404, "RepoNotFound"), "HF_TOKEN is needed"),
     ((404, "RevisionNotFound"), "the revision main"), ((500, ""), "goes on where")],
)  # fmt: skip
def test_what_the_hub_refuses_is_said(command, hub, tmp_path, refuse, words):
    hub.state["refuse"] = refuse
    done = fetched(command, tmp_path)
    assert done.returncode == 3 and words in done.stderr and NAME in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "long_video_bench" / "hub.json").exists()


def test_offline_nothing_is_asked_and_the_way_is_told(command, hub, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    done = fetched(command, tmp_path)
    assert done.returncode == 2 and NAME in done.stderr and "lvb_val.json" in done.stderr
    assert hub.asked == []


def test_a_hub_that_is_not_there_is_named(command, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    done = fetched(command, tmp_path)
    assert done.returncode == 3 and "http://127.0.0.1:9" in done.stderr


def test_a_task_that_is_not_on_the_hub_says_where_it_is(capsys, tmp_path):
    assert main(["data", "fetch", "mevis", "--data", str(tmp_path)]) == 2
    assert "henghuiding/MeViS" in capsys.readouterr().err
    assert main(["data", "fetch", "video_me", "--data", str(tmp_path)]) == 2
    assert "Did you mean video_mme" in capsys.readouterr().err


def test_hubs_in_cards_are_whole():
    for path in sorted(TASKS.glob("*/card.toml")):
        hub = Card.read(path).hub
        if hub is not None:
            assert set(hub) <= {"repository", "repositories", "revision", "files"}, path
            named = [*hub.get("repositories", {}).values(), *filter(None, [hub.get("repository")])]
            assert named and all(name.count("/") == 1 for name in named), path


def test_problems_come_with_the_way_to_the_data(capsys, tmp_path):
    shutil.copytree(TASKS / "video_mme" / "example", tmp_path, dirs_exist_ok=True)
    for path in tmp_path.rglob("*.mp4"):
        path.unlink()
    assert main(["data", "check", "video_mme", "--data", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "1 problem(s)" in said and "How it is had: lmms-lab/Video-MME" in said


def test_the_published_number_is_told_where_it_differs(capsys):
    root = TASKS / "video_mme" / "example"
    assert main(["data", "check", "video_mme", "--data", str(root)]) == 0
    assert "3 samples (published: 2700)" in capsys.readouterr().out


def test_pictures_of_one_content_under_two_names_are_told(tmp_path):
    import numpy as np
    from PIL import Image

    samples = []
    for name, shade in (("a", 1), ("b", 1), ("c", 2), ("d", 1)):
        path = tmp_path / f"{name}.png"
        Image.fromarray(np.full((5, 5, 3), shade, np.uint8)).save(path)
        query = Query(id=query_id(name), text="?", media=(image(path),), forms=(AnswerForm.MASK,))
        samples.append(Sample(id=name, query=query, target=None))
    assert duplicates(samples) == [["a", "b", "d"]]
    assert duplicates([*samples[:1] * 3, samples[2]]) == []


def test_info_tells_sizes_licence_categories_and_an_example(capsys):
    for task in ("video_mme", "tempcompass", "long_video_bench"):
        root = TASKS / task / "example"
        assert main(["data", "info", task, "--data", str(root), "--json"]) == 0
        (one,) = json.loads(capsys.readouterr().out)
        assert one["samples"] == 3 and one["bytes"] > 1000 and one["licence"] and one["splits"]
        assert one["categories"] and one["answers"] and one["example"]["truth"] and one["hub"]


# Named subsets


def evaluated(root, out, subset, capsys, task="reason_seg"):
    code = main(["eval", "--model", "whole_frame", "--tasks", task, "--data", str(root), "--out",
                 str(out), "--subset", subset, "--quiet", "--json"])  # fmt: skip
    said = capsys.readouterr()
    assert code == 0, said.err
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
