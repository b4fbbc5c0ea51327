"""Benchmarks from a table and a TOML file: every form of answer, every convention, mistakes."""

import base64
import json
import re
import tomllib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from harness.errors import DataError, UsageError
from harness.masks import Rle
from harness.tasks.table.description import CHECK
from harness.tasks.table.draft import draft
from harness.tasks.table.task import table
from harness.types import Answer, Box, Interval, Prediction

COLOURS = ("red", "green", "blue")
WIDTH, HEIGHT = 64, 48
SQUARE = (8, 12, 40, 36)
MINE = {
    "media": {"images": "image", "folder": "images"},
    "question": {"text": "question"},
}


def images(root):
    (root / "images").mkdir(exist_ok=True)
    for colour in COLOURS:
        Image.new("RGB", (WIDTH, HEIGHT), colour).save(root / "images" / f"{colour}.png")


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def toml(plain, prefix=()):
    """A TOML text of nested tables."""
    flat = {key: value for key, value in plain.items() if not isinstance(value, dict)}
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in flat.items())
    for key, value in plain.items():
        if isinstance(value, dict):
            text += f"[{'.'.join((*prefix, key))}]\n" + toml(value, (*prefix, key))
    return text


def bench(root, rows, **description):
    """A table of rows with images, and its description; returns the table's path."""
    images(root)
    path = lines(root / "mine.jsonl", rows)
    plain = {"name": "mine", **MINE, **description}
    (root / "mine.toml").write_text(toml(plain), encoding="utf-8")
    return path


def row(answer, number=0, **fields):
    return {"image": f"{COLOURS[number]}.png", "question": "Which?", "answer": answer, **fields}


def answers(path, **arguments):
    task = table(path.parent, file=path, **arguments)
    return [sample.target.answer for sample in task.samples()]


def perfect(task):
    """The headline of the ground truth as predictions, sample by sample."""
    scores = []
    for sample in task.samples():
        prediction = Prediction(query_id=sample.query.id, answer=sample.target.answer)
        scores.append(task.protocol.score([sample], [prediction]))
    return scores


OPTIONS = {"options": ["left", "right"]}
CHOICES = {"question": {**MINE["question"], "options": "options"}}


@pytest.mark.parametrize(
    ("written", "value", "letter"),
    [
        ("letter", "B", "B"),
        ("marked", "(B) right", "B"),
        ("place", 1, "B"),
        ("place", "0", "A"),
        ("place_from_1", 1, "A"),
        ("place_from_1", "2", "B"),
        ("option", "right", "B"),
    ],
)
def test_a_choice_is_read_as_it_is_written(written, value, letter, tmp_path):
    answer = {"form": "choice", "field": "answer", "written": written}
    path = bench(tmp_path, [row(value, **OPTIONS)], **CHOICES, answer=answer)
    assert answers(path) == [Answer(choice=letter)]


@pytest.mark.parametrize(("written", "value"), [("place_from_1", 0), ("place", 2), ("letter", "C")])
def test_a_choice_beyond_the_options_is_refused(written, value, tmp_path):
    answer = {"form": "choice", "field": "answer", "written": written}
    path = bench(tmp_path, [row(value, **OPTIONS)], **CHOICES, answer=answer)
    with pytest.raises(DataError, match="line 1"):
        answers(path)


LEFT, TOP, RIGHT, BOTTOM = SQUARE
SPELLINGS = {
    ("xyxy", "pixels"): list(SQUARE),
    ("xywh", "pixels"): [LEFT, TOP, RIGHT - LEFT, BOTTOM - TOP],
    ("cxcywh", "pixels"): [(LEFT + RIGHT) / 2, (TOP + BOTTOM) / 2, RIGHT - LEFT, BOTTOM - TOP],
    ("xyxy", "relative"): [LEFT / WIDTH, TOP / HEIGHT, RIGHT / WIDTH, BOTTOM / HEIGHT],
    ("xyxy", "thousandths"): [125, 250, 625, 750],
}


@pytest.mark.parametrize(("convention", "sides"), SPELLINGS.items())
@pytest.mark.parametrize("as_text", [False, True])
def test_a_box_is_read_in_its_convention(convention, sides, as_text, tmp_path):
    written, coordinates = convention
    answer = {"form": "boxes", "field": "answer", "written": written, "coordinates": coordinates}
    value = json.dumps(sides) if as_text else sides
    assert answers(bench(tmp_path, [row(value)], answer=answer)) == [
        Answer(boxes=(Box(*map(float, SQUARE)),))
    ]


NAMED = {
    "xyxy": {"xmin": LEFT, "xmax": RIGHT, "ymin": TOP, "ymax": BOTTOM},
    "xywh": {"Y": TOP, "X": LEFT, "Height": BOTTOM - TOP, "Width": RIGHT - LEFT},
}


@pytest.mark.parametrize("written", NAMED)
def test_the_sides_of_a_box_are_read_by_their_names(written, tmp_path):
    answer = {"form": "boxes", "field": "answer", "written": written}
    assert answers(bench(tmp_path, [row([NAMED[written]])], answer=answer)) == [
        Answer(boxes=(Box(*map(float, SQUARE)),))
    ]
    other_order = NAMED["xywh" if written == "xyxy" else "xyxy"]
    for wrong in (other_order, {**NAMED[written], "label": 3}):
        with pytest.raises(DataError, match="names such as"):
            answers(bench(tmp_path, [row(wrong)], answer=answer))


MIDDLE = ((LEFT + RIGHT) / 2, (TOP + BOTTOM) / 2)
EXTENT = (RIGHT - LEFT, BOTTOM - TOP)


@pytest.mark.parametrize(
    ("names", "written", "sides"),
    [
        ("x0 y0 x1 y1", "xyxy", SQUARE),
        ("xtl ytl xbr ybr", "xyxy", SQUARE),
        ("x_1 y_1 x_2 y_2", "xyxy", SQUARE),
        ("a b c d", "xyxy", SQUARE),
        ("x_min y_min width height", "xywh", (LEFT, TOP, *EXTENT)),
        ("x0 y0 w h", "xywh", (LEFT, TOP, *EXTENT)),
        ("center_x center_y width height", "cxcywh", (*MIDDLE, *EXTENT)),
        ("xc yc w h", "cxcywh", (*MIDDLE, *EXTENT)),
    ],
)
def test_sides_of_a_box_have_many_names(names, written, sides, tmp_path):
    answer = {"form": "boxes", "field": "answer", "written": written}
    box = dict(zip(names.split(), sides, strict=True))
    read = [Answer(boxes=(Box(*map(float, SQUARE)),))]
    assert answers(bench(tmp_path, [row(box)], answer=answer)) == read


@pytest.mark.parametrize("names", ["x0 y0 x1 y1", "x_center y_center w h", "w h a b"])
def test_sides_named_for_another_order_are_refused(names, tmp_path):
    answer = {"form": "boxes", "field": "answer", "written": "xywh"}
    box = dict(zip(names.split(), (LEFT, TOP, *EXTENT), strict=True))
    with pytest.raises(DataError, match="names such as"):
        answers(bench(tmp_path, [row(box)], answer=answer))


def test_a_box_outside_its_image_asks_for_the_convention(tmp_path):
    answer = {"form": "boxes", "field": "answer", "written": "xywh"}
    with pytest.raises(DataError, match="another order"):
        answers(bench(tmp_path, [row([8, 14, 60, 40])], answer=answer))


def corners():
    return [LEFT, TOP, RIGHT, TOP, RIGHT, BOTTOM, LEFT, BOTTOM]


FORMS = {
    "number": (2.5, {}, Answer(number=2.5)),
    "count": ("3", {}, Answer(count=3)),
    "text": (["cat", "a cat"], {}, Answer(text="cat")),
}


@pytest.mark.parametrize("form", FORMS)
def test_plain_answers(form, tmp_path):
    value, keys, expected = FORMS[form]
    path = bench(tmp_path, [row(value)], answer={"form": form, "field": "answer", **keys})
    assert answers(path) == [expected]


def test_further_right_texts_count(tmp_path):
    path = bench(tmp_path, [row(["cat", "a cat"])], answer={"form": "text", "field": "answer"})
    task = table(tmp_path, file=path)
    (sample,) = task.samples()
    said = Prediction(query_id=sample.query.id, answer=Answer(text="A cat."), responses=("A cat.",))
    assert task.protocol.score([sample], [said])["accuracy"].value == 1.0


@pytest.mark.parametrize("value", [corners(), [corners()], json.dumps([corners()])])
def test_a_mask_of_polygons(value, tmp_path):
    answer = {"form": "mask", "field": "answer", "written": "coco"}
    path = bench(tmp_path, [row(value)], answer=answer)
    (truth,) = answers(path)
    assert truth.masks[0].area == (RIGHT - LEFT) * (BOTTOM - TOP)
    assert [scores["gIoU"].value for scores in perfect(table(tmp_path, file=path))] == [1.0]


def test_a_mask_of_an_image(tmp_path):
    answer = {"form": "mask", "field": "answer", "written": "image"}
    path = bench(tmp_path, [row("mask.png")], answer=answer)
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    mask[TOP:BOTTOM, LEFT:RIGHT] = 255
    Image.fromarray(mask).save(tmp_path / "images" / "mask.png")
    assert answers(path)[0].masks == (Rle.from_array(mask > 0),)


def test_points_count_inside_of_boxes(tmp_path):
    answer = {"form": "points", "field": "answer", "written": "xyxy"}
    path = bench(tmp_path, [row(list(SQUARE))], answer=answer)
    task = table(tmp_path, file=path)
    (sample,) = task.samples()
    for point, expected in (([10, 15], 1.0), ([2, 2], 0.0)):
        said = Prediction(query_id=sample.query.id, answer=Answer(points=(tuple(point),)))
        assert task.protocol.score([sample], [said])["accuracy"].value == expected


@pytest.mark.parametrize(
    ("written", "value"), [("seconds", [1, 2.5]), ("milliseconds", [1000, 2500])]
)
def test_an_interval_of_a_video(written, value, tmp_path):
    answer = {"form": "interval", "field": "answer", "written": written}
    media = {"video": "clip", "folder": "."}
    path = bench(tmp_path, [{**row(value), "clip": "images"}], media=media, answer=answer)
    assert answers(path) == [Answer(interval=Interval(1.0, 2.5))]


def test_splits_and_filters(tmp_path):
    path = bench(
        tmp_path,
        [row(1, kind="a"), row(2, kind="b")],
        files={"val": "mine.jsonl", "test": "other.jsonl"},
        question={"text": "question", "where": {"kind": ["b"]}, "categories": {"kind": "kind"}},
        answer={"form": "count", "field": "answer"},
    )
    assert answers(path, split="val") == [Answer(count=2)]
    assert answers(path.with_suffix(".toml"), split="val") == [Answer(count=2)]
    with pytest.raises(UsageError, match="val"):
        answers(path, split="train")


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_records_that_are_left_out_may_lack_fields(suffix, tmp_path):
    images(tmp_path)
    rows = [{"image": "red.png", "task": "tvg"}, {**row(2), "task": "count"}]
    path = tmp_path / f"mine{suffix}"
    if suffix == ".jsonl":
        lines(path, rows)
    else:
        pq.write_table(
            pa.Table.from_pylist([{**rows[1], **rows[0], "answer": None}, rows[1]]), path
        )
    plain = {"name": "mine", **MINE, "answer": {"form": "count", "field": "answer"}}
    plain["question"] = {"text": "question", "where": {"task": "count"}}
    (tmp_path / "mine.toml").write_text(toml(plain), encoding="utf-8")
    assert answers(path) == [Answer(count=2)]
    plain["question"]["where"] = {"task": ["count", "tvg"]}
    (tmp_path / "mine.toml").write_text(toml(plain), encoding="utf-8")
    with pytest.raises(DataError, match="question" if suffix == ".jsonl" else "answer"):
        answers(path)


PATTERNS = {
    "a number": ({"image_id": 7}, "{image_id}.png", "7.png"),
    "a folder": ({"id": "x"}, "{id}/image.png", "x/image.png"),
    "COCO's number": ({"image_id": 7}, "{image_id:012}.png", "000000000007.png"),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_names_images_and_masks(name, tmp_path):
    fields, pattern, file = PATTERNS[name]
    for folder in ("images", "images/masks"):
        (tmp_path / folder / file).parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (WIDTH, HEIGHT), "red").save(tmp_path / "images" / file)
    mask = np.zeros((HEIGHT, WIDTH), bool)
    mask[4:20, 4:20] = True
    Image.fromarray(mask).save(tmp_path / "images/masks" / file)
    path = lines(tmp_path / "mine.jsonl", [{**fields, "question": "Which?"}])
    media = {"images": pattern, "folder": "images"}
    answer = {"form": "mask", "field": f"masks/{pattern}", "written": "image"}
    text = toml({"name": "mine", **MINE, "media": media, "answer": answer})
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    assert answers(path)[0].masks == (Rle.from_array(mask),)


@pytest.mark.parametrize(
    ("cell", "files", "images_are"),
    [
        (7, ["7.jpg"], "{image_id}.jpg"),
        (7, ["000000000007.jpg"], "{image_id:012}.jpg"),
        ("7", ["7.png"], "{image_id}.png"),
    ],
)
def test_a_draft_finds_images_named_by_numbers(cell, files, images_are, tmp_path):
    (tmp_path / "val").mkdir()
    for file in files:
        Image.new("RGB", (WIDTH, HEIGHT)).save(tmp_path / "val" / file)
    path = lines(tmp_path / "m.jsonl", [{"image_id": cell, "question": "Who?", "answer": "Ann"}])
    described = draft(path)
    assert described.media == {"images": images_are, "folder": "val"} and not described.doubts
    (tmp_path / "m.toml").write_text(described.toml("m"), encoding="utf-8")
    assert not list(table(tmp_path, file=path).check())


def test_a_draft_asks_for_images_named_by_numbers_that_are_not_there(tmp_path):
    path = lines(tmp_path / "m.jsonl", [{"image_id": 7, "question": "Who?", "answer": "Ann"}])
    assert "{image_id}.jpg" in draft(path).doubts["media.images"]


def test_a_gif_is_refused_as_a_video_with_a_command(tmp_path):
    frames = [Image.new("RGB", (8, 8), (20 * number, 0, 0)) for number in range(3)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    path = lines(tmp_path / "mine.jsonl", [{"gif": "a", "question": "How many?", "answer": 3}])
    plain = {"name": "mine", "question": MINE["question"], "media": {"video": "{gif}.gif"}}
    plain["answer"] = {"form": "count", "field": "answer"}
    (tmp_path / "mine.toml").write_text(toml(plain), encoding="utf-8")
    (problem,) = table(tmp_path, file=path).check()
    assert "ffmpeg -i a.gif a.mp4" in problem.message


def test_a_pattern_words_the_question(tmp_path):
    question = {"text": "{hint}\n{question}"}
    rows = [row(1, hint="Look up."), row(1, number=1, hint=None)]
    answer = {"form": "count", "field": "answer"}
    path = bench(tmp_path, rows, question=question, answer=answer)
    texts = [sample.query.text for sample in table(tmp_path, file=path).samples()]
    assert texts == ["Look up.\nWhich?", "Which?"]


def test_a_protocol_of_another_benchmark(tmp_path):
    answer = {"form": "choice", "field": "answer", "written": "letter"}
    scoring = {"protocol": "mmsi_bench:mmsi/official"}
    path = bench(tmp_path, [row("A", **OPTIONS)], **CHOICES, answer=answer, scoring=scoring)
    assert table(tmp_path, file=path).protocol.name == "mmsi/official"


BROKEN = {
    "an unknown key": ({"answer": {"form": "count", "feild": "answer"}}, "feild"),
    "an unknown form": ({"answer": {"form": "letter", "field": "answer"}}, "'choice'"),
    "no convention": ({"answer": {"form": "boxes", "field": "answer"}}, "'xyxy' or 'xywh'"),
    "choices without options": (
        {"answer": {"form": "choice", "field": "answer", "written": "letter"}},
        "options = FIELD",
    ),
    "images and a video": (
        {"media": {"images": "a", "video": "b"}, "answer": {"form": "text", "field": "answer"}},
        "found both",
    ),
    "a name that begins with a digit": (
        {"name": "4_count", "answer": {"form": "count", "field": "answer"}},
        "no digit first",
    ),
    "a field that no record has": (
        {"question": {"text": "asked"}, "answer": {"form": "count", "field": "answer"}},
        "no asked",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_mistake_in_the_description_is_named(name, tmp_path):
    description, words = BROKEN[name]
    with pytest.raises(DataError, match=re.escape(words)):
        answers(bench(tmp_path, [row(1)], **description))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"image": "gone.png"}, "gone.png"),
        ({"image": "https://x.invalid/a.png"}, "Download"),
        ({"image": None}, "image"),
        ({"image": "../mine.toml"}, "mine.toml"),
        ({"question": ""}, "text"),
        ({"answer": "three"}, "number"),
        ({"answer": -1}, "number"),
    ],
)
def test_a_mistake_in_a_record_is_named_with_its_line(fields, words, tmp_path):
    answer = {"form": "count", "field": "answer"}
    path = bench(tmp_path, [row(1), {**row(1), **fields}], answer=answer)
    problems = list(table(tmp_path, file=path).check())
    assert len(problems) == 1
    told = f"{problems[0].path} {problems[0].message}"
    assert words in told and ("line 2" in told or "'1'" in told)


def test_a_table_without_a_description_says_how_to_get_one(tmp_path):
    path = lines(tmp_path / "mine.jsonl", [row(1)])
    with pytest.raises(DataError, match="harness data init"):
        table(tmp_path, file=path)


def test_what_a_draft_cannot_know_is_marked(tmp_path):
    images(tmp_path)
    path = lines(tmp_path / "mine.jsonl", [row(1, options=["a", "b", "c"])])
    text = draft(path).toml("mine")
    assert text.count(f"# {CHECK}") == 1 and "place_from_1" in text
    assert tomllib.loads(text)["answer"]["written"] == "place"


def test_an_image_in_base64_is_the_image(tmp_path):
    images(tmp_path)
    code = base64.b64encode((tmp_path / "images" / "red.png").read_bytes()).decode()
    path = bench(
        tmp_path, [row(1), {**row(1), "image": code}], answer={"form": "count", "field": "answer"}
    )
    one, two = (sample.query.media[0].frame(0) for sample in table(tmp_path, file=path).samples())
    assert np.array_equal(one, two)


def test_options_that_became_dates_are_marked(tmp_path):
    images(tmp_path)
    path = tmp_path / "mine.csv"
    path.write_text("image,question,A,B,answer\nred.png,How many?,2-Jan,5-Mar,A\n", "utf-8")
    text = draft(path).toml("mine")
    assert re.search(rf"^options = .*# {CHECK}: '2-Jan'", text, re.MULTILINE)
