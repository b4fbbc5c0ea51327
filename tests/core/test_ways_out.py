"""Predictions in another form: the command that the error names makes them what they should be."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from PIL import Image

from harness import media
from harness.errors import DataError
from harness.foreign import from_one, other_encoding, recognise, refuse_list, to_lines
from harness.foreign_lines import command, polygons, way_out
from harness.formats.coco import coco_results
from harness.formats.mask_tree import mask_tree
from harness.interchange.rows import read_rows
from harness.metrics.choices import video_mme_choice
from harness.run.differing import Differing
from harness.run.score import Unread
from harness.types import (
    Answer,
    AnswerForm,
    Failure,
    FailureKind,
    Prediction,
    Query,
    Sample,
    query_id,
)

needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
CHAT = {"choices": [{"message": {"content": [{"type": "text", "text": "B."}]}}]}
COMPLETION = [{"role": "assistant", "content": "B."}]
WHOLE = {
    "OpenCompass": {"7": {"origin_prompt": "Which?", "prediction": "B.", "gold": "A"}},
    "EvalScope in a list": [{"index": 7, "model_output": CHAT}],
    "lines in a list": [{"id": "7", "response": "B."}],
    "a line over several lines": {"id": "7", "response": "B."},
    "question ids in a list": [{"question_id": 7, "text": "B."}],
    "TRL in a list": [{"id": 7, "prompt": "Which?", "completion": "B.", "advantage": 0.1}],
    "TRL with messages": [{"id": "7", "step": 1, "prompt": [], "completion": COMPLETION}],
}


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
@pytest.mark.parametrize("indent", [None, 4])
@pytest.mark.parametrize("name", WHOLE)
def test_json_over_several_lines_has_one_command(name, indent, tmp_path):
    path = tmp_path / "said.json"
    path.write_text(json.dumps(WHOLE[name], indent=indent), encoding="utf-8")
    if name == "a line over several lines" and indent is None:
        assert next(iter(read_rows(path))).id == "7"
        return
    with pytest.raises(DataError) as error:
        list(read_rows(path))
    (typed,) = re.findall(r"`(jq -c .*?) > NEW`", str(error.value))
    done = subprocess.run(shlex.split(typed), cwd=tmp_path, capture_output=True, check=True)
    path.write_bytes(done.stdout)
    (row,) = read_rows(path)
    assert (row.id, row.value) == ("7", "B.")


def test_completions_without_ids_are_named(tmp_path):
    path = tmp_path / "said.jsonl"
    path.write_text('{"step": 1, "prompt": "Which?", "completion": "B."}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"TRL's completions.*\[\"completion\"\]"):
        list(read_rows(path))


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (["v/1", "v/2", "v/10"], ["v/0", "v/1", "v/9"]),
        (["val_01.png", "val_10.png"], ["val_00.png", "val_09.png"]),
    ],
)
def test_the_command_takes_one_from_every_number(found, wanted, tmp_path):
    for name in found:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")
    stems = [[name.removesuffix(".png") for name in names] for names in (found, wanted)]
    pattern = "/".join("*" for _ in found[0].split("/"))
    (typed,) = re.findall(r"`python (.*?)`", from_one(stems[0], {*stems[1]}, pattern))
    subprocess.run([sys.executable, *shlex.split(typed)], cwd=tmp_path, check=True)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {os.fspath(path.relative_to(tmp_path)) for path in files} == {*wanted}
    assert [(tmp_path / new).read_text() for new in wanted] == found


def test_other_names_are_not_numbers_from_one():
    assert not from_one(["1", "2"], {"1", "2"}, "*")
    assert not from_one(["0", "1"], {"0", "2"}, "*")
    assert not from_one(["5"], {"0", "1"}, "*")
    assert not from_one(["a"], {"0"}, "*")


def image_sample(name, width):
    image = media.pixels([np.zeros((4, width, 3), np.uint8)], times=[0.0], is_video=False, id=name)
    query = Query(id=query_id(name), text="it", media=(image,), forms=(AnswerForm.MASK,))
    return Sample(id=name, query=query, target=None)


@pytest.mark.parametrize("widths", [(6, 6, 6), (6, 7, 8)])
def test_masks_that_are_numbered_from_one_are_named(widths, tmp_path):
    samples = [image_sample(f"val_{number}", width) for number, width in enumerate(widths)]
    for number, width in enumerate(widths, start=1):
        Image.fromarray(np.ones((4, width), np.uint8)).save(tmp_path / f"val_{number}.png")
    with pytest.raises(DataError, match="begin with 1 and should with 0"):
        list(mask_tree(Path(tmp_path), samples))


def records(order):
    """Boxes of four categories in ten images, under other numbers; and the samples."""
    asked = [(image, 1 + (image + more) % 4) for image in range(10) for more in (0, 1)]
    bare = image_sample("", 6)
    samples = [replace(bare, id=f"{image}/{category}") for image, category in asked]
    box = {"bbox": [1, 1, 2, 2], "score": 0.9}
    return [
        {"image_id": image, "category_id": order[category - 1], **box} for image, category in asked
    ], samples


def test_categories_in_another_order_are_refused_and_false_ones_are_not(tmp_path):
    path = tmp_path / "said.json"
    found, samples = records((3, 1, 4, 2))
    path.write_text(json.dumps(found), encoding="utf-8")
    with pytest.raises(DataError, match="in another order of the same numbers it would be 0"):
        coco_results(path, samples, requested=())
    right, _ = records((1, 2, 3, 4))
    false = [{**record, "category_id": 1 + record["category_id"] % 4} for record in right]
    path.write_text(json.dumps(right + false), encoding="utf-8")
    assert len(coco_results(path, samples, requested=()).unmatched) == 40


def test_a_file_without_a_readable_response_says_why():
    failure = Failure(FailureKind.PARSE, "count: expected places")
    sample, task, unread = image_sample("0", 4), Mock(), Unread()
    unread.add(task, [sample], [Prediction(query_id="a", failure=failure)])
    assert "expected places" in " ".join(unread.notes())
    unread.add(task, [sample], [Prediction(query_id="a", answer=Answer(count=2))])
    assert not unread.notes()


@pytest.mark.parametrize(("response", "is_noted"), [("ANSWER: D", True), ("Answer: D", False)])
def test_letters_that_the_official_rule_reads_otherwise_are_noted(response, is_noted):
    query = replace(image_sample("0", 4).query, forms=(AnswerForm.CHOICE,), options=tuple("wxyz"))
    protocol = Mock(reads=lambda sample, prediction: video_mme_choice(prediction.responses[0]))
    differing = Differing()
    prediction = Prediction(query_id="a", responses=(response,), answer=Answer(choice="D"))
    sample = Mock(query=query)
    differing.add(Mock(protocol=protocol), [sample], [prediction])
    assert differing.stated == 1 and differing.differing == is_noted
    noted = " ".join(differing.notes("videomme/official"))
    assert ("'ANSWER: D', A in place of D" in noted) == is_noted


def places_made(path):
    """Run the command that a file of predictions is refused with; return each line's value."""
    with pytest.raises(DataError) as error:
        list(read_rows(path))
    command = re.search(r"`(jq .*?)`", str(error.value), re.DOTALL)[1]
    done = subprocess.run(command, shell=True, cwd=path.parent, capture_output=True, check=False)
    if done.returncode:
        return None
    return {row.id: (row.kind, row.value) for row in read_rows(path.parent / "NEW")}


@needs_jq
@pytest.mark.parametrize("id_key", ["id", "question_id"])
@pytest.mark.parametrize("is_list", [True, False])
def test_predicted_boxes_are_read_in_the_order_of_their_line(is_list, id_key, tmp_path):
    rows = [
        {id_key: "a", "pred_bbox": [1, 2, 30, 40], "format": "xyxy"},
        {id_key: "b", "pred_bbox": [1, 2, 30, 40], "format": "xywh"},
        {id_key: "c", "pred_bbox": [[1, 2, 30, 40], [3, 4, 5, 6]], "format": "xywh"},
        {id_key: "d", "pred_bbox": None, "format": "xywh"},
    ]
    path = tmp_path / "p.json"
    lines = "\n".join(map(json.dumps, rows))
    path.write_text(json.dumps(rows) if is_list else lines, encoding="utf-8")
    assert places_made(path) == {
        "a": ("boxes", [[1, 2, 30, 40]]),
        "b": ("boxes", [[1, 2, 31, 42]]),
        "c": ("boxes", [[1, 2, 31, 42], [3, 4, 8, 10]]),
        "d": ("boxes", None),
    }


@needs_jq
@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ({"pred_bbox": [1, 2, 30, 40]}, ("boxes", [[1, 2, 30, 40]])),
        ({"boxes": [[1, 2, 30, 40]], "format": "xywh"}, ("boxes", [[1, 2, 31, 42]])),
        ({"pred_point": [1, 2]}, ("points", [[1, 2]])),
        ({"pred_points": [[1, 2], [3, 4]]}, ("points", [[1, 2], [3, 4]])),
    ],
)
def test_predicted_places_have_a_command(plain, expected, tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"id": "a", **plain}), encoding="utf-8")
    assert places_made(path) == {"a": expected}


@needs_jq
@pytest.mark.parametrize("order", [{"format": "cxcywh"}, {}])
def test_an_order_of_a_box_that_is_not_known_ends_the_command(order, tmp_path):
    path = tmp_path / "p.jsonl"
    rows = [
        {"id": "a", "pred_bbox": [1, 2, 30, 40], "format": "xyxy"},
        {"id": "b", "pred_bbox": [1, 2, 30, 40], **order},
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert places_made(path) is None


@needs_jq
def test_a_later_order_counts_where_the_first_box_has_none(tmp_path):
    path = tmp_path / "p.jsonl"
    rows = [
        {"id": "a", "pred_bbox": [1, 2, 30, 40]},
        {"id": "b", "pred_bbox": [1, 2, 30, 40], "format": "xywh"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert places_made(path)["b"] == ("boxes", [[1, 2, 31, 42]])


def test_no_command_writes_the_file_that_it_reads(tmp_path):
    (tmp_path / "NEW").write_text('{"images": [], "annotations": []}')
    with pytest.raises(DataError) as listed:
        refuse_list(tmp_path / "NEW", b'[{"id": 1', "line 1")
    with pytest.raises(DataError) as data_set:
        coco_results(tmp_path / "NEW", [])
    fixes = [
        *(command(".", "NEW"), polygons("NEW"), to_lines("[]", "NEW"), other_encoding("NEW")),
        *(recognise(b"\xff\xfea", "NEW").fix, way_out({"id": 3, "response": "B"}, "NEW")),
        *(str(listed.value), str(data_set.value)),
    ]
    for fix in fixes:
        typed = re.findall(r"`([^`]* > \S+)`", fix)
        assert typed
        for one in typed:
            read, written = one.rsplit(" > ", 1)
            assert written not in shlex.split(read), one


def test_names_of_new_files_depend_on_what_is_read():
    root = Path(__file__).resolve().parents[2]
    sources = [path for room in ("harness", "tasks") for path in (root / room).rglob("*.py")]
    assert sources
    assert not [path for path in sources if re.search(r"\} > NEW", path.read_text("utf-8"))]
