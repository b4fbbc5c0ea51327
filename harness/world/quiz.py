"""Questions with a short answer: options to choose from, or a number.

The generators are in `qa_looks`, `qa_places` and `qa_video`; `qa` draws from them.
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
"""Below it a pixel more or less would change too much of a number in percent."""

Named: TypeAlias = tuple[int, str]
"""Index into the scene's things, and the words that name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QA:
    """A question about a scene with its one right answer."""

    kind: str
    """The generator that made it, for breakdowns: `relation`, `colour`, `order`, …"""
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

NOBODY: Mapping[str, int] = MappingProxyType({})


def choice(
    scene: Scene,
    kind: str,
    text: str,
    *,
    answer: str,
    others: Iterable[str],
    named: Sequence[Named] = (),
    shown: Mapping[str, int] = NOBODY,
) -> QA:
    """A question with options, whose order the scene, the text and the options decide.

    Args:
        scene: The scene of the question.
        kind: The name of the generator.
        text: The question.
        answer: The right option.
        others: The wrong ones; the right one among them is left out.
        named: The things that the text names, in its order.
        shown: The things that options name, by the option.
    """
    wrong = tuple(option for option in others if option != answer)
    draws = Draws(scene.seed, scene.id, "options", kind, text, answer, *wrong)
    options = tuple(draws.shuffle((answer, *wrong)))
    spoken = dict(named)
    for option in options:
        if option in shown:
            spoken.setdefault(shown[option], option)
    return QA(kind=kind, text=text, options=options, answer=answer, named=tuple(spoken.items()))


def pick(
    scene: Scene,
    kind: str,
    text: str,
    *,
    answer: str,
    group: Sequence[Named],
    named: Sequence[Named] = (),
) -> QA:
    """A question whose options are the words of things."""
    shown = {words: index for index, words in group}
    return choice(scene, kind, text, answer=answer, others=shown, named=named, shown=shown)


def in_random_order(scene: Scene, what: str, pair: Sequence[Named]) -> tuple[Named, Named]:
    """A pair in the order in which it is named: neither place is that of the right one."""
    indices = sorted(index for index, _ in pair)
    first, second = Draws(scene.seed, scene.id, what, *indices).shuffle(sorted(pair))
    return first, second


def groups(things: Sequence[Named]) -> Iterator[tuple[Named, ...]]:
    """All sets of four of the things, or all three where there are no more."""
    if len(things) >= MIN_SHOWN:
        yield from combinations(things, min(MAX_SHOWN, len(things)))


def percent(kind: str, text: str, part: int, whole: int, *named: Named) -> Iterator[QA]:
    """A question for `part` in percent of `whole`, rounded; none where it is below five."""
    value = (200 * part + whole) // (2 * whole)
    if value >= MIN_PERCENT:
        yield QA(kind=kind, text=text, answer=float(value), named=named)


def called(scene: Scene) -> tuple[Named, ...]:
    """The things that shape, or colour and shape, single out, with these words; by their index."""
    return tuple((index, noun.words()) for index, noun in sorted(names(scene).items()))


def sole(scene: Scene, *, by: str) -> tuple[tuple[int, Noun], ...]:
    """The things that one attribute alone, `shape` or `colour`, singles out."""
    return tuple(
        (members[0], noun)
        for noun, members in nouns(scene)
        if len(members) == 1 and noun.attribute_count == 1 and getattr(noun, by) is not None
    )
