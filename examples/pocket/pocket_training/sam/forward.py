"""SAM 2's forward passes with gradients.

transformers runs SAM 2 on videos in inference mode, one object at a time. The two functions here
compute the same numbers from the same modules for all objects at once, and gradients flow through
them: `predict_masks` is one image with prompts, `track_objects` a clip with the masks of its first
frame.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from transformers import Sam2VideoModel

ABSENT = -1024.0  # what the architecture writes as a mask's logits where it sees no object


@dataclass(frozen=True, slots=True)
class Features:
    """Features of the image encoder for some images."""

    fine: Tensor
    """Images × hidden/8 × side/4 × side/4."""
    middle: Tensor
    """Images × hidden/4 × side/8 × side/8."""
    top: Tensor
    """Images × hidden × side/16 × side/16."""
    places: Tensor
    """1 × hidden × side/16 × side/16: the encoding of places that memory attention adds."""

    def select(self, images: Tensor) -> "Features":
        """Return the features of some images, in the order of their indices; any may repeat."""
        return Features(self.fine[images], self.middle[images], self.top[images], self.places)


@dataclass(frozen=True, slots=True)
class Decoded:
    """Output of the mask decoder for each object."""

    masks: Tensor
    """Images × objects × masks × side/4 × side/4: logits."""
    ious: Tensor
    """Images × objects × masks: the IoU that it expects of each."""
    tokens: Tensor
    """Images × objects × masks × hidden."""
    presence: Tensor
    """Images × objects × 1: the logit of the object being in view."""


def encode_images(network: "Sam2VideoModel", images: Tensor) -> Features:
    """Run the image encoder on images × 3 × side × side, normalised by the processor."""
    seen = network.vision_encoder(images)
    fine, middle, top = seen.fpn_hidden_states
    decoder = network.mask_decoder
    places = seen.fpn_position_encoding[-1][:1]
    return Features(decoder.conv_s0(fine), decoder.conv_s1(middle), top, places)


def predict_masks(
    network: "Sam2VideoModel",
    seen: Features,
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
    unremembered = network.no_memory_embedding.view(1, -1, 1, 1)
    sparse, dense = network.prompt_encoder(points, labels, None, None)
    lone = Features(seen.fine, seen.middle, seen.top + unremembered, seen.places)
    return _decode_masks(network, lone, sparse, dense, multimask=multimask)


def track_objects(
    network: "Sam2VideoModel", seen: Features, masks: Tensor, images: Tensor
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
    memories = [_given_memory(network, seen.select(images[0]), masks[:, None])]
    output = []
    for now in images[1:]:
        frame = seen.select(now)
        recalled = _attend_memories(network, frame, memories, frames=len(images))
        decoded = _decode_masks(network, recalled, *_no_prompt(network, len(masks)), multimask=True)
        memories.append(_new_memory(network, frame, decoded))
        output.append(decoded)
    return output


@dataclass(frozen=True, slots=True)
class _Memory:
    features: Tensor
    """Cells × objects × width of memories, to which pointers are cut."""
    places: Tensor
    """Likewise."""
    pointer: Tensor
    """Objects × hidden."""


def _no_prompt(
    network: "Sam2VideoModel", objects: int, masks: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the embeddings of no point, and of masks where there are some."""
    nowhere = torch.zeros(objects, 1, 1, 2)
    labels = torch.full((objects, 1, 1), -1)
    sparse, dense = network.prompt_encoder(nowhere, labels, None, masks)
    return sparse, dense


def _decode_masks(
    network: "Sam2VideoModel", seen: Features, sparse: Tensor, dense: Tensor, *, multimask: bool
) -> Decoded:
    places = network.get_image_wide_positional_embeddings().expand(len(seen.top), -1, -1, -1)
    return Decoded(
        *network.mask_decoder(
            image_embeddings=seen.top,
            image_positional_embeddings=places,
            sparse_prompt_embeddings=sparse,
            dense_prompt_embeddings=dense,
            multimask_output=multimask,
            high_resolution_features=[seen.fine, seen.middle],
        )
    )


def _given_memory(network: "Sam2VideoModel", seen: Features, masks: Tensor) -> _Memory:
    """Return the memory of a frame with given masks (objects × 1 × side × side)."""
    prompt = _no_prompt(network, len(masks), network.mask_downsample(masks))
    decoded = _decode_masks(network, seen, *prompt, multimask=True)
    appears = decoded.presence[:, 0] > 0
    present = masks.flatten(1).any(dim=1, keepdim=True)
    pointer = _pointer(network, decoded, appears)
    pointer = torch.where(present, pointer, network.no_object_pointer)
    return _memory(network, seen, masks, present, pointer)


def _new_memory(network: "Sam2VideoModel", seen: Features, decoded: Decoded) -> _Memory:
    """Return the memory of a frame from its decoded masks."""
    appears = decoded.presence[:, 0] > 0
    rows = torch.arange(len(appears))
    best = decoded.masks[rows, 0, decoded.ious[:, 0].argmax(dim=-1)]
    hard = torch.where(appears[..., None], best, ABSENT)[:, None]
    whole = torch.nn.functional.interpolate(hard, scale_factor=4, mode="bilinear")
    # No gradient goes through what was said of earlier frames: sharpened twentyfold for the
    # memory encoder, frame after frame, it grew until trainings broke down.
    pointer = _pointer(network, replace(decoded, tokens=decoded.tokens.detach()), appears)
    return _memory(network, seen, whole.sigmoid().detach(), appears, pointer)


def _pointer(network: "Sam2VideoModel", decoded: Decoded, appears: Tensor) -> Tensor:
    rows = torch.arange(len(appears))
    token = decoded.tokens[rows, 0, decoded.ious[:, 0].argmax(dim=-1)]
    return torch.where(appears, network.object_pointer_proj(token), network.no_object_pointer)


def _memory(
    network: "Sam2VideoModel", seen: Features, masks: Tensor, appears: Tensor, pointer: Tensor
) -> _Memory:
    config = network.config
    scaled = masks * config.sigmoid_scale_for_mem_enc + config.sigmoid_bias_for_mem_enc
    features, places = network.memory_encoder(seen.top, scaled)
    hidden = network.occlusion_spatial_embedding_parameter[..., None, None]
    features = features + (~appears)[..., None, None] * hidden
    kept = features.to(torch.bfloat16).float()  # memories are kept so when it is used
    return _Memory(_cells(kept), _cells(places.expand_as(kept)), pointer)


def _attend_memories(
    network: "Sam2VideoModel", seen: Features, memories: Sequence[_Memory], *, frames: int
) -> Features:
    """Return the features of a frame, conditioned on each object's memories.

    The memory of the frame that was given is always used; of the others, the last ones. Pointers
    are used of all of them, encoded with their age as a part of the clip's length.
    """
    from transformers.models.sam2_video.modeling_sam2_video import get_1d_sine_pe

    config, now = network.config, len(memories)
    used = [0, *range(max(1, now - config.num_maskmem + 1), now)]
    ages = [0 if index == 0 else now - index for index in used]
    when = network.memory_temporal_positional_encoding
    keys = [memories[index].features for index in used]
    places = [memories[index].places + when[age - 1] for index, age in zip(used, ages, strict=True)]
    limit = min(frames, config.max_object_pointers_in_encoder)
    pointed = [0, *range(max(1, now - limit + 1), now)]
    pointers = torch.stack([memories[index].pointer for index in pointed])
    cut = pointers.view(*pointers.shape[:2], -1, config.memory_encoder_output_channels)
    tokens = cut.permute(0, 2, 1, 3).flatten(0, 1)
    age = torch.tensor([(now - index) / (limit - 1) for index in pointed])
    output = network.temporal_positional_encoding_projection_layer(
        get_1d_sine_pe(age, config.memory_attention_hidden_size)
    )
    output = output.repeat_interleave(len(tokens) // len(pointed), dim=0)[:, None].expand_as(tokens)
    mixed = network.memory_attention(
        current_vision_features=_cells(seen.top),
        current_vision_position_embeddings=_cells(seen.places),
        memory=torch.cat([*keys, tokens]),
        memory_posision_embeddings=torch.cat([*places, output]),
        num_object_pointer_tokens=len(tokens),
    )
    top = mixed[0].transpose(1, 2).reshape(seen.top.shape)
    return Features(seen.fine, seen.middle, top, seen.places)


def _cells(maps: Tensor) -> Tensor:
    """Batch × channels × height × width to cells × batch × channels."""
    return maps.flatten(2).permute(2, 0, 1)
