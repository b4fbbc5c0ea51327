"""Run-lengths: equal to COCO's, and refused before C code can be hurt by them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from pycocotools import mask as coco

from harness.errors import MaskError
from harness.masks import MAX_SIDE, Rle, SoftMask, Track, rles_of
from harness.run_lengths import encode_runs, parse_counts

any_mask = arrays(bool, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=40))


@given(any_mask)
def test_decoding_gives_back_what_was_encoded(mask):
    rle = Rle.from_array(mask)
    np.testing.assert_array_equal(rle.to_array(), mask)
    assert rle.area == mask.sum()
    assert Rle.from_json(rle.to_json()) == rle


@given(any_mask)
def test_our_run_lengths_are_those_of_pycocotools(mask):
    official = coco.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"].decode()
    assert Rle.from_array(mask).counts == official
    runs = parse_counts(official, mask.size)
    assert encode_runs(list(runs)) == official


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=60))
def test_parsing_inverts_encoding_for_any_runs(runs):
    np.testing.assert_array_equal(parse_counts(encode_runs(runs), 10**8), runs)


@given(any_mask, st.data())
def test_union_and_intersection_are_those_of_arrays(mask, data):
    other = data.draw(arrays(bool, mask.shape))
    one, two = Rle.from_array(mask), Rle.from_array(other)
    np.testing.assert_array_equal(one.union(two).to_array(), mask | other)
    np.testing.assert_array_equal(one.intersection(two).to_array(), mask & other)


@given(any_mask, st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=5))
def test_a_union_has_the_text_of_the_arrays_union(mask, seeds):
    several = [
        mask & np.random.default_rng(seed).choice([True, False], mask.shape) for seed in seeds
    ]
    expected = Rle.from_array(np.logical_or.reduce(several))
    first, *others = map(Rle.from_array, several)
    assert first.union(*others) == expected
    first, *others = (Track.of_one_mask(one, 2) for one in several)
    assert first.union(*others).rles == (expected, expected)


@given(any_mask)
def test_the_layout_of_an_array_and_its_numbers_make_no_difference(mask):
    expected = Rle.from_array(np.ascontiguousarray(mask))
    spaced = np.zeros((mask.shape[0] * 2, mask.shape[1] * 3), bool)
    spaced[::2, ::3] = mask
    numbers = mask * np.arange(-1, -1 - mask.size, -1).reshape(mask.shape)
    for other in (np.asfortranarray(mask), spaced[::2, ::3], numbers, (numbers != 0) * 7):
        assert Rle.from_array(other) == expected


@given(st.text(max_size=30), st.integers(1, 50), st.integers(1, 50))
def test_any_text_is_a_mask_of_the_right_size_or_an_error(text, height, width):
    try:
        rle = Rle(height, width, text)
    except MaskError:
        return
    assert rle.to_array().shape == (height, width)
    assert rle.area == rle.to_array().sum()


@pytest.mark.parametrize(
    ("size", "counts"),
    [
        ([10, 10], "5"),  # too short: pycocotools would return uninitialised memory
        ([10, 10], ""),
        ([10, 10], encode_runs([101])),
        ([10, 10], encode_runs([50, 60, -10])),
        ([10, 10], "P"),  # the last number is cut
        ([10, 10], "\u00e9"),
        ([10**6, 10**6], "5"),  # pycocotools would crash
        ([MAX_SIDE, MAX_SIDE + 1], "5"),
        ([-1, 10], "5"),
        ([0, 10], "0"),
        ([2.5, 4], "5"),
        ([True, 4], "5"),
        ([10], "5"),
        ("10x10", "5"),
        ([10, 10], 7),
        ([10, 10], [1, -1, 100]),
        ([10, 10], [99]),
        ([10, 10], [0.5, 99.5]),
        ([10, 10], "PPPPPPPPPPPPPPPPPPPPPP0"),
    ],
)
def test_malformed_run_lengths_are_refused(size, counts):
    with pytest.raises(MaskError, match="expected"):
        Rle.from_json({"size": size, "counts": counts})


@pytest.mark.parametrize("value", [None, [], "abc", {"size": [2, 2]}, {"counts": "4"}])
def test_what_is_no_run_length_is_refused(value):
    with pytest.raises(MaskError):
        Rle.from_json(value)


def test_uncompressed_runs_are_read_too():
    assert Rle.from_json({"size": [2, 3], "counts": [1, 2, 3]}).area == 2


def test_masks_of_different_sizes_cannot_be_combined():
    with pytest.raises(MaskError, match="4 × 3"):
        Rle.empty(3, 4).union(Rle.empty(4, 3))


def test_empty_and_full_hold_nothing_and_everything():
    assert Rle.empty(3, 4).area == 0
    assert Rle.full(3, 4).area == 12
    assert Rle.full(3, 4).to_array().all()


def test_soft_masks_keep_their_confidence_to_one_level():
    confidence = np.random.default_rng(0).random((7, 5))
    soft = SoftMask.from_json(SoftMask.from_array(confidence).to_json())
    assert np.abs(soft.to_array() - confidence).max() <= 0.5 / 255 + 1e-6


@pytest.mark.parametrize("bad", [np.full((2, 2), np.nan), np.full((2, 2), 1.5), np.zeros(3)])
def test_what_is_no_confidence_is_refused(bad):
    with pytest.raises(MaskError):
        SoftMask.from_array(bad)


def test_a_soft_mask_cannot_unpack_to_more_than_its_size():
    plain = SoftMask.from_array(np.zeros((100, 100))).to_json()
    with pytest.raises(MaskError):
        SoftMask.from_json({**plain, "size": [2, 2]})


def some_masks(frames=5, shape=(6, 9)):
    return list(np.random.default_rng(1).random((frames, *shape)) > 0.5)


def test_a_track_gives_the_masks_that_were_assigned_and_is_empty_elsewhere():
    one, _, two, *_ = masks = some_masks()
    track = Track(5, 6, 9)
    track[1], track[-1] = one, two
    expected = [one & False, one, one & False, one & False, two]
    assert len(track) == len(masks)
    np.testing.assert_array_equal(track, expected)
    np.testing.assert_array_equal([track[index] for index in range(5)], expected)
    np.testing.assert_array_equal(track[1:][::-1], expected[:0:-1])
    assert track.rles == rles_of(track) == rles_of(expected)
    assert track.rle(4) == Rle.from_array(two)
    with pytest.raises(IndexError):
        track[5]


def test_a_repeated_mask_can_be_replaced_in_one_frame():
    one, two, *_ = some_masks()
    track = Track.of_one_mask(one, 3)
    part = track[:]
    track[1] = two
    np.testing.assert_array_equal(track, [one, two, one])
    np.testing.assert_array_equal(part, [one, one, one])


def test_what_is_decoded_of_a_track_cannot_be_written_to():
    track = Track(2, 6, 9)
    with pytest.raises(ValueError, match="read-only"):
        track[0][0, 0] = True


def test_a_mask_of_another_size_is_no_part_of_a_track():
    with pytest.raises(MaskError, match=r"frame 1: .*9 × 6.*6 × 9"):
        Track(2, 6, 9)[1] = np.ones((9, 6), bool)


def track_of(masks):
    track = Track(len(masks), *masks[0].shape)
    for index, mask in enumerate(masks):
        track[index] = mask
    return track


def test_tracks_are_united_frame_by_frame_and_stay_as_they_are():
    one, other = some_masks(6), [mask & False for mask in some_masks(6)]
    one[1] = one[0]
    other[2] |= ~one[2]
    other[4][3, 3] = True
    tracks = [track_of(one), track_of(other), Track(6, 6, 9)]
    expected = [first | second for first, second in zip(one, other, strict=True)]
    assert tracks[0].union(*tracks[1:]).rles == rles_of(expected)
    np.testing.assert_array_equal(tracks[0], one)
    np.testing.assert_array_equal(tracks[1], other)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ((6, 9, 6), "9 × 6.*6 × 9"),
        ((5, 6, 9), "6 frames.*found 5"),
    ],
)
def test_tracks_that_differ_in_size_or_length_cannot_be_united(other, said):
    with pytest.raises(MaskError, match=said):
        Track(6, 6, 9).union(Track(*other))


@pytest.mark.parametrize("size", [(0, 5), (MAX_SIDE + 1, 5)])
def test_a_track_has_a_size_that_masks_may_have(size):
    with pytest.raises(MaskError):
        Track(3, *size)
