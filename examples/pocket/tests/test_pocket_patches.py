"""Targets of image tokens: what their patches show, and the place of what is asked about."""

from itertools import islice

import numpy as np
import pytest
import torch
from pocket_training.vlm.batches import collate
from pocket_training.vlm.data_mixture import DrawnScene
from pocket_training.vlm.lessons import locate_example
from pocket_training.vlm.losses import Heads
from pocket_training.vlm.network import HiddenStates, encode_images, make_network, patches
from pocket_training.vlm.views import View

from harness.world.families import draw_scene
from harness.world.referring import attributes
from harness.world.scene import COLOURS, SHAPES, SIZES


def test_patches_come_in_the_order_of_the_architecture():
    """An image whose patches each have a grey of their own, and a thing for each patch."""
    scene = draw_scene(1, family="referring", split="train", index=0)
    view = View(scene)
    numbers = np.arange(144).reshape(12, 12)
    everywhere = np.kron(numbers, np.ones((14, 14), int))
    view.__dict__["masks"] = np.stack([everywhere == number for number in range(144)])[None]
    image = torch.from_numpy(np.stack([everywhere] * 3, axis=-1).astype(np.uint8))
    greys = patches(image[None, None])[0, 0, :, 0]
    shares = view.parts(2)[0].reshape(144, -1)
    assert np.array_equal(np.sort(shares.max(0)), np.ones(144))
    assert np.array_equal(shares.argmax(0), greys.argsort().argsort().numpy())


def covered(mask):
    """Return the part of each of 12 × 12 patches that a mask covers, counted pixel by pixel."""
    fine = mask.repeat(12, 0).repeat(12, 1)
    height, width = mask.shape
    parts = fine.reshape(12, height, 12, width).mean((1, 3))
    return parts.reshape(6, 2, 6, 2).swapaxes(1, 2).reshape(-1)


@pytest.mark.parametrize("family", ["referring", "video"])
def test_each_patch_tells_the_thing_that_covers_most_of_it(family):
    scene = draw_scene(3, family=family, split="train", index=5)
    view = View(scene, range(scene.frames))
    drawn = [DrawnScene(view, (locate_example(view, next(iter(attributes(scene)))),))]
    batch = collate(drawn, intervals=[1])
    grids = (scene.frames + 1) // 2
    assert batch["patch_kinds"].shape == (1, grids * 144, 3)
    assert batch["patch_boxes"].shape == (1, grids * 144, 4)
    clear = 0
    for grid in range(grids):
        parts = np.stack([covered(mask) for mask in view.masks[2 * grid]])
        for patch in range(144):
            limit, next_most = np.sort(parts[:, patch])[::-1][:2]
            info = batch["patch_kinds"][0, grid * 144 + patch]
            if limit < 0.09:
                assert not info.any()
            elif limit > 0.11 and limit - next_most > 0.02:
                thing = int(parts[:, patch].argmax())
                one = scene.things[thing]
                assert tuple(info) == (
                    SHAPES.index(one.shape) + 1,
                    [*COLOURS].index(one.colour),
                    SIZES.index(one.size),
                )
                box = batch["patch_boxes"][0, grid * 144 + patch]
                assert np.array_equal(box, view.boxes[2 * grid][thing])
                clear += 1
    assert clear > 10 * grids


def meetings():
    """Questions about one thing, and the tokens of which another thing covers more than that."""
    for index in range(60):
        scene = draw_scene(4, family="referring", split="train", index=index)
        view = View(scene)
        for question in attributes(scene):
            if len(question.referents) == 1:
                parts = view.shares[0]
                own = parts[question.referents[0]]
                tokens = np.flatnonzero((own >= 0.04) & (own < parts.max(0)))
                if len(tokens):
                    yield view, question, tokens


def test_tokens_tell_the_place_of_what_is_asked_about_where_they_show_it():
    met = 0
    for view, question, tokens in islice(meetings(), 20):
        drawn = [DrawnScene(view, (locate_example(view, question),))]
        plain = collate(drawn, intervals=[1])
        assert np.array_equal(plain["boxes_of_targets"], plain["boxes"][plain["owner"]])
        batch = collate(drawn, intervals=[1], fine=True)
        assert np.array_equal(batch["boxes"], plain["boxes"])
        thing = question.referents[0]
        assert (batch["boxes_of_targets"][0, tokens, :4] == view.boxes[0][thing]).all()
        others = view.shares[0][thing] < 0.04
        assert np.array_equal(batch["boxes_of_targets"][0, others], plain["boxes"][0, others])
        met += len(tokens)
    assert met > 20


def test_what_image_tokens_are_merged_from_is_told():
    network = make_network(seed=0)
    pixels = patches(torch.randint(0, 255, (2, 2, 168, 168, 3), dtype=torch.uint8))
    image, seen = encode_images(network, pixels)
    assert seen.shape == (2, 144, 128)
    again = network.model.visual.merger.mlp(seen.view(2, 36, 512))
    assert torch.allclose(again, image, atol=1e-6)


def told_rightly(batch):
    """Logits and boxes that say just what a batch's patches show."""
    kinds = batch["patch_kinds"]
    output = [
        torch.nn.functional.one_hot(kinds[..., which], number) * 60.0
        for which, number in enumerate((len(SHAPES) + 1, len(COLOURS), len(SIZES)))
    ]
    middles = []
    for patch in range(144):
        token, within = divmod(patch, 4)
        x = token % 6 * 28 + within % 2 * 14 + 7
        y = token // 6 * 28 + within // 2 * 14 + 7
        middles.append((x, y, x, y))
    relative = (batch["patch_boxes"] - torch.tensor(middles)) / 28
    return torch.cat([*output, relative], dim=-1)


def test_what_patches_say_costs_nothing_where_it_is_right():
    view = View(draw_scene(3, family="referring", split="train", index=5))
    drawn = [DrawnScene(view, (locate_example(view, next(iter(attributes(view.scene)))),))]
    batch = collate(drawn, intervals=[1])
    right = told_rightly(batch)
    outputs = right.shape[-1]
    heads = Heads(width=4 * outputs, patches=outputs, fine=True)
    for head in (heads.patch, heads.quarters):
        torch.nn.init.eye_(head.weight)
        torch.nn.init.zeros_(head.bias)
    nothing = torch.zeros(1)

    def cost(before, after):
        states = HiddenStates(after.view(1, 36, -1), before, *[nothing] * 4)
        return heads.patch_loss(states, batch).item()

    shown = int(np.flatnonzero(batch["patch_kinds"][0, :, 0])[0])
    assert cost(right, right) < 1e-5
    parts = torch.split(right, [len(SHAPES) + 1, len(COLOURS), len(SIZES), 4], dim=-1)
    for number, part in enumerate(parts):
        others = [one.clone() for one in parts]
        others[number][0, shown] = part[0, shown].roll(1) if number < 3 else part[0, shown] + 3
        wrong = torch.cat(others, dim=-1)
        assert cost(wrong, right) > 0.1, "what the patch itself says"
        assert cost(right, wrong) == pytest.approx(cost(wrong, right) / 2), "and what is kept of it"


def test_fine_heads_change_no_other():
    heads = []
    for fine in (False, True):
        torch.manual_seed(5)
        heads.append(dict(Heads(width=8, patches=8, fine=fine).named_parameters()))
    more = {name.split(".")[0] for name in heads[1].keys() - heads[0].keys()}
    assert more == {"outline", "patch", "quarters"}
    assert all(torch.equal(weight, heads[1][name]) for name, weight in heads[0].items())
