"""Lessons for questions with answers in words: the reasoning before the answer, by kind."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
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
    reasons = {**REASONS, **SIZES_HELD} if sizes_held else REASONS
    reasons.get(qa.kind, _outcome)(builder, view, qa)
    builder.add("</think><answer>")
    if qa.is_number:
        builder.add(round(float(qa.answer)), soft=qa.kind in MEASURED)
    else:
        builder.copy(qa.letter, options[ascii_uppercase.index(qa.letter)], in_prompt=True)
    builder.add("</answer>")
    return TrainingExample(
        kind=qa.kind,
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

Reason: TypeAlias = Callable[[TextBuilder, View, QA], object]
"""Writes the reasoning of one kind of question."""

UPRIGHT = re.compile("top to bottom|up or down")
"""Pattern of questions for a distance along the vertical axis."""

MEASURED = frozenset({"width", "height", "distance", "path"})
"""Kinds that are answered with a length, in hundredths of the image's side."""


def _outcome(builder: TextBuilder, view: View, qa: QA) -> TextBuilder:
    """Write the answer; where it repeats names from the reasoning, each is copied from there."""
    if qa.is_number:
        return builder.add(round(float(qa.answer)), soft=qa.kind in MEASURED)
    known = builder.spans_by_word
    names = str(qa.answer).split(", ")
    if not all(one in known for one in names):
        return builder.add(qa.answer)
    for place, one in enumerate(names):
        builder.add(", " if place else "").copy(one, known[one])
    return builder


def _write_each(
    builder: TextBuilder, view: View, qa: QA, tell: Callable[[TextBuilder, int], object]
) -> TextBuilder:
    """`red circle …, blue square …: `, with the text of `tell` about each thing."""
    for place, (thing, words) in enumerate(dict.fromkeys(qa.named)):
        builder.add(", " if place else "")
        start = len(builder.text)
        builder.add(words, thing=thing, frame=_clearest(view, thing)).add(" ")
        tell(builder, thing)
        builder.spans_by_word[words] = start, len(builder.text)
    return builder.add(": ")


def _clearest(view: View, thing: int) -> int:
    """The frame in which most of a thing is seen, of equal ones the one nearest the middle."""
    middle = view.frames[len(view.frames) // 2]
    areas = {frame: int(view.masks[frame][thing].sum()) for frame in view.frames}
    return max(view.frames, key=lambda frame: (areas[frame], -abs(frame - middle)))


Decides: TypeAlias = Callable[[TextBuilder, int], tuple[tuple[int, int], float]]
"""Function that writes the deciding fact about a thing; it returns the stretch of the deciding
number, and the number, of which more is better."""


def _best(builder: TextBuilder, view: View, qa: QA, tell: Decides) -> TextBuilder:
    """`star 40, circle 80 best, cross 12 not: circle`: each is compared with the best so far."""
    best: list[tuple[str, tuple[int, int], float]] = []
    words = dict(qa.named)

    def compare(builder: TextBuilder, thing: int) -> object:
        stretch, value = tell(builder, thing)
        found = words[thing], stretch, value
        if not best:
            best.append(found)
            return builder
        _, other, minimum = best[0]
        settled = qa.answer in (words[thing], best[0][0])  # rounding never decides otherwise
        better = qa.answer == words[thing] if settled else value > minimum
        word = "best" if better else "not"
        builder.add(" ").follow(word, other, stretch)
        if better:
            best[0] = found
        return builder

    return _outcome(_write_each(builder, view, qa, compare), view, qa)


def _places(builder: TextBuilder, view: View, qa: QA) -> object:
    """Write the middle of each thing."""
    return _outcome(_write_each(builder, view, qa, _middles(view)), view, qa)


def _middles(view: View) -> Callable[[TextBuilder, int], object]:
    def tell(builder: TextBuilder, thing: int) -> object:
        frame = view.frames[0]
        return builder.numbers(thing, frame, *view.middle(thing, frame))

    return tell


def _corner(builder: TextBuilder, view: View, qa: QA) -> object:
    """Write two places, then `40 80 left 62 30 lower: lower left`, one axis after the other."""
    frame = view.frames[0]
    numbers_of_things: list[list[tuple[int, int]]] = []

    def tell(builder: TextBuilder, thing: int) -> object:
        across, down = view.middle(thing, frame)
        numbers_of_things.append([builder.numbers(thing, frame, across)])
        numbers_of_things[-1].append(builder.add(" ").numbers(thing, frame, down))
        return builder

    _write_each(builder, view, qa, tell)
    down, across = str(qa.answer).split()
    for axis, word in enumerate((across, down)):
        start = len(builder.add(" " if axis else "").text)
        for place, one in enumerate(numbers_of_things):
            number = builder.text[slice(*one[axis])]
            builder.add(" " if place else "").copy(number, one[axis], soft=True)
        source = start, len(builder.text)
        start = len(builder.add(" ").text)
        builder.copy(word, source)
        builder.spans_by_word[word] = start, len(builder.text)
    builder.add(": ").copy(down, builder.spans_by_word[down])
    return builder.add(" ").copy(across, builder.spans_by_word[across])


def _write_furthest(builder: TextBuilder, view: View, qa: QA) -> object:
    """Write the place of each thing along the question's axis."""
    direction = next(one for one in DIRECTIONS if one.far in qa.text)

    def tell(builder: TextBuilder, thing: int) -> tuple[tuple[int, int], float]:
        frame = view.frames[0]
        place = view.middle(thing, frame)[direction.axis]
        return builder.numbers(thing, frame, place), place * direction.sign

    return _best(builder, view, qa, tell)


def _gaps(builder: TextBuilder, view: View, qa: QA) -> object:
    """Write the place of each thing, and its distance from the first, the question's subject."""
    frame = view.frames[0]
    (first, words), *others = dict.fromkeys(qa.named)
    anchor = view.middle(first, frame)
    builder.add(words, thing=first, frame=_clearest(view, first)).add(" ")
    builder.numbers(first, frame, *anchor)

    def tell(builder: TextBuilder, thing: int) -> tuple[tuple[int, int], float]:
        middle = view.middle(thing, frame)
        builder.numbers(thing, frame, *middle)
        gap = min(round(math.dist(middle, anchor)), CANVAS)
        return builder.add(" ").numbers(thing, frame, gap), -gap

    return _best(builder.add(", "), view, replace(qa, named=tuple(others)), tell)


def _last_places(builder: TextBuilder, view: View, qa: QA) -> object:
    """Write the place of each thing at the end."""

    def tell(builder: TextBuilder, thing: int) -> object:
        frame = view.ends(thing)[1]
        return builder.numbers(thing, frame, *view.middle(thing, frame))

    return _outcome(_write_each(builder, view, qa, tell), view, qa)


def _extent(builder: TextBuilder, view: View, thing: int) -> tuple[tuple[int, int], int]:
    """Write width and height of a thing, and the side of a square as large as its visible part.

    Returns the stretch of the side, and the side.
    """
    frame = view.frames[0]
    left, top, right, bottom = view.boxes[frame][thing]
    side = round(math.sqrt(float(view.masks[frame][thing].mean())) * CANVAS)
    builder.numbers(thing, frame, right - left, bottom - top)
    return builder.add(" ").numbers(thing, frame, side), side


def _extents(builder: TextBuilder, view: View, qa: QA) -> object:
    """Write the size of each thing."""

    def tell(builder: TextBuilder, thing: int) -> object:
        return _extent(builder, view, thing)

    return _outcome(_write_each(builder, view, qa, tell), view, qa)


def _extents_held(builder: TextBuilder, view: View, qa: QA) -> object:
    """Write the size of each thing, and the comparison with those before."""
    sign = -1 if "small" in qa.text.split(", ")[0] else 1

    def tell(builder: TextBuilder, thing: int) -> tuple[tuple[int, int], float]:
        stretch, side = _extent(builder, view, thing)
        return stretch, side * sign

    return _best(builder, view, qa, tell)


def _edges(axis: int) -> Reason:
    def reason(builder: TextBuilder, view: View, qa: QA) -> object:
        """Write both edges of a thing, and the distance between them."""
        frame = view.frames[0]
        ends = []

        def tell(builder: TextBuilder, thing: int) -> object:
            low, high = view.boxes[frame][thing][axis::2]
            ends.append((builder.numbers(thing, frame, low, high), int(high - low)))
            return builder

        _write_each(builder, view, qa, tell)
        source, spread = ends[0]
        return builder.copy(spread, source, soft=True)

    return reason


def _write_distance(builder: TextBuilder, view: View, qa: QA) -> object:
    """The middles of two things along an axis, and the distance between them."""
    axis = 1 if UPRIGHT.search(qa.text) else 0
    frame = view.frames[0]
    middles = []

    def tell(builder: TextBuilder, thing: int) -> object:
        middle = view.middle(thing, frame)[axis]
        middles.append((builder.numbers(thing, frame, middle), middle))
        return builder

    _write_each(builder, view, qa, tell)
    (first, low), (last, high) = middles[0], middles[-1]
    return builder.follow(abs(low - high), first, last, soft=True)


def _write_directions(builder: TextBuilder, view: View, qa: QA) -> object:
    """Write the motion of each thing: its first and last place, across and down."""

    def tell(builder: TextBuilder, thing: int) -> object:
        moved = view.scene.things[thing]
        stretch = builder.way(view, thing)
        if not moved.is_moving:
            builder.spans_by_word[STILL] = stretch
        return builder

    return _outcome(_write_each(builder, view, qa, tell), view, qa)


def _steps(builder: TextBuilder, view: View, qa: QA) -> object:
    """Write the first and last place of each thing along each axis, and the distance; the frames in
    between, and the distance from the first frame to the last.
    """

    def tell(builder: TextBuilder, thing: int) -> tuple[tuple[int, int], float]:
        one, frames = view.scene.things[thing], view.scene.frames - 1
        across = one.dx * frames * CANVAS / view.scene.width
        down = one.dy * frames * CANVAS / view.scene.height
        first, last = view.clear_ends(thing)
        sources = []
        for axis in (0, 1):
            source, moved = _write_movement(builder, view, thing, axis, (first, last))
            start = len(builder.add(" ").text)
            builder.copy(moved, source, soft=True)
            sources.append((start, len(builder.text)))
            builder.add(" ")
        sources.append(builder.numbers(thing, last, last - first))
        path = min(round(math.hypot(across, down)), CANVAS)
        start = len(builder.add(" ").text)
        builder.follow(path, *sources, soft=True)
        return (start, len(builder.text)), path

    return _best(builder, view, qa, tell)


def _write_movement(
    builder: TextBuilder, view: View, thing: int, axis: int, frames: tuple[int, int]
) -> tuple[tuple[int, int], int]:
    """Write where a thing is in two frames along an axis; their stretch, and the distance."""
    first, last = (view.middle(thing, frame)[axis] for frame in frames)
    return builder.ends(view, thing, axis, frames), abs(first - last)


def _path(builder: TextBuilder, view: View, qa: QA) -> object:
    """Write the first and last place of a thing along an axis, and the distance between."""
    axis = 1 if UPRIGHT.search(qa.text) else 0
    moved = []

    def tell(builder: TextBuilder, thing: int) -> object:
        moved.append(_write_movement(builder, view, thing, axis, view.ends(thing)))
        return builder

    _write_each(builder, view, qa, tell)
    source, path = moved[0]
    return builder.copy(path, source, soft=True)


def _write_visible(end: int) -> Reason:
    def reason(builder: TextBuilder, view: View, qa: QA) -> object:
        """Write the first (or last) frame in which each thing is in sight: the earliest is best."""

        def tell(builder: TextBuilder, thing: int) -> tuple[tuple[int, int], float]:
            frame = view.ends(thing)[end]
            start = len(builder.text)
            builder.add(frame, thing=thing, frame=frame)
            return (start, len(builder.text)), -frame

        return _best(builder, view, qa, tell)

    return reason


def _write_appearances(builder: TextBuilder, view: View, qa: QA) -> object:
    """Write the things that come into the image, with the frame, in order, and their number."""

    def first(thing: int) -> tuple[int, int]:
        return view.ends(thing)[0], thing

    for place, thing in enumerate(sorted({thing for thing, _ in qa.named}, key=first)):
        frame, _ = first(thing)
        builder.add(", " if place else "")
        builder.add(name(view.scene.things[thing]), thing=thing, frame=_clearest(view, thing))
        builder.add(" ").add(frame, thing=thing, frame=frame)
    return _outcome(builder.add(": "), view, qa)


def _write_counted(builder: TextBuilder, view: View, qa: QA) -> object:
    """The places of the things counted, one after the other, and their number."""
    frame = view.frames[0]
    for place, thing in enumerate(view.in_order({thing for thing, _ in qa.named}, frame)):
        builder.add(", " if place else "")
        builder.numbers(thing, frame, *view.middle(thing, frame))
    return _outcome(builder.add(": "), view, qa)


REASONS: Mapping[str, Reason] = {
    "relation": _places,
    "relation4": _corner,
    "nearest": _gaps,
    "extreme": _write_furthest,
    "depth": _places,
    "exists": _places,
    "colour": _places,
    "shape": _places,
    "size": _extents,
    "largest": _extents,
    "count": _write_counted,
    "count_choice": _write_counted,
    "width": _edges(0),
    "height": _edges(1),
    "distance": _write_distance,
    "direction": _write_directions,
    "speed": _steps,
    "order": _write_visible(0),
    "order3": _write_visible(0),
    "leaves": _write_visible(1),
    "end_relation": _last_places,
    "path": _path,
    "enter_count": _write_appearances,
}
"""Functions that write the reasoning before the answer, by the kind of question."""

SIZES_HELD: Mapping[str, Reason] = {"size": _extents_held, "largest": _extents_held}
"""Functions for sizes where each is compared with the best so far."""
