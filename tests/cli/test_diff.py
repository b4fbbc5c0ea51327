"""`harness diff`: planted differences of two runs, each named and measured, and added up."""

import json
import shutil
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path

import pytest
from PIL import Image

from harness import plugins
from harness.cli import judge as judges
from harness.cli.main import main
from harness.errors import DataError
from harness.judging import rubric as find_rubric
from harness.leaderboards.differences import diff as differences
from harness.models.visionreasoner.grammar import VisionReasoner
from harness.record import Run
from harness.run.batching import samples_of
from harness.run.scoring import score_unit
from harness.run.verify import perfect
from harness.spec import parse
from harness.types import Answer, Box

TASKS = Path(__file__).resolve().parents[2] / "tasks"
MEVIS, STILLS = TASKS / "mevis" / "example", TASKS / "reason_seg" / "example"
READER = "(segmenter=box,propagator=still,keyframe=named,frames=4,backend=stored(file={}))"


@dataclass(frozen=True)
class Shifted(VisionReasoner):
    """A grammar that reads every box five units to the right."""

    name: str = "shifted"

    def parse(self, response):
        found = super().parse(response)
        boxes = [Box(x + 5, y, right + 5, below) for (x, y, right, below), *_ in found.items]
        items = [one._replace(box=box) for one, box in zip(found.items, boxes, strict=True)]
        return replace(found, items=tuple(items))


@pytest.fixture(autouse=True)
def shifted(monkeypatch):
    """A model `shifted`: `visionreasoner` with the other grammar."""
    load = plugins.load
    own = load("models", "visionreasoner")

    def with_shift(kind, name):
        if (kind, name) != ("models", "shifted"):
            return load(kind, name)

        @wraps(own)
        def build(*given, **named):
            made = own(*given, **named)
            return replace(made, name="shifted", prompt=Shifted(resize=made.prompt.resize))

        return build

    monkeypatch.setattr(plugins, "load", with_shift)
    installed = plugins.installed_plugins

    def with_name(kind):
        entries = installed(kind)
        named = {"shifted": entries["visionreasoner"]} if kind == "models" else {}
        return {**entries, **named}

    monkeypatch.setattr(plugins, "installed_plugins", with_name)


@pytest.fixture
def responses(tmp_path):
    """Files of perfect responses, and of others whose boxes are ten pixels too small."""
    reader = plugins.build("models", parse(f"visionreasoner{READER.format('none')}"))

    def written(root, task, *, smaller):
        path = tmp_path / f"{task}-{smaller}.jsonl"
        rows = []
        for sample in samples_of(plugins.build("tasks", task, root)):
            answer = sample.target.answer
            if smaller:
                answer = Answer(masks=tuple(_eroded(mask) for mask in answer.masks))
            (text,) = reader.write(sample.query, answer)
            rows.append({"id": sample.id, "response": text})
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return written


def _eroded(mask):
    import numpy as np

    from harness.masks import Rle

    array = mask.to_array()
    rows, columns = array.any(1).nonzero()[0], array.any(0).nonzero()[0]
    if rows.size and rows[-1] - rows[0] > 12 and columns[-1] - columns[0] > 12:
        array = array & False
        array[rows[0] : rows[-1] - 9, columns[0] : columns[-1] - 9] = True
    return Rle.from_array(np.ascontiguousarray(array))


@pytest.fixture
def evaluated(tmp_path):
    def run(model, *more, task="mevis", root=MEVIS, subset=None):
        out = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        given = ["--data", str(root), "--out", str(out), "--quiet"]
        given += ["--subset", subset] if subset else []
        assert main(["eval", "--model", model, "--tasks", task, *given, *more]) == 0
        (manifest,) = out.rglob("manifest.json")
        return Run.open(manifest.parent)

    return run


def explained(capsys, a, b, *given):
    capsys.readouterr()
    assert main(["diff", str(a.folder), str(getattr(b, "folder", b)), *given, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    total = sum(step["points"] for step in made["steps"])
    assert made["first"] + total == pytest.approx(made["second"], abs=1e-12)
    return made, {step["name"]: step for step in made["steps"]}


def value(run):
    return run.results["metrics"][run.results["headline"]]


def test_other_frames_explain_all_and_only_the_responses_that_differ(
    capsys, responses, evaluated, tmp_path
):
    good, bad = (responses(MEVIS, "mevis", smaller=one) for one in (False, True))
    lines = good.read_text().splitlines()
    mixed = tmp_path / "mixed.jsonl"  # of two responses out of three nothing differs
    mixed.write_text("\n".join([bad.read_text().splitlines()[0], *lines[1:]]) + "\n")
    a = evaluated(f"visionreasoner{READER.format(good)}")
    b = evaluated(f"visionreasoner{READER.format(mixed)}".replace("frames=4", "frames=2"))
    made, steps = explained(capsys, a, b)
    assert "frames=4" in made["a"] and "frames=2" in made["b"]
    assert list(steps) == ["responses: frames"]
    (step,) = steps.values()
    assert step["points"] == pytest.approx(value(b) - value(a), abs=1e-12) and step["points"] < 0
    assert step["samples"] == 1 and any("4 → 2" in line for line in step["details"])
    assert step["details"][0].startswith("1 of 3")


def test_another_segmenter_a_shifted_grammar_and_a_protocol_are_named(capsys, responses, evaluated):
    path = responses(STILLS, "reason_seg", smaller=False)
    base = f"visionreasoner{READER.format(path)}"
    given = {"task": "reason_seg", "root": STILLS}
    a = evaluated(base, **given)
    changes = {
        "segmenter": (base.replace("segmenter=box", "segmenter=grabcut"), given),
        "grammar": (base.replace("visionreasoner(", "shifted("), given),
        "protocol": (base, {**given, "task": "reason_seg(protocol=seg/visionreasoner)"}),
    }
    for name, (model, arguments) in changes.items():
        b = evaluated(model, **arguments)
        _, steps = explained(capsys, a, b)
        assert list(steps) == [name]
        assert steps[name]["points"] == pytest.approx(value(b) - value(a), abs=1e-12)
        assert value(a) != value(b)


def test_every_number_on_the_way_is_that_of_a_run_made_so(capsys, responses, evaluated):
    good, bad = (responses(MEVIS, "mevis", smaller=one) for one in (False, True))
    base = f"visionreasoner{READER.format(good)}"
    shift = base.replace("visionreasoner(", "shifted(")
    cut = shift.replace("segmenter=box", "segmenter=grabcut")
    other = cut.replace(str(good), str(bad)).replace("frames=4", "frames=3")
    runs = [evaluated(one) for one in (base, shift, cut, other)]
    _, steps = explained(capsys, runs[0], runs[-1])
    assert list(steps) == ["grammar", "segmenter", "responses: frames"]
    for step, before, after in zip(steps.values(), runs, runs[1:], strict=False):
        assert step["before"] == pytest.approx(value(before), abs=1e-12)
        assert step["after"] == pytest.approx(value(after), abs=1e-12)
    back, steps = explained(capsys, runs[-1], runs[0])
    assert back["first"] == value(runs[-1]) and list(steps) == [
        "grammar",
        "segmenter",
        "responses: frames",
    ]


def test_a_folder_of_masks_is_compared_with_a_model(capsys, evaluated, tmp_path):
    masks = tmp_path / "masks"
    for sample in samples_of(plugins.build("tasks", "reason_seg", STILLS)):
        path = masks / f"{sample.id}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(sample.target.answer.masks[0].to_array()).save(path)
    given = ["--tasks", "reason_seg", "--data", str(STILLS), "--name", "mine"]
    given += ["--format", "mask-tree", "--predictions", str(masks), "--out", str(tmp_path / "out")]
    assert main(["score", *given]) == 0
    (manifest,) = (tmp_path / "out").rglob("manifest.json")
    mine, other = (
        Run.open(manifest.parent),
        evaluated("whole_frame", task="reason_seg", root=STILLS),
    )
    made, steps = explained(capsys, other, mine)
    assert (made["first"], made["second"]) == (value(other), value(mine))
    assert list(steps) == ["answers"]  # neither run has responses


def test_a_grammar_goes_with_the_responses_of_another_prompt(capsys, evaluated, tmp_path):
    given = {"task": "reason_seg", "root": STILLS}
    runs = []
    for prompt in ("locate", "visionreasoner"):
        text = f"qwen_vl(prompt={prompt},segmenter=box,backend=stored)"
        reader, path = plugins.build("models", parse(text)), tmp_path / f"{prompt}.jsonl"
        rows = [
            {"id": one.id, "response": reader.write(one.query, one.target.answer)[0]}
            for one in samples_of(plugins.build("tasks", "reason_seg", STILLS))
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        runs.append(evaluated(text.replace("stored", f"stored(file={path})"), **given))
    _, steps = explained(capsys, *runs)
    assert list(steps) == ["responses: canvas + prompt + grammar"]
    assert (
        abs(steps["responses: canvas + prompt + grammar"]["points"]) < 0.05
    )  # no way through failures


def test_responses_that_could_not_be_read_are_counted_on_each_side(
    capsys, responses, evaluated, tmp_path
):
    good = responses(MEVIS, "mevis", smaller=False)
    lines = [json.loads(line) for line in good.read_text().splitlines()]
    lines[0]["response"] = "I cannot see it."
    mixed = tmp_path / "mixed.jsonl"
    mixed.write_text("".join(json.dumps(line) + "\n" for line in lines))
    a, b = (evaluated(f"visionreasoner{READER.format(path)}") for path in (good, mixed))
    made, _ = explained(capsys, a, b)
    assert made["unread"] == [[0, 3], [1, 3]]
    for second, is_told in ((b, True), (a, False)):
        assert main(["diff", str(a.folder), str(second.folder)]) == 0
        assert ("could not be read: 0 of 3" in capsys.readouterr().out) == is_told


def test_other_samples_are_a_step(capsys, responses, evaluated):
    good, bad = (responses(MEVIS, "mevis", smaller=one) for one in (False, True))
    a = evaluated(f"visionreasoner{READER.format(good)}", subset="first2")
    b = evaluated(f"visionreasoner{READER.format(bad)}")
    made, steps = explained(capsys, a, b)
    assert list(steps) == ["subset", "responses: backend"] and made["n_samples"] == 2
    assert steps["subset"]["details"] == ["2 and 3 samples, 2 in both"]


def test_the_text_and_the_drawing_add_up_as_they_are_printed(
    capsys, responses, evaluated, tmp_path
):
    good, bad = (responses(MEVIS, "mevis", smaller=one) for one in (False, True))
    a = evaluated(f"visionreasoner{READER.format(good)}")
    b = evaluated(f"shifted{READER.format(bad)}")
    for name in ("fall.svg", "fall.html"):
        capsys.readouterr()
        given = ["diff", str(a.folder), str(b.folder), "--out", str(tmp_path / name)]
        assert main(given) == 0
        text = (tmp_path / name).read_text()
        assert "<svg" in text and "grammar" in text and f"{value(b):.4f}" in text
    printed = capsys.readouterr().out.splitlines()
    rows = [one.split() for one in printed if one.startswith("  ") and one[2] != " "]
    steps = [next(cell for cell in row if cell[0] in "+-" and "." in cell) for row in rows[1:-1]]
    first, last = float(rows[0][-1]), float(rows[-1][-1])
    assert round(first + sum(map(float, steps)), 4) == last
    assert main(["diff", str(a.folder), str(b.folder), "--out", str(tmp_path / "x.png")]) == 2


@pytest.mark.parametrize("kind", ["lmms-eval", "vlmevalkit"])
def test_a_log_is_read_and_its_own_scorer_is_a_step(capsys, evaluated, tmp_path, kind):
    root = TASKS / "long_video_bench" / "example"
    samples = list(samples_of(plugins.build("tasks", "long_video_bench", root)))
    mine = tmp_path / "mine.jsonl"
    right = [sample.target.answer.choice for sample in samples]
    wrong = ["B" if one == "A" else "A" for one in right]
    mine.write_text(
        "".join(
            json.dumps({"id": one.id, "response": letter}) + "\n"
            for one, letter in zip(samples, right, strict=True)
        )
    )
    model = f"qwen_vl(backend=stored(file={mine}))"
    a = evaluated(model, task="long_video_bench", root=root)
    said = [wrong[0], *right[1:]]
    if kind == "lmms-eval":
        log = tmp_path / "x_samples_longvideobench_val_v.jsonl"
        rows = [
            {
                "doc_id": place,
                "input": one.query.text,
                "target": "A",
                "doc_hash": "0",
                "filtered_resps": [letter],
                "lvb_acc": {"id": one.id, "pred_answer": "A", "answer": "A" if place else "B"},
            }
            for place, (one, letter) in enumerate(zip(samples, said, strict=True))
        ]
        log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        log = tmp_path / "x_score.tsv"
        cells = [
            [str(place), one.query.text, letter, "1" if place else "0"]
            for place, (one, letter) in enumerate(zip(samples, said, strict=True))
        ]
        lines = [["index", "question", "prediction", "score"], *cells]
        log.write_text("".join("\t".join(line) + "\n" for line in lines))
    made, steps = explained(capsys, a, log, "--format", kind)
    number = len(samples)
    assert list(steps) == ["responses: unknown cause", "their scorer"]
    assert steps["responses: unknown cause"]["points"] == pytest.approx(-1 / number, abs=1e-12)
    assert steps["their scorer"]["points"] == pytest.approx(0, abs=1e-12)
    assert made["second"] == pytest.approx(1 - 1 / number)


def test_a_log_of_more_samples_than_the_run_has_adds_up(capsys, evaluated, tmp_path):
    root = TASKS / "long_video_bench" / "example"
    samples = list(samples_of(plugins.build("tasks", "long_video_bench", root)))
    mine, log = tmp_path / "mine.jsonl", tmp_path / "x_score.tsv"
    said = [json.dumps({"id": one.id, "response": one.target.answer.choice}) for one in samples]
    mine.write_text("\n".join(said) + "\n")
    chosen = tmp_path / "ids.txt"
    chosen.write_text(f"{samples[0].id}\n")
    model = f"qwen_vl(backend=stored(file={mine}))"
    a = evaluated(model, task="long_video_bench", root=root, subset=str(chosen))
    cells = [[str(n), one.query.text, "?", "0.5"] for n, one in enumerate(samples)]
    cells[0][2] = samples[0].target.answer.choice
    lines = [["index", "question", "prediction", "score"], *cells]
    log.write_text("".join("\t".join(line) + "\n" for line in lines))
    made, steps = explained(capsys, a, log, "--format", "vlmevalkit")
    assert list(steps) == ["subset", "their scorer"] and made["second"] == 0.5
    assert steps["subset"]["points"] == pytest.approx(1 / len(samples) - 1, abs=1e-12)


def test_a_scorer_that_has_changed_since_the_runs_is_two_steps(
    capsys, responses, evaluated, monkeypatch
):
    good, bad = (responses(MEVIS, "mevis", smaller=one) for one in (False, True))
    runs = [evaluated(f"visionreasoner{READER.format(one)}") for one in (good, bad)]

    def generous(task, unit, predictions):
        return score_unit(task, unit, [perfect(one) for one in unit])

    monkeypatch.setattr("harness.leaderboards.differences.mixed_reading.score_unit", generous)
    _, steps = explained(capsys, *runs)
    assert list(steps) == [differences.TODAY, "responses: backend", "not explained"]
    assert steps[differences.TODAY]["before"] == value(runs[0]) < 1
    assert steps["responses: backend"]["points"] == 0
    assert steps["not explained"]["after"] == pytest.approx(value(runs[1]), abs=1e-12)


def test_a_run_without_a_number_is_refused(capsys, responses, evaluated, monkeypatch):
    run = evaluated(f"visionreasoner{READER.format(responses(MEVIS, 'mevis', smaller=False))}")
    headline = run.results["headline"]
    run.results["metrics"][headline] = None
    with pytest.raises(DataError, match=headline):
        differences.diff_runs(run, run)


def test_verdicts_of_both_runs_count(capsys, evaluated, tmp_path, monkeypatch):
    class Grader:
        name = "grader"

        def judge(self, rubric, question, answer, ground_truth):
            return find_rubric(rubric).verdict(str(len(answer) % 4))

    build = judges.build_judge
    made = lambda text: Grader() if text == "grader" else build(text)  # noqa: E731
    monkeypatch.setattr(judges, "build_judge", made)
    root = TASKS / "v_star" / "example"
    samples = list(samples_of(plugins.build("tasks", "v_star", root)))
    runs = []
    for text in ("A cup.", "A chair!!"):
        path = tmp_path / f"{len(text)}.jsonl"
        rows = [json.dumps({"id": one.id, "response": text}) for one in samples]
        path.write_text("\n".join(rows) + "\n")
        model = f"qwen_vl(backend=stored(file={path}),segmenter=box,propagator=still)"
        runs.append(evaluated(model, "--judge", "grader", task="v_star", root=root))
    _, steps = explained(capsys, *runs)
    assert list(steps) == ["responses: backend"]


def test_other_annotations_are_a_step_and_other_images_are_refused(
    capsys, responses, evaluated, tmp_path
):
    path = responses(STILLS, "reason_seg", smaller=False)
    model, given = f"visionreasoner{READER.format(path)}", {"task": "reason_seg"}
    a = evaluated(model, root=STILLS, **given)
    moved = tmp_path / "moved"
    shutil.copytree(STILLS, moved)
    drawn = sorted(moved.rglob("val/*.json"))[0]
    plain = json.loads(drawn.read_text())
    for shape in plain["shapes"]:
        shape["points"] = [[x + 8, y] for x, y in shape["points"]]
    drawn.write_text(json.dumps(plain))
    b = evaluated(model, root=moved, **given)
    _, steps = explained(capsys, a, b)
    assert list(steps) == ["data"] and steps["data"]["samples"] == 1
    image = drawn.with_suffix(".jpg")
    Image.open(image).transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(image)
    c = evaluated(model, "--infrastructure-limit", "1", root=moved, **given)
    assert main(["diff", str(a.folder), str(c.folder)]) != 0
    assert "another group" in capsys.readouterr().err


def test_runs_of_two_tasks_are_refused(responses, evaluated):
    a = evaluated(f"visionreasoner{READER.format(responses(MEVIS, 'mevis', smaller=False))}")
    path = responses(STILLS, "reason_seg", smaller=False)
    b = evaluated(f"visionreasoner{READER.format(path)}", task="reason_seg", root=STILLS)
    assert main(["diff", str(a.folder), str(b.folder)]) == 2
