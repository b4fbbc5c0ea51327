"""shapes_qa and shapes_referring: the files, what is read of them, and what answers earn."""

import json
import re
import shutil
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from harness import plugins
from harness.card import Card
from harness.errors import DataError
from harness.interchange.journal_form import prediction_from_json, prediction_to_json
from harness.layout.json_lines import MAX_LINE_BYTES
from harness.masks import Rle
from harness.run.verify import verify
from harness.spec import parse
from harness.tasks.shapes_qa.task import PROTOCOLS as QA
from harness.tasks.shapes_qa.task import is_within, number_of
from harness.tasks.shapes_qa.writer import shares
from harness.tasks.shapes_referring.scoring import PROTOCOLS as REFERRING
from harness.tasks.shapes_referring.scoring import count_found, piece_boxes
from harness.types import Answer, AnswerForm, Box, Prediction, Sample, Target, query_id
from harness.world.qa import ask_qa
from harness.world.shapes import make_world

SPECS = (
    *(
        f"{name}(split={split})"
        for name in ("shapes_qa", "shapes_referring")
        for split in ("train", "val", "test")
    ),
    *(
        f"shapes_qa(part={part},split=train)"
        for part in ("choices", "numbers", "relations", "still", "video")
    ),
)
NAMES = ("shapes_qa", "shapes_referring")
EXACT, SCORING = QA["qa/within_10"], REFERRING["shapes/referring"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Both benchmarks, eight samples a split."""
    from harness.testing.shapes import writers

    root = tmp_path_factory.mktemp("shapes")
    world = make_world(seed=0, size=8)
    for name in NAMES:
        writers()[name](world, root)
    return root


@pytest.fixture
def place(data, tmp_path):
    """A copy of one split that may be damaged; its lines."""

    def made(name):
        shutil.copytree(data / name / "val", tmp_path / name / "val")
        path = tmp_path / name / "val" / "questions.jsonl"
        return path, [json.loads(line) for line in path.read_text("utf-8").splitlines()]

    return made


def write(path, records):
    path.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")


# Samples


@pytest.mark.parametrize("spec", SPECS)
def test_perfect_answers_reach_the_ceiling_both_ways(build, data, spec):
    reader = plugins.build("models", parse("qwen_vl(backend=stored)"))
    verdicts = list(verify(build(spec, data), reader))
    assert [one.way for one in verdicts] == ["answers", "responses"]
    assert all(one.is_passed and one.n >= 8 and not one.worst for one in verdicts)
    assert verdicts[0].value == pytest.approx(1.0, abs=2.1e-5)


@pytest.mark.parametrize("spec", SPECS)
def test_two_passes_give_equal_samples_and_their_ids_are_hidden(build, data, spec):
    task = build(spec, data)
    passes = [
        [
            (
                one.id,
                one.query.id,
                one.query.text,
                one.query.options,
                one.target,
                one.group,
                dict(one.categories),
                one.query.forms,
                one.query.media[0].id,
            )
            for one in task.samples()
        ]
        for _ in range(2)
    ]
    assert passes[0] == passes[1]
    assert all(one[1] == query_id(one[0]) for one in passes[0])
    assert not list(task.check())
    groups = [one[5] for one in passes[0]]
    assert len(set(groups)) == sum(a != b for a, b in zip(groups, ["", *groups], strict=False))


@pytest.mark.parametrize("name", NAMES)
def test_samples_are_read_one_by_one(build, place, name):
    path, lines = place(name)
    with path.open("a", encoding="utf-8") as file:
        file.write("no JSON\n")
    samples = iter(build(name, path.parents[2]).samples())
    assert [next(samples).id for _ in lines] == [one["id"] for one in lines]
    with pytest.raises(DataError, match=rf"line {len(lines) + 1}.*one JSON object"):
        next(samples)


def test_questions_are_those_of_the_world(build, data):
    """Half about stills, a quarter about each kind of video, as `ask_qa` asks them."""
    world, expected = make_world(seed=0, size=8), {}
    for family, number in shares(32).items():
        quizzes = [
            (example.scene, one)
            for example in world.examples_of(family, "train")
            for one in example.quizzes
        ][:number]
        for scene, qa in quizzes:
            place = ask_qa(scene, number=4).index(qa)
            expected[f"{family}_{scene.index:05d}_{place}"] = (scene, qa)
    samples = list(build("shapes_qa(split=train)", data).samples())
    assert [sample.id for sample in samples] == list(expected)
    for sample in samples:
        scene, qa = expected[sample.id]
        assert (sample.query.text, sample.query.options) == (qa.text, qa.options)
        media = sample.query.media[0]
        assert (len(media), media.is_video) == (scene.frames, scene.frames > 1)
        assert media.times() == tuple(map(float, range(scene.frames)))
        assert media.size == (scene.width, scene.height)
        form = AnswerForm.NUMBER if qa.is_number else AnswerForm.CHOICE
        assert sample.query.forms == (form,)
        output = sample.target.answer
        assert (output.number if qa.is_number else output.choice) == (
            qa.answer if qa.is_number else qa.letter
        )
        assert sample.categories == {"kind": qa.kind, "level": scene.level, "family": scene.family}
    assert Counter(sample.categories["family"] for sample in samples) == shares(32)
    assert [sum(shares(total).values()) for total in range(1, 9)] == list(range(1, 9))


def test_parts_divide_the_questions(build, data):
    def ids(part):
        task = build(f"shapes_qa(split=train,part={part})", data)
        samples = list(task.samples())
        assert {form for one in samples for form in one.query.forms} == set(task.forms)
        return [one.id for one in samples]

    whole = ids("all")
    for one, other in (("choices", "numbers"), ("still", "video")):
        assert sorted(ids(one) + ids(other)) == sorted(whole)
        assert ids(one) and ids(other)


def test_masks_and_boxes_belong_together(build, data):
    samples = list(build("shapes_referring(split=train)", data).samples())
    requested = Counter(one.categories["asks"] for one in samples)
    assert set(requested) == {"single", "several", "reasoning"} and min(requested.values()) >= 10
    for sample in samples:
        (mask,), boxes = sample.target.answer.masks, sample.target.answer.boxes
        assert mask.size == sample.query.media[0].size
        rows, columns = np.nonzero(mask.to_array())
        hull = np.array(boxes)
        assert hull[:, :2].min(0).tolist() == [columns.min(), rows.min()]
        assert hull[:, 2:].max(0).tolist() == [columns.max() + 1, rows.max() + 1]
        single = sample.categories["asks"] == "single"
        assert len(boxes) == 1 if single else len(boxes) >= 1
        if sample.categories["asks"] == "several":
            assert len(boxes) > 1


@pytest.mark.parametrize("name", NAMES)
def test_the_example_is_what_the_writer_makes_of_the_world(build, example, name, tmp_path):
    plugins_writer = __import__(f"harness.tasks.{name}.writer", fromlist=["write"]).write
    plugins_writer(make_world(seed=11, size=3), tmp_path)
    made, kept = (root / name / "val" / "questions.jsonl" for root in (tmp_path, example(name)))
    assert made.read_bytes() == kept.read_bytes()
    samples = list(build(name, example(name)).samples())
    assert len(samples) == 3
    assert sum(path.stat().st_size for path in example(name).rglob("*.*")) < 60_000


# Cards


@pytest.mark.parametrize("name", NAMES)
def test_the_record_and_the_ids_of_the_card(build, name, tmp_path):
    card = Card.read(plugins.folder(plugins.installed_plugins("tasks")[name]) / "card.toml")
    folder = tmp_path / name / "val"
    (folder / "images").mkdir(parents=True)
    record = json.loads(card.example)
    Image.new("RGB", (12, 8)).save(folder / (record.get("image") or record["frames"][0]))
    write(folder / "questions.jsonl", [record])
    task = build(name, tmp_path)
    (sample,) = task.samples()
    assert not list(task.check())
    assert sample.id == record["id"] and record["id"].split("_")[0] in ("qa", "referring")
    assert sample.query.text == record["question"]
    if name == "shapes_qa":
        assert sample.target.answer.choice == "B" and sample.query.options[1] == "blue"
    else:
        assert sample.target.answer.boxes == ((2, 3, 6, 7),)
        assert piece_boxes(sample.target.answer.masks[0]) == ((2, 3, 6, 7),)


# Files that are not as they should be


@pytest.mark.parametrize(
    ("name", "field", "value", "message"),
    [
        *(
            ("shapes_qa", field, value, message)
            for field, value, message in (
                ("frames", [], "'frames': .*none"),
                ("frames", ["../../x.jpg"], r"'\.\./\.\./x\.jpg'"),
                ("frames", ["a.jpg", "a.jpg"], r"\['a\.jpg', 'a\.jpg'\]"),
                ("options", ["yes", "yes"], "'options': .*different.*'yes', 'yes'"),
                ("kind", 3, "'kind': .*str.*3"),
                ("question", " ", "'question': .*text.*' '"),
                ("options", "AB", "'options': .*list.*'AB'"),
                ("options", ["a", 3], r"'options': .*\['a', 3\]"),
                ("answer", "neither", "'answer': .*'yes', 'no'.*'neither'"),
                ("answer", None, "'answer': .*'yes', 'no'.*None"),
                ("kind", None, "'kind': .*str.*None"),
            )
        ),
        *(
            ("shapes_referring", field, value, message)
            for field, value, message in (
                ("image", "/etc/passwd", "'/etc/passwd'"),
                ("asks", "all", "'asks': .*single, several, reasoning.*'all'"),
                ("boxes", [[3, 3, 1, 9]], "left < right"),
                ("boxes", [[1, 2, 3]], "'boxes'"),
                ("boxes", [], "'boxes' and 'masks'"),
                ("masks", [{"size": [2, 2], "counts": [1]}], "'masks'"),
                ("level", None, "'level': .*str.*None"),
                ("level", 3, "'level': .*str.*3"),
            )
        ),
    ],
)
def test_a_field_that_is_wrong_is_named_with_its_line(build, place, name, field, value, message):
    path, records = place(name)
    if "options" in field or field == "answer":
        records[1]["options"] = ["yes", "no"]
    records[1][field] = value
    write(path, records)
    task = build(name, path.parents[2])
    with pytest.raises(DataError, match=message) as raised:
        list(task.samples())
    assert "line 2" in str(raised.value) or "/" in message
    (problem,) = task.check()
    assert re.search(message, problem.message)


@pytest.mark.parametrize(
    "line",
    [
        b"[]",
        b"3",
        b'{"id": 3}',
        b'{"id": "a", "id": "b"}',
        b"\xff",
        b'{"id": "\\ud800"}',
        b'{"id": "x", "answer": NaN}',
        b"[" * 99999,
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_a_line_that_is_no_record_is_refused(build, place, name, line):
    path, _ = place(name)
    path.write_bytes(line + b"\n" + path.read_bytes())
    task = build(name, path.parents[2])
    with pytest.raises(DataError, match="line 1"):
        list(task.samples())
    assert len(list(task.check())) == 1


@pytest.mark.parametrize("name", NAMES)
def test_missing_files_are_listed(build, place, name):
    path, _ = place(name)
    gone = sorted(path.parent.rglob("*.jpg"))[-2:]
    for image in gone:
        image.unlink()
    task = build(name, path.parents[2])
    assert [problem.path for problem in task.check()] == [str(image) for image in gone]
    lost = [one for one in task.samples() if one.query.media[0].fault]
    assert lost and all(
        str(gone[0]) in str(one.query.media[0].fault)
        or str(gone[1]) in str(one.query.media[0].fault)
        for one in lost
    )
    path.unlink()
    assert [problem.path for problem in task.check()] == [str(path)]
    with pytest.raises(DataError, match=r"questions\.jsonl: "):
        list(task.samples())


@pytest.mark.parametrize("name", NAMES)
def test_the_check_goes_on_after_a_bad_line(build, place, name):
    path, lines = place(name)
    del lines[2]["question"]
    write(path, lines)
    path.write_text("no JSON\n" + path.read_text("utf-8"), encoding="utf-8")
    first, second = build(name, path.parents[2]).check()
    assert "line 1: " in first.message and "line 4: " in second.message
    assert first.path == second.path == str(path)


@pytest.mark.parametrize("name", NAMES)
def test_no_questions_and_endless_lines_are_told(build, place, name):
    path, _ = place(name)
    path.write_bytes(b"\n\n")
    assert next(iter(build(name, path.parents[2]).check())).path == str(path)
    path.write_bytes(b"x" * (MAX_LINE_BYTES + 1))
    with pytest.raises(DataError, match=rf"questions\.jsonl, line 1: .*{MAX_LINE_BYTES} bytes"):
        list(build(name, path.parents[2]).samples())


def test_frames_of_different_sizes_are_told(build, place):
    path, records = place("shapes_qa")
    moving = next(one for one in records if len(one["frames"]) > 1)
    Image.new("RGB", (9, 9)).save(path.parent / moving["frames"][3])
    (problem,) = build("shapes_qa", path.parents[2]).check()
    assert "sizes" in problem.message


def test_masks_of_another_size_than_the_image_are_refused(build, place):
    path, records = place("shapes_referring")
    Image.new("RGB", (9, 9)).save(path.parent / records[0]["image"])
    task = build("shapes_referring", path.parents[2])
    with pytest.raises(DataError, match=rf"{records[0]['image']}.*{records[0]['id']}.*\(9, 9\)"):
        list(task.samples())
    assert len(list(task.check())) == 1


def test_masks_of_a_second_question_on_an_image_are_checked_too(build, place):
    path, (first, *_) = place("shapes_referring")
    mask = Rle.from_array(np.ones((9, 9), bool)).to_json()
    other = {"id": "other", "asks": "single", "boxes": [[0, 0, 9, 9]], "masks": [mask]}
    write(path, [first, {**first, **other}])
    (problem,) = build("shapes_referring", path.parents[2]).check()
    assert problem.path == "question 'other'" and "(9, 9)" in problem.message


# Scoring choices and numbers


@pytest.fixture(scope="module")
def asked(query):
    def made(**answer):
        form = AnswerForm.CHOICE if "choice" in answer else AnswerForm.NUMBER
        return Sample(
            id="s", query=query(0, form, size=(4, 4)), target=Target(answer=Answer(**answer))
        )

    return made


def test_choices_are_right_by_their_letter(asked, numbers):
    pairs = [(asked(choice="B"), Answer(choice=output)) for output in ("B", " b", "A", "BC")]
    pairs += [(asked(choice="B"), None), (asked(choice="B"), Answer(text="B"))]
    scored = numbers(EXACT, pairs)
    assert scored["accuracy"] == scored["choice_accuracy"] == 2 / 6
    assert scored["MRA"] is None and scored["number_within_10"] is None


@pytest.mark.parametrize(
    ("said", "within", "mra"),
    [
        (20.0, 1, 1.0),
        (22.0, 1, 0.9),
        (18.0, 1, 0.9),
        (22.1, 0, 0.8),
        (17.9, 0, 0.8),
        (31.0, 0, 0.0),
        (-20.0, 0, 0.0),
        (float("nan"), 0, 0.0),
        (float("inf"), 0, 0.0),
    ],
)
def test_numbers_are_right_within_a_tenth(asked, numbers, said, within, mra):
    scored = numbers(EXACT, [(asked(number=20.0), Answer(number=said))])
    assert scored["accuracy"] == scored["number_within_10"] == within
    assert scored["MRA"] == pytest.approx(mra) and scored["choice_accuracy"] is None


def test_no_answer_counts_as_a_wrong_one_and_a_count_is_a_number(asked, numbers):
    three, letter = asked(number=3.0), Answer(choice="A")
    pairs = [(three, Answer(count=3)), (three, None), (three, letter)]
    pairs.append((asked(choice="A"), letter))
    scored = numbers(EXACT, pairs)
    assert scored["accuracy"] == 2 / 4 and scored["number_within_10"] == 1 / 3
    assert scored["MRA"] == 1 / 3 and scored["choice_accuracy"] == 1.0
    assert number_of(None) is None and number_of(Answer(number=2, count=3)) == 2.0
    assert is_within(77, 70) and is_within(63, 70) and not is_within(78, 70)


# Scoring masks and boxes

ONE, TWO = Box(1, 1, 5, 5), Box(7, 1, 9, 5)


def mask(*boxes):
    drawn = np.zeros((6, 12), bool)
    for left, top, right, bottom in boxes:
        drawn[int(top) : int(bottom), int(left) : int(right)] = True
    return Rle.from_array(drawn)


@pytest.fixture(scope="module")
def meant(query):
    def made(*boxes, asks="single"):
        return Sample(
            id="s",
            query=query(0, AnswerForm.MASK, size=(6, 12)),
            target=Target(answer=Answer(masks=(mask(*boxes),), boxes=boxes)),
            categories={"asks": asks},
        )

    return made


@pytest.mark.parametrize(
    ("boxes", "accuracy", "f1"),
    [
        ((ONE,), 1, 1.0),
        ((Box(1, 1, 5, 3),), 1, 1.0),  # an IoU of a half is enough
        ((Box(1, 1, 5, 2.9),), 0, 0.0),
        ((ONE, TWO), 0, 2 / 3),  # one too many
        ((ONE, ONE), 0, 2 / 3),  # the same box twice
        ((), 0, 0.0),
        (None, 1, 1.0),  # no boxes: those of the mask
    ],
)
def test_a_single_thing_is_found_by_exactly_one_box(meant, numbers, boxes, accuracy, f1):
    answer = Answer(masks=(mask(ONE),), boxes=boxes)
    scored = numbers(SCORING, [(meant(ONE), answer)])
    assert scored["box_accuracy@0.5"] == accuracy and scored["box_f1@0.5"] == f1
    assert scored["gIoU"] == pytest.approx(1.0, abs=2e-5) and scored["cIoU"] == pytest.approx(1.0)


@pytest.mark.parametrize("asks", ["several", "reasoning"])
def test_box_accuracy_is_over_single_things_only(meant, numbers, asks):
    several = meant(ONE, TWO, asks=asks)
    answers = [Answer(masks=(mask(ONE),)), Answer(masks=(mask(ONE, TWO),), boxes=(TWO, ONE))]
    scored = numbers(SCORING, [(several, answer) for answer in answers])
    assert scored["box_accuracy@0.5"] is None
    assert scored["box_f1@0.5"] == pytest.approx((2 / 3 + 1) / 2)
    assert scored["gIoU"] == pytest.approx((16 / 24 + 1) / 2, abs=2e-5)
    assert scored["cIoU"] == pytest.approx(40 / 48)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        Answer(no_target=True),
        Answer(masks=(mask(),)),
        Answer(masks=(mask(ONE),), boxes=(ONE,), no_target=True),
    ],
)
def test_no_answer_and_no_target_are_an_empty_mask_and_no_box(meant, numbers, answer):
    scored = numbers(SCORING, [(meant(ONE), answer)])
    assert scored == {"gIoU": 0.0, "cIoU": 0.0, "box_accuracy@0.5": 0.0, "box_f1@0.5": 0.0}


def test_boxes_are_matched_one_to_one_for_as_many_as_possible():
    wide, narrow = Box(0, 0, 10, 10), Box(0, 0, 10, 6)
    assert count_found([wide, narrow], [narrow, Box(0, 0, 10, 5)]) == 2, "greedily it would be one"
    assert count_found([], []) == count_found([wide], []) == count_found([], [wide]) == 0
    assert count_found([wide] * 3, [wide] * 2) == 2


def test_pieces_of_a_mask_join_by_corners():
    assert piece_boxes(mask(Box(0, 0, 2, 2), Box(2, 2, 4, 4))) == (Box(0, 0, 4, 4),)
    assert set(piece_boxes(mask(TWO, ONE))) == {ONE, TWO}
    assert piece_boxes(mask()) == ()


def test_a_perfect_answer_from_the_journal_keeps_its_boxes(build, data):
    for sample in build("shapes_referring", data).samples():
        output = Prediction(query_id=sample.query.id, answer=sample.target.answer)
        scores = SCORING.score([sample], [prediction_from_json(prediction_to_json(output))])
        assert scores["box_f1@0.5"].value == 1.0
