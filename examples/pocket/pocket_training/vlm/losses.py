"""Losses of a batch: the next token, and heads that teach a network of this size where to attend.

From the next token alone it does not learn that in hours. The heads exist in training only.

- `things`: each image token of the vision tower says shape, colour, size, box and motion of the
  thing that it shows; after the middle text layer where on the canvas that box is, and its motion.
- `patches`: each of a token's four patches says what it shows itself, before they are merged; and
  the token says it of each. An image token that two things share shows both.
- `outlines`: each image token of the vision tower says which parts of it the thing covers. What
  shape a thing has is learned from where its edges are, of small things most of all.
- `targeted`: after the middle text layer each image token says whether the question is about it.
- `grounding`: wherever the response is about to speak of a thing, the hidden state picks the image
  tokens that show it, by a product of queries and keys; in the next layer one head `attends` to
  them, and so gets what stands there: the place.
- `copies`: wherever the response repeats an earlier text (an option's letter, the thing that a
  comparison comes out for), or says what follows from it (which of two numbers is more), another
  head of that layer attends to it. What follows from texts that are apart attends to each, and
  loses log 2 at least. `options`: the words of an option say its letter, which stands before them.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.world.scene import COLOURS, SHAPES, SIZES
from pocket_training.vlm.batches import IGNORED, NOTHING, OUTLINE, Batch
from pocket_training.vlm.network import HiddenStates
from pocket_training.vlm.views import CANVAS, CELLS

KINDS = (len(SHAPES) + 1, len(COLOURS), len(SIZES))
"""Logits of shape, colour and size, of a token's or a patch's thing; its box follows in outputs."""

LOOK_WIDTH, MAX_OPTIONS = 64, 8  # of products of queries and keys; letters that options can have
CELL = CANVAS / CELLS
FASTEST = CELL / 4
"""Speed, in canvas pixels a frame, at which a thing's motion weighs as much as an image token's
size. Motions are small, but the questions are about their direction."""


class Heads(nn.Module):
    """The heads of training, on states of text and image tokens, and of patches."""

    def __init__(self, *, width: int, patches: int, fine: bool) -> None:
        super().__init__()
        self.things = nn.Linear(width, sum(KINDS) + 6)  # a box, and its way
        self.place = nn.Linear(width, 6)
        self.targeted = nn.Linear(width, 1)
        self.query = nn.Linear(width, LOOK_WIDTH)
        self.key = nn.Linear(width, LOOK_WIDTH)
        self.option = nn.Linear(width, MAX_OPTIONS)
        self.fine = fine
        if fine:  # the last ones: the others begin as they do without them
            self.outline = nn.Linear(width, OUTLINE**2)
            self.patch = nn.Linear(patches, sum(KINDS) + 4)
            self.quarters = nn.Linear(width, 4 * (sum(KINDS) + 4))

    def forward(self, states: HiddenStates, batch: Batch) -> dict[str, Tensor]:
        """The losses of a batch."""
        image, middle = states.image.float(), states.middle.float()
        seen = middle[batch["seen"]].view(len(middle), -1, middle.shape[-1])
        shown = batch["kinds"][..., 0] != NOTHING
        row, place = batch["grounding"].unbind(1)
        scores = (self.query(middle[row, place])[:, None] * self.key(seen)[row]).sum(-1)
        picked = functional.log_softmax(scores / LOOK_WIDTH**0.5, dim=-1)
        attended = _attention(states, 0, batch["grounding"])
        attended = attended[batch["seen"][row]].view(batch["looked_at"].shape)
        row, place, letter = batch["options"].unbind(1)
        options = self.option(middle[row, place])
        boxes, way = torch.split(batch["boxes"], [4, 2], dim=-1)
        relative = torch.cat([(boxes - _centres(boxes.shape[1])) / CELL, way / FASTEST], dim=-1)
        things = _thing_loss(self.things(image), batch["kinds"], relative)
        boxes, way = torch.split(batch["boxes_of_targets"], [4, 2], dim=-1)
        wanted = torch.cat([boxes / (CANVAS / 2) - 1, way / FASTEST / 4], dim=-1)
        about = shown[batch["owner"]]
        places = functional.smooth_l1_loss(self.place(seen)[about], wanted[about], beta=0.1)
        losses = {
            "things": things + 6 * places,
            "targeted": functional.binary_cross_entropy_with_logits(
                self.targeted(seen)[..., 0], batch["targeted"]
            ),
            "grounding": -_mean((batch["looked_at"] * picked).sum(-1)),
            "attends": -_mean((batch["looked_at"] * attended).sum(-1)),
            "copies": copy_loss(states, batch),
            "options": _mean(functional.cross_entropy(options, letter, reduction="none")),
        }
        if self.fine:
            losses["patches"] = self.patch_loss(states, batch)
            losses["outlines"] = functional.binary_cross_entropy_with_logits(
                self.outline(image[shown]), batch["outlines"][shown]
            )
        return losses

    def patch_loss(self, states: HiddenStates, batch: Batch) -> Tensor:
        """Return the loss of what patches say, and half of what their tokens say of them."""
        seen = self.patch(states.patches.float())
        kept = self.quarters(states.image.float()).view(seen.shape)
        # Patches come in the order of the architecture: by image token, then within it.
        within = torch.tensor([[-1, -1], [1, -1], [-1, 1], [1, 1]]).repeat(1, 2) * CELL / 4
        centres = (_centres(seen.shape[1] // 4)[:, None] + within).flatten(0, 1)
        wanted = batch["patch_kinds"], (batch["patch_boxes"] - centres) / CELL
        return _thing_loss(seen, *wanted) + _thing_loss(kept, *wanted) / 2


def _centres(tokens: int) -> Tensor:
    """Image tokens × 4: the middle of each, twice, on the canvas."""
    cells = torch.arange(tokens) % (CELLS * CELLS)
    x, y = (cells % CELLS + 0.5) * CELL, (cells // CELLS + 0.5) * CELL
    return torch.stack([x, y, x, y], dim=1)


def _thing_loss(outputs: Tensor, kinds: Tensor, relative: Tensor) -> Tensor:
    """Return the loss of what is said of things: their kinds, and their boxes."""
    *logits, box = torch.split(outputs, [*KINDS, relative.shape[-1]], dim=-1)
    shown = kinds[..., 0] != NOTHING
    place = functional.smooth_l1_loss(box[shown], relative[shown], beta=0.2)
    return kind_loss(logits, kinds) + place


def kind_loss(logits: Sequence[Tensor], kinds: Tensor) -> Tensor:
    """Return the losses of shape, with things and without, and of colour and size."""
    shown = kinds[..., 0] != NOTHING
    loss = functional.cross_entropy(logits[0][~shown], kinds[..., 0][~shown])
    for said, wanted in zip(logits, kinds.unbind(-1), strict=True):
        info = shown & (wanted != IGNORED)
        loss = loss + _mean(functional.cross_entropy(said[info], wanted[info], reduction="none"))
    return loss


def copy_loss(states: HiddenStates, batch: Batch) -> Tensor:
    """Return the loss of one head's attention from a repeated text to its source."""
    attended = _attention(states, 1, batch["copies"])
    return -_mean(torch.logsumexp(attended.masked_fill(~batch["sources"], -1e4), dim=-1))


def _attention(states: HiddenStates, head: int, places: Tensor) -> Tensor:
    """Logarithms of a head's attention from some places (n × (row, place)): n × tokens."""
    row, place = places.unbind(1)
    keys = states.key[:, head].float()[row]
    scores = (states.query[:, head].float()[row, place][:, None] * keys).sum(-1)
    after = torch.arange(keys.shape[1]) > place[:, None]
    return functional.log_softmax(scores.masked_fill(after, -1e4), dim=-1)


def _mean(values: Tensor) -> Tensor:
    """Return the mean; 0 if empty: a batch may hold only questions without attention targets."""
    return values.sum() / max(values.numel(), 1)


def word_losses(
    logits: Tensor, labels: Tensor, measured: Tensor, numbers: Tensor, *, spread: float
) -> Tensor:
    """Cross-entropy of places' labels; a `measured` number's target is a bell of width `spread`.

    `numbers` are the tokens of 0, 1, …
    """
    log_shares = functional.log_softmax(logits.float(), dim=-1)
    predicted = log_shares[measured][:, numbers]
    wanted = (labels[measured][:, None] == numbers).int().argmax(1)
    distance = torch.arange(len(numbers)) - wanted[:, None]
    bell = torch.softmax(-(distance.float() ** 2) / (2 * spread**2), dim=1)
    losses = functional.nll_loss(log_shares, labels, reduction="none")
    return losses.masked_scatter(measured, -(bell * predicted).sum(-1))
