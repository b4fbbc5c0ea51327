import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.world.families import draw_scene
from harness.world.raster import (
    extents,
    has_holes,
    is_inside,
    is_outside,
    owners,
    render,
    template,
    visible_areas,
    visible_masks,
    whole_areas,
)
from harness.world.scene import COLOURS, RADIUS, SHAPES, Background, Scene, Shape, Thing

SEEDS = st.integers(0, 2**40)
TEMPLATES: dict[Shape, list[str]] = {
    "circle": ["af2c87aa803a1728", "bedf0ce724495af1", "86f3e4602ffe8aad"],
    "square": ["20fd7b5b4951fe65", "4c53ced4974ef976", "15534e137bb7e2f6"],
    "triangle": ["2787d61393a5b408", "6c02d4400aaf78a2", "377770440129eb91"],
    "rectangle": ["63b0af5844b8a28c", "8c4f27c799071a1d", "2e13e2973671afff"],
    "diamond": ["1387107b9e2703b5", "898cd93154162d9d", "217064ff4e41c815"],
    "star": ["d4f36db2da949a29", "5c64af7b2e3a0732", "e90246101c34976d"],
    "cross": ["8781cf279a2ea4c6", "5656be3ee7030370", "b0122adb1a9e2de4"],
    "hexagon": ["d2762d4665cbe5a5", "ad2667ea1f8a1b8c", "1b407a9ea7b78993"],
}
IMAGES = {
    "still/val/0/0": ("63b25e4ac25759ea", "238080b7d4bc5cce"),
    "still/train/1/0": ("0292cb81092f7b7f", "b7974046ff371aaa"),
    "still/test/2/0": ("db6cad0839319083", "9f8a62c240023103"),
    "still/val/5/0": ("27633d4c077fe6ab", "6010d1ce23558080"),
    "video/val/0/0": ("74870bdc30b9f02a", "99dcc8707c08df86"),
    "video/val/0/5": ("824702d6c8bcb1d5", "17c8e6cab28defdf"),
    "count/train/3/0": ("f5123e4a6de289d3", "77b71c14208a9444"),
    "countbench/test/4/0": ("34176d8cb14a3d37", "6c009e0f800357ae"),
}


def digest(array: np.ndarray) -> str:
    whole = hashlib.blake2b(repr((array.shape, str(array.dtype))).encode(), digest_size=8)
    whole.update(array.tobytes())
    return whole.hexdigest()


def scene_of(*things: Thing, side: int = 168, frames: int = 1) -> Scene:
    return Scene(
        seed=0,
        family="still",
        split="val",
        index=0,
        width=side,
        height=side,
        background=Background("plain", 1),
        things=things,
        frames=frames,
    )


def red_square(**changes: object) -> Thing:
    thing = Thing(shape="square", colour="red", size="large", x=80, y=80, depth=1)
    return replace(thing, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_masks_of_shapes_are_pinned(shape: Shape) -> None:
    masks = [template(shape, radius) for radius in RADIUS.values()]
    assert [digest(mask) for mask in masks] == TEMPLATES[shape]


@pytest.mark.parametrize("name", IMAGES)
def test_masks_and_images_of_scenes_are_pinned(name: str) -> None:
    family, split, index, frame = name.split("/")
    scene = draw_scene(2025, family=family, split=split, index=int(index))  # type: ignore[arg-type]
    masks, image = visible_masks(scene, int(frame)), render(scene, int(frame))
    assert (digest(masks), digest(image)) == IMAGES[name]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("radius", [9, 11, 17, 25, 38])
def test_shapes_are_symmetric_without_holes_and_grow_with_their_radius(
    shape: Shape, radius: int
) -> None:
    mask = template(shape, radius)
    assert np.array_equal(mask, mask[:, ::-1])
    assert not has_holes(mask)
    assert mask.sum() > template(shape, radius - 2).sum()
    if shape not in ("triangle", "star"):
        assert np.array_equal(mask, mask[::-1])


def test_the_areas_of_shapes_come_near_geometry() -> None:
    radius = 40
    geometry = {"circle": np.pi, "square": 1.7**2, "rectangle": 2.5, "diamond": 1.5 * 1.15}
    for shape, area in geometry.items():
        found = template(shape, radius).sum()  # type: ignore[arg-type]
        assert found == pytest.approx(area * radius**2, rel=0.05)


def test_extents_are_how_far_the_pixels_reach() -> None:
    assert extents("square", 20) == (17, 17)
    assert extents("rectangle", 20) == (25, 10)
    assert extents("circle", 20) == (20, 20)


def test_a_square_covers_the_pixels_around_its_centre() -> None:
    scene = scene_of(red_square())
    mask = visible_masks(scene)[0]
    expected = np.zeros((168, 168), dtype=bool)
    expected[80 - 21 : 80 + 22, 80 - 21 : 80 + 22] = True
    assert np.array_equal(mask, expected)


def test_the_inside_has_the_exact_colour_and_the_rim_a_darker_one() -> None:
    scene = scene_of(red_square())
    image = render(scene)
    assert tuple(image[80, 80]) == COLOURS["red"]
    assert tuple(image[59, 80]) == tuple(part * 5 // 8 for part in COLOURS["red"])
    assert tuple(image[58, 80]) == tuple(image[0, 0])


def test_a_nearer_thing_covers_a_farther_one() -> None:
    near = red_square(colour="blue", depth=0, x=100)
    scene = scene_of(red_square(), near)
    masks = visible_masks(scene)
    assert masks[1].sum() == whole_areas(scene)[1]
    assert masks[0].sum() == whole_areas(scene)[0] - 23 * 43
    assert tuple(render(scene)[80, 90]) == COLOURS["blue"]


def test_another_fill_changes_the_pixels_of_its_thing_alone():
    scene = draw_scene(3, family="referring", split="train", index=5)
    plain, filled = render(scene), render(scene, fills={1: (0, 255, 255)})
    own = visible_masks(scene)[1]
    assert np.array_equal(plain[~own], filled[~own])
    colours, often = np.unique(filled[own], axis=0, return_counts=True)
    assert [tuple(one) for one in colours] == [(0, 159, 159), (0, 255, 255)], "its rim is darker"
    assert often[1] > often[0]
    inside = (plain[own] == COLOURS[scene.things[1].colour]).all(-1)
    assert np.array_equal(inside, (filled[own] == (0, 255, 255)).all(-1))


def test_a_thing_that_moves_out_is_cut_and_then_gone() -> None:
    scene = scene_of(red_square(x=140, dx=10), frames=8)
    inside = [is_inside(scene, scene.things[0], frame) for frame in range(8)]
    outside = [is_outside(scene, scene.things[0], frame) for frame in range(8)]
    assert inside == [True] + [False] * 7
    assert outside == [False] * 5 + [True] * 3
    assert visible_areas(scene)[:, 0].tolist() == [43 * k for k in (43, 39, 29, 19, 9, 0, 0, 0)]


def test_holes_are_found() -> None:
    ring = np.ones((5, 5), dtype=bool)
    ring[2, 2] = False
    assert has_holes(ring)
    ring[2, :2] = False
    assert not has_holes(ring)
    corners = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
    assert has_holes(corners)  # contours join the four pixels by their corners
    assert not has_holes(np.zeros((3, 3), dtype=bool))


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.sampled_from(["still", "video", "count"]))
def test_masks_share_no_pixel_and_images_follow_them(seed: int, family: str) -> None:
    scene = draw_scene(seed, family=family, split="test", index=0)
    frame = seed % scene.frames
    masks, owner, image = visible_masks(scene, frame), owners(scene, frame), render(scene, frame)
    assert masks.sum(0).max() <= 1
    assert np.array_equal(masks.any(0), owner >= 0)
    assert image.shape == (scene.height, scene.width, 3) and image.dtype == np.uint8
    named = np.array(list(COLOURS.values()))
    background = image[owner < 0]
    assert not (background[:, None] == named).all(2).any()
    for index, thing in enumerate(scene.things):
        inside = np.array(COLOURS[thing.colour])
        rim = inside + 48 if thing.colour == "black" else inside * 5 // 8
        seen = image[masks[index]]
        assert ((seen == inside).all(1) | (seen == rim).all(1)).all()
