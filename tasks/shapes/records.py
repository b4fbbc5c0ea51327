"""Check records and open media of `questions.jsonl`, the layout of the generated world.

The file has one question per line; images and frames of videos lie beside it. The tasks `shapes_qa`
and `shapes_referring` share this.
"""

from collections.abc import Iterator, Mapping

from harness.errors import DataError, MediaError
from harness.image_file import header_size
from harness.layout import field
from harness.media import Media, frame_files, open_image, placeholder_media
from harness.task import Problem
from harness.tasks.qa.images import image_files
from harness.tasks.qa.questions import Question

QUESTIONS_FILE = "questions.jsonl"


def check_texts(
    row: Mapping[str, object], where: str, *names: str, lists: tuple[str, ...] = ()
) -> None:
    """Check that fields of a record are text (`names`) or lists of different texts (`lists`).

    Raises:
        DataError: a field is missing, blank or of another type.
    """
    for name in names:
        field(row, name, str, where)
    for name in lists:
        listed = field(row, name, list, where)
        different_texts = {entry for entry in listed if isinstance(entry, str) and entry.strip()}
        if len(different_texts) < len(listed):
            excerpt = repr(listed)[:60]
            raise DataError(f"{where}: {name!r}", expected="different texts", found=excerpt)


def group_of(question: Question) -> str:
    """Return the cluster of a question for statistics: a name of its image or video."""
    return "/".join(image_files(question)[0].parts[-3:])


def open_media(question: Question, *, size: tuple[int, int] = (1, 1)) -> tuple[Media, ...]:
    """Open a question's image, or its video of one frame per second.

    If a file is missing or damaged, it is a placeholder with `size`, the (width, height) of the
    ground truth.
    """
    files = image_files(question)
    try:
        media = open_image(files[0]) if len(files) == 1 else frame_files(files)
        if any(header_size(path) != media.size for path in files[1:]):
            raise MediaError(f"video {files[0].parent}", expected="frames of one size")
        return (media,)
    except MediaError as error:
        return (placeholder_media(error, size=size, frames=len(files)),)


def unreadable(question: Question) -> Iterator[Problem]:
    """Yield the faults of a question's image files: missing, not an image, or different sizes."""
    files, sizes = image_files(question), set[tuple[int, int]]()
    for path in files:
        try:
            sizes.add(header_size(path))
        except MediaError as error:
            yield Problem(str(path), str(error) if path.exists() else "is missing")
    if len(sizes) > 1:
        yield Problem(str(files[0].parent), f"holds frames of different sizes: {sorted(sizes)}")
