"""Run-lengths in another form or order: read so where that is stated or sure, else refused."""

import json

import numpy as np
import pytest
from pycocotools import mask as coco

from harness.errors import DataError
from harness.formats import read_format
from harness.formats.mask_order import check_order
from harness.interchange.answers import row_to_answer
from harness.interchange.rows import Written
from harness.masks import Rle
from harness.media import pixels
from harness.types import AnswerForm, Query, Sample, query_id

ROWS = Written(by_rows=True)


def ellipses(height, width, count, seed=0):
    """Masks of one or two blobs each, of any place and size."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    for _ in range(count):
        mask = np.zeros((height, width), bool)
        for _ in range(random.integers(1, 3)):
            place, axes = random.random(2) * (height, width), random.uniform(3, height / 3, 2)
            mask |= ((y - place[0]) / axes[0]) ** 2 + ((x - place[1]) / axes[1]) ** 2 < 1
        yield mask


def runs(flat):
    """Lengths of the alternating runs of a flat mask, as a program that counts them writes them."""
    ends = np.flatnonzero(np.diff(flat)) + 1
    lengths = np.diff(np.concatenate([[0], ends, [flat.size]]))
    return [0, *lengths.tolist()] if flat[0] else lengths.tolist()


def samples(masks):
    for number, mask in enumerate(masks):
        media = pixels(
            [np.zeros((*mask.shape, 3), np.uint8)], times=[0.0], is_video=False, id=str(number)
        )
        query = Query(id=query_id(str(number)), text="?", media=(media,), forms=(AnswerForm.MASK,))
        yield Sample(id=str(number), query=query, target=None)


def write(tmp_path, name, masks, order, compressed=False):
    """Write a file of masks whose runs go along `order`, numpy's name of it."""
    records = []
    for number, mask in enumerate(masks):
        rle = {"size": list(mask.shape), "counts": runs(mask.ravel(order=order))}
        if compressed:
            rle = coco.frPyObjects(rle, *mask.shape)
            rle["counts"] = rle["counts"].decode()
        line = {"id": str(number), "masks": [rle]}
        coco_form = {"image_id": number, "segmentation": rle, "score": 0.9}
        records.append(line if name == "jsonl" else coco_form)
    path = tmp_path / f"{name}.json"
    lines = "".join(json.dumps(one) + "\n" for one in records)
    path.write_text(lines if name == "jsonl" else json.dumps(records))
    return path


@pytest.mark.parametrize("size", [(60, 90), (90, 60), (48, 96), (64, 58)])
@pytest.mark.parametrize("name", ["jsonl", "coco"])
@pytest.mark.parametrize("compressed", [False, True])
def test_runs_along_the_rows_are_told_apart_and_read_where_stated(tmp_path, size, name, compressed):
    for seed in range(8):
        masks = list(ellipses(*size, 1 + seed % 3, seed))
        asked = list(samples(masks))
        columns = write(tmp_path, name, masks, "F", compressed)
        assert check_order(read_format(name, columns, asked).rows, asked, "file") == ()
        along = write(tmp_path, name, masks, "C", compressed)
        with pytest.raises(DataError, match="--mask-order rows"):
            check_order(read_format(name, along, asked).rows, asked, "file")
        found = read_format(name, along, asked, written=ROWS)
        for sample, mask in zip(asked, masks, strict=True):
            (answer,) = row_to_answer(found.rows[sample.id], sample.query).masks
            assert np.array_equal(answer.to_array(), mask)


def test_square_images_do_not_show_it_and_a_note_says_so(tmp_path):
    masks = list(ellipses(64, 64, 3))
    asked = list(samples(masks))
    for order in "FC":
        rows = read_format("jsonl", write(tmp_path, "jsonl", masks, order), asked).rows
        (note,) = check_order(rows, asked, "file")
        assert note.startswith("3 lists of runs of square images") and "--mask-order rows" in note
    compressed = write(tmp_path, "jsonl", masks, "F", compressed=True)
    assert check_order(read_format("jsonl", compressed, asked).rows, asked, "file") == ()


def test_noise_lines_and_whole_images_are_no_evidence(tmp_path):
    random = np.random.default_rng(1)
    upright, lying = np.zeros((2, 40, 70), bool)
    upright[:, 9], lying[9] = True, True
    for masks in (
        [random.random((40, 70)) < 0.3 for _ in range(5)],
        [upright],
        [lying],
        [np.eye(40, 70, dtype=bool)],
        [np.ones((40, 70), bool), np.zeros((40, 70), bool)],
    ):
        asked = list(samples(masks))
        rows = read_format("jsonl", write(tmp_path, "jsonl", masks, "F"), asked).rows
        assert check_order(rows, asked, "file") == ()


def test_bytes_that_were_written_as_text_are_those_bytes():
    for mask in ellipses(50, 77, 60, seed=3):
        encoded = coco.encode(np.asfortranarray(mask, np.uint8))
        written = {"size": encoded["size"], "counts": str(encoded["counts"])}
        assert Rle.from_json(json.loads(json.dumps(written))) == Rle.from_array(mask)


@pytest.mark.parametrize("as_text", [False, True])
def test_pairs_of_start_and_length_are_named(as_text):
    """Kaggle's form: `start length` from 1, in turn, of what is not 0."""
    for mask in ellipses(50, 77, 20, seed=4):
        flat = np.concatenate([[0], mask.ravel(order="F"), [0]])
        changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
        changes[1::2] -= changes[::2]
        pairs = " ".join(map(str, changes)) if as_text else changes.tolist()
        with pytest.raises(Exception, match=r"expected COCO's run-length.*docs/predictions\.md"):
            Rle.from_json({"size": [50, 77], "counts": pairs})
