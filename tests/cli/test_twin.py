"""`harness twin`: twins built ahead and gone on with, and one that is looked at."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from harness import plugins
from harness.cli.main import main
from harness.errors import Unavailable, UsageError
from harness.leaderboards.render.twins import render
from harness.leaderboards.twin_view import draw_depth, draw_frame
from harness.models.dt_r1.catalog import PRESETS
from harness.models.dt_r1.phrases import phrases_of
from harness.models.dt_r1.plan import parse_plan
from harness.models.nodes.opencv_objects import OpenCVObjects
from harness.models.nodes.salient_boxes import SalientBoxes
from harness.run.batching import samples_of
from harness.spec import parse
from harness.world.families import draw_scene
from harness.world.raster import render as drawn

PLAN = '{"SAM2": [], "DepthAnything2": [], "DepthStats": ["SAM2", "DepthAnything2"]}'
DATA = Path(__file__).resolve().parents[2] / "tasks" / "reason_seg" / "example"


@pytest.fixture
def image_file(tmp_path: Path) -> Path:
    scene = draw_scene(7, family="still", split="val", index=0)
    path = tmp_path / "shapes.png"
    Image.fromarray(drawn(scene)).save(path)
    return path


class Page(HTMLParser):
    """What a page would load, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "iframe")
        self.loaded += [value or "" for name, value in attrs if name in ("src", "data")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_and_an_image_that_need_nothing_else(image_file: Path, capsys: Any) -> None:
    out = image_file.parent / "twin.html"
    assert main(["twin", "show", "--media", str(image_file), "--out", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    page = Page(out.read_text())
    assert page.loaded and all(one.startswith("data:image/") for one in page.loaded)
    assert "errors" not in told["twin"]
    for instance in told["twin"]["instances"]:
        assert instance["name"] in page.text
    with Image.open(told["image"]) as image:
        assert image.width >= 2 * 480, "the depth lies beside"


def test_a_folder_of_frames_is_a_video(tmp_path: Path, capsys: Any) -> None:
    scene = draw_scene(7, family="video", split="val", index=0)
    for frame in range(3):
        Image.fromarray(drawn(scene, frame)).save(tmp_path / f"{frame}.png")
    plan = tmp_path / "plan.json"
    plan.write_text('{"SAM2": []}')
    out = tmp_path / "page.html"
    command = ["twin", "show", "--media", str(tmp_path), "--plan", str(plan), "--out", str(out)]
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["twin"]["video"]["frames"] == 3


@pytest.mark.parametrize(
    ("plan", "words"),
    [("not a plan", "JSON"), ('{"SAM2": ["OWLv2"]}', "OWLv2"), (None, "a JSON file")],
)
def test_a_plan_that_is_none(image_file: Path, capsys: Any, plan: str | None, words: str) -> None:
    file = image_file.parent / "plan.json"
    if plan is not None:
        file.write_text(plan)
    assert main(["twin", "show", "--media", str(image_file), "--plan", str(file)]) == 2
    assert words in capsys.readouterr().err
    assert not (image_file.parent / "twin.html").exists()


@pytest.fixture
def no_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An empty cache of the hub; the checkpoints of `nodes=paper`, of which it has none."""
    constants = pytest.importorskip("huggingface_hub.constants")
    (tmp_path / "hub").mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return re.findall(r"checkpoint=([\w./-]+)", " ".join(PRESETS["paper"].values()))


def test_all_weights_that_are_not_here_are_said_at_once(
    image_file: Path, capsys: Any, no_weights: list[str]
) -> None:
    assert len(no_weights) == 5
    assert main(["twin", "show", "--media", str(image_file), "--nodes", "paper"]) == 4
    said = capsys.readouterr().err
    assert all(f"hf download {one}" in said for one in no_weights), said


def test_a_run_without_the_weights_of_its_nodes_is_refused_with_all_of_them_at_its_start(
    tmp_path: Path, capsys: Any, no_weights: list[str]
) -> None:
    command = ["eval", "--model", "dt_r1(checkpoint=nobody/nothing,nodes=paper)"]
    command += ["--tasks", "reason_seg", "--data", str(DATA), "--out", str(tmp_path / "run")]
    assert main(command) == 4
    said = capsys.readouterr().err
    assert all(f"hf download {one}" in said for one in ("nobody/nothing", *no_weights)), said


def test_twins_of_two_questions_are_two_where_a_node_looks_for_what_they_name(
    tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    seen: list[tuple[str, ...]] = []

    def run_for(self: Any, media: Any, indices: Any, inputs: Any, phrases: Any) -> Any:
        seen.append(tuple(phrases))
        return self.run(media, indices, inputs)

    monkeypatch.setattr(SalientBoxes, "by_question", True)
    monkeypatch.setattr(SalientBoxes, "run_for", run_for)
    plan = tmp_path / "plan.json"
    plan.write_text('{"OWLv2": []}')
    command = ["twin", "build", "--tasks", "reason_seg", "--data", str(DATA), "--json"]
    command += ["--plan", str(plan), "--out", str(tmp_path / "twins")]
    assert main(command) == 0
    first = json.loads(capsys.readouterr().out)
    task = plugins.build("tasks", parse("reason_seg"), data=DATA)
    named = {phrases_of(one.query.text) for one in samples_of(task)}
    assert set(seen) == named and any(named)
    assert main(command) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["built"] == 0 and again["there"] == first["built"] + first["there"]


def test_twins_are_built_once_and_gone_on_with(tmp_path: Path, capsys: Any) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(PLAN)
    out = tmp_path / "twins"
    command = ["twin", "build", "--tasks", "reason_seg", "--data", str(DATA), "--json"]
    command += ["--plan", str(plan), "--out", str(out)]
    assert main(command) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["built"] > 0 and first["there"] == 0
    rows = (out / "twins.jsonl").read_text().splitlines()
    # Stopped while the last line was written; the outputs are there.
    (out / "twins.jsonl").write_text("\n".join(rows[:-1]) + "\n" + rows[-1][:20])
    assert main(command) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["built"] == 1 and again["there"] == first["built"] - 1
    assert again["outputs"]["computed"] == 0 and again["outputs"]["folder"] == 3
    assert (out / "twins.jsonl").read_text().splitlines() == rows


def test_a_twin_for_which_a_server_was_lacking_is_built_again(
    tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(PLAN)
    out = tmp_path / "twins"
    command = ["twin", "build", "--tasks", "reason_seg", "--data", str(DATA), "--json"]
    command += ["--plan", str(plan), "--out", str(out)]

    def down(*given: Any) -> Any:
        raise Unavailable("server", expected="an answer", found="none")

    with monkeypatch.context() as patch:
        patch.setattr(OpenCVObjects, "run", down)
        assert main(command) == 0
    lacking = json.loads(capsys.readouterr().out)
    assert lacking["with_errors"] == lacking["built"] > 0
    for built in (lacking["built"], 0):
        assert main(command) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["built"], told["with_errors"]) == (built, 0)
    rows = [json.loads(line) for line in (out / "twins.jsonl").read_text().splitlines()]
    assert len(rows) == lacking["built"] and not any(row["errors"] for row in rows)


def test_a_model_reads_twins_that_were_built_ahead(
    tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(PLAN)
    out = tmp_path / "twins"
    command = ["twin", "build", "--tasks", "reason_seg", "--data", str(DATA), "--json"]
    assert main([*command, "--plan", str(plan), "--out", str(out)]) == 0
    capsys.readouterr()
    rows = {
        row["sample"]: row
        for row in map(json.loads, (out / "twins.jsonl").read_text().splitlines())
    }
    monkeypatch.setattr(OpenCVObjects, "run", lambda *_: pytest.fail("looked at again"))
    for name in ("dt_r1", "jit"):  # and so does training, whose environment is the model's own
        model = plugins.build("models", parse(f"{name}(backend=stored,twins={out})"))
        builder = model.environment.perception.builder
        for sample in samples_of(plugins.build("tasks", parse("reason_seg"), DATA)):
            twin = builder.build(sample.query.media[0], parse_plan(PLAN, builder.catalog))
            assert twin.fingerprint == rows[sample.query.id]["fingerprint"] and not twin.faults
        assert builder.cache.counts["computed"] == 0
        model.perception.close()
    with pytest.raises(UsageError, match=re.escape(str(plan))):
        plugins.build("models", parse(f"dt_r1(backend=stored,twins={plan})"))


def test_text_of_a_twin_is_text_on_its_page() -> None:
    hostile = '</pre><script>alert("x")</script><img src=x>\ud800'
    data = {
        "video": {"type": "image", "width": 4, "height": 4, "description": hostile},
        "frames": [{"frame": 0, "time": 0, "description": hostile}],
        "instances": [
            {"id": 1, "name": hostile, "mask": None, "frames": [{"frame": 0, "box": None}]}
        ],
        "errors": {"SAM2": hostile},
    }
    image = np.zeros((4, 4, 3), np.uint8)
    page = render(
        hostile, data, images={0: image}, plan={"SAM2": ()}, nodes={"SAM2": hostile}, text=hostile
    )
    assert Page(page).loaded and not re.search(r"<script|<img src=x", page)


def test_drawing_leaves_its_input_as_it_was() -> None:
    image = np.full((20, 30, 3), 90, np.uint8)
    mask = np.zeros((20, 30), dtype=np.bool_)
    mask[5:15, 5:20] = True
    data = {
        "instances": [
            {
                "id": 1,
                "name": "a",
                "mask": "masks/1",
                "frames": [{"frame": 0, "box": [5, 5, 20, 15]}],
            },
            {"id": 2, "name": "b", "mask": None, "frames": [{"frame": 0, "box": [0, 0, 3, 3]}]},
            {"id": 3, "name": "c", "mask": "masks/3", "frames": [{"frame": 0, "box": None}]},
        ]
    }
    masks, depth = {"masks/1": mask, "masks/3": ~mask}, np.zeros((20, 30), np.float32)
    shown = draw_frame(0, image, data, masks, depth)
    seen = [{**data, "instances": [one]} for one in data["instances"]]
    alone = [draw_frame(0, image, one, masks, depth) for one in seen]
    plain = draw_frame(0, image, {"instances": []}, masks, depth)
    assert [(one != plain).any() for one in alone] == [True, True, False], "unseen in this frame"
    assert (shown != alone[0]).any() and (shown != alone[1]).any()
    assert shown.shape[1] > 2 * 480 and (image == 90).all()
    ramp = draw_depth(np.arange(12, dtype=np.float32).reshape(3, 4))
    assert ramp.shape == (3, 4, 3) and int(ramp[-1, -1].sum()) > int(ramp[0, 0].sum())
