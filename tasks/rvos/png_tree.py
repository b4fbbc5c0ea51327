"""Predictions as trees of images: `root/<video>/<expression>/<frame>.png`, nonzero is foreground.

So VISA, Sa2VA, MeViS and ReferFormer write them, the last one also as numbers of objects:
`root/anno_<annotator>/<video>/<frame>.png` for Ref-DAVIS17.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from harness.errors import DataError
from harness.foreign import backslashes, from_one, listed
from harness.layout import path_inside
from harness.layout.mask_image import LOSSY, jpegs_in, read_mask_image, refuse_void
from harness.masks import Rle
from harness.tasks.rvos.labels import Labels, sized_labels
from harness.types import Answer, Failure, FailureKind, Prediction, Sample

ANNOTATORS = ("1, first frame", "1, full video", "2, first frame", "2, full video")
"""Annotators of Ref-DAVIS17: two people, who each described by the first frame and by the video."""

ANNOTATIONS = "Annotations"
"""A folder of this name between the root and the videos is passed over, as zips for servers have
it."""

SHOWN = 3  # names of files in a message


def png_tree(
    root: Path, samples: Iterable[Sample], *, allow_extra: bool = False
) -> Iterator[Prediction]:
    """The prediction for each sample, whose id is `video/expression`, in the order of the samples.

    An image is a frame's by its name, as official scorers open it. Palette and grey images are
    read, and colours whose channels are equal; whatever is not 0 is foreground. Grey with several
    values besides 0 could be a confidence and is refused. A sample without a folder is a failure.

    Args:
        root: The folder of the videos, or one that holds it as `Annotations`.
        samples: The samples that the files answer.
        allow_extra: Pass over images that belong to no sample or frame, instead of refusing.

    Raises:
        DataError: there is no folder for any sample, or one for none; images are missing,
            called otherwise than the frames, damaged, of another size, or in colours. The folder
            or file is named.
    """
    place = root / ANNOTATIONS if (root / ANNOTATIONS).is_dir() else root
    if not place.is_dir():
        raise DataError(f"predictions {place}", expected="a folder of videos", found="none")
    seen: set[Path] = set()
    folders = 0
    for sample in samples:
        folder = path_inside(place, sample.id)
        seen.add(folder)
        if not folder.is_dir():
            yield _missing_failure(sample, folder, place)
            continue
        folders += 1
        masks = tuple(
            Rle.from_array(labels > 0)
            for labels in _images(folder, sample, allow_extra, several=False)
        )
        yield Prediction(query_id=sample.query.id, answer=Answer(masks=masks))
    if not folders:
        raise _no_folder(place, "<video>/<expression>")
    if not allow_extra:
        _refuse_extra(place, seen)


def _no_folder(root: Path, pattern: str) -> DataError:
    """Return the error that no sample has a folder, with the first that is there."""
    images = (path for path in sorted(root.rglob("*")) if not path.is_dir())
    first = next((str(path.relative_to(root)) for path in images), "no file")
    return DataError(
        f"predictions {root}",
        expected=f"{pattern}/<frame>.png, called as the benchmark calls them",
        found=f"none of these samples, but {first}",
        fix=backslashes(path.name for path in root.glob("*"))
        or "Is it the right split? Expressions have the benchmark's numbers, such as 0 and not "
        "000; an image with all objects of a video does not tell which expression means which.",
    )


def label_tree(
    root: Path, samples: Iterable[Sample], *, allow_extra: bool = False
) -> Iterator[Prediction]:
    """Predictions for Ref-DAVIS17 from images of object numbers, as ReferFormer writes them.

    `root/anno_<a>/<video>/<frame>.png` holds, for annotator a from 0, the number k in the pixels of
    the annotator's k-th expression of the video, from 1. Samples come as the task gives them:
    those of a video and annotator follow each other, which they do in both protocols.

    Raises:
        DataError: as for `png_tree`; also for a number without an expression, and for expressions
            that are numbered from 0.
    """
    seen: set[Path] = set()
    folders = several = below = above = 0
    key = _video_and_annotator
    for (video, annotator), members in groupby(samples, key=key):
        unit = list(members)
        folder = path_inside(root / f"anno_{annotator}", video)
        seen.add(folder)
        if not folder.is_dir():
            yield from (_missing_failure(sample, folder, root) for sample in unit)
            continue
        folders += 1
        numbers = list(_read_numbered(folder, unit, allow_extra))
        several += len(unit) > 1
        below += len(unit) > 1 and max(int(labels.max()) for labels in numbers) == len(unit) - 1
        above += len(unit) > 1 and not any((labels == 1).any() for labels in numbers)
        for number, sample in enumerate(unit, start=1):
            masks = tuple(Rle.from_array(labels == number) for labels in numbers)
            yield Prediction(query_id=sample.query.id, answer=Answer(masks=masks))
    if not folders:
        raise _no_folder(root, "anno_<annotator>/<video>")
    if several > 1 and below == several:
        raise DataError(
            f"predictions {root}",
            expected="numbers from 1, one an expression",
            found=f"no pixel of the last expression in any of {several} folders, as if from 0",
            fix="0 is the background: add 1 to the number of each expression.",
        )
    if several > 1 and above == several:
        raise DataError(
            f"predictions {root}",
            expected="numbers from 1, one an expression",
            found=f"no pixel of the first expression in any of {several} folders, as if from 2",
            fix="1 is the first expression: take 1 from the number of each.",
        )
    if not allow_extra:
        _refuse_extra(root, seen)


def _video_and_annotator(sample: Sample) -> tuple[str, int]:
    """A sample's video, and the number of its annotator from 0.

    Raises:
        DataError: the samples are not annotators' expressions of a video.
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
    """The values of the frames' images, in the order of the frames; of grey `several` or one."""
    if not sample.frames:
        raise DataError(
            f"predictions {folder}",
            expected="a benchmark with frame names",
            found=f"sample {sample.id!r} without",
            fix="Use --format mask-tree for masks of images, or lines of JSON.",
        )
    named = (path_inside(folder, f"{name}.png") for name in sample.frames)
    there = {path.name.lower(): path for path in listed(folder, "*.png")}
    paths = [there.get(path.name.lower(), path) for path in named]
    gone = [path for path in paths if not path.is_file()]
    others = sorted({*there.values()} - {*paths})
    if gone and (lossy := jpegs_in(folder)):
        raise DataError(f"prediction {lossy[0]}", expected="a PNG", found="a JPEG", fix=LOSSY)
    if gone or (others and not allow_extra):
        raise DataError(
            f"predictions {folder}",
            expected=f"{len(paths)} images with the names of the frames: {_some_names(paths)}",
            found=f"too many: {_some_names(others)}; missing: {_some_names(gone)}",
            fix=from_one((path.stem for path in there.values()), sample.frames, "**/*.png")
            or "Write each mask under its frame's name; the order of files is not used.",
        )
    for path in paths:
        labels = sized_labels(path, sample.query.size, what="prediction")
        if not several:
            _refuse_several(path, labels)
        yield labels


def _refuse_several(path: Path, labels: Labels) -> None:
    """Raise DataError if a grey image has more than one value besides 0, or pixels to ignore."""
    limit = labels.max()
    others = labels[(labels != 0) & (labels != limit)]
    if not others.size:
        return
    image = read_mask_image(path, f"prediction {path}")
    refuse_void(image, f"prediction {path}")
    if image.mode == "L":
        raise DataError(
            f"prediction {path}",
            expected="one value besides 0",
            found=f"{others[0]} and {limit}",
            fix="Binarise the masks.",
        )


def _some_names(paths: Sequence[Path]) -> str:
    """The first names, and that there are more."""
    names = ", ".join(path.name for path in paths[:SHOWN]) or "none"
    return f"{names}, …" if len(paths) > SHOWN else names


def _missing_failure(sample: Sample, folder: Path, place: Path) -> Prediction:
    message = f"no folder {folder.relative_to(place)} in {place.name}"
    return Prediction(
        query_id=sample.query.id, failure=Failure(FailureKind.INFRASTRUCTURE, message)
    )


def _refuse_extra(place: Path, seen: set[Path]) -> None:
    """Raise DataError if a folder holds images of no sample."""
    there = {path.parent for path in listed(place, "**/*.png")}
    extra = sorted(there - seen)
    if extra:
        names_there, wanted = (
            {str(path.relative_to(place)) for path in paths} for paths in (there, seen)
        )
        pattern = "/".join("*" for _ in extra[0].relative_to(place).parts)
        raise DataError(
            f"predictions {place}",
            expected="only folders of these samples",
            found=f"{len(extra)} others, such as {extra[0].relative_to(place)}",
            fix=from_one(names_there, wanted, pattern) or "Check the split.",
        )
