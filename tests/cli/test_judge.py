"""`--judge`: settled before anything runs, recorded, kept in the run, and never needed again."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from harness.chat import ChatResponse
from harness.cli import judge as judges
from harness.cli.main import main
from harness.errors import ModelError
from harness.judging import FOLDER
from harness.judging import rubric as find_rubric
from harness.record import Run
from harness.run.judging import remember
from harness.tasks.tempcompass.task import tempcompass

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))

from chat_server import serving

TASK = "v_star(where=text)"


class Grader:
    """Rates by the length of the answer, and counts how often it is asked."""

    name = "grader(v=1)"

    def __init__(self):
        self.asked = 0

    def judge(self, rubric, question, answer, ground_truth):
        self.asked += 1
        return find_rubric(rubric).verdict(str(len(answer) % 4))


@pytest.fixture
def grader(monkeypatch):
    made = Grader()
    build = judges.build_judge
    monkeypatch.setattr(
        judges, "build_judge", lambda text: made if text == "grader" else build(text)
    )
    from harness.cli import score

    monkeypatch.setattr(score, "build_judge", judges.build_judge)
    return made


@pytest.fixture
def said(example_of, tmp_path):
    """A file of predictions whose answers to "what" need a judge."""
    items = json.loads((example_of / "v_star" / "V_STaR_test.json").read_text())
    seen, lines = {}, []
    for item in items:
        seen[item["vid"]] = seen.get(item["vid"], 0) + 1
        unit = item["vid"] + (f"#{seen[item['vid']]}" if seen[item["vid"]] > 1 else "")
        boxes = {
            str(box["timestamp"]): [box["xmin"], box["ymin"], box["xmax"], box["ymax"]]
            for box in item["bboxes"]
        }
        answers = {
            "what": "a" * (len(lines) + 2),
            "when": item["timestamps"],
            "where": json.dumps(boxes),
            "where2": "{}",
            "when2": [0, 1],
        }
        lines += [{"id": f"{unit}/{step}", "answer": answer} for step, answer in answers.items()]
    path = tmp_path / "said.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture(scope="module")
def example_of():
    return Path(__file__).resolve().parents[2] / "tasks" / "v_star" / "example"


def run(capsys, *arguments, code=0):
    assert main([*map(str, arguments)]) == code
    out = capsys.readouterr()
    return json.loads(out.out) if "--json" in arguments and not code else out.err


@pytest.mark.parametrize(
    ("judge", "said_of_it"),
    [
        ([], "expected --judge SPEC"),
        (["--judge", "no_such_judge"], "no_such_judge"),
        (["--judge", "stored(file=/nowhere/verdicts.jsonl)"], "a file of verdicts"),
        (["--judge", "chat(backend=transformers(checkpoint=/nowhere))"], "/nowhere"),
    ],
)
def test_a_judge_that_is_absent_or_cannot_be_had_is_told_before_anything_runs(
    capsys, example_of, tmp_path, said, judge, said_of_it
):
    out = tmp_path / "runs"
    common = ["--tasks", TASK, "--data", example_of, "--out", out, *judge]
    for command in (["eval", "--model", "whole_frame"], ["score", "--predictions", said]):
        error = run(capsys, *command, *common, code=2)
        assert said_of_it in error
    assert not out.exists()


def test_a_judge_that_nothing_needs_is_a_mistake(capsys, example_of, grader, tmp_path, said):
    data = example_of.parents[1] / "sti_bench" / "example"
    error = run(
        capsys,
        "score",
        "--predictions",
        said,
        "--tasks",
        "sti_bench",
        "--data",
        data,
        "--judge",
        "grader",
        code=2,
    )
    assert "judged" in error and grader.asked == 0


def test_verdicts_are_kept_in_the_run_and_replayed(capsys, example_of, grader, tmp_path, said):
    command = [
        "eval",
        "--model",
        f"replay(file={said})",
        "--tasks",
        TASK,
        "--data",
        example_of,
        "--out",
        tmp_path / "runs",
        "--json",
    ]
    first = run(capsys, *command, "--judge", "grader")["tasks"]["v_star"]
    assert grader.asked == 3 and first["metrics"]["Acc"] == pytest.approx(2 / 3)
    (folder,) = {path.parent for path in (tmp_path / "runs").rglob("results.json")}
    info = Run.open(folder).manifest["task"]["arguments"]
    assert info["judge"] == "grader(v=1)" and info["rubric"].startswith("graded, version 1 (")
    again = run(capsys, "score", folder, "--json")["tasks"]["v_star"]
    assert not again["differs"] and again["metrics"] == first["metrics"]
    two = run(capsys, "score", folder, "--workers", "2", "--json")["tasks"]["v_star"]
    assert not two["differs"]
    run(capsys, *command, "--judge", "grader")  # resumed: all verdicts are there
    assert grader.asked == 3
    sample = Run.open(folder).units().__next__().samples[0]
    assert "score" in run(capsys, "explain", folder, sample, "--json")
    error = run(capsys, "score", folder, "--judge", "grader", "--workers", "2", code=2)
    assert "--workers" in error
    shutil.rmtree(tmp_path / "runs")
    run(capsys, *command, "--judge", "grader", "--restart")
    assert grader.asked == 6, "verdicts belong to the run"


def test_another_judge_is_another_run_but_may_score_again(
    capsys, example_of, grader, tmp_path, said
):
    command = [
        "eval",
        "--model",
        f"replay(file={said})",
        "--tasks",
        TASK,
        "--data",
        example_of,
        "--out",
        tmp_path / "runs",
        "--json",
        "--judge",
        "grader",
    ]
    run(capsys, *command)
    grader.name = "grader(v=2)"
    error = run(capsys, *command, code=5)
    assert "grader(v=1)" in error and "grader(v=2)" in error
    (folder,) = {path.parent for path in (tmp_path / "runs").rglob("results.json")}
    scored = run(capsys, "score", folder, "--judge", "grader", "--json")["tasks"]["v_star"]
    assert not scored["differs"] and grader.asked == 6


def test_stored_verdicts_score_a_file_without_a_network(capsys, example_of, tmp_path, said):
    kept = tmp_path / "verdicts.jsonl"
    judge = remember(Grader(), file=kept)
    items = json.loads((example_of / "v_star" / "V_STaR_test.json").read_text())
    for place, item in enumerate(items):
        judge.judge("graded", item["question"], "a" * (5 * place + 2), item["answer"])
    command = [
        "score",
        "--predictions",
        said,
        "--tasks",
        TASK,
        "--data",
        example_of,
        "--json",
        "--out",
        tmp_path / "runs",
        "--judge",
        f"stored(file={kept})",
    ]
    found = run(capsys, *command)["tasks"]["v_star"]
    assert found["metrics"]["Acc"] == pytest.approx(2 / 3)
    (folder,) = {path.parent for path in (tmp_path / "runs").rglob("results.json")}
    assert (folder / "verdicts.jsonl").is_file()
    lines = kept.read_bytes().splitlines(keepends=True)
    kept.write_bytes(b"".join(lines[:-1]))
    command[command.index("--out") + 1] = tmp_path / "other"
    assert str(kept) in run(capsys, *command, code=3)


def test_a_config_may_name_the_judge(capsys, example_of, grader, tmp_path, said):
    config = tmp_path / "config.toml"
    config.write_text('judge = "grader"\n')
    found = run(
        capsys,
        "score",
        "--predictions",
        said,
        "--tasks",
        TASK,
        "--data",
        example_of,
        "--config",
        config,
        "--json",
    )
    assert found["tasks"]["v_star"]["metrics"]["Acc"] is not None and grader.asked == 3
    config.write_text("judge = 3\n")
    assert "text" in run(
        capsys,
        "score",
        "--predictions",
        said,
        "--tasks",
        TASK,
        "--data",
        example_of,
        "--config",
        config,
        code=2,
    )


def test_a_judge_that_fails_while_scoring_ends_with_an_error(capsys, example_of, grader, said):
    def fails(*_):
        raise ModelError("judge grader", expected="a response", found="none")

    grader.judge = fails
    error = run(
        capsys,
        "score",
        "--predictions",
        said,
        "--tasks",
        TASK,
        "--data",
        example_of,
        "--judge",
        "grader",
        code=3,
    )
    assert "grader" in error


class ReadsOptions:
    """A judge's network: names the option whose words the description has, or grades by length."""

    batch_size = 4

    def generate(self, requests):
        return [
            ChatResponse(text=self.response(request.text), prompt_tokens=1, completion_tokens=1)
            for request in requests
        ]

    @staticmethod
    def response(text):
        if "Description: " not in text:
            return "yes" if "yes or no" in text else "3"
        caption, _, requested = text.partition("Description: ")[2].partition("\n\nQuestion:\n")
        options = [line for line in requested.splitlines() if line[1:3] == ". "]
        output = [option for option in options if option[3:] in caption]
        return f"Reasoning: it says so\nAnswer: {(output or ['None'])[0]}"


@pytest.fixture
def network():
    with serving(ReadsOptions()) as served:
        yield served


def compass(split):
    """Data, task and lines of predictions: all are right but the captions after the first."""
    data = Path(__file__).resolve().parents[2] / "tasks" / "tempcompass" / "example"
    spec = f"tempcompass(split={split},protocol=tempcompass/judged)"
    samples = list(tempcompass(data, split=split, protocol="tempcompass/judged").samples())
    captions = [one for one in samples if one.target.extra["record"].format == "captioning"]
    lines = []
    for sample in samples:
        text = f"nothing of {sample.id}" if sample in captions else sample.target.answer.text
        if sample is captions[0]:
            text = f"One sees: {sample.target.answer.text}."
        lines.append(json.dumps({"id": sample.id, "answer": text}) + "\n")
    return data, spec, samples, captions, lines


@pytest.mark.parametrize("split", ["captioning", "all"])
def test_captions_are_judged_by_the_shipped_rubric_through_the_commands(
    capsys, network, tmp_path, split
):
    data, spec, samples, captions, lines = compass(split)
    file, runs, kept = (tmp_path / name for name in ("said.jsonl", "runs", "kept.jsonl"))
    file.write_text("".join(lines))
    common = ["--tasks", spec, "--data", data, "--json"]
    judge = f"chat(backend=openai(model=served,coordinates=pixels,base_url={network.url}))"
    found = run(
        capsys,
        "score",
        "--predictions",
        file,
        *common,
        "--judge",
        f"remembered(judge={judge},file={kept})",
    )["tasks"]
    right = len(samples) - len(captions) + 1
    assert found["tempcompass"]["metrics"]["avg"] == pytest.approx(right / len(samples))
    assert len(network.asked) == len(captions)
    for requested in network.asked:
        assert (requested.get("max_tokens") or requested["max_completion_tokens"]) >= 128
    again = run(
        capsys,
        "eval",
        "--model",
        f"replay(file={file})",
        *common,
        "--out",
        runs,
        "--judge",
        f"stored(file={kept})",
    )["tasks"]
    assert again["tempcompass"]["metrics"] == found["tempcompass"]["metrics"]
    (folder,) = {path.parent for path in runs.rglob("results.json")}
    assert not run(capsys, "score", folder, "--data", data, "--json")["tasks"]["tempcompass"][
        "differs"
    ]
    assert len(network.asked) == len(captions)


@pytest.mark.parametrize(
    ("form", "right", "unread"),
    [
        ("Answer: {}. it", 1, 0),
        ("{}. it", 1, 0),
        ("None of them", 0, 0),
        ("Answer: {}", 0, 1),
        ("({}) it", 0, 1),
        ("no idea", 0, 1),
    ],
)
def test_verdicts_that_choose_nothing_are_counted(
    capsys, monkeypatch, network, tmp_path, form, right, unread
):
    data, spec, samples, captions, lines = compass("captioning")
    ground_truth = {one.target.extra["record"].judge_question for one in captions}
    letters = {question: answer[0] for question, answer in ground_truth}
    monkeypatch.setattr(
        ReadsOptions,
        "response",
        staticmethod(
            lambda text: form.format(
                next(letter for question, letter in letters.items() if question in text)
            )
        ),
    )
    file = tmp_path / "said.jsonl"
    lines = [json.dumps({"id": one.id, "answer": "a caption"}) + "\n" for one in samples]
    file.write_text("".join(lines))
    judge = f"chat(backend=openai(model=served,coordinates=pixels,base_url={network.url}))"
    found = run(
        capsys,
        "score",
        "--predictions",
        file,
        "--tasks",
        spec,
        "--data",
        data,
        "--json",
        "--judge",
        judge,
    )["tasks"]["tempcompass"]["metrics"]
    assert (found["avg"], found["unreadable verdicts"]) == (right, unread)


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.toml")))
def test_every_shipped_rubric_runs_through_the_command(
    capsys, network, example_of, tmp_path, said, name
):
    judge = [
        "--judge",
        f"chat(backend=openai(model=served,coordinates=pixels,base_url={network.url}))",
        "--json",
    ]
    if find_rubric(name).scale is None:
        data, spec, _, captions, lines = compass("captioning")
        file, requested = tmp_path / "captions.jsonl", len(captions)
        file.write_text("".join(lines))
    else:
        data, spec, file, requested = example_of, f"v_star(where=text,rubric={name})", said, 3
    found = run(capsys, "score", "--predictions", file, "--tasks", spec, "--data", data, *judge)
    (metrics,) = [task["metrics"] for task in found["tasks"].values()]
    assert metrics["avg" if "avg" in metrics else "Acc"] > 0
    assert len(network.asked) == requested


def test_a_task_that_grades_refuses_a_rubric_without_a_scale(capsys, example_of, said):
    error = run(
        capsys,
        "score",
        "--predictions",
        said,
        "--data",
        example_of,
        "--judge",
        "x",
        "--tasks",
        "v_star(rubric=tempcompass_caption)",
        code=2,
    )
    assert "tempcompass_caption" in error and "scale" in error


def test_what_papers_print_of_v_star_stands_beside_the_headline(
    capsys, example_of, grader, tmp_path, said
):
    runs, board = tmp_path / "runs", tmp_path / "board"
    found = run(
        capsys,
        "score",
        "--predictions",
        said,
        "--tasks",
        TASK,
        "--data",
        example_of,
        "--judge",
        "grader",
        "--out",
        runs,
        "--json",
    )["tasks"]["v_star"]
    assert list(found["metrics"])[:2] == ["mAM", "mLGM"]
    (folder,) = {path.parent for path in runs.rglob("results.json")}
    assert main(["score", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "mAM" in shown and "mLGM" in shown
    assert main(["board", "build", "--runs", str(runs), "--out", str(board)]) == 0
    text = "".join(path.read_text() for path in board.rglob("*.md"))
    (head,) = [line for line in text.splitlines() if line.startswith("| Rank")]
    assert head.index("mAM") < head.index("mLGM") < head.index("Acc")
    (headline,) = [line for line in text.splitlines() if line.startswith("Headline")]
    assert "mLGM × 100" in headline
    card = main(["list", "tasks", "v_star"]) or capsys.readouterr().out
    assert "mLGM × 100" in card
