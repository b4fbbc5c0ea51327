r"""Video-MME-v2: 3,200 questions with eight options on 800 videos, in groups of four.

A row of `test.parquet` (or of the hub's `data/test-*.parquet`); four consecutive rows are the group
of one video:

    {"video_id": "001", "question_id": "001-1", "question": "…", "options": "A. …\\nB. …\\n… H. …",
     "answer": "C", "group_type": "logic", "group_structure": "[1, [2, 3], 4]", "level": 3,
     "second_head": "…", "third_head": "…"}

The video is `data/<video_id>.mp4`; `subtitle/<video_id>.jsonl` has one spoken word per line.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal

from harness.errors import DataError
from harness.foreign import listed
from harness.layout import folder, path_inside
from harness.media import Media
from harness.spec import Spec
from harness.task import Problem, Task, choose
from harness.tasks.qa.prompts import templates
from harness.tasks.qa.questions import Fields, Question, read_records
from harness.tasks.qa.tables import records, text
from harness.tasks.qa.task import QuestionFormat, Videos, question_task, wording_of
from harness.tasks.video_mme_v2.scoring import CHAINS, GROUP, PROTOCOLS

FIX = "`harness list tasks video_mme_v2` prints the source of the data."
PACKAGE = "harness.tasks.video_mme_v2"
FIELDS = Fields(
    id="{question_id}",
    media="{video_id}",
    options="options",
    lettered=True,
    categories={"group_type": "group_type"},
    allowed_values={"group_type": ("relevance", "logic")},
)
GROUP_COLUMNS = {"level": "of difficulty", "second_head": "category", "third_head": "category"}
"""Columns that hold for a whole group, each with a word on its content."""


def video_mme_v2(
    data: Path,
    *,
    split: Literal["test"] = "test",
    subtitles: Literal["none", "all"] = "none",
    prompt: Literal["question", "official"] = "question",
    frames: int | Spec | None = None,
    protocol: str = "videommev2/official",
) -> Task:
    """One sample per question; the four of a video are a unit, which is scored together.

    Args:
        subtitles: `none`, or `all` words before the question.
        prompt: `question`: options apart; `official`: all of the official text.
        frames: Rule of `harness.frames` that selects the frames of each video, such as 30 or
            `fps(rate=2,max_frames=64)`. By default all are offered, and the model's own rule
            selects among them.
        protocol: `videommev2/official` or `videommev2/strict`.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    root = folder(data / "video_mme_v2", fix=FIX)
    tables = listed(root, "test*.parquet") or listed(root, "data/test-*.parquet")
    if not tables:
        raise DataError(f"folder {root}", expected="test.parquet", found="no such file", fix=FIX)
    videos = Videos((root / "data", root / "videos"), frames, ("{}.mp4",))
    question_text = SubtitledQuestion(root, subtitles, prompt, videos)
    question_format = QuestionFormat(
        files=tables,
        read=lambda: read_questions(tables),
        open=videos.open,
        problems=question_text.problems,
        opens_all=subtitles == "none",
        text=question_text,
        separate_options=prompt == "question",
        answer_as_text=prompt == "official",
    )
    arguments = {"subtitles": subtitles, "prompt": prompt, "frames": str(videos.selection)}
    return question_task(
        question_format,
        "video_mme_v2",
        version=2,
        protocol=scoring,
        split=split,
        arguments=arguments,
    )


def read_questions(files: Sequence[Path]) -> Iterator[Question | DataError]:
    """Yield every question, with the categories of the last question of its group of four.

    In place of a group with unreadable rows, their errors.
    """
    columns = {**FIELDS.columns, **GROUP_COLUMNS, "group_structure": "order of the questions"}
    questions = read_records(files, columns, _question)
    while group := list(islice(questions, GROUP)):
        if errors := [entry for entry in group if isinstance(entry, DataError)]:
            yield from errors
            continue
        yield from _unit_of_group([entry for entry in group if isinstance(entry, Question)])


def _question(row: Mapping[str, object], where: str) -> Question:
    """Return the question of a row after a check.

    `extra["structure"]` is one of CHAINS for a group by logic, and "" for a group by relevance.
    """
    question = FIELDS.read_record(row, where)
    if question.categories["group_type"] == "relevance":
        return replace(question, extra={"structure": ""})
    try:
        structure = json.dumps(json.loads(text(row, "group_structure", where)))
    except ValueError:
        structure = ""
    if structure not in CHAINS:
        raise DataError(
            f"{where}: 'group_structure'",
            expected=" or ".join(CHAINS),
            found=repr(row["group_structure"])[:60],
        )
    return replace(question, extra={"structure": structure})


def _unit_of_group(group: Sequence[Question]) -> Iterator[Question | DataError]:
    """Yield four questions as one unit, or an error if they are not of one video."""
    first, last = group[0], group[-1]
    media = {question.media for question in group}
    if len(group) < GROUP or len(media) > 1:
        yield DataError(
            f"questions {first.id!r} to {last.id!r}",
            expected=f"{GROUP} on one video, in a row",
            found=f"{len(group)} on {', '.join(sorted(map(str, media)))}",
        )
        return
    categories = dict(last.categories)
    for name in GROUP_COLUMNS:
        value = last.row[name]
        if value is not None:
            # A whole number beside a missing one is a float in tables that pandas writes.
            categories[name] = f"{value:g}" if type(value) is float else str(value)
    for question in group:
        yield replace(question, unit=str(question.media), categories=categories, extra=last.extra)


@dataclass(frozen=True, slots=True)
class SubtitledQuestion:
    """Function that puts the words of a question's video before its text."""

    root: Path
    subtitles: str
    prompt: str
    videos: Videos

    def __call__(self, question: Question, media: Media) -> str:
        """Return the whole text of a question for the model."""
        question_text = wording_of(PACKAGE, self.prompt)(question, media)
        if self.subtitles == "none":
            return question_text
        template = templates(PACKAGE)["subtitles"]
        return template.format(subtitles=self._words(str(question.media))) + question_text

    def _words(self, name: str) -> str:
        """Return the words of a video's subtitles; empty if it has no file of them."""
        path = path_inside(self.root / "subtitle", f"{name}.jsonl")
        if not path.is_file():
            return ""
        lines = records(path, {"text": "word"})
        return " ".join(text(row, "text", where) for where, row in lines)

    def problems(self, question: Question) -> Iterator[Problem]:
        """Yield the faults of the video and, if its words are used, of their file."""
        yield from self.videos.problems(question)
        if self.subtitles == "all":
            try:
                self._words(str(question.media))
            except DataError as error:
                yield Problem(str(self.root / "subtitle"), str(error))
