"""Match COCO's results with images by the names of their files.

A detector that numbers images itself writes the name of each one's file, or the part of it before
the suffix, as Ultralytics does.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import PurePath
from typing import Any

from harness.errors import DataError
from harness.foreign_lines import command
from harness.media import file_stem
from harness.types import Sample

BY_NAME = 'map(if .file_name then .image_id = (.file_name | split("/") | last) else . end)'


def stem_of(sample: Sample) -> str:
    """Return the name of a sample's image file without the suffix; "" if it is not one file."""
    media = sample.query.media
    return file_stem(media[0]) if len(media) == 1 else ""


def numbers_by_stem(samples: Collection[Sample]) -> dict[str, str]:
    """Return the images' numbers, as the samples' ids have them, by the stems of their files.

    A number is what precedes the last `/` of an id, or the id, if that is of several images.
    """
    stems: dict[str, set[str]] = defaultdict(set)
    for sample in samples:
        stems[_before_category(sample)].add(stem_of(sample))
    numbers: dict[str, set[str]] = defaultdict(set)
    for sample in samples:
        if stem := stem_of(sample):
            number = _before_category(sample)
            numbers[stem].add(number if len(stems[number]) == 1 else sample.id)
    return {stem: single for stem, (single, *others) in numbers.items() if not others}


def _before_category(sample: Sample) -> str:
    return sample.id.rpartition("/")[0] or sample.id


def refuse_other_image(
    record: Mapping[str, Any], sample: Sample, numbers: Mapping[str, str], where: str
) -> None:
    """Raise DataError if a record's file name is that of another image than its number's."""
    name = record.get("file_name")
    stem = PurePath(name).stem if isinstance(name, str) else ""
    own_stem = stem_of(sample)
    if stem in numbers and own_stem and stem != own_stem:
        file = PurePath(where.rpartition(", record")[0]).name
        raise DataError(
            f"{where}: 'image_id'",
            expected=f"{numbers[stem]}, the benchmark's image {name!r}",
            found=str(record.get("image_id")),
            fix=f"{command(BY_NAME, file)} takes the names.",
        )
