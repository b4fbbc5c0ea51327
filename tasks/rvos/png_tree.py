"""Read predictions for referring video segmentation from trees of PNG files (`--format png-tree`).

VISA, Sa2VA, MeViS and ReferFormer write `root/<video>/<expression>/<frame>.png`, where nonzero is
foreground. For Ref-DAVIS17 ReferFormer writes `root/anno_<annotator>/<video>/<frame>.png`, where a
value is the number of an expression.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from harness.errors import DataError
from harness.foreign import backslashes, from_one, listed
from harness.layout import path_inside
from harness.layout.mask_image import LOSSY_FIX, jpegs_in, read_mask_image, refuse_void
from harness.masks import Rle
from harness.tasks.rvos.labels import Labels, sized_labels
from harness.types import Answer, Failure, FailureKind, Prediction, Sample

ANNOTATORS = ("1, first frame", "1, full video", "2, first frame", "2, full video")
"""Annotators of Ref-DAVIS17: two people, each of whom saw the first frame or the full video."""

ANNOTATIONS = "Annotations"
"""Optional folder between the root and the videos, as in zips for evaluation servers."""

MAX_NAMES = 3  # file names in a message


def png_tree(
    root: Path, samples: Iterable[Sample], *, allow_extra: bool = False
) -> Iterator[Prediction]:
    """Yield the prediction for each sample in the order of the samples.

    A sample's id is `video/expression`. Images are assigned to frames by name, as official scorers
    do. They may be palette images, grey images, or colour images with equal channels; nonzero is
    foreground. A grey image with several nonzero values could be a confidence map and is refused.
    A sample without a folder is a failure.

    Args:
        root: The folder of the videos, or its parent if the folder is called `Annotations`.
        samples: The samples of the predictions.
        allow_extra: Ignore images that belong to no sample or frame, instead of refusing them.

    Raises:
        DataError: no sample has a folder, a folder belongs to no sample, or an image is missing,
            not named like a frame, damaged, of another size, or in colour. The message names the
            folder or file.
    """
    videos_folder = root / ANNOTATIONS if (root / ANNOTATIONS).is_dir() else root
    if not videos_folder.is_dir():
        raise DataError(f"predictions {videos_folder}", expected="a folder of videos", found="none")
    sample_folders: set[Path] = set()
    folders = 0
    for sample in samples:
        folder = path_inside(videos_folder, sample.id)
        sample_folders.add(folder)
        if not folder.is_dir():
            yield _missing_failure(sample, folder, videos_folder)
            continue
        folders += 1
        masks = tuple(
            Rle.from_array(labels > 0)
            for labels in _images(folder, sample, allow_extra, several=False)
        )
        yield Prediction(query_id=sample.query.id, answer=Answer(masks=masks))
    if not folders:
        raise _no_folder(videos_folder, "<video>/<expression>")
    if not allow_extra:
        _refuse_extra(videos_folder, sample_folders)


def _no_folder(root: Path, pattern: str) -> DataError:
    """Return the error that no sample has a folder; it names the first file that exists."""
    images = (path for path in sorted(root.rglob("*")) if not path.is_dir())
    first = next((str(path.relative_to(root)) for path in images), "no file")
    return DataError(
        f"predictions {root}",
        expected=f"{pattern}/<frame>.png, called as the benchmark calls them",
        found=f"none of these samples, but {first}",
        fix=backslashes(path.name for path in root.glob("*"))
        or "Is it the right split? Expressions have the benchmark's numbers, such as 0 and not "
        "000; an image with all objects of a video does not say which object belongs to which "
        "expression.",
    )


def label_tree(
    root: Path, samples: Iterable[Sample], *, allow_extra: bool = False
) -> Iterator[Prediction]:
    """Yield the predictions for Ref-DAVIS17 from images of expression numbers, as of ReferFormer.

    In `root/anno_<a>/<video>/<frame>.png` the value k ≥ 1 marks the pixels of the k-th expression
    of annotator a (from 0) for the video. The samples of a video and annotator must follow each
    other, as they do in the task.

    Raises:
        DataError: as for `png_tree`; also if a number has no expression, or if expressions are
            numbered from 0 or 2.
    """
    sample_folders: set[Path] = set()
    # Of the folders with several expressions, those without a pixel of the last or the first one:
    # if that is all of them, the expressions are numbered from 0 or from 2.
    folders = multiple = without_last = without_first = 0
    for (video, annotator), members in groupby(samples, key=_video_and_annotator):
        unit = list(members)
        folder = path_inside(root / f"anno_{annotator}", video)
        sample_folders.add(folder)
        if not folder.is_dir():
            yield from (_missing_failure(sample, folder, root) for sample in unit)
            continue
        folders += 1
        frame_labels = list(_read_numbered(folder, unit, allow_extra))
        if len(unit) > 1:
            multiple += 1
            without_last += max(int(labels.max()) for labels in frame_labels) == len(unit) - 1
            without_first += not any((labels == 1).any() for labels in frame_labels)
        for number, sample in enumerate(unit, start=1):
            masks = tuple(Rle.from_array(labels == number) for labels in frame_labels)
            yield Prediction(query_id=sample.query.id, answer=Answer(masks=masks))
    if not folders:
        raise _no_folder(root, "anno_<annotator>/<video>")
    if multiple > 1 and without_last == multiple:
        raise DataError(
            f"predictions {root}",
            expected="numbers from 1, one an expression",
            found=f"no pixel of the last expression in any of {multiple} folders, as if from 0",
            fix="0 is the background: add 1 to the number of each expression.",
        )
    if multiple > 1 and without_first == multiple:
        raise DataError(
            f"predictions {root}",
            expected="numbers from 1, one an expression",
            found=f"no pixel of the first expression in any of {multiple} folders, as if from 2",
            fix="1 is the first expression: take 1 from the number of each.",
        )
    if not allow_extra:
        _refuse_extra(root, sample_folders)


def _video_and_annotator(sample: Sample) -> tuple[str, int]:
    """Return a sample's video, and the index of its annotator.

    Raises:
        DataError: the sample has no annotator.
    """
    if sample.categories.get("annotator") not in ANNOTATORS:
        raise DataError(
            "a tree of labels anno_<annotator>/<video>",
            expected="samples by annotators, as ref_davis17 has them",
            found=f"sample {sample.id}",
            fix="For one folder an expression there is png-tree.",
        )
    return sample.id.rsplit("/", 1)[0], ANNOTATORS.index(sample.categories["annotator"])


def _read_numbered(folder: Path, unit: Sequence[Sample], allow_extra: bool) -> Iterator[Labels]:
    """Yield the labels of each frame; DataError if one is above the number of expressions."""
    for labels in _images(folder, unit[0], allow_extra):
        if (limit := int(labels.max())) > len(unit):
            raise DataError(
                f"predictions {folder}",
                expected=f"numbers from 0 to {len(unit)}, one an expression",
                found=str(limit),
                fix="0 is the background and 1 the first expression. Are they numbered from 2, or "
                "are these numbers of objects? An object's pixels go to its expressions.",
            )
        yield labels


def _images(
    folder: Path, sample: Sample, allow_extra: bool, *, several: bool = True
) -> Iterator[Labels]:
    """Yield the pixel values of a sample's images, in the order of its frames.

    With `several=False`, a grey image with several nonzero values is refused.
    """
    if not sample.frames:
        raise DataError(
            f"predictions {folder}",
            expected="a benchmark with frame names",
            found=f"sample {sample.id!r} without",
            fix="Use --format mask-tree for masks of images, or lines of JSON.",
        )
    frame_files = (path_inside(folder, f"{name}.png") for name in sample.frames)
    files = {path.name.lower(): path for path in listed(folder, "*.png")}
    paths = [files.get(path.name.lower(), path) for path in frame_files]
    missing = [path for path in paths if not path.is_file()]
    extra = sorted({*files.values()} - {*paths})
    if missing and (lossy := jpegs_in(folder)):
        raise DataError(f"prediction {lossy[0]}", expected="a PNG", found="a JPEG", fix=LOSSY_FIX)
    if missing or (extra and not allow_extra):
        raise DataError(
            f"predictions {folder}",
            expected=f"{len(paths)} images with the names of the frames: {_some_names(paths)}",
            found=f"too many: {_some_names(extra)}; missing: {_some_names(missing)}",
            fix=from_one((path.stem for path in files.values()), sample.frames, "**/*.png")
            or "Write each mask under its frame's name; the order of files is not used.",
        )
    for path in paths:
        labels = sized_labels(path, sample.query.size, file_kind="prediction")
        if not several:
            _refuse_several(path, labels)
        yield labels


def _refuse_several(path: Path, labels: Labels) -> None:
    """Raise DataError if a grey image has several nonzero values, or pixels to ignore."""
    limit = labels.max()
    other_values = labels[(labels != 0) & (labels != limit)]
    if not other_values.size:
        return
    image = read_mask_image(path, f"prediction {path}")
    refuse_void(image, f"prediction {path}")
    if image.mode == "L":
        raise DataError(
            f"prediction {path}",
            expected="one value besides 0",
            found=f"{other_values[0]} and {limit}",
            fix="Binarise the masks.",
        )


def _some_names(paths: Sequence[Path]) -> str:
    """Return the first MAX_NAMES names, followed by `…` if there are more."""
    names = ", ".join(path.name for path in paths[:MAX_NAMES]) or "none"
    return f"{names}, …" if len(paths) > MAX_NAMES else names


def _missing_failure(sample: Sample, folder: Path, root: Path) -> Prediction:
    """Return the failed prediction of a sample without a folder."""
    message = f"no folder {folder.relative_to(root)} in {root.name}"
    return Prediction(
        query_id=sample.query.id, failure=Failure(FailureKind.INFRASTRUCTURE, message)
    )


def _refuse_extra(root: Path, sample_folders: set[Path]) -> None:
    """Raise DataError if a folder with images belongs to no sample."""
    folders = {path.parent for path in listed(root, "**/*.png")}
    extra = sorted(folders - sample_folders)
    if extra:
        folder_names, sample_names = (
            {str(path.relative_to(root)) for path in paths} for paths in (folders, sample_folders)
        )
        pattern = "/".join("*" for _ in extra[0].relative_to(root).parts)
        raise DataError(
            f"predictions {root}",
            expected="only folders of these samples",
            found=f"{len(extra)} others, such as {extra[0].relative_to(root)}",
            fix=from_one(folder_names, sample_names, pattern) or "Check the split.",
        )
