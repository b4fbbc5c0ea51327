"""Lessons for questions with answers in words: the reasoning before the answer, by kind."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from string import ascii_uppercase
from typing import TypeAlias

from harness.types import AnswerForm, Query
from harness.world.qa import QA
from harness.world.qa_video import MOTIONS
from harness.world.referring import DIRECTIONS
from pocket_training.vlm.training_examples import ResponseBuilder, Stretch, TrainingExample, name
from pocket_training.vlm.views import View
from pocket_training.vlm.vocabulary import CANVAS, WORDS

STILL = MOTIONS[0, 0]
"""Option for a thing that does not move."""
UPRIGHT = re.compile("top to bottom|up or down")
"""Pattern of questions for a distance along the vertical axis."""


def in_words(view: View, qa: QA, *, compare_sizes: bool = False) -> TrainingExample:
    """A question that is answered with a letter or a number.

    Args:
        view: The view of the scene.
        qa: The question.
        compare_sizes: Each size too is compared with the best so far, instead of a list of all
            and then the outcome. The list was not learned: sizes were right, the outcome a guess.
    """
    form = AnswerForm.NUMBER if qa.is_number else AnswerForm.CHOICE
    query = Query(id="", text=qa.text, media=(), forms=(form,), options=qa.options)
    prompt = WORDS.render(query, form)
    options, end = [], prompt.index(qa.text) + len(qa.text)
    for letter, option in zip(ascii_uppercase, qa.options, strict=False):
        line = f"\n{letter}. {option}"
        end = prompt.index(line, end) + len(line)
        options.append((end - len(option), end))
    it = Reasoning(view, qa)
    it.reason(compare_sizes=compare_sizes)
    it.add("</think><answer>")
    if qa.is_number:
        it.outcome()
    else:
        it.add(qa.letter, options[ascii_uppercase.index(qa.letter)], in_prompt=True)
    it.add("</answer>")
    targets = list(dict(qa.named))
    return TrainingExample(prompt, it.text, it.spans, it.copies, targets, options=options)


class Reasoning(ResponseBuilder):
    """The reasoning about a question, in progress."""

    def __init__(self, view: View, qa: QA) -> None:
        super().__init__(view, "<think>")
        self.qa, self.frame = qa, view.frames[0]
        self.axis = int(UPRIGHT.search(qa.text) is not None)
        """The axis of a question for a distance."""

    def reason(self, *, compare_sizes: bool) -> None:
        """Write what comes before the answer: facts of each thing, and the outcome."""
        kind, view = self.qa.kind, self.view
        named = list(dict.fromkeys(self.qa.named))  # each once, and its words
        if kind == "nearest":  # to the first one
            (first, words), *named = named
            self.subject(first, words)
            _middle(self, first)
            self.add(", ")
        if kind in FACTS:
            compare = kind in COMPARED or (compare_sizes and kind in SIZES)
            facts = self.each(named, FACTS[kind], compare=compare)
        elif kind == "enter_count":  # the frame of each, in order
            coming = sorted((view.ends(thing)[0], thing) for thing in dict(named))
            for frame, thing in self.listed(coming):
                self.subject(thing, name(view.scene.things[thing]))
                self.add(frame, thing=thing, frame=frame)
        else:  # the places of what is counted
            for thing in self.listed(view.in_order(dict(named), self.frame)):
                _middle(self, thing)
        self.add(": ")
        if kind in LENGTHS:
            (source, number), (other, far) = facts[0], facts[-1]
            if kind == "distance":
                self.add(abs(number - far), source, other, soft=True)
            else:
                self.add(number, source, soft=True)
        elif kind == "relation4":
            self.corner()
        else:
            self.outcome()

    def outcome(self) -> None:
        """Write the answer; names that the reasoning has are copied from there."""
        names = str(self.qa.answer).split(", ")
        if self.qa.is_number:
            self.add(round(float(self.qa.answer)), soft=self.qa.kind in LENGTHS)
        elif not all(one in self.spans_by_word for one in names):
            self.add(self.qa.answer)
        else:
            for one in self.listed(names):
                self.add(one, self.spans_by_word[one])

    def subject(self, thing: int, words: str) -> None:
        """Write what a thing is called, while looking at the frame in which most of it is seen."""
        frames = self.view.frames
        middle = frames[len(frames) // 2]  # of equal frames the one nearest to it
        areas = {frame: int(self.view.masks[frame][thing].sum()) for frame in frames}
        clearest = max(frames, key=lambda frame: (areas[frame], -abs(frame - middle)))
        self.add(words, thing=thing, frame=clearest)
        self.add(" ")

    def each(
        self, named: Sequence[tuple[int, str]], tell: "Tell", *, compare: bool
    ) -> "list[Fact]":
        """Write `star 40, circle 80 best, cross 12 not`: each thing with its fact, and compared
        with the best so far.
        """
        facts: list[Fact] = []
        holder, best = "", ((0, 0), 0)
        for thing, words in self.listed(named):
            start = len(self.text)
            self.subject(thing, words)
            stretch, value = tell(self, thing)
            better = not facts
            if compare and facts:
                settled = self.qa.answer in (words, holder)  # rounding never decides otherwise
                better = self.qa.answer == words if settled else value > best[1]
                self.add(" ")
                self.add("best" if better else "not", best[0], stretch)
            facts.append((stretch, value))
            if better:
                holder, best = words, facts[-1]
            self.spans_by_word[words] = start, len(self.text)
        return facts

    def corner(self) -> None:
        """Write, after two places, `40 80 left 62 30 lower: lower left`, one axis at a time."""
        numbers = [(span.start, span.end) for span in self.spans if span.soft]
        down, across = str(self.qa.answer).split()
        for axis, word in self.listed(enumerate((across, down)), " "):
            start = len(self.text)
            for number in self.listed(numbers[axis::2], " "):
                self.add(self.text[slice(*number)], number, soft=True)
            source = start, len(self.text)
            self.add(" ")
            self.spans_by_word[word] = self.add(word, source)
        self.add(": ")
        for word in self.listed((down, across), " "):
            self.add(word, self.spans_by_word[word])


Fact: TypeAlias = tuple[Stretch, int]
"""Stretch of the number that decides, and the number; the greatest is the best."""
Tell: TypeAlias = Callable[[Reasoning, int], Fact]
"""Writes a fact about a thing."""


def _middle(it: Reasoning, thing: int, *, last: bool = False) -> Fact:
    """Write the middle, in the first frame or at the end."""
    frame = it.view.ends(thing)[1] if last else it.frame
    return it.numbers(thing, frame, *it.view.middle(thing, frame)), 0


def _place(it: Reasoning, thing: int) -> Fact:
    """Write the place along the axis of a distance."""
    place = it.view.middle(thing, it.frame)[it.axis]
    return it.numbers(thing, it.frame, place), place


def _furthest(it: Reasoning, thing: int) -> Fact:
    """Write the place along the axis of the direction that is asked for."""
    direction = next(one for one in DIRECTIONS if one.far in it.qa.text)
    place = it.view.middle(thing, it.frame)[direction.axis]
    return it.numbers(thing, it.frame, place), place * direction.sign


def _gap(it: Reasoning, thing: int) -> Fact:
    """Write the place, and the distance from the first thing that the question names."""
    _middle(it, thing)
    places = (it.view.middle(one, it.frame) for one in (thing, it.qa.named[0][0]))
    gap = min(round(math.dist(*places)), CANVAS)
    it.add(" ")
    return it.numbers(thing, it.frame, gap), -gap


def _extent(it: Reasoning, thing: int) -> Fact:
    """Write width and height, and the side of a square as large as the visible part."""
    left, top, right, bottom = it.view.boxes[it.frame][thing]
    side = round(math.sqrt(float(it.view.masks[it.frame][thing].mean())) * CANVAS)
    it.numbers(thing, it.frame, right - left, bottom - top)
    it.add(" ")
    asks_for_small = "small" in it.qa.text.split(", ")[0]
    return it.numbers(thing, it.frame, side), -side if asks_for_small else side


def _edges(it: Reasoning, thing: int) -> Fact:
    """Write both edges along the axis of a size; the number is the distance between them."""
    low, high = it.view.boxes[it.frame][thing][("width", "height").index(it.qa.kind) :: 2]
    return it.numbers(thing, it.frame, low, high), int(high - low)


def _movement(it: Reasoning, thing: int) -> Fact:
    """Write the first and the last place along an axis; the number is the distance between."""
    return _moved(it, thing, it.axis, it.view.ends(thing))


def _moved(it: Reasoning, thing: int, axis: int, frames: tuple[int, int]) -> Fact:
    first, last = (it.view.middle(thing, frame)[axis] for frame in frames)
    return it.ends(thing, axis, frames), abs(first - last)


def _way(it: Reasoning, thing: int) -> Fact:
    """Write the motion: the first and last place, across and down."""
    stretch = it.way(thing)
    if not it.view.scene.things[thing].is_moving:
        it.spans_by_word[STILL] = stretch
    return stretch, 0


def _steps(it: Reasoning, thing: int) -> Fact:
    """Write the first and last place along each axis, and the distance; the frames in between, and
    the distance from the first frame to the last.
    """
    scene, (first, last) = it.view.scene, it.view.clear_ends(thing)
    one = scene.things[thing]
    sources = []
    for axis in (0, 1):
        source, moved = _moved(it, thing, axis, (first, last))
        it.add(" ")
        sources.append(it.add(moved, source, soft=True))
        it.add(" ")
    sources.append(it.numbers(thing, last, last - first))
    across = one.dx * (scene.frames - 1) * CANVAS / scene.width
    down = one.dy * (scene.frames - 1) * CANVAS / scene.height
    path = min(round(math.hypot(across, down)), CANVAS)
    it.add(" ")
    return it.add(path, *sources, soft=True), path


def _visible(it: Reasoning, thing: int, *, end: int) -> Fact:
    """Write the first (or last) frame in which the thing is in sight: the earliest is best."""
    frame = it.view.ends(thing)[end]
    return it.add(frame, thing=thing, frame=frame), -frame


SIZES = ("size", "largest")
COMPARED = ("nearest", "extreme", "speed", "order", "order3", "leaves")
"""Kinds of questions for whose answer each thing is compared with the best so far."""
LENGTHS = ("width", "height", "distance", "path")
"""Kinds that are answered with a length, in hundredths of the image's side: facts hold it, or the
two numbers that it lies between."""
FACTS: Mapping[str, Tell] = {
    **dict.fromkeys(("relation", "relation4", "depth", "exists", "colour", "shape"), _middle),
    **dict.fromkeys(SIZES, _extent),
    "direction": _way,
    "end_relation": partial(_middle, last=True),
    "nearest": _gap,
    "extreme": _furthest,
    "speed": _steps,
    **dict.fromkeys(("order", "order3"), partial(_visible, end=0)),
    "leaves": partial(_visible, end=1),
    "width": _edges,
    "height": _edges,
    "distance": _place,
    "path": _movement,
}
"""Functions that write the facts of each thing, by the kind of question."""
