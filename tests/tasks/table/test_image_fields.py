"""Tables in which records have different numbers of images, or none."""

import csv
import io
import json
import re
import shutil
import subprocess

import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from harness.dataset_facts import check_task
from harness.errors import DataError
from harness.tasks.table.draft import draft
from harness.tasks.table.task import table

needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")


def written(path, rows):
    """Write a table of questions and the images `a.png` to `d.png`."""
    for number, name in enumerate("abcd"):
        Image.new("RGB", (8 + number, 8)).save(path.parent / f"{name}.png")
    rows = [{"question": f"{n}?", "answer": "a cat", **row} for n, row in enumerate(rows)]
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
            writer.writeheader()
            writer.writerows(rows)
        return path
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(json.dumps(rows) if path.suffix == ".json" else lines, encoding="utf-8")
    return path


def described(path, text=None):
    """Return the table with a description: by default its draft, without what is to be checked."""
    plain = draft(path).toml("mine") if text is None else text
    path.with_suffix(".toml").write_text(re.sub(r"  # CHECK.*", "", plain), encoding="utf-8")
    return table(path.parent, file=path)


def widths(path):
    """Return the widths of each sample's images, by the sample's question."""
    samples = described(path).samples()
    return {s.query.text: [medium.size[0] for medium in s.query.media] for s in samples}


SEVERAL = [
    {"image_1": "a.png", "image_2": "b.png", "image_3": "c.png"},
    {"image_1": "b.png"},
    {"image_1": "c.png", "image_2": "a.png"},
]
WIDTHS = {"0?": [8, 9, 10], "1?": [9], "2?": [10, 8]}


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".csv"])
@pytest.mark.parametrize("first", [0, 1, 2])
def test_a_record_may_lack_images_that_others_have(first, suffix, tmp_path):
    order = [SEVERAL[first], *SEVERAL[:first], *SEVERAL[first + 1 :]]
    expected = [WIDTHS[f"{SEVERAL.index(row)}?"] for row in order]
    path = written(tmp_path / f"t{suffix}", order)
    assert draft(path).media["images"] == ["image_1", "image_2", "image_3"]
    assert list(widths(path).values()) == expected


TEXT = """name = "mine"
[media]
images = {images}
[question]
text = "question"
[answer]
form = "text"
field = "answer"
"""


def test_a_field_of_images_that_no_record_has_is_refused(tmp_path):
    path = written(tmp_path / "t.jsonl", SEVERAL)
    text = TEXT.format(images='["image_1", "imag_2", "image_2", "image_3"]')
    with pytest.raises(DataError, match="no imag_2"):
        list(described(path, text).samples())


def test_an_image_in_a_further_field_is_refused(tmp_path):
    path = written(tmp_path / "t.jsonl", SEVERAL)
    text = TEXT.format(images='["image_1", "image_2"]')
    with pytest.raises(DataError, match="image_3"):
        list(described(path, text).samples())


def test_an_image_in_a_further_column_of_parquet_is_refused(tmp_path):
    rows = written(tmp_path / "t.json", SEVERAL).read_text(encoding="utf-8")
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.Table.from_pylist(json.loads(rows)), path)
    text = TEXT.format(images='["image_1", "image_2"]')
    with pytest.raises(DataError, match="one in 'image_3'"):
        list(described(path, text).samples())


KINDS = [
    {"kind": "1", "image": "a.png", "topic": "x"},
    {"kind": "2", "image": "b.png", "topic": "y"},
    {"kind": "1", "image": "c.png", "topic": "x"},
    {"kind": "0", "image": None, "topic": "x"},
]


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".csv"])
def test_records_without_an_image_are_left_out_by_the_field_that_says_so(suffix, tmp_path):
    path = written(tmp_path / f"t{suffix}", KINDS)
    description = draft(path)
    assert description.question["where"] == {"kind": ["1", "2"]}
    assert "1 of the first 4" in description.doubts["question.where"]
    assert widths(path) == {"0?": [8], "1?": [9], "2?": [10]}


def test_a_record_without_an_image_is_refused_with_what_leaves_it_out(tmp_path):
    path = written(tmp_path / "t.jsonl", KINDS)
    text = TEXT.format(images='"image"')
    with pytest.raises(DataError, match="at least one image") as error:
        list(described(path, text).samples())
    typed = re.search(r"`(where = .*?)`", str(error.value))[1]
    text = text.replace("[answer]", f"{typed}\n[answer]")
    assert [sample.query.text for sample in described(path, text).samples()] == ["0?", "1?", "2?"]


def test_what_leaves_records_out_keeps_the_values_that_are_stated(tmp_path):
    path = written(tmp_path / "t.jsonl", [*KINDS, {"kind": "3", "image": "d.png", "topic": "z"}])
    text = TEXT.format(images='"image"').replace("[answer]", 'where = {topic = ["x"]}\n[answer]')
    with pytest.raises(DataError, match="at least one image") as error:
        list(described(path, text).samples())
    typed = re.search(r"`(where = .*?)`", str(error.value))[1]
    text = re.sub(r"where = .*", lambda _: typed, text)
    assert [sample.query.text for sample in described(path, text).samples()] == ["0?", "2?"]


@needs_jq
@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_records_without_an_image_that_no_field_tells_apart_have_a_command(suffix, tmp_path):
    rows = [{"image": name, "question": "Who? " * 20} for name in ("a.png", None, "", "b.png")]
    path = written(tmp_path / f"t{suffix}", rows)
    assert "where" not in draft(path).question
    doubt = draft(path).doubts["media.images"]
    command = re.search(r"`(.*?)`", doubt, re.DOTALL)[1]
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    new_table = (tmp_path / "NEW").rename(tmp_path / "made.jsonl")
    assert [sample.query.media[0].size[0] for sample in described(new_table).samples()] == [8, 9]


def test_the_check_names_the_line_and_field_of_an_image_that_is_not_there(tmp_path):
    path = written(tmp_path / "t.jsonl", [{"image": "a.png"}, {"image": "b.png"}])
    (tmp_path / "b.png").unlink()
    (problem,) = check_task("t", described(path), tmp_path, "ends")["problems"]
    assert problem["path"] == f"{path}, line 2, question '1': 'image'"


@pytest.mark.parametrize("format", ["JPEG", "PNG"])
def test_the_check_finds_an_image_within_the_table_that_is_cut_off(format, tmp_path):
    rows = []
    for cut in (None, -40):
        file = io.BytesIO()
        Image.effect_noise((64, 64), 80).convert("RGB").save(file, format)
        image = {"bytes": file.getvalue()[:cut], "path": "a"}
        rows.append({"image": image, "question": f"Is {cut} here?", "answer": "a cat"})
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.Table.from_pylist(rows), path)
    (problem,) = check_task("t", described(path), tmp_path, "ends")["problems"]
    assert "question '1': expected a complete image" in problem["message"]
