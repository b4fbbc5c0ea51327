"""The joint mask of objects in every frame: what it is, and what is held of it."""

import tracemalloc
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from harness import media
from harness.errors import ModelError
from harness.masks import Rle, Track
from harness.models.answers import mask_answer
from harness.models.grammar import Item
from harness.models.propagators.flow import flow
from harness.models.propagators.still import still
from harness.models.tracks import extent, joint_masks
from harness.segmentation import Propagator, Segmenter
from harness.types import AnswerForm, Box, Point

HEIGHT, WIDTH = 96, 128
START = 2


def noise(frames):
    draw = np.random.default_rng(0)
    return [draw.integers(0, 255, (HEIGHT, WIDTH, 3), dtype=np.uint8) for _ in range(frames)]


def video(frames):
    return media.pixels(noise(frames), times=range(frames), is_video=True, id=f"v{frames}")


def squares(objects):
    """Masks that overlap."""
    masks = np.zeros((objects, HEIGHT, WIDTH), bool)
    for index, mask in enumerate(masks):
        mask[10 + index : 40 + index, 20 + index : 60 + index] = True
    return list(masks)


@dataclass(frozen=True)
class Gives(Segmenter, Propagator):
    """A segmenter of given masks, and a propagator of given tracks."""

    given: Any
    name: str = "gives"

    def segment(self, image, prompts):
        return self.given

    def propagate(self, shown, start, masks):
        return self.given


def joint(propagator, shown, masks):
    items = [Item(Box(0, 0, 5, 5), Point(1, 1)) for _ in masks]
    return joint_masks(Gives(masks), propagator, shown, START, items)


@pytest.mark.parametrize("reads_pixels", [True, False])
def test_an_image_is_decoded_for_segmenters_that_read_pixels(reads_pixels):
    seen = []

    class Sees(Gives):
        def segment(self, image, prompts):
            seen.append(image)
            return self.given

    segmenter, shown = Sees(squares(1)), video(4)
    Sees.reads_pixels = reads_pixels
    joint_masks(segmenter, still(), shown, START, [Item(Box(0, 0, 5, 5))])
    (image,) = seen
    assert image.shape == (HEIGHT, WIDTH, 3) and image.dtype == np.uint8
    assert np.array_equal(image, shown.frame(START)) is reads_pixels
    assert image.any() or not reads_pixels


def answered(form, tracks):
    return mask_answer(form, [], tracks, nothing=False, is_image=False)()


def as_arrays(tracks):
    return [[np.array(mask) for mask in track] for track in tracks]


@pytest.mark.parametrize("objects", [1, 2, 5])
@pytest.mark.parametrize("propagator", [flow(), still()], ids=lambda found: found.name)
@pytest.mark.parametrize("held", ["tracks", "lists", "both"])
def test_the_answer_is_that_of_all_masks_as_arrays(propagator, held, objects):
    shown, masks = video(6), squares(objects)
    tracks = propagator.propagate(shown, START, masks)
    arrays = as_arrays(tracks)
    given = {"tracks": tracks, "lists": arrays, "both": [*arrays[:1], *tracks[1:]]}[held]
    united = [np.logical_or.reduce(frame) for frame in zip(*arrays, strict=True)]
    found = joint(Gives(given), shown, masks)
    assert answered(AnswerForm.MASK_TRACK, found).masks == tuple(map(Rle.from_array, united))
    assert answered(AnswerForm.BOX_TRACK, found).box_track == tuple(map(extent, united))


def test_of_one_object_the_track_is_the_answer():
    track = Track.of_one_mask(squares(1)[0], 6)
    assert joint(Gives([track]), video(6), squares(1))() is track


def test_without_objects_there_is_an_empty_mask_a_frame_and_no_memory():
    shown = video(6)
    found = answered(AnswerForm.MASK_TRACK, joint(Gives([]), shown, []))
    assert found.masks == (Rle.empty(HEIGHT, WIDTH),) * 6
    assert peak_of(joint(Gives([]), video(40), [])) < HEIGHT * WIDTH
    assert peak_of(lambda: Track(10_000, 1080, 1920)) < 200_000, "a reference a frame"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([Track(6, HEIGHT, WIDTH)], "2 tracks, found 1"),
        ([Track(6, HEIGHT, WIDTH), Track(5, HEIGHT, WIDTH)], "found 5"),
        (
            [Track(6, HEIGHT, WIDTH), Track(6, WIDTH, HEIGHT)],
            r"found 6 .*\(128, 96\)",
        ),
        ([Track(6, HEIGHT, WIDTH), [np.zeros((3, 3), bool)] * 6], r"found 6 .*\(3, 3\)"),
        ([[np.zeros((HEIGHT, WIDTH), bool)] * 6] * 3, "2 tracks, found 3"),
    ],
    ids=["fewer", "shorter", "turned", "smaller", "more"],
)
def test_what_does_not_fit_the_video_is_refused(given, said):
    with pytest.raises(ModelError, match=f"propagator gives: .*{said}"):
        joint(Gives(given), video(6), squares(2))()


def peak_of(work):
    tracemalloc.start()
    try:
        assert work() is not None
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("form", [AnswerForm.MASK_TRACK, AnswerForm.BOX_TRACK])
def test_the_masks_of_all_objects_in_all_frames_are_never_held(form):
    objects, frames = 60, 40
    shown, masks = video(frames), squares(objects)
    peak = peak_of(lambda: answered(form, joint(flow(), shown, masks)))
    assert peak < objects * frames * HEIGHT * WIDTH / 10


def test_what_is_held_of_a_mask_is_its_text():
    checkered = np.indices((HEIGHT, WIDTH)).sum(axis=0) % 2 > 0

    def run():
        tracks = [Track(60, HEIGHT, WIDTH) for _ in range(2)]
        for track in tracks:
            for index in range(60):
                track[index] = np.roll(checkered, index)
        return answered(AnswerForm.MASK_TRACK, joint(Gives(tracks), shown, masks))

    shown, masks = video(60), squares(2)
    peak = peak_of(run)
    once = 100 * HEIGHT * WIDTH  # while one frame is united
    assert peak < 3 * 60 * HEIGHT * WIDTH + once, "a byte a run, and runs of one pixel"
