"""Lessons for questions that are answered in words: what is told before the answer, by kind."""

import math
import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from harness.trainers.pocket.lessons import Lesson, Writing
from harness.trainers.pocket.views import View
from harness.trainers.pocket.vocabulary import CANVAS, WORDS
from harness.types import AnswerForm, Query
from harness.world.qa import LETTERS, QA


def in_words(view: View, qa: QA) -> Lesson:
    """A question that is answered with a letter or a number."""
    form = AnswerForm.NUMBER if qa.is_number else AnswerForm.CHOICE
    query = Query(id="", text=qa.text, media=(), forms=(form,), options=qa.options)
    prompt = WORDS.ask(query, form)
    options = _options(prompt, qa)
    writing = Writing().add("<think>")
    REASONS.get(qa.kind, _outcome)(writing, view, qa)
    writing.add("</think><answer>")
    if qa.is_number:
        writing.add(round(float(qa.answer)), soft=qa.kind in MEASURED)
    else:
        writing.copy(qa.letter, options[LETTERS.index(qa.letter)], in_prompt=True)
    writing.add("</answer>")
    return Lesson(
        kind=qa.kind,
        prompt=prompt,
        reply=writing.text,
        spans=tuple(writing.spans),
        meant=tuple(dict.fromkeys(thing for thing, _ in qa.named)),
        copies=tuple(writing.copies),
        options=options,
    )


def _options(prompt: str, qa: QA) -> tuple[tuple[int, int], ...]:
    """Where the words of each option stand."""
    found, end = [], prompt.index(qa.text) + len(qa.text)
    for letter, option in zip(LETTERS, qa.options, strict=False):
        line = f"\n{letter}. {option}"
        end = prompt.index(line, end) + len(line)
        found.append((end - len(option), end))
    return tuple(found)


Reason: TypeAlias = Callable[[Writing, View, QA], object]
"""Writes the reasoning of one kind of question."""

UPRIGHT = re.compile("top to bottom|up or down")
"""What questions for a distance say where they do not ask for the one from left to right."""

MEASURED = frozenset({"width", "height", "distance", "path"})
"""Kinds that are answered with a length, in hundredths of the picture's side."""


def _outcome(writing: Writing, view: View, qa: QA) -> Writing:
    """The answer; where it names things that were told of, each is copied from there."""
    if qa.is_number:
        return writing.add(round(float(qa.answer)), soft=qa.kind in MEASURED)
    told = writing.told
    names = str(qa.answer).split(", ")
    if not all(one in told for one in names):
        return writing.add(qa.answer)
    for place, one in enumerate(names):
        writing.add(", " if place else "").copy(one, told[one])
    return writing


def _each(writing: Writing, view: View, qa: QA, tell: Callable[[Writing, int], object]) -> Writing:
    """`red circle …, blue square …: `, with what `tell` writes of each thing."""
    for place, (thing, words) in enumerate(dict.fromkeys(qa.named)):
        writing.add(", " if place else "")
        start = len(writing.text)
        writing.add(words, thing=thing, frame=_clearest(view, thing)).add(" ")
        tell(writing, thing)
        writing.told[words] = start, len(writing.text)
    return writing.add(": ")


def _clearest(view: View, thing: int) -> int:
    """The frame in which most of a thing is seen, of equal ones the one nearest the middle."""
    middle = view.frames[len(view.frames) // 2]
    areas = {frame: int(view.masks[frame][thing].sum()) for frame in view.frames}
    return max(view.frames, key=lambda frame: (areas[frame], -abs(frame - middle)))


def _numbers(writing: Writing, thing: int, frame: int, *numbers: float) -> Writing:
    for place, number in enumerate(numbers):
        writing.add(" " if place else "")
        writing.add(int(number), thing=thing, frame=frame, soft=True)
    return writing


def _places(writing: Writing, view: View, qa: QA) -> object:
    """Where the middle of each thing is."""

    def tell(writing: Writing, thing: int) -> object:
        frame = view.frames[0]
        return _numbers(writing, thing, frame, *view.middle(thing, frame))

    return _outcome(_each(writing, view, qa, tell), view, qa)


def _gaps(writing: Writing, view: View, qa: QA) -> object:
    """Where each thing is, and how far from the first one, which is asked about."""
    frame = view.frames[0]
    anchor = view.middle(qa.named[0][0], frame)

    def tell(writing: Writing, thing: int) -> object:
        middle = view.middle(thing, frame)
        _numbers(writing, thing, frame, *middle)
        if thing == qa.named[0][0]:
            return writing
        gap = min(round(math.dist(middle, anchor)), CANVAS)
        return _numbers(writing.add(" "), thing, frame, gap)

    return _outcome(_each(writing, view, qa, tell), view, qa)


def _last_places(writing: Writing, view: View, qa: QA) -> object:
    """Where each thing is at the end."""

    def tell(writing: Writing, thing: int) -> object:
        frame = _ends(view, thing)[1]
        return _numbers(writing, thing, frame, *view.middle(thing, frame))

    return _outcome(_each(writing, view, qa, tell), view, qa)


def _extents(writing: Writing, view: View, qa: QA) -> object:
    """How wide and how high each thing is, and the side of a square as large as what is seen."""

    def tell(writing: Writing, thing: int) -> object:
        frame = view.frames[0]
        left, top, right, bottom = view.boxes[frame][thing]
        side = round(math.sqrt(float(view.masks[frame][thing].mean())) * CANVAS)
        return _numbers(writing, thing, frame, right - left, bottom - top, side)

    return _outcome(_each(writing, view, qa, tell), view, qa)


def _edges(axis: int) -> Reason:
    def reason(writing: Writing, view: View, qa: QA) -> object:
        """Both edges of a thing, and what lies between them."""
        frame = view.frames[0]
        spread = []

        def tell(writing: Writing, thing: int) -> object:
            low, high = view.boxes[frame][thing][axis::2]
            spread.append(high - low)
            return _numbers(writing, thing, frame, low, high)

        return _each(writing, view, qa, tell).add(int(spread[0]), soft=True)

    return reason


def _apart(writing: Writing, view: View, qa: QA) -> object:
    """The middles of two things along an axis, and the distance between them."""
    axis = 1 if UPRIGHT.search(qa.text) else 0
    frame = view.frames[0]
    middles = []

    def tell(writing: Writing, thing: int) -> object:
        middles.append(view.middle(thing, frame)[axis])
        return _numbers(writing, thing, frame, middles[-1])

    return _each(writing, view, qa, tell).add(abs(middles[0] - middles[-1]), soft=True)


def _ends(view: View, thing: int) -> tuple[int, int]:
    """The first and the last frame in which a thing is in sight."""
    seen = [frame for frame in view.frames if view.in_sight(thing, frame)]
    return seen[0], seen[-1]


def _ways(writing: Writing, view: View, qa: QA) -> object:
    """Where each thing is at first and at last."""

    def tell(writing: Writing, thing: int) -> object:
        first, last = _ends(view, thing)
        _numbers(writing, thing, first, *view.middle(thing, first)).add(" to ")
        return _numbers(writing, thing, last, *view.middle(thing, last))

    return _outcome(_each(writing, view, qa, tell), view, qa)


def _steps(writing: Writing, view: View, qa: QA) -> object:
    """Where each thing is at first and at last, and how far it moves from frame one to the last."""

    def tell(writing: Writing, thing: int) -> object:
        one, frames = view.scene.things[thing], view.scene.frames - 1
        across = one.dx * frames * CANVAS / view.scene.width
        down = one.dy * frames * CANVAS / view.scene.height
        first, last = _ends(view, thing)
        _numbers(writing, thing, first, *view.middle(thing, first)).add(" to ")
        _numbers(writing, thing, last, *view.middle(thing, last)).add(" ")
        return _numbers(writing, thing, last, min(round(math.hypot(across, down)), CANVAS))

    return _outcome(_each(writing, view, qa, tell), view, qa)


def _path(writing: Writing, view: View, qa: QA) -> object:
    """Where a thing is at first and at last along an axis, and the distance between."""
    axis = 1 if UPRIGHT.search(qa.text) else 0
    middles: list[int] = []

    def tell(writing: Writing, thing: int) -> object:
        first, last = _ends(view, thing)
        middles.extend(view.middle(thing, frame)[axis] for frame in (first, last))
        _numbers(writing, thing, first, middles[0]).add(" to ")
        return _numbers(writing, thing, last, middles[1])

    return _each(writing, view, qa, tell).add(abs(middles[0] - middles[1]), soft=True)


def _arrivals(writing: Writing, view: View, qa: QA) -> object:
    """The first frame in which each thing is in sight."""

    def tell(writing: Writing, thing: int) -> object:
        first = _ends(view, thing)[0]
        return writing.add(first, thing=thing, frame=first)

    return _outcome(_each(writing, view, qa, tell), view, qa)


def _departures(writing: Writing, view: View, qa: QA) -> object:
    """The last frame in which each thing is in sight."""

    def tell(writing: Writing, thing: int) -> object:
        last = _ends(view, thing)[1]
        return writing.add(last, thing=thing, frame=last)

    return _outcome(_each(writing, view, qa, tell), view, qa)


def _counted(writing: Writing, view: View, qa: QA) -> object:
    """The places of the things counted, one after the other, and their number."""
    frame = view.frames[0]
    for place, thing in enumerate(view.in_order({thing for thing, _ in qa.named}, frame)):
        writing.add(", " if place else "")
        _numbers(writing, thing, frame, *view.middle(thing, frame))
    return _outcome(writing.add(": "), view, qa)


REASONS: Mapping[str, Reason] = {
    "relation": _places,
    "relation4": _places,
    "nearest": _gaps,
    "extreme": _places,
    "depth": _places,
    "exists": _places,
    "colour": _places,
    "shape": _places,
    "size": _extents,
    "largest": _extents,
    "count": _counted,
    "count_choice": _counted,
    "width": _edges(0),
    "height": _edges(1),
    "distance": _apart,
    "direction": _ways,
    "speed": _steps,
    "order": _arrivals,
    "order3": _arrivals,
    "leaves": _departures,
    "end_relation": _last_places,
    "path": _path,
}
"""What is told before the answer, by the kind of question."""
