"""STV-205k (Video-STR, 2025): training questions of eight types about space and time.

The package in `examples/stv` builds the set from TAO, KITTI tracking and ScanNet, into
`ROOT/stv_205k`. `graphs.jsonl` there has the scene graphs (objects and their centres in metres) of
clips with depth. A line of `questions.jsonl`, whose images lie below ROOT:

    {"problem_id": "kitti/0001/0/relative_distance-0", "problem": "At 1.5 s, from the center points
     of the car and the cyclist, what is the direct distance separating them in meters?",
     "data_type": "video", "problem_type": "numerical", "options": [],
     "solution": "<answer>7.31</answer>", "data_source": "STV-205k", "task": "relative_distance",
     "source": "kitti", "frames": ["kitti_tracking/training/image_02/0001/000000.png", …],
     "rate": 2.0, "size": [1242, 375], "frame": 3, "objects": ["car", "cyclist"]}
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from harness.errors import DataError, MediaError
from harness.layout import field, file, folder, path_inside
from harness.media import Media, frame_files, open_image, placeholder_media
from harness.task import Task, choose
from harness.tasks.qa.images import image_files, image_problems
from harness.tasks.qa.questions import Question
from harness.tasks.qa.tables import listed_ids, records, sound, text
from harness.tasks.qa.task import QuestionFormat, question_task
from harness.tasks.rvos.videos import refuse_missing
from harness.tasks.training.questions import FORMS, read_questions
from harness.tasks.training.scoring import ANSWERS as PROTOCOLS

FIX = (
    "Build it with `python -m stv_builder --data ROOT`, which `pip install ./examples/stv` in a "
    "checkout installs."
)
PROBLEM_TYPES = ("multiple choice", "numerical", "IoU", "IoU 3D")
Part = Literal[
    "all",
    "object_counting",
    "relative_direction",
    "relative_distance",
    "appearance_order",
    "object_size",
    "motion_tracking",
    "object_localization",
    "displacement",
]
KINDS = get_args(Part)[1:]
"""The eight types of questions, in the paper's order."""


@dataclass(frozen=True, slots=True)
class Source:
    """Folders of the questions, and the choice of questions by split and type."""

    data: Path
    """Root of all data sets; paths of images start there."""
    root: Path
    """Folder of STV-205k."""
    ids: frozenset[str] | None
    """Ids of the split; None: all."""
    part: Part

    @property
    def questions(self) -> Path:
        """The file of questions."""
        return self.root / "questions.jsonl"

    @property
    def graphs(self) -> Path:
        """The file of scene graphs, which may be missing."""
        return self.root / "graphs.jsonl"

    def includes(self, question: Question) -> bool:
        """Return True if a question belongs to the split and to the part."""
        in_split = self.ids is None or question.id in self.ids
        return in_split and self.part in ("all", question.row.get("task"))


def stv_205k(
    data: Path,
    *,
    split: Literal["train", "rl"] = "train",
    part: Part = "all",
    protocol: str = "train/answers",
) -> Task:
    """One sample per question.

    The target's `extra` has `task`, `source`, `problem_type`, `frame` and, of clips with depth,
    `graphs`: the frames of the sample's line in `graphs.jsonl`.

    Args:
        split: All questions, or those of `rl_ids.txt`: 12,000, uniform over the types.
        part: All types, or one.
        protocol: `train/answers`, for curves.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    root = folder(data / "stv_205k", fix=FIX)
    ids_file = root / "rl_ids.txt"
    files = [root / "questions.jsonl", root / "graphs.jsonl"]
    file(files[0], expected="the questions", fix=FIX)
    if split == "rl":
        files.append(file(ids_file, expected="the ids of the subset", fix=FIX))
    source = Source(data, root, listed_ids(ids_file) if split == "rl" else None, part)
    question_format = QuestionFormat(
        files=tuple(path for path in files if path.is_file()),
        read=partial(_questions, source),
        choose=lambda: sound(_questions(source, all_questions=False)),
        open=_open,
        problems=partial(image_problems, open=_open),
        opens_all=False,
    )
    return question_task(
        question_format,
        "stv_205k",
        protocol=scoring,
        split=split,
        forms=tuple(FORMS[problem_type] for problem_type in PROBLEM_TYPES),
        arguments={"part": part},
    )


def _questions(source: Source, *, all_questions: bool = True) -> Iterator[Question | DataError]:
    """Yield questions with their scene graphs, and the error of a graph without a question.

    Args:
        source: The files, and the choice of questions.
        all_questions: False to yield only the questions that `source` includes.
    """
    graphs = _Graphs(source.graphs)
    for question in read_questions(source.questions, source.data, problem_types=PROBLEM_TYPES):
        try:
            if isinstance(question, DataError):
                raise question
            # Also for a question that is left out: the graphs are read in the questions' order.
            graph = graphs.graphs_of(question.id)
            if all_questions or source.includes(question):
                yield _question(question, source, graph)
        except DataError as error:
            yield error
    if all_questions and graphs.leftover:
        yield DataError(f"{graphs.leftover}: is the graph of no question, or not in their order")


def _question(question: Question, source: Source, graph: list[object] | None) -> Question:
    """Check the fields that only lines of STV-205k have, and add them and the graph."""
    plain, where = question.row, f"{source.questions}, question {question.id!r}"
    task = text(plain, "task", where)
    if task not in KINDS:
        raise DataError(f"{where}: 'task'", expected=f"one of {', '.join(KINDS)}", found=task[:40])
    names, rate = field(plain, "frames", list, where), field(plain, "rate", (int, float), where)
    video = question.categories["medium"] == "video"
    if not names or not rate > 0 or video != (len(names) > 1):
        raise DataError(
            f"{where}: 'frames' and 'rate'",
            expected="one frame of an image, several of a video, and a rate above 0",
            found=f"{len(names)} and {rate}",
        )
    origin = text(plain, "source", where)
    extra = {
        "task": task,
        "source": origin,
        "problem_type": question.problem_type,
        "frame": plain.get("frame"),
    }
    return replace(
        question,
        media=tuple(path_inside(source.data, name) for name in names),
        size=_size(plain, where),
        group="/".join(question.id.split("/")[:2]),
        objects=tuple(field(plain, "objects", list, where)),
        problem_type="",
        categories={
            "task": task,
            "source": origin,
            "medium": question.categories["medium"],
        },
        extra=extra if graph is None else {**extra, "graphs": graph},
    )


def _open(question: Question) -> tuple[Media, ...]:
    """Open the frames that a question names; return a stand-in if one is missing or damaged."""
    paths, size = image_files(question), question.size
    assert size is not None, "the reader gives one"
    try:
        refuse_missing(paths)
        media = (
            open_image(paths[0])
            if len(paths) == 1
            else frame_files(paths, frames_per_second=question.row["rate"])
        )
    except MediaError as error:
        return (placeholder_media(error, size=size, frames=len(paths)),)
    if media.size != size:
        raise DataError(
            f"question {question.id!r}: 'size'",
            expected="{} × {}, as in the question".format(*size),
            found="{} × {}".format(*media.size),
        )
    return (media,)


def _size(plain: object, where: str) -> tuple[int, int]:
    """Return the (width, height) that a line states for its images, in pixels."""
    size = field(plain, "size", list, where)
    if len(size) != 2 or not all(type(side) is int and side > 0 for side in size):
        raise DataError(f"{where}: 'size'", expected="[width, height]", found=repr(size)[:40])
    return size[0], size[1]


class _Graphs:
    """Reader of scene graphs, one line at a time.

    Only some questions have a graph; the graphs are in the order of their questions.
    """

    def __init__(self, path: Path) -> None:
        columns = {"id": "question", "graphs": "frames"}
        self._lines = records(path, columns) if path.is_file() else iter(())
        self._next = next(self._lines, None)

    def graphs_of(self, name: str) -> list[object] | None:
        """Return the frames of a question's graph; None if it has none.

        Each call is for a later question of the file.

        Raises:
            DataError: a line is not a graph.
        """
        if self._next is None or self._next[1]["id"] != name:
            return None
        where, plain = self._next
        self._next = next(self._lines, None)
        return read_graph(plain, where)

    @property
    def leftover(self) -> str | None:
        """Place of the first graph that belongs to no question; None if there is none."""
        return None if self._next is None else self._next[0]


def read_graph(plain: object, where: str) -> list[object]:
    """Check one line of `graphs.jsonl`, and return its frames as they are.

    Raises:
        DataError: a frame lacks a number ≥ 0, or one of its nodes lacks a name, a centre of three
            numbers (in metres) or a count ≥ 1.
    """
    frames: list[object] = field(plain, "graphs", list, where)
    for frame in frames:
        if field(frame, "frame", int, f"{where}, a frame") < 0:
            raise DataError(f"{where}: 'frame'", expected="a number from 0", found="a negative one")
        for node in field(frame, "nodes", list, f"{where}, a frame"):
            name = field(node, "category", str, f"{where}, a node")
            centre = field(node, "centre", list, f"{where}, {name!r}")
            if len(centre) != 3 or not all(
                type(number) in (int, float) and abs(number) < 1e6 for number in centre
            ):
                raise DataError(
                    f"{where}: {name!r}", expected="[x, y, z] in metres", found=repr(centre)[:60]
                )
            if field(node, "count", int, f"{where}, {name!r}") < 1:
                raise DataError(f"{where}: {name!r}", expected="a count from 1", found="less")
    return frames
