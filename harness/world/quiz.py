"""A question with options or a number as its answer (`QA`), and helpers for generators of such.

The generators are in `qa_looks`, `qa_places` and `qa_video`; `qa` draws from their questions.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from string import ascii_uppercase
from types import MappingProxyType
from typing import TypeAlias

from harness.errors import HarnessError
from harness.world.draws import Draws
from harness.world.language import Noun, nouns
from harness.world.referring import names
from harness.world.scene import Scene

MIN_SHOWN, MAX_SHOWN = 3, 4
"""Number of things to choose from, where there are more than two."""
MIN_PERCENT = 5
"""Least percentage that is asked for: in a smaller one, a pixel would change too much."""

Named: TypeAlias = tuple[int, str]
"""Index into the scene's things, and the words that name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QA:
    """A question about a scene with its one right answer."""

    kind: str
    """Name of the question's generator, for breakdowns: `relation`, `colour`, `order`, …"""
    text: str
    """The question, without its options."""
    options: tuple[str, ...] = ()
    """Texts in the order of their letters A, B, …; empty where the answer is a number."""
    answer: str | float
    """The text of the right option, or the number."""
    named: tuple[Named, ...]
    """Things that the question names, each once, in the order of text and options."""

    def __post_init__(self) -> None:
        fits = self.answer in self.options if self.options else not isinstance(self.answer, str)
        if not fits or len(set(self.options)) < len(self.options):
            raise HarnessError(
                f"question {self.text!r}",
                expected="different options, one of them right, or a number",
                found=f"{self.options}, {self.answer!r}",
            )

    @property
    def is_number(self) -> bool:
        """True if the answer is a number, and no option."""
        return not self.options

    @property
    def letter(self) -> str:
        """The letter of the right option; a question for a number has none (HarnessError)."""
        if self.is_number or not isinstance(self.answer, str):
            raise HarnessError(
                f"question {self.text!r}", expected="options", found="a question for a number"
            )
        return ascii_uppercase[self.options.index(self.answer)]


QAGenerator: TypeAlias = Callable[[Scene], Iterator[QA]]
"""Yields every unambiguous question of one kind that a scene allows, in a fixed order."""

NO_THINGS: Mapping[str, int] = MappingProxyType({})  # no option names a thing


def choice(
    scene: Scene,
    kind: str,
    text: str,
    *,
    answer: str,
    others: Iterable[str],
    named: Sequence[Named] = (),
    by_option: Mapping[str, int] = NO_THINGS,
) -> QA:
    """Return a question with options in a random order, drawn from scene, text and options.

    Args:
        scene: The scene of the question.
        kind: The name of the generator.
        text: The question.
        answer: The right option.
        others: The wrong options; the right one may be among them.
        named: The things that the text names, in its order.
        by_option: Indices of things by the options that name them.
    """
    wrong = tuple(option for option in others if option != answer)
    draws = Draws(scene.seed, scene.id, "options", kind, text, answer, *wrong)
    options = tuple(draws.shuffle((answer, *wrong)))
    words_by_thing = dict(named)
    for option in options:
        if option in by_option:
            words_by_thing.setdefault(by_option[option], option)
    return QA(
        kind=kind, text=text, options=options, answer=answer, named=tuple(words_by_thing.items())
    )


def pick(
    scene: Scene,
    kind: str,
    text: str,
    *,
    answer: str,
    group: Sequence[Named],
    named: Sequence[Named] = (),
) -> QA:
    """Return a question whose options are the words of things in `group`."""
    by_option = {words: index for index, words in group}
    return choice(
        scene, kind, text, answer=answer, others=by_option, named=named, by_option=by_option
    )


def in_random_order(scene: Scene, what: str, pair: Sequence[Named]) -> tuple[Named, Named]:
    """Return a pair in a random order: the first thing is the right answer as often as the second.

    `what` names the stream of draws.
    """
    indices = sorted(index for index, _ in pair)
    first, second = Draws(scene.seed, scene.id, what, *indices).shuffle(sorted(pair))
    return first, second


def groups(named_things: Sequence[Named]) -> Iterator[tuple[Named, ...]]:
    """Yield all sets of four things; of three things this set; of fewer nothing."""
    if len(named_things) >= MIN_SHOWN:
        yield from combinations(named_things, min(MAX_SHOWN, len(named_things)))


def percent(kind: str, text: str, amount: int, total: int, *named: Named) -> Iterator[QA]:
    """Yield a question for `amount` / `total` in percent, rounded, unless below `MIN_PERCENT`."""
    value = (200 * amount + total) // (2 * total)
    if value >= MIN_PERCENT:
        yield QA(kind=kind, text=text, answer=float(value), named=named)


def called(scene: Scene) -> tuple[Named, ...]:
    """Return the things that their shape, or colour and shape, identifies, in order of index."""
    return tuple((index, noun.words()) for index, noun in sorted(names(scene).items()))


def identified_by(scene: Scene, *, by: str) -> tuple[tuple[int, Noun], ...]:
    """Return the things that one attribute, `shape` or `colour`, identifies, with its noun."""
    return tuple(
        (members[0], noun)
        for noun, members in nouns(scene)
        if len(members) == 1 and noun.attribute_count == 1 and getattr(noun, by) is not None
    )
