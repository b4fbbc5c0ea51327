"""A prompt of one's own: sent word for word, read in the method's format, recorded and declared."""

import json

import pytest

from harness import plugins
from harness.cli.main import main
from harness.cli.model_choice import requested_models
from harness.errors import UsageError
from harness.papers import deviations
from harness.spec import Spec, parse
from harness.types import AnswerForm

METHODS = {
    "qwen_vl": "qwen_vl(",
    "vlm": "vlm(dialect=glm_v,",
    "visionreasoner": "visionreasoner(",
    "seg_zero": "seg_zero(",
    "dr2seg": "dr2seg(",
}
PARTS = "backend=stored,segmenter=box,propagator=still"
TEXT = 'Look, then "decide": {question}\nYour {boxes}?'


def built(method, prompt, more=""):
    spec = parse(f"{METHODS[method]}{PARTS}{more})")
    return plugins.build("models", Spec(spec.name, {**spec.arguments, "prompt": prompt}))


def sent(model, query):
    (request,) = model.requests(query)
    return request.text


@pytest.mark.parametrize("method", METHODS)
def test_the_text_is_sent_as_it_is_with_the_question_in_its_place(method, ask):
    model = built(method, TEXT)
    query = ask(AnswerForm.MASK, text="the {boxes} dog?")
    assert sent(model, query) == 'Look, then "decide": the {boxes} dog?\nYour {boxes}?'
    assert model.describe()["prompt"] == "own"
    assert model.describe()["prompt_text"] == TEXT.replace("{question}", "QUESTION")


@pytest.mark.parametrize("method", METHODS)
def test_places_are_read_as_the_method_reads_them(method, ask):
    query = ask(AnswerForm.BOXES, size=(100, 80))
    usual = plugins.build("models", parse(f"{METHODS[method]}{PARTS})"))
    own = built(method, TEXT, ",grammar=visionreasoner" if method == "qwen_vl" else "")
    answer = usual.read(query, WRITTEN[method]).answer
    assert answer is not None and answer.boxes
    assert own.read(query, WRITTEN[method]).answer == answer


WRITTEN = {
    "qwen_vl": ['<answer>[{"bbox_2d": [84, 105, 420, 525], "point_2d": [200, 300]}]</answer>'],
    "vlm": ["<|begin_of_box|>[[100, 125, 500, 625]]<|end_of_box|>"],
    "visionreasoner": [
        "<think>a</think>"
        '<answer>[{"bbox_2d": [84, 105, 420, 525], "point_2d": [200, 300]}]</answer>'
    ],
    "seg_zero": [
        '<think>a</think><answer>{"bbox": [84, 105, 420, 525], "points_1": [200, 300], '
        '"points_2": [210, 310]}</answer>'
    ],
    "dr2seg": [
        "<think>a</think><description>b</description>"
        '<answer>[{"bbox_2d": [84, 105, 420, 525], "point_2d": [200, 300]}]</answer>'
    ],
}


def test_a_question_in_words_is_sent_whole_or_in_parts(ask):
    query = ask(AnswerForm.CHOICE, text="Which one?", options=("red", "blue"))
    usual = sent(plugins.build("models", parse(f"qwen_vl({PARTS})")), query)
    assert usual.startswith("Which one?\nA. red\nB. blue\n")
    assert sent(built("qwen_vl", "Think. {question}"), query) == f"Think. {usual}"
    alone = built("qwen_vl", "{question}: {options} A letter.")
    assert sent(alone, query) == "Which one?: A. red\nB. blue A letter."
    assert alone.read(query, ["B"]).answer.choice == "B"


@pytest.mark.parametrize("prompt", ["Look closely.", "", "{Question}", "x" * 9000 + "{question}"])
def test_a_text_without_a_place_for_the_question_is_refused(prompt):
    with pytest.raises(UsageError, match=r"qwen_vl\(prompt=…\): expected visionreasoner, locate"):
        built("qwen_vl", prompt)


def test_a_prompt_of_a_file_is_in_the_spec_by_its_words(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text(TEXT + "\n")
    (spec,) = requested_models([f"tent(base=qwen_vl({PARTS},prompt=none))"], tell=False)
    assert spec.arguments["base"].arguments["prompt"] is None
    (spec,) = requested_models([f"tent(base=qwen_vl({PARTS},prompt=file:{path}))"], tell=False)
    assert spec.arguments["base"].arguments["prompt"] == TEXT
    assert parse(str(spec)) == spec
    with pytest.raises(UsageError, match="lost"):
        requested_models([f"qwen_vl({PARTS},prompt=file:{tmp_path / 'lost'})"], tell=False)
    path.write_bytes(b"\xff\xfe{question}")
    with pytest.raises(UsageError, match="mine"):
        requested_models([f"qwen_vl({PARTS},prompt=file:{path})"], tell=False)


def test_a_training_records_its_models_without_files_and_presets(shapes, tmp_path, monkeypatch):
    """Its checkpoint is evaluated elsewhere, where neither is."""
    path, seen = tmp_path / "mine.txt", {}
    path.write_text(TEXT)

    def trained(trainer, tasks, model, out, options):
        seen.update(model=model, eval_model=options.eval_model)
        raise UsageError("no more is looked at")

    monkeypatch.setattr("harness.cli.train.run_training", trained)
    given = ["--model", f"qwen_vl({PARTS},prompt=file:{path})", "--train-tasks", "reason_seg"]
    given += ["--eval-model", "qwen2.5-vl-7b(checkpoint={checkpoint})", "--data", str(shapes)]
    assert main(["train", "--method", "sft", *given, "--out", str(tmp_path / "out")]) == 2
    assert seen["model"].arguments["prompt"] == TEXT
    assert seen["eval_model"].startswith("qwen_vl(checkpoint={checkpoint},prompt=visionreasoner,")


@pytest.mark.parametrize("method", METHODS)
def test_it_is_a_deviation_from_the_published_prompt(method):
    spec = parse(f"{METHODS[method]}{PARTS})")
    own = Spec(spec.name, {**spec.arguments, "prompt": TEXT})
    for given, expected in ((spec, []), (own, ["prompt"])):
        model = plugins.build("models", given)
        differs = deviations(str(given), model.describe(), [AnswerForm.BOXES], "reason_seg")
        assert not deviations(str(given), model.describe(), [AnswerForm.BOXES], "my_own_table")
        assert [one.setting for one in differs if one.setting == "prompt"] == expected


def test_two_prompts_are_two_runs_and_two_rows(shapes, tmp_path, capsys):
    first, second = (f'pocket(prompt="{word}. {{question}}")' for word in ("Look", "See"))
    given = ["--tasks", "shapes_qa", "--data", str(shapes), "--subset", "first2", "--quiet"]
    out = str(tmp_path / "runs")
    assert main(["eval", "--model", first, "--model", second, *given, "--out", out]) == 0
    capsys.readouterr()
    assert main(["board", "build", "--runs", out, "--out", str(tmp_path / "board")]) == 0
    tables = json.loads((tmp_path / "board" / "board.json").read_text())["tables"]
    names = [row["name"] for row in tables[0]["rows"]]
    assert sorted(names) == [
        f'pocket/own(prompt="{word}. {{question}}")' for word in ("Look", "See")
    ]
