"""SumMe (Gygli et al., 2014) as a training set for video summaries in words.

SumMe's annotators rated frames and wrote no text, so the user supplies the reference summaries, in
`ROOT/summe/references.jsonl` with one video per line:

    {"video": "Air_Force_One", "reference": "A plane lands and …", "made_by": {"captioner": "…",
     "prompt": "…", "hash": "…"}}

`reference` is a text or a list of texts; `made_by` says how they were made and is kept in the
run's record, so that nobody takes them for SumMe's. Without the file there are no samples, and
`harness data check` says so. Videos lie at `ROOT/summe/videos/<video>.mp4`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from harness.errors import DataError
from harness.layout import folder
from harness.spec import Spec
from harness.task import Problem, Task, choose
from harness.tasks.qa.tables import records, text
from harness.tasks.qa.videos import FrameSelection, find, video_or_lost
from harness.tasks.rvtbench.text import by_text
from harness.types import Answer, AnswerForm, Query, Sample, Target, query_id

FIX = "`harness list tasks summe` prints the source of the data."
REFERENCES = "references.jsonl"
QUESTION = "Summarize what happens in this video."
FILE_PATTERNS = ("{}.mp4", "{}.webm", "{}.avi")  # file names of a video

PROTOCOLS = {
    "summe/text_simple": by_text(
        "summe/text_simple",
        "simple",
        "ROUGE-L, BLEU-4 and CIDEr against references that are not "
        "SumMe's; tokens that need no Java",
    )
}


@dataclass(frozen=True, slots=True)
class Source:
    """Paths of references and videos, the question, and the rule for frames."""

    path: Path
    videos: Path
    question: str
    selection: FrameSelection


def summe(
    data: Path,
    *,
    split: Literal["all"] = "all",
    question: str = QUESTION,
    frames: int | Spec | None = None,
    protocol: str = "summe/text_simple",
) -> Task:
    """One sample per video that has a reference; none without `references.jsonl`.

    Args:
        split: There is one, of 25 videos.
        question: The question about every video.
        frames: Rule of `harness.frames` that selects the frames of each video, such as 30 or
            `fps(rate=2,max_frames=64)`. By default all are offered, and the model's own rule
            selects among them.
        protocol: `summe/text_simple`, for curves.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    root = folder(data / "summe", fix=FIX)
    source = Source(root / REFERENCES, root / "videos", question, FrameSelection(frames))
    has_references = source.path.is_file()
    return Task(
        name="summe",
        version=1,
        split=split,
        forms=(AnswerForm.TEXT,),
        protocol=scoring,
        samples=partial(_samples, source),
        annotations=(source.path,) if has_references else (),
        check=partial(_check, source),
        arguments={
            "split": split,
            "question": question,
            "frames": str(source.selection),
            "protocol": protocol,
            "references": REFERENCES if has_references else None,
            "made_by": made_by(source.path) if has_references else None,
        },
    )


def made_by(path: Path) -> object:
    """Return `made_by` of the first line, for the record; None if there is none."""
    first = next(records(path, {"video": "name", "reference": "text"}), None)
    return None if first is None else first[1].get("made_by")


def _samples(source: Source) -> Iterator[Sample]:
    """Yield a sample for each video; its first reference is the answer, the others are extra."""
    if not source.path.is_file():
        return
    earlier_names: set[str] = set()
    for where, plain in records(source.path, {"video": "name", "reference": "text"}):
        name, references = _read_line(plain, where)
        if name in earlier_names:
            raise DataError(f"{where}: 'video'", expected="each video once", found=name[:60])
        earlier_names.add(name)
        choose_frames = source.selection.choose
        media = video_or_lost((source.videos,), name, choose_frames, patterns=FILE_PATTERNS)
        yield Sample(
            id=name,
            query=Query(
                id=query_id(name), text=source.question, media=(media,), forms=(AnswerForm.TEXT,)
            ),
            target=Target(
                answer=Answer(text=references[0]),
                references=references[1:],
                extra={"made_by": plain.get("made_by")},
            ),
            group=name,
        )


def _read_line(plain: Mapping[str, object], where: str) -> tuple[str, tuple[str, ...]]:
    """Return (video, references) of one line."""
    value = plain["reference"]
    references = [value] if isinstance(value, str) else value
    if (
        not isinstance(references, list)
        or not references
        or not all(isinstance(reference, str) and reference.strip() for reference in references)
    ):
        raise DataError(
            f"{where}: 'reference'",
            expected="a text, or a list of them, none blank",
            found=repr(value)[:60],
        )
    return text(plain, "video", where), tuple(references)


def _check(source: Source) -> Iterator[Problem]:
    """Yield a problem if the references are missing, or else for the first bad line or video."""
    if not source.path.is_file():
        yield Problem(
            str(source.path),
            "is missing: SumMe has no summaries in words, so there are "
            "no samples without a file of references of your own",
        )
        return
    try:
        for sample in _samples(source):
            find((source.videos,), sample.id, patterns=FILE_PATTERNS)
    except DataError as error:
        yield Problem(str(source.path), str(error))
