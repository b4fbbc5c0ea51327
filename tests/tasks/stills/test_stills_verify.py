"""Perfect answers reach every ceiling, and readers with a planted bug do not."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from harness import plugins
from harness.cli.main import main
from harness.errors import DataError, UsageError
from harness.masks import Rle
from harness.run.verify import verify
from harness.spec import parse
from harness.types import Box

from .conftest import NAMES

SPECS = {
    "reason_seg(layout=hub,protocol=seg/visionreasoner)": 6,
    "reason_seg(layout=hub,split=test,protocol=seg/visionreasoner)": 6,
    "refcoco": 6,
    "refcoco(split=train)": 24,
    "refcoco(split=testA)": 6,
    "refcoco(split=testB)": 6,
    "refcoco(split=test,split_by=google)": 6,
    "refcoco(protocol=res/expression-strict)": 6,
    "refcoco(answer=box)": 6,
    "refcoco(layout=visionreasoner,answer=box)": 6,
    "refcoco(layout=lmms,answer=box)": 6,
    "refcoco(layout=visionreasoner,protocol=res/expression-strict)": 6,
    "refcoco_plus": 6,
    "refcoco_plus(layout=lmms,answer=box,split=testA)": 6,
    "refcocog": 6,
    "refcocog(split=test)": 6,
    "refcocog(split_by=google)": 6,
    "grefcoco": 6,
    "grefcoco(protocol=res/rela_pixels)": 6,
    "grefcoco(split=train)": 24,
    "grefcoco(answer=box)": 6,
    "grefcoco(protocol=res/visionreasoner-nonobj,split=testA)": 6,
    "llm_seg40k": 6,
    "llm_seg40k(protocol=seg/llmseg,split=test)": 6,
}
BY_OBJECT = (
    "refcoco(protocol=res/instance)",
    "refcoco(protocol=res/instance,answer=box)",
    "refcocog(protocol=res/instance,layout=visionreasoner)",
    "coco_detection",
    "coco_detection(layout=coco)",
    "coco_detection(protocol=coco/scores)",
)


@pytest.fixture(scope="module")
def reader():
    return plugins.build("models", parse("qwen_vl(backend=stored)"))


@pytest.mark.parametrize("spec", [*SPECS, *BY_OBJECT])
def test_perfect_answers_reach_the_ceiling_both_ways(build, stills, reader, spec):
    task = build(spec, stills)
    assert not list(task.check())
    verdicts = list(verify(task, reader))
    assert [one.way for one in verdicts] == ["answers", "responses"]
    for one in verdicts:
        # Masks of an image's own pixels are not quite those that ReLA draws on its square.
        lowest = 0.98 if task.protocol.name == "res/rela" else 1.0
        assert one.is_passed and lowest <= one.ceiling <= 1.0 and one.tolerance <= 2.1e-5
        assert one.n == SPECS[spec] if spec in SPECS else one.n >= 3


@pytest.mark.parametrize("name", NAMES)
def test_perfect_answers_reach_the_ceiling_on_the_committed_examples(build, example, reader, name):
    verdicts = list(verify(build(name, example(name)), reader))
    assert len(verdicts) == 2 and all(one.is_passed and one.n == 3 for one in verdicts)


def missed(task):
    return not any(one.is_passed for one in verify(task, None))


def test_boxes_with_sizes_instead_of_edges_miss_the_ceiling(build, stills):
    task = build("refcoco(answer=box)", stills)

    def sized(prediction):
        (box,) = prediction.answer.boxes
        wrong = Box(box.left, box.top, box.right - box.left, box.bottom - box.top)
        return replace(prediction, answer=replace(prediction.answer, boxes=(wrong,)))

    def score(unit, predictions):
        return task.protocol.score(unit, [sized(one) for one in predictions])

    assert not missed(task)
    assert missed(replace(task, protocol=replace(task.protocol, score=score)))


def test_a_mask_that_is_one_pixel_off_misses_the_ceiling(build, stills):
    task = build("refcoco", stills)

    def shifted(sample):
        mask = np.roll(sample.target.answer.masks[0].to_array(), 1, axis=1)
        answer = replace(sample.target.answer, masks=(Rle.from_array(mask),))
        return replace(sample, target=replace(sample.target, answer=answer))

    def score(unit, predictions):
        return task.protocol.score([shifted(one) for one in unit], predictions)

    assert missed(replace(task, protocol=replace(task.protocol, score=score)))


def test_an_expression_without_target_answered_by_an_empty_mask_misses_the_ceiling(build, stills):
    task = build("grefcoco", stills)

    def score(unit, predictions):
        output = [replace(one, answer=replace(one.answer, no_target=False)) for one in predictions]
        return task.protocol.score(unit, output)

    assert missed(replace(task, protocol=replace(task.protocol, score=score)))


def test_the_ceiling_of_grefcoco_leaves_out_targets_without_a_pixel(build, refer_files):
    root = refer_files(
        "grefcoco",
        "grefs(unc).json",
        things=[{"segmentation": []}],
        refs=[
            {"ann_id": [70]},
            {
                "ref_id": 2,
                "ann_id": [-1],
                "sentences": [{"sent_id": 9, "sent": "no", "raw": "No", "tokens": []}],
            },
        ],
    )
    verdict = next(verify(build("grefcoco", root), None))
    assert verdict.is_passed and verdict.ceiling == verdict.value == 0.5


def test_a_protocol_is_refused_where_the_layout_has_lost_its_ground_truth(build, stills, tmp_path):
    with pytest.raises(UsageError, match=r"layout=lmms.*res/expression"):
        build("refcoco(layout=lmms)", stills)
    with pytest.raises(UsageError, match="layout=visionreasoner"):
        build("refcoco(layout=visionreasoner)", stills)
    with pytest.raises(UsageError, match=r"^protocol=seg/lisa: .*seg/vision.*/ReasonSeg_val"):
        build("reason_seg(layout=hub)", stills)
    shutil.copytree(
        stills / "reason_seg" / "ReasonSeg_val", tmp_path / "reason_seg" / "ReasonSeg_val"
    )
    with pytest.raises(UsageError, match="protocol=seg/visionreasoner"):
        build("reason_seg", tmp_path)
    found = build("reason_seg(protocol=seg/visionreasoner)", tmp_path)
    assert found.arguments["layout"] == "hub"
    assert "defect" in found.arguments["ignored_regions"]
    with pytest.raises(DataError, match="harness list tasks reason_seg"):
        build("reason_seg(split=train,layout=hub,protocol=seg/visionreasoner)", stills)


def test_a_layout_is_found_by_looking(build, stills, tmp_path):
    assert build("refcoco(answer=box)", stills).arguments["layout"] == "refer"
    shutil.copytree(stills / "refer_seg" / "lmms-lab", tmp_path / "refer_seg" / "lmms-lab")
    assert build("refcoco(answer=box)", tmp_path).arguments["layout"] == "lmms"
    shutil.copytree(
        stills / "refer_seg" / "refcoco_val_all", tmp_path / "refer_seg" / "refcoco_val_all"
    )
    assert build("refcoco(answer=box)", tmp_path).arguments["layout"] == "visionreasoner"
    with pytest.raises(DataError, match=r"refs\(unc\)\.p or"):
        build("refcoco", tmp_path)
    assert build("coco_detection", stills).arguments["layout"] == "hub"
    assert "layout" not in build("reason_seg", stills).arguments, "as before there was another"


def test_the_answer_that_is_asked_for_decides_the_protocol(build, stills):
    for given, protocol, form in (
        ("", "res/expression", "mask"),
        ("answer=box", "rec/expression", "boxes"),
        ("protocol=rec/expression", "rec/expression", "boxes"),
        ("protocol=res/instance,answer=box", "rec/instance", "boxes"),
    ):
        task = build(f"refcoco({given})", stills)
        assert (task.protocol.name, *task.forms) == (protocol, form)
        assert task.arguments["protocol"] == protocol
    assert build("grefcoco(answer=box)", stills).protocol.name == "rec/grec"


def test_the_command_verifies_several_tasks_at_once(stills, capsys):
    named = ["refcoco_plus", "grefcoco(answer=box)", "coco_detection", "llm_seg40k"]
    requested = [word for name in named for word in ("--tasks", name)]
    assert main(["verify", *requested, "--data", str(stills), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["passed"] and len(shown["verdicts"]) == 8
