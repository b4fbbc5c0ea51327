"""Masks of images as files: what is read, and what is refused by name."""

import io
import pickle
import re
import subprocess

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from harness.errors import DataError
from harness.formats.mask_tree import file_name, mask_tree
from harness.media import pixels
from harness.types import AnswerForm, FailureKind, Query, Sample, query_id

HEIGHT, WIDTH = 4, 6
IMAGE = pixels([np.zeros((HEIGHT, WIDTH, 3), np.uint8)], times=(0.0,), is_video=False, id="p")
MASK = np.zeros((HEIGHT, WIDTH), bool)
MASK[1:3, 2:5] = True
RAMP = np.linspace(0, 1, HEIGHT * WIDTH).reshape(HEIGHT, WIDTH)


def sample(name, form=AnswerForm.MASK):
    query = Query(id=query_id(name), text="?", media=(IMAGE,), forms=(form,))
    return Sample(id=name, query=query, target=None)


def saved(path, array, mode=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":
        np.save(path, array)
    else:
        image = Image.fromarray(array)
        if mode:
            image = image.convert(mode)
        image.save(path, "PNG")
    return path


def read(root, *names, **options):
    """Masks by id; None for a failure."""
    made = mask_tree(root, map(sample, names), **options)
    return {
        name: one.answer and one.answer.masks[0].to_array()
        for name, one in zip(names, made, strict=True)
    }


def same(found, mask):
    return np.array_equal(found, mask)


@pytest.mark.parametrize(
    ("end", "array", "mode"),
    [
        (".png", MASK, None),
        (".png", MASK.astype(np.uint8), None),
        (".png", MASK.astype(np.uint8) * 255, None),
        (".png", MASK.astype(np.uint8) * 255, "P"),
        (".npy", MASK, None),
        (".npy", MASK.astype(np.int64), None),
        (".npy", np.asfortranarray(MASK.astype(">u2")), None),
        (".npy", MASK.astype(np.float32), None),
    ],
)
def test_what_is_not_0_is_foreground(tmp_path, end, array, mode):
    saved(tmp_path / f"a{end}", array, mode)
    assert same(read(tmp_path, "a")["a"], MASK)


@pytest.mark.parametrize("threshold", [0, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_probabilities_above_the_threshold_are_foreground(tmp_path, threshold, dtype):
    saved(tmp_path / "a.npy", RAMP.astype(dtype))
    saved(tmp_path / "b.png", (RAMP * 65_535).astype(np.uint16))
    found = read(tmp_path, "a", "b", threshold=threshold)
    assert same(found["a"], RAMP.astype(dtype) > threshold)
    assert same(found["b"], (RAMP * 65_535).astype(np.uint16) > threshold * 65_535)


def test_files_of_objects_are_joined_and_a_missing_one_is_a_failure(tmp_path):
    other = np.zeros((HEIGHT, WIDTH))
    other[0, 0] = 0.75
    saved(tmp_path / "x.jpg/0/left.png", MASK)
    saved(tmp_path / "x.jpg/0/right.npy", other)
    saved(tmp_path / "x.jpg/1.png", ~MASK)
    first, second, lacking = mask_tree(tmp_path, map(sample, ("x.jpg/0", "x.jpg/1", "x.jpg/2")))
    assert same(first.answer.masks[0].to_array(), MASK | (other > 0.5))
    assert same(second.answer.masks[0].to_array(), ~MASK)
    assert lacking.failure.kind is FailureKind.INFRASTRUCTURE
    assert "x.jpg/2.png" in lacking.failure.message


def test_order_of_the_samples_and_palettes_numbers_do_not_matter(tmp_path):
    numbers = Image.fromarray(MASK.astype(np.uint8) * 3 + (RAMP > 0.9).astype(np.uint8), mode="P")
    numbers.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255] * 8)
    numbers.save(tmp_path / "a.png")
    saved(tmp_path / "b.png", MASK)
    one, other = read(tmp_path, "a", "b"), read(tmp_path, "b", "a")
    assert all(same(one[name], other[name]) for name in one)
    assert same(one["a"], MASK | (RAMP > 0.9))


def refused(root, *names, says=(), **options):
    with pytest.raises(DataError) as error:
        read(root, *(names or ("a",)), **options)
    for part in says:
        assert part in str(error.value), error.value


def test_a_file_that_tells_no_mask_is_refused_by_name(tmp_path):
    png, npy = tmp_path / "a.png", tmp_path / "a.npy"
    for values, says in [
        ((RAMP * 255).astype(np.uint8), ("a.png", "one value besides 0", "255")),
        (np.eye(3, dtype=np.uint8)[[[0] * WIDTH] * HEIGHT], ("a.png", "mode RGB")),
        (np.zeros((HEIGHT, WIDTH, 4), np.uint8), ("a.png", "mode RGBA")),
        (np.zeros((WIDTH, HEIGHT), np.uint8), ("a.png", "4 × 6", "6 × 4")),
    ]:
        saved(png, values)
        refused(tmp_path, says=says)
    whole = saved(png, MASK).read_bytes()
    for cut in (whole[:-26], b"", b"GIF89a", whole[:40] + whole[60:]):
        png.write_bytes(cut)
        refused(tmp_path, says=("a.png",))
    png.unlink()
    for values, says in [
        (RAMP * 2, ("a.npy", "from 0 to 1", "0 to 2")),
        (RAMP - 0.5, ("a.npy", "-0.5")),
        (np.where(MASK, np.nan, RAMP), ("a.npy", "NaN")),
        ((RAMP * 7).astype(np.int32), ("a.npy", "one value besides 0")),
        (RAMP.astype(complex), ("a.npy", "complex")),
        (np.full(MASK.shape, "x"), ("a.npy", "U1")),
        (MASK[None], ("a.npy", "1 × 4 × 6", "mask.squeeze()")),
        (MASK[:2], ("a.npy", "2 × 6")),
        (np.float64(1), ("a.npy", "4 × 6")),
    ]:
        saved(npy, values)
        refused(tmp_path, says=says)


class Canary:
    def __reduce__(self):
        return (pytest.fail, ("code in a prediction was run",))


@pytest.mark.parametrize("name", ["gt_mask", "val_GT", "gt", "ground_truth", "groundTruth-0"])
def test_ground_truth_beside_a_prediction_does_not_join_it(tmp_path, name):
    saved(tmp_path / "a" / "pred_mask.png", ~MASK)
    saved(tmp_path / "a" / f"{name}.png", MASK)
    refused(tmp_path, "a", says=(name, "ground truth"))


def test_an_id_may_be_called_as_ground_truth_is(tmp_path):
    saved(tmp_path / "gt.png", MASK)
    saved(tmp_path / "x_gt_mask_0.png", MASK)
    saved(tmp_path / "a" / "length.png", MASK)
    found = read(tmp_path, "gt", "x_gt", "a")
    assert all(same(mask, MASK) for mask in found.values())


def test_an_array_is_never_unpickled(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.full(MASK.shape, Canary(), dtype=object), allow_pickle=True)
    refused(tmp_path, says=("a.npy",))
    path.write_bytes(pickle.dumps(Canary()))
    refused(tmp_path, says=("a.npy", "numpy.save"))
    buffer = io.BytesIO()
    np.savez(buffer, MASK)
    path.write_bytes(buffer.getvalue())
    refused(tmp_path, says=("a.npy", "numpy.save"))


def test_a_header_that_claims_more_than_the_file_holds_takes_no_memory(tmp_path):
    path = saved(tmp_path / "a.npy", MASK)
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    refused(tmp_path, says=("a.npy",))
    large = b"(99999999, 9999), }"
    path.write_bytes(whole.replace(b"(4, 6), }".ljust(len(large)), large))
    assert large in path.read_bytes()
    refused(tmp_path, says=("a.npy", "complete"))


def test_files_that_claim_one_mask_or_none_are_refused(tmp_path):
    refused(tmp_path, says=(str(tmp_path), "a.png", "none"))
    saved(tmp_path / "a.png", MASK)
    saved(tmp_path / "a.npy", MASK)
    refused(tmp_path, says=("a.npy", "a.png"))
    (tmp_path / "a.npy").unlink()
    saved(tmp_path / "b.png", MASK)
    (tmp_path / "c.jpg").write_bytes(b"")
    (tmp_path / ".hidden").write_bytes(b"")
    refused(tmp_path, says=("2 others", "b.png"))
    assert same(read(tmp_path, "a", allow_extra=True)["a"], MASK)
    saved(tmp_path / "d/0.png", MASK)
    refused(tmp_path, "d", "d/0", allow_extra=True, says=("0.png", "'d/0'"))
    with pytest.raises(DataError, match="png-tree"):
        list(mask_tree(tmp_path, [sample("a", AnswerForm.MASK_TRACK)]))


@pytest.mark.parametrize("others", [{}, {"y": "y.png"}])
def test_masks_named_after_their_images_are_refused_with_the_command_that_renames(tmp_path, others):
    for name in ("x.jpg.png", *others.values()):
        saved(tmp_path / name, MASK)
    with pytest.raises(DataError) as error:
        read(tmp_path, "x", *others)
    (command,) = re.findall(r"`(for f .*?)`", str(error.value))
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    assert same(read(tmp_path, "x", *others)["x"], MASK)


@given(
    st.lists(
        st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12),
        min_size=2,
        max_size=2,
        unique=True,
    )
)
@example(["../up", "%2E%2E/up"])
@example(["a//b", "a%2F%2Fb"])
@example(["/etc", "etc"])
def test_a_name_stays_in_its_folder_and_is_one_ids(ids):
    one, other = map(file_name, ids)
    assert one != other
    for name in (one, other):
        assert all(part not in ("", ".", "..") for part in name.split("/"))
        assert not set(name) & set('"*:<>?\\|\0\n')


@pytest.mark.parametrize("value", [1, 255])
def test_masks_that_all_come_out_empty_though_files_have_values_are_refused(tmp_path, value):
    faint = MASK.astype(np.uint16) * value
    saved(tmp_path / "a.png", faint)
    saved(tmp_path / "b.png", np.zeros_like(faint))
    refused(tmp_path, "a", "b", says=("a.png", "8 bits"))
    assert same(read(tmp_path, "a", "b", threshold=0)["a"], MASK)
    saved(tmp_path / "b.png", MASK.astype(np.uint16) * 65_535)  # a is sure that there is none
    assert not read(tmp_path, "a", "b")["a"].any()
    for name in "ab":
        saved(tmp_path / f"{name}.png", np.zeros_like(faint))
    assert not read(tmp_path, "a", "b")["a"].any()


@pytest.mark.parametrize("number", [1001, 10_000, 33_002])
def test_numbers_of_classes_and_objects_are_no_probabilities(tmp_path, number):
    saved(tmp_path / "a.png", MASK.astype(np.uint16) * number)
    refused(tmp_path, "a", says=("a.png", "class", "8 bits"))
    refused(tmp_path, "a", says=("a.png", "MOTS"), threshold=0)


def test_masks_in_which_readers_see_other_pixels_are_refused(tmp_path):
    image = Image.fromarray(MASK.astype(np.uint8) * 255)
    image.save(
        tmp_path / "a.png", save_all=True, append_images=[Image.fromarray(~MASK).convert("L")]
    )
    refused(tmp_path, says=("a.png", "an animation of 2 frames"))
    for turn in range(1, 9):
        exif = Image.Exif()
        exif[0x112] = turn
        image.save(tmp_path / "a.png", exif=exif)
        if turn == 1:
            assert same(read(tmp_path, "a")["a"], MASK)
        else:
            refused(tmp_path, says=("a.png", f"orientation tag ({turn})"))
