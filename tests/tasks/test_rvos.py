"""What video tasks share: tracks in large files, palettes, trees of images, zips for servers."""

import io
import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from harness.errors import DataError
from harness.layout import json_scanner
from harness.masks import Rle
from harness.media import pixels
from harness.tasks.rvos.labels import label_tracks, read_labels, sized_labels
from harness.tasks.rvos.png_tree import label_tree, png_tree
from harness.tasks.rvos.submission import write_submission
from harness.tasks.rvos.tracks import TrackFile, object_track, union_of_tracks
from harness.tasks.rvos.videos import (
    film,
    first_size,
    frame_names,
    frame_paths,
    missing_files,
    uneven,
)
from harness.tasks.rvos.writing import palette, palette_png
from harness.types import Answer, FailureKind, Prediction, Query, Sample, Target

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


# TrackFile: a large JSON object, read one entry at a time


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(st.text(), JSON, max_size=6), st.booleans(), st.sampled_from([1, 3, 64, 2**20])
)
def test_a_track_file_has_the_entries_of_the_json_object(tmp_path_factory, plain, pretty, chunk):
    path = tmp_path_factory.mktemp("tracks") / "x.json"
    text = json.dumps(plain, ensure_ascii=pretty, indent=1 if pretty else None)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_scanner, "CHUNK_BYTES", chunk)
        try:
            whole = json.loads(path.read_bytes().decode("utf-8"))
        except UnicodeDecodeError:
            return
        file = TrackFile(path)
        assert list(file) == list(whole) and len(file) == len(whole)
        assert {key: file[key] for key in reversed(list(file))} == whole
        assert "no such key" not in file or "no such key" in whole


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1]",
        "3",
        '{"a": 1',
        '{"a": [1, 2}',
        '{"a": 1,}',
        '{"a" 1}',
        '{"a": 1} x',
        "{1: 2}",
        '{"a": "\n"}',
        '{"a": 1, "a": 2}',
        '{"a": nul}',
        '{"a": "cut',
        '{"a":',
        '{"a": 1 "b": 2}',
    ],
)
@pytest.mark.parametrize("chunk", [2, 2**20])
def test_a_file_that_is_no_whole_object_is_refused_by_name(tmp_path, monkeypatch, text, chunk):
    monkeypatch.setattr(json_scanner, "CHUNK_BYTES", chunk)
    path = tmp_path / "mask_dict.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"mask_dict\.json.*complete JSON"):
        list(TrackFile(path))


def test_a_track_file_that_is_missing_is_refused_by_name(tmp_path):
    with pytest.raises(DataError, match=r"gone\.json"):
        "a" in TrackFile(tmp_path / "gone.json")  # noqa: B015


def test_an_entry_with_a_key_twice_is_refused_when_it_is_read(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"a": {"size": 1, "size": 2}, "b": 3}')
    assert TrackFile(path)["b"] == 3
    with pytest.raises(DataError, match="entry 'a'"):
        TrackFile(path)["a"]


def test_one_entry_is_held_at_a_time(tmp_path, monkeypatch):
    """The text that is kept never grows beyond the longest entry and the chunk that it is in."""
    path = tmp_path / "x.json"
    path.write_text(json.dumps({str(number): "o" * 500 for number in range(400)}))
    monkeypatch.setattr(json_scanner, "CHUNK_BYTES", 1000)
    longest = 0
    more = json_scanner.Scanner._read_more

    def watched(self, wanted=0):
        nonlocal longest
        found = more(self, wanted)
        longest = max(longest, len(self._text))
        return found

    monkeypatch.setattr(json_scanner.Scanner, "_read_more", watched)
    assert len(TrackFile(path)) == 400 and longest < 5000 < path.stat().st_size


def test_objects_are_united_frame_by_frame():
    masks = {"3": [Rle.from_array(np.eye(3, dtype=bool)).to_json(), None]}
    track = object_track(masks, 3, size=(3, 3), frames=2, where="x")
    other = [None, Rle.full(3, 3)]
    both = union_of_tracks([track, other], size=(3, 3), frames=2)
    assert [mask.area for mask in both] == [3, 9]
    assert [mask.area for mask in union_of_tracks([], size=(4, 2), frames=3)] == [0, 0, 0]
    for number, frames, message in ((4, 2, "'4'"), (3, 3, "2 masks")):
        with pytest.raises(DataError, match=message):
            object_track(masks, number, size=(3, 3), frames=frames, where="x")
    with pytest.raises(DataError, match="4 × 3 pixels"):
        object_track(masks, 3, size=(4, 3), frames=2, where="x")


# Palettes


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.randoms())
def test_a_palette_png_gives_back_its_numbers_and_colours(tmp_path_factory, height, width, draw):
    labels = np.array([[draw.choice([0, 1, 2, 255]) for _ in range(width)] for _ in range(height)])
    labels = labels.astype(np.uint8)
    path = tmp_path_factory.mktemp("png") / "x.png"
    path.write_bytes(palette_png(labels))
    image = Image.open(path)
    assert (image.mode, image.size) == ("P", (width, height))
    assert np.array_equal(read_labels(path), labels)
    colours = np.frombuffer(palette(), np.uint8).reshape(256, 3)
    assert np.array_equal(np.asarray(image.convert("RGB")), colours[labels])
    tracks = label_tracks([path], size=(width, height))
    for number, (mask,) in tracks.items():
        assert np.array_equal(mask.to_array(), labels == number)
    assert set(tracks) == set(np.unique(labels)) - {0}


def test_colours_of_numbers_are_those_of_davis():
    colours = np.frombuffer(palette(), np.uint8).reshape(256, 3).tolist()
    assert colours[:5] == [[0, 0, 0], [128, 0, 0], [0, 128, 0], [128, 128, 0], [0, 0, 128]]
    assert colours[255] == [224, 224, 192] and len({tuple(one) for one in colours}) == 256


def saved(path: Path, array, mode=None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(array, np.uint8), mode=mode).save(path)
    return path


def test_annotations_that_are_not_numbers_are_refused_by_name(tmp_path):
    labels = np.array([[0, 1], [2, 0]])
    good = saved(tmp_path / "good.png", labels)
    assert set(label_tracks([good], size=(2, 2), known_numbers=[1, 2, 3])) == {1, 2, 3}
    with pytest.raises(DataError, match=r"good\.png.*objects \(1\), found 2"):
        label_tracks([good], size=(2, 2), known_numbers=[1])
    with pytest.raises(DataError, match=r"good\.png.*3 × 2 pixels"):
        sized_labels(good, (3, 2))
    with pytest.raises(DataError, match=r"colour\.png.*mode RGB"):
        read_labels(saved(tmp_path / "colour.png", np.eye(3)[[[0, 1], [1, 0]]]))
    with pytest.raises(DataError, match=r"gone\.png: .*none"):
        read_labels(tmp_path / "gone.png")
    cut = tmp_path / "cut.png"
    big = saved(tmp_path / "big.png", np.random.default_rng(0).integers(0, 255, (64, 64)))
    cut.write_bytes(big.read_bytes()[:2000])
    with pytest.raises(DataError, match=r"cut\.png.*complete PNG"):
        read_labels(cut)
    (tmp_path / "text.png").write_text("no image")
    with pytest.raises(DataError, match=r"text\.png.*no PNG"):
        read_labels(tmp_path / "text.png")


# Frames


def test_a_missing_frame_makes_a_video_that_says_so_when_it_is_decoded(tmp_path):
    paths = frame_paths(tmp_path, ["a", "b"])
    saved(paths[0], np.zeros((6, 9, 3)))
    media = film(paths, size=lambda: (1, 1))
    assert media.size == (9, 6) and len(media) == 2 and "b.jpg" in media.fault
    assert film(frame_paths(tmp_path, ["x"]), size=lambda: (5, 4)).size == (5, 4)
    assert [problem.path for problem in missing_files(paths)] == [str(paths[1])]
    saved(paths[1], np.zeros((6, 8, 3)))
    assert not list(missing_files(paths)) and "sizes" in uneven(paths).message
    assert first_size(paths) == (9, 6) and first_size([]) is None


@pytest.mark.parametrize("frames", [None, [], ["a", 3], ["a", "b", "a"], "a"])
def test_frames_are_a_list_of_different_names(frames):
    with pytest.raises(DataError, match="video 'v': 'frames'"):
        frame_names(frames, "video 'v'")


# Trees of images


@pytest.fixture
def sample(query):
    def made(name: str, number: int, category: str = "") -> Sample:
        from harness.types import AnswerForm

        requested: Query = query(number, AnswerForm.MASK_TRACK, size=(4, 6), frames=2)
        target = Target(answer=Answer(masks=(Rle.empty(4, 6),) * 2))
        categories = {"annotator": category} if category else {}
        return Sample(
            id=name,
            query=requested,
            target=target,
            categories=categories,
            frames=("00000", "00005"),
        )

    return made


@pytest.fixture
def samples(sample):
    return [sample("OVIS/a/0", 0), sample("OVIS/a/1", 1), sample("b/0", 2)]


def square(value):
    labels = np.zeros((4, 6), np.uint8)
    labels[1:3, 2:5] = value
    return labels


def tree(root: Path, *names: str, frames=("00000", "00005"), value=255) -> Path:
    for name in names:
        for frame in frames:
            saved(root / name / f"{frame}.png", square(value))
    return root


@pytest.mark.parametrize("below", ["", "Annotations"])
@pytest.mark.parametrize("value", [1, 255])
def test_a_tree_gives_masks_in_the_order_of_the_samples(tmp_path, samples, below, value):
    tree(tmp_path / below, "OVIS/a/0", "b/0", value=value)
    first, lacking, last = png_tree(tmp_path, samples)
    assert [mask.area for mask in first.answer.masks] == [6, 6] and last.answer == first.answer
    assert lacking.failure.kind is FailureKind.INFRASTRUCTURE
    assert "OVIS/a/1" in lacking.failure.message
    assert [one.query_id for one in (first, lacking, last)] == ["q0", "q1", "q2"]


def test_palettes_and_grey_are_read_alike(tmp_path, samples):
    tree(tmp_path, "b/0")
    (tmp_path / "b/0/00000.png").write_bytes(palette_png(square(1)))
    *_, last = png_tree(tmp_path, samples)
    first, second = last.answer.masks
    assert first == second and first.area == 6


def test_a_wrong_tree_is_refused_by_name(tmp_path, samples):
    def refused(message, **options):
        with pytest.raises(DataError, match=message):
            list(png_tree(tmp_path / "said", samples, **options))

    refused("/said: .*none")
    (tmp_path / "said").mkdir()
    refused("<video>/<expression>/<frame>.*but no file")
    tree(tmp_path / "sam2", "b/000")  # as vos_inference.py numbers objects
    with pytest.raises(DataError, match=r"but b/000/00000\.png.* 0 and not 000"):
        list(png_tree(tmp_path / "sam2", samples))
    tree(tmp_path / "said", "b/0", frames=("00000",))
    refused(r"b/0.*2 images.*missing: 00005\.png")
    saved(tmp_path / "said/b/0/00005.png", np.zeros((3, 6)))
    refused(r"prediction .*b/0/00005\.png.*6 × 4 pixels")
    saved(tmp_path / "said/b/0/00005.png", np.eye(3)[[[0] * 6] * 4])
    refused(r"00005\.png.*mode RGB")
    (tmp_path / "said/b/0/00005.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    refused(r"00005\.png")
    tree(tmp_path / "said", "b/0", "c/7")
    refused("/said: .*1 .*c/7")
    assert len(list(png_tree(tmp_path / "said", samples, allow_extra=True))) == 3


def test_grey_of_several_values_is_refused_and_a_palette_of_several_objects_is_not(
    tmp_path, samples
):
    several = square(1)
    several[0, 0] = 2
    tree(tmp_path, "b/0")
    (tmp_path / "b/0/00000.png").write_bytes(palette_png(several))
    *_, last = png_tree(tmp_path, samples)
    assert last.answer.masks[0].area == 7
    saved(tmp_path / "b/0/00005.png", several)
    with pytest.raises(DataError, match=r"b/0/00005\.png.*1 and 2"):
        list(png_tree(tmp_path, samples))


def test_images_are_frames_by_their_names(tmp_path, sample):
    names = tuple(map(str, range(12)))  # of which "10" comes before "2" as text
    requested = sample("v/0", 0)
    media = pixels([np.zeros((4, 6, 3), np.uint8)] * 12, times=range(12), is_video=True, id="v")
    requested = replace(requested, query=replace(requested.query, media=(media,)), frames=names)
    for number in range(12):
        labels = np.zeros((4, 6), np.uint8)
        labels.flat[:number] = 1
        saved(tmp_path / f"v/0/{number}.png", labels)
    (output,) = png_tree(tmp_path, [requested])
    assert [mask.area for mask in output.answer.masks] == list(range(12))
    padded = replace(requested, frames=tuple(f"{number:05}" for number in range(12)))
    with pytest.raises(DataError, match=r"00000\.png.*too many: 0\.png.*missing: 00000\.png"):
        list(png_tree(tmp_path, [padded]))


@pytest.mark.parametrize("read", [png_tree, label_tree])
def test_a_frame_lost_and_another_too_much_are_named(tmp_path, sample, read):
    requested = sample("v/0", 0, "1, first frame")
    folder = "v/0" if read is png_tree else "anno_0/v"
    for name in ("00005", "00006"):
        saved(tmp_path / folder / f"{name}.png", square(1))
    with pytest.raises(DataError, match=r"too many: 00006\.png; missing: 00000\.png"):
        list(read(tmp_path, [requested]))
    saved(tmp_path / folder / "00000.png", square(1))
    with pytest.raises(DataError, match=r"too many: 00006\.png; missing: none"):
        list(read(tmp_path, [requested]))
    (output,) = read(tmp_path, [requested], allow_extra=True)
    assert [mask.area for mask in output.answer.masks] == [6, 6]


def test_a_tree_of_numbers_gives_each_expression_its_own(tmp_path, sample):
    requested = [
        sample("v/0", 0, "1, first frame"),
        sample("v/4", 1, "1, first frame"),
        sample("v/1", 2, "1, full video"),
    ]
    for frame, value in (("00000", 1), ("00005", 2)):
        saved(tmp_path / f"anno_0/v/{frame}.png", square(value))
    one, two, lacking = label_tree(tmp_path, requested)
    assert [mask.area for mask in one.answer.masks] == [6, 0]
    assert [mask.area for mask in two.answer.masks] == [0, 6]
    assert "anno_1/v" in lacking.failure.message
    saved(tmp_path / "anno_0/v/00005.png", square(3))
    with pytest.raises(DataError, match=r"/v: .*0 to 2.*found 3"):
        list(label_tree(tmp_path, requested))
    shutil.rmtree(tmp_path / "anno_0")
    with pytest.raises(DataError, match="anno_<annotator>"):
        list(label_tree(tmp_path, requested))


def test_a_submission_read_as_a_tree_is_what_was_predicted(tmp_path, samples):
    masks = (Rle.from_array(square(1) > 0), Rle.empty(4, 6))
    output = [Prediction(query_id=one.query.id, answer=Answer(masks=masks)) for one in samples]
    videos = {name: {"frames": ["00000", "00005"]} for name in ("OVIS/a", "b")}
    path = write_submission(
        videos, zip(samples, output, strict=True), tmp_path, prefix="Annotations/"
    )
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist()[0] == "Annotations/OVIS/a/0/00000.png"
        image = Image.open(io.BytesIO(archive.read("Annotations/b/0/00000.png")))
        assert (image.mode, sorted(set(np.asarray(image).ravel()))) == ("L", [0, 255])
        archive.extractall(tmp_path / "tree")
    assert list(png_tree(tmp_path / "tree", samples)) == output
    assert cv2.imread(str(tmp_path / "tree/Annotations/b/0/00005.png")).max() == 0
