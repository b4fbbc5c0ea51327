"""Video-MME, TempCompass and LongVideoBench: what is read and asked, and what official code says.

Golden files in `tests/golden/readers/` are what the official repositories make of the committed
examples: see `tests/golden/make_video_qa.py`.
"""

import json
import shutil
from pathlib import Path

import pytest
from pyarrow import parquet

from harness.card import Card
from harness.errors import DataError, UsageError
from harness.frames import frame_rate
from harness.judge import Verdict
from harness.plugins import build as build_plugin
from harness.run.verify import verify
from harness.scores import Mean, Ratio, Totals
from harness.tasks.long_video_bench import task as lvb
from harness.tasks.qa.options import texts
from harness.tasks.tempcompass import task as compass
from harness.tasks.tempcompass.records import Listing, read_records
from harness.tasks.tempcompass.scoring import tells_only
from harness.tasks.video_mme import task as mme
from harness.tasks.video_qa.subtitles import (
    Line,
    at_frames,
    interleave,
    line_text,
    read_subtitles,
    srt,
)
from harness.types import Answer, AnswerForm, Failure, FailureKind, Prediction
from harness.video import video_file

MODULES = {"video_mme": mme, "tempcompass": compass, "long_video_bench": lvb}
SPECS = (
    "video_mme",
    "video_mme(protocol=videomme/strict)",
    "video_mme(prompt=official)",
    "video_mme(subtitles=all)",
    "video_mme(subtitles=shown,frames=4,prompt=official)",
    "tempcompass",
    "tempcompass(prompt=question)",
    "tempcompass(split=yes_no)",
    "tempcompass(split=caption_matching)",
    "tempcompass(protocol=tempcompass/strict)",
    "tempcompass(split=captioning,protocol=tempcompass/strict)",
    "tempcompass(split=captioning,protocol=tempcompass/judged)",
    "tempcompass(split=all,protocol=tempcompass/strict)",
    "long_video_bench",
    "long_video_bench(protocol=lvb/strict,prompt=official)",
    "long_video_bench(subtitles=interleaved,frames=long_video_bench,prompt=official)",
)


def name_of(spec):
    return spec.partition("(")[0]


def said(sample, text):
    answer = Answer(text=text) if text is not None else None
    if answer is None:
        return Prediction(
            query_id=sample.query.id, failure=Failure(FailureKind.INFRASTRUCTURE, "lost")
        )
    return Prediction(query_id=sample.query.id, answer=answer, responses=(text,))


@pytest.fixture
def copied(example, tmp_path):
    """A copy of an example that may be changed."""

    def made(name):
        shutil.copytree(example(name), tmp_path, dirs_exist_ok=True)
        return tmp_path

    return made


@pytest.mark.parametrize("spec", SPECS)
def test_perfect_answers_and_responses_reach_the_ceiling(build, example, spec):
    task = build(spec, example(name_of(spec)))
    reader = build_plugin("models", "qwen_vl", backend=build_plugin("backends", "stored"))
    verdicts = list(verify(task, reader))
    assert len(verdicts) == 2 and all(one.is_passed for one in verdicts), verdicts


@pytest.mark.parametrize("name", MODULES)
def test_cards_name_what_there_is(name):
    card = Card.read(Path(MODULES[name].__file__).parent / "card.toml")
    assert set(card.protocols) == set(MODULES[name].PROTOCOLS)
    protocol = MODULES[name].PROTOCOLS[card.protocol]
    assert card.headline == protocol.headline and card.hub is not None
    assert "arXiv" in card.paper and card.default_split in card.splits


def test_published_counts():
    counts = {
        name: dict(Card.read(Path(module.__file__).parent / "card.toml").splits)
        for name, module in MODULES.items()
    }
    formats = {"multi-choice": 1580, "yes_no": 2453, "caption_matching": 1503, "captioning": 2004}
    assert counts == {
        "video_mme": {"test": 2700},
        "long_video_bench": {"val": 1337, "test": 5341},
        "tempcompass": {**formats, "all": sum(formats.values())},
    }


@pytest.mark.parametrize("spec", SPECS)
def test_a_task_is_sound(build, example, spec):
    task = build(spec, example(name_of(spec)))
    assert list(task.check()) == []
    samples = list(task.samples())
    assert len({sample.id for sample in samples}) == len(samples) > 0
    assert [sample.id for sample in task.samples()] == [sample.id for sample in samples]
    for sample in samples:
        assert set(sample.query.forms) <= set(task.forms) and sample.query.media[0].is_video
        assert sample.target.answer.text or sample.query.form is AnswerForm.CHOICE


# Video-MME


def mme_task(root, **given):
    return mme.video_mme(root, **given)


def test_subtitles_are_those_that_lmms_eval_shows(example, golden):
    place = example("video_mme") / "video_mme"
    for video, count, text in golden("video_mme")["subtitles"]:
        whole = video_file(place / "data" / f"{video}.mp4").times()
        step = [int(k * (len(whole) - 1) / (count - 1)) for k in range(count)]
        lines = at_frames(
            srt(place / "subtitle" / f"{video}.srt"), [whole[k] for k in step], frame_rate(whole)
        )
        assert "\n".join(map(line_text, lines)) == text


def test_the_official_text_is_the_readmes(example, golden):
    task = mme_task(example("video_mme"), prompt="official")
    for sample, (name, middle) in zip(
        task.samples(), golden("video_mme")["questions"], strict=True
    ):
        assert sample.id == name
        assert sample.query.text == (
            "Select the best answer to the following multiple-choice question based on the video. "
            "Respond with only the letter (A, B, C, or D) of the correct option.\n"
            f"{middle}\nThe best answer is:"
        )


def test_subtitles_stand_before_the_question_and_follow_the_frames(example):
    root = example("video_mme")
    every = next(iter(mme_task(root, subtitles="all").samples())).query.text
    assert every.startswith("This video's subtitles are listed below:\nThis is second 0.\n")
    first = next(iter(mme_task(root, subtitles="shown", frames=1).samples()))
    assert first.query.text.count("This is second") == 1 and len(first.query.media[0]) == 1
    with pytest.raises(UsageError, match="frames="):
        mme_task(root, subtitles="shown")


def test_a_video_without_subtitles_says_so(copied):
    root = copied("video_mme")
    shutil.rmtree(root / "video_mme" / "subtitle")
    text = next(iter(mme_task(root, subtitles="all").samples())).query.text
    assert "No subtitles available\n" in text


@pytest.mark.parametrize(
    ("response", "official", "strict"),
    [
        ("{right}", Ratio(1, 1), 1),
        ("I cannot tell", Ratio(0, 0), 0),
        (None, Ratio(0, 1), 0),
        ("{right}. the thing", Ratio(1, 1), 1),
        ("", Ratio(0, 0), 0),
    ],
)
def test_unreadable_responses_count_nowhere_officially(example, response, official, strict):
    task = mme_task(example("video_mme"))
    sample = next(iter(task.samples()))
    text = response and response.format(right=sample.target.extra["letter"])
    prediction = said(sample, text)
    assert mme.score_official([sample], [prediction])["accuracy"] == official
    scores = mme.PROTOCOLS["videomme/strict"].score([sample], [prediction])
    assert scores["accuracy"] == Mean(strict)


def test_the_result_files_form_is_read_as_the_table_is(copied):
    root = copied("video_mme")
    place = root / "video_mme"
    before = list(mme_task(root).samples())
    table = place / "videomme" / "test-00000-of-00001.parquet"
    videos = {}
    for row in parquet.read_table(table).to_pylist():
        video = videos.setdefault(
            row["videoID"],
            {key: row[key] for key in ("videoID", "duration", "domain", "sub_category")}
            | {"questions": []},
        )
        video["questions"].append(
            {key: row[key] for key in ("question_id", "task_type", "question", "options", "answer")}
        )
    table.unlink()
    (place / "videomme.json").write_text(json.dumps(list(videos.values())))
    after = list(mme_task(root).samples())
    assert [(one.id, one.query.text, one.categories) for one in after] == [
        (one.id, one.query.text, one.categories) for one in before
    ]


def test_durations_are_parts(build, shapes):
    task = build("video_mme", shapes)
    parts = [
        list(build(f"video_mme(duration={one})", shapes).samples())
        for one in ("short", "medium", "long")
    ]
    assert all(parts) and sum(map(len, parts)) == len(list(task.samples()))
    assert {sample.categories["duration"] for sample in parts[0]} == {"short"}


# TempCompass


def test_the_official_end_of_each_format(example):
    root = example("tempcompass")
    ends = {
        "multi-choice": "\nPlease directly give the best option:",
        "yes_no": "\nPlease answer yes or no:",
        "caption_matching": "\nPlease directly give the best option:",
        "captioning": "Generated Caption:",
    }
    for split, end in ends.items():
        task = compass.tempcompass(root, split=split, protocol="tempcompass/strict")
        assert all(sample.query.text.endswith(end) for sample in task.samples())
        assert all(sample.id.startswith(f"{split}/") for sample in task.samples())


def test_captions_are_not_scored_by_rules(example):
    for split in ("captioning", "all"):
        with pytest.raises(UsageError, match="tempcompass/judged with --judge"):
            compass.tempcompass(example("tempcompass"), split=split)


class Says:
    """A judge that says one thing, and remembers what it was asked."""

    name = "says"

    def __init__(self, text):
        self.text = text
        self.asked = []

    def judge(self, rubric, question, answer, ground_truth):
        self.asked.append((rubric, question, answer, ground_truth))
        return Verdict(0.0, self.text)


def captions(example):
    return compass.tempcompass(
        example("tempcompass"), split="captioning", protocol="tempcompass/judged"
    )


def test_a_judge_sees_the_caption_and_its_letter_decides(example):
    task = captions(example)
    sample = next(iter(task.samples()))
    question, answer = sample.target.extra["record"].judge_question
    wrong = "A" if answer[0] == "B" else "B"
    for text, right in (
        (f"Reasoning: so\nAnswer: {answer}", 1.0),
        ("", 0.0),
        (f"Answer: {wrong}. x", 0.0),
        ("A. or B.", 0.0),
    ):
        judge = Says(text)
        score = task.protocol.judged(judge)
        assert score([sample], [said(sample, "A thing moves. </s>")])["avg"] == Mean(right)
        assert judge.asked == [("tempcompass_caption", question, "A thing moves.", answer)]


def test_captions_without_a_judge_are_refused_but_no_response_is_just_wrong(example):
    task = captions(example)
    sample = next(iter(task.samples()))
    with pytest.raises(UsageError, match="--judge"):
        task.protocol.score([sample], [said(sample, "A thing moves.")])
    assert task.protocol.score([sample], [said(sample, None)])["avg"] == Mean(0.0)


def test_strict_captions_have_the_words_of_one_option():
    options = ["moving to the left", "moving to the right", "not moving"]
    assert tells_only("A star, moving to the LEFT.", options[0], options)
    assert not tells_only("It is moving to the left, then moving to the right", options[0], options)
    assert not tells_only("It is moving", options[0], options)


def test_aspects_are_means_and_the_average_counts_each_question(build, shapes):
    task = build("tempcompass", shapes)
    totals = Totals(task.protocol.metrics)
    samples = list(task.samples())
    for number, sample in enumerate(samples):
        response = sample.target.extra["record"].answer if number % 2 else "no idea"
        totals.add(task.protocol.score([sample], [said(sample, response)]))
    assert totals.values()["avg"] == pytest.approx(len(samples) // 2 / len(samples))


def test_the_hubs_tables_are_read_as_the_files_are(copied):
    import pyarrow as pa

    root = copied("tempcompass")
    place = root / "tempcompass"
    for split in ("multi-choice", "captioning"):
        protocol = "tempcompass/strict"
        before = list(compass.tempcompass(root, split=split, protocol=protocol).samples())
        rows = []
        for sample in before:
            record = sample.target.extra["record"]
            row = {
                "video_id": record.video,
                "question": record.question,
                "answer": record.answer,
                "dim": record.aspect,
            }
            if asked := record.judge_question:
                row |= {"mc_question": asked[0], "mc_answer": asked[1]}
            rows.append(row)
        (place / split).mkdir()
        parquet.write_table(pa.Table.from_pylist(rows), place / split / "test-0.parquet")
        hidden = place / "questions" / f"{split}.json"
        hidden.rename(place / f"{split}.json")
        after = list(compass.tempcompass(root, split=split, protocol=protocol).samples())
        (place / f"{split}.json").rename(hidden)
        assert [(one.id, one.query.text, one.target) for one in after] == [
            (one.id, one.query.text, one.target) for one in before
        ]


# LongVideoBench


def test_frames_and_subtitles_alternate_as_officially(example, golden):
    place = example("long_video_bench") / "long_video_bench"
    rows = {row["id"]: row for row in json.loads((place / "lvb_val.json").read_text())}
    for name, count, numbers, mixed in golden("long_video_bench")["interleaved"]:
        row = rows[name]
        task = lvb.long_video_bench(
            place.parent,
            subtitles="interleaved",
            prompt="official",
            frames=build_spec(f"stride(n={count})"),
        )
        sample = next(one for one in task.samples() if one.id == name)
        assert list(sample.query.media[0].times()) == [float(number) for number in numbers]
        lines = read_subtitles(
            place / "subtitles" / row["subtitle_path"],
            start=row["starting_timestamp_for_subtitles"],
            duration=row["duration"],
        )
        assert list(interleave(sample.query.media[0].times(), lines)) == mixed
        end = dict(golden("long_video_bench")["questions"])[name]
        assert sample.query.text == "\n".join([*mixed, end])


def build_spec(text):
    from harness.spec import parse

    return parse(text)


def test_a_line_that_ends_with_the_clip_and_a_short_one(tmp_path):
    path = tmp_path / "x.json"
    path.write_text(
        json.dumps(
            [
                {"timestamp": [10.0, None], "text": "to the end"},
                {"start": "00:01:00.5", "end": "00:01:01", "line": "short"},
            ]
        )
    )
    assert read_subtitles(path, start=4, duration=30) == [
        Line(6.0, 26, "to the end"),
        Line(56.5, 57.0, "short"),
    ]


def test_an_unreadable_response_gets_the_same_option_each_time(example):
    task = lvb.long_video_bench(example("long_video_bench"))
    samples = list(task.samples())
    scores = [lvb.score_official([one], [said(one, "no idea")])["accuracy"] for one in samples]
    again = [lvb.score_official([one], [said(one, "?")])["accuracy"] for one in samples]
    assert scores == again
    assert all(
        lvb.score_official([one], [said(one, None)])["accuracy"] == Mean(0.0) for one in samples
    )
    strict = lvb.PROTOCOLS["lvb/strict"].score
    assert all(strict([one], [said(one, "no idea")])["accuracy"] == Mean(0.0) for one in samples)


def test_the_hidden_split_writes_a_file_and_has_no_ground_truth(example, tmp_path):
    task = lvb.long_video_bench(example("long_video_bench"), split="test")
    samples = list(task.samples())
    assert samples and all(sample.target is None for sample in samples)
    pairs = [(one, said(one, "B. yes" if number else None)) for number, one in enumerate(samples)]
    path = task.submission(pairs, tmp_path)
    assert json.loads(path.read_text()) == {
        one.id: "B. yes" if number else "" for number, one in enumerate(samples)
    }


def test_the_hubs_table_leaves_out_options_that_are_none(copied):
    import pyarrow as pa

    root = copied("long_video_bench")
    place = root / "long_video_bench"
    before = list(lvb.long_video_bench(root).samples())
    rows = []
    for row in json.loads((place / "lvb_val.json").read_text()):
        options = [*row.pop("candidates"), *["N/A"] * 5][:5]
        rows.append({**row, **{f"option{k}": one for k, one in enumerate(options)}})
    (place / "lvb_val.json").unlink()
    parquet.write_table(pa.Table.from_pylist(rows), place / "validation-00000-of-00001.parquet")
    after = list(lvb.long_video_bench(root).samples())
    assert [(one.id, one.query.options, one.target) for one in after] == [
        (one.id, one.query.options, one.target) for one in before
    ]


# Bad files


BAD = {
    "video_mme": [
        ("answer", "Z", "'answer'"),
        ("options", ["B. x", "A. y"], "option A"),
        ("options", ["A. x"], "options"),
        ("duration", "endless", "'duration'"),
        ("videoID", "../../x", "'../../x.mp4'"),
    ],
    "long_video_bench": [
        ("correct_choice", 9, "'correct_choice'"),
        ("candidates", ["one"], "'candidates'"),
        ("video_path", "/etc/passwd", "'/etc/passwd'"),
        ("duration", "long", "'duration'"),
    ],
}


@pytest.mark.parametrize(("field", "value", "message"), BAD["video_mme"])
def test_bad_rows_of_video_mme_are_named(copied, field, value, message):
    import pyarrow as pa

    root = copied("video_mme")
    path = root / "video_mme" / "videomme" / "test-00000-of-00001.parquet"
    rows = parquet.read_table(path).to_pylist()
    rows[1][field] = value
    parquet.write_table(pa.Table.from_pylist(rows), path)
    task = mme_task(root)
    with pytest.raises(DataError, match=message):
        list(task.samples())
    assert any(message in problem.message for problem in task.check())


@pytest.mark.parametrize(("field", "value", "message"), BAD["long_video_bench"])
def test_bad_records_of_long_video_bench_are_named(copied, field, value, message):
    root = copied("long_video_bench")
    path = root / "long_video_bench" / "lvb_val.json"
    rows = json.loads(path.read_text())
    rows[1][field] = value
    path.write_text(json.dumps(rows))
    task = lvb.long_video_bench(root)
    with pytest.raises(DataError, match=message):
        list(task.samples())
    assert any(message in problem.message for problem in task.check())


@pytest.mark.parametrize("change", [{"answer": "E. none"}, {"answer": 3}, {"question": None}])
def test_bad_questions_of_tempcompass_are_named(copied, change):
    root = copied("tempcompass")
    path = root / "tempcompass" / "questions" / "multi-choice.json"
    plain = json.loads(path.read_text())
    video, aspects = next(iter(plain.items()))
    next(iter(aspects.values()))[0].update(change)
    path.write_text(json.dumps(plain))
    with pytest.raises(DataError, match=f"{video}.*question 0"):
        list(compass.tempcompass(root).samples())


def test_every_faulty_video_of_tempcompass_is_named_at_once(copied):
    root = copied("tempcompass")
    path = root / "tempcompass" / "questions" / "multi-choice.json"
    plain = json.loads(path.read_text())
    (first, aspects), *_ = plain.items()
    faulty = {"no-table": [], "no-list": {"action": 3}, "no-question": {"action": ["?"]}}
    path.write_text(json.dumps({**faulty, **plain})[:-1] + ', "cut": {"action"')
    told = [problem.message for problem in compass.tempcompass(root).check()]
    for name in (*faulty, "multi-choice.json: expected complete JSON"):
        assert any(name in message for message in told), name
    path.write_text(json.dumps({first: aspects, **faulty}))
    read = list(read_records(Listing(root / "tempcompass", ("multi-choice",))))
    assert [type(one).__name__ for one in read[-3:]] == ["DataError"] * 3 and len(read) > 3


@pytest.mark.parametrize("name", MODULES)
def test_a_missing_or_damaged_video_is_lost_and_named(build, copied, name):
    root = copied(name)
    for path in (root / name).rglob("*.mp4"):
        path.write_bytes(path.read_bytes()[:700])
    task = build(name, root)
    samples = list(task.samples())
    assert all("mp4" in sample.query.media[0].fault for sample in samples)
    assert {Path(one.path).suffix for one in task.check()} == {".mp4"}
    for path in (root / name).rglob("*.mp4"):
        path.unlink()
    assert all("none" in one.query.media[0].fault for one in build(name, root).samples())


@pytest.mark.parametrize("name", MODULES)
def test_without_files_the_way_to_them_is_told(build, tmp_path, name):
    with pytest.raises(DataError, match=f"harness list tasks {name}"):
        build(name, tmp_path)
    (tmp_path / name).mkdir()
    with pytest.raises(DataError, match=f"harness list tasks {name}"):
        build(name, tmp_path)


@pytest.mark.parametrize(
    "text", ["1\nno times\nx\n", "1\n00:00:01,000 --> 1:2\nx\n", "1\n00:00:aa,0 --> 00:00:02,0\nx"]
)
def test_subtitles_that_cannot_be_read_are_named(tmp_path, text):
    (tmp_path / "x.srt").write_text(text)
    with pytest.raises(DataError, match=r"x\.srt, part 1"):
        srt(tmp_path / "x.srt")


def test_options_need_letters_in_order():
    assert texts([" A. x", "B) y", "C: z"], "r") == ("x", "y", "z")
    for bad in (["x", "y"], ["A. x", "C. y"], ["A. x"], []):
        with pytest.raises(DataError):
            texts(bad, "r")


def test_order_is_a_finer_aspect_of_its_own_in_tempcompass(build, example, tmp_path):
    """The official table has it, and the file of finer aspects does not."""
    root = shutil.copytree(example("tempcompass"), tmp_path / "data")
    (meta,) = root.rglob("meta_info.json")
    plain = json.loads(meta.read_text(encoding="utf-8"))
    for video in plain.values():
        video["eval_dim"] = {**video["eval_dim"], "order": None}
    meta.write_text(json.dumps(plain), encoding="utf-8")
    for path in root.rglob("multi-choice.json"):
        questions = json.loads(path.read_text(encoding="utf-8"))
        moved = {
            video: {"order": [one for each in requested.values() for one in each]}
            for video, requested in questions.items()
        }
        path.write_text(json.dumps(moved), encoding="utf-8")
    samples = list(build("tempcompass(split=multi-choice)", root).samples())
    assert samples and {one.categories["type"] for one in samples} == {"order"}
