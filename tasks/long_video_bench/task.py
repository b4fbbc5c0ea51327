"""LongVideoBench: choose the option for the moment that a question refers to, with subtitles.

A record of `lvb_val.json`, the video `videos/<video_path>` and its subtitles:

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
SUBMISSION = "submission.json"

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
    """One sample a question; statistics cluster by video.

    Args:
        split: `test` has no ground truth: evaluating it writes the file that the organisers take.
        subtitles: `none`; `interleave`: between the frames that `frames` chooses, as officially;
            `all`: all of them before the question.
        prompt: `question`: options apart; `official`: all of the official text, which asks for a
            letter as text.
        frames: A rule for the frames that a video consists of; all, without, of which a model shows
            what its own rule says. The official one is `long_video_bench`, every so many frames, at
            most 256.
        protocol: `lvb/official` or `lvb/strict`.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    if subtitles == "interleaved" and frames is None:
        raise UsageError(
            "long_video_bench(subtitles=interleaved)",
            found="none",
            expected="frames=…, the rule for the frames between which they stand",
        )
    place = folder(data / "long_video_bench", fix=FIX)
    sources = files(place, split)
    if not sources:
        raise DataError(
            f"folder {place}",
            expected=f"the questions of the split {split}",
            found="no such file",
            fix=FIX,
        )
    videos = Videos((place / "videos",), frames)
    worded = SubtitledQuestion(place / "subtitles", videos, subtitles, prompt)
    layout = QuestionFormat(
        files=sources,
        read=partial(read_questions, sources, split),
        open=videos.open,
        problems=worded.problems,
        text=worded,
        apart=prompt == "question",
        as_text=prompt == "official",
    )
    return question_task(
        layout,
        "long_video_bench",
        version=3,
        protocol=scoring,
        split=split,
        submission=write_submission if split == "test" else None,
        arguments={"subtitles": subtitles, "prompt": prompt, "frames": str(videos.selection)},
    )


@dataclass(frozen=True, slots=True)
class SubtitledQuestion:
    """The text of a question, with the subtitles of its video."""

    place: Path
    """The folder of subtitles."""
    videos: Videos
    subtitles: Subtitles
    prompt: Prompt

    def __call__(self, question: Question, media: Media) -> str:
        """All the text that a model is given."""
        text = wording_of("harness.tasks.long_video_bench", self.prompt)(question, media)
        if self.subtitles == "none":
            return text
        lines = self._lines(question)
        if self.subtitles == "all":
            return "\n".join([*(line.text for line in lines), text])
        return "\n".join([*interleave(media.times() if media.fault is None else (), lines), text])

    def _lines(self, question: Question) -> list[Line]:
        row = question.row
        path = path_inside(self.place, row["subtitle_path"])
        return read_subtitles(
            path, start=row["starting_timestamp_for_subtitles"], duration=row["duration"]
        )

    def problems(self, question: Question) -> Iterator[Problem]:
        """Yield the faults of the video, and of its subtitles where they are needed."""
        yield from self.videos.problems(question)
        if self.subtitles != "none":
            try:
                self._lines(question)
            except DataError as error:
                yield Problem(str(self.place / question.row["subtitle_path"]), str(error))


def score_official(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """`longvideobench_process_results`: an unreadable response gets an option at random, from its
    id.

    A prediction without a response is wrong.
    """
    _, target, prediction = single_answer(unit, predictions)
    extra = target.extra
    anything, letter = response(prediction, longvideobench_choice)
    if anything and letter is None:
        letter = seeded_choice(extra["id"], extra["letters"])
    return {"accuracy": Mean(float(letter == extra["letter"]))}


def write_submission(predicted: Iterable[tuple[Sample, Prediction]], folder: Path) -> Path:
    """The responses by id, as lmms-eval's `longvideobench_test_for_submission.json` has them."""
    responses = {sample.id: answer_text(prediction) or "" for sample, prediction in predicted}
    write_json(folder / SUBMISSION, responses)
    return folder / SUBMISSION


PROTOCOLS = letter_protocols(
    "lvb",
    official=Reading(
        any_letters(longvideobench_choice),
        "lmms-eval's reader: the first of A to E counts; none gets an option at random",
        score=score_official,
    ),
)
