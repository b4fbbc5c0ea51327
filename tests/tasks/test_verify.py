"""Perfect answers reach every ceiling, and readers with a planted bug do not."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from string import ascii_uppercase

import pytest

from harness import plugins
from harness.cli.main import main
from harness.errors import DataError, ModelError, UsageError
from harness.model import ResponseReader
from harness.models.canvas import Canvas
from harness.models.grammar import Item, ParseResult, ask_for_frame, frame_tag, split_frame
from harness.models.pipeline import PromptedModel
from harness.models.questions import Questions
from harness.models.vlm.dialect import names
from harness.run.verify import verify
from harness.spec import parse
from harness.tasks.segmentation.protocols import PROTOCOLS
from harness.types import Answer, AnswerForm

READERS = (
    "qwen_vl(backend=stored)",
    "qwen_vl(backend=stored,prompt=locate)",
    "qwen_vl(backend=stored,keyframe=named)",
    "qwen_vl(backend=stored(coordinates=normalized_1000))",
    "qwen_vl(backend=stored(coordinates=normalized_1_yx))",
    "qwen_vl(backend=stored(coordinates=normalized_100),prompt=locate)",
    "qwen_vl(backend=stored(coordinates=normalized_1024_yx),keyframe=named)",
    "qwen_vl(backend=stored(coordinates=pixels_yx),prompt=locate)",
    *(f"vlm(dialect={name},backend=stored)" for name in names()),
)
TRAIN = 4  # times as many samples as the other splits
TASKS = {
    **{
        f"reason_seg(split={split},protocol={protocol})": 8 * factor
        for split, factor in (("val", 1), ("test", 1), ("train", TRAIN))
        for protocol in ("seg/lisa", "seg/visionreasoner")
    },
    "mevis(split=valid_u)": 8,
    "mevis(split=train)": 8 * TRAIN,
    **{
        f"counting(split={split})": 8 * (TRAIN if split == "pixmo_train" else 1)
        for split in (
            "pixmo_val",
            "pixmo_test",
            "pixmo_train",
            "countbench",
            "countbenchqa",
            "countbench_visionreasoner",
        )
    },
}
STILL, MOVING, COUNT = "reason_seg", "mevis", "counting"


def reader_of(text: str) -> PromptedModel:
    model = plugins.build("models", parse(text))
    assert isinstance(model, PromptedModel) and isinstance(model, ResponseReader)
    return model


@pytest.fixture(scope="module")
def reader() -> PromptedModel:
    return reader_of(READERS[0])


@pytest.mark.parametrize(("spec", "count"), TASKS.items())
def test_perfect_answers_reach_the_ceiling_both_ways(build, shapes, reader, spec, count):
    verdicts = list(verify(build(spec, shapes), reader))
    assert [one.way for one in verdicts] == ["answers", "responses"]
    for one in verdicts:
        assert one.is_passed and one.n == count and not one.worst
        assert one.value == pytest.approx(1.0, abs=one.tolerance) and one.ceiling == 1.0


@pytest.mark.parametrize(
    "spec",
    [
        "reason_seg",
        "reason_seg(protocol=seg/visionreasoner)",
        "mevis",
        "counting",
    ],
)
def test_perfect_answers_reach_the_ceiling_on_the_committed_examples(build, example, reader, spec):
    verdicts = list(verify(build(spec, example(parse(spec).name)), reader))
    assert len(verdicts) == 2 and all(one.is_passed and one.n == 3 for one in verdicts)


@pytest.mark.parametrize("text", READERS[1:])
@pytest.mark.parametrize("name", [STILL, MOVING, COUNT])
def test_every_grammar_and_every_kind_of_coordinates_can_say_the_ground_truth(
    build, shapes, text, name
):
    assert all(one.is_passed for one in verify(build(name, shapes), reader_of(text)))


@pytest.mark.parametrize("name", [STILL, MOVING])
def test_a_grammar_of_one_object_says_several_by_the_box_around_them(build, shapes, name):
    reader = reader_of("one_thinker(backend=stored)")
    assert all(verdict.is_passed for verdict in verify(build(name, shapes), reader))


@dataclass(frozen=True)
class Phrases:
    """A grammar of phrases alone: `red cup; blue cup`, or `none`."""

    says: Callable[[str], str] = str
    name: str = "phrases"
    resize: tuple[int, int] | None = None

    def render(self, text: str, *, numbered: Sequence[int] = ()) -> str:
        return ask_for_frame(numbered) + text

    def parse(self, response: str) -> ParseResult:
        frame, rest = split_frame(response)
        phrases = () if rest == "none" else rest.split(";")
        return ParseResult(items=tuple(Item(phrase=one) for one in phrases), frame=frame)

    def write(self, items: Sequence[Item], *, frame: int | None = None) -> str:
        phrases = dict.fromkeys(self.says(item.phrase) for item in items)
        return frame_tag(frame) + (";".join(phrases) or "none")


@pytest.mark.parametrize("name", [STILL, f"{STILL}(split=train)", MOVING])
def test_phrases_alone_reach_the_ceiling(build, shapes, reader, name):
    phrases = replace(reader, prompt=Phrases())
    assert all(one.is_passed for one in verify(build(name, shapes), phrases))
    wrong = replace(reader, prompt=Phrases(says=lambda phrase: phrase[1:]))
    assert [one.is_passed for one in verify(build(name, shapes), wrong)] == [True, False]


def test_a_phrase_alone_counts_nothing(build, shapes, reader):
    verdicts = list(verify(build(COUNT, shapes), replace(reader, prompt=Phrases())))
    assert [one.is_passed for one in verdicts] == [True, False]


@pytest.mark.parametrize("name", [STILL, MOVING])
def test_perfect_answers_reach_the_ceiling_on_photographs(build, real, reader, name):
    assert all(one.is_passed for one in verify(build(name, real), reader))


def test_the_ceiling_of_the_copies_is_the_share_of_samples_with_a_target(
    build, shapes, reader, tmp_path
):
    place = tmp_path / "reason_seg" / "ReasonSeg" / "val"
    shutil.copytree(shapes / "reason_seg" / "ReasonSeg" / "val", place)
    paths = sorted(place.glob("*.json"))
    for path in paths[:2]:
        plain = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**plain, "shapes": []}), encoding="utf-8")
    for protocol, ceiling in (("seg/lisa", 1.0), ("seg/visionreasoner", 6 / 8)):
        verdicts = list(verify(build(f"reason_seg(protocol={protocol})", tmp_path), reader))
        assert [one.ceiling for one in verdicts] == [ceiling] * 2
        assert all(one.is_passed and one.why for one in verdicts)
        assert verdicts[0].value == pytest.approx(ceiling, abs=2.1e-5)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_empty_folder_cannot_be_verified(build, reader, tmp_path, protocol):
    (tmp_path / "reason_seg" / "ReasonSeg" / "val").mkdir(parents=True)
    with pytest.raises(DataError, match=r"reason_seg, split val: .*none"):
        list(verify(build(f"reason_seg(protocol={protocol})", tmp_path), reader))
    assert PROTOCOLS[protocol].ceiling.value_over(list) in (0.0, 1.0)


def test_hidden_ground_truth_cannot_be_verified(build, shapes, reader):
    with pytest.raises(DataError, match=r"mevis, split valid: .*none"):
        list(verify(build("mevis(split=valid)", shapes), reader))


@pytest.mark.skipif(find_spec("pycocoevalcap") is None, reason="needs extra [text]")
def test_the_command_says_what_perfect_texts_score_where_that_is_not_one(
    build, example, tmp_path, capsys
):
    """Perfect texts reach ROUGE-L's end of the scale; BLEU-4 and CIDEr depend on the texts."""
    spec = "rvtbench_summary(protocol=rvtbench/text_simple)"
    (check,) = verify(build(spec, example("rvtbench_summary")), None)
    assert check.others == {"CIDEr (simple tokens)": pytest.approx(10)}
    shutil.copytree(example("rvtbench_summary"), tmp_path, dirs_exist_ok=True)
    records = tmp_path / "rvtbench" / "annotations" / "summary.jsonl"
    rows = [json.loads(line) for line in records.read_text().splitlines()]
    for row, text in zip(rows, ("a cat", "a dog", "two dogs"), strict=True):
        row["gt"]["text"] = text
    records.write_text("\n".join(map(json.dumps, rows)))
    assert main(["verify", "--tasks", spec, "--data", str(tmp_path), "--model", "none"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "rvtbench_summary by perfect answers: "
        "BLEU-4 (simple tokens) 0.0010, CIDEr (simple tokens) 5.0000"
    )


def test_the_command_says_who_missed_the_ceiling_and_fails(shapes, monkeypatch, capsys):
    monkeypatch.setattr(Canvas, "to_image", lambda self, item: item)
    monkeypatch.setenv("COLUMNS", "200")
    arguments = ["verify", "--tasks", "reason_seg", "--data", str(shapes)]
    assert main(arguments) == 1
    shown = capsys.readouterr().out
    assert "reached" in shown and "MISSED" in shown and "val_0000" in shown
    assert main([*arguments, "--json"]) == 1
    assert not json.loads(capsys.readouterr().out)["passed"]
    assert main([*arguments, "--model", "none"]) == 0


class OwnWords(Questions):
    """A grammar of one's own for letters, which differs from what protocols read."""

    def write(self, form, answer):
        if form is not AnswerForm.CHOICE:
            return super().write(form, answer)
        return f"<final>{ascii_uppercase.index(answer.choice)}</final>"

    def read(self, query, form, response):
        if form is not AnswerForm.CHOICE:
            return super().read(query, form, response)
        return Answer(choice=ascii_uppercase[int(response[7:-8])])


class Wrong(OwnWords):
    def read(self, query, form, response):
        return Answer(text="B")


class Breaks(Questions):
    def write(self, form, answer):
        return answer.masks[0]


class Undeclared(Questions):
    forms = (AnswerForm.CHOICE,)  # not a set, which a model joins with its own


class Fewer(Questions):
    forms = frozenset({AnswerForm.TEXT})


QA = "shapes_qa"


LETTERS = "video_mme"
"""A benchmark whose official protocol reads the response itself."""


def test_a_miss_says_what_was_written_and_read(build, example, reader):
    task = build(LETTERS, example(LETTERS))
    checks = list(verify(task, replace(reader, words=OwnWords())))
    assert [one.is_passed for one in checks] == [True, False] and not checks[0].reasons
    for reason in checks[1].reasons:
        _, _, said = reason.partition(": of ")
        written, _, read = said.partition(f", the protocol {task.protocol.name} reads no answer; ")
        letter = ascii_uppercase[int(written.strip("'")[7:-8])]
        assert read == f"the model reads choice '{letter}'"


class Misread(OwnWords):
    """A grammar whose response names another letter to a protocol that reads it itself."""

    def write(self, form, answer):
        return f"The answer is {'B' if answer.choice == 'A' else 'A'}."

    def read(self, query, form, response):
        return Answer(choice="A" if "is B" in response else "B")


def test_a_miss_says_what_the_protocol_read_where_it_reads_the_response_itself(
    build, example, reader
):
    task = build(LETTERS, example(LETTERS))
    *_, check = verify(task, replace(reader, words=Misread()))
    assert not check.is_passed and check.reasons
    for reason in check.reasons:
        written = "B" if "is B" in reason else "A"
        assert f"the protocol {task.protocol.name} '{written}'" in reason
        assert f"the model reads choice '{'AB'['AB'.index(written) - 1]}'" in reason


@pytest.mark.parametrize(
    "spec", ["video_mme", "vsi_bench", "vsi_bench(protocol=vsi/official@whole)"]
)
def test_a_protocol_that_reads_reasoning_before_an_answer_is_named(build, example, reader, spec):
    answers_alone, responses = verify(build(spec, example(spec.partition("(")[0])), reader)
    assert answers_alone.reads_thoughts is None
    assert responses.is_passed and responses.reads_thoughts == ("@whole" in spec)


def test_an_answer_of_another_form_than_asked_is_a_failure_as_in_an_evaluation(
    build, shapes, reader
):
    *_, check = verify(build(QA, shapes), replace(reader, words=Wrong()))
    assert not check.is_passed
    assert any("no choice in the answer" in reason for reason in check.reasons)


def test_declared_forms_are_held_as_in_an_evaluation(build, shapes, reader):
    with pytest.raises(ModelError, match="forms of model"):
        list(verify(build(QA, shapes), replace(reader, words=Undeclared())))
    with pytest.raises(UsageError, match=r"choice|number"):
        list(verify(build(QA, shapes), replace(reader, words=Fewer())))


def test_the_forms_of_a_task_are_those_that_its_questions_ask_for(build, shapes):
    task = replace(build(STILL, shapes), forms=(AnswerForm.CHOICE,))
    with pytest.raises(DataError, match=r"forms of task reason_seg.*mask.*choice"):
        list(verify(task, None))


def test_ground_truth_of_another_form_than_asked_is_a_miss_with_the_reason(build, shapes):
    task = build(STILL, shapes)
    forms = (AnswerForm.CHOICE,)
    samples = [replace(one, query=replace(one.query, forms=forms)) for one in task.samples()]
    (check,) = verify(replace(task, forms=forms, samples=lambda: samples), None)
    assert not check.is_passed
    assert any("no choice in the answer" in reason for reason in check.reasons)


def test_a_fault_of_the_model_names_it_and_the_sample(build, shapes, reader):
    with pytest.raises(ModelError, match=r"PromptedModel on qa_.*TypeError"):
        list(verify(build(QA, shapes), replace(reader, words=Breaks())))


def test_the_command_prints_the_reason(example, capsys, monkeypatch):
    monkeypatch.setattr("harness.models.qwen_vl.model.Questions", OwnWords)
    assert main(["verify", "--tasks", LETTERS, "--data", str(example(LETTERS))]) == 1
    assert "reads no answer; the model reads" in capsys.readouterr().out
