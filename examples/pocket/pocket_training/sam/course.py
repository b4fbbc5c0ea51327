"""pocket-sam's training: SAM 2's forward passes with gradients, the losses, and the steps.

transformers runs SAM 2 on videos in inference mode, one object at a time. Here the
same modules compute the same numbers for all objects at once, and gradients flow through them.
Feature maps are as transformers keeps them: cells × images × channels, the finest first.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from transformers import Sam2VideoProcessor
from transformers.models.sam2_video.modeling_sam2_video import Sam2VideoVisionEncoderOutput

from harness.masks import BoolArray
from harness.models.learning.weights import decayed
from harness.models.pocket_sam import FOLDER
from pocket_training.sam.batches import Clip, PromptedImage, clips, stills
from pocket_training.sam.network import make_network
from pocket_training.sam.trainer import PocketSamTrainer
from pocket_training.training import Course

IMAGES, OBJECTS = 6, 8  # stills in a step, and prompts for each of them
VIDEOS, FOLLOWED = 2, 4  # clips in a step, and objects that are followed in each of them
SHORTEST, LONGEST = 3, 8  # frames of a clip; all clips of a step are equally long
SEVERAL = 0.75  # of the steps with stills ask for three masks, the others for one
FIRST_BACKGROUND, SPARSE_STEPS = 0.02, 200
"""Weight of a pixel beside an object at first, and steps until it counts as much as one in it."""

WARMUP_STEPS = 50
WEIGHT_DECAY = 0.01  # of matrices and filters; vectors, such as biases, do not decay
OTHERS = 0.3
"""Weight of the mean over the three masks beside the best of them. With the best alone, as SAM 2 is
trained, each mask learned some of the objects, and the expected IoU could not tell which."""

PRESENCE = 0.2  # weight of the cross entropy of an object being in view
STEADY = 64.0  # pixels of the grid that losses are taken on: keeps tiny objects from ruling
ABSENT = -1024.0  # what the architecture writes as a mask's logits where it sees no object


Loss: TypeAlias = tuple[Tensor, Mapping[str, float]]
"""A loss, and its parts for the log."""


class Decoded(NamedTuple):
    """Output of the mask decoder for each object."""

    masks: Tensor  # images × objects × masks × side/4 × side/4: logits
    ious: Tensor  # images × objects × masks: the IoU that it expects of each
    tokens: Tensor  # images × objects × masks × hidden
    presence: Tensor  # images × objects × 1: the logit of the object being in view


class PocketSamCourse(Course):
    """One training of pocket-sam."""

    folder = FOLDER

    def __init__(self, trainer: PocketSamTrainer, seed: int) -> None:
        self.settings, self.seed = trainer, seed
        self.steps = trainer.still_steps + trainer.clip_steps
        # Training mode, so that a single mask is never replaced by one of three; no dropout.
        self.trained = self.network = make_network(seed=seed).train()
        self.processor = Sam2VideoProcessor.from_pretrained(FOLDER)
        groups = decayed(self.network, WEIGHT_DECAY)
        self.optimisers = [torch.optim.AdamW(groups, betas=(0.9, 0.98))]

    def step(self, step: int) -> dict[str, float]:
        """Make the step after so many others, a function of it and the seed."""
        draw = np.random.default_rng((self.seed, 2, step))
        frames = int(draw.integers(SHORTEST, LONGEST + 1))
        multimask = bool(draw.random() < SEVERAL)
        background = min(1.0, FIRST_BACKGROUND + step / SPARSE_STEPS)
        shown = stills(self.seed, step, images=IMAGES, objects=OBJECTS)
        losses = {"still": self.still_loss(shown, multimask=multimask, background=background)}
        if step >= self.settings.still_steps:
            followed = clips(self.seed, step, videos=VIDEOS, objects=FOLLOWED, frames=frames)
            losses["clip"] = self.clip_loss(followed, background=background)
        numbers = {"loss": sum(float(loss.detach()) for loss, _ in losses.values())}
        for kind, (loss, terms) in losses.items():
            torch.autograd.backward(loss)
            numbers |= {f"{kind}/{name}": value for name, value in terms.items()}
        return numbers | {"gradient": self.update(self.rate(step))}

    def rate(self, step: int) -> float:
        """The learning rate: constant for stills alone, then from its clips' value to zero."""
        settings = self.settings
        started = min(1.0, (step + 1) / WARMUP_STEPS)
        if step < settings.still_steps:
            return settings.learning_rate * started
        past = (step - settings.still_steps) / settings.clip_steps
        return settings.clip_learning_rate * started * (0.5 + 0.5 * math.cos(math.pi * past))

    def still_loss(
        self, shown: Sequence[PromptedImage], *, multimask: bool, background: float
    ) -> Loss:
        """Return the loss of prompts' masks, three each if `multimask`, and its parts."""
        side = self.network.config.image_size
        *finer, last = self.features([one.image for one in shown]).fpn_hidden_states
        points = torch.from_numpy(np.stack([one.points for one in shown])) * side
        labels = torch.from_numpy(np.stack([one.labels for one in shown]))
        maps = [*finer, last + self.network.no_memory_embedding]
        decoded = self.decode(maps, points, labels, multimask=multimask)
        ground_truth = torch.stack([shares(one.masks, side // 2) for one in shown])
        return mean_loss(decoded, ground_truth, torch.ones_like(decoded.presence), background)

    def clip_loss(self, shown: Sequence[Clip], *, background: float) -> Loss:
        """Return the loss of all frames but the first, whose masks are given, and its parts.

        All clips are equally long, with equally many objects.
        """
        side = self.network.config.image_size
        length, objects = shown[0].masks.shape[:2]
        seen = self.features([frame for clip in shown for frame in clip.frames])
        first = torch.arange(len(shown)).repeat_interleave(objects) * length
        given = torch.cat([shares(clip.masks[0], side) for clip in shown]) >= 0.5
        output = self.track(seen, given.float(), first + torch.arange(length)[:, None])
        decoded = Decoded(*(torch.cat(parts, dim=1) for parts in zip(*output, strict=True)))
        ground_truth = torch.cat([shares(clip.masks[1:], side // 2) for clip in shown], dim=1)
        present = np.concatenate([clip.masks[1:].any(axis=(2, 3)) for clip in shown], axis=1)
        in_view = torch.from_numpy(present.T).float()[..., None]
        return mean_loss(decoded, ground_truth.transpose(0, 1), in_view, background)

    def features(self, images: Sequence[NDArray[np.uint8]]) -> Sam2VideoVisionEncoderOutput:
        """Return features of images that are prepared as they are when the network is used."""
        prepared = self.processor.image_processor(list(images), return_tensors="pt")
        return self.network.get_image_features(prepared["pixel_values"])

    def decode(
        self,
        maps: Sequence[Tensor],
        points: Tensor,
        labels: Tensor,
        *,
        masks: Tensor | None = None,
        multimask: bool = True,
    ) -> Decoded:
        """Decode the masks of prompts in images.

        Args:
            maps: The features of the images.
            points: Images × objects × points × 2 (x, y), in pixels of the network's image.
            labels: Images × objects × points, as SAM 2 numbers them.
            masks: Images × 1 × side/4 × side/4: a prompt for the only object.
            multimask: Three masks a prompt, for prompts that may mean several things, or one.
        """
        sparse, dense = self.network.prompt_encoder(points, labels, None, masks)
        *finer, last = (
            one.permute(1, 2, 0).reshape(one.shape[1], -1, *size)
            for one, size in zip(maps, self.network.backbone_feature_sizes, strict=True)
        )
        places = self.network.get_image_wide_positional_embeddings().expand(len(last), -1, -1, -1)
        decoder = self.network.mask_decoder
        return Decoded(*decoder(last, places, sparse, dense, multimask, finer))

    def track(
        self, seen: Sam2VideoVisionEncoderOutput, masks: Tensor, images: Tensor
    ) -> list[Decoded]:
        """Follow objects from the masks of a first frame through later ones.

        Args:
            seen: Features of all frames of all clips.
            masks: Objects × side × side, 0 or 1: where each object is in its first frame.
            images: Frames × objects: the index in `seen` of each object's frames, in the order in
                which it is followed. Objects may be of several clips, and of several directions.

        Returns:
            For each frame after the first, with images = objects and objects = 1.
        """
        network, output = self.network, list[Decoded]()
        memories = list[Mapping[str, Tensor]]()  # by transformers' names, of each frame
        nothing = torch.zeros(len(masks), 1, 1, 2), torch.full((len(masks), 1, 1), -1)

        def remember(last: Tensor, logits: Tensor, presence: Tensor, pointer: Tensor) -> None:
            features, places = network._encode_new_memory(last, logits, presence, False)
            memories.append(
                {
                    "maskmem_features": features.float(),
                    "maskmem_pos_enc": places.expand_as(features),
                    "object_pointer": pointer,
                }
            )

        given, present = masks[:, None], masks.any(-1).any(-1)[:, None]
        maps = [one[:, images[0]] for one in seen.fpn_hidden_states]
        decoded = self.decode(maps, *nothing, masks=network.mask_downsample(given))
        pointer = torch.where(present, self._pointer(decoded), network.no_object_pointer)
        remember(maps[-1], (given - 0.5) * -2 * ABSENT, present[..., None].float(), pointer)
        for now in images[1:]:
            *finer, last = [one[:, now] for one in seen.fpn_hidden_states]
            places = seen.fpn_position_encoding[-1][:, now]
            recalled = self._recall(last, places, memories, frames=len(images))
            decoded = self.decode([*finer, recalled], *nothing)
            best = decoded.masks[torch.arange(len(now)), :, decoded.ious[:, 0].argmax(dim=-1)]
            hard = torch.where(decoded.presence[..., None] > 0, best, ABSENT)
            logits = functional.interpolate(hard, scale_factor=4, mode="bilinear")
            # No gradient goes through what was said of earlier frames: sharpened twentyfold for the
            # memory encoder, frame after frame, it grew until trainings broke down.
            pointer = self._pointer(decoded._replace(tokens=decoded.tokens.detach()))
            remember(last, logits.detach(), decoded.presence, pointer)
            output.append(decoded)
        return output

    def _pointer(self, decoded: Decoded) -> Tensor:
        """Objects × hidden: the token of the mask that is expected to be best, if in view."""
        likeliest = decoded.ious[:, 0].argmax(dim=-1)
        token = self.network.object_pointer_proj(
            decoded.tokens[torch.arange(len(likeliest)), 0, likeliest]
        )
        return torch.where(decoded.presence[:, 0] > 0, token, self.network.no_object_pointer)

    def _recall(
        self, last: Tensor, places: Tensor, memories: Sequence[Mapping[str, Tensor]], *, frames: int
    ) -> Tensor:
        """Return the last map of a frame, conditioned on each object's memories.

        The memory of the frame that was given is always used; of the others, the last ones.
        Pointers are used of all, encoded with their age as a part of the clip's length.
        """
        network, now, device = self.network, len(memories), last.device
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


def mean_loss(decoded: Decoded, ground_truth: Tensor, present: Tensor, background: float) -> Loss:
    """Return the loss of images × objects, and its parts.

    `ground_truth` is images × objects × h × w, shares of cells; `present` images × objects × 1.
    Masks cost something only where the object is in view.
    """
    size = ground_truth.shape[-2:]
    grown = functional.interpolate(decoded.masks.flatten(0, 1), size, mode="bilinear")
    logits, whole = grown.view(*decoded.masks.shape[:3], *size), ground_truth[:, :, None]
    losses = mask_losses(logits, whole, background=background)
    reached = reached_ious(logits.detach(), whole)
    taken = reached.gather(-1, decoded.ious.argmax(-1, keepdim=True))[..., 0]
    mask, iou, reached_iou = (
        (part * present[..., 0]).sum() / present.sum().clamp(min=1)
        for part in (
            losses.amin(-1) + OTHERS * losses.mean(-1),
            (decoded.ious - reached).abs().mean(-1),
            taken,
        )
    )
    presence = functional.binary_cross_entropy_with_logits(decoded.presence, present)
    parts = {"mask": mask, "iou_error": iou, "presence": presence, "reached_iou": reached_iou}
    numbers = {name: float(part.detach()) for name, part in parts.items()}
    return mask + iou + PRESENCE * presence, numbers


def mask_losses(logits: Tensor, ground_truth: Tensor, *, background: float = 1.0) -> Tensor:
    """Cross entropy by the object's area, plus dice: (…) of logits (…, h, w).

    `ground_truth` is the share of each pixel that the object covers, of a shape that broadcasts;
    `background` the weight in the cross entropy of a pixel beside the object, relative to one in
    it. Most pixels are background, and a network that begins with 1 begins with empty masks.
    """
    ground_truth = ground_truth.expand_as(logits)
    crossed = functional.binary_cross_entropy_with_logits(logits, ground_truth, reduction="none")
    weights = background + (1 - background) * ground_truth
    area, chance = ground_truth.sum((-1, -2)), logits.sigmoid()
    shared = (chance * ground_truth).sum((-1, -2))
    dice = 1 - (2 * shared + 1) / (chance.sum((-1, -2)) + area + 1)
    return (crossed * weights).sum((-1, -2)) / (area + STEADY) + dice


def reached_ious(logits: Tensor, ground_truth: Tensor) -> Tensor:
    """Return the IoU of thresholded masks; 1 where both are empty."""
    predicted, real = logits > 0, ground_truth > 0.5
    union, shared = ((predicted | real).sum((-1, -2)), (predicted & real).sum((-1, -2)))
    return torch.where(union > 0, shared / union.clamp(min=1), 1.0)


def shares(masks: BoolArray, side: int) -> Tensor:
    """Return the share of each cell of a side × side grid that the masks cover: (…, side, side)."""
    flat = torch.from_numpy(masks.reshape(-1, 1, *masks.shape[-2:])).float()
    small = functional.interpolate(flat, (side, side), mode="bilinear", antialias=True)
    return small.view(*masks.shape[:-2], side, side)
