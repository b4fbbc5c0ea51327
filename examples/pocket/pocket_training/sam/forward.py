"""SAM 2's forward passes with gradients.

transformers runs SAM 2 on videos in inference mode, one object at a time. The two functions here
compute the same numbers from the same modules for all objects at once, and gradients flow through
them: `predict_masks` is one image with prompts, `track_objects` a clip with the masks of its first
frame. Feature maps are as transformers keeps them: cells × images × channels, the finest first.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as nnf

if TYPE_CHECKING:
    from transformers import Sam2VideoModel
    from transformers.models.sam2_video.modeling_sam2_video import Sam2VideoVisionEncoderOutput

ABSENT = -1024.0  # what the architecture writes as a mask's logits where it sees no object

Memory: TypeAlias = Mapping[str, Tensor]
"""Memory of a frame, by transformers' names: features and their places, each of cells × objects ×
width of memories, and the objects' pointers, objects × hidden."""


class Decoded(NamedTuple):
    """Output of the mask decoder for each object."""

    masks: Tensor
    """Images × objects × masks × side/4 × side/4: logits."""
    ious: Tensor
    """Images × objects × masks: the IoU that it expects of each."""
    tokens: Tensor
    """Images × objects × masks × hidden."""
    presence: Tensor
    """Images × objects × 1: the logit of the object being in view."""


def predict_masks(
    network: "Sam2VideoModel",
    seen: "Sam2VideoVisionEncoderOutput",
    points: Tensor,
    labels: Tensor,
    *,
    multimask: bool,
) -> Decoded:
    """Masks of prompts in still images.

    Args:
        network: A Sam2VideoModel.
        seen: Features of the images.
        points: Images × objects × points × 2 (x, y), in pixels of the network's image.
        labels: Images × objects × points: 1 in the object, 0 beside it, 2 and 3 the top left and
            bottom right corners of its box.
        multimask: Three masks a prompt, for prompts that may mean several things, or one.
    """
    *finer, last = seen.fpn_hidden_states
    maps = [*finer, last + network.no_memory_embedding]
    return _decode(network, maps, points, labels, multimask=multimask)


def track_objects(
    network: "Sam2VideoModel", seen: "Sam2VideoVisionEncoderOutput", masks: Tensor, images: Tensor
) -> list[Decoded]:
    """Follow objects from the masks of a first frame through later ones.

    Args:
        network: A Sam2VideoModel.
        seen: Features of all frames of all clips.
        masks: Objects × side × side, 0 or 1: where each object is in its first frame.
        images: Frames × objects: the index in `seen` of each object's frames, in the order in
            which it is followed. Objects may be of several clips, and of several directions.

    Returns:
        For each frame after the first, with images = objects and objects = 1.
    """
    nothing = torch.zeros(len(masks), 1, 1, 2), torch.full((len(masks), 1, 1), -1)
    given, present = masks[:, None], masks.any(-1).any(-1)[:, None]
    maps = [one[:, images[0]] for one in seen.fpn_hidden_states]
    decoded = _decode(network, maps, *nothing, masks=network.mask_downsample(given))
    pointer = torch.where(present, _pointer(network, decoded), network.no_object_pointer)
    logits = (given - 0.5) * -2 * ABSENT
    memories = [_remember(network, maps, logits, present[..., None].float(), pointer)]
    output = []
    for now in images[1:]:
        *finer, last = maps = [one[:, now] for one in seen.fpn_hidden_states]
        recalled = _recall(
            network, last, seen.fpn_position_encoding[-1][:, now], memories, frames=len(images)
        )
        decoded = _decode(network, [*finer, recalled], *nothing)
        best = decoded.masks[torch.arange(len(now)), :, decoded.ious[:, 0].argmax(dim=-1)]
        hard = torch.where(decoded.presence[..., None] > 0, best, ABSENT)
        logits = nnf.interpolate(hard, scale_factor=4, mode="bilinear")
        # No gradient goes through what was said of earlier frames: sharpened twentyfold for the
        # memory encoder, frame after frame, it grew until trainings broke down.
        pointer = _pointer(network, decoded._replace(tokens=decoded.tokens.detach()))
        memories.append(_remember(network, maps, logits.detach(), decoded.presence, pointer))
        output.append(decoded)
    return output


def _decode(
    network: "Sam2VideoModel",
    maps: Sequence[Tensor],
    points: Tensor,
    labels: Tensor,
    *,
    masks: Tensor | None = None,
    multimask: bool = True,
) -> Decoded:
    sparse, dense = network.prompt_encoder(points, labels, None, masks)
    *finer, last = (
        one.permute(1, 2, 0).reshape(one.shape[1], -1, *size)
        for one, size in zip(maps, network.backbone_feature_sizes, strict=True)
    )
    places = network.get_image_wide_positional_embeddings().expand(len(last), -1, -1, -1)
    return Decoded(
        *network.mask_decoder(
            image_embeddings=last,
            image_positional_embeddings=places,
            sparse_prompt_embeddings=sparse,
            dense_prompt_embeddings=dense,
            multimask_output=multimask,
            high_resolution_features=finer,
        )
    )


def _pointer(network: "Sam2VideoModel", decoded: Decoded) -> Tensor:
    """Objects × hidden: the token of the mask that is expected to be best; none if not in view."""
    token = decoded.tokens[torch.arange(len(decoded.ious)), 0, decoded.ious[:, 0].argmax(dim=-1)]
    seen = decoded.presence[:, 0] > 0
    return torch.where(seen, network.object_pointer_proj(token), network.no_object_pointer)


def _remember(
    network: "Sam2VideoModel",
    maps: Sequence[Tensor],
    logits: Tensor,
    presence: Tensor,
    pointer: Tensor,
) -> Memory:
    """Return the memory of a frame with these masks' logits, objects × 1 × side × side."""
    features, places = network._encode_new_memory(maps[-1], logits, presence, False)
    return {
        "maskmem_features": features.float(),
        "maskmem_pos_enc": places.expand_as(features),
        "object_pointer": pointer,
    }


def _recall(
    network: "Sam2VideoModel",
    last: Tensor,
    places: Tensor,
    memories: Sequence[Memory],
    *,
    frames: int,
) -> Tensor:
    """Return the last map of a frame, conditioned on each object's memories.

    The memory of the frame that was given is always used; of the others, the last ones. Pointers
    are used of all of them, encoded with their age as a part of the clip's length.
    """
    now, device = len(memories), last.device
    ages = range(min(now, network.num_maskmem) - 1, 0, -1)
    used = [(0, memories[0]), *((age, memories[now - age]) for age in ages)]
    kept, kept_places = network._build_memory_attention_inputs(used, device)
    limit = min(frames, network.config.max_object_pointers_in_encoder)
    pointed = [now, *range(min(now, limit) - 1, 0, -1)]
    tokens = [memories[now - age]["object_pointer"] for age in pointed]
    pointers, times = network._process_object_pointers(
        pointed, tokens, limit, last.shape[1], network.hidden_dim, device
    )
    mixed: Tensor = network.memory_attention(
        current_vision_features=last,
        current_vision_position_embeddings=places,
        memory=torch.cat([*kept, pointers]),
        memory_posision_embeddings=torch.cat([*kept_places, times]),
        num_object_pointer_tokens=len(pointers),
    )
    return mixed[0].transpose(0, 1)
