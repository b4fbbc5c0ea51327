"""Chooses questions about a scene whose answers are masks, boxes or counts, for tasks on shapes.

To add a kind of question, write a generator (`harness.world.language.Generator`) and put it into
`KINDS`.
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
REASONING_KINDS = ("riddle", "likeness", "odd_one", "extreme")
"""Kinds of questions that do not name their referent."""


def count_questions(scene: Scene) -> Iterator[Question]:
    """`How many red circles are there in this image?`, if the count is that drawn for the scene."""
    n_wanted = wanted_count(scene)
    for noun, members in nouns(scene):
        if len(members) == n_wanted:
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
        "count": (count_questions,),
        "countbench": (count_questions,),
        "referring": (
            *(attributes, relations, superlatives),
            *(riddles, likenesses, odd_ones, extremes),
        ),
    }
)
"""Generators by the family of scenes; one that is listed twice is drawn twice as often."""


def every_question(scene: Scene) -> list[Question]:
    """Return all questions that the scene allows, each once."""
    return [
        question for generate in dict.fromkeys(KINDS[scene.family]) for question in generate(scene)
    ]


def ask_questions(scene: Scene, *, number: int = 1) -> tuple[Question, ...]:
    """Choose up to `number` questions with different texts; fewer if a scene allows no more.

    For each question first its form is drawn (sentence or phrase), then its kind, then one of that
    kind. In scenes of `referring` the reference type (`ask_kind`) takes the form's place: each of
    the three has its turn once in three scenes.
    """
    draws = Draws(scene.seed, scene.family, scene.split, scene.index, "questions")
    chosen: dict[str, Question] = {}
    while len(chosen) < number:
        question = _draw_question(draws, scene, set(chosen))
        if question is None:
            break
        chosen[question.text] = question
    return tuple(chosen.values())


def _draw_question(draws: Draws, scene: Scene, used_texts: AbstractSet[str]) -> Question | None:
    """Draw a question of the form, or the reference type, whose turn it is, or else another."""
    if scene.family == "referring":
        round_, index = divmod(scene.index, len(ASKS))
        wanted_kind = Draws(scene.seed, scene.family, scene.split, "asks", round_).shuffle(ASKS)[
            index
        ]
    else:
        sentence = draws.chance(1, 2)
    for strict in (True, False):  # first questions of the wanted form or type, then others
        for generate in draws.shuffle(KINDS[scene.family]):
            options = [question for question in generate(scene) if question.text not in used_texts]
            if scene.family == "referring":
                options = [
                    question
                    for question in options
                    if not strict or ask_kind(question) == wanted_kind
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
    if question.kind in REASONING_KINDS:
        return "reasoning"
    return "several" if question.count > 1 else "single"


def wordings_of(question: Question, scene: Scene) -> tuple[str, ...]:
    """Return one to three wordings of a question, its own first, for training data."""
    draws = Draws(scene.seed, scene.family, scene.split, scene.index, "wordings", question.text)
    number = draws.integer_between(1, min(3, len(question.texts)))
    others = draws.shuffle(question.texts[1:])[: number - 1]
    return (question.text, *others)
