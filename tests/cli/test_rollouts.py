"""`harness explain` of a training: a page that is whole by itself, whatever a network wrote."""

import base64
import io
import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness import overlay, plugins, provenance
from harness.cli.main import main
from harness.errors import StoreError
from harness.explained.rollouts import ground_truth_on
from harness.leaderboards.rollouts import MAX_ROLLOUTS, groups_of
from harness.masks import Rle
from harness.run.train import TrainingOptions, train
from harness.spec import parse
from harness.trainer import Curve, Trainer
from harness.types import Answer, AnswerForm, Box, Target

REPOSITORY = Path(__file__).resolve().parents[2]
DATA = REPOSITORY / "tasks" / "reason_seg" / "example"
HOSTILE = (
    '</pre><script>alert("x")</script><img src=x onerror=alert(1)>&amp;\ud800\x00{style}$policy'
)


class Kept(Trainer):
    """A training that writes the rollouts it is given."""

    name = "kept"

    def __init__(self, rows):
        self.rows = rows

    def describe(self):
        return {}

    def train(self, run):
        run.checkpoint.mkdir()
        for step, row in self.rows:
            Curve(run.out / "rollouts.jsonl").append(step, row)
        return {"steps": 1}


def row(sample, place, text="a response", **more):
    return {
        "task": "reason_seg",
        "sample": sample,
        "rollout": place,
        "canvas": [1000, 1000],
        "text": text,
        "tokens": 1234,
        "cut": False,
        "components": {"total": 2.5, "format": 1.0},
        "frame": 0,
        "boxes": [],
        "points": [],
        "advantage": -0.75,
        **more,
    }


@pytest.fixture(scope="module")
def samples():
    task = plugins.build("tasks", parse("reason_seg"), DATA)
    return {sample.id: sample for sample in task.samples()}


@pytest.fixture
def trained(tmp_path):
    """Makes a training folder with these rollouts; what is trained is nothing."""

    def made(rows, *, data=DATA):
        task = plugins.build("tasks", parse("reason_seg"), data)
        out = tmp_path / "training"
        train(Kept(rows), [task], None, out, TrainingOptions(data_root=str(data)))
        return out

    return made


class Elements(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found, self.said = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.said.append(data)

    def of(self, tag):
        return [attributes for name, attributes in self.found if name == tag]


def page_of(folder, *more):
    assert main(["explain", str(folder), *more]) == 0
    return Elements((folder / "rollouts.html").read_text("utf-8"))


def image(uri):
    data = base64.b64decode(uri.removeprefix("data:image/jpeg;base64,"))
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)


def near(shown, colour):
    return int((np.abs(shown - np.array(colour)).sum(axis=2) < 60).sum())


@pytest.mark.parametrize("rehearsed", [False, True])
def test_the_page_and_the_json_say_that_it_was_a_rehearsal(
    rehearsed, trained, samples, capsys, monkeypatch
):
    if rehearsed:
        monkeypatch.setenv(provenance.REHEARSAL, "1")
    folder = trained([(1, row(next(iter(samples)), 0))])
    monkeypatch.delenv(provenance.REHEARSAL, raising=False)
    assert ("rehearsal" in " ".join(page_of(folder, "--json").said)) == rehearsed
    assert ("rehearsal" in " ".join(json.loads(capsys.readouterr().out)["notes"])) == rehearsed


def test_the_page_tells_everything_about_a_response(trained, samples, capsys):
    first, second, _ = samples
    folder = trained(
        [
            (1, row(first, 0, "one", second="asked again", cut=True)),
            (1, row(first, 1, "two", advantage=0.75, unread="no tags")),
            (4, row(second, 0, "three", advantage=None)),
        ]
    )
    output = " ".join(page_of(folder).said)
    for part in (
        "Step 1",
        "Step 4",
        first,
        samples[first].query.text,
        "one",
        "asked again",
        "Response, 1,234 tokens, cut off",
        "total",
        "2.500",
        "format",
        "1.000",
        "−0.750",
        "+0.750",
        "no tags",
        "three",
        "ground truth: mask of",
        "–",
    ):
        assert part in output, part
    assert capsys.readouterr().out == f"{folder / 'rollouts.html'}\n"


def test_what_a_network_wrote_is_text_and_nothing_is_fetched(trained, samples):
    first = next(iter(samples))
    folder = trained(
        [
            (
                1,
                row(
                    first,
                    0,
                    HOSTILE,
                    second=HOSTILE,
                    unread=HOSTILE,
                    components={HOSTILE: 1.0, "total": 1.0},
                ),
            )
        ]
    )
    page = page_of(folder)
    assert not page.of("script") and not page.of("link") and not page.of("iframe")
    assert all(one["src"].startswith("data:image/jpeg;base64,") for one in page.of("img"))
    assert len(page.of("img")) == 1
    assert not any(name.startswith("on") for _, given in page.found for name in given)
    text = (folder / "rollouts.html").read_text("utf-8")
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src &#x27;none&#x27;; img-src data:; style-src")
    assert "script-src" not in policy
    assert '</pre><script>alert("x")' in "".join(page.said)
    assert "http:" not in text and "https:" not in text
    assert "url(" not in text and "@import" not in text


def test_boxes_are_drawn_where_they_were_kept(trained, samples):
    first = next(iter(samples))
    width, height = samples[first].query.size
    box = [0.5 * width, 0.5 * height, 0.9 * width, 0.9 * height]
    folder = trained([(1, row(first, 0)), (1, row(first, 1, boxes=[box]))])
    without, with_box = (image(one["src"]) for one in page_of(folder).of("img"))
    assert near(without, overlay.GROUND_TRUTH) > 20 and near(without, overlay.PREDICTION) == 0
    half_down, half_across = (side // 2 for side in with_box.shape[:2])
    drawn = with_box[half_down - 2 :, half_across - 2 :]
    assert near(drawn, overlay.PREDICTION) > 20
    assert near(with_box, overlay.PREDICTION) == near(drawn, overlay.PREDICTION)


def test_the_ground_truth_is_drawn_as_a_perfect_response_would_name_it(samples):
    sample = next(iter(samples.values()))
    inside = sample.target.answer.masks[0].to_array()
    boxes = ground_truth_on(0, sample).boxes
    covered = np.zeros_like(inside)
    for left, top, right, bottom in boxes:
        covered[int(top) : int(bottom), int(left) : int(right)] = True
    assert boxes and covered[inside].all()
    assert covered.any(axis=1).sum() == inside.any(axis=1).sum()


def test_an_instance_in_two_parts_is_drawn_as_one(samples):
    sample = next(iter(samples.values()))
    width, height = sample.query.size
    mask = np.zeros((height, width), bool)
    mask[:8, :8] = mask[-8:, -8:] = True
    for known, boxes in ((((Rle.from_array(mask),),), 1), (None, 2)):
        answer = Answer(masks=(Rle.from_array(mask),), instances=known)
        drawn = ground_truth_on(0, replace(sample, target=Target(answer=answer))).boxes
        assert len(drawn) == boxes
        assert max(box.right for box in drawn) == width


def test_a_number_has_no_places_to_draw(samples):
    sample = next(iter(samples.values()))
    query = replace(sample.query, forms=(AnswerForm.COUNT,))
    for form, answer, boxes in (
        (AnswerForm.COUNT, Answer(count=3), None),
        (AnswerForm.TEXT, Answer(text="x"), None),
        (AnswerForm.BOXES, Answer(boxes=(Box(1, 2, 3, 4),)), (Box(1, 2, 3, 4),)),
    ):
        made = replace(sample, query=replace(query, forms=(form,)), target=Target(answer=answer))
        assert ground_truth_on(0, made).boxes == boxes


def test_groups_are_spread_over_the_steps_and_bounded(trained, samples, capsys):
    first = next(iter(samples))
    folder = trained([(step, row(first, place)) for step in range(1, 41) for place in (0, 1)])
    assert main(["explain", str(folder), "--groups", "3", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["groups"], shown["steps"]) == (3, [1, 21, 40])
    assert "3 of 40 groups" in " ".join(shown["notes"])
    assert len(page_of(folder).of("article")) == 24


def test_a_crowded_group_and_a_long_response_are_cut(trained, samples):
    first = next(iter(samples))
    folder = trained([(1, row(first, place, "x" * 50_000)) for place in range(MAX_ROLLOUTS + 3)])
    page = page_of(folder)
    assert len(page.of("figure")) == MAX_ROLLOUTS and "3 more" in " ".join(page.said)
    assert (folder / "rollouts.html").stat().st_size < 1_000_000


def test_one_sample_may_be_asked_for(trained, samples, capsys):
    first, second, _ = samples
    folder = trained([(1, row(first, 0)), (2, row(second, 0)), (3, row(first, 0))])
    output = page_of(folder, second).said
    assert "Step 2" in output and "Step 1" not in output
    assert main(["explain", str(folder), "nobody"]) == StoreError.exit_code
    assert first in capsys.readouterr().err


def test_without_the_data_the_page_stands_without_images(trained, samples, tmp_path):
    shutil.copytree(DATA, tmp_path / "data")
    folder = trained([(1, row(next(iter(samples)), 0))], data=tmp_path / "data")
    shutil.rmtree(tmp_path / "data")
    page = page_of(folder)
    assert not page.of("img") and "no images" in " ".join(page.said)
    assert "a response" in page.said
    assert page_of(folder, "--data", str(DATA)).of("img")


def test_a_sample_that_is_gone_and_rows_of_before_are_shown_as_far_as_they_go(trained, samples):
    first = next(iter(samples))
    old = row(first, 0)
    for name in ("task", "frame", "boxes", "points", "advantage"):
        del old[name]
    page = page_of(trained([(1, old), (2, row("gone", 0))]))
    assert len(page.of("img")) == 1 and "no such sample" in " ".join(page.said)


@pytest.mark.parametrize(
    "wrong",
    [
        {"boxes": [[0, 0, 1]]},
        {"boxes": [[0, 0, 1, float("nan")]]},
        {"components": None},
        {"points": 3},
        {"tokens": "many"},
    ],
)
def test_rollouts_that_were_tampered_with_are_refused(tmp_path, wrong):
    file = Curve(tmp_path / "rollouts.jsonl")
    file.append(7, row("a", 0, **wrong))
    with pytest.raises(StoreError, match="step 7"):
        groups_of(file.path)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--image", "x.png"], "--image"),
        (["--groups", "0"], "--groups"),
    ],
)
def test_what_is_of_a_run_is_refused_of_a_training(trained, samples, capsys, more, said):
    folder = trained([(1, row(next(iter(samples)), 0))])
    assert main(["explain", str(folder), *more]) == 2
    assert said in capsys.readouterr().err


def test_a_training_without_rollouts_and_a_folder_without_a_run_are_refused(
    trained, tmp_path, capsys
):
    assert main(["explain", str(trained([]))]) == StoreError.exit_code
    assert "rollouts.jsonl" in capsys.readouterr().err
    assert main(["explain", str(tmp_path)]) == StoreError.exit_code
    assert "manifest.json" in capsys.readouterr().err
