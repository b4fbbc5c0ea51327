"""Video-MME: 2,700 questions with four options on 900 videos of 11 seconds to an hour.

Subtitles may be added to a question (`subtitles=`). A row of the hub's table, which belongs to the
video `data/<videoID>.mp4`:

    {"video_id": "001", "duration": "short", "domain": "Knowledge", "sub_category": "Geography",
     "videoID": "fFjv93ACGo8", "question_id": "001-1", "task_type": "Counting Problem",
     "question": "How many …?", "options": ["A. 1.", "B. 2.", …], "answer": "C"}
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.errors import DataError, UsageError
from harness.frames import frame_rate
from harness.layout import folder
from harness.media import Media
from harness.metrics.choices import video_mme_choice
from harness.scores import Ratio, Scores
from harness.spec import Spec
from harness.task import Problem, Task, choose, single_answer
from harness.tasks.qa.letters import ACCURACY, Reading, any_letters, letter_protocols
from harness.tasks.qa.options import response
from harness.tasks.qa.prompts import templates
from harness.tasks.qa.questions import Question
from harness.tasks.qa.task import QuestionFormat, Videos, question_task, wording_of
from harness.tasks.qa.videos import open_video
from harness.tasks.video_mme.records import PATTERNS, files, read_questions, subtitle_path
from harness.tasks.video_qa.subtitles import at_frames, line_text, srt
from harness.types import Prediction, Sample

FIX = "`harness list tasks video_mme` prints the source of the data."
NO_SUBTITLES = "No subtitles available"
"""Text of the official prompt for a video without subtitles."""

Duration = Literal["all", "short", "medium", "long"]
Subtitles = Literal["none", "shown", "all"]
Prompt = Literal["question", "official"]


def video_mme(
    data: Path,
    *,
    split: Literal["test"] = "test",
    duration: Duration = "all",
    subtitles: Subtitles = "none",
    prompt: Prompt = "question",
    frames: int | Spec | None = None,
    protocol: str = "videomme/official",
) -> Task:
    """One sample per question; statistics cluster by video.

    Args:
        duration: `all`, or only the short, medium or long videos.
        subtitles: `none`; `shown`: of the frames that `frames` chooses, as officially; `all`.
        prompt: `question`: options apart; `official`: all of the official text, which asks for
            a letter as text.
        frames: Rule of `harness.frames` that selects the frames of each video, such as 30 or
            `fps(rate=2,max_frames=64)`. By default all are offered, and the model's own rule
            selects among them.
        protocol: `videomme/official` or `videomme/strict`.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    if subtitles == "shown" and frames is None:
        raise UsageError(
            "video_mme(subtitles=shown)",
            expected="frames=…, the rule for the shown frames",
            found="none",
        )
    root = folder(data / "video_mme", fix=FIX)
    sources = files(root)
    if not sources:
        raise DataError(
            f"folder {root}",
            expected="videomme/test-*.parquet or videomme.json",
            found="no such file",
            fix=FIX,
        )
    videos = Videos((root / "data", root / "videos"), frames, PATTERNS)
    question_text = SubtitledQuestion(root, videos, subtitles, prompt)
    question_format = QuestionFormat(
        files=sources,
        read=lambda: _questions_of_length(sources, duration),
        open=videos.open,
        problems=question_text.problems,
        opens_all=subtitles == "none",  # a video without its file of subtitles has none
        text=question_text,
        separate_options=prompt == "question",
        answer_as_text=prompt == "official",
    )
    return question_task(
        question_format,
        "video_mme",
        version=3,
        protocol=scoring,
        split=split,
        arguments={
            "duration": duration,
            "subtitles": subtitles,
            "prompt": prompt,
            "frames": str(videos.selection),
        },
    )


def _questions_of_length(
    paths: tuple[Path, ...], duration: Duration
) -> Iterator[Question | DataError]:
    """Yield the questions on videos of a duration class, and the errors of unreadable rows."""
    for question in read_questions(paths):
        if isinstance(question, DataError) or duration in ("all", question.categories["duration"]):
            yield question


@dataclass(frozen=True, slots=True)
class SubtitledQuestion:
    """Function that puts the subtitles of a question's video before its text."""

    root: Path
    videos: Videos
    subtitles: Subtitles
    prompt: Prompt

    def __call__(self, question: Question, media: Media) -> str:
        """Return the whole text of a question for the model."""
        text = wording_of("harness.tasks.video_mme", self.prompt)(question, media)
        if self.subtitles == "none":
            return text
        template = templates("harness.tasks.video_mme")["subtitles"]
        return (
            template.format(subtitles=self._lines(str(question.media), media) or NO_SUBTITLES)
            + text
        )

    def _lines(self, name: str, media: Media) -> str:
        """Return a video's subtitles, one per line: all, or those of the frames in `media`."""
        path = subtitle_path(self.root, name)
        if not path.is_file():  # 156 of the 900 videos have none
            return ""
        lines = srt(path)
        if self.subtitles == "shown" and media.fault is None:
            video = open_video(self.videos.path(name), None)
            lines = at_frames(lines, media.times(), frame_rate(video.times()))
        return "\n".join(map(line_text, lines))

    def problems(self, question: Question) -> Iterator[Problem]:
        """Yield the faults of the video, and of its subtitles where they are needed."""
        yield from self.videos.problems(question)
        if self.subtitles == "none":
            return
        root = self.root / "subtitle"
        if not root.is_dir():
            yield Problem(str(root), "is missing, which holds all subtitles")
            return
        try:
            path = subtitle_path(self.root, str(question.media))
            if path.is_file():
                srt(path)
        except DataError as error:
            yield Problem(str(root / f"{question.media}.srt"), str(error))


def score_official(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return the accuracy as `eval_your_results.py`.

    A response without a readable letter counts nowhere; a missing response is wrong.
    """
    _, target, prediction = single_answer(unit, predictions)
    has_response, letter = response(prediction, video_mme_choice)
    weight = float(letter is not None or not has_response)
    return {"accuracy": Ratio(float(letter == target.extra["letter"]), weight)}


PROTOCOLS = letter_protocols(
    "videomme",
    official=Reading(
        any_letters(video_mme_choice),
        "eval_your_results.py: the first of A to D counts; unreadable responses are left out",
        score=score_official,
        accuracy=f"{ACCURACY}, of those with a readable response",
    ),
    strict="only a letter that the response states counts, and every question",
)
