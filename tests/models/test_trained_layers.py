"""Which linear layers of a family's network an adapter is put on."""

import re

import pytest

from harness.models.learning.weights import LAYERS, is_language, is_of_tower


@pytest.mark.parametrize(
    ("name", "language", "all_layers"),
    [
        ("model.language_model.layers.0.self_attn.q_proj", True, True),
        ("model.language_model.layers.0.mlp.gate_up_proj", True, True),  # GLM-4.1V
        ("model.language_model.layers.0.linear_attn.in_proj_qkv", True, True),  # Qwen3.5
        ("model.visual.blocks.0.attn.qkv", False, True),
        ("model.visual.blocks.0.mlp.gate_proj", False, True),
        ("model.visual.merger.linear_fc1", False, False),  # Qwen3-VL
        ("model.visual.merger.gate_proj", False, False),  # GLM-4.1V
        ("model.vision_tower.encoder.layer.0.attention.q_proj", False, True),  # InternVL
        ("model.vision_tower.encoder.layers.0.self_attn.out_proj", False, True),  # SigLIP
        ("model.multi_modal_projector.image_pooling_2d.q_proj", False, False),  # Molmo 2
        ("lm_head", False, False),
    ],
)
def test_adapters_of_the_language_side_leave_towers_and_projectors_alone(
    name, language, all_layers
):
    assert (re.fullmatch(LAYERS["language"], name) is not None) == language
    assert is_language(f"{name}.weight") == language
    assert (re.fullmatch(LAYERS["all"], name) is not None) == all_layers
    assert not (language and is_of_tower(f"{name}.weight"))
