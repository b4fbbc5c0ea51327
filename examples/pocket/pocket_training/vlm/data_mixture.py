"""Choice of the scenes and questions of a training step.

A pure function of (seed, step): whichever process draws it, and however often.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from harness.models.pocket.model import MAX_FRAMES
from harness.world.backgrounds import draw_background
from harness.world.families import draw_scene, wanted_count
from harness.world.language import Noun, Question, nouns
from harness.world.qa import KINDS_OF_QA
from harness.world.questions import KINDS, how_many
from harness.world.reasoning import extremes, likenesses, odd_ones, riddles
from harness.world.referring import attributes, relations, superlatives
from harness.world.scene import COLOURS, COMBINATIONS, HELD_OUT, RGB, Scene
from pocket_training.vlm.lessons import Lesson, in_words, locate_example
from pocket_training.vlm.trainer import Stage
from pocket_training.vlm.views import View

T = TypeVar("T")
Chance: TypeAlias = np.random.Generator

TWICE = (attributes, relations, superlatives, riddles)
STILL = (*(kind for kind in TWICE for _ in range(2)), likenesses, odd_ones, extremes)
VIDEO = KINDS["video"]
"""Questions about stills and clips, as often as they are drawn."""

STILLS = ("still", "qa", "qa", "referring", "referring")
IMAGES = ("referring", "still", "count")
CLIPS = ("video", "video", "qa_video", "arrivals", "arrivals")
"""Families of stills, with questions and without, and of clips, each as often as it is drawn."""

COMING = re.compile(r"\b(picture|view)\b")  # in questions about things that come or leave
SEEN = tuple(one for one in COMBINATIONS if one not in HELD_OUT)
LONGEST_VIDEO = 300  # frames; their numbers go up to this
NAMED_APART, GROUND_APART = 80, 56
"""Distance, in at least one channel, of a colour without a name from every named colour and from
the background's."""
RECOLOURED = 0.7
"""Share of the things that have a colour without a name, in images that nothing is asked about: a
thing's shape and size must not be guessed from its colour, as not all combinations are shown."""
MAX_SHOWN = 16  # things in an image that nothing is asked about
MIDDLE = 4  # the frame that responses name, if it shows enough
COUNTS, VIDEOS = 2, 2  # stills to count in, and clips, in one half of a step
SEEN_FIRST = 1, 40, 0, 1
"""Stills, images without questions, stills to count in and clips, instead of the stage's, while
mainly the vision tower learns."""
LESSONS, COUNT_LESSONS = 4, 3  # of each image or clip, and of each still to count in
ABSENT = 0.03  # share of the lessons for places whose subject is not there
COUNTED = 0.5  # share of the counting lessons about the most frequent things, as in benchmarks
SIZED = 0.3  # share of them that distinguish things by size, where a scene allows it


class DrawnScene(NamedTuple):
    """One image or clip, with the lessons drawn from it."""

    view: View
    examples: Sequence[Lesson] = ()


def draw_half(stage: Stage, part: float, *, seed: int, step: int) -> dict[str, list[DrawnScene]]:
    """Draw half a step's scenes by the kind of batch, when a part of the training is done.

    Stills have at most about as many things as the stage says; all clips have as many frames.
    """
    limit = stage.max_things(part)
    stills, images, counts, videos = stage.stills, stage.images, COUNTS, VIDEOS
    if part < stage.see_until:
        stills, images, counts, videos = SEEN_FIRST
    start, length = 0, MAX_FRAMES
    common = np.random.default_rng([seed, 3, step])
    whole = bool(common.random() < 0.75)
    if not whole:
        length = int(common.integers(2, MAX_FRAMES))
        start = int(common.integers(0, MAX_FRAMES - length + 1))
    drawn: dict[str, list[DrawnScene]] = {"stills": [], "counts": [], "clips": []}

    def chances(number: int, kind: int) -> Iterator[Chance]:
        return (np.random.default_rng([seed, kind, step, place]) for place in range(number))

    for chance in chances(stills, 1):
        view = View(_scene(chance, STILLS, limit))
        drawn["stills"].append(DrawnScene(view, [*_examples(chance, view, stage)]))
    for chance in chances(images, 5):
        scene = _scene(chance, IMAGES, MAX_SHOWN)
        view = View(scene, (0,), _unnamed_colours(chance, scene) if stage.fine else {})
        drawn["stills"].append(DrawnScene(view))
    for chance in chances(counts, 2):
        view = View(_scene(chance, ("count",), limit + 6))
        drawn["counts"].append(DrawnScene(view, [*_count_examples(chance, view)]))
    for chance in chances(videos, 4):
        scene = _scene(chance, CLIPS if whole else ("video",), 8)
        view = View(scene, range(start, start + length))
        drawn["clips"].append(DrawnScene(view, [*_examples(chance, view, stage, whole=whole)]))
    return drawn


def _scene(chance: Chance, families: Sequence[str], max_things: int) -> Scene:
    """A scene of the training split; of a few, the first one with few enough things."""
    family = _pick(chance, families)
    for _ in range(6):
        index = int(chance.integers(0, 2**31))
        scene = draw_scene(0, family=family, split="train", index=index)
        if len(scene.things) <= max_things:
            break
    return scene


def _unnamed_colours(chance: Chance, scene: Scene) -> dict[int, RGB]:
    """Colours without a name for a part of the things, none near the background's."""
    ground = draw_background(scene.background, width=scene.width, height=scene.height)
    taken = np.array([*COLOURS.values(), ground.reshape(-1, 3).mean(0)])
    apart = np.array([NAMED_APART] * len(COLOURS) + [GROUND_APART])
    fills = {}
    for index in np.flatnonzero(chance.random(len(scene.things)) < RECOLOURED):
        fill = chance.integers(0, 256, 3)
        while (np.abs(taken - fill).max(1) < apart).any():
            fill = chance.integers(0, 256, 3)
        red, green, blue = fill.tolist()
        fills[int(index)] = red, green, blue
    return fills


def _examples(chance: Chance, view: View, stage: Stage, *, whole: bool = True) -> Iterator[Lesson]:
    """Yield lessons about a still or a clip.

    Part of a clip is not asked about in words, nor for what comes or leaves.
    """
    scene, is_video = view.scene, len(view.frames) > 1
    questions = cache(lambda kind: tuple(kind(scene)))

    def of_one_kind(kinds: Sequence[Callable[[Scene], Iterable[T]]]) -> Sequence[T]:
        """Return all questions of a random kind that the scene has any of."""
        order = (kinds[place] for place in chance.permutation(len(kinds)))
        return next(filter(None, map(questions, order)), ())

    for _ in range(LESSONS):
        asked_in_words = whole and chance.random() < stage.words
        if asked_in_words and (qas := of_one_kind([*KINDS_OF_QA[scene.family].values()])):
            answer = _pick(chance, list(dict.fromkeys(one.answer for one in qas)))
            qa = _pick(chance, [one for one in qas if one.answer == answer])
            yield in_words(view, qa, compare_sizes=not stage.fine)
        elif (
            not is_video
            and chance.random() < ABSENT
            and (absent := _absent_question(chance, view)) is not None
        ):
            yield locate_example(view, absent)
        elif options := of_one_kind(VIDEO if is_video else STILL):
            question = _reworded(chance, _pick(chance, options))
            if not is_video:
                named = _another_thing(chance, view, question, stage.swapped)
                yield locate_example(view, question, named=named)
            elif (frame := named_frame(view, question)) is not None and (
                whole or not COMING.search(question.texts[0])
            ):
                # The frames' own numbers, or those of frames spread over a long video.
                numbered: Sequence[int] = range(len(view.frames))
                if chance.random() >= 0.5:
                    drawn = chance.choice(LONGEST_VIDEO, len(view.frames), replace=False)
                    numbered = sorted(drawn.tolist())
                yield locate_example(view, question, frame=frame, numbered=numbered)


def _count_examples(chance: Chance, view: View) -> Iterator[Lesson]:
    wanted = wanted_count(view.scene)
    output = [one for one in nouns(view.scene) if one[0].attribute_count]
    for _ in range(COUNT_LESSONS):
        sized = chance.random() < SIZED
        options = [one for one in output if (one[0].size is not None) == sized] or output
        counts = sorted({len(members) for _, members in options})
        is_wanted = wanted in counts and chance.random() < COUNTED
        # Else every count is as likely as any other that the scene offers.
        count = wanted if is_wanted else _pick(chance, counts)
        noun, members = _pick(chance, [one for one in options if len(one[1]) == count])
        yield locate_example(view, _reworded(chance, how_many(noun, members)))


def _absent_question(chance: Chance, view: View) -> Question | None:
    """A phrase for a thing that nothing in the scene could be taken for.

    As often as such things are seen in training: else what is seldom there would be taught to be
    never there.
    """
    for _ in range(4):
        shape, colour, _size = _pick(chance, SEEN)
        noun = Noun(shape, colour)
        if not any(map(noun.could_fit, view.scene.things)):
            text = f"the {noun.words()}"
            return Question(kind="absent", texts=(text,), is_sentence=False, referents=())
    return None


def _another_thing(chance: Chance, view: View, question: Question, part: float) -> int | None:
    """Return, in a share of the lessons about one thing, another thing with a unique name."""
    if len(question.referents) > 1 or chance.random() >= part:
        return None
    unique = [index for index, own in enumerate(view.names) if view.names.count(own) == 1]
    others = [index for index in unique if index not in question.referents]
    return _pick(chance, others) if others else None


def _reworded(chance: Chance, question: Question) -> Question:
    """The question in one of its wordings, more often in its own."""
    if chance.random() < 0.6:
        return question
    return replace(question, texts=(_pick(chance, question.texts),))


def named_frame(view: View, question: Question) -> int | None:
    """The frame that a response names: near the middle, and showing as much as can be of all."""
    best, limit = None, 0.0
    shares = view.areas / np.maximum(view.areas.max(0), 1)
    least = shares[:, list(question.referents)].min(1)
    for frame in sorted(range(len(least)), key=lambda frame: (abs(frame - MIDDLE), frame % 2)):
        if least[frame] > limit + 0.25:
            best, limit = frame, least[frame]
    return best


def _pick(chance: Chance, options: Sequence[T]) -> T:
    return options[int(chance.integers(len(options)))]
