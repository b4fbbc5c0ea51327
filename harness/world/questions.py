"""Questions about a scene, chosen by its own draws from all that it allows.

A new kind of question is a generator (see `harness.world.language`) and its name in `KINDS`.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

from harness.world.draws import Draws
from harness.world.families import wanted_count
from harness.world.language import Generator, Noun, Question, nouns
from harness.world.motion import motions, speeds
from harness.world.reasoning import extremes, likenesses, odd_ones, riddles
from harness.world.referring import attributes, relations, superlatives
from harness.world.scene import Scene

Asks: TypeAlias = Literal["single", "several", "reasoning"]
ASKS: tuple[Asks, ...] = get_args(Asks)
REASONED = ("riddle", "likeness", "odd_one", "extreme")
"""Kinds of questions that do not name their referent."""


def counts(scene: Scene) -> Iterator[Question]:
    """`How many red circles are there in this image?`, of the number drawn for the scene."""
    wanted = wanted_count(scene)
    for noun, members in nouns(scene):
        if len(members) == wanted:
            yield how_many(noun, members)


def how_many(noun: Noun, members: tuple[int, ...]) -> Question:
    """Return the question for the number of things that a noun fits, `members`."""
    label = noun.words(plural=True)
    return Question(
        kind="count",
        texts=(
            f"How many {label} are there in this image?",
            f"How many {label} can be seen in this image?",
            f"What is the number of {label} in this image?",
        ),
        is_sentence=True,
        referents=members,
        label=label,
    )


KINDS: Mapping[str, tuple[Generator, ...]] = MappingProxyType(
    {
        "still": (
            *(attributes, relations, relations, superlatives),
            *(riddles, riddles, likenesses, odd_ones, extremes),
        ),
        "video": (motions, motions, motions, speeds, attributes),
        "count": (counts,),
        "countbench": (counts,),
        "referring": (
            *(attributes, relations, superlatives),
            *(riddles, likenesses, odd_ones, extremes),
        ),
    }
)
"""Generators by the family of scenes; one that is listed twice is drawn twice as often."""


def every_question(scene: Scene) -> list[Question]:
    """All questions that the scene allows, each once."""
    return [question for kind in dict.fromkeys(KINDS[scene.family]) for question in kind(scene)]


def ask_questions(scene: Scene, *, number: int = 1) -> tuple[Question, ...]:
    """Choose up to `number` questions with different texts; fewer where a scene allows no more.

    For each it is drawn whether to ask a sentence or a phrase, then which kind, then which one.
    Scenes of `referring` are asked for one thing, for several, or by a question to reason about,
    each once in three scenes (`ask_kind`).
    """
    draws = Draws(scene.seed, scene.family, scene.split, scene.index, "questions")
    chosen: dict[str, Question] = {}
    while len(chosen) < number:
        question = _draw_question(draws, scene, set(chosen))
        if question is None:
            break
        chosen[question.text] = question
    return tuple(chosen.values())


def _draw_question(draws: Draws, scene: Scene, taken: AbstractSet[str]) -> Question | None:
    """Draw a question of the form, or the reference type, whose turn it is, or else another."""
    if scene.family == "referring":
        block, place = divmod(scene.index, len(ASKS))
        wanted = Draws(scene.seed, scene.family, scene.split, "asks", block).shuffle(ASKS)[place]
    else:
        sentence = draws.chance(1, 2)
    for strict in (True, False):
        for kind in draws.shuffle(KINDS[scene.family]):
            options = [question for question in kind(scene) if question.text not in taken]
            if scene.family == "referring":
                options = [
                    question for question in options if not strict or ask_kind(question) == wanted
                ]
            else:
                options = [
                    question for question in options if (question.is_sentence == sentence) == strict
                ]
            if options:
                return draws.choice(options)
    return None


def ask_kind(question: Question) -> Asks:
    """Return the reference type: one thing, several things, or a thing that must be reasoned out.

    The referent of a question that needs reasoning may be one thing or several.
    """
    if question.kind in REASONED:
        return "reasoning"
    return "several" if question.count > 1 else "single"


def wordings_of(question: Question, scene: Scene) -> tuple[str, ...]:
    """One to three wordings of a question, its own among them, as training data has them."""
    draws = Draws(scene.seed, scene.family, scene.split, scene.index, "wordings", question.text)
    number = draws.integer_between(1, min(3, len(question.texts)))
    others = draws.shuffle(question.texts[1:])[: number - 1]
    return (question.text, *others)
