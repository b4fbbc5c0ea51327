"""Letters of right options: every letter equally often, in an order that nobody can guess."""

from dataclasses import dataclass, field

from harness.world.draws import Draws
from stv_builder.drafts import Choice

EIGHT_LETTERS = "ABCDEFGH"


@dataclass(slots=True)
class Letters:
    """Deals out the places of right options: shuffled blocks that have each place once.

    Questions of one kind with equally many options share a sequence, so that after any number of
    them the counts of their letters differ by one at most.
    """

    seed: int
    dealt: dict[tuple[str, int], int] = field(default_factory=dict)

    def place(self, kind: str, count: int) -> int:
        """The place of the next right option among `count`."""
        number = self.dealt.get((kind, count), 0)
        self.dealt[kind, count] = number + 1
        block, within = divmod(number, count)
        return Draws(self.seed, "stv", "letters", kind, count, block).shuffle(range(count))[within]

    def options(self, kind: str, choice: Choice, draws: Draws) -> tuple[list[str], str]:
        """(options with their letters, the right letter); the wrong ones are drawn and shuffled.

        All sets of wrong options must be equally likely: then, given the options, each is right
        with the same chance, and they tell nothing without the video.
        """
        texts = draws.shuffle(choice.wrong)[: choice.offered]
        place = self.place(kind, len(texts) + 1)
        texts.insert(place, choice.right)
        lettered = [f"{letter}. {text}" for letter, text in zip(EIGHT_LETTERS, texts, strict=False)]
        return lettered, EIGHT_LETTERS[place]
