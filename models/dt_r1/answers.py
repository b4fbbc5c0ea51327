"""Convert between DT-R1's resolved answers and the forms of answer that queries ask for.

`answer_for` turns a `ResolvedAnswer` (masks, boxes or text of a rollout) into an `Answer`;
`write_answer` makes the code and the last turn of a rollout that would give an `Answer`.
"""

import json
from collections.abc import Sequence

from harness.errors import ParseError
from harness.models.dt_r1.environment import ResolvedAnswer
from harness.models.dt_r1.grammar import Instance, Task
from harness.models.questions import Questions
from harness.models.tracks import around, box_at, extent
from harness.stated.numbers import stated_number
from harness.types import Answer, AnswerForm, Box, Query

WORDS = Questions()  # reads and writes answers in words
FORMS = WORDS.forms | {
    AnswerForm.MASK,
    AnswerForm.MASK_TRACK,
    AnswerForm.BOXES,
    AnswerForm.BOX_TRACK,
    AnswerForm.COUNT,
}
"""Forms of answer that a rollout can give."""


def answer_for(query: Query, form: AnswerForm, answer: ResolvedAnswer) -> Answer:
    """Return an answer in one form: masks, boxes in pixels of the image, or the value of a text.

    A segmentation can answer with boxes too (those around its masks); boxes give no masks.

    Raises:
        ParseError: the response chose a task that does not give this form.
    """
    if form in (AnswerForm.MASK, AnswerForm.MASK_TRACK) and answer.masks is not None:
        boxes = tuple(filter(None, (extent(track[0]) for track in answer.tracks)))
        all_have_boxes = len(query.media[0]) == 1 and len(boxes) == len(answer.tracks)
        return Answer(
            masks=answer.masks.rles,
            boxes=boxes if all_have_boxes else None,
            no_target=answer.empty,
        )
    if form in (AnswerForm.BOXES, AnswerForm.BOX_TRACK):
        return _box_answer(query, form, answer)
    if answer.text is not None and form is AnswerForm.COUNT:
        number = stated_number(answer.text)
        if not number.is_integer() or number < 0:
            raise ParseError("count", expected="a whole number", found=answer.text[:60])
        return Answer(count=int(number))
    if answer.text is not None and form in WORDS.forms:
        return WORDS.read(query, form, answer.text)
    raise ParseError("task", expected=f"one that is answered with {form}", found=str(answer.task))


def _box_answer(query: Query, form: AnswerForm, answer: ResolvedAnswer) -> Answer:
    """Return boxes in an image, or one joint box for each frame; ParseError without instances."""
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
    """Return the box of each instance in each of `length` frames.

    Entries of the same name in different frames are one instance; between these frames its box is
    interpolated linearly, before the first and after the last it stays. In an image each entry is
    an instance.
    """
    if length == 1:
        return [(instance.box,) for instance in instances if instance.box is not None]
    boxes_by_frame: dict[tuple[str, int], dict[int, Box]] = {}
    for instance in instances:
        if instance.box is None:
            continue
        copy = 0  # a second box of the same name and frame is another instance
        while instance.frame in boxes_by_frame.get((instance.name, copy), {}):
            copy += 1
        boxes_by_frame.setdefault((instance.name, copy), {})[instance.frame] = instance.box
    return [
        tuple(box_at(boxes, frame) for frame in range(length)) for boxes in boxes_by_frame.values()
    ]


def joint_boxes(tracks: Sequence[Sequence[Box | None]], length: int) -> tuple[Box | None, ...]:
    """Return the box around all instances in each frame; None in a frame without instances."""
    boxes_by_frame = ([track[frame] for track in tracks] for frame in range(length))
    return tuple(around([box for box in boxes if box is not None]) for boxes in boxes_by_frame)


def write_answer(query: Query, form: AnswerForm, answer: Answer) -> tuple[str, str]:
    """Return (code, last turn) of a rollout that gives `answer`; the code is "" if none is needed.

    Masks are made by the code, so that the twin does not need to contain them.
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
        answer_instances = {"instances": [{"name": "answer", "mask": "masks/code/answer"}]}
        return code, _last_turn(Task.SEGMENTATION, json.dumps(answer_instances))
    if form in (AnswerForm.BOXES, AnswerForm.BOX_TRACK):
        boxes = answer.boxes if form is AnswerForm.BOXES else answer.box_track
        entries = [
            {"name": "answer", "bbox": list(box), "frame": 0 if form is AnswerForm.BOXES else index}
            for index, box in enumerate(boxes or ())
            if box is not None
        ]
        return "", _last_turn(Task.GROUNDING, json.dumps({"instances": entries}))
    text = str(answer.count) if form is AnswerForm.COUNT else WORDS.write(form, answer)
    return "", _last_turn(Task.VQA, text)


def _last_turn(task: Task, text: str) -> str:
    """Return the last turn of a rollout, without reasoning, that gives `text` as the answer."""
    return f"<think></think><task>{task}</task><answer>{text}</answer>"
