"""Run-lengths: equal to COCO's, and refused before C code can be hurt by them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from pycocotools import mask as coco

from harness.errors import MaskError
from harness.masks import MAX_SIDE, Rle, SoftMask, encode_runs, parse_counts

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
