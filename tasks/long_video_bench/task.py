"""LongVideoBench: questions with options that refer to a moment of a long video with subtitles.

A record of `lvb_val.json`, which belongs to the video `videos/<video_path>` and the subtitles
`subtitles/<subtitle_path>`:

    {"id": "86CxyhFV9MI_0", "video_path": "86CxyhFV9MI.mp4", "subtitle_path":
     "86CxyhFV9MI_en.json", "question": "In the video, which …?", "candidates": ["…", …],
     "correct_choice": 1, "duration": 189.0, "duration_group": 600, "question_category": "TOS",
     "topic_category": "NP-News-Programs", "starting_timestamp_for_subtitles": 0}
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from harness.errors import DataError, UsageError
from harness.layout import folder, path_inside
from harness.media import Media
from harness.metrics.choices import longvideobench_choice, seeded_choice
from harness.scores import Mean, Scores
from harness.spec import Spec
from harness.store.atomic import write_json
from harness.task import Problem, Task, choose, single_answer
from harness.tasks.long_video_bench.records import Split, files, read_questions
from harness.tasks.qa.answer_text import answer_text
from harness.tasks.qa.letters import Reading, any_letters, letter_protocols
from harness.tasks.qa.options import response
from harness.tasks.qa.questions import Question
from harness.tasks.qa.task import QuestionFormat, Videos, question_task, wording_of
from harness.tasks.video_qa.subtitles import Line, interleave, read_subtitles
from harness.types import Prediction, Sample

FIX = "`harness list tasks long_video_bench` prints the source of the data."
SUBMISSION_FILE = "submission.json"

Subtitles = Literal["none", "interleaved", "all"]
Prompt = Literal["question", "official"]


def long_video_bench(
    data: Path,
    *,
    split: Split = "val",
    subtitles: Subtitles = "none",
    prompt: Prompt = "question",
    frames: int | Spec | None = None,
    protocol: str = "lvb/official",
) -> Task:
    """One sample per question; statistics cluster by video.

    Args:
        split: `test` has no ground truth: evaluating it writes the file that the organisers take.
        subtitles: `none`; `interleaved`: between the frames that `frames` chooses, as officially;
            `all`: all of them before the question.
        prompt: `question`: options apart; `official`: all of the official text, which asks for a
            letter as text.
        frames: Rule of `harness.frames` that selects the frames of each video, such as 30 or
            `fps(rate=2,max_frames=64)`. By default all are offered, and the model's own rule
            selects among them.
            The official rule is `long_video_bench`: evenly spaced, at most 256.
        protocol: `lvb/official` or `lvb/strict`.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    if subtitles == "interleaved" and frames is None:
        raise UsageError(
            "long_video_bench(subtitles=interleaved)",
            found="none",
            expected="frames=…, the rule for the frames between which they stand",
        )
    root = folder(data / "long_video_bench", fix=FIX)
    sources = files(root, split)
    if not sources:
        raise DataError(
            f"folder {root}",
            expected=f"the questions of the split {split}",
            found="no such file",
            fix=FIX,
        )
    videos = Videos((root / "videos",), frames)
    question_text = SubtitledQuestion(root / "subtitles", videos, subtitles, prompt)
    question_format = QuestionFormat(
        files=sources,
        read=partial(read_questions, sources, split),
        open=videos.open,
        problems=question_text.problems,
        text=question_text,
        separate_options=prompt == "question",
        answer_as_text=prompt == "official",
    )
    return question_task(
        question_format,
        "long_video_bench",
        version=3,
        protocol=scoring,
        split=split,
        submission=write_submission if split == "test" else None,
        arguments={"subtitles": subtitles, "prompt": prompt, "frames": str(videos.selection)},
    )


@dataclass(frozen=True, slots=True)
class SubtitledQuestion:
    """Function that returns the text of a question with the subtitles of its video."""

    folder: Path
    """Folder of the subtitles."""
    videos: Videos
    subtitles: Subtitles
    prompt: Prompt

    def __call__(self, question: Question, media: Media) -> str:
        """Return the text for the model; the subtitles, between placeholders, come first."""
        text = wording_of("harness.tasks.long_video_bench", self.prompt)(question, media)
        if self.subtitles == "none":
            return text
        lines = self._lines(question)
        if self.subtitles == "all":
            return "\n".join([*(line.text for line in lines), text])
        return "\n".join([*interleave(media.times() if media.fault is None else (), lines), text])

    def _lines(self, question: Question) -> list[Line]:
        """Return the subtitles of a question's video; DataError if they cannot be read."""
        row = question.row
        path = path_inside(self.folder, row["subtitle_path"])
        return read_subtitles(
            path, start=row["starting_timestamp_for_subtitles"], duration=row["duration"]
        )

    def problems(self, question: Question) -> Iterator[Problem]:
        """Yield the faults of a question's video and, if they are used, of its subtitles."""
        yield from self.videos.problems(question)
        if self.subtitles != "none":
            try:
                self._lines(question)
            except DataError as error:
                yield Problem(str(self.folder / question.row["subtitle_path"]), str(error))


def score_official(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return the accuracy as lmms-eval's `longvideobench_process_results`.

    A response without a letter gets a random option, drawn by the question's id. A prediction
    without a response is wrong.
    """
    _, target, prediction = single_answer(unit, predictions)
    extra = target.extra
    has_answer, letter = response(prediction, longvideobench_choice)
    if has_answer and letter is None:
        letter = seeded_choice(extra["id"], extra["letters"])
    return {"accuracy": Mean(float(letter == extra["letter"]))}


def write_submission(predicted: Iterable[tuple[Sample, Prediction]], folder: Path) -> Path:
    """Write responses by id, as lmms-eval's `longvideobench_test_for_submission.json`."""
    responses = {sample.id: answer_text(prediction) or "" for sample, prediction in predicted}
    write_json(folder / SUBMISSION_FILE, responses)
    return folder / SUBMISSION_FILE


PROTOCOLS = letter_protocols(
    "lvb",
    official=Reading(
        any_letters(longvideobench_choice),
        "lmms-eval's reader: the first of A to E counts; without one an option is drawn at random",
        score=score_official,
    ),
)
