"""Tables of counting: rows that are lost are left out and recorded, wrong ones are told."""

import pytest

from harness.errors import DataError
from harness.model import Model
from harness.run.evaluate import evaluate
from harness.run.options import Options
from harness.types import Answer, Prediction

COPY = "counting_pixmo_validation/data/test-00000-of-00001.parquet"
CAPTIONS = "countbench/data/train-{}.parquet"


def row(number, image, **changes):
    made = {"image": image, "text": " How many? ", "image_id": f"id{number}", "count": 3}
    return {**made, **changes}


class Three(Model):
    """Says 3."""

    name, batch_size = "three", 4

    def describe(self):
        return {}

    def predict(self, queries):
        return [Prediction(query_id=query.id, answer=Answer(count=3)) for query in queries]


@pytest.mark.parametrize("lost", [None, {"bytes": None, "path": "gone.png"}])
def test_rows_without_an_image_are_left_out_and_recorded(build, table, image, tmp_path, lost):
    shown = {"bytes": image(1), "path": "1.png"}
    table(tmp_path, COPY, [row(0, shown), row(1, lost), row(2, shown), row(3, lost)])
    task = build("counting", tmp_path)
    requested = [(sample.id, sample.query.text) for sample in task.samples()]
    assert requested == [("id0", "How many?"), ("id2", "How many?")]
    assert not list(task.check())
    run = evaluate(task, Three(), tmp_path / "run", Options())
    assert run.manifest["task"]["arguments"]["without_image"] == 2
    assert run.results["n_total"] == 2 and run.results["metrics"]["accuracy"] == 1.0


def test_lost_rows_are_recorded_for_every_list(build, shapes):
    found = {
        split: build(f"counting(split={split})", shapes).arguments["without_image"]
        for split in ("pixmo_val", "pixmo_train", "countbench", "countbenchqa")
    }
    assert found == {"pixmo_val": 0, "pixmo_train": 0, "countbench": 1, "countbenchqa": 0}


def test_images_that_could_not_be_fetched_are_left_out_and_recorded(build, table, image, tmp_path):
    rows = [
        {
            "image_sha256": f"{number:064x}",
            "count": number,
            "label": "cats",
            "points": {"x": [1.0] * number, "y": [2.0] * number} if number else None,
        }
        for number in range(3)
    ]
    table(tmp_path, "pixmo-count/data/train-00000-of-00001.parquet", rows)
    images = tmp_path / "counting" / "pixmo-count" / "images"
    images.mkdir()
    for number in (0, 2):
        (images / f"{number:064x}").write_bytes(image(number))
    task = build("counting(split=pixmo_train)", tmp_path)
    samples = list(task.samples())
    assert [sample.id for sample in samples] == [f"{number:064x}/cats" for number in (0, 2)]
    assert [sample.target.answer.points for sample in samples] == [None, ((1, 2), (1, 2))]
    assert task.arguments["without_image"] == 1 and not list(task.check())


def test_rows_are_numbered_through_all_parts_of_a_list(build, table, image, tmp_path):
    def caption(number):
        cell = {"bytes": image(number), "path": None} if number % 3 else None
        return {"image": cell, "text": f"four cats, image no. {number}", "number": 4}

    table(tmp_path, CAPTIONS.format("00000-of-00002"), [caption(n) for n in range(5)])
    table(tmp_path, CAPTIONS.format("00001-of-00002"), [caption(n) for n in range(5, 9)])
    task = build("counting(split=countbench)", tmp_path)
    samples = list(task.samples())
    assert [sample.id for sample in samples] == ["1", "2", "4", "5", "7", "8"]
    assert task.arguments["without_image"] == 3
    for sample in samples:
        assert sample.query.size == (12, 8 + int(sample.id))


@pytest.mark.parametrize(
    ("name", "spec", "wrong"),
    [
        (COPY, "counting", {"text": None}),
        (COPY, "counting", {"text": " "}),
        (COPY, "counting", {"count": None}),
        (COPY, "counting", {"count": -1}),
        (CAPTIONS.format("0"), "counting(split=countbench)", {"text": None}),
        (CAPTIONS.format("0"), "counting(split=countbench)", {"number": None}),
    ],
)
def test_a_wrong_row_is_an_error_that_names_it(build, table, image, tmp_path, name, spec, wrong):
    right = {
        "image": {"bytes": image(1), "path": "1.png"},
        "text": "three",
        "image_id": "a",
        "count": 3,
        "number": 3,
    }
    rows = [{**right, "image_id": "0"}, {**right, **wrong}, {**right, **wrong, "image_id": "2"}]
    table(tmp_path, name, rows)
    task = build(spec, tmp_path)
    problems = list(task.check())
    assert len(problems) == 2, "every wrong row is listed"
    assert f"row 1: {next(iter(wrong))!r}" in problems[0].message
    with pytest.raises(DataError, match="row 1"):
        list(task.samples())


def test_a_damaged_table_is_told_by_the_check(build, table, image, tmp_path):
    table(tmp_path, COPY, [row(0, {"bytes": image(1), "path": "1.png"})])
    path = tmp_path / "counting" / COPY
    path.write_bytes(path.read_bytes()[:-40])
    task = build("counting", tmp_path)
    (problem,) = task.check()
    assert path.name in problem.message
    assert task.arguments["without_image"] is None
    with pytest.raises(DataError, match=path.name):
        list(task.samples())


def test_a_damaged_image_is_told_by_the_check_and_not_lost(build, table, image, tmp_path):
    right = row(0, {"bytes": image(1), "path": None})
    wrong = [row(n, {"bytes": data, "path": None}) for n, data in ((1, b""), (2, b"GIF8"))]
    table(tmp_path, COPY, [right, *wrong])
    task = build("counting", tmp_path)
    assert ["id1" in one.path or "id2" in one.path for one in task.check()] == [True, True]
    assert task.arguments["without_image"] == 0
    first, *others = task.samples()
    assert first.query.media[0].frame(0).shape == (9, 12, 3)
    for sample, name in zip(others, ("id1", "id2"), strict=True):
        with pytest.raises(DataError, match=name):
            sample.query.media[0].frame(0)
