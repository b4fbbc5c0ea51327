"""Ten layouts that public data sets have are read by the description that is drafted for them."""

import base64
import csv
import io
import json
import re

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from harness.masks import Rle
from harness.tasks.table.description import CHECK
from harness.tasks.table.draft import draft
from harness.tasks.table.task import table
from harness.types import Answer, Box

WIDTH, HEIGHT = 64, 48
COLOURS = ("red", "green", "blue")
SQUARE = (8, 12, 40, 36)
"""The square in every image: left, top, right, bottom."""


def picture(colour):
    """A grey image with a square of a colour."""
    image = Image.new("RGB", (WIDTH, HEIGHT), "grey")
    image.paste(colour, SQUARE)
    return image


def encoded(colour):
    """The image as a PNG file."""
    file = io.BytesIO()
    picture(colour).save(file, "PNG")
    return file.getvalue()


def images(root, folder="images"):
    """Write the images, and return their names."""
    (root / folder).mkdir(parents=True, exist_ok=True)
    for colour in COLOURS:
        (root / folder / f"{colour}.png").write_bytes(encoded(colour))
    return [f"{colour}.png" for colour in COLOURS]


def lines(path, rows):
    """Write rows as lines of JSON."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def vlmevalkit(root):
    """VLMEvalKit's TSV: images in base64, of which a row may name another row's."""
    names = ["index", "image", "question", "A", "B", "C", "D", "answer", "category"]
    with (root / "bench.tsv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, delimiter="\t")
        writer.writeheader()
        for number, colour in enumerate(COLOURS):
            options = dict(zip("ABC", COLOURS, strict=True))
            row = {"index": number, "question": "What colour is the square?", **options, "D": ""}
            image = base64.b64encode(encoded(colour)).decode()
            row |= {"image": image, "answer": "ABC"[number], "category": "colour"}
            writer.writerow(row)
            again = {"index": 100 + number, "image": str(number), "question": "And its colour?"}
            writer.writerow({**row, **again, "category": "again"})
    return root / "bench.tsv"


def evalscope_vqa(root):
    """EvalScope's general_vqa: chat messages with an image, and a text for an answer."""
    names = images(root)
    return lines(
        root / "bench.jsonl",
        [
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "image_url", "image_url": {"url": f"images/{name}"}},
                            {"type": "text", "text": "What colour is the square?"},
                        ],
                    }
                ],
                "answer": name.removesuffix(".png"),
            }
            for name in names
        ],
    )


def evalscope_vmcq(root):
    """EvalScope's general_vmcq: options in a list, numbered images in base64."""
    return lines(
        root / "bench.jsonl",
        [
            {
                "question": "<image 1> What colour is the square?",
                "options": list(COLOURS),
                "image_1": "data:image/png;base64," + base64.b64encode(encoded(colour)).decode(),
                "answer": letter,
            }
            for colour, letter in zip(COLOURS, "ABC", strict=True)
        ],
    )


def hub_table(root):
    """A table of the Hugging Face hub as lmms-eval's are: images as the datasets library has."""
    rows = [
        {
            "question_id": f"q{number}",
            "image": {"bytes": encoded(colour), "path": None},
            "question": "What colour is the square?",
            "options": list(COLOURS),
            "answer": number,
        }
        for number, colour in enumerate(COLOURS)
    ]
    parquet.write_table(pa.Table.from_pylist(rows), root / "bench.parquet")
    return root / "bench.parquet"


def llava(root):
    """LLaVA's JSON of conversations."""
    rows = [
        {
            "id": f"{number:09}",
            "image": name,
            "conversations": [
                {"from": "human", "value": "<image>\nWhat colour is the square?"},
                {"from": "gpt", "value": name.removesuffix(".png").title()},
            ],
        }
        for number, name in enumerate(images(root))
    ]
    path = root / "bench.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path


def _coco(root, **image_fields):
    left, top, right, bottom = SQUARE
    corners = [left, top, right, top, right, bottom, left, bottom]
    box = [left, top, right - left, bottom - top]
    listed = [
        {
            "id": number,
            "file_name": name,
            "width": WIDTH,
            "height": HEIGHT,
            **{key: make(name) for key, make in image_fields.items()},
        }
        for number, name in enumerate(images(root, "val2014"))
    ]
    plain = {
        "images": listed,
        "categories": [{"id": 7, "name": "square"}],
        "annotations": [
            {
                "id": 50 + entry["id"],
                "image_id": entry["id"],
                "category_id": 7,
                "bbox": box,
                "segmentation": [corners],
                "iscrowd": 0,
                "area": box[2] * box[3],
            }
            for entry in listed
        ],
    }
    (root / "bench.json").write_text(json.dumps(plain), encoding="utf-8")
    return root / "bench.json"


def coco(root):
    """COCO's instances."""
    return _coco(root)


def mdetr(root):
    """MDETR's RefCOCO: COCO's instances, with a caption in each image's entry."""
    return _coco(root, caption=lambda name: f"the {name.removesuffix('.png')} square")


def odvg(root):
    """Grounding DINO's lines of phrases with boxes."""
    return lines(
        root / "bench.jsonl",
        [
            {
                "filename": name,
                "height": HEIGHT,
                "width": WIDTH,
                "grounding": {
                    "caption": "a square on grey",
                    "regions": [{"phrase": "a square", "bbox": list(SQUARE)}],
                },
            }
            for name in images(root)
        ],
    )


def relative_boxes(root):
    """Lines with an expression and one box, as parts of the sides: left, top, width, height."""
    left, top, right, bottom = SQUARE
    sides = [left / WIDTH, top / HEIGHT, (right - left) / WIDTH, (bottom - top) / HEIGHT]
    rows = [{"image": name, "ref": "the square", "bbox": sides} for name in images(root)]
    return lines(root / "bench.jsonl", rows)


def youtube_vos(root):
    """Ref-YouTube-VOS: expressions, a folder of frames a video, palette PNGs of the objects."""
    frames = ["00000", "00005"]
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    mask[SQUARE[1] : SQUARE[3], SQUARE[0] : SQUARE[2]] = 1
    for colour in COLOURS:
        for kind in ("JPEGImages", "Annotations"):
            (root / "valid" / kind / colour).mkdir(parents=True)
        for frame in frames:
            picture(colour).save(root / "valid" / "JPEGImages" / colour / f"{frame}.jpg")
            palette = Image.fromarray(mask, "P")
            palette.putpalette([0, 0, 0, 128, 0, 0])
            palette.save(root / "valid" / "Annotations" / colour / f"{frame}.png")
    videos = {
        colour: {
            "expressions": {"0": {"exp": f"the {colour} square", "obj_id": "1"}},
            "frames": frames,
        }
        for colour in COLOURS
    }
    (root / "meta_expressions.json").write_text(json.dumps({"videos": videos}), encoding="utf-8")
    return root / "meta_expressions.json"


WRITERS = {
    "VLMEvalKit's TSV": vlmevalkit,
    "EvalScope's general_vqa": evalscope_vqa,
    "EvalScope's general_vmcq": evalscope_vmcq,
    "a table of the hub": hub_table,
    "LLaVA's JSON": llava,
    "COCO": coco,
    "MDETR's RefCOCO": mdetr,
    "ODVG": odvg,
    "lines with relative boxes": relative_boxes,
    "YouTube-VOS": youtube_vos,
}


TRUTHS = {
    "VLMEvalKit's TSV": [Answer(choice=letter) for letter in "AABBCC"],
    "EvalScope's general_vqa": [Answer(text=colour) for colour in COLOURS],
    "EvalScope's general_vmcq": [Answer(choice=letter) for letter in "ABC"],
    "a table of the hub": [Answer(choice=letter) for letter in "ABC"],
    "LLaVA's JSON": [Answer(text=colour.title()) for colour in COLOURS],
    **dict.fromkeys(
        ("COCO", "MDETR's RefCOCO", "ODVG", "lines with relative boxes"),
        [Answer(boxes=(Box(*map(float, SQUARE)),))] * 3,
    ),
}


@pytest.mark.parametrize("layout", WRITERS)
def test_a_drafted_description_reads_a_public_layout(layout, tmp_path):
    path = WRITERS[layout](tmp_path)
    text = draft(path).toml("mine")
    # What numbers alone do not show is the order of boxes: a person states it.
    text = text.replace('written = "xyxy"  # CHECK', 'written = "xywh"  # stated')
    path.with_suffix(".toml").write_text(text, encoding="utf-8")
    assert CHECK not in re.sub("# stated.*", "", text)
    task = table(tmp_path, file=path)
    assert list(task.check()) == []
    samples = list(task.samples())
    assert all(media.fault is None for sample in samples for media in sample.query.media)
    if layout in TRUTHS:
        assert [sample.target.answer for sample in samples] == TRUTHS[layout]
    else:
        mask = np.zeros((HEIGHT, WIDTH), bool)
        mask[SQUARE[1] : SQUARE[3], SQUARE[0] : SQUARE[2]] = True
        assert [sample.target.answer.masks for sample in samples] == [
            (Rle.from_array(mask),) * 2
        ] * 3


def test_a_row_of_vlmevalkit_may_name_the_image_of_another(tmp_path):
    path = WRITERS["VLMEvalKit's TSV"](tmp_path)
    path.with_suffix(".toml").write_text(draft(path).toml("mine"), encoding="utf-8")
    shown = [sample.query.media[0].frame(0) for sample in table(tmp_path, file=path).samples()]
    assert np.array_equal(shown[2], shown[3]) and not np.array_equal(shown[1], shown[2])
