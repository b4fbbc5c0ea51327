"""Things in colours without a name: what they teach, and what they do not show."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from pocket_training.vlm.batches import collate, squashed
from pocket_training.vlm.data_mixture import DrawnScene, draw_half
from pocket_training.vlm.lessons import locate_example
from pocket_training.vlm.losses import kind_loss
from pocket_training.vlm.trainer import STAGES
from pocket_training.vlm.views import View

from harness.world.families import draw_scene
from harness.world.raster import render
from harness.world.referring import attributes
from harness.world.scene import COLOURS, HELD_OUT, SHAPES, SIZES

MORE = STAGES["more"]


def images_of(stage):
    """Images without questions."""
    stage = replace(stage, stills=0, images=40)
    return [one for step in range(4) for one in draw_half(stage, 1.0, seed=3, step=step)["stills"]]


@pytest.fixture(scope="module")
def images():
    return images_of(MORE)


def test_some_things_have_a_colour_that_no_question_names(images):
    things = sum(len(one.view.scene.things) for one in images)
    fills = [fill for one in images for fill in one.view.fills.values()]
    assert len(fills) / things == pytest.approx(0.7, abs=0.05)
    named = np.array([*COLOURS.values()])
    for fill in fills:
        assert np.abs(named - fill).max(1).min() >= 80, "another colour, not a shade of it"
    assert len(set(fills)) > 0.95 * len(fills)


def test_shapes_and_sizes_of_all_combinations_are_shown_in_them(images):
    """And in the colours that have names no combination that is held out."""
    shown = set()
    for one in images:
        for index, thing in enumerate(one.view.scene.things):
            combination = (thing.shape, thing.colour, thing.size)
            assert combination not in HELD_OUT
            if index in one.view.fills:
                shown.add((thing.shape, thing.size))
    assert len(shown) == len(SHAPES) * len(SIZES)


def test_they_are_seen_against_the_ground(images):
    for one in images[:40]:
        view = one.view
        ground = render(view.scene)[~view.masks[0].any(0)].mean(0)
        for fill in view.fills.values():
            assert np.abs(ground - fill).max() > 40


def test_images_are_the_same_scenes_without_them(images):
    plain = images_of(STAGES["base"])
    assert [one.view.scene for one in plain] == [one.view.scene for one in images]
    assert not any(one.view.fills for one in plain)
    stills = draw_half(MORE, 1.0, seed=3, step=0)["stills"][: MORE.stills]
    assert not any(one.view.fills for one in stills), "of what is asked about colours are said"


def test_the_network_sees_the_other_colour():
    scene = draw_scene(3, family="referring", split="train", index=5)
    fill = (250, 0, 255)
    areas = View(scene).masks[0].sum((1, 2))
    thing = int(areas.argmax())
    seen, plain = (squashed(View(scene, (0,), fills))[0] for fills in ({thing: fill}, {}))
    x, y = map(int, View(scene).pixel_inside(thing, 0))
    assert tuple(seen[y, x]) == fill and tuple(plain[y, x]) == COLOURS[scene.things[thing].colour]
    changed = (seen != plain).any(-1).mean()
    assert changed == pytest.approx(areas[thing] / (scene.width * scene.height), abs=0.02)


def test_tokens_tell_no_colour_that_has_no_name_and_of_asked_things_no_shape():
    scene = draw_scene(3, family="referring", split="train", index=5)
    lesson = locate_example(View(scene), next(iter(attributes(scene))))
    fills = {0: (0, 255, 255)}
    unasked, requested = (
        DrawnScene(View(scene, (0,), fills), ()),
        DrawnScene(View(scene), (lesson,)),
    )
    batch, plain = (
        collate([requested, unasked], intervals=[1, 1], fine=alone) for alone in (True, False)
    )
    for name in ("kinds", "patch_kinds"):
        info, whole = batch[name], plain[name]
        shown = whole[0, :, 0] > 0
        assert (info[0, shown][:, [0, 2]] == -100).all()
        assert np.array_equal(info[0, :, 1], whole[0, :, 1])
        assert np.array_equal(info[0, ~shown], whole[0, ~shown])
        assert np.array_equal(info[1], whole[1])
        nameless = info[1, :, 1] == -100
        assert nameless.any() and (info[1, nameless, 0] > 0).all()
        assert np.array_equal(info[1, ~nameless], whole[0, ~nameless])
    assert np.array_equal(batch["boxes"], plain["boxes"])


def test_what_is_not_asked_for_costs_nothing():
    output = [torch.randn(1, 5, width) for width in (len(SHAPES) + 1, len(COLOURS), len(SIZES))]
    kinds = torch.tensor([[[0, 0, 0], [3, 2, 1], [4, -100, 0], [-100, 5, -100], [1, 1, 1]]])
    whole = kind_loss(output, kinds)
    expected = 0
    for which, places in ((0, [1, 2, 4]), (1, [1, 3, 4]), (2, [1, 2, 4])):
        shares = torch.log_softmax(output[which][0], -1)
        expected -= sum(shares[at, kinds[0, at, which]] for at in places) / len(places)
    expected -= torch.log_softmax(output[0][0, 0], -1)[0]
    assert float(whole) == pytest.approx(float(expected), rel=1e-5)
    kinds[0, 1:, :] = -100
    none = kind_loss(output, kinds)
    assert float(none) == pytest.approx(float(-torch.log_softmax(output[0][0, 0], -1)[0]), rel=1e-5)
