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
from collections.abc import Sequence
from dataclasses import dataclass

from harness.models.grammar import Item, ask_for_frame
from harness.models.visionreasoner import grammar
from harness.types import Box
from harness.world.language import SIZE_WORDS, Question
from harness.world.scene import Thing
from pocket_training.vlm.views import View

WAYS = (("still", "right", "left"), ("still", "down", "up"))
"""Words for motions across and down: for none, ahead and back."""
COORDINATE = re.compile(r"(?<=[\[ ])\d+")


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a response and its subject."""

    start: int
    end: int
    thing: int | None
    """Index of the thing that the network must look at to write it."""
    frame: int
    soft: bool
    """A measured number: a near miss is nearly right."""


@dataclass(frozen=True, slots=True)
class CopiedSpan:
    """A stretch of a response that repeats, or follows from, an earlier text."""

    start: int
    end: int
    source: tuple[int, int]
    """Stretch of the earlier text: of the prompt, or of the response."""
    in_prompt: bool = False


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """One request and the response to it."""

    prompt: str
    response: str
    spans: tuple[Span, ...]
    targets: tuple[int, ...]
    """Things that the question is about; for motions, all among which the one is looked for."""
    learned_from: int = 0
    """Index of the response's character from which on it is learned; before, it is given."""
    copies: tuple[CopiedSpan, ...] = ()
    """Places in the text that the network must attend to."""
    options: tuple[tuple[int, int], ...] = ()
    """Stretches of the prompt that are the words of its options, in the order of their letters."""


class TextBuilder:
    """A text in progress, with the subjects of its parts."""

    def __init__(self) -> None:
        self.text = ""
        self.spans: list[Span] = []
        self.copies: list[CopiedSpan] = []
        self.spans_by_word: dict[str, tuple[int, int]] = {}
        """Stretches of text about a thing, by its words; of a motion, the last such stretch."""

    def add(
        self,
        text: object,
        *sources: tuple[int, int],
        in_prompt: bool = False,
        thing: int | None = None,
        frame: int = 0,
        soft: bool = False,
    ) -> "TextBuilder":
        """Append a text; it repeats, or follows from, each of the earlier stretches `sources`."""
        start = len(self.text)
        self.text += str(text)
        end = len(self.text)
        self.copies += [CopiedSpan(start, end, source, in_prompt) for source in sources]
        if thing is not None or soft:
            self.spans.append(Span(start, end, thing, frame, soft))
        return self

    def numbers(self, thing: int, frame: int, *numbers: float) -> tuple[int, int]:
        """Append measured numbers about a thing in a frame; returns their stretch."""
        start = len(self.text)
        for place, number in enumerate(numbers):
            self.add(" " if place else "")
            self.add(int(number), thing=thing, frame=frame, soft=True)
        return start, len(self.text)

    def ends(self, view: View, thing: int, axis: int, frames: tuple[int, int]) -> tuple[int, int]:
        """Append a thing's places along an axis in two frames; return their stretch."""
        first, last = frames
        start, _ = self.numbers(thing, first, view.middle(thing, first)[axis])
        _, end = self.add(" ").numbers(thing, last, view.middle(thing, last)[axis])
        return start, end

    def way(self, view: View, thing: int) -> tuple[int, int]:
        """Append a thing's motion: across, down, and its entry or exit; return its stretch."""
        begin, moved = len(self.text), view.scene.things[thing]
        for axis, speed in enumerate((moved.dx, moved.dy)):
            self.add(" " if axis else "")
            source = self.ends(view, thing, axis, view.clear_ends(thing))
            word = WAYS[axis][(speed > 0) - (speed < 0)]
            start = len(self.add(" ").text)
            self.add(word, source)
            self.spans_by_word[word] = start, len(self.text)
        first, last = view.ends(thing)
        self.add(" in" if first > view.frames[0] else "")
        self.add(" out" if last < view.frames[-1] else "")
        return begin, len(self.text)


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
    target = question.referents if named is None else (named,)
    things = view.in_order(target, shown)
    builder = TextBuilder()
    prompt = ask_for_frame(numbered) + grammar.build_prompt(question.text)
    if frame is not None:
        place = view.frames.index(frame)
        listed = _listed_span(prompt, numbered, place)
        builder.add("<frame>").add(numbered[place], listed, in_prompt=True).add("</frame>")
    builder.add("<think>")
    if question.kind in ("count", "absent"):
        builder.add(question.label or "none")
    else:
        spans_of_things = _descriptions(builder, view, question, shown) if question.among else {}
        for place, thing in enumerate(things):
            builder.add(", " if place else "")
            source = [spans_of_things[thing]] if thing in spans_of_things else []
            builder.add(name(view.scene.things[thing]), *source, thing=thing, frame=shown)
    learned_from = len(builder.text) if named is not None else 0
    items = [
        Item(Box(*map(float, view.boxes[shown][thing])), view.pixel_inside(thing, shown))
        for thing in things
    ]
    answer = grammar.write(items).removeprefix("<think>")
    start = len(builder.text)
    builder.add(answer)
    for place, match in enumerate(COORDINATE.finditer(answer)):
        thing = things[place // 6]  # four numbers of a box, two of a point
        builder.spans.append(
            Span(start + match.start(), start + match.end(), thing, shown, soft=True)
        )
    return TrainingExample(
        prompt=prompt,
        response=builder.text,
        spans=tuple(builder.spans),
        targets=question.among or tuple(things),
        learned_from=learned_from,
        copies=tuple(builder.copies),
    )


def _descriptions(
    builder: TextBuilder, view: View, question: Question, shown: int
) -> dict[int, tuple[int, int]]:
    """Write the motion of each of some things and its relevance; return the stretches of text."""
    spans_of_things = {}
    for place, thing in enumerate(view.in_order(question.among, shown)):
        start = len(builder.add(", " if place else "").text)
        builder.add(name(view.scene.things[thing]), thing=thing, frame=shown)
        source = builder.add(" ").way(view, thing)
        builder.add(" ").add("yes" if thing in question.referents else "not", source)
        spans_of_things[thing] = start, len(builder.text)
    builder.add(": ")
    return spans_of_things


def _listed_span(prompt: str, numbered: Sequence[int], place: int) -> tuple[int, int]:
    """Return the stretch of the request that lists the number of a frame."""
    before = ", ".join(map(str, numbered[:place])) + (", " if place else "")
    start = prompt.index(", ".join(map(str, numbered))) + len(before)
    return start, start + len(str(numbered[place]))
