"""The backend `lmms` with lmms-eval itself, where it is installed: the same replies as without."""

import pytest

from harness.media import pixels
from harness.models.backends.lmms_models import FIRST_ONLY, SEVERAL, runs_code
from harness.models.pocket import FOLDER
from harness.models.pocket.model import CANVAS, pocket
from harness.spec import parse
from harness.types import AnswerForm, Query, query_id
from harness.world.families import draw_scene
from harness.world.raster import render

pytest.importorskip("lmms_eval", reason="lmms-eval is not installed")
pytest.importorskip("torch")

LIMITS = f"min_pixels={CANVAS[0] * CANVAS[1]},max_pixels={CANVAS[0] * CANVAS[1]}"
LMMS = (
    f"lmms:qwen2_5_vl,arguments='pretrained={FOLDER},device_map=cpu,{LIMITS}',"
    f"tokenizer={FOLDER},device=cpu,{LIMITS}"
)


def questions() -> list[Query]:
    """Of pictures that differ in size, so that a mix-up shows."""
    scenes = [draw_scene(3, family="count", split="val", index=index) for index in range(4)]
    return [
        Query(
            id=query_id(str(place)),
            text="How many objects are there in this image?",
            media=(pixels([render(scene)], times=[0.0], is_video=False, id=str(place)),),
            forms=(AnswerForm.COUNT,),
        )
        for place, scene in enumerate(scenes)
    ]


def test_pocket_replies_through_lmms_eval_as_through_transformers(monkeypatch):
    """Both compute in bfloat16, and so the same only without what ours computes otherwise."""
    monkeypatch.setattr("harness.models.backends.transformers.quickened",
                        lambda network, *, attention: network)  # fmt: skip
    said = [
        [one.replies for one in pocket(backend=parse(backend), segmenter=parse("box"),
                                       batch_size=2).predict(questions())]
        for backend in (LMMS, "transformers(dtype=bfloat16,roll=false)")
    ]  # fmt: skip
    assert said[0] == said[1]
    assert len({replies[0] for replies in said[0]}) > 1
    assert any("bbox_2d" in replies[0] for replies in said[0])


def test_the_models_that_were_read_are_registered():
    from lmms_eval.models import get_model_manifest

    assert all(get_model_manifest(name).simple_class_path for name in SEVERAL)
    assert all(get_model_manifest(name).chat_class_path for name in FIRST_ONLY)


@pytest.mark.parametrize(("name", "trusts"), [("qwen2_5_vl", False), ("qwen3_vl", True)])
def test_whether_a_model_trusts_checkpoints_is_seen_in_its_own_source(name, trusts):
    from lmms_eval.models import get_model

    assert (runs_code(get_model(name), "") is not None) is trusts
