"""Video-MMMU: 300 lectures with one question for each track: perception, comprehension, adaptation.

A row of `Perception`, `Comprehension` or `Adaptation/test-*.parquet` belongs to the lecture
`<folder>/<id>.mp4`, whose last frame is the question's image. The track `question_only` shows that
image alone, as `question_only/<id>_image.mp4`. A question without options has a text as its answer:

    {"id": "validation_Accounting_1", "question": "…", "options": ["…", "…"], "answer": "B",
     "question_type": "multiple-choice"}
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from string import ascii_uppercase
from typing import Literal

from harness.errors import DataError
from harness.spec import Spec
from harness.task import Task, choose
from harness.tasks.qa.options import texts
from harness.tasks.qa.questions import Fields, Question, read_records
from harness.tasks.qa.tables import text
from harness.tasks.qa.task import QuestionFormat, Videos, question_task, split_files
from harness.tasks.video_mmmu.scoring import PROTOCOLS, TRACKS
from harness.types import AnswerForm

SUBJECTS = {
    "Art": "Art Art_Theory Design Music",
    "Business": "Accounting Economics Finance Manage Marketing",
    "Science": "Biology Chemistry Geography Math Physics",
    "Medicine": "Basic_Medical_Science Clinical_Medicine Diagnostics_and_Laboratory_Medicine"
    " Pharmacy Public_Health",
    "Humanities": "History Literature Sociology Psychology",
    "Engineering": "Agriculture Architecture_and_Engineering Computer_Science Electronics"
    " Energy_and_Power Materials Mechanical_Engineering",
}
FOLDER_OF_SUBJECT = {
    subject: folder for folder, names in SUBJECTS.items() for subject in names.split()
}
FIELDS = Fields(
    id="{track}/{id}",
    media="{video}",
    options="options",
    otherwise="text",
    group="{id}",
    categories={"track": "track", "discipline": "folder", "subject": "subject"},
    allowed_values={"subject": tuple(FOLDER_OF_SUBJECT)},
)
COLUMNS = {"id": "id", "question": "question", "options": "options", "answer": "ground_truth"}
SPLITS = {**{track: (track,) for track in TRACKS}, "knowledge": ("adaptation", "question_only")}


def video_mmmu(
    data: Path,
    *,
    split: Literal["perception", "comprehension", "adaptation", "knowledge", "all"] = "all",
    frames: int | Spec | None = None,
    protocol: str = "videommmu/official",
) -> Task:
    """One sample per question; statistics cluster by lecture.

    Args:
        split: A track; `all` three; `knowledge`: the questions of `adaptation` with their lectures
            and once more without, for the gain that papers call Δknowledge.
        frames: Rule of `harness.frames` that selects the frames of each video, such as 30 or
            `fps(rate=2,max_frames=64)`. By default all are offered, and the model's own rule
            selects among them.
        protocol: `videommmu/official`, `videommmu/lmms` or `videommmu/strict`.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    root = data / "video_mmmu"
    tables = {
        track: split_files(root, f"{_table(track)}/test-*.parquet", "video_mmmu")
        for track in SPLITS.get(split, TRACKS)
    }
    videos = Videos((root,), frames)

    def read() -> Iterator[Question | DataError]:
        for track, files in tables.items():
            yield from read_records(files, COLUMNS, partial(_question, track))

    question_format = QuestionFormat(
        files=tuple(dict.fromkeys(path for files in tables.values() for path in files)),
        read=read,
        open=videos.open,
        problems=videos.problems,
    )
    return question_task(
        question_format,
        "video_mmmu",
        version=2,
        protocol=scoring,
        split=split,
        forms=(AnswerForm.CHOICE, AnswerForm.TEXT),
        arguments={"frames": str(videos.selection)},
    )


def _table(track: str) -> str:
    """Return the name of the folder with a track's table."""
    return "Adaptation" if track == "question_only" else track.capitalize()


def _question(track: str, row: Mapping[str, object], where: str) -> Question:
    """Return the question of a row; its subject and its video follow from its id and the track.

    `extra["options"]` has the options as they are in the table, for the official rules.
    """
    id, options = text(row, "id", where), row["options"]
    official_options = [str(option) for option in options] if isinstance(options, list) else []
    subject = "_".join(id.split("_")[1:-1])
    folder = FOLDER_OF_SUBJECT.get(subject, "")
    video = f"question_only/{id}_image.mp4" if track == "question_only" else f"{folder}/{id}.mp4"
    if isinstance(options, list) and _are_lettered(options):
        options = list(texts(options, where))
    derived = {"track": track, "video": video, "subject": subject, "folder": folder}
    question = FIELDS.read_record({**row, **derived, "options": options}, where)
    return replace(question, extra={**question.extra, "options": official_options})


def _are_lettered(options: Sequence[object]) -> bool:
    """Return True if the options begin with `A.`, `B.`, …, as lmms-eval's `parse_options` asks."""
    pairs = zip(ascii_uppercase, options, strict=False)
    return bool(options) and all(str(option).startswith(f"{letter}.") for letter, option in pairs)
