"""Auxiliary losses beside the next token: the places of things, and the attention.

From the next token alone a network of this size does not learn in hours where to attend. The heads
here teach it; they exist in training only.

- `things`: each image token, as the vision tower gives it, says shape, colour, size, box and motion
  of the thing that it shows; after the middle text layer also where on the canvas that box is, and
  its motion.
- `patches`: each of the four patches of an image token says what it shows itself, before they are
  merged; and the token says it of each. An image token that two things share shows both.
- `outlines`: each image token, as the vision tower gives it, says which parts of it the thing
  covers. What shape a thing has is learned from where its edges are, of small things most of all.
- `targeted`: after the middle text layer each image token says whether the question is about it.
- `grounding`: wherever the response is about to speak of a thing, the hidden state picks the image
  tokens that show it, by a product of queries and keys; and in the next layer one head attends to
  them.
- `copies`: wherever the response says what an earlier text tells (an option's letter, the thing
  that a comparison comes out for), or what follows from it (which of two numbers is more), another
  head of that layer attends to that text; and the words of an option say its letter, which stands
  before them. What follows from texts that are apart attends to each: it cannot lose less than log
  2.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.world.scene import COLOURS, SHAPES, SIZES
from pocket_training.vlm.batches import IGNORED, NOTHING, OUTLINE
from pocket_training.vlm.forward import HiddenStates
from pocket_training.vlm.views import CELLS
from pocket_training.vlm.vocabulary import CANVAS

SPLITS = (len(SHAPES) + 1, len(COLOURS), len(SIZES), 6)
"""Outputs of the head on things: logits of shape, colour and size; box and way in image tokens."""

PATCH_SPLITS = (*SPLITS[:3], 4)
"""Outputs of the heads on patches: the same, without the way."""

LOOK_WIDTH = 64
MAX_OPTIONS = 8  # letters that the words of options can have
CELL = CANVAS / CELLS
FASTEST = CELL / 4
"""Speed, in canvas pixels a frame, at which a thing's motion weighs as much as an image token's
size. Motions are small, but the questions are about their direction."""


Targets: TypeAlias = Mapping[str, Tensor]
"""The arrays of a `batches.Batch`, by name."""


class Heads(nn.Module):
    """The heads of training."""

    def __init__(self, *, width: int, patches: int, fine: bool) -> None:
        """Make the heads.

        Args:
            width: Of the states of text and of image tokens.
            patches: Of the states of patches.
            fine: Outlines and patches are learned too.
        """
        super().__init__()
        self.things = nn.Linear(width, sum(SPLITS))
        self.place = nn.Linear(width, 6)
        self.targeted = nn.Linear(width, 1)
        self.query = nn.Linear(width, LOOK_WIDTH)
        self.key = nn.Linear(width, LOOK_WIDTH)
        self.option = nn.Linear(width, MAX_OPTIONS)
        self.fine = fine
        if fine:  # the last ones: the others begin as they do without them
            self.outline = nn.Linear(width, OUTLINE**2)
            self.patch = nn.Linear(patches, sum(PATCH_SPLITS))
            self.quarters = nn.Linear(width, 4 * sum(PATCH_SPLITS))

    def forward(self, states: HiddenStates, targets: Targets) -> tuple[dict[str, Tensor], float]:
        """The losses of a batch, and the share of right attention."""
        middle = states.middle.float()
        rows, width = targets["owner"].shape[0], middle.shape[-1]
        image = middle[targets["seen"]].view(rows, -1, width)
        keys = self.key(image)
        grounding, looked_at = targets["grounding"], targets["looked_at"]
        places = self.query(middle[grounding[:, 0], grounding[:, 1]])
        scores = (places[:, None] * keys[grounding[:, 0]]).sum(-1) / LOOK_WIDTH**0.5
        shares = functional.log_softmax(scores, dim=-1)
        hit = looked_at.gather(1, scores.argmax(1, keepdim=True)) > 0
        losses = {
            "things": self._object_logits(states.image.float(), image, targets),
            "targeted": functional.binary_cross_entropy_with_logits(
                self.targeted(image)[..., 0], targets["targeted"]
            ),
            "grounding": -_mean((looked_at * shares).sum(-1)),
            "attends": _attention_loss(states, targets),
            "copies": _copy_loss(states, targets),
            "options": self._options(middle, targets["options"]),
        }
        if self.fine:
            losses["patches"] = self._patches(states, targets)
            losses["outlines"] = self._outlines(states.image.float(), targets)
        return losses, float(_mean(hit.float()))

    def _outlines(self, image: Tensor, targets: Targets) -> Tensor:
        shown = targets["kinds"][..., 0] != NOTHING
        return functional.binary_cross_entropy_with_logits(
            self.outline(image[shown]), targets["outlines"][shown]
        )

    def _patches(self, states: HiddenStates, targets: Targets) -> Tensor:
        seen = self.patch(states.patches.float())
        kept = self.quarters(states.image.float()).view(seen.shape)
        return _patch_loss(seen, targets) + _patch_loss(kept, targets) / 2

    def _options(self, middle: Tensor, options: Tensor) -> Tensor:
        row, place, number = options.unbind(1)
        predicted = functional.log_softmax(self.option(middle[row, place]), dim=-1)
        return -_mean(predicted.gather(1, number[:, None])[:, 0])

    def _object_logits(self, image: Tensor, middle: Tensor, targets: Targets) -> Tensor:
        *kinds, box = self.things(image).split(SPLITS, dim=-1)
        shown = targets["kinds"][..., 0] != NOTHING
        loss = _kind_loss(kinds, targets["kinds"])
        corners, motion = _corners_and_motion(targets["boxes"])
        relative = torch.cat([(corners - _centres(image.shape[1])) / CELL, motion], dim=-1)
        loss = loss + functional.smooth_l1_loss(box[shown], relative[shown], beta=0.2)
        shown_rows = shown[targets["owner"]]
        corners, motion = _corners_and_motion(targets["boxes_of_targets"])
        wanted = torch.cat([corners / (CANVAS / 2) - 1, motion / 4], dim=-1)[shown_rows]
        place = functional.smooth_l1_loss(self.place(middle)[shown_rows], wanted, beta=0.1)
        return loss + 6 * place


def _patch_loss(predicted: Tensor, targets: Targets) -> Tensor:
    *kinds, box = torch.split(predicted, [*PATCH_SPLITS], dim=-1)
    shown = targets["patch_kinds"][..., 0] != NOTHING
    relative = (targets["patch_boxes"] - _patch_centres(predicted.shape[1])) / CELL
    loss = _kind_loss(kinds, targets["patch_kinds"])
    return loss + functional.smooth_l1_loss(box[shown], relative[shown], beta=0.2)


def _corners_and_motion(boxes: Tensor) -> tuple[Tensor, Tensor]:
    return boxes[..., :4], boxes[..., 4:] / FASTEST


def _kind_loss(predicted: Sequence[Tensor], kinds: Tensor) -> Tensor:
    """Return the losses of shape, with things and without, and of colour and size."""
    shown = kinds[..., 0] != NOTHING
    shape, colour, size = (
        functional.cross_entropy(one[shown], kinds[..., which][shown], reduction="none")
        for which, one in enumerate(predicted)
    )
    nothing = functional.cross_entropy(predicted[0][~shown], kinds[..., 0][~shown])
    info = kinds[shown] != IGNORED
    shape, colour, size = (
        _mean(one[requested])
        for one, requested in zip((shape, colour, size), info.unbind(-1), strict=True)
    )
    return shape + nothing + colour + size


def _attention_loss(states: HiddenStates, targets: Targets) -> Tensor:
    """The same for the attention of one head in the layer after the middle one.

    The hidden state knows where to look; here the network itself has to look there, and so gets
    what stands there: the place.
    """
    shares = _attention(states, 0, targets["grounding"])
    own = shares[targets["seen"][targets["grounding"][:, 0]]].view(*targets["looked_at"].shape)
    return -_mean((targets["looked_at"] * own).sum(-1))


def _copy_loss(states: HiddenStates, targets: Targets) -> Tensor:
    """Return the loss of one head's attention from a repeated text to its source."""
    shares = _attention(states, 1, targets["copies"])
    return -_mean(torch.logsumexp(shares.masked_fill(~targets["sources"], -1e4), dim=-1))


def _attention(states: HiddenStates, head: int, places: Tensor) -> Tensor:
    """Logarithms of a head's attention from some places (n × (row, place)): n × tokens."""
    row, place = places[:, 0], places[:, 1]
    keys = states.key[:, head].float()[row]
    scores = (states.query[:, head].float()[row, place][:, None] * keys).sum(-1)
    after = torch.arange(keys.shape[1])[None] > place[:, None]
    return functional.log_softmax(scores.masked_fill(after, -1e4), dim=-1)


def _mean(values: Tensor) -> Tensor:
    """Return the mean; 0 if empty: a batch may hold only questions without attention targets."""
    return values.sum() / max(values.numel(), 1)


def _centres(tokens: int) -> Tensor:
    """Image tokens × 4: the middle of each, twice, on the canvas."""
    cells = torch.arange(tokens) % (CELLS * CELLS)
    x = (cells % CELLS + 0.5) * CELL
    y = (cells // CELLS + 0.5) * CELL
    return torch.stack([x, y, x, y], dim=1)


def _patch_centres(patches: int) -> Tensor:
    """Patches × 4: the middle of each, twice, on the canvas; in the order of the architecture."""
    within = torch.tensor([[-1, -1], [1, -1], [-1, 1], [1, 1]]).repeat(1, 2) * CELL / 4
    return (_centres(patches // 4)[:, None] + within).flatten(0, 1)


class WordLosses(NamedTuple):
    """Mean losses over text and over measured numbers, and the number of each."""

    text: Tensor
    measured: Tensor
    texts: int
    numbers: int
    error: float
    """Mean distance of the likeliest number from the right one."""


def word_losses(
    logits: Tensor, labels: Tensor, soft: Tensor, numbers: Tensor, *, spread: float
) -> WordLosses:
    """Cross-entropy of the labels; a measured number's target is a bell of width `spread`.

    Args:
        logits: Places × vocabulary.
        labels: Places.
        soft: Places: the label is a measured number.
        numbers: The tokens of 0, 1, …
        spread: Standard deviation of the bell, in steps of the canvas.
    """
    log_shares = functional.log_softmax(logits.float(), dim=-1)
    plain = -log_shares.gather(1, labels[:, None])[:, 0]
    soft = soft & torch.isin(labels, numbers)
    text, texts, measured = plain[~soft].mean(), int((~soft).sum()), int(soft.sum())
    if not measured:
        return WordLosses(text, logits.new_zeros(()), texts, 0, 0.0)
    predicted = log_shares[soft][:, numbers]
    wanted = (labels[soft][:, None] == numbers).int().argmax(1)
    distance = torch.arange(len(numbers))[None] - wanted[:, None]
    bell = torch.softmax(-(distance.float() ** 2) / (2 * spread**2), dim=1)
    loss = -(bell * predicted).sum(-1).mean()
    error = float((predicted.argmax(1) - wanted).abs().float().mean())
    return WordLosses(text, loss, texts, measured, error)
