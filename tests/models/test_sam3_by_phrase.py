"""SAM 3 by phrase as a model, and its tracker as a propagator, with tiny random networks."""

import json
from pathlib import Path

import numpy as np
import pytest

from harness import media, plugins
from harness.errors import ModelError
from harness.masks import Rle
from harness.models.propagators.sam3_video import sam3_video
from harness.models.segmenters.sam3 import sam3
from harness.run.verify import verify
from harness.spec import parse
from harness.tasks.mevis import writer as mevis
from harness.tasks.reason_seg import writer as reason_seg
from harness.types import AnswerForm, Query
from harness.world.shapes import make

from .test_sam3 import HEIGHT, WIDTH, tiny_sam3  # noqa: F401 - a fixture

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def tiny_tracker(tmp_path_factory) -> Path:
    """A checkpoint of SAM 3's tracker with random weights, of the published architecture."""
    from transformers import (
        Sam3TrackerVideoConfig,
        Sam3TrackerVideoModel,
        Sam3TrackerVideoProcessor,
    )
    from transformers.models.sam2_video.video_processing_sam2_video import Sam2VideoVideoProcessor
    from transformers.models.sam3.image_processing_sam3 import Sam3ImageProcessor

    backbone = {
        "model_type": "sam3_vit_model",
        **{"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 48},
        **{"num_hidden_layers": 2, "image_size": 112, "patch_size": 14, "window_size": 4},
        **{"global_attn_indexes": [1], "pretrain_image_size": 56},
    }
    config = Sam3TrackerVideoConfig(
        vision_config={
            "model_type": "sam3_vision_model",
            "backbone_config": backbone,
            "fpn_hidden_size": 256,
            "backbone_feature_sizes": [[32, 32], [16, 16], [8, 8]],
        },
        prompt_encoder_config={"image_size": 112},
        image_size=112,
        memory_attention_num_layers=1,
        memory_attention_feed_forward_hidden_size=64,
        memory_attention_rope_feat_sizes=[8, 8],
        memory_fuser_num_layers=1,
        mask_decoder_config={"num_hidden_layers": 2, "mlp_dim": 64},
    )
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("checkpoints") / "tiny-tracker"
    Sam3TrackerVideoModel(config).eval().save_pretrained(folder)
    size = {"height": 112, "width": 112}
    Sam3TrackerVideoProcessor(
        Sam3ImageProcessor(size=size), Sam2VideoVideoProcessor(size=size)
    ).save_pretrained(folder)
    return folder


def shown(frames=1):
    drawn = np.random.default_rng(0).integers(0, 255, (frames, HEIGHT, WIDTH, 3), dtype=np.uint8)
    return media.pixels(list(drawn), times=range(frames), is_video=frames > 1, id=f"m{frames}")


def query(frames=1, text="red cup"):
    form = AnswerForm.MASK if frames == 1 else AnswerForm.MASK_TRACK
    return Query(id="q", text=text, media=(shown(frames),), forms=(form,))


def by_phrase(folder, **given):
    settings = ",".join(f"{name}={value}" for name, value in given.items())
    segmenter = f"sam3(checkpoint={folder},threshold=0.0)"
    spec = f"sam3(segmenter={segmenter}{',' if settings else ''}{settings})"
    return plugins.build("models", parse(spec))


def test_all_instances_of_the_querys_text_have_scores_and_are_joined(tiny_sam3):  # noqa: F811
    model, one = by_phrase(tiny_sam3), query()
    segmenter = sam3(checkpoint=str(tiny_sam3), threshold=0.0)
    instances = segmenter.find_instances(one.media[0].frame(0), "red cup")
    seen = [found for found in instances if found.mask.any()]
    assert len(seen) > 1
    (found,) = model.predict([one])
    assert found.answer.masks == (Rle.from_array(np.logical_or.reduce([x.mask for x in seen])),)
    assert found.answer.box_scores == tuple(x.score for x in seen)
    assert len(found.answer.boxes) == len(seen) and not found.answer.no_target
    (other,) = model.predict([query(text="a dog")])
    assert other.answer != found.answer
    json.dumps(model.describe())


def test_a_blank_phrase_names_nothing(tiny_sam3):  # noqa: F811
    (found,) = by_phrase(tiny_sam3).predict([query(text=" ")])
    assert found.answer.no_target and found.answer.box_scores is None


def test_instances_of_a_video_are_carried_by_sam3s_own_tracker(tiny_sam3, tiny_tracker):  # noqa: F811
    model = by_phrase(tiny_sam3, propagator=f"sam3_video(checkpoint={tiny_tracker})")
    (found,) = model.predict([query(frames=4)])
    assert found.failure is None and len(found.answer.masks) == 4
    assert found.answer.masks[2].area > 0 and found.usage.frames == 1


def test_the_tracker_keeps_what_it_was_given_and_its_directions_are_apart(tiny_tracker):
    tracker, video = sam3_video(checkpoint=str(tiny_tracker)), shown(4)
    mask = np.zeros((HEIGHT, WIDTH), dtype=bool)
    mask[20:60, 30:80] = True
    (track, empty) = tracker.propagate(video, 1, [mask, np.zeros_like(mask)])
    assert len(track) == 4 and np.array_equal(track[1], mask)
    assert not any(one.any() for one in empty)
    frames = [video.frame(place) for place in (3, 2, 1, 0)]
    backwards = media.pixels(frames, times=range(4), is_video=True, id="back")
    ((again),) = tracker.propagate(backwards, 2, [mask])
    for place in range(4):
        assert np.array_equal(again[3 - place], track[place])


@pytest.mark.parametrize("plugin", [sam3, sam3_video])
def test_sam_3_1_is_refused_by_the_class_that_is_missing(plugin, tmp_path):
    import transformers

    (tmp_path / "sam3.1_multiplex.pt").touch()
    for checkpoint in ("facebook/sam3.1", str(tmp_path)):
        with pytest.raises(ModelError, match="Sam31TrackerVideoModel") as error:
            plugin(checkpoint=checkpoint)
        assert transformers.__version__ in str(error.value)


def test_a_detector_without_a_tracker_is_refused_as_propagator(tiny_sam3):  # noqa: F811
    with pytest.raises(ModelError, match="sam3_tracker_video"):
        sam3_video(checkpoint=str(tiny_sam3))


def test_perfect_masks_reach_the_ceilings(tmp_path):
    writers = {"mevis": mevis.write, "reason_seg": reason_seg.write}
    make(tmp_path, seed=0, size=4, writers=writers)
    model = plugins.build("models", parse("sam3(segmenter=box)"))
    for name in writers:
        checks = list(verify(plugins.build("tasks", name, tmp_path), model))
        assert [one.way for one in checks] == ["answers", "masks"]
        assert all(one.is_passed for one in checks), checks
