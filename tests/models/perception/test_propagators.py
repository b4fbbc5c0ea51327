import tracemalloc

import cv2
import numpy as np
import pytest

from harness import media, plugins
from harness.errors import ModelError, UsageError
from harness.models.propagators.flow import dense_flow, flow
from harness.models.propagators.still import still

BOTH = pytest.mark.parametrize("propagator", [flow(), still()], ids=lambda found: found.name)


def iou(one, other):
    return np.count_nonzero(one & other) / np.count_nonzero(one | other)


@pytest.mark.parametrize("name", ["flow", "still"])
def test_a_propagator_is_found_by_its_name(name):
    assert plugins.build("propagators", name).name == name


@BOTH
def test_no_masks_give_no_tracks(propagator, moving):
    assert propagator.propagate(moving.media, 3, []) == []


@BOTH
@pytest.mark.parametrize("start", [0, 3, 6])
def test_every_frame_gets_a_mask_and_the_start_keeps_its_own(propagator, moving, start):
    other = np.zeros((120, 160), dtype=np.bool_)
    other[5, 5] = True
    masks = [moving.masks[start], other]
    tracks = propagator.propagate(moving.media, start, masks)
    assert [len(track) for track in tracks] == [7, 7]
    assert {(mask.shape, mask.dtype) for track in tracks for mask in track} == {
        ((120, 160), np.dtype(np.bool_))
    }
    for track, mask in zip(tracks, masks, strict=True):
        np.testing.assert_array_equal(track[start], mask)


@pytest.mark.parametrize("start", [0, 3, 6])
def test_flow_follows_a_disc_forward_and_backward(moving, start):
    (track,) = flow().propagate(moving.media, start, [moving.masks[start]])
    (held,) = still().propagate(moving.media, start, [moving.masks[start]])
    far = 6 if start < 6 else 0
    assert min(map(iou, track, moving.masks)) > 0.8
    assert iou(held[far], moving.masks[far]) < 0.6


@BOTH
def test_in_a_static_video_both_objects_keep_their_masks_exactly(propagator, standing):
    video = media.pixels([standing.image] * 7, times=range(7), is_video=True, id="static")
    corner = np.zeros((120, 160), dtype=np.bool_)
    corner[:31, 130:] = True  # reaches two edges of the image
    masks = [standing.masks[0], corner]
    for track, mask in zip(propagator.propagate(video, 3, masks), masks, strict=True):
        assert len(track) == 7
        for held in track:
            np.testing.assert_array_equal(held, mask)


def test_motion_of_a_third_of_a_pixel_a_frame_adds_up(standing):
    shifts = [index / 3 for index in range(13)]
    mask = standing.masks[0]
    frames, moved = [], []
    for shift in shifts:
        matrix = np.float32([[1, 0, shift], [0, 1, 0]])
        frames.append(cv2.warpAffine(standing.image, matrix, (160, 120), borderMode=1))
        moved.append(cv2.warpAffine(mask.astype(np.float32), matrix, (160, 120)) >= 0.5)
    video = media.pixels(frames, times=range(13), is_video=True, id="slow")
    (track,) = flow().propagate(video, 0, [mask])
    assert iou(mask, moved[-1]) < 0.93
    assert iou(track[-1], moved[-1]) > 0.96


def test_objects_do_not_influence_each_other(moving):
    first, second = moving.masks[3], ~moving.masks[3]
    together = flow().propagate(moving.media, 3, [first, second])
    for mask, track in zip((first, second), together, strict=True):
        (alone,) = flow().propagate(moving.media, 3, [mask])
        np.testing.assert_array_equal(alone, track)


def test_flow_does_not_depend_on_the_number_of_threads(moving):
    before = cv2.getNumThreads()
    found = []
    try:
        for threads in (1, 2, 7):
            cv2.setNumThreads(threads)
            found.append(dense_flow(moving.media.frame(0), moving.media.frame(1), max_side=480))
    finally:
        cv2.setNumThreads(before)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_flow_is_in_pixels_of_the_image_whatever_it_is_computed_at(moving):
    first, second = moving.media.frame(0), moving.media.frame(1)
    inside = moving.masks[0] & moving.masks[1]
    for max_side in (160, 80):
        found = dense_flow(first, second, max_side=max_side)[inside]
        assert np.median(found, axis=0) == pytest.approx([4, 0], abs=0.6)


@pytest.mark.parametrize(("width", "height"), [(1, 1), (1, 40), (15, 16), (16, 16), (17, 33)])
def test_small_images_are_carried_too(width, height):
    frames = [np.full((height, width, 3), 60 * index, dtype=np.uint8) for index in range(3)]
    video = media.pixels(frames, times=range(3), is_video=True, id="small")
    mask = np.ones((height, width), dtype=np.bool_)
    (track,) = flow().propagate(video, 1, [mask])
    assert [frame.shape for frame in track] == [(height, width)] * 3
    np.testing.assert_array_equal(track[1], mask)


def test_an_empty_mask_stays_empty(moving):
    (track,) = flow().propagate(moving.media, 0, [np.zeros((120, 160), dtype=np.bool_)])
    assert not np.any(track)


def test_memory_does_not_grow_with_the_video():
    height, width = 120, 160

    class Endless:
        size = (width, height)

        def __len__(self):
            return 200

        def frame(self, index):
            return np.full((height, width, 3), index, dtype=np.uint8)

    mask = np.ones((height, width), dtype=np.bool_)
    tracemalloc.start()
    try:
        flow().propagate(Endless(), 100, [mask])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 * height * width, "frames and maps, and no mask a frame"


@BOTH
def test_a_start_or_a_mask_that_does_not_fit_is_refused(propagator, moving):
    with pytest.raises(ModelError, match=r"frame 7: .*0 to 6"):
        propagator.propagate(moving.media, 7, [])
    with pytest.raises(ModelError, match=r"120 × 160.*(160, 120)"):
        propagator.propagate(moving.media, 0, [np.zeros((160, 120), dtype=np.bool_)])


def test_a_working_size_without_room_for_flow_is_refused():
    with pytest.raises(UsageError, match=r"flow\(max_side=…\): .*16.*found 8"):
        flow(max_side=8)
