"""Video-MMMU: 300 lectures, three questions each: to perceive, to comprehend, to adapt.

A row of `Perception`, `Comprehension` or `Adaptation/test-*.parquet`, and the lecture
`<folder>/<id>.mp4`, whose last frame is the question's image, or that image alone,
`question_only/<id>_image.mp4`. A question without options has none, and a text as its answer:

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
from harness.tasks.qa.task import QuestionFormat, Videos, parts, question_task
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
FOLDERS = {subject: place for place, names in SUBJECTS.items() for subject in names.split()}
FIELDS = Fields(
    id="{track}/{id}",
    media="{video}",
    options="options",
    otherwise="text",
    group="{id}",
    categories={"track": "track", "discipline": "folder", "subject": "subject"},
    allowed_values={"subject": tuple(FOLDERS)},
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
    """One sample a question; statistics cluster by lecture.

    Args:
        split: A track; `all` three; `knowledge`: the questions of `adaptation` with their lectures
            and once more without, for the gain that papers call Δknowledge.
        frames: A rule for the frames that a video consists of; all, without.
        protocol: `videommmu/official`, `videommmu/lmms` or `videommmu/strict`.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = data / "video_mmmu"
    tables = {
        track: parts(place, f"{_table(track)}/test-*.parquet", "video_mmmu")
        for track in SPLITS.get(split, TRACKS)
    }
    videos = Videos((place,), frames)

    def read() -> Iterator[Question | DataError]:
        for track, files in tables.items():
            yield from read_records(files, COLUMNS, partial(_question, track))

    layout = QuestionFormat(
        files=tuple(dict.fromkeys(path for files in tables.values() for path in files)),
        read=read,
        open=videos.open,
        problems=videos.problems,
    )
    return question_task(
        layout,
        "video_mmmu",
        version=2,
        protocol=scoring,
        split=split,
        forms=(AnswerForm.CHOICE, AnswerForm.TEXT),
        arguments={"frames": str(videos.selection)},
    )


def _table(track: str) -> str:
    return "Adaptation" if track == "question_only" else track.capitalize()


def _question(track: str, row: Mapping[str, object], where: str) -> Question:
    id, options = text(row, "id", where), row["options"]
    written = [str(option) for option in options] if isinstance(options, list) else []
    subject = "_".join(id.split("_")[1:-1])
    place = FOLDERS.get(subject, "")
    video = f"question_only/{id}_image.mp4" if track == "question_only" else f"{place}/{id}.mp4"
    if isinstance(options, list) and _are_lettered(options):
        options = list(texts(options, where))
    read = {"track": track, "video": video, "subject": subject, "folder": place}
    question = FIELDS.read_record({**row, **read, "options": options}, where)
    return replace(question, extra={**question.extra, "options": written})


def _are_lettered(options: Sequence[object]) -> bool:
    """True if options begin with `A.`, `B.`, … as `parse_options` of lmms-eval looks for them."""
    pairs = zip(ascii_uppercase, options, strict=False)
    return bool(options) and all(str(option).startswith(f"{letter}.") for letter, option in pairs)
