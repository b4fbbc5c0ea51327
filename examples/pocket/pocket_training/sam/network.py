"""pocket-sam's network with its initial weights: attention that attends to the prompted place.

Trained from the weights that transformers draws, the mask decoder never found out within our
budget what a prompt has to do with a place; it learned to mark every object of an image. Three
things make the difference, and all of them only say where training starts: places are encoded
alike for prompts and pixels, queries and keys are projected alike, and neither the image's
content nor the prompt's kind drowns the encoding of places.
"""

import torch
from torch import nn
from torch.nn import init
from transformers import Sam2VideoConfig, Sam2VideoModel

from harness.models.pocket_sam import FOLDER

CONTENT = 0.25  # of what Xavier's rule gives the maps of the image encoder
KINDS = 0.3  # standard deviation of the vectors that tell a corner from a point, and the like
SHARPNESS = 1.4  # gain of the projections to queries and keys
FUSED = 0.1  # of the memory fuser's layers; transformers begins with zero: no gradient
ADDED = 0.1  # of what memory attention adds to an image's features besides the memories


@torch.no_grad()
def make_network(*, seed: int) -> Sam2VideoModel:
    """A network as large as the shipped one with random weights, in evaluation mode."""
    torch.manual_seed(seed)
    network = Sam2VideoModel(Sam2VideoConfig.from_pretrained(FOLDER))
    for module in network.modules():
        # By the module's width: the architecture's 0.02 suits wide networks only.
        if isinstance(module, (nn.Linear, nn.Conv2d, nn.ConvTranspose2d)):
            init.xavier_uniform_(module.weight)
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=KINDS)
    for head in network.mask_decoder.output_hypernetworks_mlps:
        head.proj_out.weight.mul_(0.1)  # masks begin undecided
    for neck in network.vision_encoder.neck.convs:
        neck.weight.mul_(CONTENT)
    memory = network.memory_encoder
    for layer in memory.memory_fuser.layers:
        layer.scale.fill_(FUSED)
    # Released checkpoints hold one encoding of places twice; transformers draws two.
    network.prompt_encoder.shared_embedding.positional_embedding.copy_(
        network.shared_image_embedding.positional_embedding
    )
    for module in network.mask_decoder.modules():
        if hasattr(module, "q_proj"):
            module.k_proj.weight.copy_(init.orthogonal_(module.q_proj.weight, gain=SHARPNESS))
    # Memory attention begins by attending to the memory of similar pixels. A memory is a narrower
    # copy of the image's features, to which the mask is added, so keys are made from it as queries
    # are made from the features narrowed in the same way.
    init.dirac_(memory.feature_projection.weight)
    narrow = init.orthogonal_(memory.projection.weight)[:, :, 0, 0]
    for layer in network.memory_attention.layers:
        own, across = layer.self_attn, layer.cross_attn_image
        own.k_proj.weight.copy_(init.orthogonal_(own.q_proj.weight, gain=SHARPNESS))
        own.o_proj.weight.mul_(ADDED)
        layer.linear2.weight.mul_(ADDED)
        keys = init.orthogonal_(across.k_proj.weight, gain=SHARPNESS)
        across.q_proj.weight.copy_(keys @ narrow)
    return network.eval()
