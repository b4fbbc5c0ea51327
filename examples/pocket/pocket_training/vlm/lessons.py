"""Scenes to lessons: a request, the response to learn, and the subject of each part of it.

Responses are in the grammar in which pocket is evaluated. Reasoning names the referents before
their places; for comparisons it gives the two things, their places, and the outcome.

    <think>small red circle</think><answer>[{"bbox_2d": […], "point_2d": […]}]</answer>
    <think>red circle 40 62, blue square 120 80: left</think><answer>B</answer>

A referent that is identified by its motion is searched among all things with the name: pocket's
image tokens encode places well, but motions hardly. A word of motion directly follows the two
numbers that it compares, and `yes` or `not` then states whether the thing is a referent.

    <think>small red star 40 80 right 62 62 still yes, large red star 20 20 still 90 91 still not:
    small red star</think>…
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from string import ascii_uppercase
from typing import TypeAlias, TypeVar

from harness.models.grammar import Item, ask_for_frame
from harness.models.questions import Questions
from harness.models.visionreasoner import grammar
from harness.types import AnswerForm, Box, Query
from harness.world.language import Question
from harness.world.qa import QA
from harness.world.qa_video import MOTION_WORDS
from harness.world.referring import DIRECTIONS
from pocket_training.vlm.views import CANVAS, CELLS, View

WORDS = Questions(package="harness.models.pocket")
IMAGE, VIDEO = "<|image_pad|>", "<|video_pad|>"
TOKENS = CELLS * CELLS  # image tokens of a frame, or of two of a clip

WAYS = (("still", "right", "left"), ("still", "down", "up"))
"""Words for motions across and down: for none, ahead and back."""
STILL = MOTION_WORDS[0, 0]  # option for a thing that does not move
COORDINATE = re.compile(r"(?<=[\[ ])\d+")
UPRIGHT = re.compile("top to bottom|up or down")  # in questions for a distance along the height

SIZES = ("size", "largest")
COMPARED = ("nearest", "extreme", "speed", "order", "order3", "leaves")
"""Kinds of questions for whose answer each thing is compared with the best so far."""
LENGTHS = ("width", "height", "distance", "path")
"""Kinds that are answered with a length, in hundredths of the image's side: facts hold it, or the
two numbers that it lies between."""

T = TypeVar("T")
Stretch: TypeAlias = tuple[int, int]
"""The characters from `start` up to `end` of a lesson's text."""
Subject: TypeAlias = tuple[int, int]
"""A thing, and a frame in which the network must look at it."""
Fact: TypeAlias = tuple[Stretch, int]
"""Stretch of the number that decides, and the number; the greatest is the best."""


class Lesson:
    """A chat about a view: the request, and a response in progress."""

    def __init__(self, view: View, prompt: str) -> None:
        seen = (IMAGE if len(view.frames) == 1 else VIDEO) * (len(view.frames[::2]) * TOKENS)
        self.view = view
        self.text = (
            f"<|im_start|>user\n{prompt}<|vision_start|>{seen}<|vision_end|><|im_end|>\n"
            "<|im_start|>assistant\n"
        )
        self.begin = self.learned_from = len(self.text)  # of the response; before, it is given
        self.spans: list[tuple[Stretch, Subject | None, bool]] = []
        """Stretches about subjects; True for measured numbers: a near miss is nearly right."""
        self.copies: list[tuple[Stretch, Stretch]] = []
        """Stretches that repeat, or follow from, an earlier one."""
        self.options: list[Stretch] = []
        """The words of the options, in the order of their letters."""
        self.targets: Sequence[int] = ()
        """Things that the question is about; for motions, all among which one is looked for."""
        self.told: dict[str, Stretch] = {}
        """Stretches in which things were described, by their words; of a motion, the last one."""

    @property
    def response(self) -> str:
        """The response as far as it is written."""
        return self.text[self.begin :]

    def add(
        self,
        text: object,
        *sources: Stretch,
        subject: Subject | None = None,
        soft: bool = False,
        before: str = "",
    ) -> Stretch:
        """Append a text that repeats, or follows from, each of the earlier stretches `sources`."""
        start = len(self.text) + len(before)
        self.text += f"{before}{text}"
        stretch = start, len(self.text)
        self.copies += [(stretch, source) for source in sources]
        if subject is not None or soft:
            self.spans.append((stretch, subject, soft))
        return stretch

    def listed(self, values: Iterable[T], separator: str = ", ") -> Iterator[T]:
        """Yield values, with a separator written between what is written of them."""
        for place, value in enumerate(values):
            self.add(separator if place else "")
            yield value

    def numbers(self, subject: Subject, *numbers: float) -> Stretch:
        """Append measured numbers about a thing in a frame."""
        start = len(self.text)
        for number in self.listed(numbers, " "):
            self.add(int(number), subject=subject, soft=True)
        return start, len(self.text)

    def moved(self, thing: int, axis: int, frames: tuple[int, int]) -> tuple[Stretch, int]:
        """Append a thing's places along an axis in two frames; return them and their distance."""
        start = len(self.text)
        first, last = (self.view.middle(thing, frame)[axis] for frame in frames)
        for frame, place in self.listed(zip(frames, (first, last), strict=True), " "):
            self.numbers((thing, frame), place)
        return (start, len(self.text)), abs(first - last)

    def way(self, thing: int) -> Stretch:
        """Append a thing's motion: across, down, and its entry or exit."""
        start, view = len(self.text), self.view
        moving = view.scene.things[thing]
        for axis, speed in self.listed(enumerate((moving.dx, moving.dy)), " "):
            source, _ = self.moved(thing, axis, view.ends(thing, clear=True))
            word = WAYS[axis][(speed > 0) - (speed < 0)]
            self.told[word] = self.add(word, source, before=" ")
        first, last = view.ends(thing)
        self.add(" in" if first > 0 else "")
        self.add(" out" if last < len(view.frames) - 1 else "")
        return start, len(self.text)


def locate_example(
    view: View,
    question: Question,
    *,
    frame: int | None = None,
    numbered: Sequence[int] = (),
    named: int | None = None,
) -> Lesson:
    """Return the lesson for a question about places, in a still or a video.

    Of a question for motions, reasoning goes through the ways of all that have the name.

    Args:
        view: The view of the scene.
        question: The question.
        frame: The frame of a video that the response names.
        numbered: The numbers that a video's frames go by in the request.
        named: Another thing that the reasoning names, and the answer is; only what follows the
            reasoning is learned. It teaches to answer what the reasoning says.
    """
    shown = frame or 0
    things = view.in_order(question.referents if named is None else (named,), shown)
    it = Lesson(view, ask_for_frame(numbered) + grammar.build_prompt(question.text))
    it.targets = question.among or things
    if frame is not None:
        start = it.text.index(", ".join(map(str, numbered)))
        start += sum(len(f"{number}, ") for number in numbered[:frame])
        it.add("<frame>")
        it.add(numbered[frame], (start, start + len(str(numbered[frame]))))
        it.add("</frame>")
    it.add("<think>")
    described: dict[int, Stretch] = {}
    if question.among:
        for thing in it.listed(view.in_order(question.among, shown)):
            start, _ = it.add(view.names[thing], subject=(thing, shown))
            it.add(" ")
            way = it.way(thing)
            it.add("yes" if thing in question.referents else "not", way, before=" ")
            described[thing] = start, len(it.text)
        it.add(": ")
    if question.kind in ("count", "absent"):
        it.add(question.label or "none")
    else:
        for thing in it.listed(things):
            sources = [described[thing]] if thing in described else []
            it.add(view.names[thing], *sources, subject=(thing, shown))
    if named is not None:
        it.learned_from = len(it.text)
    items = [
        Item(Box(*map(float, view.boxes[shown, thing])), view.pixel_inside(thing, shown))
        for thing in things
    ]
    start, _ = it.add(grammar.write(items).removeprefix("<think>"))
    for place, match in enumerate(COORDINATE.finditer(it.text, start)):
        thing = things[place // 6]  # four numbers of a box, two of a point
        it.spans.append((match.span(), (thing, shown), True))
    return it


def in_words(view: View, qa: QA, *, compare_sizes: bool = False) -> Lesson:
    """Return the lesson for a question that is answered with a letter or a number.

    If `compare_sizes`, each size too is compared with the best so far, instead of a list of all and
    then the outcome. The list was not learned: sizes were right, the outcome a guess.
    """
    form = AnswerForm.NUMBER if qa.is_number else AnswerForm.CHOICE
    query = Query(id="", text=qa.text, media=(), forms=(form,), options=qa.options)
    it = Reasoning(view, qa, WORDS.render(query, form))
    end = it.text.index(qa.text) + len(qa.text)
    for letter, option in zip(ascii_uppercase, qa.options, strict=False):
        line = f"\n{letter}. {option}"
        end = it.text.index(line, end) + len(line)
        it.options.append((end - len(option), end))
    it.add("<think>")
    it.reason(compare_sizes=compare_sizes)
    it.add("</think><answer>")
    if qa.is_number:
        it.outcome()
    else:
        it.add(qa.letter, it.options[ascii_uppercase.index(qa.letter)])
    it.add("</answer>")
    return it


class Reasoning(Lesson):
    """A lesson for a question that is answered in words."""

    def __init__(self, view: View, qa: QA, prompt: str) -> None:
        super().__init__(view, prompt)
        self.qa, self.targets = qa, [thing for thing, _ in qa.named]

    def reason(self, *, compare_sizes: bool) -> None:
        """Write what comes before the answer: facts of each thing, and the outcome."""
        kind, view = self.qa.kind, self.view
        named: Sequence[tuple[int, str]] = self.qa.named
        facts: Sequence[Fact] = ()
        if kind == "nearest":  # to the first one
            (first, words), *named = named
            self.subject(first, words)
            self.middle(first)
            self.add(", ")
        if kind == "enter_count":  # the frame of each, in order
            coming = sorted((view.ends(thing)[0], thing) for thing in self.targets)
            for frame, thing in self.listed(coming):
                self.subject(thing, view.names[thing])
                self.add(frame, subject=(thing, frame))
        elif kind in ("count", "count_choice"):  # the places of what is counted
            for thing in self.listed(view.in_order(self.targets)):
                self.middle(thing)
        else:
            compared = (*COMPARED, *SIZES) if compare_sizes else COMPARED
            facts = self.each(named, compare=kind in compared)
        self.add(": ")
        if kind == "distance":
            (here, place), (there, other) = facts
            self.add(abs(place - other), here, there, soft=True)
        elif kind in LENGTHS:
            ((source, number),) = facts
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
        elif not all(one in self.told for one in names):
            self.add(self.qa.answer)
        else:
            for one in self.listed(names):
                self.add(one, self.told[one])

    def corner(self) -> None:
        """Write, after two places, `40 80 left 62 30 lower: lower left`, one axis at a time."""
        numbers = [stretch for stretch, _, soft in self.spans if soft]
        down, across = str(self.qa.answer).split()
        for axis, word in self.listed(enumerate((across, down)), " "):
            start = len(self.text)
            for number in self.listed(numbers[axis::2], " "):
                self.add(self.text[slice(*number)], number, soft=True)
            self.told[word] = self.add(word, (start, len(self.text)), before=" ")
        self.add(": ")
        for word in self.listed((down, across), " "):
            self.add(word, self.told[word])

    def each(self, named: Sequence[tuple[int, str]], *, compare: bool) -> Sequence[Fact]:
        """Write each thing with its fact, as in `star 40, circle 80 best, cross 12 not`.

        If they are compared, each is held against the best so far.
        """
        facts: list[Fact] = []
        for thing, words in self.listed(named):
            start = len(self.text)
            self.subject(thing, words)
            fact = self.fact(thing)
            if not facts:
                holder, best = words, fact
            elif compare:
                settled = self.qa.answer in (words, holder)  # rounding never decides otherwise
                better = self.qa.answer == words if settled else fact[1] > best[1]
                self.add("best" if better else "not", best[0], fact[0], before=" ")
                holder, best = (words, fact) if better else (holder, best)
            facts.append(fact)
            self.told[words] = start, len(self.text)
        return facts

    def subject(self, thing: int, words: str) -> None:
        """Write what a thing is called, while looking at the frame in which most of it is seen."""
        areas = self.view.areas[:, thing].tolist()
        middle = len(areas) // 2  # of equal frames the one nearest to it
        clearest = max(range(len(areas)), key=lambda one: (areas[one], -abs(one - middle)))
        self.add(words, subject=(thing, clearest))
        self.add(" ")

    def middle(self, thing: int) -> Stretch:
        """Write the middle of a thing in the first frame."""
        return self.numbers((thing, 0), *self.view.middle(thing))

    def fact(self, thing: int) -> Fact:
        """Write what decides about a thing."""
        view, qa, first = self.view, self.qa, (thing, 0)
        middle, box = view.middle(thing), view.boxes[0, thing].tolist()
        axis = int(UPRIGHT.search(qa.text) is not None)
        match qa.kind:
            case "order" | "order3" | "leaves":  # the first or last frame in which it is in sight
                frame = view.ends(thing)[qa.kind == "leaves"]
                return self.add(frame, subject=(thing, frame)), -frame
            case "end_relation":
                frame = view.ends(thing)[1]
                return self.numbers((thing, frame), *view.middle(thing, frame)), 0
            case "direction":
                way = self.way(thing)
                if not view.scene.things[thing].is_moving:
                    self.told[STILL] = way
                return way, 0
            case "path":
                return self.moved(thing, axis, view.ends(thing))
            case "speed":
                return self.path(thing)
            case "distance":
                return self.numbers(first, middle[axis]), middle[axis]
            case "extreme":
                direction = next(one for one in DIRECTIONS if one.far in qa.text)
                place = middle[direction.axis]
                return self.numbers(first, place), place * direction.sign
            case "width" | "height":  # both edges
                low, high = box[qa.kind == "height" :: 2]
                return self.numbers(first, low, high), high - low
            case "size" | "largest":  # and the side of a square as large as the visible part
                side = round(math.sqrt(float(view.masks[0, thing].mean())) * CANVAS)
                self.numbers(first, box[2] - box[0], box[3] - box[1])
                self.add(" ")
                small = "small" in qa.text.split(", ")[0]
                return self.numbers(first, side), -side if small else side
            case "nearest":  # and the distance from the first thing that the question names
                gap = min(round(math.dist(middle, view.middle(qa.named[0][0]))), CANVAS)
                self.middle(thing)
                self.add(" ")
                return self.numbers(first, gap), -gap
        return self.middle(thing), 0

    def path(self, thing: int) -> Fact:
        """Write how far a thing moves along each axis, in how many frames, and in the whole clip.

        A distance follows its two places; the last one is from the first frame to the last.
        """
        scene, (first, last) = self.view.scene, self.view.ends(thing, clear=True)
        sources = []
        for axis in (0, 1):
            source, moved = self.moved(thing, axis, (first, last))
            sources.append(self.add(moved, source, soft=True, before=" "))
            self.add(" ")
        sources.append(self.numbers((thing, last), last - first))
        across = scene.things[thing].dx * (scene.frames - 1) * CANVAS / scene.width
        down = scene.things[thing].dy * (scene.frames - 1) * CANVAS / scene.height
        path = min(round(math.hypot(across, down)), CANVAS)
        return self.add(path, *sources, soft=True, before=" "), path
