"""Images of `questions.jsonl`, the world's own layout: one question a line, beside its images."""

from collections.abc import Iterator, Mapping

from harness.errors import DataError, MediaError
from harness.image_file import header_size
from harness.layout import field
from harness.media import Media, frame_files, open_image, placeholder_media
from harness.task import Problem
from harness.tasks.qa.images import image_files
from harness.tasks.qa.questions import Question

QUESTIONS = "questions.jsonl"


def check_texts(
    row: Mapping[str, object], where: str, *names: str, lists: tuple[str, ...] = ()
) -> None:
    """Refuse a record if a field is not text, or one of `lists` not a list of different texts.

    Raises:
        DataError: one is another, missing or blank.
    """
    for name in names:
        field(row, name, str, where)
    for name in lists:
        listed = field(row, name, list, where)
        texts = {entry for entry in listed if isinstance(entry, str) and entry.strip()}
        if len(texts) < len(listed):
            shown = repr(listed)[:60]
            raise DataError(f"{where}: {name!r}", expected="different texts", found=shown)


def group_of(question: Question) -> str:
    """Return the name that all questions on the same media share."""
    return "/".join(image_files(question)[0].parts[-3:])


def open_media(question: Question, *, size: tuple[int, int] = (1, 1)) -> tuple[Media, ...]:
    """Open an image, or a video of one frame a second; a stand-in if it is missing.

    `size` is what the ground truth is measured in, for the latter.
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
    """Yield faults in the headers of images: missing, none, or of different sizes."""
    files, sizes = image_files(question), set[tuple[int, int]]()
    for path in files:
        try:
            sizes.add(header_size(path))
        except MediaError as error:
            yield Problem(str(path), str(error) if path.exists() else "is missing")
    if len(sizes) > 1:
        yield Problem(str(files[0].parent), f"holds frames of different sizes: {sorted(sizes)}")
