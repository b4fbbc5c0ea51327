"""Files of annotation tools and trackers, as they write them: the printed command keeps all."""

import base64
import csv
import io
import itertools
import json
import re
import shutil
import subprocess
import zlib

import numpy as np
import pytest
from PIL import Image

from harness.errors import DataError
from harness.masks import Rle
from harness.tasks.table.annotation_tools import brush_bytes, cvat, label_studio, via2, via3
from harness.tasks.table.draft import draft
from harness.tasks.table.task import table
from harness.tasks.table.voc_files import voc

WIDTH, HEIGHT = 64, 48
BOX = (8, 12, 24, 36)
"""The region of every file: left, top, right, bottom."""
SQUARE = np.zeros((HEIGHT, WIDTH), bool)
SQUARE[12:36, 8:24] = True


def obeyed(path, name="mine.jsonl"):
    """Return the file that the command of a table's refusal writes, under a name."""
    with pytest.raises(DataError) as error:
        draft(path)
    typed = re.search(r"`(.*?)`", str(error.value), re.DOTALL)[1]
    subprocess.run(typed, shell=True, cwd=path.parent, check=True)
    (made,) = path.parent.glob("NEW*")
    return made.rename(path.parent / name)


def samples(path, images):
    """Return the samples of a table by the description that is drafted for it."""
    for image in images:
        (path.parent / image).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (WIDTH, HEIGHT)).save(path.parent / image)
    path.with_suffix(".toml").write_text(draft(path).toml("mine"), encoding="utf-8")
    return list(table(path.parent, file=path).samples())


def accepted(path, image, n_ignored):
    """Return a table that is refused for what its images have to ignore, without that field."""
    with pytest.raises(DataError, match=rf"'ignored': expected nothing.*found {n_ignored}\."):
        samples(path, [image])
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert {row.pop("ignored") for row in rows} == {n_ignored}
    return written(path, "".join(f"{json.dumps(row)}\n" for row in rows))


def brush(mask):
    """Return Label Studio's bytes of a mask: runs of repeated bytes of the four channels."""
    values = np.repeat((mask * 255).ravel(), 4).tolist()
    bits = f"{len(values):032b}" + f"{7:05b}" + "".join(f"{n - 1:04b}" for n in (3, 4, 8, 16))
    for value, run in itertools.groupby(values):
        bits += f"111{len(list(run)) - 1:016b}{value:08b}"
    bits += "0" * (-len(bits) % 8)
    return [int(bits[place : place + 8], 2) for place in range(0, len(bits), 8)]


def test_bytes_of_a_brush_by_hand():
    head = f"{4:032b}" + f"{7:05b}" + "0000" * 4  # four bytes of 8 bits, lengths of 1 bit
    runs = "0001" + f"{3:08b}{255:08b}" + "1001" + f"{9:08b}"  # 3 and 255, then 9 twice
    bits = head + runs + "0" * (-len(head + runs) % 8)
    packed = [int(bits[place : place + 8], 2) for place in range(0, len(bits), 8)]
    assert brush_bytes(packed, 4).tolist() == [3, 255, 9, 9]
    with pytest.raises(DataError, match="8 bytes"):
        brush_bytes(packed, 8)


def bitmap(mask):
    """Return Supervisely's text of a mask: a PNG of two colours, packed and in base64."""
    image = Image.fromarray(mask.astype(np.uint8), "P")
    image.putpalette([0, 0, 0, 255, 255, 255])
    file = io.BytesIO()
    image.save(file, "PNG", transparency=0)
    return base64.b64encode(zlib.compress(file.getvalue())).decode()


def shape(kind, **given):
    """Return an object of Supervisely."""
    return {"id": 1, "geometryType": kind, "classTitle": kind, "tags": [], **given}


HOLE = [[[10, 14], [12, 14], [12, 15], [10, 15]]]
RING = np.array([[True, True, True], [True, False, True]])
SUPERVISELY = {
    "description": "",
    "tags": [],
    "size": {"height": HEIGHT, "width": WIDTH},
    "objects": [
        shape(
            "polygon",
            points={"exterior": [[8, 12], [23, 12], [23, 35], [8, 35]], "interior": HOLE},
        ),
        shape("bitmap", bitmap={"data": bitmap(RING), "origin": [40, 5]}),
    ],
}


def test_supervisely_keeps_holes_and_places(tmp_path):
    path = tmp_path / "i.png.json"
    path.write_text(json.dumps(SUPERVISELY), encoding="utf-8")
    polygon, drawn = samples(obeyed(path), ["i.png"])
    holed, ring = SQUARE.copy(), np.zeros((HEIGHT, WIDTH), bool)
    holed[14:16, 10:13] = False
    ring[5:7, 40:43] = RING
    assert polygon.target.answer.masks == (Rle.from_array(holed),)
    assert drawn.target.answer.masks == (Rle.from_array(ring),)
    assert [sample.query.text for sample in (polygon, drawn)] == ["polygon", "bitmap"]


CVAT = f"""<?xml version="1.0" encoding="utf-8"?>
<annotations>
  <version>1.1</version>
  <meta><task><id>1</id><mode>annotation</mode></task></meta>
  <image id="0" name="i.png" width="{WIDTH}" height="{HEIGHT}">
    SHAPES
  </image>
</annotations>
"""
BOX_OF_CVAT = (
    '<box label="cat" source="manual" occluded="0" xtl="8.00" ytl="12.00" xbr="24.00" '
    'ybr="36.00" z_order="0"></box>'
)
MASKS_OF_CVAT = (
    '<polygon label="cat" source="manual" occluded="0" '
    'points="8.00,12.00;24.00,12.00;24.00,36.00;8.00,36.00" z_order="0"></polygon>'
    '<mask label="dog" source="manual" occluded="0" rle="1, 3, 1, 1" left="40" top="5" width="3" '
    'height="2" z_order="0"></mask><tag label="indoor" source="manual"></tag>'
)


def written(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_cvats_masks_go_along_the_rows(tmp_path):
    path = written(tmp_path / "annotations.xml", CVAT.replace("SHAPES", MASKS_OF_CVAT))
    cat, dog = samples(obeyed(path), ["i.png"])
    mask = np.zeros((HEIGHT, WIDTH), bool)
    mask[5:7, 40:43] = [[False, True, True], [True, False, True]]
    assert cat.target.answer.masks == (Rle.from_array(SQUARE),)
    assert dog.target.answer.masks == (Rle.from_array(mask),)


@pytest.mark.parametrize(
    ("shapes", "says"),
    [
        (BOX_OF_CVAT.replace("z_order", 'rotation="30.00" z_order'), "a box with rotation"),
        (BOX_OF_CVAT.replace("box", "ellipse"), "ellipse"),
        (BOX_OF_CVAT + MASKS_OF_CVAT, "boxes or masks, found both"),
    ],
)
def test_other_shapes_of_cvat_stop_the_command(shapes, says, tmp_path):
    path = written(tmp_path / "a.xml", CVAT.replace("SHAPES", shapes))
    with pytest.raises(DataError, match=says):
        list(cvat([str(path)]))


def test_tracks_of_cvat_are_refused(tmp_path):
    path = written(tmp_path / "a.xml", CVAT.replace("annotation</mode>", "interpolation</mode>"))
    with pytest.raises(DataError, match="CVAT for images"):
        draft(path)


def task(*results, **more):
    """Return a task of Label Studio's JSON with shapes in percent."""
    stated = {"original_width": WIDTH, "original_height": HEIGHT, "image_rotation": 0}
    listed = [
        {**stated, "type": key, "value": {**value, key: [name]}} for key, name, value in results
    ]
    entry = {"result": listed, "was_cancelled": False, "ground_truth": False, **more}
    return {"id": 1, "annotations": [entry], "data": {"image": "/data/upload/1/i.png"}, "meta": {}}


RECTANGLE = {"x": 12.5, "y": 25.0, "width": 25.0, "height": 50.0, "rotation": 0}


def test_brushes_of_label_studio(tmp_path):
    drawn = ("brushlabels", "dog", {"format": "rle", "rle": brush(SQUARE)})
    corners = {"points": [[12.5, 25], [37.5, 25], [37.5, 75], [12.5, 75]]}
    plain = [task(drawn, ("polygonlabels", "cat", corners))]
    path = written(tmp_path / "project.json", json.dumps(plain))
    read = samples(obeyed(path), ["i.png"])
    assert [sample.query.text for sample in read] == ["dog", "cat"]
    assert [sample.target.answer.masks for sample in read] == [(Rle.from_array(SQUARE),)] * 2


@pytest.mark.parametrize(
    ("plain", "says"),
    [
        (task(("rectanglelabels", "cat", {**RECTANGLE, "rotation": 20})), "rotated"),
        (task(("ellipselabels", "cat", {"x": 1, "radiusX": 3})), "ellipselabels"),
        ({**task(), "annotations": task()["annotations"] * 2}, "one annotation"),
    ],
)
def test_what_label_studios_shapes_leave_open(plain, says, tmp_path):
    path = written(tmp_path / "project.json", json.dumps([plain]))
    with pytest.raises(DataError, match=says):
        list(label_studio(str(path)))


RECT = {"name": "rect", "x": 8, "y": 12, "width": 16, "height": 24}
VIA2_CSV = io.StringIO()
csv.writer(VIA2_CSV, quoting=csv.QUOTE_MINIMAL).writerows(
    [
        "filename file_size file_attributes region_count region_id region_shape_attributes "
        "region_attributes".split(),
        ["i.png", 99, "{}", 1, 0, json.dumps(RECT), json.dumps({"class": "cat", "note": ""})],
        ["b.png", 99, "{}", 0, 0, "{}", "{}"],
    ]
)
IN_VIA2 = {
    "filename": "i.png",
    "size": 99,
    "regions": [{"shape_attributes": RECT, "region_attributes": {"class": {"cat": True}}}],
    "file_attributes": {},
}
VIA3 = {
    "project": {"pid": "__VIA_PROJECT_ID__", "data_format_version": "3.1.1", "vid_list": ["1"]},
    "config": {},
    "attribute": {"1": {"aname": "kind", "type": 3, "options": {"0": "cat", "1": "dog"}}},
    "file": {"1": {"fid": 1, "fname": "i.png", "type": 2, "loc": 1, "src": ""}},
    "view": {"1": {"fid_list": [1]}},
    "metadata": {
        "1_a": {"vid": "1", "flg": 0, "z": [], "xy": [2, 8, 12, 16, 24], "av": {"1": "0"}}
    },
}
VIA3_CSV = """# Exported using VGG Image Annotator (http://www.robots.ox.ac.uk/~vgg/software/via)
# SHAPE_ID = {"POINT":1,"RECTANGLE":2,"CIRCLE":3,"ELLIPSE":4,"LINE":5,"POLYLINE":6,"POLYGON":7}
# ATTRIBUTE = {"3":{"aname":"event","type":1,"options":{"default":""},"default_option_id":""}}
# CSV_HEADER = metadata_id,file_list,flags,temporal_coordinates,spatial_coordinates,metadata
"1_j5sJvB9h","[""v.mp4""]",0,"[1.5,7.25]","[]","{""3"":""a door opens""}"
"""
KITTI_BOX = "0 0 -0.2 8.00 12.00 24.00 36.00 1.89 0.48 1.20 1.84 1.47 8.41 0.01"
DONT_CARE = "DontCare -1 -1 -10 1.0 2.0 3.0 4.0 -1 -1 -1 -1000 -1000 -1000 -10"
MOT = "1,1,9,13,16,24,1,1,0.8\n1,2,9,13,80,24,0,1,0.8\n1,3,9,13,16,24,1,7,1\n"
VISDRONE = "8,12,16,24,1,4,0,1,\n1,1,9,9,0,0,0,0\n2,2,9,9,0,11,0,0\n"
BOXES = {
    "Supervisely": (
        "i.png.json",
        json.dumps(
            {
                **SUPERVISELY,
                "objects": [
                    shape("rectangle", points={"exterior": [[8, 12], [23, 35]], "interior": []})
                ],
            }
        ),
    ),
    "CVAT": ("a.xml", CVAT.replace("SHAPES", BOX_OF_CVAT)),
    "Label Studio": ("p.json", json.dumps([task(("rectanglelabels", "cat", RECTANGLE))])),
    "VIA 2, CSV": ("via_region_data.csv", VIA2_CSV.getvalue()),
    "VIA 2, annotations": ("via.json", json.dumps({"i.png99": IN_VIA2})),
    "VIA 2, project": (
        "via.json",
        json.dumps(
            {
                "_via_settings": {},
                "_via_img_metadata": {"i.png99": IN_VIA2},
                "_via_attributes": {},
                "_via_data_format_version": "2.0.10",
                "_via_image_id_list": ["i.png99"],
            }
        ),
    ),
    "VIA 3, project": ("via3.json", json.dumps(VIA3)),
    "KITTI, image": ("i.txt", f"cat {KITTI_BOX}\n{DONT_CARE}\n"),
    "KITTI, sequence": ("0002.txt", f"0 -1 {DONT_CARE}\n0 3 cat {KITTI_BOX}\n"),
    "MOT": ("seq/gt/gt.txt", MOT),
    "VisDrone, image": ("i.txt", VISDRONE),
    "VisDrone, video": ("v.txt", "".join(f"3,7,{line}\n" for line in VISDRONE.split())),
}
N_IGNORED = {
    **dict.fromkeys(("KITTI, image", "KITTI, sequence"), 1),
    **dict.fromkeys(("MOT", "VisDrone, image", "VisDrone, video"), 2),
}


@pytest.mark.parametrize("name", BOXES)
def test_boxes_have_a_command(name, tmp_path):
    file, text = BOXES[name]
    images = {
        "KITTI, sequence": "0002/000000.png",
        "MOT": "img1/000001.jpg",
        "VisDrone, image": "i.jpg",
        "VisDrone, video": "v/0000003.jpg",
    }
    converted = obeyed(written(tmp_path / file, text))
    if name in N_IGNORED:
        converted = accepted(converted, images.get(name, "i.png"), N_IGNORED[name])
    (sample,) = samples(converted, [images.get(name, "i.png")])
    assert [tuple(box) for box in sample.target.answer.boxes] == [BOX]
    names = {"Supervisely": "rectangle", "MOT": "pedestrian"}
    visdrone = "car" if "VisDrone" in name else "cat"
    assert sample.query.text == names.get(name, visdrone)


CORNERS = "8 12 24 12 24 36 8 36"
LINES = {
    "DOTA": (
        "P1.txt",
        f"imagesource:GoogleEarth\ngsd:0.1\n{CORNERS} cat 0\n{CORNERS} dog 0\n{CORNERS} dog 1\n",
        "P1.png",
        "cat",
    ),
    "ICDAR": (
        "gt_img_1.txt",
        "\ufeff8,12,24,12,24,36,8,36,Genaxis, Theatre\n1,1,3,1,3,3,1,3,###\n",
        "img_1.jpg",
        "Genaxis, Theatre",
    ),
    "ICDAR MLT": ("gt_img_1.txt", "8,12,24,12,24,36,8,36,Latin,Taxi\n", "img_1.jpg", "Taxi"),
    "WIDER FACE": (
        "wider_face_val_bbx_gt.txt",
        "0--Parade/a.jpg\n1\n8 12 16 24 0 0 0 0 0 0 \n"
        "0--Parade/b.jpg\n0\n0 0 0 0 0 0 0 0 0 0 \n"
        "0--Parade/c.jpg\n2\n8 12 16 24 0 0 0 0 0 0 \n8 12 16 24 0 0 0 1 0 0 \n",
        "0--Parade/a.jpg",
        "face",
    ),
}


@pytest.mark.parametrize("name", LINES)
def test_an_object_a_line_has_a_command(name, tmp_path):
    file, text, image, question = LINES[name]
    (sample,) = samples(obeyed(written(tmp_path / file, text)), [image])
    assert sample.query.text == question
    answer = sample.target.answer
    if answer.boxes:
        assert [tuple(box) for box in answer.boxes] == [BOX]
    else:
        assert (answer.masks[0].to_array() == SQUARE).all()


@pytest.mark.parametrize("end", ["", ",-1,-1,-1", ",-1,-1,-1.00"])
def test_boxes_of_mot_without_classes(end, tmp_path):
    path = written(tmp_path / "det/det.txt", f"1,-1,9,13,16,24,0.9{end}\n")
    (sample,) = samples(obeyed(path), ["img1/000001.jpg"])
    assert [tuple(box) for box in sample.target.answer.boxes] == [BOX]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("M0101_gt_whole.txt", "1,1,9,13,16,24,1,1,1\n"),
        ("gt.txt", "1,1,9,13,16,24,1,1,1\n1,2,9,13,16,24,2,1,3\n"),
        ("gt.txt", "1,1,9,13,16,24,1,-4.1,2.5,0\n"),
        ("i.txt", "8,12,16,24,1,12,0,1\n"),
    ],
)
def test_boxes_of_unknown_columns_are_not_called_pedestrians(name, text, tmp_path):
    with pytest.raises(DataError) as error:
        draft(written(tmp_path / name, text))
    assert "`python" not in str(error.value)


def test_a_command_without_records_fails(tmp_path):
    path = written(tmp_path / "i.txt", "8,12,16,24,0,4,0,1\n")
    with pytest.raises(subprocess.CalledProcessError):
        obeyed(path)


VOC_BOX = "<bndbox><xmin>8</xmin><ymin>12</ymin><xmax>24</xmax><ymax>36</ymax></bndbox>"
VOC = """<annotation><filename>i.png</filename>
<object><name>cat</name><pose>Left</pose>BOX<description>the left cat</description></object>
<object><name>cat</name>BOX<description>a cat</description><score>0.5</score></object>
</annotation>""".replace("BOX", VOC_BOX)


def test_an_objects_text_in_voc_is_its_question(tmp_path):
    path = written(tmp_path / "i.xml", VOC)
    with pytest.raises(DataError, match="leaves out <score>"):
        draft(path)
    read = samples(obeyed(path), ["i.png"])
    assert [sample.query.text for sample in read] == ["the left cat", "a cat"]
    assert [[tuple(b) for b in sample.target.answer.boxes] for sample in read] == [[BOX]] * 2


def test_difficult_objects_of_voc_are_left_out_and_counted(tmp_path, capsys):
    objects = [("cat", 0), ("cat", 1), ("dog", 1), ("hen", 0)]
    listed = "".join(
        f"<object><name>{name}</name><difficult>{difficult}</difficult>{VOC_BOX}</object>"
        for name, difficult in objects
    )
    text = f"<annotation><filename>i.png</filename>{listed}</annotation>"
    records = list(voc([str(written(tmp_path / "i.xml", text))]))
    counts = [(record["question"], len(record["boxes"]), record["difficult"]) for record in records]
    assert counts == [("cat", 1, 1), ("hen", 1, 0)]
    assert "2 difficult objects" in capsys.readouterr().err


def test_a_text_that_only_some_objects_of_voc_have_is_named(tmp_path):
    path = written(tmp_path / "i.xml", VOC.replace("<description>a cat</description>", ""))
    with pytest.raises(DataError, match="leaves out <description>, <score>"):
        draft(path)
    (sample,) = samples(obeyed(path), ["i.png"])
    assert sample.query.text == "cat" and len(sample.target.answer.boxes) == 2
    with pytest.raises(DataError, match="found <description>"):
        list(voc([str(path)]))


@pytest.mark.parametrize(
    ("part", "says"),
    [("<name>cat</name>", "<name>"), ("<xmin>8</xmin>", "bndbox"), ("i.png", "<filename>")],
)
def test_an_object_of_voc_that_lacks_a_part_stops_the_command(part, says, tmp_path):
    path = written(tmp_path / "i.xml", VOC.replace(part, "", 1))
    with pytest.raises(DataError, match=says):
        list(voc([str(path)], "name", ["description", "score"]))


@pytest.mark.parametrize("visibility", ["8.3e-05", ".5", "0.5"])
def test_the_visibility_in_mots_ground_truth_may_be_small(visibility, tmp_path):
    path = written(tmp_path / "seq/gt/gt.txt", f"1,1,9,13,16,24,1,1,{visibility}\n")
    (sample,) = samples(obeyed(path), ["img1/000001.jpg"])
    assert [tuple(box) for box in sample.target.answer.boxes] == [BOX]


def test_mots_boxes_are_cut_at_their_image(tmp_path):
    path = written(tmp_path / "seq/gt/gt.txt", "1,1,-3,13,27,80,1,1,1\n")
    written(tmp_path / "seq/seqinfo.ini", f"[Sequence]\nimWidth={WIDTH}\nimHeight={HEIGHT}\n")
    (sample,) = samples(obeyed(path), ["img1/000001.jpg"])
    assert [tuple(box) for box in sample.target.answer.boxes] == [(0, 12, 23, 48)]


def test_moments_of_via3(tmp_path):
    converted = obeyed(written(tmp_path / "via3.csv", VIA3_CSV))
    assert json.loads(converted.read_text()) == {
        "video": "v.mp4",
        "question": "a door opens",
        "answer": [1.5, 7.25],
    }


def test_a_region_without_its_name_stops_the_command(tmp_path):
    path = written(tmp_path / "via.csv", VIA2_CSV.getvalue())
    with pytest.raises(DataError, match="attribute 'note'"):
        list(via2(str(path), "note"))


def test_several_options_of_via3_are_no_name(tmp_path):
    entry = {**VIA3["metadata"]["1_a"], "av": {"1": "0,1"}}
    path = written(tmp_path / "via3.json", json.dumps({**VIA3, "metadata": {"1_a": entry}}))
    with pytest.raises(DataError, match="attribute 'kind'"):
        list(via3(str(path), "kind"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("via3.csv", VIA3_CSV.replace("[1.5,7.25]", "[1.5")),
        ("via3.json", json.dumps({**VIA3, "view": {}})),
        ("via.json", json.dumps({"_via_img_metadata": {"i": {"regions": [{}]}}})),
        ("via.csv", VIA2_CSV.getvalue().replace("rect", '"')),
        ("via.csv", VIA2_CSV.getvalue().replace("cat", "")),
    ],
)
def test_broken_files_of_via_are_refused(name, text, tmp_path):
    path = written(tmp_path / name, text)
    with pytest.raises(DataError, match=name):
        draft(path)


def mots_line(frame, number, kind, mask):
    return f"{frame} {number} {kind} {HEIGHT} {WIDTH} {Rle.from_array(mask).counts}\n"


LEFT, RIGHT = SQUARE.copy(), SQUARE.copy()
LEFT[:, 16:] = RIGHT[:, :16] = False
IGNORED = np.zeros((HEIGHT, WIDTH), bool)
IGNORED[:4, :4] = True


def test_mots_objects_of_a_class_are_united(tmp_path):
    lines = [(0, 1001, 1, LEFT), (0, 1002, 1, RIGHT), (0, 10000, 10, IGNORED)]
    path = written(tmp_path / "0002.txt", "".join(mots_line(*line) for line in lines))
    path = accepted(obeyed(path), "0002/000000.png", 1)
    (sample,) = samples(path, ["0002/000000.png"])
    assert sample.query.text == "car"
    assert sample.target.answer.masks == (Rle.from_array(SQUARE),)


def test_images_of_mots_are_neither_masks_nor_probabilities(tmp_path):
    values = np.zeros((HEIGHT, WIDTH), np.uint16)
    values[LEFT], values[RIGHT], values[IGNORED] = 1001, 1002, 10000
    (tmp_path / "0002").mkdir()
    Image.fromarray(values).save(tmp_path / "0002" / "000000.png")
    rows = [{"image": "i.png", "question": "cars", "mask": "0002/000000.png"}]
    path = written(tmp_path / "t.jsonl", json.dumps(rows[0]))
    with pytest.raises(DataError) as error:
        samples(path, ["i.png"])
    typed = re.search(r"`(.*?)`", str(error.value), re.DOTALL)[1].replace("SEQUENCE", "0002")
    subprocess.run(typed, shell=True, cwd=tmp_path, check=True)
    path = accepted((tmp_path / "NEW").rename(tmp_path / "mine.jsonl"), "0002/000000.png", 1)
    (sample,) = samples(path, ["0002/000000.png"])
    assert sample.target.answer.masks == (Rle.from_array(SQUARE),)


def test_frames_of_sa_v_are_every_fourth(tmp_path):
    masks = [
        [mask.to_json() for mask in map(Rle.from_array, frame)]
        for frame in ((SQUARE, IGNORED), (LEFT, SQUARE & False))
    ]
    plain = {
        "video_id": "sav_000001",
        "video_frame_count": 8.0,
        "video_height": float(HEIGHT),
        "video_width": float(WIDTH),
        "masklet": masks,
        "masklet_id": [0, 1],
        "masklet_first_appeared_frame": [0, 0],
        "masklet_frame_count": [2, 2],
        "masklet_type": ["manual", "manual"],
        "masklet_num": 2,
    }
    path = written(tmp_path / "sav_000001_manual.json", json.dumps(plain))
    read = samples(obeyed(path), [f"sav_000001/0000{frame}.jpg" for frame in (0, 4)])
    assert [sample.target.answer.masks for sample in read] == [
        (Rle.from_array(mask),) for mask in (SQUARE, IGNORED, LEFT)
    ]


VOC_SIZE = "<size><width>{}</width><height>{}</height><depth>3</depth></size>"
SIZED = {
    "VOC": ("i.xml", VOC.replace("<object>", VOC_SIZE.format(128, 96) + "<object>", 1)),
    "VOC, by class": (
        "i.xml",
        f"<annotation><filename>i.png</filename>{VOC_SIZE.format(128, 96)}<object><name>cat</name>"
        f"{VOC_BOX}</object></annotation>",
    ),
    "CVAT": ("a.xml", CVAT.replace("SHAPES", BOX_OF_CVAT).replace(f'"{WIDTH}"', '"128"')),
    "Supervisely": (
        "i.png.json",
        json.dumps(json.loads(BOXES["Supervisely"][1]) | {"size": {"width": 128, "height": 96}}),
    ),
    "TensorFlow": (
        "t.csv",
        "filename,width,height,class,xmin,ymin,xmax,ymax\ni.png,128,96,cat,8,12,24,36\n",
    ),
    "labelme": (
        "i.json",
        json.dumps(
            {
                "imagePath": "i.png",
                "imageWidth": 128,
                "imageHeight": 96,
                "shapes": [
                    {"label": "cat", "points": [[8, 12], [24, 36]], "shape_type": "rectangle"}
                ],
            }
        ),
    ),
    "Datumaro": (
        "d.json",
        json.dumps(
            {
                "categories": {"label": {"labels": [{"name": "cat"}]}},
                "items": [
                    {
                        "annotations": [{"type": "bbox", "label_id": 0, "bbox": [8, 12, 16, 24]}],
                        "image": {"path": "i.png", "size": [96, 128]},
                    }
                ],
            }
        ),
    ),
    "Label Studio": (
        "p.json",
        json.dumps([task(("rectanglelabels", "cat", RECTANGLE))]).replace(f": {WIDTH}", ": 128"),
    ),
    "MOT": ("seq/gt/gt.txt", MOT.partition("\n")[0]),
}


@pytest.mark.parametrize("name", SIZED)
def test_a_size_that_a_tool_states_and_the_image_does_not_have_is_refused(name, tmp_path):
    file, text = SIZED[name]
    is_list = name in ("labelme", "Datumaro")
    if is_list and shutil.which("jq") is None:
        pytest.skip("the way out is a command of jq")
    written(tmp_path / "seq/seqinfo.ini", "[Sequence]\nimWidth=128\nimHeight=96\n")
    path = obeyed(written(tmp_path / file, text), "mine.json" if is_list else "mine.jsonl")
    assert is_list or "not used: bbox_mode" not in draft(path).toml("mine")
    image = "img1/000001.jpg" if name == "MOT" else "i.png"
    with pytest.raises(DataError, match=f"size of its image, {WIDTH} × {HEIGHT}"):
        samples(path, [image])


@pytest.mark.parametrize("size", [("0", "0"), ("", ""), (WIDTH, HEIGHT)])
def test_a_size_of_voc_that_is_unknown_or_right_is_no_mistake(size, tmp_path):
    text = SIZED["VOC, by class"][1].replace(VOC_SIZE.format(128, 96), VOC_SIZE.format(*size))
    assert samples(obeyed(written(tmp_path / "i.xml", text)), ["i.png"])
