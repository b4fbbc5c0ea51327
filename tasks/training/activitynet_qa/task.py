"""ActivityNet-QA (Yu et al., 2019): training questions about activities, answered in a few words.

`dataset/<split>_q.json` has the questions, `<split>_a.json` the answers by `question_id`; the
videos are ActivityNet's:

    [{"video_name": "1QIUV7WYKXg", "question": "is the athlete wearing trousers",
      "question_id": "v_1QIUV7WYKXg_3"}, …]
    [{"answer": "yes", "type": 3, "question_id": "v_1QIUV7WYKXg_3"}, …]
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Literal

from harness.errors import DataError
from harness.layout import field, folder, path_inside, read_json
from harness.spec import Spec
from harness.task import Task, choose
from harness.tasks.qa.questions import Question
from harness.tasks.qa.task import QuestionFormat, Videos, question_task
from harness.tasks.training.scoring import ANSWERS as PROTOCOLS
from harness.tasks.training.subsets import RandomSubset
from harness.types import Answer, AnswerForm

FIX = "`harness list tasks activitynet_qa` prints the source of the data."
TYPES = (
    "motion",
    "spatial",
    "temporal",
    "yes/no",
    "colour",
    "object",
    "location",
    "number",
    "other",
)
FILE_PATTERNS = tuple(
    f"{begin}{{}}{end}" for begin in ("v_", "") for end in (".mp4", ".mkv", ".webm")
)
"""File names of a video, such as `v_{}.mp4`; ActivityNet's own begin with `v_`."""


def activitynet_qa(
    data: Path,
    *,
    split: Literal["train", "val", "test"] = "train",
    sample: int | None = None,
    seed: int = 0,
    frames: int | Spec | None = None,
    protocol: str = "train/answers",
) -> Task:
    """One sample per question.

    Args:
        sample: Number of questions, drawn uniformly by `seed`; DT-R1 trains on 1,000.
        frames: Rule of `harness.frames` that selects the frames of each video, such as 30 or
            `fps(rate=2,max_frames=64)`. By default all are offered, and the model's own rule
            selects among them.
        protocol: `train/answers`, which compares texts as the official script does, but for case.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    root = folder(data / "activitynet_qa", fix=FIX)
    requested, answered = (root / "dataset" / f"{split}_{letter}.json" for letter in "qa")
    for path in (requested, answered):
        if not path.is_file():
            raise DataError(f"file {path}", expected="questions or answers", found="none", fix=FIX)
    videos, sampled = Videos((root / "videos",), frames, FILE_PATTERNS), RandomSubset(sample, seed)
    read = partial(read_questions, requested, answered, root / "videos")
    question_format = QuestionFormat(
        files=(requested, answered),
        read=read,
        choose=partial(sampled.choose, read, f"activitynet_qa/{split}"),
        open=videos.open,
        problems=videos.problems,
        opens_all=sample is None,
    )
    return question_task(
        question_format,
        "activitynet_qa",
        protocol=scoring,
        split=split,
        forms=(AnswerForm.TEXT,),
        arguments={"sample": sample, "seed": seed, "frames": str(videos.selection)},
    )


def read_questions(requested: Path, answered: Path, videos: Path) -> Iterator[Question]:
    """Yield every question with its answer, in the order of the questions.

    Raises:
        DataError: a file is not in its layout, a question has no answer or two, or the name of
            its video leaves the folder of videos.
    """
    answers: dict[str, object] = {}
    for number, plain in enumerate(_read_list(answered)):
        where = f"{answered}, entry {number}"
        name = field(plain, "question_id", str, where)
        if name in answers:
            raise DataError(f"{where}: 'question_id'", expected="each once", found=name[:60])
        answers[name] = plain
    for number, plain in enumerate(_read_list(requested)):
        where = f"{requested}, entry {number}"
        name = field(plain, "question_id", str, where)
        if name not in answers:
            raise DataError(f"{where}: {name!r}", expected=f"an answer in {answered}", found="none")
        answer_where = f"{answered}, answer of {name!r}"
        type_number = str(field(answers[name], "type", (int, str), answer_where))
        if type_number not in map(str, range(len(TYPES))):
            raise DataError(
                f"{answer_where}: 'type'", expected=f"0 to {len(TYPES) - 1}", found=type_number[:40]
            )
        video = field(plain, "video_name", str, where)
        path_inside(videos, video)  # checked here: within FILE_PATTERNS an empty name would pass
        yield Question(
            id=name,
            text=field(plain, "question", str, where).strip(),
            media=video,
            answer=Answer(text=field(answers[name], "answer", str, answer_where).strip()),
            group=video,
            categories={"type": TYPES[int(type_number)]},
            extra={"type": TYPES[int(type_number)]},
        )


def _read_list(path: Path) -> list[object]:
    """Return the entries of a file that is one JSON list."""
    plain = read_json(path)
    if not isinstance(plain, list):
        raise DataError(f"file {path}", expected="a list", found=type(plain).__name__)
    return plain
