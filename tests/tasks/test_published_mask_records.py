"""Readers take records in the form in which benchmarks of masks, boxes and points are published.

The generated world is of our own writers, so that a mistake about a form would be in both. These
records are not: `published_mask_records.toml` says where each form was seen.
"""

import io
import json
import pickle
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet
from pycocotools import mask as coco

from harness.errors import DataError
from harness.media import files_of

LISTED = Path(__file__).with_name("published_mask_records.toml")
RECORDS = tomllib.loads(LISTED.read_text("utf-8"))["record"]
OBJECT = pa.struct(
    [
        ("id", pa.int64()),
        ("image_id", pa.int64()),
        *((name, pa.string()) for name in ("category", "supercategory", "label")),
        ("sentences", pa.list_(pa.string())),
        ("bbox", pa.list_(pa.float32())),
        ("mask", pa.struct([("counts", pa.string()), ("size", pa.list_(pa.int32()))])),
    ]
)
TYPES = {
    "image": pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
    "string": pa.string(),
    "int8": pa.int8(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "list<int32>": pa.list_(pa.int32()),
    "list<float>": pa.list_(pa.float32()),
    "list<string>": pa.list_(pa.string()),
    "list<list<bool>>": pa.list_(pa.list_(pa.bool_())),
    "objects": pa.list_(OBJECT),
}


def values(rows):
    return np.array([[255 if one == "v" else int(one) for one in row] for row in rows], np.uint8)


def run_length(rows):
    encoded = coco.encode(np.asfortranarray(values(rows)))
    return {"size": encoded["size"], "counts": encoded["counts"].decode("ascii")}


def filled(plain, masks):
    """`plain` with each "$name" replaced by the run-length of that mask."""
    if isinstance(plain, dict):
        return {key: filled(one, masks) for key, one in plain.items()}
    if isinstance(plain, list):
        return [filled(one, masks) for one in plain]
    if isinstance(plain, str) and plain.startswith("$"):
        return run_length(masks[plain[1:]])
    return plain


def python_2_pickle(plain):
    """Protocol 0 as Python 2 writes it: texts are bytes."""
    if isinstance(plain, dict):
        items = "".join(f"{python_2_pickle(k)}{python_2_pickle(v)}s" for k, v in plain.items())
        return f"(d{items}"
    if isinstance(plain, list):
        return "(l" + "".join(f"{python_2_pickle(one)}a" for one in plain)
    return f"I{plain}\n" if isinstance(plain, int) else f"S{plain!r}\n"


def png(rows, mode="L"):
    image = Image.fromarray(values(rows))
    if mode == "P":
        image.putpalette([*range(256)] * 3)  # the values stay what they are
    elif mode != "L":
        image = image.convert(mode)
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def picture(size):
    file = io.BytesIO()
    Image.new("RGB", tuple(size)).save(file, "PNG")
    return file.getvalue()


def cell(value, kind, masks):
    if kind != "image":
        return filled(value, masks)
    encoded = png(value) if isinstance(value[0], str) else picture(value)
    return {"bytes": encoded, "path": "0.png"}


def write(root, record):
    masks = record.get("masks", {})
    files = {path: picture(size) for path, size in record.get("image", {}).items()}
    files |= {path: png(**drawn) for path, drawn in record.get("png", {}).items()}
    for path, text in record.get("json", {}).items():
        files[path] = json.dumps(filled(json.loads(text), masks)).encode()
    for path, text in record.get("jsonl", {}).items():
        files[path] = text.strip().encode() + b"\n"
    for path, text in record.get("pickle", {}).items():
        files[path] = f"{python_2_pickle(json.loads(text))}.".encode()
        assert pickle.loads(files[path], encoding="latin1") == json.loads(text)
    for path, table in record.get("parquet", {}).items():
        kinds = table["columns"]
        rows = [{key: cell(row[key], kinds[key], masks) for key in kinds} for row in table["rows"]]
        schema = pa.schema([(key, TYPES[kind]) for key, kind in kinds.items()])
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.Table.from_pylist(rows, schema=schema), root / path)
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)


def drawn(mask):
    return ["".join(map(str, row)) for row in mask.to_array().astype(int)]


def said(answer):
    return next(
        (one for one in (answer.choice, answer.number, answer.text) if one is not None), None
    )


def found(sample, root):
    """What a record may say about a sample, by the same names."""
    (media,) = sample.query.media
    target = sample.target
    seen = {
        "id": sample.id,
        "text": sample.query.text,
        "files": [str(path.relative_to(root)) for path in files_of(media)],
        "size": list(media.size),
        "frames": list(sample.frames),
        "categories": dict(sample.categories),
        "options": list(sample.query.options),
        "objects": list(sample.query.objects),
    }
    if target is None:
        return seen
    answer = target.answer
    return seen | {
        "masks": [drawn(mask) for mask in answer.masks or ()],
        "ignore": drawn(target.ignore[0]) if target.ignore else None,
        "instances": len(answer.instances or ()),
        "annotators": [len(one) for one in target.extra.get("annotators", ())],
        "boxes": [[*map(float, (b.left, b.top, b.right, b.bottom))] for b in answer.boxes or ()],
        "points": [[point.x, point.y] for point in answer.points or ()],
        "no_target": answer.no_target,
        "answer": said(answer),
    }


@pytest.mark.parametrize("record", RECORDS, ids=[record["task"] for record in RECORDS])
def test_a_record_of_the_published_form_is_read(build, tmp_path, record):
    write(tmp_path, record)
    samples = list(build(record["task"], tmp_path).samples())
    assert [sample.id for sample in samples] == [wanted["id"] for wanted in record["sample"]]
    for sample, wanted in zip(samples, record["sample"], strict=True):
        lost, fault = wanted.get("lost"), sample.query.media[0].fault
        assert fault is None if lost is None else lost in fault
        seen = {**found(sample, tmp_path), "lost": lost}
        assert {key: seen[key] for key in wanted} == wanted


# Faults of one file, and older names


def published(root, task):
    write(root, next(one for one in RECORDS if one["task"] == task))
    return root


@pytest.mark.parametrize("field", ["image_filename", "mask_filename"])
def test_a_name_that_is_too_long_is_the_fault_of_its_question(build, tmp_path, field):
    path = published(tmp_path, "pointbench") / "pointbench/data.json"
    (entry,) = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps([entry, {**entry, field: f"{'a' * 300}.png"}]))
    (problem,) = build("pointbench", tmp_path).check()
    assert "record 1" in problem.message and "255 bytes" in problem.message


def saved(image):
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


GREY = np.array([[0, 255, 0, 0], [0, 0, 0, 0]], np.uint8)
DEEP = Image.fromarray(np.minimum(GREY, 1).astype(np.uint16))
HIDDEN = Image.merge("LA", (Image.new("L", (4, 2)), Image.fromarray(GREY)))


@pytest.mark.parametrize("image", [DEEP, HIDDEN, HIDDEN.convert("RGBA")], ids=lambda one: one.mode)
def test_a_mask_that_grey_of_8_bits_would_not_show_is_refused(build, tmp_path, image):
    root = published(tmp_path, "reason_vos")
    path = root / "reason_vos/Annotations/BURST_0a1b_1/00000.png"
    path.write_bytes(saved(image))
    with pytest.raises(DataError, match=rf"00000\.png.*of mode {image.mode}"):
        list(build("reason_vos", root).samples())
    assert [image.mode in one.message for one in build("reason_vos", root).check()] == [True]


def test_a_mask_may_be_opaque(build, tmp_path):
    root = published(tmp_path, "reason_vos")
    path = root / "reason_vos/Annotations/BURST_0a1b_1/00000.png"
    path.write_bytes(saved(Image.fromarray(GREY).convert("RGBA")))
    assert drawn(next(build("reason_vos", root).samples()).target.answer.masks[0])[0] == "0100"


def test_mevis_2_may_have_the_first_versions_name(build, tmp_path):
    place = published(tmp_path, "mevis(split=train,version=2)") / "mevis/v2/train"
    named, first = place / "meta_expressions_v2.json", place / "meta_expressions.json"
    first.write_text("{}")
    assert build("mevis(split=train,version=2)", tmp_path).annotations[0] == named
    named.replace(first)
    (sample,) = build("mevis(split=train,version=2)", tmp_path).samples()
    assert sample.id == "377b1c5f365c/0"
