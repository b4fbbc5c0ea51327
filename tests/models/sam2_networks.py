"""One tiny random SAM 2 as both programs save it: transformers' folder, the authors' `.pt` file.

The authors' names of weights follow from transformers' by rules, which stand here.
"""

import re
from pathlib import Path
from typing import Any

SIDE = 128  # pixels of an image as the network sees it
WIDTH, MEMORY = 128, 64
LAYERS = 2

RULES = (
    (r"^vision_encoder\.backbone\.patch_embed\.projection", "image_encoder.trunk.patch_embed.proj"),
    (r"^vision_encoder\.backbone\.", "image_encoder.trunk."),
    (r"^vision_encoder\.neck\.convs\.(\d+)\.", r"image_encoder.neck.convs.\1.conv."),
    (r"(trunk\.blocks\.\d+\.)layer_norm", r"\1norm"),
    (r"(trunk\.blocks\.\d+\.mlp|transformer\.layers\.\d+\.mlp)\.proj_in", r"\1.layers.0"),
    (r"(trunk\.blocks\.\d+\.mlp|transformer\.layers\.\d+\.mlp)\.proj_out", r"\1.layers.1"),
    (r"^mask_downsample\.", "mask_downsample."),
    (r"^memory_temporal_positional_encoding$", "maskmem_tpos_enc"),
    (r"^no_memory_embedding$", "no_mem_embed"),
    (r"^no_memory_positional_encoding$", "no_mem_pos_enc"),
    (r"^no_object_pointer$", "no_obj_ptr"),
    (r"^occlusion_spatial_embedding_parameter$", "no_obj_embed_spatial"),
    (r"^object_pointer_proj\.", "obj_ptr_proj."),
    (r"^temporal_positional_encoding_projection_layer\.", "obj_ptr_tpos_proj."),
    (r"^memory_attention\.layer_norm\.", "memory_attention.norm."),
    (r"^(memory_attention\.layers\.\d+\.)layer_norm", r"\1norm"),
    (r"^memory_encoder\.feature_projection\.", "memory_encoder.pix_feat_proj."),
    (r"^memory_encoder\.projection\.", "memory_encoder.out_proj."),
    (r"^memory_encoder\.memory_fuser\.", "memory_encoder.fuser."),
    (r"(fuser\.layers\.\d+\.)depthwise_conv", r"\1dwconv"),
    (r"(fuser\.layers\.\d+\.)pointwise_conv", r"\1pwconv"),
    (r"(fuser\.layers\.\d+\.)layer_norm", r"\1norm"),
    (r"(fuser\.layers\.\d+\.)scale$", r"\1gamma"),
    (r"(mask_downsampler)\.final_conv\.", r"\1.encoder.12."),
    (
        r"^prompt_encoder\.shared_embedding\.positional_embedding$",
        "sam_prompt_encoder.pe_layer.positional_encoding_gaussian_matrix",
    ),
    (r"^prompt_encoder\.mask_embed\.conv1\.", "sam_prompt_encoder.mask_downscaling.0."),
    (r"^prompt_encoder\.mask_embed\.layer_norm1\.", "sam_prompt_encoder.mask_downscaling.1."),
    (r"^prompt_encoder\.mask_embed\.conv2\.", "sam_prompt_encoder.mask_downscaling.3."),
    (r"^prompt_encoder\.mask_embed\.layer_norm2\.", "sam_prompt_encoder.mask_downscaling.4."),
    (r"^prompt_encoder\.mask_embed\.conv3\.", "sam_prompt_encoder.mask_downscaling.6."),
    (r"^prompt_encoder\.", "sam_prompt_encoder."),
    (r"^mask_decoder\.upscale_conv1\.", "sam_mask_decoder.output_upscaling.0."),
    (r"^mask_decoder\.upscale_layer_norm\.", "sam_mask_decoder.output_upscaling.1."),
    (r"^mask_decoder\.upscale_conv2\.", "sam_mask_decoder.output_upscaling.3."),
    (r"^mask_decoder\.", "sam_mask_decoder."),
    (r"(sam_mask_decoder\.transformer\.)layer_norm_final_attn", r"\1norm_final_attn"),
    (r"(sam_mask_decoder\.transformer\.layers\.\d+\.)layer_norm", r"\1norm"),
    (r"\.o_proj\.", ".out_proj."),
)
DEEP = r"(iou_prediction_head|output_hypernetworks_mlps\.\d+|pred_obj_score_head|obj_ptr_proj)\."
"""Networks of three layers: transformers calls the first and the last by other names."""


def config() -> Any:
    """Of transformers: as small as the authors' code can be made, which has widths of its own."""
    from transformers import Sam2VideoConfig

    return Sam2VideoConfig(
        image_size=SIDE,
        vision_config={
            "backbone_config": {
                "model_type": "sam2_hiera_det_model",
                "hidden_size": 16,
                "num_attention_heads": 1,
                "image_size": [SIDE, SIDE],
                "blocks_per_stage": [1, 1, 2, 1],
                "embed_dim_per_stage": [16, 32, 64, 128],
                "num_attention_heads_per_stage": [1, 2, 4, 8],
                "window_size_per_stage": [8, 4, 14, 7],
                "global_attention_blocks": [3],
                "window_positional_embedding_background_size": [7, 7],
            },
            "backbone_channel_list": [128, 64, 32, 16],
            "fpn_hidden_size": WIDTH,
            "backbone_feature_sizes": [[SIDE // step] * 2 for step in (4, 8, 16)],
        },
        prompt_encoder_config={"hidden_size": WIDTH, "image_size": SIDE},
        mask_decoder_config={"hidden_size": WIDTH},
        num_maskmem=3,
        memory_attention_hidden_size=WIDTH,
        memory_attention_num_layers=LAYERS,
        memory_attention_feed_forward_hidden_size=96,
        memory_attention_rope_feat_sizes=[SIDE // 16] * 2,
        memory_encoder_hidden_size=WIDTH,
        memory_encoder_output_channels=MEMORY,
        mask_downsampler_embed_dim=WIDTH,
        memory_fuser_embed_dim=WIDTH,
        memory_fuser_intermediate_dim=4 * WIDTH,
    )


def yaml(shipped: Any) -> Any:
    """The same network in the form of the authors' own configuration, changed where it differs."""
    made = shipped.copy()
    model = made.model
    trunk, neck = model.image_encoder.trunk, model.image_encoder.neck
    trunk.update(embed_dim=16, stages=[1, 1, 2, 1], global_att_blocks=[3])
    neck.update(d_model=WIDTH, backbone_channel_list=[128, 64, 32, 16])
    neck.position_encoding.num_pos_feats = WIDTH
    attention = model.memory_attention
    attention.update(d_model=WIDTH, num_layers=LAYERS)
    attention.layer.update(d_model=WIDTH, dim_feedforward=96)
    for part in (attention.layer.self_attention, attention.layer.cross_attention):
        part.update(embedding_dim=WIDTH, feat_sizes=[SIDE // 16] * 2)
    attention.layer.cross_attention.kv_in_dim = MEMORY
    encoder = model.memory_encoder
    encoder.update(in_dim=WIDTH, out_dim=MEMORY)
    encoder.position_encoding.num_pos_feats = MEMORY
    encoder.mask_downsampler.embed_dim = WIDTH
    encoder.fuser.layer.dim = WIDTH
    model.update(num_maskmem=3, image_size=SIDE)
    return made


def renamed(tensors: dict[str, Any]) -> dict[str, Any]:
    """Weights of transformers under the authors' names."""
    made: dict[str, Any] = {}
    for name, tensor in tensors.items():
        if name.startswith("shared_image_embedding."):
            continue  # the prompt encoder's, once more
        if name == "prompt_encoder.point_embed.weight":
            for row in range(len(tensor)):
                made[f"sam_prompt_encoder.point_embeddings.{row}.weight"] = tensor[row : row + 1]
            continue
        made[_renamed(name)] = tensor
    return made


def _renamed(name: str) -> str:
    layer = re.match(
        r"memory_encoder\.mask_downsampler\.layers\.(\d+)\.(conv|layer_norm)\.(.*)", name
    )
    if layer:
        place = 3 * int(layer[1]) + (layer[2] == "layer_norm")
        return f"memory_encoder.mask_downsampler.encoder.{place}.{layer[3]}"
    for pattern, replacement in RULES:
        name = re.sub(pattern, replacement, name)
    if re.search(DEEP, name):
        name = re.sub(r"\.layers\.0\.", ".layers.1.", name)
        name = name.replace(".proj_in.", ".layers.0.").replace(".proj_out.", ".layers.2.")
    return name


def save(folder: Path, *, seed: int) -> tuple[Path, Path]:
    """A random network as transformers' folder and as the authors' file."""
    import torch
    from transformers import Sam2VideoModel, Sam2VideoProcessor

    torch.manual_seed(seed)
    network = Sam2VideoModel(config()).eval()
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if weight.dim() > 1:
                weight.normal_(0, (2 / max(1, weight[0].numel())) ** 0.5)
            elif "norm" not in name:
                weight.normal_(0, 0.5)
        network.mask_decoder.pred_obj_score_head.proj_out.bias.fill_(100)  # it sees each object
        # One table of the authors', which transformers holds twice.
        table = network.prompt_encoder.shared_embedding.positional_embedding
        network.shared_image_embedding.positional_embedding.copy_(table)
    both = folder / "transformers"
    network.save_pretrained(both)
    processor(Sam2VideoProcessor).save_pretrained(both)
    file = folder / "authors.pt"
    torch.save({"model": renamed(dict(network.state_dict()))}, file)
    return both, file


def processor(kind: Any) -> Any:
    from transformers import Sam2ImageProcessor, Sam2VideoVideoProcessor

    sizes = {
        "size": {"height": SIDE, "width": SIDE},
        "mask_size": {"height": SIDE // 4, "width": SIDE // 4},
    }
    still, moving = Sam2ImageProcessor(**sizes), Sam2VideoVideoProcessor(**sizes)
    return kind(image_processor=still, video_processor=moving, target_size=SIDE)
