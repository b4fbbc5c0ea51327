"""Benchmarks' files: missing, cut, damaged, hostile."""

import contextlib
import json
import os
import pickle
import shutil
import socket
import struct
import zlib

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

case = pytest.mark.case
TRIANGLE = [[2, 2], [20, 2], [2, 20]]


def annotation(**fields):
    shapes = [{"label": "target", "points": TRIANGLE}]
    return {"text": ["the thing"], "is_sentence": False, "shapes": shapes} | fields


class Trap:
    """What runs a command when it is unpickled."""

    def __init__(self, canary):
        self.canary = canary

    def __reduce__(self):
        return os.system, (f"touch {self.canary}",)


@case(
    "an annotation file that was cut",
    "refused before the model is built; names the file and the byte",
    code=3,
)
@pytest.mark.parametrize("cut", [0, 1, 20])
def test_a_cut_annotation_is_found_before_the_model_is_built(harness, reason_seg, plugin, cut):
    plugin("models", toy="def toy(): raise AssertionError('the model was built')")
    path = reason_seg / "val_00001.json"
    path.write_bytes(path.read_bytes()[:cut])
    done = harness.eval(model="toy")
    done.says("val_00001.json", "JSON", f"of {cut}")
    assert not (harness.folder / "runs").exists()


@case(
    "an annotation file cut where many videos share it",
    "refused; names the file and the byte",
    code=3,
)
@pytest.mark.parametrize("name", ["meta_expressions.json", "mask_dict.json"])
def test_a_cut_file_of_all_annotations_is_refused(harness, mevis, name):
    whole = (mevis / name).read_bytes()
    (mevis / name).write_bytes(whole[: len(whole) // 2])
    harness.eval().says(str(mevis / name), f"of {len(whole) // 2}")


@case("images or annotations that are missing", "refused; all of them are listed", code=3)
def test_all_missing_files_are_listed(harness, reason_seg):
    (reason_seg / "val_00001.jpg").unlink()
    (reason_seg / "val_00002.json").unlink()
    done = harness.eval()
    done.says("2 problems", "val_00001.jpg", "val_00002.json", "harness data check")
    assert not (harness.folder / "runs").exists()


@case(
    "missing images, with `--allow-missing`",
    "their samples are failures of the "
    "infrastructure, counted in every score; a note lists the files",
    code=0,
)
@pytest.mark.parametrize("damage", ["missing", "no image"])
def test_allowed_gaps_are_failed_samples(harness, reason_seg, damage):
    whole = harness.eval(out="whole").task("reason_seg")
    for stem in ("val_00001", "val_00002"):
        path = reason_seg / f"{stem}.jpg"
        path.unlink() if damage == "missing" else path.write_bytes(b"<html>404</html>")
    done = harness.eval("--allow-missing", "--infrastructure-limit", 1)
    found = done.says("val_00001", "2 faulty").task("reason_seg")
    assert found["n_total"] == whole["n_total"] == 8
    assert found["failures"]["infrastructure"] == found["n_failed"] == 2
    assert found["metrics"]["gIoU"] < whole["metrics"]["gIoU"]


@case(
    "a video without its frames, with `--allow-missing`",
    "failures of the infrastructure",
    code=0,
)
@pytest.mark.parametrize("keep", [0, 1, 7])
def test_a_video_that_is_not_whole_fails_all_its_samples(harness, mevis, keep):
    folder = sorted((mevis / "JPEGImages").iterdir())[0]
    for path in sorted(folder.iterdir())[keep:]:
        path.unlink()
    found = (
        harness.eval("--allow-missing", "--infrastructure-limit", 1)
        .says(folder.name, "missing")
        .task("mevis")
    )
    videos = json.loads((mevis / "meta_expressions.json").read_text())["videos"]
    assert found["failures"]["infrastructure"] == len(videos[folder.name]["expressions"])
    assert found["n_total"] == sum(len(video["expressions"]) for video in videos.values())


@case(
    "missing images, when predictions are scored",
    "refused: the sample is never dropped",
    code=3,
)
def test_scoring_refuses_a_benchmark_that_is_not_whole(harness, reason_seg):
    (reason_seg / "val_00001.jpg").unlink()
    harness.score([{"id": "val_00000", "no_target": True}]).says("val_00001", "expected a file")


@case(
    "an image that is cut after its header",
    "a failed sample; never decoded in part",
    code=0,
)
@pytest.mark.parametrize("share", [0.5, 0.9])
@pytest.mark.parametrize("is_reserved", [False, True], ids=["cut", "zeros after it"])
def test_a_cut_image_is_a_failed_sample(harness, reason_seg, share, is_reserved):
    path = reason_seg / "val_00001.jpg"
    whole = path.read_bytes()
    rest = bytes(len(whole) - int(len(whole) * share)) if is_reserved else b""
    path.write_bytes(whole[: int(len(whole) * share)] + rest)
    few = ("--subset", "first2", "--infrastructure-limit", 1)
    found = harness.eval(*few, model="saliency(segmenter=box)").task("reason_seg")
    assert found["failures"]["infrastructure"] == found["n_failed"] == 1
    assert found["n_total"] == 2
    explained = harness("explain", harness.run, "val_00001", "--json").json
    assert "val_00001.jpg" in explained["failure"] and "truncated" in explained["failure"]


def chunk(kind, data):
    check = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + check


def bomb(width, height):
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = chunk(b"IDAT", zlib.compress(b"\0" * 1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + data + chunk(b"IEND", b"")


@case(
    "an image whose header says 100 000 × 100 000",
    "refused by its header; nothing is decoded",
    code=3,
)
@pytest.mark.parametrize("size", [(100_000, 100_000), (16_384, 16_385), (0, 5)])
def test_a_decompression_bomb_is_refused_by_its_header(harness, reason_seg, size):
    (reason_seg / "val_00001.jpg").write_bytes(bomb(*size))
    harness.eval().says("val_00001", "size" if all(size) else "PNG or JPEG")


@case(
    "a palette PNG mask that was saved in colours",
    "refused: its values are no objects' numbers any more; names the file",
    code=3,
)
def test_a_mask_in_colours_is_refused(harness, shapes):
    place = harness.folder / "data" / "ref_davis17"
    shutil.copytree(shapes / "ref_davis17", place)
    path = min((place / "valid" / "Annotations").rglob("*.png"))
    with Image.open(path) as image:
        colours = image.convert("RGB")
    colours.save(path)
    harness.eval().says(str(path), "RGB")


@case(
    "turned by EXIF, CMYK, grey, 16 bits, transparent, palette",
    "one conversion for all",
    code=0,
)
@pytest.mark.parametrize("kind", ["exif", "CMYK", "L", "16 bits", "RGBA", "P"])
def test_unusual_images_are_converted_in_one_way(harness, reason_seg, kind):
    path = reason_seg / "val_00001.jpg"
    image = Image.open(path)
    if kind == "exif":
        exif = Image.Exif()
        exif[0x112] = 6  # a quarter turn
        image.save(path, "JPEG", exif=exif)
    elif kind == "16 bits":
        grey = np.asarray(image.convert("L")).astype(np.uint16) * 257
        Image.fromarray(grey).save(path, "PNG")
    else:
        image.convert(kind).save(path, "JPEG" if kind in ("CMYK", "L") else "PNG")
    few = only(harness, "val_00001")
    found = harness.eval("--subset", few, model="saliency(segmenter=box)").task("reason_seg")
    assert (found["n_total"], found["n_failed"]) == (1, 0)


@case("a mask of another size than its frame", "refused; never resized", code=3)
def test_a_mask_of_another_size_than_its_frame_is_refused(harness, mevis, edit):
    def shrink(masks):
        first_mask(masks).update(size=[10, 20], counts=[200])

    edit(mevis / "mask_dict.json", shrink)
    harness.eval().says("mask_dict.json", "annotation", "frame", "20 × 10")


def first_mask(masks):
    return next(mask for track in masks.values() for mask in track if mask)


@case("frames of different sizes in one video", "refused; names the video", code=3)
def test_frames_of_different_sizes_are_refused(harness, mevis):
    path = sorted(mevis.glob("JPEGImages/*/*.jpg"))[2]
    Image.open(path).resize((50, 60)).save(path)
    harness.eval().says(path.parent.name, "sizes")


@case(
    "run-lengths that do not add up",
    "refused before C code decodes them; names annotation, frame and sum",
    code=3,
)
@pytest.mark.parametrize("counts", ["5", "", "é0", [7], [-5, 10], "P" * 30, "0" * 10_000])
def test_run_lengths_that_do_not_add_up_are_refused(harness, mevis, edit, counts):
    edit(mevis / "mask_dict.json", lambda masks: first_mask(masks).update(counts=counts))
    harness.eval().says("mask_dict.json", "annotation", "frame", "expected")


@case("a mask of 10⁶ × 10⁶ or of negative size", "refused before C code sees it", code=3)
@pytest.mark.parametrize("size", [[10**6, 10**6], [-4, -5], [0, 0], [2.0, 3.0], ["4", "5"], [4]])
def test_an_impossible_size_of_a_mask_is_refused(harness, mevis, edit, size):
    edit(mevis / "mask_dict.json", lambda masks: first_mask(masks).update(size=size))
    harness.eval().says("mask_dict.json", "annotation", "frame", "size")


@case(
    "a polygon without points, with NaN, or far outside",
    "refused; names the file and the shape",
    code=3,
)
@pytest.mark.parametrize(
    "points",
    [
        [],
        [[1, 2], [float("nan"), 3]],
        [[1, 2], [1e300, 3]],
        [[1, 2, 3]],
        [["1", 2]],
        None,
        5,
    ],
)
def test_a_malformed_polygon_is_refused(harness, reason_seg, points):
    shapes = [{"label": "target", "points": points}]
    (reason_seg / "val_00001.json").write_text(json.dumps(annotation(shapes=shapes)))
    harness.eval().says("val_00001", "shape 0", "found")


@case(
    "a polygon of one or two points, or partly outside",
    "painted as LISA paints it: a pixel, a line, the part inside",
    code=0,
)
@pytest.mark.parametrize(
    ("points", "area"),
    [([[3, 4]], 1), ([[3, 4], [7, 4]], 5), ([[-9, -9], [3, -9], [3, 2], [-9, 2]], 12)],
)
def test_a_degenerate_polygon_is_painted_as_the_official_script_does(
    harness, reason_seg, points, area
):
    shapes = [{"label": "target", "points": points}]
    (reason_seg / "val_00001.json").write_text(json.dumps(annotation(shapes=shapes)))
    width, height = Image.open(reason_seg / "val_00001.jpg").size
    harness.eval()
    shown = harness("explain", harness.run, "val_00001", "--json").json
    assert shown["score"]["cIoU"]["ratio"] == [area, width * height]


@case("two samples with one id", "refused", code=3)
def test_an_id_that_occurs_twice_is_refused(harness, counting):
    def repeat(rows):
        rows[1]["image_id"] = rows[0]["image_id"]

    rewrite(counting, repeat)
    harness.eval(tasks="counting").says("counting", "twice")


def rewrite(place, change):
    (path,) = place.glob("data/*.parquet")
    table = parquet.read_table(path)
    rows = table.to_pylist()
    change(rows)
    parquet.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)


@case("a key twice in one JSON object", "refused: the first would be lost without a word", code=3)
def test_a_video_that_is_listed_twice_is_refused(harness, mevis):
    path = mevis / "meta_expressions.json"
    videos = json.loads(path.read_text())["videos"]
    name, video = next(iter(videos.items()))
    listed = ",".join(f"{json.dumps(key)}: {json.dumps(one)}" for key, one in videos.items())
    path.write_text(f'{{"videos": {{{listed}, "{name}": {json.dumps(video)}}}}}')
    harness.eval().says(str(path), name, "twice")


@case(
    "a sample in which nothing is meant",
    "the protocol's rule: an empty mask is right "
    "with seg/lisa, and scores 0 with seg/visionreasoner",
    code=0,
)
@pytest.mark.parametrize(("protocol", "right"), [("seg/lisa", 1.0), ("seg/visionreasoner", 0.0)])
def test_an_empty_ground_truth_follows_the_protocol(harness, reason_seg, protocol, right):
    (reason_seg / "val_00001.json").write_text(json.dumps(annotation(shapes=[])))
    rows = [{"id": "val_00001", "no_target": True}]
    task = f"reason_seg(protocol={protocol})"
    found = harness.score(rows, "--subset", only(harness, "val_00001"), tasks=task)
    assert found.task("reason_seg")["metrics"]["gIoU"] == pytest.approx(right, abs=1e-4)
    failed = harness.score(
        [{"id": "val_00001", "response": "none"}],
        "--model",
        "qwen_vl(backend=stored,segmenter=box)",
        "--subset",
        only(harness, "val_00001"),
        tasks=task,
    )
    assert failed.task("reason_seg")["metrics"]["gIoU"] == 0, "no answer is not the answer nothing"


def only(harness, *ids):
    path = harness.folder / "ids"
    path.write_text("\n".join(ids))
    return path


@case(
    "a video of no frames, or with more masks than frames",
    "refused; nothing is cut to fit",
    code=3,
)
@pytest.mark.parametrize("left", [0, 3])
def test_frames_and_masks_must_be_as_many(harness, mevis, edit, left):
    def cut(plain):
        video = next(iter(plain["videos"].values()))
        del video["frames"][left:]

    edit(mevis / "meta_expressions.json", cut)
    words = ["'frames'", "none"] if left == 0 else ["mask_dict.json", "8 masks"]
    harness.eval().says("meta_expressions.json" if left == 0 else "annotation", *words)


@case(
    "`../`, absolute paths or control characters in annotations",
    "refused; the path is never opened",
    code=3,
)
@pytest.mark.parametrize("name", ["../../../etc/passwd", "/etc", "a\\b", "a\0b", "", "..", 5])
@pytest.mark.parametrize("what", ["video", "frame"])
def test_a_name_that_leaves_its_folder_is_refused(harness, mevis, edit, name, what):
    def rename(plain):
        videos = plain["videos"]
        first = next(iter(videos))
        if what == "video":
            videos[str(name)] = videos.pop(first)
        else:
            videos[first]["frames"][0] = f"../{name}" if name in ("", "..", 5, "/etc") else name

    edit(mevis / "meta_expressions.json", rename)
    done = harness.eval()
    inside = "relative" in done.err
    assert inside or (what == "video" and name == 5 and "missing" in done.err)


@case("`../` in a table's column of file names", "refused; names the file and the row", code=3)
def test_an_image_outside_its_folder_is_refused(harness, shapes, bench, counting):
    place = counting.parent / "pixmo-count"
    schema = pa.schema(
        [
            ("image_sha256", pa.string()),
            ("count", pa.int64()),
            ("label", pa.string()),
            ("points", pa.struct([("x", pa.list_(pa.float32())), ("y", pa.list_(pa.float32()))])),
        ]
    )
    row = {"image_sha256": "../../x", "count": 1, "label": "cats", "points": None}
    (place / "data").mkdir(parents=True)
    parquet.write_table(
        pa.Table.from_pylist([row], schema=schema), place / "data" / "train-0.parquet"
    )
    harness.eval(tasks="counting(split=pixmo_train)").says("row 0", "'../../x'")


@case(
    "loading scripts, pickles and `.npy` objects beside the data",
    "never opened",
    code=0,
)
def test_code_beside_the_data_is_never_run(harness, reason_seg, mevis, counting, monkeypatch):
    trap = pickle.dumps(Trap(harness.folder / "canary"))
    script = f"open({str(harness.folder / 'canary')!r}, 'w')"
    objects = np.empty(1, object)
    objects[0] = Trap(harness.folder / "canary")
    for place in (reason_seg, mevis, counting, harness.folder / "data"):
        names = ("__init__", "reason_seg", "mevis", "counting", "dataset", "numpy", "conftest")
        for name in names:
            (place / f"{name}.py").write_text(script)
        for name in ("annotations.pkl", "cache.pt", "dataset_dict.pickle", "x.bin"):
            (place / name).write_bytes(trap)
        np.save(place / "masks.npy", objects, allow_pickle=True)
    monkeypatch.chdir(reason_seg)
    found = harness.eval(tasks="reason_seg,mevis,counting")
    assert all(one["n_failed"] == 0 for one in found.json["tasks"].values())
    harness(
        "data", "check", "--tasks", "reason_seg,mevis,counting", "--data", harness.folder / "data"
    )


@case("an Arrow extension type with a pickle in a Parquet file", "read as plain data", code=0)
def test_an_extension_type_with_a_pickle_is_plain_data(harness, counting):
    (path,) = counting.glob("data/*.parquet")
    table = parquet.read_table(path)
    metadata = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickle.dumps(Trap(harness.folder / "canary")),
    }
    place = table.schema.get_field_index("text")
    field = pa.field("text", pa.string(), metadata=metadata)
    parquet.write_table(table.set_column(place, field, table["text"]), path)
    assert harness.eval(tasks="counting").task("counting")["n_failed"] == 0


@case(
    "an EPS file that is called `.jpg`",
    "refused: only raster formats are opened, so that no file reaches Ghostscript",
    code=3,
)
def test_an_image_that_is_a_program_is_refused(harness, reason_seg):
    page = "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 100 100\n%%EndComments\nshowpage\n%%EOF\n"
    (reason_seg / "val_00001.jpg").write_text(page)
    harness.eval().says("val_00001", "PNG or JPEG")


@case(
    "data that changed since a run was made",
    "not resumed and not scored again; both fingerprints are shown",
    code=5,
)
def test_changed_data_is_not_resumed(harness, reason_seg, edit, contents):
    harness.eval(code=0)
    before = contents(harness.run)
    edit(reason_seg / "val_00001.json", lambda plain: plain.update(shapes=[]))
    harness.eval().says("data.fingerprint", "→", "--restart")
    harness("score", harness.run, code=3).says("fingerprint")
    assert contents(harness.run) == before


@case(
    "text that is no JSON, or JSON that is no annotation",
    "refused; names the file, the field, what was expected and found",
    code=3,
)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "'text'"),
        ("5", "'text'"),
        ("{}", "'text'"),
        ('{"text": "a"}', "found 'a'"),
        ('{"text": ["a"], "is_sentence": 1, "shapes": []}', "'is_sentence'"),
        ('{"text": [""], "is_sentence": true, "shapes": []}', "blank"),
        ('{"text": ["a\\ud800"], "is_sentence": true, "shapes": []}', "surrogate"),
        ("[" * 100_000, "levels"),
        ("1" * 5000, "5000 digits"),
        ("\0" * 50, "JSON"),
    ],
)
def test_an_annotation_of_another_form_is_refused(harness, reason_seg, text, words):
    (reason_seg / "val_00001.json").write_text(text)
    harness.eval().says("val_00001.json", words)


@case("a byte-order mark before an annotation", "skipped", code=0)
def test_a_byte_order_mark_is_skipped(harness, reason_seg):
    whole = harness.eval(out="whole").task("reason_seg")
    path = reason_seg / "val_00001.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert harness.eval().task("reason_seg")["metrics"] == whole["metrics"]


@case(
    "expressions without text, videos without expressions, lists for objects",
    "refused; names the video and the expression",
    code=3,
)
@pytest.mark.parametrize(
    "change",
    [
        lambda plain: {"videos": []},
        lambda plain: [],
        lambda plain: {"videos": {}},
        lambda plain: expression(plain).pop("exp"),
        lambda plain: expression(plain).update(anno_id=3),
        lambda plain: expression(plain).update(anno_id=[10**6]),
        lambda plain: expression(plain).update(exp="a\ud800"),
        lambda plain: next(iter(plain["videos"].values())).update(expressions={"0": 3}),
        lambda plain: next(iter(plain["videos"].values())).update(frames="00000"),
    ],
)
def test_a_malformed_list_of_expressions_is_refused(harness, mevis, edit, change):
    def apply(plain):
        changed = change(plain)
        return changed if isinstance(changed, (dict, list)) and "exp" not in changed else None

    edit(mevis / "meta_expressions.json", apply)
    harness.eval().says("mevis", "expected", "found")


def expression(plain):
    video = next(iter(plain["videos"].values()))
    return next(iter(video["expressions"].values()))


@case(
    "a Parquet file that is cut, empty, or of other columns",
    "refused; names the file and what is missing",
    code=3,
)
@pytest.mark.parametrize("damage", ["cut", "empty", "text", "columns", "no UTF-8"])
def test_a_damaged_table_is_refused(harness, counting, damage):
    (path,) = counting.glob("data/*.parquet")
    whole, table = path.read_bytes(), parquet.read_table(path)
    if damage == "columns":
        parquet.write_table(table.drop_columns(["count"]), path)
    elif damage == "no UTF-8":
        raw = pa.array([b"\xff\xfe"] * len(table), pa.binary())
        text = pa.StringArray.from_buffers(len(table), raw.buffers()[1], raw.buffers()[2])
        place = table.schema.get_field_index("text")
        parquet.write_table(table.set_column(place, "text", text), path)
    else:
        path.write_bytes({"cut": whole[:-50], "empty": b"", "text": b"hello " * 99}[damage])
    words = {"columns": "count", "no UTF-8": "can't decode"}.get(damage, "Parquet")
    harness.eval(tasks="counting").says(path.name, words)


@case(
    "rows without a question or a number, or with a damaged image",
    "refused; names the row and the column",
    code=3,
)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("text", None),
        ("text", "  "),
        ("count", None),
        ("count", -1),
        ("image", {"bytes": b"junk", "path": "x.png"}),
    ],
)
def test_a_malformed_row_is_refused(harness, counting, field, value):
    rewrite(counting, lambda rows: rows[1].update({field: value}))
    done = harness.eval(tasks="counting")
    done.says("question '1'" if field == "image" else f"row 1: {field!r}", "expected", "found")


@case(
    "rows that lost their image",
    "left out, as in the published lists; the record counts them",
    code=0,
)
def test_rows_without_an_image_are_left_out_and_recorded(harness, counting):
    rewrite(counting, lambda rows: rows[1].update(image=None))
    assert harness.eval(tasks="counting").task("counting")["n_total"] == 7
    manifest = json.loads((harness.run / "manifest.json").read_text())
    assert manifest["task"]["arguments"]["without_image"] == 1


@case("`--data` is the benchmark's own folder", "refused; says which folder is meant", code=2)
@pytest.mark.parametrize("below", [".", "ReasonSeg", "ReasonSeg/val"])
def test_the_benchmarks_own_folder_as_the_root_is_said(harness, reason_seg, below):
    own = harness.folder / "data" / "reason_seg"
    done = harness(
        "eval",
        "--model",
        "whole_frame",
        "--tasks",
        "reason_seg",
        "--data",
        own / below,
        "--out",
        harness.folder / "runs",
    )
    done.says("reason_seg/", f"Give --data {own.parent}")


@case(
    "an empty data folder",
    "refused; names the folder that was looked for and says how the data is had",
    code=3,
)
@pytest.mark.parametrize("task", ["reason_seg", "mevis", "counting", "reason_seg(split=test)"])
def test_an_empty_root_is_refused(harness, task):
    (harness.folder / "data").mkdir()
    harness.eval(tasks=task).says(str(harness.folder / "data"), "harness list tasks")


@case("an empty folder of a split", "refused; names the folder", code=3)
def test_an_empty_split_is_refused(harness, reason_seg):
    for path in reason_seg.iterdir():
        path.unlink()
    harness.eval().says(str(reason_seg), "x.jpg and x.json")


@case("a data root with blanks and accents in its path", "works", code=0)
def test_blanks_and_accents_in_paths_are_fine(harness, reason_seg):
    odd = harness.folder / "Daten für Tests" / "数据 (1)"
    odd.parent.mkdir()
    (harness.folder / "data").rename(odd)
    done = harness(
        "eval",
        "--model",
        "whole_frame",
        "--tasks",
        "reason_seg",
        "--data",
        odd,
        "--out",
        odd / "läufe",
        "--quiet",
        "--json",
    )
    assert done.task("reason_seg")["n_failed"] == 0
    (run,) = (odd / "läufe").rglob("results.json")
    assert harness("score", run.parent, "--json").json["tasks"]


@case(
    "a FIFO, a socket or a device in the place of an image, an annotation or a table",
    "refused; names the file; it is never waited for",
    code=3,
)
@pytest.mark.parametrize("kind", ["fifo", "socket", "device"])
@pytest.mark.parametrize("name", ["val_00001.jpg", "val_00001.json"])
def test_what_is_no_file_is_not_waited_for(harness, reason_seg, in_time, tmp_path, kind, name):
    path = reason_seg / name
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        with socket.socket(socket.AF_UNIX) as one, contextlib.chdir(path.parent):
            one.bind(path.name)
    harness.eval().says(name)
    done = harness.main("data", "check", "reason_seg", "--data", tmp_path / "data")
    assert done.code and name in done.out + done.err


@case("a FIFO in the place of a Parquet file", "refused; names the file", code=3)
def test_a_fifo_is_no_table(harness, counting, in_time):
    (path,) = counting.glob("data/*.parquet")
    path.unlink()
    os.mkfifo(path)
    harness.eval().says(path.name, "a FIFO")


@case(
    "a Parquet file with a text of 600 MB in one cell",
    "refused before a row is read; names the column, the limit and the size",
    code=3,
)
def test_a_text_without_end_is_refused(harness, counting, monkeypatch):
    monkeypatch.setattr("harness.layout.parquet_rows.MAX_TEXT_BYTES", 2**16)
    (path,) = counting.glob("data/*.parquet")
    table = parquet.read_table(path)
    column = next(one.name for one in table.schema if pa.types.is_string(one.type))
    texts = ["x" * 2**17, *table[column].to_pylist()[1:]]
    place = table.schema.get_field_index(column)
    parquet.write_table(table.set_column(place, column, pa.array(texts)), path)
    harness.eval().says(path.name, repr(column), str(2**16))


@case(
    "a Parquet file of more than 2²⁰ rows",
    "refused before a row is read; names the file, the limit and the number",
    code=3,
)
def test_a_table_without_end_is_refused(harness, counting):
    (path,) = counting.glob("data/*.parquet")
    table = parquet.read_table(path)
    many = 2_000_000
    flat = {
        name: pa.DictionaryArray.from_arrays(pa.array(np.zeros(many, np.int32)), one)
        for name, one in (("image_url", pa.array(["a"])),)
    }
    columns = {
        name: flat.get(name, pa.nulls(many, table.schema.field(name).type))
        for name in table.column_names
    }
    parquet.write_table(pa.table(columns), path, row_group_size=many)
    harness.eval().says(path.name, "rows", str(many))
