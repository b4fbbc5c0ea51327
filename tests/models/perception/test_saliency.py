import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from harness import media, plugins
from harness.errors import MediaError, UsageError
from harness.models.propagators.still import still
from harness.models.saliency.model import ANSWERED_FORMS, saliency
from harness.models.saliency.salience import (
    background_probability,
    camera_motion,
    clearest,
    frames_seen,
    inner_points,
    motion_evidence,
    otsu_mask,
    salience,
    salient_objects,
    spread,
)
from harness.models.saliency.superpixels import superpixels
from harness.models.segmenters.box import box
from harness.models.tracks import extent
from harness.spec import Spec, parse
from harness.types import Answer, AnswerForm, FailureKind, Query, query_id

F = AnswerForm


def iou(one, other):
    return np.count_nonzero(one & other) / np.count_nonzero(one | other)


def answer(query, **arguments):
    (found,) = saliency(**arguments).predict([query])
    assert found.failure is None, found.failure
    return found.answer


def image(pixels, name="p"):
    return media.pixels([pixels], times=[0.0], is_video=False, id=name)


def noise(seed, height, width):
    random = np.random.Generator(np.random.Philox(key=seed))
    return random.integers(0, 256, size=(height, width, 3), dtype=np.uint8)


def test_saliency_is_found_by_its_name_and_built_with_other_perception():
    model = plugins.build("models", parse("saliency(segmenter=box,propagator=still)"))
    assert model.describe()["segmenter"] == {"name": "box"}
    assert model.describe()["propagator"] == {"name": "still"}


def test_ready_perception_is_taken_as_it_is():
    segmenter, propagator = box(), still()
    model = plugins.build("models", "saliency", segmenter=segmenter, propagator=propagator)
    assert model.segmenter is segmenter
    assert model.propagator is propagator
    assert saliency(segmenter=Spec("box")).segmenter == segmenter


def test_a_bright_disc_on_dark_ground_is_found(standing):
    found = answer(standing.query(F.MASK, F.BOXES, F.POINTS, F.COUNT, F.BOX_TRACK))
    (mask,) = found.masks
    assert iou(mask.to_array(), standing.masks[0]) > 0.8
    assert found.count == len(found.boxes) == len(found.box_scores) == len(found.points) == 1
    (point,) = found.points
    assert standing.masks[0][int(point.y), int(point.x)]
    assert found.boxes == found.box_track == (extent(mask.to_array()),)
    assert 0 < found.box_scores[0] <= 1
    assert not found.no_target


def test_a_disc_that_moves_is_found_in_every_frame(moving):
    (found,) = saliency().predict([moving.query(F.MASK_TRACK, F.BOX_TRACK)])
    assert found.usage.frames == 7
    masks = [mask.to_array() for mask in found.answer.masks]
    assert min(map(iou, masks, moving.masks)) > 0.8
    assert found.answer.box_track == tuple(map(extent, masks))


def test_motion_singles_out_one_of_two_equal_discs(moving):
    frames = [frame.copy() for frame in moving.media.frames()]
    patch = moving.media.frame(0)[38:82, 38:82]
    for frame in frames:
        frame[70:114, 10:54] = patch
    video = media.pixels(frames, times=range(7), is_video=True, id="two")
    field = clearest(video, 3)
    regions = superpixels(video.frame(3), 200)
    evidence = regions.paint(
        motion_evidence(regions, video.frame(3), [video.frame(2), video.frame(4)])
    )
    mover = moving.masks[3].copy()
    mover[60:] = False
    assert evidence[mover].mean() > 0.5 > 0.1 > evidence[70:114, 10:54].mean()
    assert field.clarity > 0.5


def test_two_discs_are_counted():
    pixels = np.full((120, 200, 3), 40, dtype=np.uint8)
    for x in (60, 140):
        cv2.circle(pixels, (x, 60), 22, (230, 200, 40), -1)
    query = Query(
        id=query_id("2"), text="", media=(image(pixels),), forms=(F.COUNT, F.BOXES, F.POINTS)
    )
    found = answer(query)
    assert found.count == len(found.boxes) == len(found.points) == 2


def test_masks_are_in_pixels_of_the_original_image():
    pixels = np.full((600, 900, 3), 30, dtype=np.uint8)
    ground_truth = np.zeros((600, 900), dtype=np.uint8)
    cv2.circle(pixels, (500, 260), 120, (240, 80, 60), -1)
    cv2.circle(ground_truth, (500, 260), 120, 1, -1)
    query = Query(id=query_id("b"), text="", media=(image(pixels),), forms=(F.MASK,))
    assert iou(answer(query).masks[0].to_array(), ground_truth > 0) > 0.9


@pytest.mark.parametrize("form", sorted(set(AnswerForm) - ANSWERED_FORMS))
def test_a_form_that_it_cannot_answer_is_a_failure_of_the_model(form, standing):
    query = Query(
        id=query_id("x"), text="", media=(standing.media,), forms=(F.COUNT, form), options=("a",)
    )
    (found,) = saliency().predict([query])
    assert found.answer is None
    assert found.failure.kind is FailureKind.MODEL
    assert found.failure.message == f"saliency cannot answer {form}"


def test_a_query_without_an_image_is_a_failure_of_the_model():
    query = Query(id=query_id("x"), text="how many?", media=(), forms=(F.COUNT,))
    assert saliency().predict([query])[0].failure.kind is FailureKind.MODEL


def test_a_damaged_image_is_nobodys_failure_but_its_own(standing, moving):
    class Damaged:
        key = None

        def __call__(self):
            raise MediaError("image x", expected="a complete image", found="half of one")

    torn = media.Media([Damaged()], size=(8, 8), times=(0,), digest=lambda: "", is_video=False)
    bad = Query(id=query_id("bad"), text="", media=(torn,), forms=(F.MASK,))
    good = standing.query(F.MASK)
    first, second = saliency().predict([bad, good])
    assert first.failure.kind is FailureKind.INFRASTRUCTURE
    assert second == saliency().predict([good])[0]


def test_only_what_is_asked_for_is_said(standing):
    assert answer(standing.query(F.COUNT)) == Answer(count=1)


def test_the_question_makes_no_difference(standing):
    first = standing.query(F.MASK, text="the disc")
    second = standing.query(F.MASK, text="everything but the disc")
    assert answer(first) == answer(second)


def test_answers_depend_on_neither_batch_nor_order_nor_randomness_nor_threads(standing, moving):
    video = media.pixels(moving.media.frames()[:3], times=range(3), is_video=True, id="short")
    queries = [
        standing.query(F.MASK, name="a"),
        Query(id=query_id("b"), text="", media=(video,), forms=(F.MASK_TRACK,)),
        standing.query(F.COUNT, name="c"),
        standing.query(F.MASK, name="d"),
    ]
    together = saliency().predict(queries)
    assert [found.query_id for found in together] == [query.id for query in queries]
    before = cv2.getNumThreads()
    try:
        for threads, query, found in zip((3, 1, 2, 4), queries, together, strict=True):
            cv2.setNumThreads(threads)
            cv2.setRNGSeed(threads)
            assert saliency().predict([query]) == [found]
        assert saliency().predict(queries[::-1]) == together[::-1]
    finally:
        cv2.setNumThreads(before)


def test_nothing_stands_out_of_a_plain_image(plain):
    forms = (F.MASK, F.BOXES, F.BOX_TRACK, F.POINTS, F.COUNT)
    found = answer(plain.query(*forms))
    assert found.masks[0].area == 0
    assert found.boxes == found.points == found.box_scores == ()
    assert found.box_track == (None,)
    assert found.count == 0
    assert not found.no_target


def test_nothing_stands_out_of_a_plain_video(plain):
    video = media.pixels([plain.image] * 4, times=range(4), is_video=True, id="plain video")
    query = Query(id=query_id("x"), text="", media=(video,), forms=(F.MASK_TRACK,))
    assert [mask.area for mask in answer(query).masks] == [0] * 4


def test_noise_below_what_people_see_does_not_stand_out():
    pixels = (noise(3, 60, 80) % 2 + 120).astype(np.uint8)
    query = Query(id=query_id("x"), text="", media=(image(pixels),), forms=(F.COUNT,))
    assert answer(query).count == 0


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 3), st.integers(0, 2**32))
def test_every_size_gets_an_answer(width, height, frames, seed):
    shown = [noise(seed + index, height, width) for index in range(frames)]
    video = media.pixels(shown, times=range(frames), is_video=frames > 1, id=str(seed))
    query = Query(id=query_id("x"), text="", media=(video,), forms=tuple(sorted(ANSWERED_FORMS)))
    found = answer(query)
    assert [mask.size for mask in found.masks] == [(width, height)] * frames
    assert len(found.boxes) <= found.count == len(found.points)
    assert all(0 <= point.x < width and 0 <= point.y < height for point in found.points)


def test_superpixels_cover_the_image_and_follow_edges(standing):
    regions = superpixels(standing.image, 150)
    assert np.array_equal(np.unique(regions.labels), np.arange(regions.count))
    share = regions.mean(standing.masks[0].astype(np.float64))
    assert np.mean((share < 0.1) | (share > 0.9)) > 0.9
    assert np.array_equal(regions.adjacent(), regions.adjacent().T)
    assert not regions.adjacent().diagonal().any()
    assert regions.border()[regions.labels[0]].all()


def test_what_the_border_is_connected_to_is_background(standing):
    regions = superpixels(standing.image, 150)
    found = background_probability(regions, cdist(regions.colours, regions.colours), scale=7)
    inside = regions.mean(standing.masks[0].astype(np.float64)) > 0.9
    assert found[inside].max() < 0.2
    assert found[regions.border()].min() > 0.9
    assert ((found >= 0) & (found <= 1)).all()


def test_salience_is_highest_inside_and_lowest_outside(standing):
    regions = superpixels(standing.image, 150)
    field = regions.paint(salience(regions, (160, 120)))
    assert field[standing.masks[0]].mean() > 0.8
    assert field[~standing.masks[0]].mean() < 0.1


def test_the_motion_of_the_camera_is_removed_from_flow():
    y, x = np.mgrid[:96, :128].astype(np.float32)
    field = np.stack([0.02 * x - 3, 0.02 * y + 1], axis=2).astype(np.float32)
    own = field.copy()
    own[40:60, 50:70] += 9
    np.testing.assert_allclose(camera_motion(own), field, atol=0.05)


def test_the_middles_of_equal_stretches_are_looked_at():
    assert spread(1, 8) == [0]
    assert spread(16, 4) == [2, 6, 10, 14]
    assert all(len(set(spread(n, 8))) == min(n, 8) for n in range(1, 40))
    assert frames_seen(1, 8) == 1
    assert frames_seen(100, 2) == 6


def test_a_flat_map_has_nothing_outstanding():
    for level in (0.0, 0.5, 1.0):
        field = np.full((9, 9), level, dtype=np.float32)
        assert not otsu_mask(field).any()
        assert salient_objects(field, (9, 9)) == []


def test_points_lie_deep_inside_and_apart():
    part = np.zeros((40, 80), dtype=np.bool_)
    part[5:35, 5:35] = part[5:35, 45:75] = part[18:22, 30:50] = True
    points = inner_points(part)
    assert len(points) == 2
    assert {(10 < x < 30) or (50 < x < 70) for x, _ in points} == {True}
    assert abs(points[0][0] - points[1][0]) > 30
    assert inner_points(np.zeros((4, 4), dtype=np.bool_)) == []


@pytest.mark.parametrize("arguments", [{"candidates": 0}, {"batch_size": 0}])
def test_arguments_that_make_no_sense_are_refused(arguments):
    with pytest.raises(UsageError, match=rf"saliency\({next(iter(arguments))}=…\): .*1, found 0"):
        saliency(**arguments)
