"""Who obeys a refusal gets the value that was meant, and no other."""

import json
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

from harness.errors import DataError
from harness.foreign_lines import of_line
from harness.formats.entries import Entry
from harness.formats.mask_tree import mask_tree
from harness.formats.matching import match
from harness.formats.units import _times
from harness.interchange.rows import read_rows
from harness.layout.places import refuse_outside
from harness.masks import Rle
from harness.media import pixels
from harness.tasks.rvos.png_tree import label_tree
from harness.types import Answer, AnswerForm, Query, Sample, Target, query_id

WIDTH, HEIGHT = 32, 24
IMAGE = pixels([np.zeros((HEIGHT, WIDTH, 3), np.uint8)], times=[0.0], is_video=False, id="i")


def sample(name="x", **more):
    query = Query(id=query_id(name), text="?", media=(IMAGE,), forms=(AnswerForm.MASK,))
    return Sample(id=name, query=query, target=None, **more)


@pytest.mark.parametrize(
    ("high", "low", "fix", "obeyed"),
    [
        (93.0, 2.0, "divide them by 100", lambda values: values / 100),
        (250.0, 3.0, "divide them by 255", lambda values: values / 255),
        (8.5, -11.0, "apply a sigmoid", lambda values: 1 / (1 + np.exp(-values))),
    ],
)
def test_confidences_of_another_scale(high, low, fix, obeyed, tmp_path):
    meant = np.zeros((HEIGHT, WIDTH), bool)
    meant[4:9, 3:20] = True
    values = np.where(meant, high, low)
    np.save(tmp_path / "x.npy", values)
    with pytest.raises(DataError, match=fix):
        list(mask_tree(tmp_path, [sample()]))
    np.save(tmp_path / "x.npy", obeyed(values))
    (prediction,) = mask_tree(tmp_path, [sample()])
    assert (prediction.answer.masks[0].to_array() == meant).all()


@pytest.mark.parametrize(
    ("intervals", "names", "absent"),
    [
        ([([24, 48], 8.0), ([90, 96], 8.0)], ["frames a second", "percentages"], "milliseconds"),
        ([([3000, 5000], 8.0), ([1000, 7000], 8.0)], ["milliseconds"], "frames"),
        ([([150, 240], 10.0), ([90, 120], 10.0)], ["frames"], "percentages"),
    ],
)
def test_times_of_another_unit_name_only_units_that_fit(intervals, names, absent):
    with pytest.raises(DataError) as error:
        list(_times(intervals, "file"))
    fix = str(error.value).partition("If they are")[2]
    assert all(name in fix for name in names) and absent not in fix


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
def test_moments_by_id(tmp_path):
    path = tmp_path / "said.json"
    path.write_text(json.dumps({"7": {"timestamp": [[1.0, 7.0]]}}), encoding="utf-8")
    with pytest.raises(DataError) as error:
        list(read_rows(path))
    subprocess.run(str(error.value).split("`")[1], shell=True, cwd=tmp_path, check=True)
    assert json.loads((tmp_path / "NEW").read_text("utf-8")) == {"id": "7", "answer": [1, 7]}


def test_a_cut_line_is_named_as_cut():
    assert "truncated" in of_line(b'{"id": "7", "ans', "x.jsonl")
    assert "truncated" not in of_line(b'{"id": 7, "x": y}', "x.jsonl")


@pytest.mark.parametrize("written", [str, lambda counts: f"b'{counts.decode()}'"])
def test_counts_that_are_the_text_of_bytes(written):
    rng = np.random.default_rng(0)
    for _ in range(50):
        mask = Rle.from_array(rng.random((40, 30)) < rng.random())
        counts = written(mask.counts.encode())
        assert Rle.from_json({"size": [40, 30], "counts": counts}) == mask


@pytest.mark.parametrize(("first", "message"), [(1, ""), (2, "from 2")])
def test_numbers_of_objects_from_two_are_refused(first, message, tmp_path):
    samples = []
    for video in ("a", "b"):
        folder = tmp_path / "anno_0" / video
        folder.mkdir(parents=True)
        labels = np.zeros((HEIGHT, WIDTH), np.uint8)
        for number in range(2):  # of the last object no pixel is left
            labels[4 + 8 * number : 10 + 8 * number] = min(number + first, 3) % 3
        Image.fromarray(labels).save(folder / "0.png")
        samples += [
            sample(f"{video}/{n}", frames=("0",), categories={"annotator": "1, first frame"})
            for n in range(2)
        ]
    if message:
        with pytest.raises(DataError, match=message):
            list(label_tree(tmp_path, samples))
    else:
        assert all(prediction.answer for prediction in label_tree(tmp_path, samples))


def test_rows_decide_between_equal_questions():
    texts = ["Which is near?", "How many cats?", "Which is near?", "How far?", "How tall?"]
    truths = ["A", "C", "A", "D", "B"]
    samples = [
        Sample(
            id=f"s{number}",
            query=Query(
                id=query_id(str(number)),
                text=text,
                media=(),
                forms=(AnswerForm.CHOICE,),
                options=("w", "x", "y", "z"),
            ),
            target=Target(answer=Answer(choice=truth)),
            group=str(number),
        )
        for number, (text, truth) in enumerate(zip(texts, truths, strict=True))
    ]
    order = [3, 2, 0, 4, 1]
    entries = [
        Entry(
            where=f"line {n}",
            response=f"{n}",
            question=texts[n],
            row=n,
            ground_truth=truths[n],
        )
        for n in order
    ]
    rows = match(entries, samples).rows
    assert {name: row.value for name, row in rows.items()} == {f"s{n}": f"{n}" for n in range(5)}


@pytest.mark.parametrize(
    ("corners", "is_refused"),
    [
        ([5, 5, 20, 5, 20, 20], False),
        ([5, 5, 40, 5, 40, 20], True),
        ([5, 5, 33, 5, 33, 20], False),
        ([0.1, 0.1, 0.9, 0.2, 0.5, 0.8], True),
    ],
)
def test_corners_are_held_to_their_image(corners, is_refused):
    if is_refused:
        with pytest.raises(DataError, match="corners in pixels"):
            refuse_outside([corners], (WIDTH, HEIGHT), "object 1")
    else:
        refuse_outside([corners], (WIDTH, HEIGHT), "object 1")
