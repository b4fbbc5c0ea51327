"""Lessons for questions with answers in words: the reasoning before the answer, by kind."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import TypeAlias

from harness.types import AnswerForm, Query
from harness.world.qa import QA
from harness.world.qa_video import MOTIONS
from harness.world.referring import DIRECTIONS
from pocket_training.vlm.training_examples import TextBuilder, TrainingExample, name
from pocket_training.vlm.views import View
from pocket_training.vlm.vocabulary import CANVAS, WORDS


def in_words(view: View, qa: QA, *, sizes_held: bool = False) -> TrainingExample:
    """A question that is answered with a letter or a number.

    Args:
        view: The view of the scene.
        qa: The question.
        sizes_held: True: each size too is compared with the best so far; see `MixtureShares`.
    """
    form = AnswerForm.NUMBER if qa.is_number else AnswerForm.CHOICE
    query = Query(id="", text=qa.text, media=(), forms=(form,), options=qa.options)
    prompt = WORDS.render(query, form)
    options = _options(prompt, qa)
    builder = TextBuilder().add("<think>")
    _reason(Reasoning(builder, view, qa), sizes_held=sizes_held)
    builder.add("</think><answer>")
    if qa.is_number:
        builder.add(round(float(qa.answer)), soft=qa.kind in MEASURED)
    else:
        builder.add(qa.letter, options[ascii_uppercase.index(qa.letter)], in_prompt=True)
    builder.add("</answer>")
    return TrainingExample(
        prompt=prompt,
        response=builder.text,
        spans=tuple(builder.spans),
        targets=tuple(dict.fromkeys(thing for thing, _ in qa.named)),
        copies=tuple(builder.copies),
        options=options,
    )


def _options(prompt: str, qa: QA) -> tuple[tuple[int, int], ...]:
    """Return the stretches of the options' words."""
    found, end = [], prompt.index(qa.text) + len(qa.text)
    for letter, option in zip(ascii_uppercase, qa.options, strict=False):
        line = f"\n{letter}. {option}"
        end = prompt.index(line, end) + len(line)
        found.append((end - len(option), end))
    return tuple(found)


STILL = MOTIONS[0, 0]
"""Option for a thing that does not move."""

UPRIGHT = re.compile("top to bottom|up or down")
"""Pattern of questions for a distance along the vertical axis."""

MEASURED = frozenset({"width", "height", "distance", "path"})
"""Kinds that are answered with a length, in hundredths of the image's side."""

Stretch: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The reasoning about a question, in progress."""

    builder: TextBuilder
    view: View
    qa: QA

    @property
    def named(self) -> tuple[tuple[int, str], ...]:
        """The things that the question names, each once, and their words."""
        return tuple(dict.fromkeys(self.qa.named))

    @property
    def axis(self) -> int:
        """The axis of a question for a distance."""
        return 1 if UPRIGHT.search(self.qa.text) else 0

    @property
    def asks_for_small(self) -> bool:
        """True if the question is for the smaller or the smallest of some things."""
        return "small" in self.qa.text.split(", ")[0]

    @property
    def frame(self) -> int:
        """The first frame."""
        return self.view.frames[0]


Fact: TypeAlias = tuple[Stretch, int]
"""Stretch of the number that decides, and the number."""
Tell: TypeAlias = Callable[[Reasoning, int], Fact]
"""Writes a fact about a thing."""


def _reason(it: Reasoning, *, sizes_held: bool) -> None:
    """Write the reasoning before the answer."""
    kind, named = it.qa.kind, it.named
    if kind in TOLD and not (sizes_held and kind in COMPARED):
        _write_each(it, named, TOLD[kind])
        _outcome(it)
    elif kind in COMPARED:
        if kind == "nearest":  # to the first one
            (first, words), *others = named
            _write_named(it, first, words)
            _middle(it, first)
            it.builder.add(", ")
            named = tuple(others)
        _compare(it, named, COMPARED[kind])
        _outcome(it)
    elif kind in MEASURED:
        facts = _write_each(it, named, LENGTHS[kind])
        (source, number), (other, far) = facts[0], facts[-1]
        if kind == "distance":
            it.builder.add(abs(number - far), source, other, soft=True)
        else:
            it.builder.add(number, source, soft=True)
    else:
        WHOLE.get(kind, _outcome)(it)


def _outcome(it: Reasoning) -> None:
    """Write the answer; where it repeats names from the reasoning, each is copied from there."""
    builder, known = it.builder, it.builder.spans_by_word
    names = str(it.qa.answer).split(", ")
    if it.qa.is_number:
        builder.add(round(float(it.qa.answer)), soft=it.qa.kind in MEASURED)
    elif not all(one in known for one in names):
        builder.add(it.qa.answer)
    else:
        for place, one in enumerate(names):
            builder.add(", " if place else "").add(one, known[one])


def _write_named(it: Reasoning, thing: int, words: str) -> None:
    """Write what a thing is called, while looking at the frame in which most of it is seen."""
    frames, masks = it.view.frames, it.view.masks
    middle = frames[len(frames) // 2]  # of equal frames the one nearest to it
    areas = {frame: int(masks[frame][thing].sum()) for frame in frames}
    clearest = max(frames, key=lambda frame: (areas[frame], -abs(frame - middle)))
    it.builder.add(words, thing=thing, frame=clearest).add(" ")


def _write_each(it: Reasoning, named: Sequence[tuple[int, str]], tell: Tell) -> list[Fact]:
    """`red circle …, blue square …: `, with the fact of each thing."""
    builder, facts = it.builder, []
    for place, (thing, words) in enumerate(named):
        start = len(builder.add(", " if place else "").text)
        _write_named(it, thing, words)
        facts.append(tell(it, thing))
        builder.spans_by_word[words] = start, len(builder.text)
    builder.add(": ")
    return facts


def _compare(it: Reasoning, named: Sequence[tuple[int, str]], tell: Tell) -> None:
    """`star 40, circle 80 best, cross 12 not: circle`: each is compared with the best so far."""
    best: list[tuple[str, Fact]] = []
    words, answer = dict(named), it.qa.answer

    def compare(it: Reasoning, thing: int) -> Fact:
        stretch, value = tell(it, thing)
        found = words[thing], (stretch, value)
        if not best:
            best.append(found)
            return stretch, value
        holder, (other, limit) = best[0]
        settled = answer in (words[thing], holder)  # rounding never decides otherwise
        better = answer == words[thing] if settled else value > limit
        it.builder.add(" ").add("best" if better else "not", other, stretch)
        if better:
            best[0] = found
        return stretch, value

    _write_each(it, named, compare)


# Facts about a thing


def _middle(it: Reasoning, thing: int) -> Fact:
    """Write the middle."""
    return it.builder.numbers(thing, it.frame, *it.view.middle(thing, it.frame)), 0


def _last_middle(it: Reasoning, thing: int) -> Fact:
    """Write the middle at the end."""
    frame = it.view.ends(thing)[1]
    return it.builder.numbers(thing, frame, *it.view.middle(thing, frame)), 0


def _place(it: Reasoning, thing: int) -> Fact:
    """Write the place along the axis of a distance."""
    place = it.view.middle(thing, it.frame)[it.axis]
    return it.builder.numbers(thing, it.frame, place), place


def _furthest(it: Reasoning, thing: int) -> Fact:
    """Write the place along the axis of the direction that is asked for."""
    direction = next(one for one in DIRECTIONS if one.far in it.qa.text)
    place = it.view.middle(thing, it.frame)[direction.axis]
    return it.builder.numbers(thing, it.frame, place), place * direction.sign


def _gap(it: Reasoning, thing: int) -> Fact:
    """Write the place, and the distance from the first thing that the question names."""
    middle = it.view.middle(thing, it.frame)
    it.builder.numbers(thing, it.frame, *middle)
    anchor = it.view.middle(it.qa.named[0][0], it.frame)
    gap = min(round(math.dist(middle, anchor)), CANVAS)
    return it.builder.add(" ").numbers(thing, it.frame, gap), -gap


def _extent(it: Reasoning, thing: int) -> Fact:
    """Write width and height, and the side of a square as large as the visible part."""
    left, top, right, bottom = it.view.boxes[it.frame][thing]
    side = round(math.sqrt(float(it.view.masks[it.frame][thing].mean())) * CANVAS)
    it.builder.numbers(thing, it.frame, right - left, bottom - top)
    stretch = it.builder.add(" ").numbers(thing, it.frame, side)
    return stretch, -side if it.asks_for_small else side


def _edges(it: Reasoning, thing: int) -> Fact:
    """Write both edges along the axis of a size; the number is the distance between them."""
    low, high = it.view.boxes[it.frame][thing][("width", "height").index(it.qa.kind) :: 2]
    return it.builder.numbers(thing, it.frame, low, high), int(high - low)


def _movement(
    it: Reasoning, thing: int, axis: int | None = None, frames: tuple[int, int] | None = None
) -> Fact:
    """Write the first and the last place along an axis; the number is the distance between."""
    axis, frames = it.axis if axis is None else axis, frames or it.view.ends(thing)
    first, last = (it.view.middle(thing, frame)[axis] for frame in frames)
    return it.builder.ends(it.view, thing, axis, frames), abs(first - last)


def _way(it: Reasoning, thing: int) -> Fact:
    """Write the motion: the first and last place, across and down."""
    stretch = it.builder.way(it.view, thing)
    if not it.view.scene.things[thing].is_moving:
        it.builder.spans_by_word[STILL] = stretch
    return stretch, 0


def _steps(it: Reasoning, thing: int) -> Fact:
    """Write the first and last place along each axis, and the distance; the frames in between, and
    the distance from the first frame to the last.
    """
    builder, scene = it.builder, it.view.scene
    one, (first, last) = scene.things[thing], it.view.clear_ends(thing)
    across = one.dx * (scene.frames - 1) * CANVAS / scene.width
    down = one.dy * (scene.frames - 1) * CANVAS / scene.height
    sources = []
    for axis in (0, 1):
        source, moved = _movement(it, thing, axis, (first, last))
        start = len(builder.add(" ").text)
        builder.add(moved, source, soft=True)
        sources.append((start, len(builder.text)))
        builder.add(" ")
    sources.append(builder.numbers(thing, last, last - first))
    path = min(round(math.hypot(across, down)), CANVAS)
    start = len(builder.add(" ").text)
    builder.add(path, *sources, soft=True)
    return (start, len(builder.text)), path


def _visible(end: int) -> Tell:
    def tell(it: Reasoning, thing: int) -> Fact:
        """Write the first (or last) frame in which the thing is in sight: the earliest is best."""
        frame, start = it.view.ends(thing)[end], len(it.builder.text)
        it.builder.add(frame, thing=thing, frame=frame)
        return (start, len(it.builder.text)), -frame

    return tell


# Kinds of questions with a form of their own


def _corner(it: Reasoning) -> None:
    """Write two places, then `40 80 left 62 30 lower: lower left`, one axis after the other."""
    builder = it.builder
    _write_each(it, it.named, _middle)
    numbers = [(span.start, span.end) for span in builder.spans if span.soft]
    down, across = str(it.qa.answer).split()
    for axis, word in enumerate((across, down)):
        start = len(builder.add(" " if axis else "").text)
        for place, number in enumerate(numbers[axis::2]):
            builder.add(" " if place else "")
            builder.add(builder.text[slice(*number)], number, soft=True)
        source = start, len(builder.text)
        start = len(builder.add(" ").text)
        builder.add(word, source)
        builder.spans_by_word[word] = start, len(builder.text)
    builder.add(": ").add(down, builder.spans_by_word[down])
    builder.add(" ").add(across, builder.spans_by_word[across])


def _appearances(it: Reasoning) -> None:
    """Write the things that come into the image, with the frame, in order, and their number."""
    coming = sorted((it.view.ends(thing)[0], thing) for thing in {one for one, _ in it.qa.named})
    for place, (frame, thing) in enumerate(coming):
        it.builder.add(", " if place else "")
        _write_named(it, thing, name(it.view.scene.things[thing]))
        it.builder.add(frame, thing=thing, frame=frame)
    it.builder.add(": ")
    _outcome(it)


def _counted(it: Reasoning) -> None:
    """Write the places of the things counted, one after the other, and their number."""
    things = it.view.in_order({thing for thing, _ in it.qa.named}, it.frame)
    for place, thing in enumerate(things):
        it.builder.add(", " if place else "")
        _middle(it, thing)
    it.builder.add(": ")
    _outcome(it)


TOLD: Mapping[str, Tell] = {
    **dict.fromkeys(("relation", "depth", "exists", "colour", "shape"), _middle),
    "size": _extent,
    "largest": _extent,
    "direction": _way,
    "end_relation": _last_middle,
}
"""Facts that are told of each thing before the outcome, by the kind of question."""

COMPARED: Mapping[str, Tell] = {
    "size": _extent,
    "largest": _extent,
    "nearest": _gap,
    "extreme": _furthest,
    "speed": _steps,
    "order": _visible(0),
    "order3": _visible(0),
    "leaves": _visible(1),
}
"""Facts by which each thing is compared with the best so far; sizes where they are held."""

LENGTHS: Mapping[str, Tell] = {
    "width": _edges,
    "height": _edges,
    "distance": _place,
    "path": _movement,
}
"""Facts that hold the length that is asked for, or the two numbers that it lies between."""

WHOLE: Mapping[str, Callable[[Reasoning], None]] = {
    "relation4": _corner,
    "count": _counted,
    "count_choice": _counted,
    "enter_count": _appearances,
}
