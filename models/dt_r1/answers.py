"""Answers in the form that a question is scored in, from resolved answers."""

import json
from collections.abc import Sequence

from harness.errors import ParseError
from harness.models.dt_r1.environment import ResolvedAnswer
from harness.models.dt_r1.grammar import Instance, Task
from harness.models.questions import Questions
from harness.models.tracks import around, box_at, extent
from harness.stated.numbers import stated_number
from harness.types import Answer, AnswerForm, Box, Query

WORDS = Questions()
FORMS = WORDS.forms | {
    AnswerForm.MASK,
    AnswerForm.MASK_TRACK,
    AnswerForm.BOXES,
    AnswerForm.BOX_TRACK,
    AnswerForm.COUNT,
}
"""Forms that an answer can be read as."""


def answer_for(query: Query, form: AnswerForm, answer: ResolvedAnswer) -> Answer:
    """Return an answer in one form: masks, boxes in original pixels, or what a text says.

    A segmentation also gives boxes, those around its masks; boxes give no masks.

    Raises:
        ParseError: the response's task is another one.
    """
    if form in (AnswerForm.MASK, AnswerForm.MASK_TRACK) and answer.masks is not None:
        boxes = tuple(filter(None, (extent(track[0]) for track in answer.tracks)))
        whole = len(query.media[0]) == 1 and len(boxes) == len(answer.tracks)
        return Answer(
            masks=answer.masks.rles, boxes=boxes if whole else None, no_target=answer.empty
        )
    if form in (AnswerForm.BOXES, AnswerForm.BOX_TRACK):
        return _boxes(query, form, answer)
    if answer.text is not None and form is AnswerForm.COUNT:
        count = stated_number(answer.text)
        if not count.is_integer() or count < 0:
            raise ParseError("count", expected="a whole number", found=answer.text[:60])
        return Answer(count=int(count))
    if answer.text is not None and form in WORDS.forms:
        return WORDS.read(query, form, answer.text)
    raise ParseError("task", expected=f"one that is answered with {form}", found=str(answer.task))


def _boxes(query: Query, form: AnswerForm, answer: ResolvedAnswer) -> Answer:
    length = len(query.media[0])
    tracks: Sequence[Sequence[Box | None]]
    if answer.masks is not None:
        tracks = [tuple(map(extent, track)) for track in answer.tracks]
    elif answer.instances is not None:
        tracks = instance_tracks(answer.instances, length)
    else:
        raise ParseError("task", expected="grounding", found=str(answer.task))
    if form is AnswerForm.BOXES:
        boxes = tuple(filter(None, (track[0] for track in tracks)))
        return Answer(boxes=boxes, no_target=answer.empty)
    return Answer(box_track=joint_boxes(tracks, length), no_target=answer.empty)


def instance_tracks(instances: Sequence[Instance], length: int) -> list[tuple[Box, ...]]:
    """Return a box a frame for each instance; entries of one name in several frames are one.

    Between two frames that are named, a box moves in a straight line; before the first and after
    the last it stays. In an image each entry is an instance.
    """
    if length == 1:
        return [(instance.box,) for instance in instances if instance.box is not None]
    places: dict[tuple[str, int], dict[int, Box]] = {}
    for instance in instances:
        if instance.box is None:
            continue
        copy = 0  # a second box of the same name and frame is another instance
        while instance.frame in places.get((instance.name, copy), {}):
            copy += 1
        places.setdefault((instance.name, copy), {})[instance.frame] = instance.box
    return [tuple(box_at(known, index) for index in range(length)) for known in places.values()]


def joint_boxes(tracks: Sequence[Sequence[Box | None]], length: int) -> tuple[Box | None, ...]:
    """Return the box around all instances in each frame; None where there is none."""
    return tuple(
        around([box for track in tracks if (box := track[index]) is not None])
        for index in range(length)
    )


def write_answer(query: Query, form: AnswerForm, answer: Answer) -> tuple[str, str]:
    """Return code and last turn of a response that says `answer`; no code: an empty text.

    Masks are made by the code, so that no twin needs to have them.
    """
    if form in (AnswerForm.MASK, AnswerForm.MASK_TRACK):
        if answer.no_target or answer.masks is None:
            return "", _last_turn(Task.SEGMENTATION, json.dumps({"instances": []}))
        runs = {index: mask.runs.tolist() for index, mask in enumerate(answer.masks)}
        width, height = query.size
        code = (
            "import numpy as np\n"
            f"runs = {json.dumps(list(runs.values()), separators=(',', ':'))}\n"
            "flat = [np.repeat(np.arange(len(one)) % 2 == 1, one) for one in runs]\n"
            f"masks = [one.reshape(({width}, {height})).T for one in flat]\n"
            "print(save_mask(dict(enumerate(masks)), 'answer'))"
        )
        named = {"instances": [{"name": "answer", "mask": "masks/code/answer"}]}
        return code, _last_turn(Task.SEGMENTATION, json.dumps(named))
    if form in (AnswerForm.BOXES, AnswerForm.BOX_TRACK):
        boxes = answer.boxes if form is AnswerForm.BOXES else answer.box_track
        entries = [
            {"name": "answer", "bbox": list(box), "frame": 0 if form is AnswerForm.BOXES else index}
            for index, box in enumerate(boxes or ())
            if box is not None
        ]
        return "", _last_turn(Task.GROUNDING, json.dumps({"instances": entries}))
    count = form is AnswerForm.COUNT
    return "", _last_turn(Task.VQA, str(answer.count) if count else WORDS.write(form, answer))


def _last_turn(task: Task, text: str) -> str:
    return f"<think></think><task>{task}</task><answer>{text}</answer>"
