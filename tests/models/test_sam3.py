import json
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from harness import plugins
from harness.errors import ModelError, UsageError
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.models.segmenters.sam3 import _uncompiled, network_box, overlapping, sam3
from harness.segmentation import ObjectPrompt
from harness.segmentation import settings as recorded
from harness.types import Box, Point

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
if find_spec("torchvision") is None:
    pytest.skip("torchvision is not installed", allow_module_level=True)
ensure_torchvision()

WIDTH, HEIGHT = 120, 90
BOX = Box(10, 10, 60, 60)
OTHER = Box(70, 20, 110, 80)


@pytest.fixture(scope="module")
def tiny_sam3(tmp_path_factory):
    """A random network of SAM 3's architecture, saved with its processor."""
    from tokenizers import pre_tokenizers
    from transformers import CLIPTokenizer, Sam3Config, Sam3Model, Sam3Processor
    from transformers.models.sam3.image_processing_sam3 import Sam3ImageProcessor

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    whole = ["<|startoftext|>", "<|endoftext|>", *letters, *(f"{one}</w>" for one in letters)]
    words = CLIPTokenizer(vocab={token: place for place, token in enumerate(whole)}, merges=[])
    common = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 48}
    detr = {**common, "num_layers": 1}
    configuration = Sam3Config(
        vision_config={
            "backbone_config": {
                **common,
                "model_type": "sam3_vit_model",
                "num_hidden_layers": 2,
                "image_size": 112,
                "patch_size": 14,
                "window_size": 4,
                "global_attn_indexes": [1],
                "pretrain_image_size": 56,
            },
            "fpn_hidden_size": 32,
            "backbone_feature_sizes": [[32, 32], [16, 16], [8, 8]],
        },
        text_config={
            **common,
            "model_type": "clip_text_model",
            "vocab_size": len(whole),
            "projection_dim": 16,
            "num_hidden_layers": 2,
            "max_position_embeddings": 32,
            "hidden_act": "gelu",
            "bos_token_id": 0,
            "eos_token_id": 1,
            "pad_token_id": 1,
        },
        geometry_encoder_config={**detr, "roi_size": 3},
        detr_encoder_config=detr,
        detr_decoder_config={**detr, "num_queries": 6},
        mask_decoder_config={"hidden_size": 32, "num_attention_heads": 2},
    )
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("checkpoints") / "tiny-sam3"
    network = Sam3Model(configuration).eval()
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if weight.dim() > 1 and "vision_encoder" not in name:
                weight.mul_(4)  # so that prompts make more of a difference than rounding
    network.save_pretrained(folder)
    Sam3Processor(Sam3ImageProcessor(size={"height": 112, "width": 112}), words).save_pretrained(
        folder
    )
    return folder


@pytest.fixture(scope="module")
def segmenter(tiny_sam3):
    return sam3(checkpoint=str(tiny_sam3), threshold=0.0)


@pytest.fixture(scope="module")
def image():
    return (np.random.default_rng(0).random((HEIGHT, WIDTH, 3)) * 255).astype(np.uint8)


def logits(segmenter, image, phrase, box=None):
    """What the network says of one prompt, before anything is thresholded."""
    given = segmenter._phrase(phrase)
    if box is not None:
        given |= network_box(box, image.shape[:2])
    with torch.inference_mode(), _uncompiled():
        return segmenter.network(vision_embeds=segmenter._view(image), **given).pred_masks


def test_it_is_found_by_its_name_and_loads_nothing(tiny_sam3):
    code = (
        "import sys; from harness import plugins; from harness.spec import Spec; "
        f"plugins.build('segmenters', Spec('sam3', {{'checkpoint': {str(tiny_sam3)!r}}})); "
        "assert not {'torch', 'transformers', 'torchvision'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert plugins.load("segmenters", "sam3") is sam3


def test_the_record_tells_weights_and_settings(segmenter):
    output = recorded(segmenter)
    assert (output["threshold"], output["instances"], output["name"]) == (0.0, "one", "sam3")
    assert len(output["weights"]) == 32
    json.dumps(output)


def test_masks_have_the_images_size_and_one_comes_a_prompt(segmenter, image):
    prompts = [ObjectPrompt(box=BOX, phrase="red cup"), ObjectPrompt(phrase="red cup")]
    masks = segmenter.segment(image, prompts)
    assert [mask.shape for mask in masks] == [(HEIGHT, WIDTH)] * 2
    assert [mask.dtype for mask in masks] == [np.bool_] * 2
    assert segmenter.segment(image, []) == []


@pytest.mark.parametrize(
    "nowhere",
    [
        ObjectPrompt(),
        ObjectPrompt(phrase="  "),
        ObjectPrompt(positive=(Point(5, 5),)),
        ObjectPrompt(box=Box(-9, 3, -2, 8), phrase="cup"),
        ObjectPrompt(box=Box(9, 3, 9, 8)),
        ObjectPrompt(box=Box(float("nan"), 3, 9, 8), phrase="cup"),
    ],
)
def test_a_prompt_that_names_nothing_gets_an_empty_mask(segmenter, image, nowhere):
    (mask,) = segmenter.segment(image, [nowhere])
    assert mask.shape == (HEIGHT, WIDTH)
    assert not mask.any()


def test_box_and_phrase_are_both_read(segmenter, image):
    both = logits(segmenter, image, "red cup", BOX)
    for other in (
        logits(segmenter, image, "red cup", OTHER),
        logits(segmenter, image, "a dog", BOX),
        logits(segmenter, image, "red cup"),
    ):
        assert (both - other).abs().max() > 1e-3


def test_no_prompt_leaves_a_trace_for_the_next(segmenter, image):
    prompts = [
        ObjectPrompt(box=BOX, phrase="red cup"),
        ObjectPrompt(box=OTHER, phrase="red cup"),
        ObjectPrompt(phrase="red cup"),
        ObjectPrompt(box=BOX, phrase="red cup"),
    ]
    together = segmenter.segment(image, prompts)
    alone = [segmenter.segment(image, [prompt])[0] for prompt in reversed(prompts)]
    for one, other in zip(together, reversed(alone), strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(together[0], together[3])


def test_the_view_of_an_image_is_kept_and_another_image_is_seen(segmenter, image):
    first = segmenter._view(image)
    assert segmenter._view(image.copy()) is first
    assert segmenter._view(image[:, ::-1]) is not first


def test_a_box_is_normalised_to_its_middle_and_extent():
    found = network_box(Box(30, 0, 60, 45), (90, 120))
    assert found["input_boxes"].tolist() == [[[0.375, 0.25, 0.25, 0.5]]]
    assert found["input_boxes_labels"].tolist() == [[1]]


def test_boxes_are_what_the_official_processor_makes_of_them(segmenter):
    encoded = segmenter.processor(
        input_boxes=[[list(BOX)]], original_sizes=[[HEIGHT, WIDTH]], text="cup", return_tensors="pt"
    )
    ours = network_box(BOX, (HEIGHT, WIDTH))
    assert torch.allclose(ours["input_boxes"], encoded["input_boxes"], atol=1e-6)
    assert ours["input_boxes_labels"].tolist() == encoded["input_boxes_labels"].tolist()
    assert segmenter._phrase("cup")["input_ids"].tolist() == encoded["input_ids"].tolist()


def test_a_phrase_longer_than_the_text_encoder_is_cut(segmenter, image):
    long = segmenter._phrase("a red cup " * 60)
    assert tuple(long["input_ids"].shape) == (1, 32)
    (mask,) = segmenter.segment(image, [ObjectPrompt(phrase="a red cup " * 60)])
    assert mask.shape == (HEIGHT, WIDTH)


def test_swapped_edges_are_put_in_order_and_boxes_clipped(segmenter, image):
    (one,) = segmenter.segment(image, [ObjectPrompt(box=Box(60, 60, -10, 10), phrase="cup")])
    (other,) = segmenter.segment(image, [ObjectPrompt(box=Box(0, 10, 60, 60), phrase="cup")])
    assert np.array_equal(one, other)


def test_nothing_confident_is_an_empty_mask(segmenter, image):
    sure = replace(segmenter, threshold=1.0)
    sure.__dict__.update(network=segmenter.network, processor=segmenter.processor)
    (mask,) = sure.segment(image, [ObjectPrompt(box=BOX, phrase="cup")])
    assert mask.shape == (HEIGHT, WIDTH) and not mask.any()


def test_of_a_box_one_instance_is_kept_or_all(segmenter, image):
    every = replace(segmenter, instances="all")
    every.__dict__.update(network=segmenter.network, processor=segmenter.processor)
    (one,) = segmenter.segment(image, [ObjectPrompt(box=BOX, phrase="cup")])
    (all_of_them,) = every.segment(image, [ObjectPrompt(box=BOX, phrase="cup")])
    assert not (one & ~all_of_them).any()
    assert all_of_them.sum() > one.sum()


def test_the_instance_that_overlaps_most_is_taken():
    boxes = [[0, 0, 5, 5], [8, 8, 31, 29], [100, 100, 90, 90], [8, 8, 31, 29]]
    assert overlapping(Box(10, 10, 30, 30), boxes) == 1


def test_weights_that_are_not_there_are_named_with_the_licence(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match=r"'facebook/sam3-of-nobody'.*gated"):
        sam3(checkpoint="facebook/sam3-of-nobody")


def test_another_architecture_is_refused(tmp_path, tiny_sam3):
    shutil.copytree(tiny_sam3, tmp_path / "other")
    path = tmp_path / "other" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_type": "sam2"}))
    with pytest.raises(ModelError, match="'sam3' or 'sam3_video'"):
        sam3(checkpoint=str(tmp_path / "other"))


@pytest.mark.parametrize("given", [{"threshold": 1.5}, {"threshold": -0.1}, {"dtype": "int8"}])
def test_settings_out_of_range_are_refused(tiny_sam3, given):
    with pytest.raises(UsageError):
        sam3(checkpoint=str(tiny_sam3), **given)


def test_it_runs_in_half_precision(tiny_sam3, image):
    half = sam3(checkpoint=str(tiny_sam3), dtype="bfloat16", threshold=0.0)
    (mask,) = half.segment(image, [ObjectPrompt(box=BOX, phrase="cup")])
    assert mask.shape == (HEIGHT, WIDTH)
