"""ActivityNet-QA (Yu et al., 2019): questions about activities, answered in a word or two.

`dataset/<split>_q.json` and `<split>_a.json` belong together by `question_id`; videos are
ActivityNet's:

    [{"video_name": "1QIUV7WYKXg", "question": "is the athlete wearing trousers",
      "question_id": "v_1QIUV7WYKXg_3"}, …]
    [{"answer": "yes", "type": 3, "question_id": "v_1QIUV7WYKXg_3"}, …]
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from harness.errors import DataError
from harness.layout import field, folder, path_inside, read_json
from harness.spec import Spec
from harness.task import Problem, Task, choose
from harness.tasks.qa.videos import FrameSelection, video_or_lost
from harness.tasks.training.scoring import ANSWERS as PROTOCOLS
from harness.tasks.training.subsets import RandomSubset
from harness.types import Answer, AnswerForm, Query, Sample, Target, query_id

FIX = "`harness list tasks activitynet_qa` says where the data is had."
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
SUFFIXES = (".mp4", ".mkv", ".webm")


@dataclass(frozen=True, slots=True)
class Record:
    """One question with its answer."""

    id: str
    video: str
    question: str
    answer: str
    kind: str


@dataclass(frozen=True, slots=True)
class Source:
    """Folders and files of questions and videos, and the choice of questions."""

    questions: Path
    answers: Path
    videos: Path
    selection: FrameSelection
    sampled: RandomSubset


def activitynet_qa(
    data: Path,
    *,
    split: Literal["train", "val", "test"] = "train",
    sample: int | None = None,
    seed: int = 0,
    frames: int | Spec | None = None,
    protocol: str = "train/answers",
) -> Task:
    """One sample a question.

    Args:
        sample: Only so many of them, drawn uniformly by `seed`; DT-R1 trains on 1,000.
        frames: Which frames of a video there are: a rule of `harness.frames`; all, without.
        protocol: `train/answers`, which compares texts as the official script does, but for case.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = folder(data / "activitynet_qa", fix=FIX)
    requested, answered = (place / "dataset" / f"{split}_{which}.json" for which in "qa")
    for path in (requested, answered):
        if not path.is_file():
            raise DataError(f"file {path}", expected="questions or answers", found="none", fix=FIX)
    source = Source(
        requested, answered, place / "videos", FrameSelection(frames), RandomSubset(sample, seed)
    )
    return Task(
        name="activitynet_qa",
        version=1,
        split=split,
        forms=(AnswerForm.TEXT,),
        protocol=scoring,
        samples=partial(_samples, source, split),
        annotations=(requested, answered),
        check=partial(_check, source),
        arguments={
            "split": split,
            "sample": sample,
            "seed": seed,
            "frames": str(source.selection),
            "protocol": protocol,
        },
    )


def read_records(source: Source) -> list[Record]:
    """Every question with its answer, in the order of the questions.

    Raises:
        DataError: a file is not in its layout, or a question has no answer or two.
    """
    answers: dict[str, object] = {}
    for number, plain in enumerate(_read_list(source.answers)):
        where = f"{source.answers}, entry {number}"
        name = field(plain, "question_id", str, where)
        if name in answers:
            raise DataError(f"{where}: 'question_id'", expected="each once", found=name[:60])
        answers[name] = plain
    return [
        _record(plain, answers, source, f"{source.questions}, entry {number}")
        for number, plain in enumerate(_read_list(source.questions))
    ]


def _record(plain: object, answers: Mapping[str, object], source: Source, where: str) -> Record:
    name = field(plain, "question_id", str, where)
    if name not in answers:
        raise DataError(
            f"{where}: {name!r}", expected=f"an answer in {source.answers}", found="none"
        )
    place = f"{source.answers}, answer of {name!r}"
    kind = int(field(answers[name], "type", (int, str), place))
    if not 0 <= kind < len(TYPES):
        raise DataError(f"{place}: 'type'", expected=f"0 to {len(TYPES) - 1}", found=str(kind))
    return Record(
        id=name,
        video=field(plain, "video_name", str, where),
        question=field(plain, "question", str, where).strip(),
        answer=field(answers[name], "answer", str, place).strip(),
        kind=TYPES[kind],
    )


def _read_list(path: Path) -> list[object]:
    plain = read_json(path)
    if not isinstance(plain, list):
        raise DataError(f"file {path}", expected="a list", found=type(plain).__name__)
    return plain


def video_name(folder: Path, name: str) -> str:
    """Return the name of a video's file: with or without the `v_` of ActivityNet's own files."""
    path_inside(folder, name)
    names = [f"{begin}{name}{suffix}" for begin in ("v_", "") for suffix in SUFFIXES]
    there = (
        one for one in names if (folder / one).is_file() or (folder / one).with_suffix("").is_dir()
    )
    return next(there, names[0])


def _samples(source: Source, split: str) -> Iterator[Sample]:
    records = read_records(source)
    for record in source.sampled.choose(lambda: records, f"activitynet_qa/{split}"):
        name = video_name(source.videos, record.video)
        yield Sample(
            id=record.id,
            query=Query(
                id=query_id(record.id),
                text=record.question,
                forms=(AnswerForm.TEXT,),
                media=(video_or_lost((source.videos,), name, source.selection.choose),),
            ),
            target=Target(answer=Answer(text=record.answer), extra={"type": record.kind}),
            group=record.video,
            categories={"type": record.kind},
        )


def _check(source: Source) -> Iterator[Problem]:
    looked_at: set[str] = set()
    try:
        for record in read_records(source):
            if record.video not in looked_at:
                looked_at.add(record.video)
                name = video_name(source.videos, record.video)
                path = source.videos / name
                if not path.is_file() and not path.with_suffix("").is_dir():
                    yield Problem(str(path), "is missing")
    except DataError as error:
        yield Problem(str(source.questions), str(error))
