"""Samples come as they are read, the same in each pass; files are read as they officially are."""

import json
import types
from itertools import islice
from pathlib import Path

import pytest
from PIL import Image

from harness.errors import DataError
from harness.frame_cache import CACHE
from harness.tasks.mevis import task as mevis
from harness.tasks.qa import images
from harness.tasks.reason_seg import task as reason_seg
from harness.tasks.rvos import videos
from harness.types import query_id

SPECS = (
    "reason_seg(split=train)",
    "reason_seg(protocol=seg/visionreasoner)",
    "mevis(split=train)",
    "mevis(split=valid)",
    "counting",
    "counting(split=pixmo_train)",
    "counting(split=countbench)",
    "counting(split=countbenchqa)",
)


@pytest.mark.parametrize("spec", SPECS)
def test_two_passes_give_equal_samples_and_their_ids_are_hidden_from_models(build, shapes, spec):
    task = build(spec, shapes)

    def seen():
        for sample in task.samples():
            query = sample.query
            media = [(one.id, one.size, len(one)) for one in query.media]
            yield (
                sample.id,
                query.id,
                query.text,
                media,
                sample.target,
                sample.group,
                dict(sample.categories),
            )

    first = list(seen())
    assert first == list(seen())
    assert len({one[0] for one in first}) == len(first) >= 8
    assert all(one[1] == query_id(one[0]) for one in first)


@pytest.mark.parametrize("spec", SPECS)
def test_two_passes_may_be_interleaved(build, shapes, spec):
    task = build(spec, shapes)
    both = zip(task.samples(), task.samples(), strict=True)
    assert all(one.id == other.id and one.target == other.target for one, other in both)


class Spy:
    """Counts the calls of a function, and lets them through."""

    def __init__(self, monkeypatch, module, name):
        self.calls = []
        function = getattr(module, name)

        def spied(*arguments, **options):
            self.calls.append(arguments)
            return function(*arguments, **options)

        monkeypatch.setattr(module, name, spied)


@pytest.mark.parametrize(
    ("spec", "module", "function"),
    [
        ("reason_seg(split=train)", reason_seg, "read_json"),
        ("reason_seg(split=train)", reason_seg, "rasterise"),
        ("reason_seg(split=train)", reason_seg, "image_or_placeholder"),
        ("mevis(split=train)", videos, "frame_files"),
        ("mevis(split=train)", mevis, "_target"),
        ("counting(split=pixmo_val)", images, "image_or_placeholder"),
        ("counting(split=pixmo_train)", images, "image_or_placeholder"),
    ],
)
def test_a_sample_is_given_before_the_next_one_is_read(
    build, shapes, monkeypatch, spec, module, function
):
    task = build(spec, shapes)
    spy = Spy(monkeypatch, module, function)
    samples = task.samples()
    assert isinstance(samples, types.GeneratorType) and not spy.calls
    for place, sample in enumerate(islice(samples, 3), start=1):
        assert len(spy.calls) == (1 if function == "frame_files" else place), sample.id


def test_no_pass_over_the_samples_decodes_an_image(build, shapes, monkeypatch):
    def refuse(*_):
        raise AssertionError("an image was decoded")

    CACHE.clear()  # what other tests have decoded would not be decoded again
    monkeypatch.setattr("harness.frame_cache.decode_image", refuse)
    for spec in SPECS:
        task = build(spec, shapes)
        assert not list(task.check())
        sample = next(iter(list(task.samples())))
        with pytest.raises(AssertionError, match="decoded"):
            sample.query.media[0].frame(0)


# ReasonSeg's files


def annotated(root: Path, stem: str, *, encoding: str = "utf-8", **fields) -> None:
    place = root / "reason_seg" / "ReasonSeg" / "val"
    place.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (20, 16)).save(place / f"{stem}.jpg")
    square = {"label": "target", "points": [[2, 2], [6, 2], [6, 6], [2, 6]]}
    plain = {"text": ["it"], "is_sentence": False, "shapes": [square], **fields}
    text = json.dumps(plain, ensure_ascii=False)
    (place / f"{stem}.json").write_bytes(text.encode(encoding))


def texts(build, root):
    return [sample.query.text for sample in build("reason_seg", root).samples()]


def test_the_first_text_is_asked_stripped(build, tmp_path):
    annotated(tmp_path, "a", text=["  the first one \n", "the second one"])
    annotated(tmp_path, "b", text=["the first one", ""])
    assert texts(build, tmp_path) == ["the first one"] * 2


def test_json_that_is_no_utf_8_is_read_as_cp1252(build, tmp_path):
    words = "the café’s “déjà vu” – 5 €"
    for stem, encoding in (("a", "utf-8"), ("b", "cp1252")):
        annotated(tmp_path, stem, encoding=encoding, text=[words])
    place = tmp_path / "reason_seg" / "ReasonSeg" / "val"
    assert (place / "a.json").read_bytes() != (place / "b.json").read_bytes()
    assert texts(build, tmp_path) == [words] * 2
    (place / "c.json").write_bytes(b'{"text": ["\x81"]}')
    Image.new("RGB", (20, 16)).save(place / "c.jpg")
    with pytest.raises(DataError, match=r"c\.json.*utf-8 or cp1252"):
        texts(build, tmp_path)


def test_samples_are_in_the_order_of_whole_file_names(build, tmp_path):
    for stem in ("a", "a-short", "b", "B", "a.b"):
        annotated(tmp_path, stem)
    task = build("reason_seg", tmp_path)
    assert [sample.id for sample in task.samples()] == ["B", "a-short", "a.b", "a", "b"]


@pytest.mark.parametrize(
    "fields",
    [
        {"text": []},
        {"text": "it"},
        {"text": [3]},
        {"text": [" "]},
        {"is_sentence": "no"},
        {"shapes": {}},
        {"shapes": [{"label": "target"}]},
        {"shapes": [{"points": [[1, 2]]}]},
        {"shapes": ["target"]},
        {"shapes": [{"label": "target", "points": [[1, "2"]]}]},
    ],
)
def test_a_wrong_field_is_an_error_that_names_the_file(build, tmp_path, fields):
    annotated(tmp_path, "right")
    annotated(tmp_path, "wrong", **fields)
    task = build("reason_seg", tmp_path)
    (problem,) = task.check()
    assert "wrong" in problem.path and "right" not in problem.path
    with pytest.raises(DataError, match=r"wrong\.json"):
        list(task.samples())


def test_labels_decide_what_a_polygon_means(build, tmp_path):
    def square(label, left):
        points = [[left, 2], [left + 2, 2], [left + 2, 4], [left, 4]]
        return {"label": label, "points": points, "shape_type": "polygon"}

    labels = ("target", "IGNORE", "Flag", "to ignore", "anything", "flagged")
    shapes = [square(label, 3 * place) for place, label in enumerate(labels)]
    annotated(tmp_path, "a", shapes=shapes)
    (sample,) = build("reason_seg", tmp_path).samples()
    (ground_truth,), (ignored,) = sample.target.answer.masks, sample.target.ignore
    columns = [3 * place for place in range(6)]
    assert [bool(ground_truth.to_array()[3, left]) for left in columns] == [
        True,
        False,
        False,
        False,
        True,
        True,
    ]
    assert [bool(ignored.to_array()[3, left]) for left in columns] == [
        False,
        True,
        False,
        True,
        False,
        False,
    ]


# MeViS's files


def film(root: Path, expressions, *, masks=None) -> None:
    place = root / "mevis" / ("valid" if masks is None else "valid_u")
    frames = ["00000", "00001"]
    (place / "JPEGImages" / "v").mkdir(parents=True)
    for frame in frames:
        Image.new("RGB", (10, 6)).save(place / "JPEGImages" / "v" / f"{frame}.jpg")
    video = {"vid_id": 0, "frames": frames, "expressions": expressions}
    (place / "meta_expressions.json").write_text(json.dumps({"videos": {"v": video}}))
    if masks is not None:
        (place / "mask_dict.json").write_text(json.dumps(masks))


def test_expressions_keep_their_order_and_their_case_and_lose_needless_blanks(build, tmp_path):
    spoken = {"2": {"exp": " The  cat\n"}, "10": {"exp": "Dogs"}, "1": {"exp": "x", "anno_id": 3}}
    film(tmp_path, spoken)
    samples = list(build("mevis(split=valid)", tmp_path).samples())
    assert [(one.id, one.query.text) for one in samples] == [
        ("v/2", "The cat"),
        ("v/10", "Dogs"),
        ("v/1", "x"),
    ]
    assert all(one.target is None and not one.categories for one in samples)


FULL = {"size": [6, 10], "counts": [0, 60]}


@pytest.mark.parametrize(
    ("expression", "masks", "message"),
    [
        ({"exp": "x", "anno_id": [1]}, {"0": [FULL, None]}, "'1'"),
        ({"exp": "x", "anno_id": [0]}, {"0": [FULL]}, "1 masks"),
        ({"exp": "x", "anno_id": [0]}, {"0": [FULL, {**FULL, "size": [10, 6]}]}, "frame 1"),
        ({"exp": "x", "anno_id": 0}, {"0": [FULL, None]}, "'anno_id'"),
        ({"exp": "x"}, {"0": [FULL, None]}, "'anno_id'"),
        ({"exp": 3, "anno_id": [0]}, {"0": [FULL, None]}, "'exp'"),
        ({"exp": "x", "anno_id": [0]}, {"0": [{**FULL, "counts": [0, 59]}, None]}, "60 pixels"),
    ],
)
def test_a_wrong_expression_is_an_error_that_names_it(build, tmp_path, expression, masks, message):
    film(tmp_path, {"0": expression}, masks=masks)
    with pytest.raises(DataError, match=message):
        list(build("mevis", tmp_path).samples())


def test_an_expression_without_objects_has_an_empty_ground_truth(build, tmp_path):
    film(tmp_path, {"0": {"exp": "x", "anno_id": []}}, masks={})
    (sample,) = build("mevis", tmp_path).samples()
    assert [mask.area for mask in sample.target.answer.masks] == [0, 0]
    assert sample.categories == {"objects": "none"}
