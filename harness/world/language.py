"""Names of things in a scene (`Noun`), and questions that refer to things (`Question`).

A noun is used only if a careful reader could not misunderstand it: the things that it *means*
(`matches`) must be all that it *could mean* (`could_fit`). "The rectangle" could also mean a
square, so it is not used in a scene with a square.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TypeAlias

from harness.world.scene import (
    COLOURS,
    SHAPES,
    SIZES,
    Colour,
    Combination,
    Scene,
    Shape,
    Size,
    Thing,
)

ALSO_CALLED: Mapping[Shape, tuple[Shape, ...]] = MappingProxyType(
    {"rectangle": ("square",), "square": ("rectangle", "diamond"), "diamond": ("square",)}
)
"""Other shapes that a person might call by a shape's name."""

SIZE_WORDS: Mapping[Size, str] = MappingProxyType(
    {"small": "small", "medium": "medium-sized", "large": "large"}
)

NUMBER_WORDS = (
    *("zero", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A text about a scene and the things that it refers to."""

    kind: str
    """Name of the question's generator, for breakdowns: `attributes`, `riddle`, `motion`, …"""
    texts: tuple[str, ...]
    """Wordings with one meaning; the first is the question's own."""
    is_sentence: bool
    """True for a full question; False for a phrase that names its referents."""
    referents: tuple[int, ...]
    """Indices into the scene's things, ascending; empty: nothing in the scene fits."""
    label: str = ""
    """Name of the counted things in the plural, for counting questions."""
    among: tuple[int, ...] = ()
    """In a question about motion: all things with the noun, the referents and those that move
    differently."""

    @property
    def text(self) -> str:
        """The wording that validation uses."""
        return self.texts[0]

    @property
    def count(self) -> int:
        """Number of things that the question refers to."""
        return len(self.referents)


Generator: TypeAlias = Callable[[Scene], Iterator[Question]]
"""Yields every unambiguous question of one kind that a scene allows, in a fixed order."""


@dataclass(frozen=True, slots=True)
class Noun:
    """Attributes in a thing's name; None leaves an attribute open."""

    shape: Shape | None = None
    colour: Colour | None = None
    size: Size | None = None

    def matches(self, thing: Thing | Combination) -> bool:
        """Return True if the noun names the thing."""
        return self.shape in (None, thing.shape) and self._fits_otherwise(thing)

    def could_fit(self, thing: Thing | Combination) -> bool:
        """Return True if a person could call the thing by this noun."""
        if self.matches(thing):
            return True
        near = self.shape is not None and thing.shape in ALSO_CALLED.get(self.shape, ())
        return near and self._fits_otherwise(thing)

    def _fits_otherwise(self, thing: Thing | Combination) -> bool:
        return self.colour in (None, thing.colour) and self.size in (None, thing.size)

    def members(self, scene: Scene) -> tuple[int, ...] | None:
        """Return the indices of the things that the noun names; None if it is ambiguous.

        A size is used only as a comparison: beside a `small` circle there must be a larger one,
        beside a `medium-sized` one both a smaller and a larger one.
        """
        possible = [index for index, thing in enumerate(scene.things) if self.could_fit(thing)]
        is_ambiguous = any(not self.matches(scene.things[index]) for index in possible)
        return None if is_ambiguous or not self._is_comparative(scene) else tuple(possible)

    def _is_comparative(self, scene: Scene) -> bool:
        """Return True if the size is true by comparison: "small" needs a larger thing."""
        if self.size is None:
            return True
        like = Noun(self.shape, self.colour)
        ranks = {SIZES.index(thing.size) for thing in scene.things if like.matches(thing)}
        own_rank = SIZES.index(self.size)
        has_smaller = any(rank < own_rank for rank in ranks)
        has_larger = any(rank > own_rank for rank in ranks)
        return (has_smaller or self.size == "small") and (has_larger or self.size == "large")

    def words(self, *, plural: bool = False) -> str:
        """Return the words, such as `small red circle` or `red objects`."""
        size = SIZE_WORDS[self.size] if self.size else ""
        return " ".join(filter(None, (size, self.colour, self.head(plural=plural))))

    def head(self, *, plural: bool = False) -> str:
        """Return the noun without attributes: `circle`, or `object` if the shape is open."""
        word = self.shape or "object"
        if not plural:
            return word
        return f"{word}es" if word.endswith("s") else f"{word}s"

    @property
    def attribute_count(self) -> int:
        """Number of attributes that the noun gives."""
        return sum(part is not None for part in (self.shape, self.colour, self.size))


@lru_cache(maxsize=16)
def nouns(scene: Scene) -> tuple[tuple[Noun, tuple[int, ...]], ...]:
    """Return every unambiguous noun with the indices of the things that it names.

    Nouns with fewer attributes come first; `object`, without any, is the very first.
    """
    phrases = {
        Noun(shape, colour, size)
        for thing in scene.things
        for shape in (None, thing.shape)
        for colour in (None, thing.colour)
        for size in (None, thing.size)
    }
    fitting = ((noun, noun.members(scene)) for noun in sorted(phrases, key=_rank))
    return tuple((noun, members) for noun, members in fitting if members)


def _rank(noun: Noun) -> tuple[int, int, int, int]:
    return (
        noun.attribute_count,
        SHAPES.index(noun.shape) if noun.shape else -1,
        tuple(COLOURS).index(noun.colour) if noun.colour else -1,
        SIZES.index(noun.size) if noun.size else -1,
    )
