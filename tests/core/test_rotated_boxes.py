"""Boxes that CVAT rotates: refused, with a command that writes the boxes around them."""

import json
import re
import shlex
import shutil
import subprocess

import pytest

from harness.errors import DataError
from harness.formats.rotated import refuse_rotated
from harness.tasks.table.layouts import coco

ROTATED = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [40, 60, 40, 20]}


def annotation(degrees, **other):
    return {**ROTATED, "segmentation": [], "attributes": {"rotation": degrees}, **other}


@pytest.mark.skipif(shutil.which("jq") is None, reason="the way out is a command of jq")
def test_a_rotated_box_is_refused_and_the_command_writes_the_one_around_it(tmp_path):
    path = tmp_path / "FILE"
    things = [annotation(90.0), annotation(0.0, bbox=[1, 2, 3, 4], image_id=2)]
    images = [{"id": number, "file_name": f"{number}.png"} for number in (1, 2)]
    data_set = {"images": images, "categories": [{"id": 1, "name": "cat"}], "annotations": things}
    path.write_text(json.dumps(data_set))
    with pytest.raises(DataError, match="rotation by 90 degrees") as refused:
        [parse() for _, parse in coco(path)]
    command = re.search(r"`(jq .*?) > NEW`", str(refused.value))[1]
    done = subprocess.run(shlex.split(command), cwd=tmp_path, capture_output=True, check=True)
    path.write_bytes(done.stdout)
    boxes = [parse()["boxes"] for _, parse in coco(path)]
    assert boxes[0][0] == pytest.approx([50, 50, 70, 90])
    assert boxes[1] == [[1, 2, 4, 6]]


def test_boxes_that_no_rotation_changes_are_kept():
    corners = [[50, 50, 70, 50, 70, 90, 50, 90]]
    for record in (annotation(0.0), annotation(180.0), annotation(45.0, segmentation=corners)):
        refuse_rotated(record, "")
    refuse_rotated({**ROTATED, "attributes": {"occluded": False}}, "")
    with pytest.raises(DataError):
        refuse_rotated(annotation(30), "")
