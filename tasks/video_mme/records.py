"""Read Video-MME's questions from the hub's table, or from JSON in the form of its result files.

The JSON is a list of videos, each with its fields and a list `questions`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.errors import DataError
from harness.foreign import listed
from harness.layout import Entry, JsonFile, field, path_inside
from harness.tasks.qa.questions import Fields, Question, read_records

DURATIONS = ("short", "medium", "long")
PATTERNS = ("{}.mp4", "{}.MP4", "{}.mkv", "{}.webm")  # file names of a video
JSON_FILE = "videomme.json"
VIDEO_FIELDS = ("duration", "domain", "sub_category")
"""Fields that the JSON file has once for all questions of a video."""
FIELDS = Fields(
    id="{question_id}",
    media="{videoID}",
    options="options",
    lettered=True,
    categories={name: name for name in (*VIDEO_FIELDS, "task_type")},
    allowed_values={"duration": DURATIONS},
)


def files(root: Path) -> tuple[Path, ...]:
    """Return the files of questions: the table's, wherever a download puts them, or else JSON."""
    for folder in (root / "videomme", root / "data", root):
        if tables := listed(folder, "test-*.parquet"):
            return tuple(tables)
    return (root / JSON_FILE,) if (root / JSON_FILE).is_file() else ()


def read_questions(paths: tuple[Path, ...]) -> Iterator[Question | DataError]:
    """Yield every question in order, or its error."""
    if paths[0].suffix.lower() == ".parquet":
        yield from read_records(paths, FIELDS.columns, FIELDS.read_record)
        return
    for entry in JsonFile(paths[0]).items():
        try:
            yield from _questions_of_video(entry)
        except DataError as error:
            yield error


def _questions_of_video(entry: Entry) -> Iterator[Question | DataError]:
    """Yield the questions that the JSON file lists below a video, each with the video's fields."""
    where = f"{entry.path}, video {entry.key}"
    video: Mapping[str, object] = entry.parse()
    for row in field(video, "questions", list, where):
        if not isinstance(row, dict):
            yield DataError(f"{where}: 'questions'", expected="objects", found=repr(row)[:60])
            continue
        name = video.get("videoID", video.get("video_id"))
        video_fields = {key: video.get(key) for key in VIDEO_FIELDS}
        try:
            yield FIELDS.read_record({**video_fields, "videoID": name, **row}, where)
        except DataError as error:
            yield error


def subtitle_path(root: Path, name: str) -> Path:
    """Return the path of a video's subtitles; they may be missing."""
    return path_inside(root / "subtitle", f"{name}.srt")
