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

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from harness.models.grammar import Item, ask_for_frame
from harness.models.visionreasoner import grammar
from harness.types import Box
from harness.world.language import SIZE_WORDS, Question
from harness.world.scene import Thing
from pocket_training.vlm.views import View

WAYS = (("still", "right", "left"), ("still", "down", "up"))
"""Words for motions across and down: for none, ahead and back."""
COORDINATE = re.compile(r"(?<=[\[ ])\d+")

T = TypeVar("T")
Stretch: TypeAlias = tuple[int, int]
"""The characters from `start` up to `end` of a text."""


class Span(NamedTuple):
    """A stretch of a response and its subject."""

    start: int
    end: int
    thing: int | None  # that the network must look at to write it
    frame: int
    soft: bool  # a measured number: a near miss is nearly right


class CopiedSpan(NamedTuple):
    """A stretch of a response that repeats, or follows from, an earlier text."""

    start: int
    end: int
    source: Stretch  # of the prompt (`in_prompt`) or of the response
    in_prompt: bool


class TrainingExample(NamedTuple):
    """One request and the response to it."""

    prompt: str
    response: str
    spans: Sequence[Span]
    copies: Sequence[CopiedSpan]
    targets: Sequence[int]
    """Things that the question is about; for motions, all among which the one is looked for."""
    learned_from: int = 0
    """Index of the response's character from which on it is learned; before, it is given."""
    options: Sequence[Stretch] = ()
    """Stretches of the prompt that are the words of its options, in the order of their letters."""


class ResponseBuilder:
    """A response about a view in progress, with the subjects of its parts."""

    def __init__(self, view: View, text: str) -> None:
        self.view, self.text = view, text
        self.spans: list[Span] = []
        self.copies: list[CopiedSpan] = []
        self.spans_by_word: dict[str, Stretch] = {}
        """Stretches of text about a thing, by its words; of a motion, the last such stretch."""

    def add(
        self,
        text: object,
        *sources: Stretch,
        in_prompt: bool = False,
        thing: int | None = None,
        frame: int = 0,
        soft: bool = False,
    ) -> Stretch:
        """Append a text that repeats, or follows from, each of the earlier stretches `sources`."""
        start, self.text = len(self.text), f"{self.text}{text}"
        end = len(self.text)
        self.copies += [CopiedSpan(start, end, source, in_prompt) for source in sources]
        if thing is not None or soft:
            self.spans.append(Span(start, end, thing, frame, soft))
        return start, end

    def listed(self, values: Iterable[T], separator: str = ", ") -> Iterator[T]:
        """Yield values, with a separator written between what is written of them."""
        for place, value in enumerate(values):
            self.add(separator if place else "")
            yield value

    def numbers(self, thing: int, frame: int, *numbers: float) -> Stretch:
        """Append measured numbers about a thing in a frame."""
        start = len(self.text)
        for number in self.listed(numbers, " "):
            self.add(int(number), thing=thing, frame=frame, soft=True)
        return start, len(self.text)

    def ends(self, thing: int, axis: int, frames: tuple[int, int]) -> Stretch:
        """Append a thing's places along an axis in two frames."""
        start = len(self.text)
        for frame in self.listed(frames, " "):
            self.numbers(thing, frame, self.view.middle(thing, frame)[axis])
        return start, len(self.text)

    def way(self, thing: int) -> Stretch:
        """Append a thing's motion: across, down, and its entry or exit."""
        start, view = len(self.text), self.view
        moved = view.scene.things[thing]
        for axis, speed in self.listed(enumerate((moved.dx, moved.dy)), " "):
            source = self.ends(thing, axis, view.clear_ends(thing))
            word = WAYS[axis][(speed > 0) - (speed < 0)]
            self.add(" ")
            self.spans_by_word[word] = self.add(word, source)
        first, last = view.ends(thing)
        self.add(" in" if first > view.frames[0] else "")
        self.add(" out" if last < view.frames[-1] else "")
        return start, len(self.text)


def name(thing: Thing) -> str:
    """Return the name of a thing in reasoning: size, colour and shape."""
    return f"{SIZE_WORDS[thing.size]} {thing.colour} {thing.shape}"


def locate_example(
    view: View,
    question: Question,
    *,
    frame: int | None = None,
    numbered: Sequence[int] = (),
    named: int | None = None,
) -> TrainingExample:
    """Return the lesson for a question about places, in a still or a video.

    Of a question for motions, reasoning goes through the ways of all that have the name.

    Args:
        view: The view of the scene.
        question: The question.
        frame: Of a video, the frame that the response names; one of the view's.
        numbered: Of a video, the numbers that the frames go by in the request.
        named: Another thing that the reasoning speaks of: then the answer is that thing, and only
            what follows the reasoning is learned. It teaches to answer what the reasoning says.
    """
    shown = view.frames[0] if frame is None else frame
    things = view.in_order(question.referents if named is None else (named,), shown)
    names = [name(thing) for thing in view.scene.things]
    prompt = ask_for_frame(numbered) + grammar.build_prompt(question.text)
    it = ResponseBuilder(view, "" if frame is None else "<frame>")
    if frame is not None:
        place = view.frames.index(frame)
        start = prompt.index(", ".join(map(str, numbered)))
        start += sum(len(f"{number}, ") for number in numbered[:place])
        number = str(numbered[place])
        it.add(number, (start, start + len(number)), in_prompt=True)
        it.add("</frame>")
    it.add("<think>")
    described: dict[int, Stretch] = {}
    if question.among:
        for thing in it.listed(view.in_order(question.among, shown)):
            start, _ = it.add(names[thing], thing=thing, frame=shown)
            it.add(" ")
            source = it.way(thing)
            it.add(" ")
            it.add("yes" if thing in question.referents else "not", source)
            described[thing] = start, len(it.text)
        it.add(": ")
    if question.kind in ("count", "absent"):
        it.add(question.label or "none")
    else:
        for thing in it.listed(things):
            sources = [described[thing]] if thing in described else []
            it.add(names[thing], *sources, thing=thing, frame=shown)
    learned_from = len(it.text) if named is not None else 0
    items = [
        Item(Box(*map(float, view.boxes[shown][thing])), view.pixel_inside(thing, shown))
        for thing in things
    ]
    start, _ = it.add(grammar.write(items).removeprefix("<think>"))
    for place, match in enumerate(COORDINATE.finditer(it.text, start)):
        thing = things[place // 6]  # four numbers of a box, two of a point
        it.spans.append(Span(*match.span(), thing, shown, soft=True))
    targets = question.among or things
    return TrainingExample(prompt, it.text, it.spans, it.copies, targets, learned_from)
