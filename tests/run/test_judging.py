"""Rubrics, verdicts as they are read, and judges with a memory."""

from dataclasses import dataclass, field

import pytest

from harness import plugins
from harness.errors import DataError, ModelError, StoreError, UsageError
from harness.judge import Verdict
from harness.judging import FOLDER, Case, judgement, rubric, same_words
from harness.run.judging import remember, remembered, stored
from harness.spec import parse
from harness.store.ledger import Ledger

YES = Case("Which car?", "the car that is red", "a red car")


@dataclass
class Scripted:
    """A judge that responses what its script says, by answer."""

    responses: dict[str, str]
    name: str = "scripted(model=none,temperature=0)"
    asked: list[str] = field(default_factory=list)
    spoiled: float = 0.0

    def judge(self, rubric, question, answer, ground_truth):
        self.asked.append(answer)
        verdict = plan(rubric).verdict(self.responses[answer])
        return Verdict(verdict.score + self.spoiled, verdict.text)


plan = rubric


def test_every_rubric_of_harness_can_be_loaded_and_asks_about_one_answer():
    for name in sorted(path.stem for path in FOLDER.glob("*.toml")):
        by = rubric(name)
        assert by.name == name and by.version >= 1
        prompt = by.prompt_for(Case("Why {x}?", "{answer} %s", "because"))
        assert "Why {x}?" in prompt and "{answer} %s" in prompt
        assert ("because" in prompt) == (by.scale is not None), (
            "who chooses is not told the ground truth"
        )
        if by.scale is not None:
            assert by.read_grade(str(by.scale.highest)) == by.scale.highest


def test_a_rubric_without_a_scale_gives_no_grade():
    by = rubric("tempcompass_caption")
    assert by.verdict("Answer: A. left") == Verdict(None, "Answer: A. left")
    with pytest.raises(UsageError, match="tempcompass_caption"):
        judgement(Scripted({YES.answer: "1"}), by, YES)


@pytest.mark.parametrize(
    ("response", "grade"),
    [
        ("2", 2),
        (" 3\n", 3),
        ("**1**", 1),
        ("0.", 0),
        ("4", None),
        ("-1", None),
        ("", None),
        ("2 of 3", None),
        ("two", None),
        ("2.5", None),
        ("٢", None),
        ("1e0", None),
        ("9" * 5000, None),
        ("Score: 2", None),
        ("\ud800", None),
    ],
)
def test_only_a_whole_response_that_is_a_grade_is_read(response, grade):
    by = rubric("graded")
    assert by.read_grade(response) == grade
    assert by.verdict(response) == Verdict((grade or 0) / 3, response)


def test_words_stand_for_grades_in_any_case():
    by = rubric("same_meaning")
    assert [by.read_grade(one) for one in ("yes", "No.", "YES", "maybe", "yes, it is")] == [
        1,
        0,
        1,
        None,
        None,
    ]


def test_an_unreadable_verdict_has_the_defined_value_and_is_reported():
    judge = Scripted({YES.answer: "I would say so"})
    found = judgement(judge, rubric("graded"), YES)
    assert (found.score, found.correct, found.by, found.readable) == (0.0, False, "judge", False)
    found = judgement(Scripted({YES.answer: "3"}), rubric("graded"), YES)
    assert (found.score, found.correct, found.by, found.readable) == (1.0, True, "judge", True)


@pytest.mark.parametrize(("response", "correct"), [("1", False), ("2", True), ("3", True)])
def test_an_answer_is_right_from_the_grade_that_the_rubric_says(response, correct):
    assert judgement(Scripted({YES.answer: response}), rubric("graded"), YES).correct is correct


def test_exact_and_missing_answers_are_not_asked_about():
    judge = Scripted({})
    exact = judgement(judge, rubric("graded"), YES._replace(answer="A red  car."))
    blank = judgement(judge, rubric("graded"), YES._replace(answer=" \n"))
    assert (exact.score, exact.by, blank.score, blank.by) == (1.0, "exact match", 0.0, "no answer")
    assert judge.asked == []
    assert not same_words("red car", "a red car")


def test_a_rubric_can_ask_about_exact_answers_too(tmp_path):
    by = rubric(str(written(tmp_path, exact_match="false")))
    judge = Scripted({"a red car": "0"})
    assert judgement(judge, by, YES._replace(answer="a red car")).score == 0.0
    assert judge.asked == ["a red car"]


def test_a_score_that_is_not_what_the_response_says_is_refused():
    with pytest.raises(ModelError, match=r"scripted\(.*: .*1\.0, found 0\.5"):
        judgement(Scripted({YES.answer: "3"}, spoiled=-0.5), rubric("graded"), YES)


def written(folder, **changes):
    lines = {
        "name": '"mine"',
        "version": "1",
        "exact_match": "true",
        "prompt": '"Q {question} T {ground_truth} A {answer}"',
        "scale": "{ lowest = 0, highest = 1, correct_from = 1, unreadable = 0 }",
    }
    path = folder / "mine.toml"
    text = "\n".join(f"{key} = {value}" for key, value in {**lines, **changes}.items() if value)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"prompt": '"{answer}"'}, "fields"),
        ({"prompt": '"{answer} {ground_truth} {file}"'}, "fields"),
        ({"prompt": '"{answer} {question}"'}, "ground_truth"),
        ({"scale": ""}, r"\['answer', 'ground_truth', 'question'\]: "),
        ({"scale": "", "prompt": '"{answer}"'}, "question"),
        ({"scale": "3"}, "scale"),
        ({"max_new_tokens": "0"}, "max_new_tokens"),
        ({"prompt": '"{answer} {ground_truth} {"'}, "prompt"),
        ({"version": '"1"'}, "version"),
        ({"name": ""}, "name"),
        ({"scale": "{ lowest = 0 }"}, "scale"),
        ({"extra": "1"}, "extra"),
        ({"scale": "{ lowest = 1, highest = 1, correct_from = 1, unreadable = 1 }"}, "scale"),
        ({"scale": "{ lowest = 0, highest = 1, correct_from = 1, unreadable = -1 }"}, "scale"),
        ({"name": "["}, "TOML"),
    ],
)
def test_a_file_that_is_no_rubric_is_refused_with_what_is_wrong(tmp_path, changes, found):
    with pytest.raises(DataError, match=found):
        rubric(str(written(tmp_path, **changes)))


def test_an_unknown_rubric_lists_those_there_are():
    with pytest.raises(UsageError, match=r"'nonsense': .*graded .*same_meaning .*\.toml"):
        rubric("nonsense")


def test_the_key_of_a_verdict_changes_with_everything_that_could_change_it(tmp_path):
    by = rubric("graded")
    keys = {by.key(YES, "a"), by.key(YES, "b"), rubric("same_meaning").key(YES, "a")}
    for field_name in Case._fields:
        keys.add(by.key(YES._replace(**{field_name: "other"}), "a"))
    assert len(keys) == 6
    assert by.key(Case("ab", "c", "d"), "a") != by.key(Case("a", "bc", "d"), "a")
    first = rubric(str(written(tmp_path)))
    other = tmp_path / "other"
    other.mkdir()
    assert rubric(str(written(other))).digest == first.digest
    third = tmp_path / "third"
    third.mkdir()
    assert rubric(str(written(third, version="2"))).digest != first.digest


def test_a_judge_is_asked_once_and_its_verdicts_are_read_back(tmp_path):
    file = tmp_path / "verdicts" / "judge.jsonl"
    judge = Scripted({YES.answer: "2"})
    first = judgement(remember(judge, file=file), rubric("graded"), YES)
    again = judgement(remember(judge, file=file), rubric("graded"), YES)
    assert first == again and judge.asked == [YES.answer]
    replayed = stored(file=file)
    assert replayed.name == judge.name
    assert judgement(replayed, rubric("graded"), YES) == first
    (record,) = Ledger(file).records.values()
    assert record["judge"] == judge.name and record["text"] == "2"
    assert record["rubric"]["name"] == "graded" and YES.ground_truth in record["prompt"]


def test_the_plugins_are_built_from_what_is_typed(tmp_path, monkeypatch):
    judge = Scripted({YES.answer: "2"})
    functions = {"stored": stored, "remembered": remembered, "scripted": lambda: judge}
    monkeypatch.setattr(plugins, "load", lambda kind, name: functions[name])
    file = tmp_path / "v.jsonl"
    kept = plugins.build("judges", parse(f"remembered(judge=scripted,file={file})"))
    verdict = kept.judge("graded", *YES)
    replayed = plugins.build("judges", parse(f"stored(file={file})"))
    assert replayed.judge("graded", *YES) == verdict and replayed.name == kept.name


def test_a_missing_verdict_is_an_error_that_names_it(tmp_path):
    file = tmp_path / "v.jsonl"
    remember(Scripted({YES.answer: "2"}), file=file).judge("graded", *YES)
    replayed = stored(file=file)
    other = YES._replace(answer="answer 0")
    with pytest.raises(DataError, match=r"'answer 0'.*graded"):
        judgement(replayed, rubric("graded"), other)
    with pytest.raises(DataError, match="same_meaning"):
        replayed.judge("same_meaning", *YES)
    # What a task asks for is needed, a blank answer too: TempCompass asks of every caption.
    with pytest.raises(DataError, match="on '' for"):
        replayed.judge("graded", *YES._replace(answer=""))


def test_verdicts_of_several_judges_need_a_choice(tmp_path):
    file = tmp_path / "v.jsonl"
    for name, response in (("strict", "0"), ("kind", "3")):
        remember(Scripted({YES.answer: response}, name=name), file=file).judge("graded", *YES)
    with pytest.raises(UsageError, match="kind, strict"):
        stored(file=file)
    assert stored(file=file, judge="kind").judge("graded", *YES) == Verdict(1.0, "3")
    with pytest.raises(UsageError, match=r"judge=other.*kind .*strict"):
        stored(file=file, judge="other")
    with pytest.raises(UsageError, match=r"/none\.jsonl\): .*none"):
        stored(file=tmp_path / "none.jsonl")


def test_a_torn_line_is_a_missing_verdict_and_spoils_no_later_one(tmp_path):
    file = tmp_path / "v.jsonl"
    judge = Scripted({YES.answer: "2", "other": "1"})
    remember(judge, file=file).judge("graded", *YES)
    file.write_bytes(file.read_bytes()[:-9])
    ledger = Ledger(file)
    assert ledger.records == {} and ledger.damaged == 1
    remember(judge, file=file).judge("graded", *YES._replace(answer="other"))
    ledger = Ledger(file)
    assert [one["answer"] for one in ledger.records.values()] == ["other"]
    assert ledger.damaged == 1
    with pytest.raises(DataError, match=r"'the car that is red' for 'a red car'"):
        stored(file=file).judge("graded", *YES)


def test_a_flipped_byte_is_never_read_as_a_verdict(tmp_path):
    file = tmp_path / "v.jsonl"
    remember(Scripted({YES.answer: "2"}), file=file).judge("graded", *YES)
    data = file.read_bytes()
    file.write_bytes(data.replace(b'"text":"2"', b'"text":"3"'))
    assert Ledger(file).records == {}


def test_two_verdicts_of_one_key_are_refused(tmp_path):
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    Ledger(first).append("k", {"score": 1})
    Ledger(second).append("k", {"score": 0})
    first.write_bytes(first.read_bytes() + second.read_bytes())
    with pytest.raises(StoreError, match=r"/a\.jsonl: .*\bk, "):
        Ledger(first)
    same = Ledger(second)
    same.append("k", {"score": 0})
    assert len(second.read_bytes().splitlines()) == 1
    with pytest.raises(StoreError, match=r"/b\.jsonl: .*\bk, "):
        same.append("k", {"score": 1})


def test_texts_that_no_file_can_hold_are_kept_in_a_form_that_it_can(tmp_path):
    file = tmp_path / "v.jsonl"
    odd = YES._replace(answer="a \ud800 b\x00")
    judge = Scripted({odd.answer: "1"})
    verdict = remember(judge, file=file).judge("graded", *odd)
    assert stored(file=file).judge("graded", *odd) == verdict
